"""Two conversations -> their figures side by side, each with what it is worth.

A figure is a sum over another: ms over samples, bits over seconds. Each run is cut into ten equal parts of its time,
and what differs from part to part is chance (`statistics`): ratio estimates, Student's t, Holm over all that is looked
at, and no change that is within the drift of either run.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np
from msgspec import structs

from nfslat.diff import judge
from nfslat.diff.model import Change
from nfslat.diff.statistics import Means, difference
from nfslat.diff.tcp.model import Figure
from nfslat.model.causes import Cause, Limit
from nfslat.model.record import Record
from nfslat.tcp.model import Detail
from nfslat.tcp.rounds import Trips
from nfslat.tcp.stretches import InParts
from nfslat.tcp.turns import Shape

# Of these a sender that waits is slower; the congestion window follows the path, and explains.
_COSTS: tuple[Limit, ...] = (Cause.DELAYED_ACK, Cause.LOSS, Cause.RECEIVE_WINDOW, Cause.SPURIOUS)
_EXPLAIN: tuple[Limit, ...] = (Cause.CONGESTION, Cause.UNKNOWN_WINDOW)
WAITS: dict[Limit, str] = {
    Cause.DELAYED_ACK: "wait for delayed ACKs",
    Cause.LOSS: "wait to retransmit",
    Cause.RECEIVE_WINDOW: "wait for the receive window",
    Cause.SPURIOUS: "wait for spurious retransmissions",
    Cause.CONGESTION: "wait for the congestion window",
    Cause.UNKNOWN_WINDOW: "wait for a window",
}
_LEAST_BUSY = 0.05  # of the time with data to send: below, a rate is that of an application
_MS_PER_S, _SHARE = 5.0, 0.1  # what matters: 0.5 % of the time; a packet in a thousand, in percent


class _Kind(Record):
    """What a figure is."""

    name: str
    unit: str
    better: str | None
    speaks: bool
    counted: bool  # per value; else per second
    unit_of: float = 1.0  # of the sums that a unit is
    least: float = 0.0  # of a difference that matters


def figures(a: Detail, b: Detail, *, turned: bool) -> list[Figure]:
    """All that both have; `turned`: the endpoints of B are the other way round."""
    found = list(_all(a, b, turned))
    worth = judge.all_looked_at(*([one.change for one in found if one.speaks == speaks] for speaks in (True, False)))
    return [structs.replace(one, change=worth(one.change)) for one in found]


def _all(a: Detail, b: Detail, turned: bool) -> Iterator[Figure]:
    if a.stretches is None or b.stretches is None:
        return
    in_turns = a.stretches.turns_ms is not None and b.stretches.turns_ms is not None
    if a.stretches.turns_ms is not None and b.stretches.turns_ms is not None:
        yield _figure(_Kind("turns", "ms", "lower", True, True), "", a.stretches.turns_ms, b.stretches.turns_ms)
        rates = [_per_second(one.stretches.turns_ms, one) for one in (a, b) if one.stretches and one.stretches.turns_ms]
        yield _figure(_Kind("turns per second", "1/s", None, False, False), "", *rates)
    # ACKs that come with data hold the time of an application: only where data go one way they are the path's.
    one_way = a.turns.shape is Shape.ONE_WAY and b.turns.shape is Shape.ONE_WAY
    for at in (0, 1):
        other = 1 - at if turned else at
        of = a.waits.limits[at].sender
        x, y = a.stretches.ways[at], b.stretches.ways[other]
        if not (any(x.packet_bytes.per) or any(y.packet_bytes.per)):
            continue
        busy = min(_busy(a, at), _busy(b, other))
        if busy >= _LEAST_BUSY:
            kind = _Kind("rate with data to send", "Mbit/s", "higher", not in_turns, False, 1e6)
            yield _figure(kind, of, x.busy_bits, y.busy_bits)
        yield _figure(_Kind("round trip", "ms", "lower", one_way, True), of, x.round_trips_ms, y.round_trips_ms)
        if a.tick_ms is None and b.tick_ms is None:
            yield from _percentiles(of, a.waits.rounds[at].trips, b.waits.rounds[other].trips)
        for limit in (*_COSTS, *_EXPLAIN):
            if any(x.waited_ms[limit].total) or any(y.waited_ms[limit].total):
                kind = _Kind(WAITS[limit], "ms/s", "lower", limit in _COSTS, False, least=_MS_PER_S)
                yield _figure(kind, of, x.waited_ms[limit], y.waited_ms[limit])
        kind = _Kind("retransmitted", "%", "lower", True, True, 0.01, _SHARE)
        yield _figure(kind, of, x.again, y.again)
        yield _figure(_Kind("in flight", "bytes", None, False, True), of, x.in_flight_bytes, y.in_flight_bytes)
        yield _figure(_Kind("payload of a packet", "bytes", None, False, True), of, x.packet_bytes, y.packet_bytes)
        yield _figure(_Kind("rate", "Mbit/s", None, False, False, 1e6), of, x.bits, y.bits)


def _percentiles(of: str, a: Trips | None, b: Trips | None) -> Iterator[Figure]:
    """Without an interval: reports have no single values."""
    if a is None or b is None:
        return
    for name, x, y in (("round trip, median", a.p50_ms, b.p50_ms), ("round trip, p99", a.p99_ms, b.p99_ms)):
        yield Figure(name, of, "ms", "lower", False, judge.change(x, y, None))


def _busy(one: Detail, way: int) -> float:
    limits = one.waits.limits[way]
    return limits.busy_ms / limits.total_ms if limits.total_ms else 0.0


def _per_second(turns: InParts, one: Detail) -> InParts:
    seconds = (one.stretches.part_ms if one.stretches else 0.0) / 1e3
    return InParts(turns.per, (seconds,) * len(turns.per), math.fsum(turns.per))


def _figure(kind: _Kind, of: str, a: InParts, b: InParts) -> Figure:
    means = [
        Means.of_sums(one.total, one.per, one.squares, counted=kind.counted).in_units(kind.unit_of) for one in (a, b)
    ]
    known = all(one.enough if kind.counted else one.per.any() for one in means)
    estimate = difference(means[0], means[1], np.ones(1)) if known else None
    change = judge.change(float(means[0].mean[0]), float(means[1].mean[0]), estimate, is_ms=kind.unit == "ms")
    if kind.least and abs(change.difference) < kind.least:
        change = structs.replace(change, relevant=False)
    return Figure(kind.name, of, kind.unit, kind.better, kind.speaks, change)


def signed(one: Figure) -> float:
    """Above 0: B is the worse."""
    return -one.change.difference if one.better == "higher" else one.change.difference


def is_change(change: Change) -> bool:
    """Certain, and large enough to matter."""
    return change.certain and change.relevant
