"""Summaries and the server's phases -> what adds time for all clients, or most of them: `Pattern`s of scope "all"."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import median

import numpy as np

from nfslat.findings.server import THREADS
from nfslat.findings.words import ms, percent
from nfslat.fleet.compare.distinct import MOST
from nfslat.fleet.compare.excess import TYPICAL_OF
from nfslat.fleet.compare.summary import INFERRED, ClientSummary
from nfslat.fleet.compare.windows import Windows, digits_of
from nfslat.fleet.model import Pattern, Phase, Server
from nfslat.model.tables import I64, Bool
from nfslat.model.units import NS_PER_MS, NS_PER_S, iso, to_ms, to_s
from nfslat.select import parse_moment

_LAYERS = ("server", "network", "client")
_WEIGHTY = 0.10  # of the response time
_OWN_SHARE = 0.25  # of the same, for a finding of one client's own report
_FEW = 10  # ops of a client in a phase
_WAITS = 0.5  # of what all wait on average, for a client to be one of those that wait; or ...
_WAITS_OF_OWN = 0.2  # ... of its own time
_ALIKE = 2.0  # times the shortest wait; with a longer one among them the mean says little of each
_LEAST_MS = 0.1
LEAST_SHARE_OF_CLIENTS = 0.8  # of the clients: what is said of all is said of so many at least
_WORST_SHARE = 0.02  # of the fleet's time; a phase that makes less is not worth a line


def spent_ns(client: ClientSummary) -> int:
    """Time of its ops: at the client, or where it has no capture in the server."""
    return client.cells.total("client") or client.cells.total("server")


def common(clients: Sequence[ClientSummary], server: Server | None, windows: Windows, untold: int = 0) -> list[Pattern]:
    """In no order. `untold`: further clients, of which nothing is known."""
    phases = [] if server is None else _phases(clients, server, windows, untold)
    causes = {one.cause for one in phases}
    return phases + [one for one in _findings(clients, untold) if one.cause not in causes]


def of_clients(some: int, of: int, untold: int = 0) -> str:
    """``all 100 clients``, ``97 of 100 clients``; ``all 24 clients of which something is told, of 30,``."""
    if untold:
        return f"{'all' if some == of else f'{some} of'} {of} clients of which something is told, of {of + untold},"
    if of == 1:
        return "the only client"
    if some < of:
        return f"{some} of {of} clients"
    return "both clients" if of == 2 else f"all {of} clients"


def clock_time(ns: int, digits: int = 0) -> str:
    """``10:30:02 UTC``, with `digits` of its fraction."""
    fraction = f".{ns % NS_PER_S:09d}"[: digits + 1] if digits else ""
    return f"{iso(ns)[11:19]}{fraction} UTC"


def _phases(clients: Sequence[ClientSummary], server: Server, windows: Windows, untold: int) -> list[Pattern]:
    phases = [one for one in server.phases if one.limited]
    if not server.phases and server.inflight.limited:
        end_ns = windows.begin_ns + windows.count * windows.step_ns
        flight = server.inflight
        phases = [
            Phase(iso(windows.begin_ns), iso(end_ns), True, flight.threads_estimate, flight.threads_range, server.ops,
                  flight.queue_ms, None)
        ]  # fmt: skip
    spans = [_windows_of(one, windows) for one in phases]
    made = [_phase(clients, phase, span, spans, windows, untold) for phase, span in zip(phases, spans, strict=True)]
    return [one for one in made if one is not None]


def _windows_of(phase: Phase, windows: Windows) -> slice:
    begin_ns, end_ns = parse_moment(phase.begin).ns, parse_moment(phase.end).ns
    half = windows.step_ns // 2
    first = (begin_ns - windows.begin_ns + half) // windows.step_ns
    last = (end_ns - windows.begin_ns + half) // windows.step_ns
    first = min(max(first, 0), windows.count - 1)
    return slice(first, min(max(last, first + 1), windows.count))


def _phase(
    clients: Sequence[ClientSummary], phase: Phase, span: slice, spans: Sequence[slice], windows: Windows, untold: int
) -> Pattern | None:
    sums = {name: np.array([one.cells.by_window(name) for one in clients]) for name in ("ops", "queue", "queues")}
    spent = np.array([_spent(one) for one in clients])
    in_phase = {name: values[:, span].sum(axis=1) for name, values in sums.items()}
    known = int(in_phase["queues"].sum())
    queue_ms = to_ms(int(in_phase["queue"].sum()) / known) if known else phase.queue_ms
    if queue_ms is None or queue_ms < _LEAST_MS:
        return None
    is_there = in_phase["ops"] >= _FEW
    able = in_phase["queues"] >= _FEW if known else is_there
    untold += int((is_there & ~able).sum())  # clients of whose calls it is not known how long they wait
    each_ms = to_ms(in_phase["queue"] / np.maximum(in_phase["queues"], 1))
    own_ns = spent[:, span].sum(axis=1)
    much = (each_ms >= _LEAST_MS) & (in_phase["queue"] >= _WAITS_OF_OWN * own_ns)
    hit = able & (much | (each_ms >= _WAITS * queue_ms)) if known else able
    if not hit.any():
        return None
    # From here on all figures are of those that wait: of one in ten the mean over all would be a tenth of theirs.
    waits, known = int(in_phase["queue"][hit].sum()), int(in_phase["queues"][hit].sum())
    queue_ms = to_ms(waits / known) if known else queue_ms
    free = _free(span, spans, sums["queue"].sum(axis=0), sums["queues"].sum(axis=0))
    free_ops = int(sums["queues"][hit][:, free].sum())
    before_ms = to_ms(int(sums["queue"][hit][:, free].sum()) / free_ops) if free_ops else 0.0
    time_ns = int(own_ns[hit].sum())
    total_ns = int(spent.sum())
    of_time = waits / time_ns if known and time_ns else None
    excess_ns = (queue_ms - before_ms) * NS_PER_MS * (known or int(in_phase["ops"].sum()))
    share = excess_ns / total_ns if total_ns else None
    if share is not None and share < _WORST_SHARE:
        return None
    names = [one.name for one, is_hit in zip(clients, hit.tolist(), strict=True) if is_hit]
    begin_ns, end_ns = parse_moment(phase.begin).ns, parse_moment(phase.end).ns
    digits = digits_of(end_ns - begin_ns)
    starts, ends = span.start > 0, span.stop < windows.count
    when = (
        f"From {clock_time(begin_ns, digits)} to {clock_time(end_ns, digits)} "
        if ends
        else f"From {clock_time(begin_ns, digits)} on "
        if starts
        else ""
    )
    text = f"{when}calls of {of_clients(len(names), int(able.sum()), untold)} wait {ms(queue_ms)} ms"
    least_ms, most_ms = float(each_ms[hit].min()), float(each_ms[hit].max())
    if known and most_ms > _ALIKE * least_ms:
        text += f" on average, {ms(least_ms)} to {ms(most_ms)} by client"
    text += f" ({percent(of_time)} of their time)" if of_time is not None else ""
    text += f" for {_thread(phase)}"
    if free_ops:
        text += f"; {'otherwise' if free[span.stop :].any() else 'before'}, {ms(before_ms)} ms"
    low, high = phase.threads_range or (None, None)
    is_of_most = able.sum() >= LEAST_SHARE_OF_CLIENTS * (able.sum() + untold)
    sure = "high" if low is not None and low == high and is_of_most else "medium"
    return Pattern(
        scope="all" if len(names) >= MOST * len(clients) else "group",
        layer="server",
        cause=THREADS,
        clients=names,
        of=len(clients),
        begin=phase.begin if starts else None,
        end=phase.end if ends else None,
        effect_ms=queue_ms - before_ms,
        excess_s=to_s(excess_ns),
        share=share,
        confidence=sure if phase.threads is not None else "low",
        text=f"{text[0].upper()}{text[1:]}.",
        evidence={
            "threads": phase.threads,
            "threads_range": None if phase.threads_range is None else list(phase.threads_range),
            "queue_ms": queue_ms,
            "otherwise_ms": before_ms if free_ops else None,
            "share_of_time": of_time,
        },
    )


def _free(span: slice, spans: Sequence[slice], waits: I64, known: I64) -> Bool:
    """Windows outside of `span` to hold it against: not those of another phase in which calls wait about as long."""
    free = np.ones(len(waits), dtype=np.bool_)
    free[span] = False
    here = waits[span].sum() / max(int(known[span].sum()), 1)
    for other in spans:
        if waits[other].sum() / max(int(known[other].sum()), 1) >= _WAITS * here:
            free[other] = False
    return free


def _spent(client: ClientSummary) -> I64:
    return client.cells.by_window("client" if client.cells.total("client") else "server")


def _thread(phase: Phase) -> str:
    low, high = phase.threads_range or (phase.threads, phase.threads)
    if phase.threads is None:
        return "a thread of the server"
    if low != high:
        return f"one of the server's threads, of which there are {low} to {high}"
    return "the server's only thread" if phase.threads == 1 else f"one of the server's {phase.threads} threads"


def _whole_ms(client: ClientSummary) -> float:
    """What shares of its own report are of: its application's time where it is known, else its response time."""
    if client.application_ms is not None:
        return client.application_ms
    return client.client_ms.mean if client.client_ms is not None else 0.0


