"""Ops of one side -> how many were in flight at once, for how long, and how fast they went through at each level."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import NamedTuple

import numpy as np

from nfslat.kernels.levels import Events, in_order, time_and_ends, windows_of
from nfslat.model.tables import I64, State

# Time above a level that is overlooked when the level is called the top: retransmissions, an extra GETATTR.
_OVERLOOKED = 0.02
_GROWS = 1.05  # the throughput, from one level to those above it: less is noise
_HIGHER = 1.25  # so much more must be in flight above a level, or growth could not be seen
_WINDOW_OPS, _WINDOW_TIMES = 20, 10  # a window holds about so many ops, and lasts so many mean times in flight
_MOST_WINDOWS = 50_000  # nearly idle captures would have more
_ENOUGH_WINDOWS = 5  # at a level, and above it, to speak of their throughput


class Levels(NamedTuple):
    """How many ops were in flight, from the first start to the last end; row k of a column is about level k."""

    time_ns: I64  # with exactly k ops in flight; sums to last end - first start, level 0 included
    ended: I64  # ops whose end came while k were in flight, themselves included; sums to all ops

    @property
    def max(self) -> int:
        """Most ops in flight at once, for any time at all."""
        return int(np.flatnonzero(self.time_ns)[-1]) if self.time_ns.any() else 0

    @property
    def ops(self) -> int:
        """All of them."""
        return int(self.ended.sum())

    @property
    def busy_ns(self) -> int:
        """Time with at least one op in flight."""
        return int(self.time_ns[1:].sum())

    @property
    def idle_share(self) -> float:
        """Of the time from the first start to the last end, how much of it nothing is in flight."""
        whole_ns = int(self.time_ns.sum())
        return int(self.time_ns[0]) / whole_ns if whole_ns else 0.0

    @property
    def mean(self) -> float | None:
        """Ops in flight, weighted with time, over the busy time; None where there is none."""
        return self.area_ns / self.busy_ns if self.busy_ns else None

    @property
    def area_ns(self) -> float:
        """Times in flight of all ops together."""
        return float(np.dot(self.time_ns, np.arange(len(self.time_ns), dtype=np.float64)))

    @property
    def top(self) -> int | None:
        """The smallest level above which less than 2 % of the busy time is spent; None where there is no busy time."""
        busy_ns = self.busy_ns
        if not busy_ns:
            return None
        above_ns = busy_ns - np.cumsum(self.time_ns[1:])
        return 1 + int(np.argmax(above_ns <= _OVERLOOKED * busy_ns))

    def share(self, low: int, high: int | None = None) -> float | None:
        """Share of the busy time (0 to 1) spent at the levels `low` (from 1) to `high`; at `low` if none is given."""
        busy_ns = self.busy_ns
        return int(self.time_ns[low : (low if high is None else high) + 1].sum()) / busy_ns if busy_ns else None


def levels(starts: I64, ends: I64) -> Levels:
    """What was in flight, an op being so from its start up to, but not at, its end (ns, same order, not sorted).

    An op that ends before it starts (a clock was set) takes no time.
    """
    return levels_of(in_order(starts, ends))


def levels_of(events: Events) -> Levels:
    """The same from events in order."""
    return Levels(*time_and_ends(events))


def levels_within(events: Events, begin: int, end: int) -> Levels:
    """The same of what of them is in flight from `begin` until `end`, by their clock."""
    first, last = np.searchsorted(events.ends, begin, side="right"), np.searchsorted(events.starts, end)
    starts, ends = np.maximum(events.starts[first:last], begin), np.minimum(events.ends[first:last], end)
    return levels_of(Events(starts, ends))


def knee(events: Events, found: Levels) -> int | None:
    """The smallest level from which throughput grows by no more than 5 %: what is added only waits longer.

    `found` is what `levels_of` makes of `events`. Time is cut into windows, for at single instants a burst of replies
    looks like a high throughput at a low level. A window counts with its mean level, rounded; a level is compared with
    all above it together, where those are at least a quarter higher on average. None where no knee is to be seen:
    throughput grows up to the top, or the level hardly changes. Where a load comes at a fixed rate, a slow server
    raises the level and not the throughput, so a knee alone is no limit.
    """
    span_ns = int(events.ends[-1]) if len(events.ends) else 0
    width_ns = int(max(_WINDOW_TIMES * found.area_ns, _WINDOW_OPS * found.busy_ns) / max(found.ops, 1))
    width_ns = max(width_ns, span_ns // _MOST_WINDOWS) + 1
    windows = span_ns // width_ns  # the last one, which is not full, is left out
    if windows < 2 * _ENOUGH_WINDOWS:
        return None
    ended, time_ns, area = windows_of(events, width_ns, windows)
    level = np.rint(area / np.maximum(time_ns, 1)).astype(np.int64)
    here = np.arange(int(level.max()) + 1)
    at = [np.bincount(level, column) for column in (np.ones(windows), ended, time_ns, area)]
    above = [column.sum() - np.cumsum(column) for column in at]
    told = (here > 0) & (np.minimum(at[0], above[0]) >= _ENOUGH_WINDOWS) & (above[3] >= _HIGHER * here * above[2])
    flat = np.flatnonzero(told & (above[1] * at[2] <= _GROWS * at[1] * above[2]))
    return int(flat[0]) if len(flat) else None


def hidden_share(states: Mapping[State, int], missing: int = 0) -> float:
    """Share of a capture's ops (0 to 1) that are not in its table, because call, reply or both were not captured.

    Such ops were in flight and are not counted: levels are too low by this share on average. `states` are the counts of
    ``Decoded.states``. A call without reply and a reply without call are one op each; headers that were not captured
    are the other halves of those, and where there are more of them, two are one op. `missing` calls are known by the
    gaps in their XIDs (`nfslat.decode.xid_gaps`); replies without a call are among them.
    """
    halves = states.get(State.NO_REPLY, 0) + states.get(State.NO_CALL, 0)
    by_gaps = missing + states.get(State.NO_REPLY, 0)
    hidden = max(halves, (halves + states.get(State.HEADER_NOT_CAPTURED, 0)) / 2, by_gaps)
    ops = states.get(State.PAIRED, 0) / 2
    return hidden / (hidden + ops) if hidden else 0.0


def unseen(level: int, hidden: float) -> int:
    """How many of `level` ops in flight may be hidden at once: the mean and two standard deviations, were it chance."""
    return round(level * hidden + 2 * math.sqrt(level * hidden * (1 - hidden)))
