"""Ops of one side -> how many were in flight at once, for how long, and how fast they went through at each level."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from nfslat.model.blocks import each_block
from nfslat.model.tables import I32, I64, Bool, State

try:
    from nfslat import _native
except ImportError:
    compiled = None
else:
    compiled = _native if hasattr(_native, "turnarounds") else None

F64 = npt.NDArray[np.float64]

# Time above a level that is overlooked when the level is called the top: retransmissions, an extra GETATTR.
_OVERLOOKED = 0.02
_GROWS = 1.05  # the throughput, from one level to those above it: less is noise
_HIGHER = 1.25  # so much more must be in flight above a level, or growth could not be seen
_WINDOW_OPS, _WINDOW_TIMES = 20, 10  # a window holds about so many ops, and lasts so many mean times in flight
_MOST_WINDOWS = 50_000  # nearly idle captures would have more
_ENOUGH_WINDOWS = 5  # at a level, and above it, to speak of their throughput


@dataclass(frozen=True, eq=False)
class Levels:
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

    def throughput_per_s(self, level: int) -> float | None:
        """Ops that ended at `level` per second spent there; None where no time was."""
        time_ns = int(self.time_ns[level]) if 0 <= level < len(self.time_ns) else 0
        return int(self.ended[level]) * 1e9 / time_ns if time_ns else None


def levels(starts: I64, ends: I64) -> Levels:
    """What was in flight, an op being so from its start up to, but not at, its end (ns, same order, not sorted).

    An op that ends before it starts (a clock was set) takes no time.
    """
    return levels_of(in_order(starts, ends))


class Events(NamedTuple):
    """Starts and ends of ops, each ascending; ns after the first start. At one time ends come before starts."""

    starts: I64
    ends: I64


def in_order(starts: I64, ends: I64) -> Events:
    """An op that ends before it starts ends as it starts."""
    begin = starts.min(initial=np.iinfo(np.int64).max)
    events = Events(starts - begin, np.maximum(starts, ends))
    np.subtract(events.ends, begin, out=events.ends)
    for column in events:
        column.sort(kind="stable")  # what is nearly in order is merged, not sorted
    return events


@dataclass(frozen=True, eq=False)
class Stretch:
    """Some events, one after the other."""

    is_start: Bool
    level: I32  # ops in flight when the event has happened
    since_ns: I64  # the event before it
    until_ns: I64  # the event after it
    ended_at: I32  # level before anything happened at this event's time
    follows_end: Bool  # the event before it is one


def _stretches(found: Events) -> Iterator[Stretch]:
    """All of them, block by block: what the compiled loops do in one go."""
    # 2 x time, plus 1 for a start.
    events = np.concatenate((2 * found.starts + 1, 2 * found.ends))
    events.sort(kind="stable")
    level, ended_at, last_ns, was_end = 0, 0, 0, False
    for at in each_block(len(events), lambda at: at):
        ahead = events[at.start : at.stop + 1] >> 1
        t_ns = ahead[: at.stop - at.start]
        is_start = (events[at] & 1).astype(np.bool_)
        step = 2 * is_start.view(np.int8) - np.int8(1)
        now = np.cumsum(step, dtype=np.int32)
        now += level
        until_ns = np.empty(len(t_ns), dtype=np.int64)
        until_ns[: len(ahead) - 1] = np.diff(ahead)
        until_ns[len(ahead) - 1 :] = 0
        since_ns = np.empty(len(t_ns), dtype=np.int64)
        since_ns[0] = t_ns[0] - last_ns
        since_ns[1:] = until_ns[:-1]
        follows_end = np.empty(len(t_ns), dtype=np.bool_)
        follows_end[0] = was_end
        np.logical_not(is_start[:-1], out=follows_end[1:])
        # The level before all that happens at one time is that before the first event with this time.
        before = now - step
        if since_ns[0] == 0:
            before[0] = ended_at
        if len(same := 1 + np.flatnonzero(since_ns[1:] == 0)):
            first = np.where(np.diff(same, prepend=-1) > 1, same - 1, 0)
            before[same] = before[np.maximum.accumulate(first)]
        level, ended_at, last_ns, was_end = int(now[-1]), int(before[-1]), int(t_ns[-1]), not is_start[-1]
        # An op without length ends before it starts, so that for no time the count is one too low.
        np.maximum(now, 0, out=now)
        yield Stretch(is_start, now, since_ns, until_ns, np.maximum(before, 0), follows_end)


def levels_of(events: Events) -> Levels:
    """The same from events in order."""
    if compiled is not None:
        return Levels(*compiled.levels(*events))
    time_ns, ended = np.zeros(1, dtype=np.int64), np.zeros(1, dtype=np.int64)
    for s in _stretches(events):
        # Sums of ns in float64 are exact up to 104 days.
        time_ns = _plus(time_ns, np.bincount(s.level, weights=s.until_ns).astype(np.int64))
        ended = _plus(ended, np.bincount(2 * s.ended_at + s.is_start)[::2])
    rows = max(len(time_ns), len(ended))
    return Levels(_plus(time_ns, np.zeros(rows, dtype=np.int64)), _plus(ended, np.zeros(rows, dtype=np.int64)))


def turnarounds_ns(events: Events, low: int, high: int) -> I64:
    """From a reply to the call right behind it, for the calls that make it `low` to `high` in flight."""
    if compiled is not None:
        return np.asarray(compiled.turnarounds(*events, max(low - 1, 0), high))
    found = [
        s.since_ns[s.is_start & s.follows_end & (s.level >= max(low, 1)) & (s.level <= high)]
        for s in _stretches(events)
    ]
    return np.concatenate(found) if found else np.empty(0, dtype=np.int64)


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
    ended, time_ns, area = _windows(events, width_ns, windows)
    level = np.rint(area / np.maximum(time_ns, 1)).astype(np.int64)
    here = np.arange(int(level.max()) + 1)
    at = [np.bincount(level, column) for column in (np.ones(windows), ended, time_ns, area)]
    above = [column.sum() - np.cumsum(column) for column in at]
    told = (here > 0) & (np.minimum(at[0], above[0]) >= _ENOUGH_WINDOWS) & (above[3] >= _HIGHER * here * above[2])
    flat = np.flatnonzero(told & (above[1] * at[2] <= _GROWS * at[1] * above[2]))
    return int(flat[0]) if len(flat) else None


def _windows(events: Events, width_ns: int, windows: int) -> tuple[F64, F64, F64]:
    """Of each window: ends, time, and time multiplied with the ops in flight."""
    if compiled is not None:
        ended, time_ns, area = compiled.windows(*events, width_ns, windows)
        return ended, time_ns, area
    ended, time_ns, area = (np.zeros(windows) for _ in range(3))
    now_ns = 0
    for s in _stretches(events):
        t_ns = now_ns + np.cumsum(s.since_ns)
        now_ns = int(t_ns[-1])
        window = np.minimum(t_ns // width_ns, windows)
        ended += np.bincount(window, ~s.is_start, windows + 1)[:windows]
        time_ns += np.bincount(window, s.until_ns, windows + 1)[:windows]
        area += np.bincount(window, s.level * s.until_ns, windows + 1)[:windows]
    return ended, time_ns, area


def _plus(one: I64, other: I64) -> I64:
    if len(one) < len(other):
        one, other = other, one
    out = one.copy()
    out[: len(other)] += other
    return out


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
