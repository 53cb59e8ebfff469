"""Calls, the times of their replies and a number of threads -> when each call must have been taken by a thread."""

from __future__ import annotations

from collections import deque
from itertools import groupby
from typing import NamedTuple, Self

import numpy as np

from nfslat.constants import NULL
from nfslat.tables import I32, I64

try:
    from nfslat import _native
except ImportError:
    compiled = None
else:
    compiled = getattr(_native, "starts", None)


class Work(NamedTuple):
    """What a server's threads had to do, in the order in which it arrived; ns on the server's clock."""

    arrival_ns: I64  # the call is complete
    reply_ns: I64  # the first byte of its reply
    stream: I32  # number of the connection that it came in by
    by_reply: I32  # rows in the order of their replies

    @classmethod
    def of(cls, arrival_ns: I64, reply_ns: I64, stream: I32) -> Self:
        """Columns that are in the order of `arrival_ns`."""
        by_reply = np.argsort(reply_ns, kind="stable").astype(np.int32)
        return cls(arrival_ns, reply_ns, stream, by_reply)

    def part(self, rows: slice | I64) -> Work:
        """Some of it, in its order."""
        return Work.of(self.arrival_ns[rows], self.reply_ns[rows], self.stream[rows])


def starts(work: Work, threads: int) -> I64:
    """When each call is taken by one of so many `threads`; NULL where it must have been taken before the model says so.

    Replies come when they came. A free thread takes the first call of the connection whose turn it is, as knfsd does
    (svc_xprt_enqueue and svc_xprt_received, net/sunrpc/svc_xprt.c). Where a call is answered that had no thread, it and
    those before it on its connection had one all the same (NULL): with the right number of threads that is rare.
    """
    if compiled is None:
        return starts_in_python(work, threads)
    return np.asarray(compiled(*work, threads))


def starts_in_python(work: Work, threads: int) -> I64:
    """`starts` without the compiled loop."""
    arrival, reply, stream = (column.tolist() for column in work[:3])
    start = [NULL] * len(arrival)
    taken = [False] * len(arrival)
    waiting: dict[int, deque[int]] = {number: deque() for number in set(stream)}
    ready: deque[int] = deque()
    is_ready = dict.fromkeys(waiting, False)
    busy = arrived = 0

    def take(now: int) -> None:
        nonlocal busy
        while busy < threads and ready:
            number = ready.popleft()
            calls = waiting[number]
            is_ready[number] = len(calls) > 1
            if calls:
                row = calls.popleft()
                start[row], taken[row] = now, True
                busy += 1
            if is_ready[number]:
                ready.append(number)

    for now, answered in groupby(work.by_reply.tolist(), key=reply.__getitem__):
        while arrived < len(arrival) and arrival[arrived] <= now:
            number = stream[arrived]
            waiting[number].append(arrived)
            if not is_ready[number]:
                is_ready[number] = True
                ready.append(number)
            take(arrival[arrived])
            arrived += 1
        # A thread may answer one call, take the next and answer that, all at one time.
        left = list(answered)
        while left:
            without = [row for row in left if not taken[row]]
            busy -= len(left) - len(without)
            if len(without) == len(left):
                calls = waiting[stream[without[0]]]
                while calls:
                    earlier = calls.popleft()
                    taken[earlier] = True
                    if earlier == without[0]:
                        break
                    busy += 1
                del without[0]
            left = without
            take(now)
    return np.array(start, dtype=np.int64)
