"""A `Grid` -> clients that take longer than the others in a layer, with how much and how steadily: `Standing`.

Each client is compared with the median of all in the same class and the same block of time, so that a server that gets
slow for everybody, or a client that works only then, makes nobody stand out. What is left of a client, on a log scale,
is held against where clients are densest. To stand out a client must

- be further off that than hardly one of as many equal clients would be (`steady.limit`),
- take at least 0.1 ms, and 10 % of its time, longer (`LEAST_MS`, `_LEAST_SHARE`), and
- do so again and again: so many of its cells (some 25 ops, side by side in time) must be far off that chance would make
  that at one client in a hundred such fleets (a binomial test; how often cells are far off by chance is taken from the
  other clients), and if they are less than half of them they must be side by side. One dreadful op, or a few, make a
  bad mean and no bad cells, nor are they what makes a client slow that is a bit slower by nature (`_BULK`).

Times that were inferred may be off by what is stated of them (`ClientSummary.error_ms`). A client must be slower by
more than its own error and that of the typical client, so that nobody stands out for how its times were found; and what
rests on inferred times is of medium confidence at most.

Where there are too few cells for that, the medians of its ops must be far off in their place. Simulated, with times
that are exponential, log-normal and Pareto of infinite variance: of 43,800 equal clients (fleets of 3 to 1000) one
stood out; of as many that differ by 15 % by nature ten did, all in fleets of 12 and 30. A client whose network takes
1 ms more is found, as is one whose disk takes three times as long, with some thousand ops; twice as long is not
always. What lasts for less than a third of the time may go unnoticed.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from nfslat.fleet.compare.excess import LAYERS, NETWORK, QUEUE, SERVER, TYPICAL_OF, Grid
from nfslat.fleet.compare.steady import (
    FEW_CELLS,
    FLOOR_NS,
    LEAST_CELL,
    LEAST_MS,
    Steadiness,
    Steady,
    cells_in,
    dense,
    limit,
    ratio,
)
from nfslat.fleet.compare.summary import ClientSummary
from nfslat.model.tables import F64
from nfslat.model.units import NS_PER_MS, to_ms

_LEAST_SHARE = 0.10
_LEAST_SHARE_OF_TWO, _T_OF_TWO = 0.25, 6.0  # of two clients, either may be the usual one
_SURELY, _MANY_CELLS = 0.8, 8
_NEAR = 1.5  # scales
_BULK = 0.3  # of what it takes longer is seen in the middle one of its cells, too, or a few ops made it
_KNOCK_ON = 0.25  # of what is worst at a client; less in another layer comes with it


@dataclass(frozen=True)
class Standing:
    """How a client stands out in a layer."""

    client: int
    layer: str  # one of `LAYERS`
    ms: float  # longer, on average
    own_ms: float  # mean of the layer
    typical_ms: float  # that such ops take at the typical client at the same time
    steady: Steady


def standings(grid: Grid) -> list[list[Standing]]:
    """For each client the layers in which it stands out, the worst first."""
    clients = len(grid.clients)
    if clients < TYPICAL_OF or not len(grid.classes):
        return of_two(grid) if clients == TYPICAL_OF - 1 else [[] for _ in range(clients)]
    expected, beyond = grid.against(grid.typical_in_block)
    ops = grid.ops.sum(axis=2)
    cells = cells_in(ops, beyond, expected)
    total, of_all = ops.sum(axis=1), beyond.sum(axis=1)
    typical = expected.sum(axis=1)
    mean_ns = (typical + of_all).sum(axis=1) / np.maximum(total, 1)
    off = ratio(of_all, typical, total)
    medians = _medians(grid.clients)
    errors = np.array([[one.error_ms(layer) for layer in LAYERS] for one in grid.clients])
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
        unsure_ms = errors[:, layer] + np.median(errors[able, layer])
        matters = able & (more_ns >= (LEAST_MS + unsure_ms) * NS_PER_MS) & (more_ns >= _LEAST_SHARE * mean_ns)
        far = matters & (off[:, layer] > center + limit(clients) * scale)
        if not far.any():
            continue
        steadiness = Steadiness(cells, layer, clients, grid.block_of)
        for client in np.flatnonzero(far).tolist():
            steady = Steady(None, 0, "medium", None)
            if steadiness.cells_of(client) >= FEW_CELLS:
                found = steadiness.of(client)
                few_ops = steadiness.median_ns(client) < _BULK * more_ns[client]
                if found is None or (few_ops and found.windows is None):
                    continue
                steady = found
            elif medians[client, layer] <= (middle := dense(medians[able, layer]))[0] + limit(able.sum()) * middle[1]:
                continue
            if unsure_ms[client] and steady.confidence == "high":
                steady = steady._replace(confidence="medium")
            own_ms = to_ms(float((typical + of_all)[client, layer] / total[client]))
            more_ms = to_ms(float(more_ns[client]))
            out[client].append(Standing(client, LAYERS[layer], more_ms, own_ms, max(own_ms - more_ms, 0.0), steady))
    return [_worst_first(one) for one in out]


def _worst_first(found: list[Standing]) -> list[Standing]:
    found = sorted(found, key=lambda one: (-one.ms, LAYERS.index(one.layer)))
    return [one for one in found if one.ms >= _KNOCK_ON * found[0].ms]


def of_two(grid: Grid) -> list[list[Standing]]:
    """Of two clients, one against the other: which of them is usual nobody knows, so that this is never sure.

    In nearly all blocks of time one must take longer, by much more than it varies (Student's t).
    """
    _, beyond = grid.against(grid.typical[None])
    expected, in_blocks = grid.against(grid.typical_in_block)
    ops = grid.ops.sum(axis=2)
    total = np.maximum(ops.sum(axis=1), 1)
    both = (ops >= LEAST_CELL).all(axis=0)
    out: list[list[Standing]] = [[], []]
    if np.count_nonzero(both) < FEW_CELLS:
        return out
    each = in_blocks[:, both] / ops[:, both, None]
    mean_ns = (expected + in_blocks).sum(axis=(1, 2)) / total
    for one, other in ((0, 1), (1, 0)):
        for layer in range(len(LAYERS)):
            if (layer == NETWORK and not grid.has_network.all()) or (layer == QUEUE and not grid.has_queue.all()):
                continue
            more = each[one, :, layer] - each[other, :, layer]
            ms = to_ms(float(beyond[one, 0, layer] / total[one] - beyond[other, 0, layer] / total[other]))
            varies = float(more.std(ddof=1)) / math.sqrt(len(more)) + 1
            worse = float((more > 0).mean())
            unsure_ms = sum(client.error_ms(LAYERS[layer]) for client in grid.clients)
            matters = ms >= LEAST_MS + unsure_ms and ms * NS_PER_MS >= _LEAST_SHARE_OF_TWO * mean_ns[one]
            if matters and worse >= _SURELY and more.mean() / varies >= _T_OF_TWO:
                own = to_ms(float((expected + in_blocks)[one, :, layer].sum() / total[one]))
                sure = "medium" if worse == 1 and len(more) >= _MANY_CELLS else "low"
                steady = Steady(worse, len(more), sure, None)
                out[one].append(Standing(one, LAYERS[layer], ms, own, own - ms, steady))
    return [_worst_first(one) for one in out]


def _medians(clients: Sequence[ClientSummary]) -> F64:
    """By client and layer, on a log scale: medians of its operations against those of the others, weighted by its ops.

    The server's is with the wait for a thread.
    """
    ops = sorted({label for client in clients for label in client.by_op.labels})
    found = np.full((len(clients), len(ops), 2), np.nan)
    many = np.zeros((len(clients), len(ops)))
    for row, client in enumerate(clients):
        for one in client.by_op.rows():
            at = ops.index(one.label)
            many[row, at] = one.count
            for place, side in enumerate(("network", "server")):
                if (median_ns := one.percentile_ns(side, 50)) is not None:
                    found[row, at, place] = max(median_ns, 0)
    out = np.zeros((len(clients), len(LAYERS)))
    for layer, of in ((NETWORK, 0), (SERVER, 1), (QUEUE, 1)):
        there = ~np.isnan(found[..., of])
        each_op = ((found[:, at, of], there[:, at]) for at in range(len(ops)))
        typical = np.array([np.median(column[mask]) if mask.any() else 0 for column, mask in each_op])
        own, usual = ((many * there * np.nan_to_num(one)).sum(axis=1) for one in (found[..., of], typical[None]))
        each = np.maximum((many * there).sum(axis=1), 1)
        out[:, layer] = np.log((own / each + FLOOR_NS) / (usual / each + FLOOR_NS))
    return out
