"""Ops and loose messages of the server's side -> what the server's threads had to do, in the order of its arrival."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from nfslat.kernels.dispatch import Work
from nfslat.kernels.order import side_by_side
from nfslat.model.blocks import distinct
from nfslat.model.details import Blocked
from nfslat.model.protocol import IN_MEMORY_OPS, NFS, NFSACL, NULL, op_name
from nfslat.model.tables import I16, I32, I64, U32, Bool, Loose, Ops, State

# What a server may hold back without a thread: the client is told to come again (NFS3ERR_JUKEBOX and NFS4ERR_DELAY are
# one number), a lock that somebody else has, a layout that is recalled first.
_COME_AGAIN = 10008
_MAY_BE_HELD = frozenset(("LOCK", "LAYOUTGET", "LAYOUTRETURN", "WANT_DELEGATION"))

# A call whose first transmission is not in the capture arrives late, and far out of the order of its XIDs.
_RESENT_NS = 100_000_000  # clients wait at least so long (timeo is in tenths of a second)
_IN_ORDER = 0.9  # of the calls of a connection have an XID that is a little above one before, where a client counts
_STEP = 64
_OFTEN_BLOCKED = 0.02  # of the calls


Host = tuple[str, ...]  # its addresses, that with most calls first; none: whichever answered most


class Jobs(NamedTuple):
    """`op` is the row of the server's ops, NULL for a call that was answered once more, or that the capture does not
    show; `kind` numbers operations, and what is not known to be one has a number of its own."""

    work: Work
    op: I64
    kind: I16
    addresses: tuple[str, ...]  # of the server
    servers: int  # hosts that answer NFS calls in the capture; only that one is looked at
    held: int  # ops left out: the server may have held them back
    plain: Bool  # of the work: sent once, as far as can be told, so that its place in the stream is sure
    uncalled_ns: I64  # replies to calls of which it is not known when they came, ascending: those were in threads, too
    unseen: int  # calls that are not in the capture, and whose place in the stream the XID of the reply tells
    unseen_first: int  # ops whose arrival is that of a first transmission that the capture does not show
    light_kinds: Bool  # of each `kind`: needs neither data nor a name

    @property
    def server(self) -> str:
        """The address that names it."""
        return self.addresses[0] if self.addresses else ""

    @property
    def light(self) -> Bool:
        """Of the work: ops that are known to need neither data nor a name."""
        return np.asarray((self.op != NULL) & self.light_kinds[self.kind])

    def part(self, rows: slice | I64) -> Jobs:
        """Some of the work, in its order."""
        return self._replace(work=self.work.part(rows), op=self.op[rows], kind=self.kind[rows], plain=self.plain[rows])

    def within(self, span_ns: tuple[int, int] | None) -> Jobs:
        """Those that were at the server at some time of `span_ns`, its clock; None: all."""
        if span_ns is None:
            return self
        first_ns, last_ns = span_ns
        rows = np.flatnonzero((self.work.reply_ns >= first_ns) & (self.work.arrival_ns <= last_ns))
        uncalled = self.uncalled_ns[(self.uncalled_ns >= first_ns) & (self.uncalled_ns <= last_ns)]
        return self.part(rows)._replace(uncalled_ns=uncalled)

    @property
    def counts(self) -> Jobs:
        """The same without the rows, which take memory."""
        times, stream = np.zeros(0, dtype=np.int64), np.zeros(0, dtype=np.int32)
        return self._replace(
            work=Work.of(times, times, stream), op=times, kind=self.kind[:0].copy(),
            plain=self.plain[:0].copy(), uncalled_ns=times,
        )  # fmt: skip


def find_jobs(ops: Ops, loose: Loose, reverse: Bool, blocked: Blocked | None = None, server: Host = ()) -> Jobs:
    """The jobs of `server`, a host by its addresses, else of the address that answered most NFS calls; `reverse` is
    `select.is_reverse`, one a class of ops.

    A call arrives when the server can read it: where `blocked` (of the same capture) has it, when TCP let it through.
    """
    classes = ops.classes
    called = [ops.connections[c].destination(w)[0] for c, w in zip(classes.conn, classes.direction, strict=True)]
    is_nfs = np.array([ops.kinds[k].program in (NFS, NFSACL) for k in classes.kind], dtype=np.bool_) & ~reverse
    calls: dict[str, int] = {}
    for address, count, wanted in zip(called, classes.count.tolist(), is_nfs.tolist(), strict=True):
        if wanted:
            calls[address] = calls.get(address, 0) + count
    server = server or tuple(sorted(calls, key=lambda address: -calls[address])[:1])
    here = ops.spread(is_nfs & np.array([address in server for address in called], dtype=np.bool_))
    names = [op_name(kind.program, kind.version, kind.op) for kind in ops.kinds]
    may_be_held = np.array([name in _MAY_BE_HELD for name in names], dtype=np.bool_)
    held = here & ((ops.status == _COME_AGAIN) | may_be_held[ops.kind]) if len(ops) else here
    rows = np.flatnonzero(here & ~held)
    # No copies of what is taken as it is: the usual capture is of one server, and holds millions of ops.
    chosen: slice | I64 = slice(None) if len(rows) == len(ops) else rows
    stream = _streams(ops)[ops.conn[chosen]] if len(rows) else np.zeros(0, dtype=np.int32)
    kinds, of_name = np.unique(names, return_inverse=True)
    number = of_name.astype(np.int16)
    readable, reply = ops.t1[chosen], ops.t2[chosen]
    was_blocked = np.zeros(0, dtype=np.bool_)
    if blocked is not None and not blocked.is_reply.all():
        readable, was_blocked = _delivered(ops, blocked, chosen)
    arrival = _arrivals(readable, ops.conn[chosen], ops.xid[chosen])
    plain = (ops.transmissions[chosen] == 1) & (arrival == readable)
    unseen_first = int(np.count_nonzero(arrival != readable))
    if (reply < arrival).any():  # never before the call, come what may
        reply = np.maximum(reply, arrival)
    again = _answered_again(ops, loose, rows, arrival)
    kind = number[ops.kind[chosen]] if len(rows) else number[:0]
    uncalled = (loose.state == State.NO_CALL) & np.isin(loose.conn, distinct(ops.conn[chosen], len(ops.connections)))
    if len(again[0]):
        arrival, reply = np.concatenate((arrival, again[0])), np.concatenate((reply, again[1]))
        stream, kind = np.concatenate((stream, stream[again[2]])), np.concatenate((kind, kind[again[2]]))
        rows = np.concatenate((rows, np.full(len(again[0]), NULL)))
        plain = np.concatenate((plain, np.zeros(len(again[0]), dtype=np.bool_)))
    came = _unseen_calls(ops.conn[chosen], ops.xid[chosen], arrival[: len(readable)], loose.take(uncalled))
    if np.count_nonzero(was_blocked) > _OFTEN_BLOCKED * len(was_blocked):
        came[:] = NULL  # TCP kept back those, too, and until when is not known
    placed = came != NULL
    if placed.any():
        count = int(np.count_nonzero(placed))
        replies = loose.take(uncalled).take(placed)
        arrival, reply = np.concatenate((arrival, came[placed])), np.concatenate((reply, replies.first_ns))
        stream = np.concatenate((stream, _streams(ops)[replies.conn]))
        kind = np.concatenate((kind, np.full(count, number.max() + 1, dtype=np.int16)))
        rows = np.concatenate((rows, np.full(count, NULL)))
        plain = np.concatenate((plain, np.zeros(count, dtype=np.bool_)))
    if len(was_blocked) or (np.diff(arrival) < 0).any():
        order = _in_order(arrival, reply, arrival[: len(was_blocked)][was_blocked])
        plain = plain[order]
        arrival, reply, rows = arrival[order], reply[order], rows[order]
        stream, kind = stream[order], kind[order]
    hosts = len(calls.keys() - server) + bool(calls.keys() & server)
    return Jobs(
        Work.of(arrival, reply, stream), rows, kind, server, hosts, int(np.count_nonzero(held)), plain,
        np.sort(loose.first_ns[uncalled][~placed]), int(np.count_nonzero(placed)), unseen_first,
        np.append(np.isin(kinds, [*IN_MEMORY_OPS]), False),
    )  # fmt: skip


def _streams(ops: Ops) -> I32:
    """Number of the stream of each connection; a server has one socket for all that comes by UDP."""
    names = [
        ("udp",) if ends.transport == "udp" else ("tcp", ends.source(0), ends.destination(0))
        for ends in ops.connections
    ]
    numbers = {name: at for at, name in enumerate(dict.fromkeys(names))}
    return np.array([numbers[name] for name in names], dtype=np.int32)


def _arrivals(t1: I64, conn: I32, xid: U32) -> I64:
    """When each call came for the first time, as far as the order of the XIDs tells; `t1`: when it could be read.

    Linux counts its XIDs up, one a call, connection by connection, in its own byte order (xprt_alloc_xid,
    net/sunrpc/xprt.c). A call that comes 0.1 s or more after one with a higher XID was sent before, where the capture
    does not show it, and stood in the stream before that one.
    """
    out = t1
    if not len(out):
        return out
    order, spans = side_by_side(len(conn), int(conn.max(initial=-1)) + 1, lambda at: conn[at])
    for span in spans:
        rows = order[span]
        if len(rows) < _STEP:
            continue
        for number in (xid[rows].byteswap(), xid[rows]):
            ahead = _ahead(number, number[0])
            if not _counts_up(ahead):
                continue
            if (ahead[1:] >= ahead[:-1]).all():
                break
            by_number = np.argsort(ahead, kind="stable")
            times = t1[rows[by_number]]
            first = np.minimum.accumulate(times[::-1])[::-1]
            late = np.flatnonzero(times - first >= _RESENT_NS)
            # In the order of their XIDs, and a little before the one that shows when they came.
            shown = np.flatnonzero(times - first < _RESENT_NS)
            before = shown[np.searchsorted(shown, late)] - late
            if len(late):
                out = out.copy() if out is t1 else out
                out[rows[by_number[late]]] = first[late] - before
            break
    return out


def _ahead(number: U32, of: np.uint32) -> I64:
    """By how much each is further on; wraps as the client's counter does."""
    return (number - of).astype(np.int32).astype(np.int64)


