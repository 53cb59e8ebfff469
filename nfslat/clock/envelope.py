"""Points that a line must pass below, and points that it must pass above -> every line that does, and the best one.

A line is y = a + b x with |b| <= ``STEEPEST``. Those that keep to all points form a convex polygon in the plane of a
and b; each point is one half-plane, and only points on the two convex hulls matter (Moon, Skelly and Towsley,
"Estimation and removal of clock skew from network delay measurements", 1999; Zhang, Liu and Xia, "Clock
synchronization algorithms for network measurements", 2002).
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from nfslat.model.record import Record
from nfslat.model.tables import F64

# 1 %: twice the 5,000 ppm that a badly set tick gives; a quartz is off by 100 ppm at most.
STEEPEST = 0.01
_SMALL = 256  # points from which on a loop over them is slower than one more look at all of them at once


class Points(Record):
    """x and y of points, float64, in the order of x."""

    x: F64
    y: F64

    def __len__(self) -> int:
        """How many."""
        return len(self.x)

    def at(self, begin: int, end: int) -> Points:
        """Those from row `begin` to `end`."""
        return Points(self.x[begin:end], self.y[begin:end])

    def without(self, row: int) -> Points:
        """All but one."""
        return Points(np.delete(self.x, row), np.delete(self.y, row))


class Lines(NamedTuple):
    """The lines that keep to all points: for each slope of `b`, ascending, `a` lies between `lowest` and `highest`.

    Between the slopes given the two change linearly, so these are the corners of a polygon. `best_b` is the slope of
    the line that keeps the largest distance from all points.
    """

    b: F64
    lowest: F64
    highest: F64
    best_b: float
    over: Points  # the corners of the hulls, which alone matter
    under: Points

    @property
    def steepness(self) -> tuple[float, float]:
        """Smallest and largest slope."""
        return float(self.b[0]), float(self.b[-1])

    @property
    def is_sloping(self) -> bool:
        """Is none of them level?"""
        return bool(self.b[0] > 0 or self.b[-1] < 0)

    def a_range(self, b: float) -> tuple[float, float]:
        """Smallest and largest `a` of the lines with slope `b`, which must lie within `steepness`."""
        return float(np.interp(b, self.b, self.lowest)), float(np.interp(b, self.b, self.highest))

    def at(self, x: npt.ArrayLike) -> tuple[F64, F64]:
        """Smallest and largest y that any of the lines has at `x`."""
        steps = self.b[:, None] * np.atleast_1d(np.asarray(x, dtype=np.float64))
        return (self.lowest[:, None] + steps).min(axis=0), (self.highest[:, None] + steps).max(axis=0)

    def steep_as(self, least: float, most: float) -> Lines | None:
        """Those whose slope lies between `least` and `most`; None where there is none."""
        least, most = max(least, self.b[0]), min(most, self.b[-1])
        if least > most:
            return None
        inner = self.b[(self.b > least) & (self.b < most)]
        b = np.concatenate([[least], inner, [most]])
        lowest, highest = np.interp(b, self.b, self.lowest), np.interp(b, self.b, self.highest)
        return Lines(b, lowest, highest, min(max(self.best_b, least), most), self.over, self.under)

    @property
    def hulls(self) -> tuple[tuple[Points, int], tuple[Points, int]]:
        """Corners of the hull of the points above the lines, and 1; of those below, and -1."""
        return (self.over, 1), (self.under, -1)

    @property
    def trends(self) -> tuple[float, float]:
        """Slope of either hull half way: what the points above the line, and those below it, say by themselves."""
        middle = (self.over.x[0] + self.over.x[-1]) / 2
        above, below = (_slope_at(points, middle) for points in (self.over, self.under))
        return above, below


class Contradiction(NamedTuple):
    """No line keeps to all points. Rows of the points in whose way the line is that misses by least, and by how much:
    half of the distance that is lacking."""

    below: list[int]  # of the points that the line should pass below
    above: list[int]
    by: float


def fit(over: Points, under: Points) -> Lines | Contradiction:
    """The lines that pass below (or through) each point of `over` and above each of `under`; both hold a point."""
    top, bottom = lower_hull(over), lower_hull(Points(under.x, -under.y))
    ox, oy, ux, uy = over.x[top], over.y[top], under.x[bottom], under.y[bottom]
    edges = np.concatenate([_slopes(ox, oy), _slopes(ux, uy)])
    b = np.unique(np.concatenate([[-STEEPEST, 0.0, STEEPEST], edges[np.abs(edges) < STEEPEST]]))
    highest = (oy - b[:, None] * ox).min(axis=1)
    lowest = (uy - b[:, None] * ux).max(axis=1)
    room = highest - lowest  # concave in b, and linear between these slopes
    most = room.max()
    best = np.flatnonzero(room == most)
    best_b = float(b[best[0]] + b[best[-1]]) / 2
    if most < 0:
        over_gap, under_gap = oy - best_b * ox, uy - best_b * ux
        near = -most * 1e-9
        return Contradiction(
            top[over_gap <= over_gap.min() + near].tolist(),
            bottom[under_gap >= under_gap.max() - near].tolist(),
            float(-most / 2),
        )
    has_room = np.flatnonzero(room >= 0)  # without gaps, for it is concave
    first, last = int(has_room[0]), int(has_room[-1])
    ends = []
    for inside, outside in ((first, first - 1), (last, last + 1)):
        is_end = not 0 <= outside < len(b)
        share = 0.0 if is_end else room[inside] / (room[inside] - room[outside])
        ends.append(float(b[inside] + share * (b[outside] - b[inside])) if not is_end else float(b[inside]))
    slopes = np.unique(np.concatenate([ends, b[first : last + 1]]))
    return Lines(
        slopes,
        (uy - slopes[:, None] * ux).max(axis=1),
        (oy - slopes[:, None] * ox).min(axis=1),
        best_b,
        Points(ox, oy),
        Points(ux, uy),
    )


def _slope_at(corners: Points, x: float) -> float:
    if len(corners) < 2:
        return 0.0
    at = min(max(int(np.searchsorted(corners.x, x)), 1), len(corners) - 1)
    return float((corners.y[at] - corners.y[at - 1]) / (corners.x[at] - corners.x[at - 1]))


def _slopes(x: F64, y: F64) -> F64:
    return np.diff(y) / np.diff(x)


def lower_hull(points: Points) -> npt.NDArray[np.int64]:
    """Rows of the corners of the lower convex hull, in the order of x; of points with one x the lowest counts."""
    x, y = points.x, points.y
    rows = np.arange(len(x))
    if len(x) > 1 and (x[1:] <= x[:-1]).any():
        rows = np.lexsort((y, x))
        rows = rows[np.concatenate([[True], x[rows][1:] != x[rows][:-1]])]
    # No corner lies above the line between two other points, so all that lie above their neighbours' can go at once.
    while len(rows) > _SMALL:
        px, py = x[rows], y[rows]
        (ax, bx, cx), (ay, by, cy) = ((p[:-2], p[1:-1], p[2:]) for p in (px, py))
        keep = np.ones(len(rows), dtype=np.bool_)
        keep[1:-1] = (by - ay) * (cx - ax) < (cy - ay) * (bx - ax)
        if keep.all():
            return rows
        rows = rows[keep]
    return _chain(x, y, rows)


def _chain(x: F64, y: F64, rows: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    """The last of it, one by one (Andrew 1979)."""
    corners: list[int] = []
    px, py = x[rows].tolist(), y[rows].tolist()
    for at in range(len(rows)):
        while len(corners) > 1:
            i, j = corners[-2], corners[-1]
            if (py[j] - py[i]) * (px[at] - px[i]) < (py[at] - py[i]) * (px[j] - px[i]):
                break
            corners.pop()
        corners.append(at)
    return rows[corners]