def of_own_reports(clients: Sequence[ClientSummary], others: Sequence[Pattern]) -> list[Pattern]:
    """Where too few clients have captures to say what is usual: what each one's own report blames, if not said yet.

    Of the only client of a fleet the verdict says it.
    """
    both = [one for one in clients if one.verdict is not None]
    if len(clients) < 2 or len(both) >= TYPICAL_OF:
        return []
    found = []
    total_ns = sum(map(spent_ns, clients))
    for client in both:
        cause = client.verdict.cause if client.verdict is not None else None
        words = next((one for one in client.findings if one.code == cause and one.layer in _LAYERS), None)
        if words is None or words.share is None or words.share < _OWN_SHARE or client.verdict is None:
            continue
        if any(client.name in one.clients and one.cause == words.code for one in others):
            continue
        effect_ms = words.share * _whole_ms(client)
        spent = effect_ms * NS_PER_MS * client.ops
        found.append(
            Pattern(
                scope="one",
                layer=words.layer,
                cause=words.code,
                clients=[client.name],
                of=1,
                effect_ms=effect_ms,
                excess_s=to_s(spent),
                share=spent / total_ns if total_ns else None,
                confidence=client.verdict.confidence,
                text=f"{client.name}: {words.code}, {percent(words.share)} of its time (its own report): {words.text}.",
                evidence={"explains": words.share},
                inferred=int(client.state == INFERRED),
            )
        )
    return found


