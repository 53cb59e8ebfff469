"""Long columns -> results, block by block, so that temporaries stay small and in the processor's cache."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar, overload

import numpy as np
import numpy.typing as npt

I32 = npt.NDArray[np.int32]
I64 = npt.NDArray[np.int64]
T = TypeVar("T")
_BLOCK = 1 << 16  # rows
_FEW = 1 << 16
_NARROW = 1 << 30  # below it, so that the sum of two is a number of 32 bits as well


def each_block(rows: int, work: Callable[[slice], T]) -> list[T]:
    """What `work` makes of each block of `rows` rows, in their order."""
    return [work(slice(at, min(at + _BLOCK, rows))) for at in range(0, rows, _BLOCK)]


def filled(rows: int, dtype: npt.DTypeLike, work: Callable[[slice], npt.NDArray[Any]]) -> npt.NDArray[Any]:
    """A column of `rows` rows whose blocks are what `work` makes of them."""
    out = np.empty(rows, dtype=dtype)

    def fill(block: slice) -> None:
        out[block] = work(block)

    each_block(rows, fill)
    return out


def compact(rows: int, work: Callable[[slice], I64]) -> I32 | I64:
    """`filled`, with numbers of 32 bits where all are so small that those of two rows may be added."""
    out: I32 | I64 = np.empty(rows, dtype=np.int32)

    def fill(block: slice) -> None:
        nonlocal out
        numbers = work(block)
        if out.dtype == np.int32 and max(int(numbers.max()), -int(numbers.min())) >= _NARROW:
            wide = np.empty(rows, dtype=np.int64)
            wide[: block.start] = out[: block.start]
            out = wide
        out[block] = numbers

    each_block(rows, fill)
    return out


def together(rows: npt.NDArray[np.signedinteger[Any]]) -> slice | I64:
    """Row numbers as numpy takes them soonest: a slice, which copies nothing, where each is one more than the last."""
    begin, end = (int(rows[0]), int(rows[-1]) + 1) if len(rows) else (0, 0)
    if end - begin == len(rows) and (rows[1:] > rows[:-1]).all():
        return slice(begin, end)
    return rows.astype(np.int64)


@overload
def rank(rows: int, percent: int) -> int: ...
@overload
def rank(rows: I64, percent: int) -> I64: ...
def rank(rows: int | I64, percent: int) -> int | I64:
    """Where a percentile stands in a population of `rows` that is in order: nearest-rank, counted from 0."""
    return -(-rows * percent // 100) - 1


def tally(rows: int, count: int, work: Callable[[slice], npt.NDArray[np.integer[Any]]]) -> I64:
    """How often each number from 0 to `count` - 1 occurs in what `work` makes of each block of `rows` rows."""
    parts = each_block(rows, lambda at: np.bincount(work(at), minlength=count))
    if len(parts) == 1:
        return parts[0].astype(np.int64, copy=False)
    return np.asarray(np.sum(parts, axis=0) if parts else np.zeros(count), dtype=np.int64)


def largest(groups: npt.NDArray[np.integer[Any]], amounts: Callable[[slice], I64]) -> int:
    """The group, a number from 0, whose `amounts`, of each block of rows, come to most."""
    count = int(groups.max(initial=0)) + 1
    sums = each_block(len(groups), lambda at: np.bincount(groups[at], amounts(at), count))
    return int(np.argmax(np.sum(sums, axis=0))) if sums else 0


def distinct(numbers: I32 | I64, most: int) -> I64:
    """Each of `numbers` (from 0 to `most` - 1) once, in order."""
    if most > 4 * len(numbers) + _FEW:
        # Many numbers are sorted sooner than put into the hash table that `np.unique` makes.
        numbers = np.sort(numbers.astype(np.int64))
        return numbers[np.diff(numbers, prepend=-1) > 0]
    there = np.zeros(most, dtype=np.bool_)  # a fraction of the time that sorting takes
    there[numbers] = True
    return np.flatnonzero(there)
