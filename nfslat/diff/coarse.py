"""Summaries of two runs, as reports have them -> what changed, with the little that can be known without single ops."""

from __future__ import annotations

import dataclasses
import itertools
import math
from collections.abc import Sequence
from fractions import Fraction

from nfslat.answer.figures import Summary
from nfslat.answer.inflight import ClientInFlight
from nfslat.diff import judge
from nfslat.diff.compare import Compared
from nfslat.diff.kinds import decompose
from nfslat.diff.model import Change, Load, Mix, Part, Row
from nfslat.diff.parts import MOVES
from nfslat.diff.runs import LAYERS, Figures, Run, layer_of
from nfslat.diff.statistics import LEAST_OPS, SLICES, from_error


def compare(a: Run, b: Run) -> Compared:
    """By operation; sizes are in no report."""
    of_a, of_b = ({one.op: one for one in run.figures} for run in (a, b))
    names = sorted({*of_a, *of_b}, key=lambda op: (-sum(of[op].count for of in (of_a, of_b) if op in of), op))
    doubt = judge.Doubt.of([run.inferred for run in (a, b)])
    rows = [_row(op, of_a.get(op), of_b.get(op), doubt) for op in names]
    counts = [[of[op].count if op in of else 0 for op in names] for of in (of_a, of_b)]
    load = Load(
        _plain(_rate(a), _rate(b)),
        _plain(_level(a), _level(b)),
        sum(min(n / sum(counts[0]), m / sum(counts[1])) for n, m in zip(*counts, strict=True)),
        judge.other_load(names, *counts),
    )
    both = [op for op in names if op in of_a and op in of_b]
    mix = _mix(names, of_a, of_b, both, doubt)
    moved = [] if a.moved_ms is None or b.moved_ms is None else [a.moved_ms, b.moved_ms]
    parts = _parts([of_a[op] for op in both], [of_b[op] for op in both], moved) if both else []
    rows, mix, _, parts, _ = judge.all_looked_at(rows, mix, [], parts, [])
    rows = [dataclasses.replace(row, verdict=judge.verdict_of(row, load)) for row in rows]
    return Compared(load, mix, rows, _layers(parts), parts, [])


def most_variance(summary: Summary, least: float = 0.0) -> float:
    """The largest that durations (ms, none below `least`) with these mean, p50, p95, p99 and maximum can have.

    Between two percentiles x squared is at most (l + u) x - l u, so the sum of squares is largest where the ranges
    above hold as much of the sum as they can.
    """
    least = min(least, summary.mean, summary.p50)
    knots = [(0.0, least), (0.50, summary.p50), (0.95, summary.p95), (0.99, summary.p99), (1.0, summary.max)]
    spans = [(q - p, low, max(high, low)) for (p, low), (q, high) in itertools.pairwise(knots)]
    spare = summary.mean - math.fsum(share * low for share, low, _ in spans)
    squares = math.fsum(share * low * low for share, low, _ in spans)
    for share, low, high in reversed(spans):
        more = min(max(spare, 0.0), share * (high - low))
        squares += more * (low + high)
        spare -= more
    return max(squares - summary.mean**2, 0.0)


def _error(summary: Summary) -> float:
    """Of the mean, as if no more than `SLICES` of the ops were independent: a report does not say how many are."""
    return math.sqrt(most_variance(summary) / SLICES)


def _of_means(a: Summary, b: Summary, enough: bool) -> Change:
    error = math.hypot(_error(a), _error(b))
    estimate = from_error(b.mean - a.mean, error, SLICES - 1) if enough else None
    return judge.change(a.mean, b.mean, estimate)


def _row(op: str, a: Figures | None, b: Figures | None, doubt: judge.Doubt) -> Row:
    counts = (a.count if a else 0, b.count if b else 0)
    row = Row(op, None, None, *counts, None, None, None, None, None, None, None, [], "")
    if a is None or b is None:
        return row
    enough = min(counts) >= LEAST_OPS
    return dataclasses.replace(
        row,
        mean=judge.widened(_of_means(a.client, b.client, enough), doubt.client),
        p50=judge.change(a.client.p50, b.client.p50, None),
        p99=judge.change(a.client.p99, b.client.p99, None) if min(counts) * 0.01 >= SLICES else None,
        server=judge.widened(_of_means(a.server, b.server, enough), doubt.server),
        network=judge.widened(_of_means(a.network, b.network, enough), doubt.network),
        parts=_parts([a], [b]),
    )


def _weights(a: list[Figures], b: list[Figures]) -> list[float]:
    of_a, of_b = (sum(one.count for one in side) for side in (a, b))
    shares = [x.count / of_a + y.count / of_b for x, y in zip(a, b, strict=True)]
    return [share / math.fsum(shares) for share in shares]


