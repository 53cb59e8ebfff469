"""Calls whose replies nobody sees, and the packets that must hold these -> the sum of the replies' times, at least and
at most.

Nothing is paired. A reply lies behind its call, in packets that have room for it; so many replies of so many bytes
leave only so many ways to be spread over the packets. Where the room is just enough, the sum is known.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from nfslat.model.tables import I64


class Rows(NamedTuple):
    """Packets with bytes that cannot be read, in the order of their stream; `stretch` numbers what belongs together."""

    stretch: I64
    begin_ns: I64
    end_ns: I64
    bytes: I64

    @property
    def room(self) -> I64:
        """Bytes of each stretch."""
        return np.bincount(self.stretch, self.bytes).astype(np.int64)


class Waiting(NamedTuple):
    """Calls whose replies have the same size: when they were sent, at the earliest, and the bytes of each reply."""

    called_ns: I64
    least: int
    most: int


class Fit(NamedTuple):
    """Sum of the times of `placed` replies, ns, at least and at most; the others have no place."""

    placed: int
    low: float
    high: float


def fit(rows: Rows, waiting: Sequence[Waiting], *, ends: bool) -> list[Fit]:
    """Of each of `waiting` what its replies' last bytes (`ends`), or first ones, add up to.

    Large replies come first, as they have the fewest places: what they are sure to take is not left for others.
    """
    left = rows.room
    found: dict[int, Fit] = {}
    single = sum(1 for one in waiting if len(one.called_ns)) == 1
    for number in sorted(range(len(waiting)), key=lambda at: -waiting[at].least):
        one = waiting[number]
        count = len(one.called_ns)
        places = np.minimum(left // max(one.least, 1), count)
        to_spare = int(places.sum()) - count
        sure = np.maximum(places - max(to_spare, 0), 0)
        found[number] = _spread(rows, places, one, ends=ends, exact=single and to_spare <= 0)
        left = left - sure * one.least
    return [found[number] for number in range(len(waiting))]


def _spread(rows: Rows, places: I64, one: Waiting, *, ends: bool, exact: bool) -> Fit:
    """`places`: how many of the replies each stretch has room for; `exact`: it has so many, and nothing else."""
    if not len(one.called_ns) or not places.any():
        return Fit(0, 0.0, 0.0)
    first = np.flatnonzero(np.diff(rows.stretch, prepend=-1))
    all_before = np.cumsum(rows.bytes)
    until = all_before - np.repeat(all_before[first] - rows.bytes[first], np.diff(np.append(first, len(rows.stretch))))
    most = places[rows.stretch]
    early = np.minimum(until // one.least if ends else (until - 1) // one.least + 1, most)
    late = np.minimum(until // one.most, most) if exact else np.zeros_like(most)
    late[np.append(first[1:], len(most)) - 1] = places[rows.stretch[first]]
    early, late = steps(early, first), steps(late, first)
    order = np.argsort(rows.end_ns, kind="stable")
    end_ns = rows.end_ns[order]
    begin_ns = np.minimum.accumulate(rows.begin_ns[order][::-1])[::-1]
    called = np.searchsorted(np.sort(one.called_ns), end_ns, "right")
    # Early: each reply in the first place behind its call. Late: the last places are filled with any call before them.
    whole = np.zeros_like(most)
    last = np.append(first[1:], len(most)) - 1
    whole[last] = most[last]
    done = behind_calls(np.cumsum(early[order]), np.cumsum(whole[order]), called)
    placed_early = np.diff(done, prepend=0)
    there = np.minimum(late[order], called)[::-1]
    placed_late = np.diff(np.minimum(np.cumsum(there), len(one.called_ns)), prepend=0)[::-1]
    placed = int(placed_early.sum())
    low, high = float((placed_early * begin_ns).sum()), float((placed_late * end_ns).sum())
    return Fit(placed, low, high)


def behind_calls(room: I64, whole: I64, called: I64) -> I64:
    """How many replies there are at most by each of the packets, none in front of its call: they have `room` for so
    many, so many of it in stretches that are `whole` by then, and so many calls were sent. What is empty of a stretch
    that is not whole yet can still be filled."""
    return np.asarray(np.minimum(np.minimum(room, called), room + np.minimum.accumulate(called - whole)))


def steps(counts: I64, first: I64, before: I64 | int = 0) -> I64:
    """First differences of counts that begin anew in the rows `first`, from `before` on."""
    out = np.diff(counts, prepend=0)
    out[first] = counts[first] - before
    return np.asarray(out)
