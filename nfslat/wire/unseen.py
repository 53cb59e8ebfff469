"""One capture, decoded -> the ops that it knows of and does not show, and what they took together, with bounds.

Such an op has its call, its reply or both behind the snaplen, or in packets that were lost. That it exists is known by
the other half, or by a gap in the client's XIDs; `Unread` has the packets in which the half that is missing must lie.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from nfslat.decode.xid_gaps import in_order, left_out
from nfslat.kernels.order import side_by_side
from nfslat.model.blocks import together
from nfslat.model.decoded import Decoded
from nfslat.model.details import Unread
from nfslat.model.record import Record
from nfslat.model.tables import I32, I64, Bool, State
from nfslat.wire.unseen_counts import fit_all, replies_at_least
from nfslat.wire.unseen_fit import Fit, Rows, Waiting, fit
from nfslat.wire.unseen_sizes import Sizes, lengths_of, waiting_of

_NEVER = np.iinfo(np.int64)


class Unseen(Record):
    """Ops of one capture: those that it shows, and those that it only knows of. Sums of SRTs in ns."""

    seen: int
    seen_ns: float
    without_reply: int
    without_call: int
    without_both: int
    low_ns: float  # what the unseen took together, at least
    high_ns: float

    @property
    def ops(self) -> int:
        """Those that it only knows of."""
        return self.without_reply + self.without_call + self.without_both

    @property
    def share(self) -> float:
        """Of all ops, those."""
        return self.ops / max(self.ops + self.seen, 1)

    @property
    def mean_ns(self) -> tuple[float, float]:
        """Of all ops, at least and at most."""
        every = max(self.ops + self.seen, 1)
        return (self.seen_ns + self.low_ns) / every, (self.seen_ns + self.high_ns) / every

    @property
    def share_of_time(self) -> tuple[float, float]:
        """Of the time of all ops what the unseen took, at least and at most."""
        low, high = self.low_ns, self.high_ns
        return low / max(self.seen_ns + low, 1), high / max(self.seen_ns + high, 1)


class _Sum(NamedTuple):
    """The unseen ops of one direction of a connection; sums as of `Unseen`."""

    without_reply: int
    without_call: int
    without_both: int
    low_ns: float
    high_ns: float


def unseen(decoded: Decoded, forward: Bool, missing: I64, *, at_server: bool) -> Unseen | None:
    """What the capture does not show of the connections of those ops that `forward` masks.

    SRT is that of the side (docs/method.md); `missing` are the `missing_calls` of the capture. None where it shows all
    that it knows of, or not all packets that matter were kept.
    """
    details, ops = decoded.details, decoded.ops
    if not len(details.unread) or details.unread_dropped:
        return None
    sizes = Sizes.of_replies(decoded)
    order, spans = side_by_side(len(ops), 2 * len(ops.connections), lambda at: ops.conn[at] * 2 + ops.direction[at])
    found = []
    for conn in np.unique(details.unread.conn).tolist():
        for direction in (0, 1):
            rows = order[spans[2 * conn + direction]]
            if len(rows) and forward[rows].any():
                found.append(_of_way(decoded, rows, conn, direction, int(missing[conn]), sizes, at_server=at_server))
    t_call, t_reply = (ops.t1, ops.t2) if at_server else (ops.t0, ops.t3)
    at = together(np.flatnonzero(forward))
    all_of = Unseen(
        int(np.count_nonzero(forward)),
        float((t_reply[at] - t_call[at]).sum()),
        sum(one.without_reply for one in found),
        sum(one.without_call for one in found),
        sum(one.without_both for one in found),
        max(sum(one.low_ns for one in found), 0.0),
        max(sum(one.high_ns for one in found), 0.0),
    )
    return all_of if all_of.ops else None


def _of_way(
    decoded: Decoded, seen: I32, conn: int, direction: int, missing: int, sizes: Sizes, *, at_server: bool
) -> _Sum:
    """Of calls in one direction of a connection; `seen` are rows of its ops."""
    ops, loose, unread = decoded.ops, decoded.loose, decoded.details.unread
    here = loose.conn == conn
    calls = np.flatnonzero(here & (loose.direction == direction) & (loose.state == State.NO_REPLY))
    replies = np.flatnonzero(here & (loose.direction != direction) & (loose.state == State.NO_CALL))
    of_calls, of_replies = _rows(unread, conn, direction), _rows(unread, conn, 1 - direction)
    origin_ns = int(ops.t0[seen].min())
    called_ns = (loose.last_ns if at_server else loose.first_ns)[calls] - origin_ns
    replied_ns = (loose.first_ns if at_server else loose.last_ns)[replies] - origin_ns

    # Calls that are not seen: of replies that are, and of gaps.
    counted = in_order(np.concatenate([ops.xid[seen], loose.xid[calls]]), loose.xid[replies])
    sent_ns = np.concatenate([ops.t0[seen], loose.first_ns[calls]]) - origin_ns
    orphans = gaps = None
    if counted is not None:
        numbers, orphans = counted
        gaps = left_out(numbers, orphans[_within(orphans, numbers)], missing)
        by_number = np.argsort(numbers, kind="stable")
        numbers, sent_ns = numbers[by_number], sent_ns[by_number]
    else:
        numbers = np.zeros(0, dtype=np.int64)
        orphans, gaps = np.zeros(len(replies), dtype=np.int64), numbers
        sent_ns = sent_ns[:0]
    packets = Rows(of_calls.stretch, of_calls.begin_ns - origin_ns, of_calls.end_ns - origin_ns, of_calls.bytes)
    low_ns, high_ns, has_call = _call_times(packets, numbers, sent_ns, orphans, replied_ns)
    gap_low_ns, gap_high_ns, has_gap = _call_times(packets, numbers, sent_ns, gaps, None)
    gap_low_ns, gap_high_ns = gap_low_ns[has_gap], gap_high_ns[has_gap]
    of_orphans = (float((replied_ns - high_ns)[has_call].sum()), float((replied_ns - low_ns)[has_call].sum()))

    # Replies that are not seen: of calls that are, and of gaps.
    packets = Rows(of_replies.stretch, of_replies.begin_ns - origin_ns, of_replies.end_ns - origin_ns, of_replies.bytes)
    last_ns = int(packets.end_ns.max()) if len(packets.end_ns) else _NEVER.min
    may_be = called_ns <= last_ns  # a later call was not answered before the capture ended
    gap_may_be = gap_low_ns <= last_ns
    gap_low_ns, gap_high_ns = gap_low_ns[gap_may_be], gap_high_ns[gap_may_be]
    waits_ns = called_ns[may_be]
    shown = ops.take(seen)
    waiting = waiting_of(sizes, shown, loose, calls[may_be], waits_ns, gap_low_ns, packets)
    # A call in front of the first that is seen, or behind the last, leaves no gap: the bytes of its reply show it.
    more = replies_at_least(packets, lengths_of(sizes, shown, waiting, any_of=True)) - len(waits_ns) - len(gap_low_ns)
    edges_ns = _at_edges(of_calls, sent_ns, origin_ns) if more > 0 else None
    if edges_ns is not None:
        gap_low_ns = np.append(gap_low_ns, np.full(more, edges_ns[0]))
        gap_high_ns = np.append(gap_high_ns, np.full(more, edges_ns[1]))
        waiting = waiting_of(sizes, shown, loose, calls[may_be], waits_ns, gap_low_ns, packets)
    early_ns = np.concatenate([waits_ns, gap_low_ns])
    lengths = lengths_of(sizes, shown, waiting, any_of=len(gap_low_ns) > 0)
    times = _reply_times(packets, waiting, early_ns, lengths, ends=not at_server)
    every_low = np.sort(early_ns)
    every_high = np.sort(np.concatenate([waits_ns, gap_high_ns]))
    # Where not all have a place, nobody knows which of them were answered: the last ones are the quickest.
    low = times.low - float(every_high[len(every_high) - times.placed :].sum())
    high = times.high - float(every_low[: times.placed].sum())
    both = min(len(gap_low_ns), times.placed)
    return _Sum(
        times.placed - both,
        int(np.count_nonzero(has_call)),
        both,
        max(low, 0.0) + of_orphans[0],
        high + of_orphans[1],
    )


def _reply_times(
    packets: Rows, waiting: Sequence[Waiting], called_ns: I64, lengths: Sequence[tuple[int, int]], *, ends: bool
) -> Fit:
    """The sum of the times of the replies to the calls of `waiting`, all sent at `called_ns`: by what replies of each
    size have room for, and by how many of `lengths` each stretch can hold."""
    fits = fit(packets, waiting, ends=ends)
    each = Fit(sum(one.placed for one in fits), sum(one.low for one in fits), sum(one.high for one in fits))
    every = fit_all(packets, called_ns, lengths, ends=ends)
    if every is None or every.placed != each.placed:
        return every or each
    low, high = max(each.low, every.low), min(each.high, every.high)
    if low > high:  # a reply is not as was taken for granted, and nobody knows which of the two is right
        low, high = min(each.low, every.low), max(each.high, every.high)
    return Fit(every.placed, low, high)


def _within(some: I64, numbers: I64) -> Bool:
    return np.asarray((some > numbers.min()) & (some < numbers.max()))


def _at_edges(packets: Rows, sent_ns: I64, origin_ns: int) -> tuple[int, int] | None:
    """When calls were sent that are in front of the first that is seen, or behind the last: at the earliest and at the
    latest, ns from `origin_ns`; None: no packets can hold any, or nobody knows the order."""
    if not len(sent_ns):
        return None
    begin_ns, end_ns = packets.begin_ns - origin_ns, packets.end_ns - origin_ns
    outside = (begin_ns <= sent_ns.min()) | (end_ns >= sent_ns.max())
    return (int(begin_ns[outside].min()), int(end_ns[outside].max())) if outside.any() else None


def _rows(unread: Unread, conn: int, direction: int) -> Rows:
    at = np.flatnonzero((unread.conn == conn) & (unread.direction == direction))
    stretch = np.maximum(np.cumsum(unread.begins[at], dtype=np.int64) - 1, 0)
    return Rows(stretch, unread.begin_ns[at], unread.end_ns[at], unread.bytes[at])


def _call_times(
    packets: Rows, numbers: I64, sent_ns: I64, hidden: I64, replied_ns: I64 | None
) -> tuple[I64, I64, Bool]:
    """When calls that are not seen were sent, at the earliest and at the latest, and which have a place at all.

    A client sends calls in the order of their `numbers` (those that are seen were sent at `sent_ns`), and in front of
    their replies. Where it does not count, there are none, and all that is known is the latter.
    """
    count = len(packets.bytes)
    if not count or not len(hidden):
        nothing = np.zeros(len(hidden), dtype=np.int64)
        return nothing, nothing, np.zeros(len(hidden), dtype=np.bool_)
    at = np.searchsorted(numbers, hidden)
    padded = np.concatenate([[_NEVER.min], sent_ns, [_NEVER.max]])
    before, after = padded[at], padded[at + 1]
    before, after = np.minimum(before, after), np.maximum(before, after)
    if replied_ns is not None:
        after = np.minimum(after, replied_ns)
    ends, begins = np.sort(packets.end_ns), np.sort(packets.begin_ns)
    first = np.searchsorted(ends, before)
    last = np.searchsorted(begins, after, "right") - 1
    has_place = (last >= 0) & ((first < count) | (before == _NEVER.min))
    one, other = np.clip(first, 0, count - 1), np.clip(last, 0, count - 1)
    low, high = begins[np.minimum(one, other)], ends[np.maximum(one, other)]
    if replied_ns is not None:
        high = np.minimum(high, replied_ns)
    return low, np.maximum(high, low), has_place
