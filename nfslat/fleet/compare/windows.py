"""The time of a capture -> stretches of one length, and what was in flight in each of them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from nfslat.model.tables import F64, I64
from nfslat.model.units import NS_PER_MS, NS_PER_S

_MOST = 60  # windows
_ENOUGH = 3_000  # ops in a window, on average: what a window says by itself is said of so many
_STEPS_NS = (
    *(NS_PER_MS * step for step in (10, 20, 50, 100, 200, 500)),
    *(NS_PER_S * step for step in (1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 14400, 21600, 43200)),
)
_DAY_NS = 86_400 * NS_PER_S


@dataclass(frozen=True)
class Windows:
    """`count` stretches of `step_ns` from `begin_ns` on, on the server's clock; the last one lasts to the end."""

    begin_ns: int
    step_ns: int
    count: int

    @property
    def edges_ns(self) -> I64:
        """Where each begins, and the last one ends by its length."""
        return self.begin_ns + self.step_ns * np.arange(self.count + 1, dtype=np.int64)

    def index(self, t_ns: I64) -> I64:
        """The window of each instant; what is before the first or after the last counts for that."""
        return np.clip((t_ns - self.begin_ns) // self.step_ns, 0, self.count - 1)

    def bounds(self, ordered_ns: I64) -> I64:
        """Where in `ordered_ns`, which ascend, each window begins; and how many there are."""
        inner = np.searchsorted(ordered_ns, self.edges_ns[1:-1], side="left")
        return np.concatenate(([0], inner, [len(ordered_ns)])).astype(np.int64)


def plan(begin_ns: int, end_ns: int, ops: int) -> Windows:
    """As many windows of a round length as there may be, with some thousand of the `ops` in each, on average.

    A rest of less than half a window belongs to the last one.
    """
    span_ns = max(end_ns - begin_ns, 1)
    most = max(min(_MOST, ops // _ENOUGH), 1)
    for step_ns in (*_STEPS_NS, *range(_DAY_NS, span_ns // most + 2 * _DAY_NS, _DAY_NS)):
        count = max((span_ns + step_ns // 2) // step_ns, 1)
        if 1 < count <= most:
            return Windows(begin_ns, step_ns, count)
        if count <= most:
            break
    return Windows(begin_ns, span_ns, 1)


def digits_of(length_ns: int) -> int:
    """Of the fraction of a second, so that a stretch of this length does not begin and end at one moment."""
    return next((digits for digits, below in ((3, NS_PER_S // 10), (1, 10 * NS_PER_S)) if length_ns < below), 0)


class Flying(NamedTuple):
    """What was in flight in each window."""

    area_ns: F64  # times in flight, of what of them is in the window
    busy_ns: F64  # time with at least one in flight
    most: I64  # at once


def flying(starts: I64, ends: I64, windows: Windows) -> Flying:
    """`starts` and `ends` of ops, each ascending; at one time ends come before starts."""
    level = np.arange(len(starts)) - np.searchsorted(ends, starts, side="right")  # as each one comes
    # Nothing is in flight from the end before it to a start.
    alone = np.flatnonzero(level[1:] <= 0) + 1
    bounds = windows.bounds(starts)
    at_edge = bounds[:-1] - np.searchsorted(ends, windows.edges_ns[:-1], side="right")
    most = np.maximum(at_edge, 0)
    filled = np.flatnonzero(np.diff(bounds))
    if len(filled):
        most[filled] = np.maximum(most[filled], np.maximum.reduceat(level + 1, bounds[filled]))
    idle_ns = _area_ns(ends[alone - 1], starts[alone], windows)
    return Flying(_area_ns(starts, ends, windows), _area_ns(starts[:1], ends[-1:], windows) - idle_ns, most)


def _area_ns(starts: I64, ends: I64, windows: Windows) -> F64:
    """How much of spans is in each window, summed; both columns ascend, whichever belong together.

    Up to an instant it is what has begun and not ended until then: sums of starts and ends say it.
    """
    edges = windows.edges_ns.astype(np.int64)
    if len(starts):
        edges[0], edges[-1] = min(edges[0], starts[0]), max(edges[-1], ends[-1])

    def since(times: I64) -> F64:
        """Time in the window behind each of `times`, summed; times before the window count with all of it."""
        at = np.searchsorted(times, edges, side="left")
        at[-1] = len(times)
        # Summed from the window's begin, so that no sum loses ns.
        window = np.repeat(np.arange(windows.count), np.diff(at))
        sums = np.bincount(window, times[at[0] : at[-1]] - edges[window], windows.count)
        return np.diff(edges) * at[1:].astype(np.float64) - sums

    return since(starts) - since(ends)
