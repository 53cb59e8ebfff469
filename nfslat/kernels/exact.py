"""Sums of integers that are exact, however large: an int64 where it holds them, else Python's integers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

from nfslat.model.blocks import each_block
from nfslat.model.tables import I64

_FLOAT_HOLDS = 1 << 53  # below, a float64 holds each integer
_INT64_HOLDS = 1 << 63
_HALF_BITS = 32
Sums = npt.NDArray[Any]  # of int64, or of Python's integers


def exact_sum(values: I64, most: int) -> int:
    """The sum; `most` is the largest magnitude of `values`."""
    if most * len(values) < _INT64_HOLDS:
        return int(values.sum(dtype=np.int64))
    half = np.int64((1 << _HALF_BITS) - 1)
    high, low = (values >> _HALF_BITS).sum(dtype=np.int64), (values & half).sum(dtype=np.int64)
    return (int(high) << _HALF_BITS) + int(low)


def largest_magnitude(values: I64) -> int:
    """The same for `exact_sum`; 0 of nothing."""
    return max(int(values.max()), -int(values.min())) if len(values) else 0


def exact_sums(groups: npt.NDArray[np.integer[Any]], values: npt.NDArray[Any], count: int) -> Sums:
    """The sum of `values` (integers, or booleans) in each of `count` groups. Of a block of at most 2^21 rows."""
    is_mask = values.dtype == np.bool_
    if count == 1:
        total = int(np.count_nonzero(values)) if is_mask else exact_sum(values, largest_magnitude(values))
        return np.array([total], dtype=np.int64 if abs(total) < _INT64_HOLDS else object)
    if is_mask:
        some = np.count_nonzero(values)
        if not some:
            return np.zeros(count, dtype=np.int64)
        return np.bincount(groups if some == len(values) else groups[values], minlength=count)
    most = largest_magnitude(values)
    if not most:
        return np.zeros(count, dtype=np.int64)
    if most * len(values) < _FLOAT_HOLDS:
        return np.bincount(groups, values, count).astype(np.int64)
    high = np.bincount(groups, values >> _HALF_BITS, count).astype(np.int64)
    low = np.bincount(groups, values & ((1 << _HALF_BITS) - 1), count).astype(np.int64)
    if most * len(values) < _INT64_HOLDS:
        return np.asarray((high << _HALF_BITS) + low)
    return np.asarray((high.astype(object) << _HALF_BITS) + low)


def added(one: Sums, other: Sums) -> Sums:
    """The sums of both."""
    is_short = object not in (one.dtype, other.dtype)
    if is_short and largest_magnitude(one) + largest_magnitude(other) < _INT64_HOLDS:
        return one + other
    return np.asarray(one.astype(object) + other.astype(object))


def longer(one: I64, other: I64) -> I64:
    """The sum of two columns, of which either may be longer."""
    out = np.zeros(max(len(one), len(other)), dtype=np.int64)
    out[: len(one)] += one
    out[: len(other)] += other
    return out


def spread(sums: Sums, at: npt.NDArray[np.integer[Any]], count: int) -> Sums:
    """`sums` as those of the groups `at`, of `count`; those that go to one group are added up."""
    out = np.zeros(count, dtype=object)
    if sums.dtype != object and len(sums) * largest_magnitude(sums) < _INT64_HOLDS:
        out = np.zeros(count, dtype=np.int64)
    np.add.at(out, at, sums)
    return out


def by_blocks(rows: int, work: Callable[[slice], list[Sums]]) -> list[Sums]:
    """Sums of `rows` rows, of which `work` makes those of each block; of no rows there are none."""
    total: list[Sums] = []
    for part in each_block(rows, work):
        total = [added(a, b) for a, b in zip(total, part, strict=True)] if total else part
    return total
