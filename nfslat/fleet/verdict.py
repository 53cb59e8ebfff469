"""Patterns, the largest first -> the answer in two or three sentences, and how sure it is."""

from __future__ import annotations

from collections.abc import Sequence

from nfslat.findings.words import ms, percent
from nfslat.fleet.model import FleetVerdict, OpRow, Pattern
from nfslat.fleet.summary import BOTH, ClientSummary

_SENTENCES = 3
_GRADES = ("low", "medium", "high")
_MATCHED = 0.95
_FEW = 5  # clients, to say what is usual
_WEIGHTY = 0.05  # of the fleet's time: less is not where most of what can be explained arises


def verdict(patterns: Sequence[Pattern], clients: Sequence[ClientSummary], total: OpRow | None) -> FleetVerdict:
    """Of patterns in the order in which they are listed."""
    reasons, grade = _ground(clients)
    if len(clients) == 1:
        return _of_one(clients[0], reasons)
    if not patterns:
        return _nothing(clients, total, reasons, grade)
    leading = patterns[0]
    told = [one.text for one in patterns[:_SENTENCES]]
    more = len(patterns) - len(told)
    text = " ".join(told) + (f" And {more} more." if more else "")
    grade = min(grade, _GRADES.index(leading.confidence))
    if leading.confidence != "high":
        reasons.append(f"what adds most is itself of {leading.confidence} confidence")
    if leading.share is not None and leading.share < _WEIGHTY:
        reasons.append(f"it makes no more than {percent(leading.share)} of the time of all ops")
    return FleetVerdict(leading.layer, leading.cause, _GRADES[grade], text, reasons)


def _nothing(clients: Sequence[ClientSummary], total: OpRow | None, reasons: list[str], grade: int) -> FleetVerdict:
    both = sum(one.state == BOTH for one in clients)
    text = f"Nothing stands out: none of the {len(clients)} clients takes longer than the others"
    text += ", and nothing adds time for all of them." if clients else "."
    if total is not None:
        parts = {"server": total.server_ms.mean, "network": total.network_ms.mean}
        layer = max(parts, key=lambda name: parts[name])
        share = parts[layer] / total.client_ms.mean if total.client_ms.mean else 0.0
        text += (
            f" Their ops take {ms(total.client_ms.mean)} ms on average, of which {percent(share)} is the "
            f"{'server' if layer == 'server' else 'network'}'s."
        )
    if both < len(clients):
        reasons.append(f"{len(clients) - both} clients have no capture of their own: of their network nothing is known")
    return FleetVerdict("unknown", None, _GRADES[grade], text, reasons)


def _of_one(client: ClientSummary, reasons: list[str]) -> FleetVerdict:
    own = client.verdict
    if own is None:
        text = f"There is one client, {client.name}, and nothing to compare it with."
        return FleetVerdict("unknown", None, "low", text, reasons)
    return FleetVerdict(own.layer, own.cause, own.confidence, f"Of the only client: {own.text}", [*own.reasons])


def _ground(clients: Sequence[ClientSummary]) -> tuple[list[str], int]:
    """What the answer stands on, and the grade that this allows."""
    both = [one for one in clients if one.state == BOTH]
    reasons, grade = [f"{len(both)} clients are compared on both sides"], 2
    if len(both) < len(clients):
        reasons.append(f"of {len(clients) - len(both)} more the server's capture alone is there")
    ops, missed = sum(one.ops for one in both), sum(one.missed for one in both)
    if both and ops:
        matched = ops / (ops + missed)
        reasons.append(f"{percent(matched)} of their ops within the overlap are matched")
        grade = min(grade, 2 if matched >= _MATCHED else 1)
    if len(clients) < _FEW:
        reasons.append(f"of {len(clients)} clients it can hardly be said what is usual")
        grade = min(grade, 1)
    bad = [one.name for one in both if one.clock is not None and not one.clock.fits]
    if bad:
        reasons.append(f"the clocks of {len(bad)} clients cannot be understood")
        grade = min(grade, 1)
    return reasons, grade
