"""Numbers -> their rows in ascending order, or what stands at some places of it."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from nfslat.kernels import compiled
from nfslat.model.blocks import rank
from nfslat.model.tables import I64


def argsort(values: I64) -> I64:
    """`np.argsort`, stable, and several times as fast where `values` are in no order, and within 2^32 of each other."""
    if compiled.native is None:
        return np.argsort(values, kind="stable")
    return np.asarray(compiled.native.order(np.ascontiguousarray(values)))


def ranks(numbers: I64, places: Sequence[int]) -> list[int]:
    """What stands at each of `places`, counted from 0, where `numbers`, in any order, are put in order."""
    if compiled.native is None:
        return list(np.partition(numbers, places)[list(places)].tolist())
    return list(compiled.native.ranks(np.ascontiguousarray(numbers, dtype=np.int64), places))


def ranked(numbers: I64, percent: int) -> int:
    """A percentile of `numbers`, which are at least one and in any order: nearest-rank, so that it is one of them."""
    return ranks(numbers, [rank(len(numbers), percent)])[0]
