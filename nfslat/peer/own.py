"""A host's segments in its own capture -> how late they were captured, by the clock of its TCP; and what it received.

TSval is the tick in which a host's TCP made a segment (Linux: net/ipv4/tcp_output.c, __tcp_transmit_skb), and its own
capture shows when it passed the capture point. Both are clocks of one host, so that nothing but the way from TCP to the
capture point lies between the two: hardly anything, unless a queueing discipline or a driver held the segment, or the
capture stamped it late. What came in was with TCP by the tick of the segment that acknowledges it; where the capture
has it later than that, its stamps are late.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from nfslat.kernels.heard import Said, places
from nfslat.model.protocol import NULL
from nfslat.model.record import Record
from nfslat.model.segments import BACK, Segments
from nfslat.model.tables import F64, I32, I64, Bool, Ops
from nfslat.peer.heard import Exchange, exchange

_FEW = 50  # segments of a connection that tell
_NOTHING_NS, _LEAST_NS = 100_000, 1_000_000  # kernels take no longer to pass a segment on; and hardly ever as long
# With pacing TSval is when a segment may leave (Linux: tcp_wstamp_ns), up to two super segments of 1 ms ahead
# (tcp_tso_autosize, tcp_small_queue_check); a capture at a bridge or bond has it before that.
_PACED_NS, _MSS, _SOME = 3_000_000, 1448, 0.01
_IN_FLIGHT = 256  # segments of the host, between the arrival of something and its acknowledgement
# Captures with stamps of the host's kernel have not one that is late.
_LATE, _LATE_SHARE = 5, 0.005
_RARE = 0.001
_STRETCHES, _FEWEST = 16, 16  # of time, and what has to be acknowledged in each
_STEADY_NS = 60_000_000_000  # in a minute two clocks that are kept right part by less than 1 ms


class OwnStamps(NamedTuple):
    """What one capture says of the stamps in it. Times are ns, and the least that is possible: up to a tick more is."""

    tick_ns: int
    much_ns: int  # what is later than that is late
    waited_ns: I64  # of each segment of the host: from TCP to its stamp
    held_ns: float  # mean of what messages waited from TCP to their first stamp; NaN: no message is seen
    messages: int
    acknowledged: int  # segments that came in, and are acknowledged by ones that show when TCP had them
    behind_ns: I64  # of those that are stamped later than that: by how much
    late_at_ns: I64  # stamps that are late by anything, in order
    apart_ns: int  # by at least so much what came in is stamped later than what is sent, all the time; 0: it is not

    @property
    def is_late(self) -> bool:
        """Does the capture stamp packets late, as far as that can be known?"""
        late = np.count_nonzero(self.behind_ns > self.much_ns)
        return bool(late >= max(_LATE, _LATE_SHARE * self.acknowledged))

    def in_doubt(self, ops: Ops, rows: I32 | I64) -> Bool:
        """Of these of the capture's ops those that have a stamp beside one that is late, if one surely is, and not all
        that came in are."""
        out = np.zeros(len(rows), dtype=np.bool_)
        if self.apart_ns or not (self.behind_ns > self.much_ns).any():
            return out
        for column in (ops.t0, ops.t1, ops.t2, ops.t3):
            at = column[rows]
            behind = np.searchsorted(self.late_at_ns, at)
            before = self.late_at_ns[np.maximum(behind - 1, 0)]
            after = self.late_at_ns[np.minimum(behind, len(self.late_at_ns) - 1)]
            out |= np.minimum(np.abs(at - before), np.abs(after - at)) <= self.much_ns
        return out


def own_stamps(ops: Ops, forward: Bool, talks: Sequence[Segments], side: str) -> OwnStamps | None:
    """Of the capture of the host `side`, "server" or "client"; None where time stamps do not tell. `forward`: the ops
    that clients called."""
    if not talks:
        return None
    last = max(int(one.frame[-1]) for one in talks)
    rows: slice | Bool = slice(None) if forward.all() else forward
    called = _marked(ops.call_first_frame[rows], last)
    begins = called if side == "client" else _marked(ops.reply_first_frame[rows], last)
    exchanges = []
    for one in talks:
        calls = np.flatnonzero(called[one.frame])
        if len(calls) and len(one) >= _FEW:
            sent = int(one.marks[calls[0]] & BACK)
            exchanges.append(exchange(one, 1 - sent if side == "client" else sent))
    ticks = [one.tick_ns for one in exchanges if one.tick_ns is not None]
    if not ticks:
        return None
    tick_ns = max(set(ticks), key=ticks.count)
    found = [_of(one, tick_ns, begins) for one in exchanges if len(one.heard) >= _FEW and one.tick_ns == tick_ns]
    if not found:
        return None
    waited, held, sent_late_at, came, by, large = (
        np.concatenate([getattr(one, name) for one in found]) for name in _Told.__dataclass_fields__
    )
    late_at = np.sort(np.concatenate([sent_late_at, came[by > _NOTHING_NS]]))
    mean = float(held.mean()) if len(held) else np.nan
    much_ns = max(tick_ns, _LEAST_NS) + (_PACED_NS if large.mean() > _SOME else 0)
    apart_ns = 0 if np.mean(waited > much_ns) > _RARE else _apart(came, by, much_ns)
    return OwnStamps(tick_ns, much_ns, waited, mean, len(held), len(by), by[by > 0], late_at, apart_ns)


class _Told(Record):
    """What one connection says, as `OwnStamps` has it."""

    waited_ns: I64
    held_ns: F64
    late_at_ns: I64  # of what was sent
    came_ns: I64  # stamps of what came in
    by_ns: I64  # later than that was acknowledged; most are earlier
    large: Bool  # of what was sent: whole segments


def _apart(came: I64, by_ns: I64, much_ns: int) -> int:
    """What came in is stamped by another clock than what is sent where it is as late in each stretch of time."""
    count = min(len(by_ns) // _FEWEST, _STRETCHES)
    if count < 2:
        return 0
    latest = [int(part.max()) for part in np.array_split(by_ns[np.argsort(came, kind="stable")], count)]
    least = min(latest)
    return least if least > much_ns and max(latest) - least <= max(2 * much_ns, least // 4) else 0


def _marked(frames: I32, last: int) -> Bool:
    out = np.zeros(last + 2, dtype=np.bool_)
    out[np.minimum(frames, last + 1)] = True  # null is the last one, too
    out[[0, last + 1]] = False
    return out


def _of(one: Exchange, tick_ns: int, begins: Bool) -> _Told:
    heard = one.heard
    # The capture's clock at the beginning of each tick, if nothing held the segment.
    level = heard.t_ns - heard.ticks * tick_ns
    # Beside a clock of another machine (behind a mirror port) it wanders.
    count = min((int(np.ptp(heard.ticks)) * tick_ns) // _STEADY_NS, len(level) // _FEW, _STRETCHES) + 1
    least = np.concatenate([_least(part) for part in np.array_split(level, count)])
    after = level - least
    frame = np.zeros(len(heard), dtype=np.int64)
    is_own = one.place >= 0
    frame[one.place[is_own]] = one.frame[is_own]
    # On the average segments are made in the middle of a tick.
    held = (after[begins[frame]] - tick_ns // 2).astype(np.float64)
    waited = np.maximum(after - tick_ns, 0)
    came, by_ns = _came(one.said, heard.ack, least, (heard.ticks + 1) * tick_ns)
    return _Told(waited, held, heard.t_ns[waited > _NOTHING_NS], came, by_ns, heard.size >= _MSS)


def _least(level: I64) -> I64:
    """Of each segment the least before it and behind it, whichever is more: a clock may have been set in between, or go
    at a rate of its own. Two in a row say it, for one stamp may be wrong."""
    pairs = np.maximum(level[:-1], level[1:])
    both = np.minimum(np.append(pairs, pairs[-1]), np.append(pairs[0], pairs))
    return np.maximum(np.minimum.accumulate(both), np.minimum.accumulate(both[::-1])[::-1])


def _came(said: Said, ack: I64, least: I64, until: I64) -> tuple[I64, I64]:
    """The stamps of what came in, as far as a segment of the host is the first to acknowledge it, and by how much they
    are later than `until`, the end of its tick."""
    once = ~said.again
    ends, came = said.end[once], said.t_ns[once]
    order = np.argsort(ends, kind="stable")
    ends, came = ends[order], came[order]
    # The last segment that is acknowledged whole: of what is behind it the capture may not have the first part.
    last = places(ends, ack + 1) - 1
    news = np.flatnonzero((last >= 0) & (np.diff(last, prepend=NULL) > 0))
    came, until = came[last[news]], until[news]
    by_ns = came - until - least[news]
    late = np.flatnonzero(by_ns > 0)
    if len(late):
        # Not what came before the clock of the capture was set back, and was acknowledged after that.
        most = np.array([least[max(row - _IN_FLIGHT, 0) : row + 1].max() for row in news[late].tolist()])
        by_ns[late] = came[late] - until[late] - most
    return came, by_ns
