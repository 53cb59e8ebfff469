"""A conversation -> its figures in ten equal parts of its time, from which `nfslat diff` tells change from chance.

What differs from part to part differs between two runs of the same thing, too; sums of single values would take each
packet for evidence of its own.
"""

from __future__ import annotations

import numpy as np

from nfslat.model.causes import LIMITS, Limit
from nfslat.model.record import Record
from nfslat.model.tables import F64, I64
from nfslat.model.units import to_ms, to_s
from nfslat.tcp.limits import BUSY
from nfslat.tcp.packets import Kind
from nfslat.tcp.shared import Shared
from nfslat.tcp.sight import Sight
from nfslat.tcp.turns import Shape, Taken
from nfslat.tcp.windows import flight_bytes

PARTS = 10


class InParts(Record):
    """A figure in each part: the sum of its values, what it is divided by, and the squares of all single values."""

    total: tuple[float, ...]
    per: tuple[float, ...]  # number of values, or seconds
    squares: float


class WayStretches(Record):
    """One direction."""

    round_trips_ms: InParts  # per sample
    in_flight_bytes: InParts  # per data packet
    packet_bytes: InParts  # per data packet
    again: InParts  # retransmitted packets per data packet
    bits: InParts  # of new payload, per second
    busy_bits: InParts  # the same per second in which the sender had data to send
    waited_ms: dict[Limit, InParts]  # per second of the conversation


class Stretches(Record):
    """A conversation in equal parts of its time."""

    part_ms: float
    ways: tuple[WayStretches, WayStretches]
    turns_ms: InParts | None  # per turn; None: no turns


def stretches(sight: Sight, taken: Taken) -> Stretches:
    """Each direction at its sender's end, like all figures of it."""
    there, back = (_way(end, way) for end, way in sight.at_sender)
    packets = sight.talk.packets
    begin, span = _span(sight.main)
    turns = None
    if taken.shape is Shape.TURNS and len(taken.rows):
        turns = _of(taken.rows.request_ns - begin, to_ms(taken.rows.took_ns), span)
    return Stretches(to_ms(int(np.ptp(packets.t_ns)) / PARTS), (there, back), turns)


def _span(shared: Shared) -> tuple[int, int]:
    t_ns = shared.talk.packets.t_ns
    return int(t_ns.min()), max(int(np.ptp(t_ns)), 1)


def _part(at_ns: I64, span: int) -> I64:
    return np.asarray(np.clip(at_ns * PARTS // (span + 1), 0, PARTS - 1))


def _of(at_ns: I64, values: F64 | I64, span: int, per: F64 | None = None) -> InParts:
    """Single values at their times; `per` is what each part is divided by, their number if not given."""
    of = _part(at_ns, span)
    number = np.bincount(of, minlength=PARTS) if per is None else per
    numbers = values.astype(np.float64)
    total = np.bincount(of, weights=numbers, minlength=PARTS)
    return InParts(tuple(total.tolist()), tuple(number.astype(np.float64).tolist()), float(numbers @ numbers))


def _way(shared: Shared, direction: int) -> WayStretches:
    one, packets = shared.streams[direction], shared.talk.packets
    begin, span = _span(shared)
    rows, samples, progress = one.rows, shared.samples[direction], shared.progress[direction]
    at = packets.t_ns[rows] - begin
    seconds = np.full(PARTS, to_s(span / PARTS))
    split = shared.splits[direction]
    limits = _times(split.edges_ns - begin, split.limit.astype(np.int64), span)
    begins, long = split.edges_ns[:-1] - begin, np.diff(split.edges_ns)
    new = (progress.high - progress.low) * 8
    new_at = progress.t_ns - begin
    waited = {}
    for place, limit in enumerate(LIMITS):
        ms = to_ms(long[split.limit == place])
        waited[limit] = InParts(tuple(to_ms(limits[:, place]).tolist()), tuple(seconds.tolist()), float(ms @ ms))
    busy = np.isin(split.limit, [LIMITS.index(limit) for limit in BUSY])
    busy_s = to_s(limits[:, [LIMITS.index(limit) for limit in BUSY]].sum(axis=1))
    # A packet is what the time in front of it ended with: the first after an application's silence ends no busy time.
    in_busy = np.isin(np.searchsorted(begins, new_at, side="right") - 1, np.flatnonzero(busy) + 1)
    return WayStretches(
        round_trips_ms=_of(packets.t_ns[samples.sent] - begin, to_ms(samples.rtt_ns), span),
        in_flight_bytes=_of(at, flight_bytes(one), span),
        packet_bytes=_of(at, packets.size[rows].astype(np.int64), span),
        again=_of(at, (packets.kind[rows] == Kind.RETRANSMISSION).astype(np.int64), span),
        bits=_of(new_at, new, span, seconds),
        busy_bits=_of(new_at[in_busy], new[in_busy], span, busy_s),
        waited_ms=waited,
    )


def _times(edges_ns: I64, limit: I64, span: int) -> I64:
    """ns of each limit in each part; `edges_ns` from the conversation's begin."""
    # All packets of a conversation may have one time.
    cuts = np.minimum(np.arange(1, PARTS, dtype=np.int64) * (span + 1) // PARTS, edges_ns[-1])
    owner = np.minimum(np.searchsorted(edges_ns, cuts, side="right") - 1, len(limit) - 1)
    edges = np.insert(edges_ns, owner + 1, cuts)
    of = np.insert(limit, owner + 1, limit[owner])
    cells = _part(edges[:-1], span) * len(LIMITS) + of
    out = np.zeros(PARTS * len(LIMITS), dtype=np.int64)
    np.add.at(out, cells, np.diff(edges))
    return out.reshape(PARTS, len(LIMITS))
