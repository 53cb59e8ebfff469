"""Ops of one capture -> are its sent and its received packets stamped by one clock? If not: how far apart, and amended.

With adapter timestamps (tcpdump -j adapter_unsynced) Linux stamps received packets with the adapter's clock and sent
ones with its own: 36 or 37 s apart where one keeps TAI and the other UTC, anything where the adapter's runs free
(github.com/the-tcpdump-group/libpcap, issues 999 and 1701; tcpdump, issues 523 and 910). Every response time measured
in such a file is wrong by the difference.

The file itself bounds it, for packets stand in it in the order in which they came by, whatever their stamps say. Let
delta be the clock of the replies' direction minus the clock of the calls'. Where a reply stands behind a call it is the
later one, so delta <= its stamp minus the call's; where a call stands behind a reply, delta >= the reply's stamp minus
the call's. The tightest of these bounds are trimmed, since captures of one clock have packets out of order, too: by 100
us in a public one (corpus, nfs_bad_stalls), always the received ones that come late, and now and then only.

A file that was sorted by time (reordercap, mergecap) has lost that order. See `audit.pair` for what shows then.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from itertools import pairwise
from typing import NamedTuple

import numpy as np
from msgspec import structs

from nfslat.model.blocks import filled
from nfslat.model.decoded import Decoded, Directions
from nfslat.model.details import Awaits, Cut, Details, Hangs, Loads, Others, Pauses, TcpEvent, Went
from nfslat.model.protocol import NULL
from nfslat.model.tables import I8, I32, I64, Bool, Connection, Ops
from nfslat.select import is_reverse

_RUNS, _RUN_OPS = 64, 1024  # of more ops than this, so many runs of so many, evenly spread, are looked at
_TRIMMED = 0.01  # share of the neighbours that may stand in the wrong order for another reason
_FEW = 3  # neighbours, at least, that are trimmed
_PARTS, _PART_NEIGHBOURS = 8, 40  # what is true of the capture has to be true of its parts
_AGREEING, _FAR_NS = 0.75, 1_000_000  # of them; of two only where the clocks are so far apart, as no packet is late
_ROUNDS = 4
_UNDER_WAY_NS = 20_000_000  # as in `details.Pauses`
_APART_NS = 20_000  # clocks that are nearer than this are one: less is what stamping and queueing take


class _Neighbours(NamedTuple):
    """Of two packets in opposite directions that stand next to each other in the file: what they say of delta."""

    bound_ns: I64  # reply's stamp minus call's
    upper: Bool  # True: delta is at most this, False: at least this
    t_ns: I64  # the reply's stamp

    def take(self, at: slice) -> _Neighbours:
        return _Neighbours(self.bound_ns[at], self.upper[at], self.t_ns[at])

    def bounds(self) -> tuple[int, int] | None:
        """Trimmed lower and upper bound; None where there are too few of one of them."""
        lower, upper = -self.bound_ns[~self.upper], self.bound_ns[self.upper]
        if min(len(lower), len(upper)) <= _FEW:
            return None
        return -_trimmed(lower), _trimmed(upper)


def find_directions(ops: Ops) -> Directions | None:
    """Are the packets of the two directions stamped by two clocks? None where one will do, or too little is there."""
    neighbours = _neighbours(ops)
    bounds = neighbours.bounds()
    if bounds is None or not (sign := _apart(bounds)):
        return None
    found = [of_part for part in _parts(neighbours) if (of_part := part.bounds()) is not None]
    agreeing = min(2, len(found)) if min(map(abs, bounds)) > _FAR_NS else _AGREEING * len(found)
    if sum(_apart(of_part) == sign for of_part in found) < max(agreeing, 1):
        return None  # now and then only: packets out of order
    backward = int(np.count_nonzero(np.where(neighbours.upper, neighbours.bound_ns < 0, neighbours.bound_ns > 0)))
    at_ns = int(neighbours.t_ns[len(neighbours.t_ns) // 2])
    ppm, (lo_ns, hi_ns) = 0.0, bounds
    if lo_ns > hi_ns and len(found) >= _PARTS // 2:
        ppm, (lo_ns, hi_ns) = _drifting(neighbours, at_ns, bounds)
    lo_ns, hi_ns = sorted((lo_ns, hi_ns))
    if hi_ns - lo_ns > min(abs(lo_ns), abs(hi_ns)):
        return None  # a few wrong stamps in traffic with long gaps would look like this, and amending may do harm
    return Directions((lo_ns + hi_ns) // 2, lo_ns, hi_ns, ppm, at_ns, backward)


def _neighbours(ops: Ops) -> _Neighbours:
    rows = _rows(len(ops))
    reverse = ops.spread(is_reverse(ops))[rows].astype(np.int8)
    frames = np.concatenate(
        [ops.call_first_frame[rows], ops.call_last_frame[rows], ops.reply_first_frame[rows], ops.reply_last_frame[rows]]
    )
    t_ns = np.concatenate([ops.t0[rows], ops.t1[rows], ops.t2[rows], ops.t3[rows]])
    way = np.concatenate([reverse, reverse, 1 - reverse, 1 - reverse])  # 1: that of the replies
    order = np.argsort(frames, kind="stable")
    t_ns, way = t_ns[order], way[order]
    at = np.flatnonzero(way[1:] != way[:-1])
    upper = way[at] == 0
    step_ns = t_ns[at + 1] - t_ns[at]
    return _Neighbours(np.where(upper, step_ns, -step_ns), upper, np.where(upper, t_ns[at + 1], t_ns[at]))


def _rows(count: int) -> slice | I64:
    if count <= _RUNS * _RUN_OPS:
        return slice(None)
    begins = np.linspace(0, count - _RUN_OPS, _RUNS).astype(np.int64)
    return np.asarray((begins[:, None] + np.arange(_RUN_OPS)).ravel(), dtype=np.int64)


def _trimmed(values: I64) -> int:
    """The smallest of `values` but for those that may be wrong."""
    skip = max(_FEW, int(len(values) * _TRIMMED))
    return int(np.partition(values, skip)[skip])


def _apart(bounds: tuple[int, int]) -> int:
    """The sign of what lies within `bounds`, in whatever order they are; 0 where that may be about nothing."""
    return int(min(bounds) > _APART_NS) - int(max(bounds) < -_APART_NS)


def _parts(neighbours: _Neighbours) -> list[_Neighbours]:
    count = len(neighbours.t_ns)
    ends = np.linspace(0, count, min(_PARTS, max(count // _PART_NEIGHBOURS, 1)) + 1).astype(np.int64).tolist()
    return [neighbours.take(slice(begin, end)) for begin, end in pairwise(ends)]


def _drifting(neighbours: _Neighbours, at_ns: int, bounds: tuple[int, int]) -> tuple[float, tuple[int, int]]:
    """(ppm, bounds at `at_ns`) of a line through the parts, where one fits better than the constant `bounds`."""
    slope, best = 0.0, bounds
    for _ in range(_ROUNDS):  # a part is bounded the better the less it drifts itself
        level = _levelled(neighbours, slope, at_ns)
        parts = [(part, found) for part in _parts(level) if (found := part.bounds()) is not None]
        away_ns = np.array([np.median(part.t_ns) - at_ns for part, _ in parts])
        middle_ns = np.array([(lo + hi) / 2 for _, (lo, hi) in parts])
        steeper = slope + float(np.polyfit(away_ns, middle_ns, 1)[0])
        found = _levelled(neighbours, steeper, at_ns).bounds()
        if found is None or found[0] - found[1] >= best[0] - best[1]:
            break
        slope, best = steeper, found
    return slope * 1e6, best


def _levelled(neighbours: _Neighbours, slope: float, at_ns: int) -> _Neighbours:
    drifted = np.rint((neighbours.t_ns - at_ns) * slope).astype(np.int64)
    return neighbours._replace(bound_ns=neighbours.bound_ns - drifted)


# --- Amending ---------------------------------------------------------------------------------------------------------


def on_one_clock(decoded: Decoded, found: Directions) -> Decoded:
    """The capture with all its instants on the calls' clock: ops, loose messages, TCP events and round trips, range.

    Response times are right again to within ``found.error_ns``. Stalls are gaps between packets of both directions, of
    which the true ones cannot be told any more: they are null, and have no event.
    """
    ops, loose = ops_on_one_clock(decoded.ops, found), decoded.loose
    replies_way = _replies_way(decoded.ops)
    moved = replies_way[loose.conn, loose.direction]
    first_ns, last_ns = (
        np.where(moved, t_ns - found.at(t_ns), t_ns).astype(np.int64) for t_ns in (loose.first_ns, loose.last_ns)
    )
    # The one direction's first packet came about when the other's did: the earlier stamp is that of the clock behind.
    ends = np.array([decoded.first_ns, decoded.last_ns])
    delta_ns = found.at(ends)
    begin = int(ends[0] - min(delta_ns[0], 0))
    end = int(ends[1] - max(delta_ns[1], 0))
    return structs.replace(
        decoded,
        ops=ops,
        loose=dataclasses.replace(loose, first_ns=first_ns, last_ns=last_ns),
        first_ns=min([begin, *ops.t0[:1].tolist()]),
        last_ns=max([end, *ops.t3[-1:].tolist()]),
        details=_details_on_one_clock(decoded, found, replies_way),
        directions=found,
    )


def ops_on_one_clock(ops: Ops, found: Directions) -> Ops:
    """The ops with the instants of their replies (of callbacks: of their calls) moved onto the calls' clock."""
    reverse = ops.spread(is_reverse(ops))

    def moved(t_ns: I64, on_replies_clock: Bool | None) -> I64:
        def block(at: slice) -> I64:
            there = t_ns[at] - found.at(t_ns[at])
            return there if on_replies_clock is None else np.where(on_replies_clock[at], there, t_ns[at])

        return filled(len(ops), np.int64, block)

    if not reverse.any():
        return dataclasses.replace(ops, t2=moved(ops.t2, None), t3=moved(ops.t3, None))
    return dataclasses.replace(
        ops,
        t0=moved(ops.t0, reverse),
        t1=moved(ops.t1, reverse),
        t2=moved(ops.t2, ~reverse),
        t3=moved(ops.t3, ~reverse),
    )


