"""Times of ops, in the order of their calls -> the rows from which on they are others: where phases begin.

Binary segmentation (Scott and Knott 1974, Biometrics 30:507) of medians of pieces that follow each other, each time at
the cut that leaves the least absolute deviations. Response times come in runs, so a small step that chance explains
badly is still no phase: it has to be large beside the spread of both its sides, and nearly all pieces have to lie on
their side of the middle.
"""

from __future__ import annotations

import itertools
from bisect import bisect_left, insort
from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np

from nfslat.model.tables import F64, I64

MOST = 6  # phases
_PIECES, _OPS = 60, 20  # at most; in each at least
_FEWEST = 4  # pieces in a phase
_SPELL = 8  # in one that ends as it began: so many are looked at that jitter would make a shorter one
LEAST_NS = 1_000_000.0  # less is no phase worth a line
_ROUNDING_SHARE = 1 - 1e-9  # of a number that logarithms may have rounded
_OF_ITS_SIDE = 0.9  # of the pieces
_SPREADS = 3.0  # medians of absolute deviations
_FEW = 1024  # values, which are sorted sooner than parted


class Jump(NamedTuple):
    """How far two levels have to be apart, at least."""

    ns: float = LEAST_NS
    factor: float = 2.0


_JUMP = Jump()


def changes(columns: Sequence[I64], jump: Jump = _JUMP, level: Callable[[I64], float] | None = None) -> list[int]:
    """Rows, ascending, at which one of `columns` (ns, one row an op) jumps to another level; never the first row. The
    `level` of a piece is its median, else that."""
    level = level or median
    for edges_of in (_by_ops, _by_time):
        edges = edges_of(columns)
        pieces = len(edges) - 1
        if pieces < 2 * _FEWEST:
            break
        medians = np.array(
            [[level(one[a:b]) for a, b in itertools.pairwise(edges.tolist())] for one in columns], dtype=np.float64
        )
        if not any(_may_hold_a_step(row, jump) for row in medians):
            break
        if cuts := steps(medians, jump):
            return [nearest_row(columns, edges, cut) for cut in cuts]
    return []


def steps(levels: F64, jump: Jump = _JUMP) -> list[int]:
    """Pieces, ascending, at which one of the rows of `levels` (ns, one column a piece) jumps to another level."""
    return sorted(_split(levels, jump, 0, levels.shape[1]))[: MOST - 1]


