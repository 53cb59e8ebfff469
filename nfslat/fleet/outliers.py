"""A `Grid` -> clients that take longer than the others in a layer, with how much and how steadily: `Standing`.

Each client is compared with the median of all in the same class and the same block of time, so that a server that gets
slow for everybody, or a client that works only then, makes nobody stand out. What is left of a client, on a log scale,
is held against where clients are densest. To stand out a client must

- be further off that than hardly one of as many equal clients would be (`limit`),
- take at least 0.1 ms, and 10 % of its time, longer (`_LEAST_MS`, `_LEAST_SHARE`), and
- do so again and again: so many of its cells (some 25 ops, side by side in time) must be far off that chance would make
  that at one client in a hundred such fleets (a binomial test; how often cells are far off by chance is taken from the
  other clients). One dreadful op, or a few, make a bad mean and no bad cells.

Where there are too few cells for that, the medians of its ops must be far off in their place. Simulated fleets of equal
clients with heavy-tailed times keep this to account (tests/fleet/test_fleet_compare.py). What lasts for less than a
third of the time may go unnoticed.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import NormalDist

import numpy as np

from nfslat.fleet.excess import F64, LAYERS, NETWORK, QUEUE, SERVER, TYPICAL_OF, Grid
from nfslat.fleet.summary import ClientSummary
from nfslat.tables import I64, Bool

_LEAST_MS, _LEAST_SHARE = 0.1, 0.10
_LEAST_SHARE_OF_TWO, _T_OF_TWO = 0.25, 6.0  # of two clients, either may be the usual one
_SURE = 0.01
_FEW_CELLS = 5
_CELL_OPS, _LEAST_CELL = 25, 10
_FAR = 3.0  # scales, of a cell
_FLOOR_NS = 50_000  # below, a ratio of times is one of time stamps
_FLOOR, _FLOOR_OF_FEW = 0.05, 0.5  # of a scale, and what is added over the number of clients
_LEAST_FAR, _NEAR = 4.0, 1.5  # scales
_DENSE, _FEW_VALUES = 0.4, 10
_QUIET = 0.5  # of the clients, those with the fewest cells far off say how often that is by chance
_CHANCE_FACTOR, _CHANCE_MORE = 1.5, 0.02
_KNOCK_ON = 0.25  # of what is worst at a client; less in another layer comes with it
_STEADY, _OFTEN, _MANY_CELLS = 0.8, 0.4, 8
_BRIEFLY = 0.7  # of the cells; where fewer are worse, and side by side, it is said when
_NS_PER_MS = 1e6


@dataclass(frozen=True)
class Standing:
    """How a client stands out in a layer."""

    client: int
    layer: int
    ms: float  # longer, on average
    own_ms: float  # mean of the layer
    typical_ms: float  # that such ops take at the typical client at the same time
    worse: float | None  # share of its cells that show it; None: too few to say
    cells: int
    confidence: str
    windows: tuple[int, int] | None  # first and last, where it is not all the time


@dataclass(frozen=True)
class _Cells:
    """Some blocks of one client, side by side, that hold ops enough; columns of `beyond` and `expected` are layers."""

    client: I64
    first: I64
    last: I64
    ops: F64
    beyond: F64
    expected: F64


def standings(grid: Grid) -> list[list[Standing]]:
    """For each client the layers in which it stands out, the worst first."""
    clients = len(grid.clients)
    if clients < TYPICAL_OF or not len(grid.classes):
        return of_two(grid) if clients == TYPICAL_OF - 1 else [[] for _ in range(clients)]
    expected, beyond = grid.against(grid.typical_in_block)
    ops = grid.ops.sum(axis=2)
    cells = _cells(ops, beyond, expected)
    total, of_all = ops.sum(axis=1), beyond.sum(axis=1)
    typical = expected.sum(axis=1)
    mean_ns = (typical + of_all).sum(axis=1) / np.maximum(total, 1)
    off = _ratio(of_all, typical, total)
    medians = _medians(grid.clients)
    out: list[list[Standing]] = [[] for _ in range(clients)]
    for layer in range(len(LAYERS)):
        able = (total > 0) & (typical[:, layer] + of_all[:, layer] > 0)
        if layer == NETWORK:
            able &= grid.has_network
        if layer == QUEUE:
            able &= grid.has_queue
        if np.count_nonzero(able) < TYPICAL_OF:
            continue
        center, scale = dense(off[able, layer])
        more_ns = of_all[:, layer] / np.maximum(total, 1)
        # Against those where they are densest: many slow ones have moved the median itself.
        more_ns -= np.median(more_ns[able & (np.abs(off[:, layer] - center) <= _NEAR * scale)])
        matters = able & (more_ns >= _LEAST_MS * _NS_PER_MS) & (more_ns >= _LEAST_SHARE * mean_ns)
        far = matters & (off[:, layer] > center + limit(clients) * scale)
        if not far.any():
            continue
        bad = _bad_cells(cells, layer)
        often = _often(cells, bad, clients)
        for client in np.flatnonzero(far).tolist():
            mine = cells.client == client
            count, worse = int(mine.sum()), int(bad[mine].sum())
            if count >= _FEW_CELLS:
                if not _is_often(worse, count, often, clients):
                    continue
            elif not _median_is_far(medians, client, layer, able):
                continue
            own_ms = float((typical + of_all)[client, layer] / total[client]) / _NS_PER_MS
            out[client].append(
                Standing(
                    client=client,
                    layer=layer,
                    ms=float(more_ns[client]) / _NS_PER_MS,
                    own_ms=own_ms,
                    typical_ms=max(own_ms - float(more_ns[client]) / _NS_PER_MS, 0.0),
                    worse=worse / count if count >= _FEW_CELLS else None,
                    cells=count,
                    confidence=_confidence(worse, count),
                    windows=_when(cells, mine, bad, grid.block_of) if count >= _FEW_CELLS else None,
                )
            )
    return [_worst_first(one) for one in out]


def of_two(grid: Grid) -> list[list[Standing]]:
    """Of two clients, one against the other: which of them is usual nobody knows, so that this is never sure.

    In nearly all blocks of time one must take longer, by much more than it varies (Student's t).
    """
    _, beyond = grid.against(grid.typical[None])
    expected, in_blocks = grid.against(grid.typical_in_block)
    ops = grid.ops.sum(axis=2)
    total = np.maximum(ops.sum(axis=1), 1)
    both = (ops >= _LEAST_CELL).all(axis=0)
    out: list[list[Standing]] = [[], []]
    if np.count_nonzero(both) < _FEW_CELLS:
        return out
    each = in_blocks[:, both] / ops[:, both, None]
    mean_ns = (expected + in_blocks).sum(axis=(1, 2)) / total
    for one, other in ((0, 1), (1, 0)):
        for layer in range(len(LAYERS)):
            if (layer == NETWORK and not grid.has_network.all()) or (layer == QUEUE and not grid.has_queue.all()):
                continue
            more = each[one, :, layer] - each[other, :, layer]
            ms = float(beyond[one, 0, layer] / total[one] - beyond[other, 0, layer] / total[other]) / _NS_PER_MS
            varies = float(more.std(ddof=1)) / math.sqrt(len(more)) + 1
            worse = float((more > 0).mean())
            matters = ms >= _LEAST_MS and ms * _NS_PER_MS >= _LEAST_SHARE_OF_TWO * mean_ns[one]
            if matters and worse >= _STEADY and more.mean() / varies >= _T_OF_TWO:
                own = float((expected + in_blocks)[one, :, layer].sum() / total[one]) / _NS_PER_MS
                sure = "medium" if worse == 1 and len(more) >= _MANY_CELLS else "low"
                out[one].append(Standing(one, layer, ms, own, own - ms, worse, len(more), sure, None))
    return [_worst_first(one) for one in out]


def _worst_first(found: list[Standing]) -> list[Standing]:
    found = sorted(found, key=lambda one: (-one.ms, one.layer))
    return [one for one in found if one.ms >= _KNOCK_ON * found[0].ms]


def _cells(ops: F64, beyond: F64, expected: F64) -> _Cells:
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
    kept = many >= _LEAST_CELL
    columns = (summed(beyond), summed(expected))
    return _Cells(client[kept], first[kept], last[kept], many[kept], *(one[kept] for one in columns))


def _ratio(beyond: F64, expected: F64, ops: F64) -> F64:
    """Of the time that ops took to that which they would take, by layer, on a log scale."""
    many = np.maximum(ops, 1)[:, None]
    took = np.maximum(beyond + expected, 0) / many
    return np.asarray(np.log((took + _FLOOR_NS) / (np.maximum(expected, 0) / many + _FLOOR_NS)))


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
    return center, max(float(widths[at]) / width, _FLOOR + _FLOOR_OF_FEW / many)


def limit(clients: int) -> float:
    """Scales: further off is hardly one of so many equal clients in any layer, if they are about normal."""
    return max(_LEAST_FAR, NormalDist().inv_cdf(1 - _SURE / 2 / len(LAYERS) / clients))


def _bad_cells(cells: _Cells, layer: int) -> Bool:
    """Those that are far off in `layer`, and by something that matters."""
    further = cells.beyond[:, layer] / cells.ops
    matters = further >= _LEAST_MS * _NS_PER_MS / 2
    off = _ratio(cells.beyond, cells.expected, cells.ops)[:, layer]
    center, scale = dense(off) if len(off) else (0.0, 1.0)
    return np.asarray(matters & (off > center + _FAR * scale))


def _often(cells: _Cells, bad: Bool, clients: int) -> float:
    """How often a cell is far off by chance."""
    count = np.bincount(cells.client, minlength=clients)
    share = np.bincount(cells.client, bad, clients) / np.maximum(count, 1)
    quiet = np.argsort(share + (count == 0), kind="stable")[: max(int(_QUIET * np.count_nonzero(count)), 1)]
    return min(_CHANCE_FACTOR * float(share[quiet].mean()) + _CHANCE_MORE, 1.0)


def _is_often(worse: int, count: int, often: float, clients: int) -> bool:
    tail = sum(math.comb(count, k) * often**k * (1 - often) ** (count - k) for k in range(worse, count + 1))
    return tail * clients * len(LAYERS) < _SURE


def _confidence(worse: int, count: int) -> str:
    if count < _FEW_CELLS:
        return "medium"
    share = worse / count
    if share >= _STEADY and count >= _MANY_CELLS:
        return "high"
    return "medium" if share >= _OFTEN else "low"


def _when(cells: _Cells, mine: Bool, bad: Bool, block_of: I64) -> tuple[int, int] | None:
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


def _medians(clients: Sequence[ClientSummary]) -> F64:
    """By client and layer, on a log scale: medians of its operations against those of the others, weighted by its ops.

    The server's is with the wait for a thread.
    """
    ops = sorted({(one.program, one.op, one.version) for client in clients for one in client.figures})
    found = np.full((len(clients), len(ops), 2), np.nan)
    many = np.zeros((len(clients), len(ops)))
    for row, client in enumerate(clients):
        for one in client.figures:
            at = ops.index((one.program, one.op, one.version))
            many[row, at] = one.server.count
            found[row, at, 1] = max(one.server.quantile(50), 0)
            if one.network is not None:
                found[row, at, 0] = max(one.network.quantile(50), 0)
    out = np.zeros((len(clients), len(LAYERS)))
    for layer, of in ((NETWORK, 0), (SERVER, 1), (QUEUE, 1)):
        there = ~np.isnan(found[..., of])
        typical = np.array(
            [np.median(column[mask]) if mask.any() else 0 for column, mask in _columns(found, there, of)]
        )
        own, usual = ((many * there * np.nan_to_num(one)).sum(axis=1) for one in (found[..., of], typical[None]))
        each = np.maximum((many * there).sum(axis=1), 1)
        out[:, layer] = np.log((own / each + _FLOOR_NS) / (usual / each + _FLOOR_NS))
    return out


def _columns(found: F64, there: Bool, of: int) -> list[tuple[F64, Bool]]:
    return [(found[:, at, of], there[:, at]) for at in range(found.shape[1])]


def _median_is_far(medians: F64, client: int, layer: int, able: Bool) -> bool:
    values = medians[able, layer]
    center, scale = dense(values)
    return bool(medians[client, layer] > center + limit(len(values)) * scale)
