"""Patterns, the largest first -> outcome, layer, cause and next step, in a few sentences, and how sure that is."""

from __future__ import annotations

import shlex
from collections import Counter
from collections.abc import Sequence

from nfslat.answer.model import NextStep, Verdict
from nfslat.findings import steps
from nfslat.findings.catalogue import CODES, VAGUE, next_step, row
from nfslat.findings.server import UNKNOWN
from nfslat.findings.words import ms, percent, times
from nfslat.fleet.compare.common import LEAST_SHARE_OF_CLIENTS
from nfslat.fleet.compare.summary import BOTH, INFERRED, SERVER_ONLY, ClientSummary
from nfslat.fleet.model import Excess, FleetVerdict, OpRow, Pattern

_SENTENCES = 3
_GRADES = ("low", "medium", "high")
_MATCHED = 0.95
_COVERED = 0.8  # of a client's ops in the server's capture
_FEW = 5  # clients, to say what is usual
_PAIR = 2
_MUCH, _LEAST_MS, _MUCH_OF_ALL = 1.0, 0.1, 0.1  # beyond the typical time: of that, ms; and of the fleet's time
_MOST_OPEN = 0.5  # of the clients' own reports: so many undecided ones leave the fleet's open
_WEIGHTY = 0.05  # of the fleet's time: less is not where most of what can be explained arises


def verdict(
    patterns: Sequence[Pattern],
    clients: Sequence[ClientSummary],
    total: OpRow | None,
    excess: Sequence[Excess | None] = (),
    *,
    is_server_known: bool = True,
    untold: int = 0,
) -> FleetVerdict:
    """Of patterns in the order in which they are listed; `excess` of each client. `is_server_known`: its threads;
    `untold`: further clients, of which nothing is known."""
    reasons, grade = _ground(clients)
    if untold:
        reasons.append(f"nothing is known of {untold} of {len(clients) + untold} clients")
        grade = min(grade, 1)
    if len(clients) == 1:
        return _of_one(clients[0], reasons, untold)
    worst = _now_and_then(clients, excess)
    if not patterns and worst:
        return _unsteady(worst, len(clients), reasons, grade)
    if not patterns:
        return _nothing(clients, total, reasons, grade, untold)
    leading = patterns[0]
    told = [one.text for one in patterns[:_SENTENCES]]
    more = len(patterns) - len(told)
    text = " ".join(told) + (f" And {more} more." if more else "")
    if leading.clients and leading.inferred > (1 - _MATCHED) * len(leading.clients):
        reasons.append("what adds most rests on inferred times")
        grade = min(grade, 1)
    grade = min(grade, _GRADES.index(leading.confidence))
    if leading.confidence != "high":
        reasons.append(f"what adds most is itself of {leading.confidence} confidence")
    if leading.share is not None and leading.share < _WEIGHTY:
        reasons.append(f"it makes no more than {percent(leading.share)} of the time of all ops")
    layer = None if leading.layer == "unknown" else leading.layer
    vague = leading.cause in VAGUE
    # Whose it is shows by comparison, also where nothing says why. What all have is compared with nothing.
    fault = layer is not None and leading.confidence != "low" and (leading.scope != "all" or not vague)
    # What all have may be a wait for threads, which only the calls of all clients together tell.
    is_open = leading.scope == "all" and layer == "server" and not is_server_known
    if is_open:
        reasons.append("whether calls wait for a thread cannot be told: what the server did for all is not known")
    cause = leading.cause if leading.cause in CODES and not (fault and (vague or is_open)) else None
    code = UNKNOWN if is_open else cause
    step = None if code is None else row(code).next
    return FleetVerdict(
        "fault" if fault else "undecided",
        layer if fault else None,
        cause,
        _GRADES[grade if fault else 0],
        text if fault else f"Cannot tell yet why: {text}",
        None if fault and leading.confidence == "high" and cause else step or _own_report(leading.clients),
        layer,
        reasons,
    )


def _own_report(names: Sequence[str]) -> NextStep | None:
    """Of the first of those that are hit."""
    if not names:
        return None
    return NextStep(
        f"nfslat fleet --out RUN --show {shlex.quote(names[0])}",
        "here, with the folder of a run that had --out as RUN",
        f"what the operations of {names[0]} waited for: its own report",
        [],
    )