def _replies_way(ops: Ops) -> Bool:
    """Row a connection, column a direction: do the replies of the ops that are no callbacks go that way?"""
    callers = {
        ops.connections[conn].source(way)[0] if not reverse else ops.connections[conn].destination(way)[0]
        for conn, way, reverse in zip(
            ops.classes.conn.tolist(), ops.classes.direction.tolist(), is_reverse(ops).tolist(), strict=True
        )
    }

    def sent_by_a_server(ends: Connection, way: int) -> bool:
        return ends.source(way)[0] not in callers

    ways = [[sent_by_a_server(ends, way) for way in (0, 1)] for ends in ops.connections]
    return np.array(ways, dtype=np.bool_).reshape(-1, 2)


def _details_on_one_clock(decoded: Decoded, found: Directions, replies_way: Bool) -> Details:
    details, ops = decoded.details, decoded.ops
    tcp, events, resent, blocked = details.tcp, details.events, details.resent, details.blocked
    unread = details.unread

    def amended(t_ns: I64, moved: Bool) -> I64:
        return np.where(moved & (t_ns != NULL), t_ns - found.at(t_ns), t_ns).astype(np.int64)

    def of_messages(t_ns: I64, op: I32, is_reply: I8) -> I64:
        return amended(t_ns, replies_way[ops.conn[op], ops.direction[op] ^ is_reply])

    # Data of the calls' way are acknowledged on the other clock: such a sample is too long by delta; and the reverse.
    late_ns: I64 = np.where(replies_way[tcp.conn, tcp.direction], -found.delta_ns, found.delta_ns).astype(np.int64)
    late_ns[tcp.rtt_count <= 0] = 0
    unknown = np.full(len(tcp), NULL, dtype=np.int64)
    events = events.take(events.kind != TcpEvent.STALL)
    return dataclasses.replace(
        details,
        events=dataclasses.replace(events, t_ns=amended(events.t_ns, replies_way[events.conn, events.direction])),
        resent=dataclasses.replace(
            resent,
            t_ns=of_messages(resent.t_ns, resent.op, resent.is_reply),
        ),
        pauses=_pauses_on_one_clock(details.pauses, amended, replies_way),
        blocked=dataclasses.replace(
            blocked,
            until_ns=of_messages(blocked.until_ns, blocked.op, blocked.is_reply),
        ),
        loads=_loads_on_one_clock(details.loads, amended, replies_way),
        others=Others.empty(),  # of which no reply says whose clock it has
        unread=dataclasses.replace(
            unread,
            begin_ns=amended(unread.begin_ns, replies_way[unread.conn, unread.direction]),
            end_ns=amended(unread.end_ns, replies_way[unread.conn, unread.direction]),
        ),
        hangs=_hangs_on_one_clock(details.hangs, amended, replies_way),
        tcp=dataclasses.replace(
            tcp,
            first_ns=amended(tcp.first_ns, replies_way[tcp.conn, tcp.direction]),
            last_ns=amended(tcp.last_ns, replies_way[tcp.conn, tcp.direction]),
            rtt_sum_ns=tcp.rtt_sum_ns - late_ns * tcp.rtt_count,
            rtt_min_ns=tcp.rtt_min_ns - late_ns,
            rtt_max_ns=tcp.rtt_max_ns - late_ns,
            stalls=unknown,
            stalled_ns=unknown,
        ),
        sessions=tuple(
            structs.replace(limits, t_ns=limits.t_ns - int(found.at(np.array([limits.t_ns]))[0]))
            for limits in details.sessions
        ),
    )