def _by_ops(columns: Sequence[I64]) -> I64:
    """Edges of pieces with as many ops each."""
    rows = len(columns[0])
    return np.linspace(0, rows, min(_PIECES, rows // _OPS) + 1).astype(np.int64)


def _by_time(columns: Sequence[I64]) -> I64:
    """And of pieces that hold as much of the ops' time, half of it; for who waits for slow replies sends few calls, so
    that most of the time may be that of a few of the ops."""
    rows = len(columns[0])
    spent = np.cumsum(np.maximum(np.sum(columns, axis=0), 0), dtype=np.float64)
    share = np.arange(1, rows + 1) / rows + spent / max(float(spent[-1]), 1.0)
    wanted = np.searchsorted(share, np.linspace(0, 2, _PIECES + 1)[1:-1])
    edges = [0]
    for at in wanted.tolist():
        if at - edges[-1] >= _OPS and rows - at >= _OPS:
            edges.append(at)
    return np.array([*edges, rows])


def _split(medians: F64, jump: Jump, begin: int, end: int) -> list[int]:
    """The cuts between `begin` and `end`, in no order."""
    pieces = end - begin
    columns = [row for row in medians[:, begin:end] if _may_hold_a_step(row, jump)]
    if not columns:
        return []
    singles = [(cut, pieces) for cut in range(_FEWEST, pieces - _FEWEST + 1)]
    # A cause that ends again moves the median of neither side of a single cut.
    spells = [
        (first, last)
        for first in range(_FEWEST, pieces - _FEWEST - _SPELL + 1)
        for last in range(first + _SPELL, pieces - _FEWEST + 1)
    ]
    for stretches in (singles, spells):
        best, gain = (0, 0), 0.0
        apart = [(row, _far_apart(row.tolist(), stretches, jump)) for row in columns]
        for first, last in stretches:
            for row, are_apart in apart:
                if (first, last) not in are_apart:
                    continue
                inside, outside = row[first:last], np.concatenate((row[:first], row[last:]))
                if _is_step(outside, inside, jump) and (less := _gain(outside, inside)) > gain:
                    best, gain = (begin + first, begin + last), less
        if gain:
            edges = [begin, *best, end] if best[1] < end else [begin, best[0], end]
            inner = [cut for low, high in itertools.pairwise(edges) for cut in _split(medians, jump, low, high)]
            return [*edges[1:-1], *inner]
    return []


def _far_apart(levels: list[float], stretches: Sequence[tuple[int, int]], jump: Jump) -> set[tuple[int, int]]:
    """The stretches whose median is far enough from that of all else; few are, and only of those more is
    asked. Each is looked at as the one before with a piece more, where it is that."""
    far = set()
    inside: list[float] = []
    outside: list[float] = []
    begun, ended = -1, -1
    for first, last in stretches:
        if (first, last) == (begun, ended + 1):
            insort(inside, levels[ended])
            del outside[bisect_left(outside, levels[ended])]
        else:
            inside, outside = sorted(levels[first:last]), sorted(levels[:first] + levels[last:])
        begun, ended = first, last
        low, high = sorted((some[(len(some) - 1) // 2] + some[len(some) // 2]) / 2 for some in (inside, outside))
        # As `_is_step`, but for what logarithms round.
        if high - low >= jump.ns and high >= _ROUNDING_SHARE * jump.factor * max(low, 1.0):
            far.add((first, last))
    return far


def _may_hold_a_step(medians: F64, jump: Jump) -> bool:
    """Are the two that are farthest apart far enough? Of most loads they are not, and no cut need be tried."""
    low_ns, high_ns = float(medians.min()), float(medians.max())
    return high_ns - low_ns >= jump.ns and high_ns >= jump.factor * max(low_ns, 1.0)


def _gain(one_ns: F64, other_ns: F64) -> float:
    """By how much two levels leave less of the absolute deviations than one, log2. How far the medians are apart would
    say the same of all cuts near the right one, for a few pieces of the other side do not move them."""
    both = np.log2(np.maximum(np.concatenate((one_ns, other_ns)), 1.0))
    parts = both, both[: len(one_ns)], both[len(one_ns) :]
    whole, one, other = (float(np.abs(values - median(values)).sum()) for values in parts)
    return whole - one - other


def _is_step(before_ns: F64, after_ns: F64, jump: Jump) -> bool:
    """Are both clearly apart?"""
    low_ns, high_ns = median(before_ns), median(after_ns)
    low, high = np.log2(max(low_ns, 1.0)), np.log2(max(high_ns, 1.0))
    if abs(high_ns - low_ns) < jump.ns or abs(high - low) < np.log2(jump.factor):
        return False
    before, after = np.log2(np.maximum(before_ns, 1.0)), np.log2(np.maximum(after_ns, 1.0))
    way = np.sign(high - low)
    return bool(
        abs(high - low) >= _SPREADS * max(_deviation(before), _deviation(after))
        and np.mean(way * (before - (low + high) / 2) < 0) >= _OF_ITS_SIDE
        and np.mean(way * (after - (low + high) / 2) > 0) >= _OF_ITS_SIDE
    )


def _deviation(values: F64) -> float:
    return median(np.abs(values - median(values)))


def median(values: F64 | I64) -> float:
    """As of numpy, which takes five times as long for few."""
    low, high = (len(values) - 1) // 2, len(values) // 2
    ordered = np.sort(values) if len(values) < _FEW else np.partition(values, (low, high))
    return float((ordered[high] + ordered[low]) / 2)


def nearest_row(columns: Sequence[I64], edges: I64, cut: int) -> int:
    """The row near a cut before which most lie on the one side of the middle, and from which on on the other."""
    first, middle, last = (int(edges[at]) for at in (cut - 1, cut, cut + 1))
    if not first < middle < last:
        return middle
    cost = np.zeros(last - first + 1)
    for one in columns:
        values = np.log2(np.maximum(one[first:last], 1))
        before, after = np.median(values[: middle - first]), np.median(values[middle - first :])
        wrong = (values - (before + after) / 2) * np.sign(after - before)  # above 0 as behind the cut
        cost += abs(after - before) * np.append(0.0, np.cumsum(np.clip(wrong, -1, 1)))
    return first + int(np.argmin(cost))
