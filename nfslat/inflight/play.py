"""Ops with their time in a thread -> when each would have come and gone with other numbers of threads and slots.

The ops are played once more as a closed loop: a call leaves when the reply that it followed has come, and as long after
it as it did. So arrivals react to a faster server. The server is made like knfsd (net/sunrpc/svc_xprt.c): a connection
with calls to take stands in one queue, a thread takes its first call, and it goes back to the tail if there are more.
"""

from __future__ import annotations

import heapq
from collections import deque
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from nfslat.model.record import Record
from nfslat.model.tables import I64, Bool, Table

_ISSUE, _ARRIVE, _DONE, _RECEIVE = range(4)
_NO_LIMIT = 1 << 40
_AWHILE = 10_000  # calls and replies of one client


@dataclass(frozen=True, eq=False, repr=False)
class Load(Table):
    """Ops to play, one row each. All times of one clock; a reply is back after its call was sent.

    Rows of other clients of the server take threads and are not measured; what is not known of them is theirs at the
    server: `sent_ns` and `received_ns` are arrival and reply there, `network_ns` is 0.
    """

    conn: I64  # which connection; a server takes calls of one in stream order
    client: I64  # whose replies can have released the call
    slot_table: I64  # whose slots the call uses: its connection, its NFSv4.1 session; -1: of no matter
    sent_ns: I64  # first byte of the call leaves the client
    received_ns: I64  # last byte of the reply is there
    network_ns: I64  # both ways: SRT at the client less SRT at the server
    service_ns: I64  # in a thread
    is_ours: Bool
    op: I64  # what figures are over is named by it: row of the server's ops


