"""Calls and the times of their replies -> how many were in threads at once, at least; when each one was taken.

`most_at_once` holds whatever the server does; `starts` supposes a number of threads and an order.
"""

from __future__ import annotations

from collections import deque
from enum import Enum
from itertools import groupby
from typing import NamedTuple, Self

import numpy as np

from nfslat.kernels import compiled
from nfslat.kernels.order import argsort
from nfslat.model.protocol import NULL
from nfslat.model.tables import I32, I64


class Work(NamedTuple):
    """What a server's threads had to do, in the order in which it arrived; ns on the server's clock."""

    arrival_ns: I64  # the call is complete
    reply_ns: I64  # the first byte of its reply
    stream: I32  # number of the connection that it came in by
    by_reply: I32  # rows in the order of their replies

    @classmethod
    def of(cls, arrival_ns: I64, reply_ns: I64, stream: I32) -> Self:
        """Columns that are in the order of `arrival_ns`."""
        by_reply = argsort(reply_ns).astype(np.int32)
        return cls(arrival_ns, reply_ns, stream, by_reply)

    def part(self, rows: slice | I64) -> Work:
        """Some of it, in its order."""
        return Work.of(self.arrival_ns[rows], self.reply_ns[rows], self.stream[rows])


class Order(Enum):
    """In which order a server is supposed to take the calls of several connections: which that is, no packet says."""

    # In turn, from a beginning that is not known. Where a call is answered that had no thread, another one had none
    # yet: the one that was taken last, or the one that is answered last.
    TURNS_BY_START = "turns, by start"
    TURNS_BY_ANSWER = "turns, by answer"
    LEAVING = "turns, leaving"  # in turn, but a connection without more calls leaves the line at once
    OLDEST_FIRST = "oldest first"  # as they arrive, whatever their connection


def most_at_once(work: Work) -> tuple[int, int]:
    """The most calls that were in threads at once, whatever the server does with connections, and at how many instants.

    A server takes the calls of a connection in their order: those before an answered one have a thread, too.
    """
    if compiled.native is None:
        return most_at_once_by_numpy(work)
    most, times = compiled.native.bound(work)
    return most, times


def most_at_once_by_numpy(work: Work) -> tuple[int, int]:
    """`most_at_once` without the compiled loop."""
    rows = len(work.arrival_ns)
    if not rows:
        return 0, 0
    order = np.argsort(work.stream, kind="stable")
    reply, stream = work.reply_ns[order], work.stream[order]
    shown = np.empty(rows, dtype=np.int64)  # by when it is known to be in a thread
    ends = np.append(np.flatnonzero(np.diff(stream)) + 1, rows)
    begin = 0
    for end in ends.tolist():
        shown[begin:end] = np.minimum.accumulate(reply[begin:end][::-1])[::-1]
        begin = end
    shown.sort()
    reply = work.reply_ns[work.by_reply]
    last = np.append(reply[1:] != reply[:-1], True)  # of the replies with one time
    at = np.flatnonzero(last)
    inside = np.searchsorted(shown, reply[at], side="right") - at
    return int(inside.max()), int(np.count_nonzero(inside == inside.max()))


def in_flight(work: Work) -> I64:
    """Calls without an answer when each one arrives, itself included; what is answered at that time is."""
    if compiled.native is None:
        return in_flight_by_numpy(work)
    return np.asarray(compiled.native.in_flight(work))


def in_flight_by_numpy(work: Work) -> I64:
    """`in_flight` without the compiled loop."""
    answered = np.searchsorted(work.reply_ns[work.by_reply], work.arrival_ns, side="right")
    return np.arange(1, len(answered) + 1) - answered


def starts(work: Work, threads: int, order: Order = Order.TURNS_BY_START) -> I64:
    """When each call is taken by one of so many `threads`; NULL where it must have been taken before the model says so.

    Replies come when they came. Connections stand in a line, as in knfsd (svc_xprt_enqueue and svc_xprt_received,
    net/sunrpc/svc_xprt.c): a free thread takes the first call of the first, which goes to the tail, whether it has more
    calls or not. What comes until its turn is taken then; one that has none when its turn comes leaves the line. Where
    a call is answered that had no thread, it and those before it on its connection had one all the same (NULL), and
    calls of other connections were given theirs too early: these wait again. With the right number of threads that is
    rare.
    """
    if order is Order.OLDEST_FIRST:
        work = work._replace(stream=np.zeros_like(work.stream))
    by_answer, leaving = order is Order.TURNS_BY_ANSWER, order is Order.LEAVING
    if compiled.native is None:
        return starts_in_python(work, threads, by_answer, leaving)
    return np.asarray(compiled.native.starts(work, threads, by_answer, leaving))