def _nothing(
    clients: Sequence[ClientSummary], total: OpRow | None, reasons: list[str], grade: int, untold: int
) -> FleetVerdict:
    both = sum(one.has_both for one in clients)
    if both < len(clients):
        missing = len(clients) - both
        reasons.append(
            f"{times(missing, 'client')} {'has' if missing == 1 else 'have'} no capture of their own: of their network "
            "nothing is known"
        )
    largest = None
    mean = ""
    if total is not None:
        parts = {"server": total.server_ms.mean, "network": total.network_ms.mean}
        largest = max(parts, key=lambda name: parts[name])
        share = parts[largest] / total.client_ms.mean if total.client_ms.mean else 0.0
        mean = (
            f" Their ops take {ms(total.client_ms.mean)} ms on average, of which {percent(share)} is the "
            f"{'server' if largest == 'server' else 'network'}'s."
        )
    if not both:
        text = f"Cannot tell yet: no client has times of both sides, measured or inferred.{mean}"
        return FleetVerdict("undecided", None, None, "low", text, next_step(steps.FROM_HOSTS), largest, reasons)
    alike = f"none of the {len(clients)} clients takes much longer than the others"
    own = [(one, one.verdict) for one in clients if one.verdict is not None]
    bad = [(one, found) for one, found in own if found.outcome == "fault"]
    if bad:
        return _of_own_reports(bad, len(own), f"{alike}.{mean}", reasons, min(grade, 1), largest)
    open_ones = [(one, found) for one, found in own if found.outcome == "undecided"]
    if len(open_ones) > _MOST_OPEN * len(own):
        text = f"Cannot tell yet: {alike}, but the own reports of {len(open_ones)} of {len(own)} are undecided.{mean}"
        step = next((found.next for _, found in open_ones if found.next is not None), None)
        return FleetVerdict("undecided", None, None, "low", text, step, largest, reasons)
    if len(clients) < LEAST_SHARE_OF_CLIENTS * (len(clients) + untold):
        text = f"Cannot tell yet: {alike}, but nothing is known of {untold} of {len(clients) + untold} clients.{mean}"
        return FleetVerdict("undecided", None, None, "low", text, next_step(steps.FROM_HOSTS), largest, reasons)
    text = f"No fault found: {alike}, and no cause is found that adds time for all of them.{mean}"
    return FleetVerdict("no-fault", None, None, _GRADES[grade], text, None, largest, reasons)


def _of_own_reports(
    bad: Sequence[tuple[ClientSummary, Verdict]],
    of: int,
    alike: str,
    reasons: list[str],
    grade: int,
    largest: str | None,
) -> FleetVerdict:
    """No client differs from the others, and some have a fault by themselves: the one that most of them have."""
    (layer, cause), _ = Counter((found.layer, found.cause) for _, found in bad).most_common(1)[0]
    first, found = next((one, found) for one, found in bad if (found.layer, found.cause) == (layer, cause))
    same = sum((each.layer, each.cause) == (layer, cause) for _, each in bad)
    said = f"So says the own report of {first.name}" + (f", and so say those of {same - 1} more" if same > 1 else "")
    said += f"; {len(bad) - same} have another fault" if len(bad) > same else ""
    text = f"{found.text} {said}, of {of} clients. But {alike}"
    reasons.append("it is said by the own reports of these clients, not by comparison")
    return FleetVerdict("fault", layer, cause, _GRADES[grade], text, found.next, largest, reasons)


def _now_and_then(
    clients: Sequence[ClientSummary], excess: Sequence[Excess | None]
) -> list[tuple[ClientSummary, Excess]]:
    """Clients whose mean is much longer than the typical one, though most of their ops are not; the worst first."""
    total_s = sum(one.ops * _mean_ms(one) for one in clients) / 1e3
    found = [
        (client, own)
        for client, own in zip(clients, excess, strict=False)
        if own is not None
        and own.mean_ms >= max(_LEAST_MS, _MUCH * (_mean_ms(client) - own.mean_ms)) + client.error_ms("network")
        and own.total_s >= _MUCH_OF_ALL * total_s
    ]
    return sorted(found, key=lambda one: (-one[1].total_s, one[0].name))


def _mean_ms(client: ClientSummary) -> float:
    by_side = client.client_ms or client.server_ms
    return by_side.mean if by_side is not None else 0.0


