"""Points over time -> few enough to draw: of each stretch of time the lowest and the highest, with their frames.

Nothing is averaged: what a picture shows was there. A spike of one packet in a million is the highest of its stretch.
"""

from __future__ import annotations

import numpy as np

from nfslat.model.record import Record
from nfslat.model.tables import I32, I64
from nfslat.model.units import NS_PER_MS

STRETCHES = 500  # of a picture: two pixels each on a wide screen


class Thinned(Record):
    """Points in order of time, in columns; a point by itself is its stretch's lowest and highest."""

    points: int  # how many there were
    stretch_ms: float | None  # None: all of them are here
    count: tuple[int, ...]  # in each stretch that has any
    low_at_ms: tuple[float, ...]  # from the conversation's first packet
    low: tuple[float, ...]
    low_frame: tuple[int, ...]
    high_at_ms: tuple[float, ...]
    high: tuple[float, ...]
    high_frame: tuple[int, ...]


class Points(Record, eq=False):
    """What is to be thinned; `high` is `low` where points have no extent."""

    t_ns: I64
    low: I64
    high: I64
    frame: I32

    def within(self, begin_ns: int, end_ns: int) -> Points:
        """Those of a time, its end included."""
        inside = (self.t_ns >= begin_ns) & (self.t_ns <= end_ns)
        return Points(self.t_ns[inside], self.low[inside], self.high[inside], self.frame[inside])


def thin(points: Points, zero_ns: int, begin_ns: int, end_ns: int, unit: float = 1.0) -> Thinned:
    """The points between `begin_ns` and `end_ns` with times since `zero_ns` and values in `unit`."""
    if int(points.t_ns.min(initial=begin_ns)) < begin_ns or int(points.t_ns.max(initial=end_ns)) > end_ns:
        points = points.within(begin_ns, end_ns)
    t_ns, order = points.t_ns, None
    if (np.diff(t_ns) < 0).any():
        order = np.argsort(t_ns, kind="stable")
        t_ns = t_ns[order]
    rows = len(t_ns)
    width = max(-(-(end_ns - begin_ns + 1) // STRETCHES), 1)
    whole = rows <= 2 * STRETCHES
    of = np.arange(rows) if whole else (t_ns - begin_ns) // width
    starts = np.flatnonzero(np.diff(of, prepend=-1)) if rows else np.zeros(0, dtype=np.int64)
    low, high, frame = (
        values if order is None else values[order] for values in (points.low, points.high, points.frame)
    )
    lowest, highest = _extreme(low, starts, np.minimum), _extreme(high, starts, np.maximum)
    ms = (t_ns - zero_ns) / NS_PER_MS
    return Thinned(
        points=rows,
        stretch_ms=None if whole else width / NS_PER_MS,
        count=tuple(np.diff(np.append(starts, rows)).tolist()),
        low_at_ms=tuple(ms[lowest].tolist()),
        low=tuple((low[lowest] / unit).tolist()),
        low_frame=tuple(frame[lowest].tolist()),
        high_at_ms=tuple(ms[highest].tolist()),
        high=tuple((high[highest] / unit).tolist()),
        high_frame=tuple(frame[highest].tolist()),
    )


def _extreme(values: I64 | I32, starts: I64, of: np.ufunc) -> I64:
    """The first row of each stretch that has its extreme."""
    if not len(starts):
        return starts
    best = of.reduceat(values, starts)
    hits = np.flatnonzero(values == np.repeat(best, np.diff(np.append(starts, len(values)))))
    return np.asarray(hits[np.searchsorted(hits, starts)])
