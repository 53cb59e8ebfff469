"""Sums of integers that are exact, however large: an int64 where it holds them, else Python's integers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

from nfslat.kernels.compiled import native
from nfslat.model.blocks import each_block
from nfslat.model.tables import I32, I64, Bool

_INT64_HOLDS = 1 << 63
Sums = npt.NDArray[Any]  # of int64, or of Python's integers


def exact_sum(values: I32 | I64) -> int:
    """The sum of `values`, exact at any size."""
    (total,) = exact_sums(None, values, 1).tolist()
    return int(total)


def largest_magnitude(values: Sums) -> int:
    """The largest of `values` without its sign; 0 where there are none."""
    return max(int(values.max()), -int(values.min())) if len(values) else 0


def exact_sums(groups: I64 | None, values: I64 | I32 | Bool, count: int) -> Sums:
    """The sum of `values` in each of `count` groups; None: there is one."""
    sums = native.sums(groups, np.ascontiguousarray(values), count)
    return sums if isinstance(sums, np.ndarray) else np.array(sums, dtype=object)


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
