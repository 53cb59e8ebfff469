"""Messages of the tshark engine -> ops and loose messages: each reply to its call by connection, direction and XID.

XIDs are reused and calls are sent again, so the messages of one XID are read in capture order. Nearly always they are
one call and one reply, which is done for all at once; only the rest is walked through one by one.
The native engine pairs in Rust; what this module does with the messages of a capture is what that one must do, too.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import numpy.typing as npt

from nfslat.decode.tshark.again import (
    COPY_NS,
    Op,
    Reused,
    earlier_copy,
    is_acknowledged,
    may_be_sent_again,
    same_request,
)
from nfslat.decode.tshark.messages import Messages
from nfslat.model.protocol import NULL, NULL32
from nfslat.model.record import Record
from nfslat.model.tables import CALL_SHOWN_LAST, I8, I64, REPLY_SHOWN_LAST, U32, WHOLE, Kind, Loose, Ops, State

_COPIES_KEPT = 16  # replies of one XID that a later one may be a copy of
_MOST = np.iinfo(np.int16).max


class Paired(Record):
    """Ops of one side, the messages that no op is made of, and the `State` of each message (int8, in their order)."""

    ops: Ops
    loose: Loose
    states: I8


def pair(messages: Messages) -> Paired:
    """Pair calls with replies (docs/method.md).

    Every message is in an op or loose, so ``2 * len(ops) + len(loose)`` is ``len(messages)``. An op that was sent
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
    groups = [
        order[start : start + size].tolist()
        for start, size in zip(starts[odd].tolist(), sizes[odd].tolist(), strict=True)
    ]
    walked = _walk_all(messages, groups, states)
    # An unanswered call may have come again on another connection, where it can look like any other op.
    unanswered = {int(messages.xid[op.call]) for op in walked if op.reply == NULL}
    again = np.isin(messages.xid[calls], list(unanswered))
    walked += [Op(c, r, c) for c, r in zip(calls[again].tolist(), replies[again].tolist(), strict=True)]
    calls, replies = calls[~again], replies[~again]
    walked = _join_across_connections(messages, walked, states)

    complete = [op for op in walked if op.reply != NULL]
    first = np.concatenate([calls, _rows(op.call for op in complete)])
    reply = np.concatenate([replies, _rows(op.reply for op in complete)])
    sends = np.concatenate([np.ones(len(calls), dtype=np.int64), _rows(op.transmissions for op in complete)])
    by_call = np.lexsort((first, messages.first_frame[first]))
    kinds, kind = _kinds(messages)
    ops = _ops(messages, first[by_call], reply[by_call], sends[by_call], kinds, kind)
    row_of = np.empty(len(first), dtype=np.int64)
    row_of[by_call] = np.arange(len(first))
    owner = np.full(len(messages), NULL, dtype=np.int32)
    for row, op in zip(row_of[len(calls) :].tolist(), complete, strict=True):
        owner[op.again] = row
    return Paired(ops, _loose(messages, states, owner, kinds, kind), states)


def _rows(values: Iterator[int]) -> I64:
    return np.fromiter(values, dtype=np.int64)


def _walk_all(m: Messages, groups: list[list[int]], states: npt.NDArray[np.int8]) -> list[Op]:
    """The ops of many XIDs. Where those of a connection come again soon all the time, that is known from then on."""
    reused = Reused()
    before = states.copy()
    walked = [op for rows in groups for op in _walk(m, rows, states, reused)]
    if not reused.close():
        return walked
    states[:] = before
    return [op for rows in groups for op in _walk(m, rows, states, reused)]


def _walk(m: Messages, rows: list[int], states: npt.NDArray[np.int8], reused: Reused) -> list[Op]:
    """The messages of one XID of one connection and direction, in capture order -> its ops."""
    ops: list[Op] = []
    op: Op | None = None
    early: int | None = None  # a reply in front of any call
    sent: list[int] = []  # rows of the calls of `op`
    answered: list[int] = []  # rows of all replies so far: TCP may send an old one again
    answers: dict[int, Op] = {}  # what they answer
    for row in rows:
        if m.is_reply[row]:
            copy_of, state = earlier_copy(m, answered, row)
            owner = op
            if state is not None:
                states[row] = state
                owner = answers.get(copy_of)
            elif op is None:
                states[row] = State.NO_CALL
                early = row
            elif op.reply == NULL:
                op.reply = row
                states[op.call] = states[row] = State.PAIRED
            else:
                states[row] = State.RETRANSMITTED  # answered again, from the duplicate request cache or really
            if owner is not None:
                answers[row] = owner
                if owner.reply != row:
                    owner.again.append(row)
            answered = [*answered[-_COPIES_KEPT:], row]
            continue
        _, state = earlier_copy(m, sent, row)
        if op is not None and state is not None:
            states[row] = state
            op.again.append(row)
            sent.append(row)
            continue
        if op is not None and same_request(m, op.call, row) and may_be_sent_again(m, op, row, reused):
            states[row] = State.RETRANSMITTED
            op.again.append(row)
            op.transmissions += 1
            if op.reply == NULL:
                op.last_call = row
            sent.append(row)
            continue
        if op is not None and is_acknowledged(m, op, row):
            reused.add(int(m.conn[row]), int(m.first_frame[row]))
        op = Op(call=row, last_call=row)
        ops.append(op)
        sent = [row]
        if early is not None and 0 <= m.first_ns[early] - m.last_ns[row] < COPY_NS:
            # Captures of several queues may write a reply in front of its call; the times tell.
            op.reply = early
            answers[early] = op
            states[row] = states[early] = State.PAIRED
        early = None
    return ops


