"""What ops of clients took beyond the typical time, in blocks of time -> who is far off again and again: `Steadiness`.

Blocks of a client that are side by side are put together until they hold some 25 ops: a cell. A cell is far off if it
is so many scales off where all cells are densest (two limits are tried: many cells that are a little far off tell as
well as some that are very far off). How often that is by chance is taken from the quieter half of the clients, with a
margin.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from statistics import NormalDist
from typing import NamedTuple

import numpy as np

from nfslat.fleet.compare.excess import LAYERS
from nfslat.model.tables import F64, I64, Bool
from nfslat.model.units import NS_PER_MS

FEW_CELLS = 5
LEAST_CELL = 10  # ops
LEAST_MS = 0.1
_CELL_OPS = 25
_FAR = (1.5, 3.0)  # scales
_SURE = 0.01
FLOOR_NS = 50_000  # below, a ratio of times is one of time stamps
_FLOOR, _FLOOR_OF_FEW = 0.05, 0.5  # of a scale, and what is added over the number of values
_DENSE, _FEW_VALUES = 0.4, 30
_NARROW = 10  # over the number of values: by so much the densest part of few is narrower than their spread (simulated)
_LEAST_FAR = 4.0
_QUIET = 0.5  # of the clients, those with the fewest cells far off say how often that is by chance
_CHANCE_FACTOR, _CHANCE_MORE = 1.5, 0.02
_STEADY, _OFTEN, _MANY_CELLS = 0.8, 0.4, 8
_MOSTLY = 0.5  # of the cells; fewer must be side by side
_BRIEFLY = 0.7  # of the cells; where fewer are worse, and side by side, it is said when


@dataclass(frozen=True)
class Cells:
    """Some blocks of one client, side by side, that hold ops enough; columns of `beyond` and `expected` are layers."""

    client: I64
    first: I64
    last: I64
    ops: F64
    beyond: F64
    expected: F64


class Steady(NamedTuple):
    """How steadily a client is worse."""

    worse: float | None  # share of its cells that show it; None: too few to say
    cells: int
    confidence: str
    windows: tuple[int, int] | None  # first and last, where it is not all the time


class Steadiness:
    """Of all clients in one layer."""

    def __init__(self, cells: Cells, layer: int, clients: int, block_of: I64) -> None:
        """`block_of` is the block of each window."""
        self._cells, self._block_of, self._clients = cells, block_of, clients
        self._count = np.bincount(cells.client, minlength=clients)
        further = cells.beyond[:, layer] / cells.ops
        matters = further >= LEAST_MS * NS_PER_MS / 2
        off = ratio(cells.beyond, cells.expected, cells.ops)[:, layer]
        center, scale = dense(off) if len(off) else (0.0, 1.0)
        self._bad = [np.asarray(matters & (off > center + far * scale)) for far in _FAR]
        self._further = further - (float(np.median(further)) if len(further) else 0.0)
        self._often = [self._by_chance(bad) for bad in self._bad]

    def cells_of(self, client: int) -> int:
        """How many a client has."""
        return int(self._count[client])

    def of(self, client: int) -> Steady | None:
        """None where chance may make it."""
        mine = self._cells.client == client
        count = self.cells_of(client)
        for bad, often in zip(self._bad, self._often, strict=True):
            worse = int(bad[mine].sum())
            windows = _when(self._cells, mine, bad, self._block_of)
            scattered = worse < _MOSTLY * count and windows is None
            if not scattered and self._is_often(worse, count, often):
                return Steady(worse / count, count, _confidence(worse, count), windows)
        return None

    def median_ns(self, client: int) -> float:
        """How much longer than usual its ops take in the middle one of its cells."""
        return float(np.median(self._further[self._cells.client == client]))

    def _by_chance(self, bad: Bool) -> float:
        """How often a cell is far off by chance."""
        share = np.bincount(self._cells.client, bad, self._clients) / np.maximum(self._count, 1)
        nothing = self._count == 0
        quiet = np.argsort(share + nothing, kind="stable")[: max(int(_QUIET * np.count_nonzero(~nothing)), 1)]
        return min(_CHANCE_FACTOR * float(share[quiet].mean()) + _CHANCE_MORE, 1.0)

    def _is_often(self, worse: int, count: int, often: float) -> bool:
        tail = sum(math.comb(count, k) * often**k * (1 - often) ** (count - k) for k in range(worse, count + 1))
        return tail * self._clients * len(LAYERS) * len(_FAR) < _SURE


def _confidence(worse: int, count: int) -> str:
    share = worse / count
    if share >= _STEADY and count >= _MANY_CELLS:
        return "high"
    return "medium" if share >= _OFTEN else "low"


def _when(cells: Cells, mine: Bool, bad: Bool, block_of: I64) -> tuple[int, int] | None:
    """Windows of the bad cells of a client, where they are side by side and not all there are."""
    rows = np.flatnonzero(mine)
    worse = np.flatnonzero(bad[rows])
    if not len(worse) or len(worse) >= _BRIEFLY * len(rows):
        return None
    inside = worse[-1] - worse[0] + 1
    if len(worse) < _STEADY * inside:
        return None
    first, last = cells.first[rows[worse[0]]], cells.last[rows[worse[-1]]]
    windows = np.flatnonzero((block_of >= first) & (block_of <= last))
    return int(windows[0]), int(windows[-1])


def cells_in(ops: F64, beyond: F64, expected: F64) -> Cells:
    """Blocks of each client, as many put together as make a cell."""
    clients, blocks = ops.shape
    number = (np.cumsum(ops, axis=1) - ops) // _CELL_OPS
    begins = np.ones((clients, blocks), dtype=np.bool_)
    begins[:, 1:] = number[:, 1:] != number[:, :-1]
    at = np.flatnonzero(begins)
    client, first = np.divmod(at, blocks)
    last = np.append(at[1:], clients * blocks) - 1 - client * blocks

    def summed(values: F64) -> F64:
        return np.asarray(np.add.reduceat(values.reshape(clients * blocks, -1), at, axis=0))

    many = summed(ops)[:, 0]
    kept = many >= LEAST_CELL
    columns = (summed(beyond), summed(expected))
    return Cells(client[kept], first[kept], last[kept], many[kept], *(one[kept] for one in columns))


def ratio(beyond: F64, expected: F64, ops: F64) -> F64:
    """Of the time that ops took to that which they would take, by layer, on a log scale."""
    many = np.maximum(ops, 1)[:, None]
    took = np.maximum(beyond + expected, 0) / many
    return np.asarray(np.log((took + FLOOR_NS) / (np.maximum(expected, 0) / many + FLOOR_NS)))


def dense(values: F64) -> tuple[float, float]:
    """Middle and scale of where values are densest, which more than half of outliers do not move; the lowest of such.

    Of few values it is a half of them that is looked at, else the part `_DENSE`.
    """
    ordered = np.sort(values)
    many = len(ordered)
    part = math.ceil(many * (_DENSE if many >= _FEW_VALUES else 0.5))
    widths = ordered[part - 1 :] - ordered[: many - part + 1]
    # Of parts that are about as dense the fastest is the usual one.
    at = int(np.argmax(widths <= widths.min() * 1.1 + _FLOOR))
    center = float(np.median(ordered[at : at + part]))
    width = 2 * NormalDist().inv_cdf(0.5 + part / many / 2) if part < many else 2.0
    return center, max(float(widths[at]) / width * (1 + _NARROW / many), _FLOOR + _FLOOR_OF_FEW / many)


def limit(clients: int) -> float:
    """Scales: further off is hardly one of so many equal clients in any layer, if they are about normal."""
    return max(_LEAST_FAR, NormalDist().inv_cdf(1 - _SURE / 2 / len(LAYERS) / clients))
