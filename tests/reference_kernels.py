"""What compiled kernels must give, written down slowly: the starts of calls in threads, and levels in flight."""

from __future__ import annotations

from collections import deque
from itertools import groupby

import numpy as np

from nfslat.kernels.dispatch import Order, Work
from nfslat.kernels.levels import Events
from nfslat.model.protocol import NULL
from nfslat.model.tables import I64


def starts_by_hand(work: Work, threads: int, order: Order = Order.TURNS_BY_START) -> I64:
    """As `nfslat.kernels.dispatch.starts`, for orders by turns."""
    model = _Model(work, threads, order is Order.TURNS_BY_ANSWER, order is Order.LEAVING)
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


def most_at_once_by_hand(work: Work) -> tuple[int, int]:
    """As `nfslat.kernels.dispatch.most_at_once`: those before an answered call have threads, too."""
    replies, streams = work.reply_ns.tolist(), work.stream.tolist()
    # By when each call is known to be in a thread: when it, or one behind it on its connection, is answered.
    shown = [
        min(r for r, s in zip(replies[at:], streams[at:], strict=True) if s == streams[at])
        for at in range(len(replies))
    ]
    inside = [sum(s <= now for s in shown) - sum(r <= now for r in replies) + 1 for now in set(replies)]
    return (max(inside), inside.count(max(inside))) if inside else (0, 0)


def in_flight_by_hand(
    events: Events, low: int, high: int, width_ns: int, windows: int
) -> tuple[tuple[list[int], list[int]], list[int], list[list[float]]]:
    """As `nfslat.kernels.levels`: time and ends by level, waits behind replies, and ends, time and area by window."""
    in_order = sorted([(t, 0) for t in events.ends.tolist()] + [(t, 1) for t in events.starts.tolist()])
    time_ns, ended, waits = {0: 0}, {0: 0}, []
    of_window = [[0.0] * windows for _ in range(3)]
    level, before, was_end = 0, 0, False
    for at, (now, is_start) in enumerate(in_order):
        if not at or in_order[at - 1][0] != now:
            before = level  # when nothing of this instant has happened yet
        since = now - in_order[at - 1][0] if at else now
        level = level + 1 if is_start else level - 1
        shown = max(level, 0)
        until = in_order[at + 1][0] - now if at + 1 < len(in_order) else 0
        time_ns[shown] = time_ns.get(shown, 0) + until
        if is_start:
            if was_end and max(low, 1) <= shown <= high:
                waits.append(since)
        else:
            ended[max(before, 0)] = ended.get(max(before, 0), 0) + 1
        if (window := now // width_ns) < windows:
            for column, value in zip(of_window, (1 - is_start, until, shown * until), strict=True):
                column[window] += value
        was_end = not is_start
    rows = max(*time_ns, *ended) + 1
    return ([time_ns.get(k, 0) for k in range(rows)], [ended.get(k, 0) for k in range(rows)]), waits, of_window
