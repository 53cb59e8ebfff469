"""Numbers -> their rows in ascending order, or what stands at some places of it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from nfslat.kernels.compiled import native
from nfslat.model.blocks import filled, rank
from nfslat.model.tables import I32, I64


def argsort(values: I64) -> I64:
    """`np.argsort`, stable, and several times as fast where `values` are in no order, and within 2^32 of each other."""
    return np.asarray(native.order(np.ascontiguousarray(values)))


def ranks(numbers: I32 | I64, places: Sequence[int]) -> list[int]:
    """What stands at each of `places`, counted from 0, where `numbers`, in any order, are put in order."""
    return list(native.ranks(np.ascontiguousarray(numbers), places))


def ranked(numbers: I32 | I64, percent: int) -> int:
    """A percentile of `numbers`, which are at least one and in any order: nearest-rank, so that it is one of them."""
    return ranks(numbers, [rank(len(numbers), percent)])[0]


def side_by_side(rows: int, count: int, work: Callable[[slice], npt.NDArray[Any]]) -> tuple[I32, list[slice]]:
    """An order of rows that puts those of each group side by side and keeps theirs, and where each group stands in it.

    `work` gives the groups, integers from 0 to `count` - 1, of a block of rows.
    """
    groups = filled(rows, np.int32, work)
    order, sizes = native.grouped(groups, count)
    return order, _spans(sizes)


def _spans(sizes: I64) -> list[slice]:
    ends = np.cumsum(sizes)
    return [slice(begin, end) for begin, end in zip((ends - sizes).tolist(), ends.tolist(), strict=True)]
