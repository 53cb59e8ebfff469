"""Ops of one side -> how many were in flight at once, and for how long: does a level look like a limit?"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from nfslat.tables import I64, Ops

# Time above a level that is overlooked when the level is called the top: retransmissions, an extra GETATTR.
_OVERLOOKED = 0.02


@dataclass(frozen=True)
class Top:
    """The level that a connection practically never exceeds."""

    level: int  # ops in flight
    share: float  # of the busy time (something in flight) spent at exactly this level, 0 to 1
    ops: int


def flat_top(ops: Ops, rows: I64) -> Top | None:
    """The top of the connection that carries most of the ops in `rows`; None where there is no time to speak of.

    An op is in flight from its call's first byte to its reply's last (t0 to t3). The top is the smallest level above
    which less than 2 % of the busy time is spent. Slots belong to a transport, so connections are not added up.
    """
    if not len(rows):
        return None
    conns, counts = np.unique(ops.conn[rows], return_counts=True)
    rows = rows[ops.conn[rows] == conns[counts.argmax()]]
    t_ns = np.concatenate([ops.t3[rows], ops.t0[rows]])
    step = np.repeat([-1, 1], len(rows))
    order = np.lexsort((step, t_ns))  # at one instant the reply frees its slot before the next call takes it
    level = np.cumsum(step[order])[:-1]
    lasts_ns = np.diff(t_ns[order])
    busy_ns = int(lasts_ns[level > 0].sum())
    if busy_ns <= 0:
        return None
    at_level_ns = np.bincount(np.clip(level, 0, None), weights=lasts_ns)
    above = busy_ns - np.cumsum(at_level_ns[1:])  # time above level 1, 2, ...
    top = int(np.flatnonzero(above <= _OVERLOOKED * busy_ns)[0]) + 1
    return Top(top, float(at_level_ns[top] / busy_ns), len(rows))