def _join_across_connections(m: Messages, ops: list[Op], states: npt.NDArray[np.int8]) -> list[Op]:
    """A call that was never answered, and came again with its XID on a new connection, is one op (docs/method.md).

    Only where the new connection began after the call and the old one shows nothing any more: live connections of one
    client may use equal XIDs at the same time.
    """
    last_seen = np.zeros(len(m.connections), dtype=np.int64)
    np.maximum.at(last_seen, m.conn, m.first_ns)
    first_seen = np.full(len(m.connections), np.iinfo(np.int64).max, dtype=np.int64)
    np.minimum.at(first_seen, m.conn, m.first_ns)
    by_xid: dict[int, list[Op]] = {}
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
                    again = [*op.again, later.call, *later.again]
                    same_xid.insert(0, Op(op.call, later.reply, later.last_call, total, again))
                    continue
            out.append(op)
    return out


def _continues(m: Messages, op: Op, later: Op, first_seen: I64, last_seen: I64) -> bool:
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
    return same_ends and same_request(m, op.call, later.call)


def _kinds(m: Messages) -> tuple[tuple[Kind, ...], I64]:
    """The kinds of the calls, and each message's row among them; NULL for a reply."""
    calls = np.flatnonzero(m.is_reply == 0)
    asked = np.stack([m.program[calls], m.version[calls], m.minor[calls], m.op[calls]], axis=1)
    unique, inverse = np.unique(asked, axis=0, return_inverse=True)
    kind = np.full(len(m), NULL, dtype=np.int64)
    # More kinds than a column holds are none that exist: the versions of a damaged capture.
    kind[calls] = np.minimum(inverse.reshape(-1), _MOST)
    kinds = [Kind(*values) for values in unique[:_MOST].tolist()]
    return (*kinds, *([Kind(NULL, NULL, NULL, NULL)] * (len(unique) > _MOST))), kind


def _unsigned(values: I64) -> U32:
    """Null is all bits set in either; what does not fit is null, too."""
    return np.where((values < 0) | (values > NULL32), NULL32, values).astype(np.uint32)


def _shown_last(m: Messages, rows: I64) -> npt.NDArray[np.bool_]:
    """Is the frame in which tshark shows the message its last one? Where it is none of the two: is that nearer?"""
    return np.asarray(abs(m.last_frame[rows] - m.frame[rows]) < abs(m.frame[rows] - m.first_frame[rows]))


def _ops(m: Messages, call: I64, reply: I64, transmissions: I64, kinds: tuple[Kind, ...], kind: I64) -> Ops:
    # Of the rest, as the status, tshark is not asked.
    return Ops.with_nulls(
        len(call),
        # The one that carried the answer: only there do both captures see the op.
        conn=m.conn[reply],
        direction=(1 - m.direction[reply]).astype(np.int8),
        xid=_unsigned(m.xid[call]),
        kind=kind[call].astype(np.int16),
        offset=m.offset[call],
        size=_unsigned(m.size[call]),
        fh=_unsigned(m.fh[call]),
        t0=m.first_ns[call],
        t1=m.last_ns[call],
        t2=m.first_ns[reply],
        t3=m.last_ns[reply],
        call_first_frame=m.first_frame[call].astype(np.int32),
        call_last_frame=m.last_frame[call].astype(np.int32),
        reply_first_frame=m.first_frame[reply].astype(np.int32),
        reply_last_frame=m.last_frame[reply].astype(np.int32),
        transmissions=np.minimum(transmissions, _MOST).astype(np.int16),
        flags=(
            (m.whole[call] & m.whole[reply]) * WHOLE
            | _shown_last(m, call) * CALL_SHOWN_LAST
            | _shown_last(m, reply) * REPLY_SHOWN_LAST
        ).astype(np.uint8),
        kinds=kinds,
        connections=m.connections,
    )


def _loose(m: Messages, states: I8, owner: npt.NDArray[np.int32], kinds: tuple[Kind, ...], kind: I64) -> Loose:
    rows = np.flatnonzero(states != State.PAIRED)
    return Loose(
        conn=m.conn[rows],
        direction=m.direction[rows],
        is_reply=m.is_reply[rows],
        xid=_unsigned(m.xid[rows]),
        kind=kind[rows].astype(np.int16),
        state=states[rows],
        op=owner[rows],
        first_frame=m.first_frame[rows].astype(np.int32),
        last_frame=m.last_frame[rows].astype(np.int32),
        first_ns=m.first_ns[rows],
        last_ns=m.last_ns[rows],
        kinds=kinds,
        connections=m.connections,
    )
