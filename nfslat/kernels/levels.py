"""Starts and ends of ops, in order -> how many were in flight, for how long, and what ended and began there."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from nfslat.kernels import compiled
from nfslat.model.blocks import each_block
from nfslat.model.tables import F64, I32, I64, Bool


class Events(NamedTuple):
    """Starts and ends of ops, each ascending; ns after the first start. At one time ends come before starts."""

    starts: I64
    ends: I64


def in_order(starts: I64, ends: I64) -> Events:
    """Of ops in any order. One that ends before it starts ends as it starts."""
    if compiled.native is not None:
        return Events(*compiled.native.in_order(np.ascontiguousarray(starts), np.ascontiguousarray(ends)))
    begin = starts.min(initial=np.iinfo(np.int64).max)
    events = Events(starts - begin, np.maximum(starts, ends))
    np.subtract(events.ends, begin, out=events.ends)
    for column in events:
        column.sort(kind="stable")  # what is nearly in order is merged, not sorted
    return events


class Stretch(NamedTuple):
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


def time_and_ends(events: Events) -> tuple[I64, I64]:
    """Of each level k: ns with exactly k ops in flight, and ops that ended there (`inflight.levels.Levels`)."""
    if compiled.native is not None:
        time_ns, ended = compiled.native.levels(*events)
        return time_ns, ended
    time_ns, ended = np.zeros(1, dtype=np.int64), np.zeros(1, dtype=np.int64)
    for s in _stretches(events):
        # Sums of ns in float64 are exact up to 104 days.
        time_ns = _plus(time_ns, np.bincount(s.level, weights=s.until_ns).astype(np.int64))
        ended = _plus(ended, np.bincount(2 * s.ended_at + s.is_start)[::2])
    rows = max(len(time_ns), len(ended))
    return _plus(time_ns, np.zeros(rows, dtype=np.int64)), _plus(ended, np.zeros(rows, dtype=np.int64))


def turnarounds_ns(events: Events, low: int, high: int) -> I64:
    """From a reply to the call right behind it, for the calls that make it `low` to `high` in flight."""
    if compiled.native is not None:
        return np.asarray(compiled.native.turnarounds(*events, max(low - 1, 0), high))
    found = [
        s.since_ns[s.is_start & s.follows_end & (s.level >= max(low, 1)) & (s.level <= high)]
        for s in _stretches(events)
    ]
    return np.concatenate(found) if found else np.empty(0, dtype=np.int64)


def windows_of(events: Events, width_ns: int, windows: int) -> tuple[F64, F64, F64]:
    """Of each window: ends, time, and time multiplied with the ops in flight."""
    if compiled.native is not None:
        ended, time_ns, area = compiled.native.windows(*events, width_ns, windows)
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
