"""The time of a capture -> stretches of one length, and what was in flight in each of them."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from nfslat.inflight.levels import Levels, levels_within
from nfslat.kernels.levels import Events
from nfslat.model.tables import I64
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


def flying(events: Events, windows: Windows) -> list[Levels]:
    """What was in flight in each window; what is before the first or behind the last counts for that."""
    edges = windows.edges_ns.tolist()
    if len(events.starts):
        edges[0], edges[-1] = min(edges[0], int(events.starts[0])), max(edges[-1], int(events.ends[-1]))
    return [levels_within(events, *window) for window in pairwise(edges)]