def starts_in_python(work: Work, threads: int, by_answer: bool = False, leaving: bool = False) -> I64:
    """`starts` without the compiled loop."""
    model = _Model(work, threads, by_answer, leaving)
    reply = work.reply_ns.tolist()
    arrivals = work.arrival_ns.tolist()
    arrived = 0
    for now, answered in groupby(work.by_reply.tolist(), key=reply.__getitem__):
        while arrived < len(arrivals) and arrivals[arrived] <= now:
            model.arrive(arrived)
            model.take(arrivals[arrived])
            arrived += 1
        # A thread may answer one call, take the next and answer that, all at one time.
        left = list(answered)
        while left:
            without = [row for row in left if model.state[row] != _IN_THREAD]
            for row in left:
                if model.state[row] == _IN_THREAD:
                    model.state[row] = _ANSWERED
            model.busy -= len(left) - len(without)
            if len(without) == len(left):
                model.force(without.pop(0))
            left = without
            model.take(now)
    return np.array(model.start, dtype=np.int64)


_WAITING, _IN_THREAD, _ANSWERED = range(3)
_FEW = 64  # so far back calls are looked for that were given a thread too early, and turns that are to be changed


class _Model:
    def __init__(self, work: Work, threads: int, by_answer: bool, leaving: bool) -> None:
        rows = len(work.arrival_ns)
        self.stream, self.reply = work.stream.tolist(), work.reply_ns.tolist()
        self.threads, self.by_answer, self.leaving, self.busy = threads, by_answer, leaving, 0
        self.waiting: dict[int, deque[int]] = {number: deque() for number in set(self.stream)}
        self.last_taken: dict[int, list[int]] = {number: [] for number in self.waiting}
        self.start = [NULL] * rows
        self.state = [_WAITING] * rows
        self.ready: deque[int] = deque()  # streams in the order of their turns
        self.given: list[int] = []  # calls in the order in which threads took them

    def arrive(self, row: int) -> None:
        number = self.stream[row]
        self.waiting[number].append(row)
        if number not in self.ready:
            self.ready.append(number)

    def take(self, now: int) -> None:
        while self.busy < self.threads and self.ready:
            number = self.ready.popleft()
            calls = self.waiting[number]
            if not calls:
                continue  # nothing has come since its last turn: it leaves the line
            row = calls.popleft()
            self.last_taken[number].append(row)
            self.start[row], self.state[row] = now, _IN_THREAD
            self.given.append(row)
            self.busy += 1
            if calls or not self.leaving:
                self.ready.append(number)

    def force(self, row: int) -> None:
        """`row` is answered and had no thread: it and the calls of its stream before it have had one all the same."""
        number = self.stream[row]
        others = 0
        while (taken := self.waiting[number].popleft()) != row:
            self.last_taken[number].append(taken)
            self.state[taken] = _IN_THREAD
            others += 1
        self.last_taken[number].append(row)
        self.state[row] = _ANSWERED
        if number in list(self.ready)[:_FEW]:
            self.ready.remove(number)
            self.ready.append(number)
        self.busy += others
        for _ in range(min(max(self.busy + 1 - self.threads, 0), others + 1)):
            if not self.give_back(number):
                break

    def give_back(self, other_than: int) -> bool:
        """The call of another stream that was taken last, or is answered last, waits again; was there one?"""
        while self.given and self.state[self.given[-1]] == _ANSWERED:
            self.given.pop()
        may_wait = [row for row in self.given[: -_FEW - 1 : -1] if self._is_last_taken(row, other_than)]
        if not may_wait:
            return False
        row = max(may_wait, key=self.reply.__getitem__) if self.by_answer else may_wait[0]
        number = self.stream[row]
        self.given.remove(row)
        self.last_taken[number].pop()
        self.start[row], self.state[row] = NULL, _WAITING
        self.busy -= 1
        self.waiting[number].appendleft(row)
        if number not in self.ready:
            self.ready.append(number)
        if number in list(self.ready)[-_FEW:]:
            self.ready.remove(number)
            self.ready.appendleft(number)
        return True

    def _is_last_taken(self, row: int, other_than: int) -> bool:
        number = self.stream[row]
        return number != other_than and self.state[row] == _IN_THREAD and self.last_taken[number][-1] == row