class Order(Record, eq=False, dict=True):
    """What sets off each call. Lists have an entry an op; -1 is none."""

    after_reply: list[int]  # the call that the reply to this op releases
    after_call: list[int]  # the call that comes a while after this call: no reply was free to release it
    gap_ns: list[int]  # how long after that
    first: list[int]  # calls that nothing sets off: the first of each client

    @cached_property
    def is_last(self) -> Bool:
        """Of each op: does its reply release no call?"""
        return np.array(self.after_reply, dtype=np.int64) < 0

    @classmethod
    def of(cls, load: Load) -> Order:
        """Each call follows the oldest reply to its client that no other call has followed.

        Not the newest: callers that think would be rare ones that think long, and most that do not think at all. For
        the same reason callers that are not needed for the next `_AWHILE` calls and replies have left: else all that
        were ever there at once would share the work of a few.
        """
        rows = len(load)
        order = cls([-1] * rows, [-1] * rows, [0] * rows, [])
        callers = np.tile(2 * load.client + load.is_ours, 2)
        times = np.concatenate((load.received_ns, load.sent_ns))
        # Replies stand before calls: with stamps in microseconds one can follow the other at the same time.
        events = np.lexsort((np.repeat([0, 1], rows), times, callers))
        ends = np.append(np.flatnonzero(np.diff(callers[events])) + 1, len(events)).tolist()
        ops, is_call, times = events % max(rows, 1), events >= rows, times[events]
        for begin, end in zip([0, *ends], ends, strict=False):
            order._tie(ops[begin:end], is_call[begin:end], times[begin:end])
        return order

    def _tie(self, ops: I64, is_call: Bool, times: I64) -> None:
        """The same for one client: its replies and calls, in their order."""
        needed = _needed(is_call) if len(ops) > _AWHILE else []
        free: deque[tuple[int, int]] = deque()  # ops, and when they were answered
        last, last_ns = -1, 0
        for at, (op, calls, now) in enumerate(zip(ops.tolist(), is_call.tolist(), times.tolist(), strict=True)):
            if at and at % _AWHILE == 0:
                while len(free) > needed[at // _AWHILE]:
                    free.popleft()
            if not calls:
                free.append((op, now))
                continue
            if free:
                released_by, answered_ns = free.popleft()
                self.after_reply[released_by] = op
                self.gap_ns[op] = now - answered_ns
            elif last >= 0:
                self.after_call[last] = op
                self.gap_ns[op] = now - last_ns
            else:
                self.first.append(op)
            last, last_ns = op, now


def _needed(is_call: Bool) -> list[int]:
    """How many callers have to be free as each `_AWHILE` calls and replies begin, for none of their calls to wait."""
    free_callers = np.cumsum(np.where(is_call, -1, 1))  # but for a constant
    blocks = np.arange(0, len(is_call), _AWHILE)
    before = np.concatenate(([0], free_callers[blocks[1:] - 1]))
    needed: list[int] = np.maximum(before - np.minimum.reduceat(free_callers, blocks), 0).tolist()
    return needed


class Played(Record, eq=False):
    """When each op was asked for, got a slot, came to the server, met a thread, was answered, and was back."""

    issued: I64
    sent: I64
    arrived: I64
    started: I64
    replied: I64
    received: I64


def play(load: Load, order: Order, threads: int | None, slots: int | None, sessions: int | None) -> Played:
    """Play it all; times from the first call on.

    With `sessions` our ops are a list, from which each session takes the next one when it has its reply. There the gap
    between a reply and the call after it was the time that a slot takes from hand to hand, unless it is so long that
    nobody can have waited for the slot.
    """
    rows = len(load)
    conn, service = load.conn.tolist(), load.service_ns.tolist()
    table = load.slot_table.tolist()
    listed = (load.is_ours & (sessions is not None)).tolist()
    # Calls of a stream do not overtake each other: all take the same time out, and what is left of theirs back.
    out = np.minimum(load.network_ns, int(np.median(load.network_ns[load.is_ours])) // 2)
    out_ns, back_ns = out.tolist(), (load.network_ns - out).tolist()
    after_reply, after_call, gap_ns = order.after_reply, order.after_call, order.gap_ns
    hand_over_ns = hand_overs_ns(load, order).tolist() if sessions is not None else []
    begin = int(load.sent_ns.min())
    first_ns = (load.sent_ns - begin).tolist()

    issued, sent, arrived, started, replied, received = ([0] * rows for _ in range(6))
    pending: dict[int, deque[int]] = {c: deque() for c in set(conn)}
    backlog: dict[int, deque[int]] = {t: deque() for t in set(table)}
    free_slots = dict.fromkeys(backlog, slots or _NO_LIMIT) | {-1: _NO_LIMIT}
    ready: deque[int] = deque()
    idle = threads or _NO_LIMIT
    to_do = deque(_in_turn(load) if sessions is not None else [])

    # What comes next: (when, op * 4 + what), so that nothing depends on chance where two things happen at once.
    heap = [(first_ns[op], op * 4 + _ISSUE) for op in order.first if not listed[op]]
    heap += [(0, to_do.popleft() * 4 + _ISSUE) for _ in range(min(sessions or 0, len(to_do)))]
    heapq.heapify(heap)
    push, pop = heapq.heappush, heapq.heappop
    while heap:
        now, code = pop(heap)
        op, what = code >> 2, code & 3
        sends = -1
        if what == _ISSUE:
            issued[op] = now
            then = after_call[op]
            if then >= 0 and not listed[then]:
                push(heap, (now + gap_ns[then], then * 4 + _ISSUE))
            if free_slots[table[op]]:
                free_slots[table[op]] -= 1
                sends = op
            else:
                backlog[table[op]].append(op)
        elif what == _RECEIVE:
            received[op] = now
            then = after_reply[op]
            if listed[op]:
                if to_do:
                    push(heap, (now, to_do.popleft() * 4 + _ISSUE))
            elif then >= 0:
                push(heap, (now + gap_ns[then], then * 4 + _ISSUE))
            if backlog[table[op]]:
                sends = backlog[table[op]].popleft()
            else:
                free_slots[table[op]] += 1
        else:
            if what == _ARRIVE:
                calls = pending[conn[op]]
                if not calls:
                    ready.append(conn[op])
                calls.append(op)
            else:
                replied[op] = now
                idle += 1
                push(heap, (now + back_ns[op], op * 4 + _RECEIVE))
            while idle and ready:
                idle -= 1
                calls = pending[ready[0]]
                op = calls.popleft()
                if calls:
                    ready.rotate(-1)
                else:
                    ready.popleft()
                started[op] = now
                push(heap, (now + service[op], op * 4 + _DONE))
        if sends >= 0:
            sent[sends] = now + (hand_over_ns[sends] if listed[sends] else 0)
            arrived[sends] = sent[sends] + out_ns[sends]
            push(heap, (arrived[sends], sends * 4 + _ARRIVE))
    columns = (issued, sent, arrived, started, replied, received)
    return Played(*(np.array(column, dtype=np.int64) for column in columns))


def hand_overs_ns(load: Load, order: Order) -> I64:
    """How long the slot of each call was free before it, where somebody waited for it: at most as an op takes."""
    typical_ns = int((load.received_ns - load.sent_ns)[load.is_ours].mean())
    return np.minimum(np.array(order.gap_ns, dtype=np.int64), typical_ns)


def _in_turn(load: Load) -> list[int]:
    """Our ops, those of each connection evenly spread: where slots are the limit, calls leave in the order of replies,
    while a client asks for its connections in turn."""
    ours = np.flatnonzero(load.is_ours)
    by_conn = ours[np.argsort(load.conn[ours], kind="stable")]
    _, first, count = np.unique(load.conn[by_conn], return_index=True, return_counts=True)
    number = np.arange(len(ours)) - np.repeat(first, count)
    return [int(op) for op in by_conn[np.argsort((2 * number + 1) / np.repeat(count, count), kind="stable")]]