def _pauses_on_one_clock(pauses: Pauses, amended: Callable[[I64, Bool], I64], replies_way: Bool) -> Pauses:
    """A silence is of one direction, so that only what was heard in it moves against it; and the rows go that are there
    only because the ACK of the data seemed to have come late."""
    own, other = (replies_way[pauses.conn, way] for way in (pauses.direction, 1 - pauses.direction))
    pauses = dataclasses.replace(
        pauses,
        begin_ns=amended(pauses.begin_ns, own),
        end_ns=amended(pauses.end_ns, own),
        heard_ns=amended(pauses.heard_ns, other),
        sent_ns=amended(pauses.sent_ns, own),
    )
    is_between = (pauses.went == Went.NEW) & (pauses.in_message != 1)
    is_open = (pauses.window_least == NULL) | (pauses.window_least >= pauses.size)
    was_heard = (pauses.heard_ns != NULL) & (pauses.under_way_end == 0)
    is_none = is_between & is_open & was_heard & (pauses.heard_ns - pauses.begin_ns < _UNDER_WAY_NS)
    return pauses.take(~is_none)


def _hangs_on_one_clock(hangs: Hangs, amended: Callable[[I64, Bool], I64], replies_way: Bool) -> Hangs:
    """What one sends has its clock; a window is shut, and a connection cut, by whoever does that."""
    own, other = (replies_way[hangs.conn, way] for way in (hangs.direction, 1 - hangs.direction))
    return dataclasses.replace(
        hangs,
        since_ns=amended(hangs.since_ns, np.where(hangs.awaits == Awaits.WINDOW, other, own)),
        before_ns=amended(hangs.before_ns, own),
        last_ns=amended(hangs.last_ns, own),
        heard_ns=amended(hangs.heard_ns, other),
        until_ns=amended(hangs.until_ns, np.where(hangs.cut == Cut.RESET, other, own)),
    )


def _loads_on_one_clock(loads: Loads, amended: Callable[[I64, Bool], I64], replies_way: Bool) -> Loads:
    """A stretch whose data are of two now goes to the one in which it begins."""
    begin_ns = amended(loads.begin_ns, replies_way[loads.conn, loads.direction])
    begin_ns -= begin_ns % loads.stretch_ns
    order = np.lexsort((loads.direction, loads.conn, begin_ns))
    moved = dataclasses.replace(loads, begin_ns=begin_ns).take(order)
    step = (np.diff(moved.begin_ns) != 0) | (np.diff(moved.conn) != 0) | (np.diff(moved.direction) != 0)
    first = np.flatnonzero(np.concatenate([np.ones(min(len(moved), 1), dtype=np.bool_), step]))
    if len(first) == len(moved):
        return moved
    return dataclasses.replace(moved.take(first), bytes=np.add.reduceat(moved.bytes, first))