def _counts_up(ahead: I64) -> bool:
    if int(ahead.max() - ahead.min()) + 1 < _IN_ORDER * len(ahead):
        return False  # more calls than numbers: they come again
    return bool(np.mean(np.abs(np.diff(ahead)) < _STEP) >= _IN_ORDER)


def _unseen_calls(conn: I32, xid: U32, arrival: I64, replies: Loose) -> I64:
    """When the calls came to which these are `replies`, NULL where it is not known.

    A call that begins far inside of a segment, behind a WRITE or many other calls, is cut off by the snaplen, and its
    reply is there. Where the client counts its XIDs up it came right behind the call before it.
    """
    came = np.full(len(replies), NULL)
    if not len(replies) or not len(conn):
        return came
    # A server has thousands of connections: none of them looks through the messages of all.
    many = int(max(conn.max(), replies.conn.max())) + 1
    order, spans = side_by_side(len(conn), many, lambda at: conn[at])
    order_of_replies, spans_of_replies = side_by_side(len(replies), many, lambda at: replies.conn[at])
    for one in np.unique(replies.conn).tolist():
        mine, rows = order_of_replies[spans_of_replies[one]], order[spans[one]]
        if len(rows) < _STEP:
            continue
        for swapped in (True, False):
            of = xid[rows].byteswap() if swapped else xid[rows]
            ahead = _ahead(of, of[0])
            if not _counts_up(ahead):
                continue
            number = replies.xid[mine].byteswap() if swapped else replies.xid[mine]
            ahead_of_mine = _ahead(number, of[0])
            by_number = np.argsort(ahead, kind="stable")
            after = np.searchsorted(ahead[by_number], ahead_of_mine)
            before = rows[by_number[np.maximum(after - 1, 0)]]
            step = ahead_of_mine - ahead[by_number[np.maximum(after - 1, 0)]]
            at = arrival[before]
            good = (after > 0) & (step < _STEP) & (at <= replies.first_ns[mine])
            came[mine[good]] = at[good]
            break
    return came