def _parts(a: list[Figures], b: list[Figures], moved: Sequence[dict[str, float]] = ()) -> list[Part]:
    """At the same mix. `moved`: of A and of B `Run.moved_ms`, which reports have over all of their ops alone."""
    weights = _weights(a, b)
    queued = all(one.parts.get("queue") is not None for one in (*a, *b))
    queued = queued and any(one.parts.get("queue") for one in (*a, *b))
    own = "in_thread" if queued else "server"
    names = ("call_send", "network", "tcp_waits", "server_paused", "queue", own, "client_paused", "reply_send")
    values = {
        name: [
            math.fsum(weight * _part(one, name) for weight, one in zip(weights, side, strict=True)) for side in (a, b)
        ]
        for name in names
    }
    for name, (place, to) in _MOVES_TO.items() if moved else ():
        ms = [of[name] for of in moved]
        if any(one >= MOVES * whole > 0 for one, whole in zip(ms, values[own], strict=True)):
            part = own if place == "server" else place
            values[part] = [x - y for x, y in zip(values[part], ms, strict=True)]
            values[to] = [x + y for x, y in zip(values[to], ms, strict=True)]
    optional = ("tcp_waits", "server_paused", "queue", "client_paused")
    return [
        Part(name, layer_of(name), 0, judge.change(of[0], of[1], None))
        for name, of in values.items()
        if any(of) or name not in optional
    ]


# Of `Single.moved`: from which part to which.
_MOVES_TO = {
    "tcp_waits": ("server", "tcp_waits"),
    "server_paused": ("server", "server_paused"),
    "call_paused": ("network", "server_paused"),
    "reply_paused": ("network", "client_paused"),
}


def _layers(parts: list[Part]) -> list[Part]:
    sums = []
    for layer in LAYERS:
        own = [part.change for part in parts if part.layer == layer]
        if own:
            values = [math.fsum(getattr(one, side) for one in own) for side in ("a", "b")]
            sums.append(Part(layer, layer, 0, judge.change(values[0], values[1], None)))
    return sums


def _part(one: Figures, name: str) -> float:
    queue = one.parts.get("queue") or 0.0
    if name == "in_thread":
        return (one.parts["server"] or 0.0) - queue
    return queue if name == "queue" else one.parts.get(name) or 0.0


def _mix(
    names: list[str], of_a: dict[str, Figures], of_b: dict[str, Figures], both: list[str], doubt: judge.Doubt
) -> Mix:
    counts = [[of[op].count if op in of else 0 for op in names] for of in (of_a, of_b)]
    sums = [
        [Fraction(of[op].client.mean) * of[op].count if op in of else Fraction(0) for op in names]
        for of in (of_a, of_b)
    ]
    means = [float(sum(side, Fraction(0)) / sum(count)) for side, count in zip(sums, counts, strict=True)]
    within, _ = decompose(counts[0], sums[0], counts[1], sums[1])
    raw = judge.change(means[0], means[1], None)
    same = None
    if both:
        a, b = [of_a[op] for op in both], [of_b[op] for op in both]
        weights = _weights(a, b)
        values = [
            math.fsum(weight * one.client.mean for weight, one in zip(weights, side, strict=True)) for side in (a, b)
        ]
        # Kinds that wait in one queue move together, how much no report says: as much as they can.
        errors = [
            math.fsum(weight * _error(one.client) for weight, one in zip(weights, side, strict=True)) for side in (a, b)
        ]
        enough = min(sum(one.count for one in side) for side in (a, b)) >= LEAST_OPS
        estimate = from_error(values[1] - values[0], math.hypot(*errors), SLICES - 1) if enough else None
        same = judge.widened(judge.change(values[0], values[1], estimate), doubt.client)
    covered = [sum(of[op].count for op in both) / sum(count) for of, count in zip((of_a, of_b), counts, strict=True)]
    return Mix(raw, float(within), raw.difference - float(within), same, covered[0], covered[1])


def _plain(a: float | None, b: float | None) -> Change | None:
    return None if a is None or b is None else judge.change(a, b, None, is_ms=False)


def load_of(run: Run) -> tuple[float | None, float | None]:
    """Ops per second of busy time, and how many were in flight at the client then."""
    return _rate(run), _level(run)


def _client(run: Run) -> ClientInFlight | None:
    return None if run.report is None or run.report.inflight is None else run.report.inflight.client


def _rate(run: Run) -> float | None:
    """Ops per second of busy time."""
    if run.single is not None:
        return len(run.single) * 1e9 / max(int(run.single.busy_ns.sum()), 1)
    client = _client(run)
    return None if client is None else math.fsum(one.share * one.ops_per_s for one in client.levels)


def _level(run: Run) -> float | None:
    """In flight, mean over the busy time."""
    if run.single is not None:
        return float(run.single.client_ns.sum()) / max(int(run.single.busy_ns.sum()), 1)
    client = _client(run)
    return None if client is None else client.mean