def _findings(clients: Sequence[ClientSummary], untold: int) -> list[Pattern]:
    """Findings that most clients' own reports have, where they explain much, or nobody knows how much."""
    able = [one for one in clients if one.verdict is not None]
    if len(able) < 2:  # of one, its own report tells
        return []
    total_ns = sum(map(spent_ns, clients))
    codes = {(one.code, one.layer) for client in able for one in client.findings if one.layer in _LAYERS}
    found = []
    for code, layer in sorted(codes):
        having = [
            (client, one)
            for client in able
            for one in client.findings
            if (one.code, one.layer) == (code, layer) and (one.share is None or one.share >= _WEIGHTY)
        ]
        if len(having) < MOST * len(able):
            continue
        shares = [one.share for _, one in having if one.share is not None]
        spent = sum(
            one.share * _whole_ms(client) * NS_PER_MS * client.ops for client, one in having if one.share is not None
        )
        example, words = having[0]
        text = of_clients(len(having), len(able), untold)
        text += " with a capture of their own" if len(able) < len(clients) and not untold else ""
        text += f" have one finding in common, {code}"
        text += f", which explains {percent(median(shares))} of their response time (median)" if shares else ""
        effects = [one.share * _whole_ms(c) for c, one in having if one.share is not None]
        inferred = sum(client.state == INFERRED for client, _ in having)
        is_of_most = len(able) >= LEAST_SHARE_OF_CLIENTS * (len(clients) + untold)
        certain = sum(one.confidence == "certain" and client.state != INFERRED for client, one in having)
        text += f", inferred from one capture for {inferred} of them" if inferred else ""
        found.append(
            Pattern(
                scope="all",
                layer=layer,
                cause=code,
                clients=[client.name for client, _ in having],
                of=len(able),
                effect_ms=median(effects) if effects else None,
                excess_s=to_s(spent) if shares else None,
                share=spent / total_ns if shares and total_ns else None,
                confidence="low" if not is_of_most else "high" if certain >= MOST * len(having) else "medium",
                text=f"{text[0].upper()}{text[1:]}; of {example.name}: {words.text}.",
                evidence={"certain": certain},
                inferred=inferred,
            )
        )
    return found