def _unsteady(
    worst: Sequence[tuple[ClientSummary, Excess]], clients: int, reasons: list[str], grade: int
) -> FleetVerdict:
    """No client is slower all the time, or for a while; but the mean of some is."""
    texts, layers = [], []
    for client, own in worst[:_SENTENCES]:
        parts = {"network": own.network_s, "server": own.server_s + own.queue_s}
        layer = max(parts, key=lambda name: parts[name])
        layers.append(layer)
        by_side = client.client_ms or client.server_ms
        spread = "" if by_side is None else f"; half of them take at most {ms(by_side.p50)} ms, 1 % more than "
        spread += "" if by_side is None else f"{ms(by_side.p99)} ms"
        usual = "the other client" if clients == _PAIR else "the typical client"
        texts.append(
            f"Ops of {client.name} take {ms(_mean_ms(client))} ms on average, {ms(own.mean_ms)} ms more than at "
            f"{usual}, most of that {'on the network' if layer == 'network' else 'in the server'}{spread}."
        )
    more = len(worst) - len(texts)
    text = " ".join(texts) + (f" And {more} more." if more else "")
    reasons.append("some ops make that difference, or there are too few to say that it is not by chance")
    step = _own_report([client.name for client, _ in worst])
    return FleetVerdict(
        "undecided", None, None, "low", f"Cannot tell yet whether it lasts: {text}", step, layers[0], reasons
    )


def _of_one(client: ClientSummary, reasons: list[str], untold: int) -> FleetVerdict:
    own = client.verdict
    if own is None:
        text = f"Cannot tell yet: there is one client, {client.name}, and nothing to compare it with."
        return FleetVerdict("undecided", None, None, "low", text, next_step(steps.FROM_HOSTS), None, reasons)
    if not untold:
        text, reasons = f"Of the only client: {own.text}", [*own.reasons]
    else:
        text = f"Of {client.name}, the only one of {1 + untold} clients of which something is known: {own.text}"
        if own.outcome == "no-fault":
            step = next_step(steps.FROM_HOSTS)
            return FleetVerdict("undecided", None, None, "low", text, step, own.largest_layer, reasons)
    return FleetVerdict(
        own.outcome, own.layer, own.cause, own.confidence, text, own.next, own.largest_layer, [*reasons]
    )


def _of_inferred(clients: Sequence[ClientSummary]) -> str:
    """What there is one capture of: of which host, and how far its means may be off."""
    found = [one.inferred for one in clients if one.inferred is not None]
    sides = {one.side for one in found}
    whose = "one capture" if len(sides) > 1 else "the server's capture" if sides == {"client"} else "their own captures"
    worst_ms = max(one.mean_error_ms for one in found)
    who = times(len(clients), "client")
    return f"the times of {who} are inferred from {whose} alone, means to +/- {ms(worst_ms)} ms"


def _ground(clients: Sequence[ClientSummary]) -> tuple[list[str], int]:
    """What the answer stands on, and the grade that this allows."""
    both = [one for one in clients if one.state == BOTH]
    inferred = [one for one in clients if one.state == INFERRED]
    reasons, grade = [f"{times(len(both), 'client')} {'is' if len(both) == 1 else 'are'} compared on both sides"], 2
    if not both and len(clients) > 1:
        reasons = []
    if inferred:
        reasons.append(_of_inferred(inferred))
    alone = sum(one.state == SERVER_ONLY for one in clients)
    if alone:
        reasons.append(
            f"of {times(alone, 'client')} the server's capture alone is there, and nothing is inferred of it"
        )
    if len(inferred) + alone > (1 - _MATCHED) * len(clients):
        grade = 1
    ops, missed = sum(one.ops for one in both), sum(one.missed for one in both)
    if both and ops:
        matched = ops / (ops + missed)
        reasons.append(f"{percent(matched)} of their ops within the overlap are matched")
        grade = min(grade, 2 if matched >= _MATCHED else 1)
    short = [(one.ops / (one.ops + one.missed + one.outside), one.name) for one in both if one.outside]
    short = sorted(one for one in short if one[0] < _COVERED)
    if short:
        named = ", ".join(f"{name} {percent(share)}" for share, name in short[:_SENTENCES])
        more = ", ..." if len(short) > _SENTENCES else ""
        reasons.append(
            f"the {'capture' if len(short) == 1 else 'captures'} of {times(len(short), 'client')} "
            f"{'covers' if len(short) == 1 else 'cover'} a part of the time only (of the ops in the server's: "
            f"{named}{more})"
        )
        grade = min(grade, 1 if len(short) > (1 - _MATCHED) * len(both) else 2)
    if len(clients) < _FEW:
        reasons.append(f"of {len(clients)} clients it can hardly be said what is usual")
        grade = min(grade, 1)
    bad = [one.name for one in both if one.clock is not None and not one.clock.fits]
    if bad:
        reasons.append(f"the clocks of {len(bad)} clients cannot be understood")
        grade = min(grade, 1)
    return reasons, grade