def _delivered(ops: Ops, blocked: Blocked, chosen: slice | I64) -> tuple[I64, Bool]:
    """When the server could read each call, and which of them TCP had kept back.

    A call that is answered before the hole in front of it is filled was kept from nobody: the capture has its packets
    in another order than the host.
    """
    calls = blocked.take(blocked.is_reply == 0)
    until = np.full(len(ops), NULL)
    until[calls.op] = calls.until_ns
    t1, of_job = ops.t1[chosen], until[chosen]
    was_blocked: Bool = (of_job >= t1) & (of_job <= ops.t2[chosen])
    return np.where(was_blocked, of_job, t1), was_blocked


def _in_order(arrival: I64, reply: I64, let_through_ns: I64) -> I64:
    """Rows by arrival.

    What TCP lets through at one moment has an order that its segments' times do not tell. In the order of its answers
    no call seems to be overtaken, so nothing is said of threads that may not be so.
    """
    unsure = np.isin(arrival, let_through_ns)
    return np.lexsort((np.where(unsure, reply, 0), arrival))


def _answered_again(ops: Ops, loose: Loose, rows: I64, arrival: I64) -> tuple[I64, I64, I64]:
    """Arrival, reply and position in `rows` of calls that the server did once more, because they were sent again."""
    nothing = np.zeros(0, dtype=np.int64)
    of_op = np.flatnonzero((loose.state == State.RETRANSMITTED) & (loose.op != NULL) & (loose.is_reply == 1))
    at = np.searchsorted(rows, loose.op[of_op])
    known = np.isin(loose.op[of_op], rows)
    of_op, at = of_op[known], at[known].astype(np.int64)
    if not len(of_op):
        return nothing, nothing, nothing
    # The call that this answers is the last one before it; the op's own where the first was not captured.
    sent = np.maximum(ops.t1[rows[at]], arrival[at])
    calls = np.flatnonzero((loose.state == State.RETRANSMITTED) & (loose.op != NULL) & (loose.is_reply == 0))
    by_op: dict[int, list[int]] = {}
    for call in calls.tolist():
        by_op.setdefault(int(loose.op[call]), []).append(int(loose.last_ns[call]))
    reply = loose.first_ns[of_op]
    for place, (op, when) in enumerate(zip(loose.op[of_op].tolist(), reply.tolist(), strict=True)):
        sent[place] = max((t for t in by_op.get(op, ()) if t <= when), default=sent[place])
    # Without a second call it is only the answer that was sent again, and no thread did anything.
    again = np.isin(loose.op[of_op], list(by_op)) | (arrival[at] != ops.t1[rows[at]])
    good = again & (sent <= reply)
    return sent[good], reply[good], at[good]
