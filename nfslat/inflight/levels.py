"""Ops of one side -> how many were in flight at once, for how long, and how fast they went through at each level."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np

from nfslat.columns import each_block, tally
from nfslat.tables import I32, I64, Ops, State

# Time above a level that is overlooked when the level is called the top: retransmissions, an extra GETATTR.
_OVERLOOKED = 0.02
_GROWS = 1.05  # the throughput, from one level to those above it: less is noise
_HIGHER = 1.25  # so much more must be in flight above a level, or growth could not be seen
_WINDOW_OPS, _WINDOW_TIMES = 20, 10  # a window holds about so many ops, and lasts so many mean times in flight
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
        busy_ns = self.busy_ns
        return float(np.dot(self.time_ns, np.arange(len(self.time_ns), dtype=np.float64))) / busy_ns if busy_ns else None

    @property
    def top(self) -> int | None:
        """The smallest level above which less than 2 % of the busy time is spent; None where there is no busy time."""
        busy_ns = self.busy_ns
        if not busy_ns:
            return None
        above_ns = busy_ns - np.cumsum(self.time_ns[1:])
        return 1 + int(np.argmax(above_ns <= _OVERLOOKED * busy_ns))

    def share(self, low: int, high: int | None = None) -> float | None:
        """Share of the busy time (0 to 1) spent at the levels from `low` (1 or more) to `high`; to `low` if not given."""
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


def in_order(starts: I64, ends: I64) -> I64:
    """Starts and ends in time order, as 2 x (ns after the first start), plus 1 for a start: ends come first."""
    count = len(starts)
    events = np.empty(2 * count, dtype=np.int64)
    if count:
        events[:count] = starts
        np.maximum(starts, ends, out=events[count:])
        events -= starts.min()
        events <<= 1
        events[:count] += 1
        events.sort(kind="stable")  # two columns that are nearly in order are merged, not sorted
    return events


@dataclass(frozen=True, eq=False)
class Stretch:
    """Some of the events of `in_order`, one after the other."""

    is_start: I64  # 0 or 1
    level: I64  # ops in flight when the event has happened
    since_ns: I64  # the event before it
    until_ns: I64  # the event after it
    ended_at: I64  # level before anything happened at this event's time
    follows_end: I64  # 1 where the event before it is an end


def stretches(events: I64) -> Iterator[Stretch]:
    """`events` as `in_order` makes them, block by block."""
    level, ended_at, last_ns, was_end = 0, 0, 0, 0
    for at in each_block(len(events), lambda at: at):
        is_start = events[at] & 1
        t_ns = events[at] >> 1
        step = 2 * is_start - 1
        now = np.cumsum(step) + level
        since_ns = np.diff(t_ns, prepend=last_ns)
        follows_end = np.concatenate(([was_end], 1 - is_start[:-1]))
        ahead = int(events[at.stop] >> 1) if at.stop < len(events) else int(t_ns[-1])
        # The level before all that happens at one time is that before the first event with this time.
        before = now - step
        same = since_ns == 0
        if same[0]:
            before[0] = ended_at
        first = np.maximum.accumulate(np.where(same, 0, np.arange(len(t_ns))))
        # An op without length ends before it starts, so that for no time the count is one too low.
        stretch = Stretch(
            is_start,
            np.maximum(now, 0),
            since_ns,
            np.diff(t_ns, append=ahead),
            np.maximum(before[first], 0),
            follows_end,
        )
        yield stretch
        level, ended_at, last_ns = int(now[-1]), int(before[first[-1]]), int(t_ns[-1])
        was_end = int(1 - is_start[-1])


def levels_of(events: I64) -> Levels:
    """The same from `events` as `in_order` makes them."""
    time_ns, ended = np.zeros(1, dtype=np.int64), np.zeros(1, dtype=np.int64)
    for s in stretches(events):
        # Sums of ns in float64 are exact up to 104 days.
        time_ns = _plus(time_ns, np.bincount(s.level, weights=s.until_ns).astype(np.int64))
        ended = _plus(ended, np.bincount(s.ended_at, weights=1 - s.is_start).astype(np.int64))
    rows = max(len(time_ns), len(ended))
    return Levels(_plus(time_ns, np.zeros(rows, dtype=np.int64)), _plus(ended, np.zeros(rows, dtype=np.int64)))


def knee(events: I64) -> int | None:
    """The smallest level from which throughput grows by no more than 5 %: what is added only waits longer.

    `events` are those of `in_order`. Time is cut into windows, for at single instants a burst of replies looks like a
    high throughput at a low level. A window counts with its mean level, rounded; a level is compared with all above it
    together, where those are at least a quarter higher on average. None where no knee is to be seen: throughput grows up
    to the top, or the level hardly changes. Of a load that comes at a fixed rate a slow server raises the level and not
    the throughput, so a knee alone is no limit.
    """
    span_ns = int(events[-1] >> 1) if len(events) else 0
    found = levels_of(events)
    in_flight_ns = float(np.dot(found.time_ns, np.arange(len(found.time_ns), dtype=np.float64))) / max(found.ops, 1)
    width_ns = int(max(_WINDOW_TIMES * in_flight_ns, _WINDOW_OPS * found.busy_ns / max(found.ops, 1))) + 1
    windows = span_ns // width_ns  # the last one, which is not full, is left out
    if windows < 2 * _ENOUGH_WINDOWS:
        return None
    ended, time_ns, area = (np.zeros(windows) for _ in range(3))
    for at, s in zip(each_block(len(events), lambda at: at), stretches(events), strict=True):
        window = np.minimum((events[at] >> 1) // width_ns, windows)
        ended += np.bincount(window, 1 - s.is_start, windows + 1)[:windows]
        time_ns += np.bincount(window, s.until_ns, windows + 1)[:windows]
        area += np.bincount(window, s.level * s.until_ns, windows + 1)[:windows]
    level = np.rint(area / np.maximum(time_ns, 1)).astype(np.int64)
    here = np.arange(int(level.max()) + 1)
    count, ended, time_ns, area = (np.bincount(level, column) for column in (np.ones(windows), ended, time_ns, area))
    count_above, ended_above, ns_above, area_above = (c.sum() - np.cumsum(c) for c in (count, ended, time_ns, area))
    told = (here > 0) & (count >= _ENOUGH_WINDOWS) & (count_above >= _ENOUGH_WINDOWS)
    told &= area_above >= _HIGHER * here * ns_above
    flat = np.flatnonzero(told & (ended_above * time_ns <= _GROWS * ended * ns_above))
    return int(flat[0]) if len(flat) else None


def _plus(one: I64, other: I64) -> I64:
    if len(one) < len(other):
        one, other = other, one
    out = one.copy()
    out[: len(other)] += other
    return out


def hidden_share(states: Mapping[State, int]) -> float:
    """Share of a capture's ops (0 to 1) that are not in its table, because call, reply or both were not captured.

    Such ops were in flight and are not counted: levels are too low by this share on average. `states` are the counts of
    ``Decoded.states``. A call without reply and a reply without call are one op each; headers that were not captured
    are the other halves of those, and where there are more of them, two are one op.
    """
    halves = states.get(State.NO_REPLY, 0) + states.get(State.NO_CALL, 0)
    hidden = max(halves, (halves + states.get(State.HEADER_NOT_CAPTURED, 0)) / 2)
    ops = states.get(State.PAIRED, 0) / 2
    return hidden / (hidden + ops) if hidden else 0.0


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
    found = levels(ops.t0[rows], ops.t3[rows])
    top = found.top
    return None if top is None else Top(top, found.share(top) or 0.0, len(rows))
