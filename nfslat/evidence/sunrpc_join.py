"""RPCs of a sunrpc trace, ops of a capture -> for each op the row of the trace that tells what it waited for."""

from __future__ import annotations

import numpy as np

from nfslat.evidence.sunrpc_trace import CLIENT, SERVER, SunrpcTrace
from nfslat.model.record import Record
from nfslat.model.tables import I64, U32, Bool

# An RPC that is sent again is answered minutes after its first sending (timeo is 60 s); an XID comes back later.
_FAR_NS = 120 * 10**9
_NEVER_NS = np.int64(1) << 62


class Joined(Record):
    """For each op of a capture, in its order: the row of the trace, and that row's times; -1 where there is none.

    Ops without a row are `ambiguous` (their XID occurs more than once and time does not tell which is which) or
    `missing` (no RPC of the trace has their XID at that time).
    """

    row: I64
    backlog_us: I64  # client: waits before it was sent last
    slot_us: I64  # client: of that, until it got its slot
    execute_us: I64  # client: all of it; server: in a thread
    ambiguous: int
    missing: int


def join(trace: SunrpcTrace, xid: U32, t_ns: I64, *, server: bool = False) -> Joined:
    """Find the RPC of each op by XID; where an XID occurs more than once, by time.

    `t_ns` is when the op's call was on the wire, on the capture's clock: `Ops.t0` of the client, `Ops.t1` of the server
    (with `server`, whose rows of the trace are looked at then). The two clocks need not agree: their difference is the
    median over the XIDs that occur once. Of several RPCs the nearest is taken when the next is more than twice as far,
    and when no other op is that near to it.
    """
    rows = np.flatnonzero(trace.side == (SERVER if server else CLIENT)).astype(np.int64)
    begin_ns, xids = trace.begin_ns[rows], trace.xid[rows]
    offset_ns = _offset(xids, begin_ns, xid, t_ns)
    known = begin_ns >= 0
    at_ns = begin_ns if offset_ns is None else begin_ns - offset_ns
    if offset_ns is None or not known.all():
        # Without times an XID that occurs once is found, and no other.
        at_ns, t_ns, far_ns = np.zeros_like(at_ns), np.zeros_like(t_ns), _NEVER_NS
    else:
        far_ns = np.int64(_FAR_NS)
    near, doubt = _nearest(xids, at_ns, xid, t_ns, far_ns)
    back, _ = _nearest(xid, t_ns, xids, at_ns, far_ns)
    mutual = (near >= 0) & (back[near] == np.arange(len(xid))) if len(rows) else near >= 0
    row = np.where(mutual, rows[near] if len(rows) else -1, -1).astype(np.int64)
    ambiguous = int((doubt | ((near >= 0) & ~mutual)).sum())

    def taken(column: I64) -> I64:
        return np.where(row >= 0, column[row], -1).astype(np.int64)

    return Joined(
        row=row,
        backlog_us=taken(trace.backlog_us),
        slot_us=taken(trace.slot_us),
        execute_us=taken(trace.execute_us),
        ambiguous=ambiguous,
        missing=len(row) - int((row >= 0).sum()) - ambiguous,
    )


def _offset(trace_xid: U32, begin_ns: I64, xid: U32, t_ns: I64) -> int | None:
    once, at, times = np.unique(trace_xid, return_index=True, return_counts=True)
    once_op, at_op, times_op = np.unique(xid, return_index=True, return_counts=True)
    _, left, right = np.intersect1d(once[times == 1], once_op[times_op == 1], assume_unique=True, return_indices=True)
    begins, calls = begin_ns[at[times == 1][left]], t_ns[at_op[times_op == 1][right]]
    deltas = (begins - calls)[begins >= 0]
    # The median of an even number is one of the two in the middle: their mean could be no time of any RPC.
    return int(np.partition(deltas, len(deltas) // 2)[len(deltas) // 2]) if len(deltas) else None


def _nearest(xids: U32, at_ns: I64, xid: U32, t_ns: I64, far_ns: np.int64) -> tuple[I64, Bool]:
    """For each (`xid`, `t_ns`) the nearest row of (`xids`, `at_ns`) with that XID, -1 for none; and where that is open.

    Open is where the second nearest is not more than twice as far.
    """
    order = np.lexsort((at_ns, xids))
    # How many rows are before each of the asked in the order of XID and time, those at the same time not counted.
    both = np.lexsort((
        np.concatenate((np.ones(len(xids), np.int8), np.zeros(len(xid), np.int8))),
        np.concatenate((at_ns, t_ns)),
        np.concatenate((xids, xid)),
    ))  # fmt: skip
    is_row = both < len(xids)
    before = np.empty(len(xid), dtype=np.int64)
    before[both[~is_row] - len(xids)] = np.cumsum(is_row)[~is_row]
    distance = np.full((4, len(xid)), _NEVER_NS)
    candidate = np.full((4, len(xid)), -1, dtype=np.int64)
    for place, step in enumerate((-2, -1, 0, 1)):
        at = before + step
        inside = np.flatnonzero((at >= 0) & (at < len(order)))
        found = order[at[inside]]
        same = xids[found] == xid[inside]
        inside, found = inside[same], found[same]
        candidate[place, inside] = found
        distance[place, inside] = np.abs(at_ns[found] - t_ns[inside])
    ranks = np.argsort(distance, axis=0, kind="stable")
    first, second = (np.take_along_axis(distance, ranks[rank : rank + 1], axis=0)[0] for rank in (0, 1))
    best = np.take_along_axis(candidate, ranks[:1], axis=0)[0]
    within = (best >= 0) & (first <= far_ns)
    doubt = within & (second < _NEVER_NS) & (first >= second - first)
    return np.where(within & ~doubt, best, -1), doubt
