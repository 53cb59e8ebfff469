"""Ops of one side -> how many were in flight at once, and for how long: does a level look like a limit?"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from nfslat.columns import each_block, tally
from nfslat.tables import I32, I64, Ops

# Time above a level that is overlooked when the level is called the top: retransmissions, an extra GETATTR.
_OVERLOOKED = 0.02


@dataclass(frozen=True)
class Top:
    """The level that a connection practically never exceeds."""

    level: int  # ops in flight
    share: float  # of the busy time (something in flight) spent at exactly this level, 0 to 1
    ops: int


def flat_top(ops: Ops, rows: I32 | I64) -> Top | None:
    """The top of the connection that carries most of the ops in `rows`; None where there is no time to speak of.

    An op is in flight from its call's first byte to its reply's last (t0 to t3). The top is the smallest level above
    which less than 2 % of the busy time is spent. Slots belong to a transport, so connections are not added up.
    """
    if not len(rows):
        return None
    conn = ops.conn[rows]
    counts = tally(len(conn), len(ops.connections), lambda at: conn[at])
    if counts.max() < len(rows):
        rows = rows[conn == counts.argmax()]
    starts, ends = ops.t0[rows], ops.t3[rows]
    starts.sort()
    ends.sort()
    busy_ns = _at_least_ns(starts, ends, 1)
    if busy_ns <= 0:
        return None
    low, high = 0, 1  # levels: low is passed too long, high, once it is found, is not
    while _at_least_ns(starts, ends, high + 1) > _OVERLOOKED * busy_ns:
        low, high = high, 2 * high
    while high - low > 1:
        middle = (low + high) // 2
        if _at_least_ns(starts, ends, middle + 1) > _OVERLOOKED * busy_ns:
            low = middle
        else:
            high = middle
    at_level_ns = _at_least_ns(starts, ends, high) - _at_least_ns(starts, ends, high + 1)
    return Top(high, at_level_ns / busy_ns, len(rows))


def _at_least_ns(starts: I64, ends: I64, level: int) -> int:
    """For how long at least `level` ops are in flight; both columns ascending.

    At any time k ops have ended; `level` or more are in flight if k + `level` have started. So of the time from the
    k-th end to the next one that counts which lies behind the (k + `level`)-th start.
    """
    spans = max(len(starts) - level + 1, 0)

    def of_block(at: slice) -> int:
        begin = starts[at.start + level - 1 : at.stop + level - 1].copy()
        after = begin[at.start == 0 :]  # nothing ends before the first end
        np.maximum(after, ends[at.stop - 1 - len(after) : at.stop - 1], out=after)
        return int(np.maximum(ends[at] - begin, 0).sum())

    return sum(each_block(spans, of_block))
