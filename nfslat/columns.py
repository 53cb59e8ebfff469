"""Long columns -> results, block by block so that temporaries stay in the processor's cache, and on two threads.

numpy lets go of Python's lock while it works, so threads help; more than two are not worth their memory here.
"""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt

from nfslat.tables import I64

T = TypeVar("T")
_BLOCK = 1 << 15  # rows
_THREADS = 2


def at_once(*jobs: Callable[[], T]) -> list[T]:
    """The results of the jobs, which run on two threads; the first exception of a job is raised."""
    with ThreadPoolExecutor(_THREADS) as pool:
        return list(pool.map(lambda job: job(), jobs))


def each_block(rows: int, work: Callable[[slice], T]) -> list[T]:
    """What `work` makes of each block of `rows` rows, in their order."""
    blocks = [slice(at, min(at + _BLOCK, rows)) for at in range(0, rows, _BLOCK)]
    if len(blocks) <= _THREADS:
        return [work(block) for block in blocks]
    shares = [blocks[: len(blocks) // 2], blocks[len(blocks) // 2 :]]
    parts = at_once(*((lambda share=share: [work(block) for block in share]) for share in shares))
    return [made for part in parts for made in part]


def filled(rows: int, dtype: npt.DTypeLike, work: Callable[[slice], npt.NDArray[Any]]) -> npt.NDArray[Any]:
    """A column of `rows` rows whose blocks are what `work` makes of them."""
    out = np.empty(rows, dtype=dtype)

    def fill(block: slice) -> None:
        out[block] = work(block)

    each_block(rows, fill)
    return out


def side_by_side(groups: npt.NDArray[np.integer[Any]], count: int) -> tuple[I64, I64]:
    """An order that puts the rows of each group (0 to `count` - 1) side by side, and where each begins and ends.

    Rows of one group keep their order. Both int64; the second has `count` + 1 rows.
    """
    if count <= np.iinfo(np.int16).max:
        groups = groups.astype(np.int16)  # two bytes are sorted by counting, four by comparing
    order = np.argsort(groups, kind="stable")
    sizes = np.bincount(groups, minlength=count)
    return order, np.concatenate([[0], np.cumsum(sizes)])
