"""Summaries and how they stand out -> what sets each client apart: `Odd`; what lies above its wire counts, too."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median

from nfslat.findings.catalogue import SLOTS
from nfslat.findings.client import SESSION_SLOTS
from nfslat.findings.server import THREADS
from nfslat.findings.words import ms, percent, times
from nfslat.fleet.compare.excess import LAYERS
from nfslat.fleet.compare.outliers import Standing
from nfslat.fleet.compare.summary import INFERRED, ClientSummary
from nfslat.fleet.model import CANNOT_TELL, Brief

CLIENT = "client"  # a kind beside `LAYERS`: above the wire
KINDS = (*LAYERS, CLIENT)
LAYER_OF = {"network": "network", "server": "server", "queue": "server", CLIENT: "client"}
WHERE = {"network": "on the network", "server": "in the server", "queue": "waiting for a thread of the server"}
MOST = 0.6  # of the clients: what they have in common is nobody's peculiarity
_FEWER = 0.75  # slots than others have calls in flight, where others are at a limit, too
_AT_LIMIT = ("slots", "likely slots", "slots or workers", "workers")
_MANY_AT_LIMIT = 0.2
_LEAST_ABOVE_MS, _LEAST_ABOVE, _LEAST_ABOVE_ALONE = 0.1, 0.10, 0.5
_KNOWN_OF = 3  # clients whose application's time is known, for one of them to stand out
_FEWER_SHARE = 0.05  # of its time; what explains less is no cause
_WORTH_SAYING, _TIMES_OTHERS = 0.001, 3  # share of bytes that are sent again


@dataclass(frozen=True)
class Odd:
    """A client that stands out in one way."""

    client: int
    name: str
    kind: str  # one of `KINDS`
    ms: float | None  # longer; None: packets do not show it
    own_ms: float | None
    typical_ms: float | None
    cause: str | None
    confidence: str
    windows: tuple[int, int] | None
    why: str  # one line

    @property
    def layer(self) -> str:
        """As the verdict names it."""
        return LAYER_OF[self.kind]


def odd_clients(clients: Sequence[ClientSummary], found: Sequence[Sequence[Standing]]) -> list[Odd]:
    """In the order of `clients`; of each the worst first."""
    quiet = [client for client, own in zip(clients, found, strict=True) if not own]
    usual = _usual_shares(quiet)
    again = median([one.sent_again_share or 0.0 for one in quiet]) if quiet else 0.0
    out: list[Odd] = []
    for row, (client, own) in enumerate(zip(clients, found, strict=True)):
        out += [_of_standing(client, one, usual, again) for one in own]
        others = [one for one in clients if one is not client]
        above = _above(client, others)
        slots = _slots(client, others, slow=bool(own))
        if slots is not None:
            confidence = "high" if slots.confidence == "certain" else "medium"
            out.append(
                Odd(row, client.name, CLIENT, above, None, None, slots.code, confidence, None, _keeps(client, slots))
            )
        elif above is not None:
            cause = next((one.code for one in client.findings if one.layer == CLIENT), None)
            why = f"its requests take {ms(above)} ms above the wire, on average"
            out.append(Odd(row, client.name, CLIENT, above, None, None, cause, "medium", None, why))
    return out


def slots_of(client: ClientSummary) -> Brief | None:
    """The finding that it is held by its slots."""
    return next((one for one in client.findings if one.code in SLOTS), None)


def above_ms(client: ClientSummary) -> float | None:
    """How much longer its application waits than its requests are on the wire, where that is known."""
    if client.application_ms is None or client.client_ms is None:
        return None
    return max(client.application_ms - client.client_ms.mean, 0.0)


def _of_standing(client: ClientSummary, one: Standing, usual: dict[str, float], usually_again: float) -> Odd:
    kind = LAYERS[one.layer]
    cause = _cause(client, kind, usual)
    why = f"{ms(one.ms)} ms longer {WHERE[kind]} ({ms(one.own_ms)}, where {ms(one.typical_ms)} ms are usual"
    why += f"; {cause})" if cause is not None else ")"
    if one.worse is not None:
        why += f", in {round(one.worse * one.cells)} of {one.cells} stretches of time"
    error_ms = client.error_ms(kind)
    if error_ms:
        why += f"; inferred, to +/- {ms(error_ms)} ms"
    again = client.sent_again_share or 0.0
    if kind == "network" and again >= max(_WORTH_SAYING, _TIMES_OTHERS * usually_again):
        why += f"; {percent(again)} of its TCP bytes are retransmitted"
    return Odd(
        one.client, client.name, kind, one.ms, one.own_ms, one.typical_ms, cause, one.confidence, one.windows, why
    )


def _usual_shares(clients: Sequence[ClientSummary]) -> dict[str, float]:
    """What each finding explains at the typical one of these clients."""
    codes = {one.code for client in clients for one in client.findings}
    shares = {
        code: [next((one.share or 0.0 for one in client.findings if one.code == code), 0.0) for client in clients]
        for code in codes
    }
    return {code: median(each) for code, each in shares.items()}


def _cause(client: ClientSummary, kind: str, usual: dict[str, float]) -> str | None:
    """The finding of its own report that explains most beyond what it explains at the others."""
    if kind == "queue":
        return THREADS
    able = [
        ((one.share or 0.0) - usual.get(one.code, 0.0), one.code)
        for one in client.findings
        if one.layer == LAYER_OF[kind] and one.code != THREADS
    ]
    more, code = max(able, default=(0.0, ""))
    if more >= _FEWER_SHARE:
        return code
    verdict = client.verdict
    if verdict is not None and verdict.largest_layer == LAYER_OF[kind] and verdict.cause != THREADS:
        return verdict.cause
    return None


def _slots(client: ClientSummary, others: Sequence[ClientSummary], *, slow: bool) -> Brief | None:
    """Its finding of slots, where the others do not have as few of them, or none that they would feel."""
    found = slots_of(client)
    if found is None:
        return None
    # Not because the packets tell it of this one, and of others, of which there is one capture, they do not.
    others = [one for one in others if one.state != INFERRED or one.slots_held != CANNOT_TELL]
    if others and sum(slots_of(one) is not None for one in others) >= MOST * len(others):
        return None
    limited = [one.in_flight_max for one in others if one.slots_held in _AT_LIMIT]
    if client.slots is None or len(limited) < _MANY_AT_LIMIT * len(others) or not limited:
        return None if slow else found  # of a slow client many calls are in flight for that alone
    return found if client.slots <= _FEWER * median(limited) else None


def _keeps(client: ClientSummary, found: Brief) -> str:
    if found.code != SESSION_SLOTS and found.confidence != "certain" and above_ms(client) is None:
        calls = times(client.slots, "call") if client.slots is not None else "few calls"
        return f"keeps {calls} in flight and hardly ever more: it has no more slots, or no more callers"
    slots = times(client.slots, "slot") if client.slots is not None else "few slots"
    why = f"keeps to {slots}: its requests wait above the wire"
    above = above_ms(client)
    if above is None or client.client_ms is None:
        return f"{why}, which packets do not show"
    return f"{why}, {ms(above)} ms beside {ms(client.client_ms.mean)} ms on it"


def _above(client: ClientSummary, others: Sequence[ClientSummary]) -> float | None:
    """Its time above the wire, where that is more than usual, or most of the time if it is not known what is usual."""
    own = above_ms(client)
    if own is None or client.client_ms is None or client.application_ms is None:
        return None
    known = [one for one in map(above_ms, others) if one is not None]
    if len(known) + 1 < _KNOWN_OF:
        return own if own >= _LEAST_ABOVE_ALONE * client.application_ms else None
    usual = median(known)
    spread = 1.4826 * median(abs(one - usual) for one in known)
    least = max(_LEAST_ABOVE_MS, _LEAST_ABOVE * client.application_ms, 4 * spread)
    return own if own - usual >= least else None
