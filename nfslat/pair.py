"""Messages -> ops, one side: each reply to its call by connection, direction and XID, and one state for every message.

XIDs are reused and calls are sent again, so the messages of one XID are read in capture order. Nearly always they are
one call and one reply, which is done for all at once; only the rest is walked through one by one.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from nfslat.constants import NULL
from nfslat.tables import I8, I64, Messages, Ops, State

# A call that comes again after its answer has left was sent before the answer arrived, so within a round trip and
# some queueing; later than this, the XID is in use for another op.
LATE_RETRANSMISSION_NS = 1_000_000_000
# Unless the answer was lost: over UDP (timeo 1.1 s, doubled, a minute at most), or with the connection that carried it
# (reconnect). Then the call comes again much later, and is known by asking for exactly the same.
LOST_ANSWER_NS = 180_000_000_000
_COPIES_KEPT = 16  # replies of one XID that a later one may be a copy of
# Two copies of one packet without an IP identification (IPv6) are told from a TCP retransmission by their distance:
# the shortest retransmission timer in use is 200 ms (Linux TCP_RTO_MIN), a fast retransmission needs a round trip.
COPY_NS = 1_000_000


@dataclass(frozen=True)
class Paired:
    """Ops of one side, and the `State` of each message (int8, length of the messages)."""

    ops: Ops
    states: I8


@dataclass(slots=True)
class _Op:
    call: int  # rows of the messages; NULL where there is none
    reply: int = NULL
    last_call: int = NULL
    transmissions: int = 1


def pair(messages: Messages) -> Paired:
    """Pair calls with replies (docs/method.md).

    Every message gets exactly one state, so the counts of all states sum to ``len(messages)``. An op that was sent
    several times (RPC retransmission, on this connection or on a later one) is one op whose instants count from the
    first transmission.
    """
    states = np.full(len(messages), State.NO_REPLY, dtype=np.int8)
    call_direction = np.where(messages.is_reply == 1, 1 - messages.direction, messages.direction)
    order = np.lexsort((np.arange(len(messages)), messages.xid, call_direction, messages.conn))
    xid, conn, way = messages.xid[order], messages.conn[order], call_direction[order]
    new_group = np.ones(len(order), dtype=bool)
    new_group[1:] = (xid[1:] != xid[:-1]) | (conn[1:] != conn[:-1]) | (way[1:] != way[:-1])
    starts = np.flatnonzero(new_group)
    sizes = np.diff(np.append(starts, len(order)))

    two = starts[sizes == 2]
    is_reply = messages.is_reply[order]
    plain = two[(is_reply[two] == 0) & (is_reply[two + 1] == 1)]
    calls, replies = order[plain], order[plain + 1]
    states[calls] = states[replies] = State.PAIRED

    odd = ~np.isin(starts, plain, assume_unique=True)
    walked: list[_Op] = []
    for start, size in zip(starts[odd].tolist(), sizes[odd].tolist(), strict=True):
        walked += _walk(messages, order[start : start + size].tolist(), states)
    # An unanswered call may have come again on another connection, where it can look like any other op.
    unanswered = {int(messages.xid[op.call]) for op in walked if op.reply == NULL}
    again = np.isin(messages.xid[calls], list(unanswered))
    walked += [_Op(c, r, c) for c, r in zip(calls[again].tolist(), replies[again].tolist(), strict=True)]
    calls, replies = calls[~again], replies[~again]
    walked = _join_across_connections(messages, walked, states)

    complete = [op for op in walked if op.reply != NULL]
    first = np.concatenate([calls, _rows(op.call for op in complete)])
    last = np.concatenate([calls, _rows(op.last_call for op in complete)])
    reply = np.concatenate([replies, _rows(op.reply for op in complete)])
    sends = np.concatenate([np.ones(len(calls), dtype=np.int64), _rows(op.transmissions for op in complete)])
    by_call = np.lexsort((first, messages.first_frame[first]))
    ops = _ops(messages, first[by_call], last[by_call], reply[by_call], sends[by_call])
    return Paired(ops, states)


def _rows(values: Iterator[int]) -> I64:
    return np.fromiter(values, dtype=np.int64)


def _walk(m: Messages, rows: list[int], states: npt.NDArray[np.int8]) -> list[_Op]:
    """The messages of one XID of one connection and direction, in capture order -> its ops."""
    ops: list[_Op] = []
    op: _Op | None = None
    early: int | None = None  # a reply in front of any call
    sent: list[int] = []  # rows of the calls of `op`
    answered: list[int] = []  # rows of all replies so far: TCP may send an old one again
    for row in rows:
        if m.is_reply[row]:
            earlier = _earlier_copy(m, answered, row)
            if earlier is not None:
                states[row] = earlier
            elif op is None:
                states[row] = State.NO_CALL
                early = row
            elif op.reply == NULL:
                op.reply = row
                states[op.call] = states[row] = State.PAIRED
            else:
                states[row] = State.RETRANSMITTED  # answered again, from the duplicate request cache or really
            answered = [*answered[-_COPIES_KEPT:], row]
            continue
        earlier = _earlier_copy(m, sent, row)
        if op is not None and earlier is not None:
            states[row] = earlier
            sent.append(row)
            continue
        if op is not None and _same_request(m, op.call, row) and _may_be_sent_again(m, op, row):
            states[row] = State.RETRANSMITTED
            op.transmissions += 1
            if op.reply == NULL:
                op.last_call = row
            sent.append(row)
            continue
        op = _Op(call=row, last_call=row)
        ops.append(op)
        sent = [row]
        if early is not None and 0 <= m.first_ns[early] - m.last_ns[row] < COPY_NS:
            # Captures of several queues may write a reply in front of its call; the times tell.
            op.reply = early
            states[row] = states[early] = State.PAIRED
        early = None
    return ops


def _earlier_copy(m: Messages, earlier: list[int], row: int) -> State | None:
    """Is `row` the very packet, or the very bytes, of one of the `earlier` rows?"""
    for other in earlier:
        same_ip = m.ip_id[row] == m.ip_id[other]
        apart_ns = abs(int(m.t_ns[row] - m.t_ns[other]))
        if m.seq[row] != NULL:
            if m.seq[row] != m.seq[other]:
                continue
            same_packet = same_ip and (m.ip_id[row] > 0 or apart_ns < COPY_NS)
            return State.DUPLICATE_FRAME if same_packet else State.RETRANSMITTED
        if same_ip and apart_ns < (LATE_RETRANSMISSION_NS if m.ip_id[row] > 0 else COPY_NS):
            return State.DUPLICATE_FRAME
    return None


def _same_request(m: Messages, a: int, b: int) -> bool:
    """Do two calls ask for the same thing, as far as both captures show it?"""
    if m.program[a] != m.program[b] or m.version[a] != m.version[b]:
        return False
    if 1 in (m.op[a], m.op[b]) and m.version[a] == 4:
        return True  # a COMPOUND whose operations are encrypted or cut off
    return all(NULL in (column[a], column[b]) or column[a] == column[b] for column in (m.op, m.offset, m.size, m.fh))


def _may_be_sent_again(m: Messages, op: _Op, row: int) -> bool:
    if op.reply == NULL:
        return True
    since_ns = int(m.first_ns[row] - m.last_ns[op.reply])
    answer_may_be_lost = m.seq[row] == NULL or m.stream[row] != m.stream[op.reply]
    return since_ns < (LOST_ANSWER_NS if answer_may_be_lost and m.fh[row] != NULL else LATE_RETRANSMISSION_NS)


def _join_across_connections(m: Messages, ops: list[_Op], states: npt.NDArray[np.int8]) -> list[_Op]:
    """A call that was never answered, and came again with its XID on a new connection, is one op (docs/method.md).

    Only where the new connection began after the call and the old one shows nothing any more: live connections of one
    client may use equal XIDs at the same time.
    """
    last_seen = np.zeros(len(m.connections), dtype=np.int64)
    np.maximum.at(last_seen, m.conn, m.first_ns)
    first_seen = np.full(len(m.connections), np.iinfo(np.int64).max, dtype=np.int64)
    np.minimum.at(first_seen, m.conn, m.first_ns)
    by_xid: dict[int, list[_Op]] = {}
    for op in sorted(ops, key=lambda op: int(m.first_ns[op.call])):
        by_xid.setdefault(int(m.xid[op.call]), []).append(op)
    out = []
    for same_xid in by_xid.values():
        while same_xid:
            op = same_xid.pop(0)
            if op.reply == NULL:
                later = next((other for other in same_xid if _continues(m, op, other, first_seen, last_seen)), None)
                if later is not None:
                    same_xid.remove(later)
                    states[later.call] = State.RETRANSMITTED
                    states[op.call] = State.NO_REPLY if later.reply == NULL else State.PAIRED
                    total = op.transmissions + later.transmissions
                    same_xid.insert(0, _Op(op.call, later.reply, later.last_call, total))
                    continue
            out.append(op)
    return out


def _continues(m: Messages, op: _Op, later: _Op, first_seen: I64, last_seen: I64) -> bool:
    """Is `later` the unanswered `op`, sent again on a new connection of the same client to the same server?"""
    old, new = int(m.conn[op.last_call]), int(m.conn[later.call])
    if old == new or first_seen[new] < m.first_ns[op.last_call] or last_seen[old] > m.first_ns[later.call]:
        return False
    old_ends, new_ends = m.connections[old], m.connections[new]
    old_way, new_way = int(m.direction[op.last_call]), int(m.direction[later.call])
    same_ends = (old_ends.source(old_way)[0], old_ends.destination(old_way)) == (
        new_ends.source(new_way)[0],
        new_ends.destination(new_way),
    )
    return same_ends and _same_request(m, op.call, later.call)


def _ops(m: Messages, call: I64, last_call: I64, reply: I64, transmissions: I64) -> Ops:
    # The connection is the one that carried the answer: only there do both captures see the op.
    return Ops(
        conn=m.conn[reply],
        direction=(1 - m.direction[reply]).astype(np.int8),
        xid=m.xid[call],
        program=m.program[call],
        version=m.version[call],
        minor=m.minor[call],
        op=m.op[call],
        offset=m.offset[call],
        size=m.size[call],
        fh=m.fh[call],
        t0=m.first_ns[call],
        t1=m.last_ns[call],
        t2=m.first_ns[reply],
        t3=m.last_ns[reply],
        shown_call_ns=m.t_ns[call],
        shown_reply_ns=m.t_ns[reply],
        call_first_frame=m.first_frame[call],
        call_last_frame=m.last_frame[call],
        reply_first_frame=m.first_frame[reply],
        reply_last_frame=m.last_frame[reply],
        whole=m.whole[call] & m.whole[reply],
        transmissions=transmissions.astype(np.int32),
        last_call_ns=m.first_ns[last_call],
        connections=m.connections,
    )
