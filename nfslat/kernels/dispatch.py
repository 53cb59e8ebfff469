"""Calls and the times of their replies -> how many were in threads at once, at least; when each one was taken.

`most_at_once` holds whatever the server does; `starts` supposes a number of threads and an order.
"""

from __future__ import annotations

from enum import Enum
from typing import NamedTuple, Self

import numpy as np

from nfslat.kernels.compiled import native
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
        return cls(arrival_ns, reply_ns, stream, native.by_reply(np.ascontiguousarray(reply_ns)))

    @property
    def server_ns(self) -> I64:
        """From the arrival of each call to its reply."""
        return self.reply_ns - self.arrival_ns

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
    most, times = native.bound(work)
    return most, times


def in_flight(work: Work) -> I32:
    """Calls without an answer when each one arrives, itself included; what is answered at that time is."""
    return native.in_flight(work)


def starts(work: Work, threads: int, order: Order = Order.TURNS_BY_START) -> I64:
    """When each call is taken by one of so many `threads`; NULL where it must have been taken before the model says so.

    Replies come when they came. Connections stand in a line, as in knfsd (svc_xprt_enqueue and svc_xprt_received,
    net/sunrpc/svc_xprt.c): a free thread takes the first call of the first, which goes to the tail, whether it has more
    calls or not. What comes until its turn is taken then; one that has none when its turn comes leaves the line. Where
    a call is answered that had no thread, it and those before it on its connection had one all the same (NULL), and
    calls of other connections were given theirs too early: these wait again. With the right number of threads that is
    rare.
    """
    by_answer, leaving = order is Order.TURNS_BY_ANSWER, order is Order.LEAVING
    return np.asarray(native.starts(played(work, order), threads, by_answer, leaving))


def played(work: Work, order: Order) -> Work:
    """`work` with the connections that `order` has: where the oldest call is the first, all are of one."""
    return work._replace(stream=np.zeros_like(work.stream)) if order is Order.OLDEST_FIRST else work
