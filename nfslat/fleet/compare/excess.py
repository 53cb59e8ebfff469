"""Summaries of clients -> what their ops take beyond what such ops take at the typical client, by layer and in time.

Ops are compared within a class: operation, version and, where data move, size up to a factor of two. The typical time
of a class in a layer is the median of the clients' means, each client counting once, over those with at least `ENOUGH`
ops of it. With three clients and more there is a typical one; of two the faster is taken, so that the other's excess is
its distance from that one; of one nothing can be said. A class that fewer clients have is not compared: it has no
excess.

Layers are `LAYERS`: the network, the server beside the wait for a thread, and that wait. Where it is known of fewer
than half of the clients the wait stays in the server's time, for all; else for those of which it is not known.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np

from nfslat.fleet.compare.cells import OpClass
from nfslat.fleet.compare.summary import ClientSummary
from nfslat.fleet.model import Excess
from nfslat.model.tables import F64, I64, Bool
from nfslat.model.units import to_ms, to_s

LAYERS = ("network", "server", "queue")
NETWORK, SERVER, QUEUE = range(3)
ENOUGH = 20  # ops of a class, for a client to have a say in what is typical
_ENOUGH_IN_BLOCK = 5
TYPICAL_OF = 3  # clients
_MOST_CLASSES = 60
_CELL_OPS, _MOST_BLOCKS = 25, 24  # a block of time holds so many ops of a client, if it can
_CALM = 0.25  # of the time


@dataclass(frozen=True)
class Grid:
    """Clients x blocks of time x classes (x layers); times in ns. Blocks are stretches of time put together."""

    clients: Sequence[ClientSummary]
    classes: tuple[OpClass, ...]
    block_of: I64  # block of each window
    ops: F64
    spent: F64
    has_network: Bool
    has_queue: Bool

    @cached_property
    def typical(self) -> F64:
        """Time of an op, by class and layer, over all the time; NaN where there is none."""
        return self._typical(self.ops.sum(axis=1), self.spent.sum(axis=1), ENOUGH)

    @cached_property
    def typical_in_block(self) -> F64:
        """By block, class and layer; what is typical over all the time where a block does not say."""
        found = self._typical(self.ops, self.spent, _ENOUGH_IN_BLOCK)
        return np.where(np.isnan(found), self.typical, found)

    @cached_property
    def calm(self) -> F64:
        """Time of an op at the typical client when things are calm: the lower quartile over the blocks, by class and
        layer. What all clients suffer from for a while is seen against it, as well as what one suffers from always."""
        return np.quantile(self.typical_in_block, _CALM, axis=0, method="lower")

    def _typical(self, ops: F64, spent: F64, enough: int) -> F64:
        many = ops >= enough
        means = spent / np.maximum(ops, 1)[..., None]
        out = np.empty(means.shape[1:])
        for layer, allowed in enumerate((self.has_network, self._told, self._told)):
            mask = many & allowed.reshape(-1, *[1] * (many.ndim - 1))
            out[..., layer] = _middle(means[..., layer], mask)
        return out

    @property
    def _told(self) -> Bool:
        return self.has_queue if self.has_queue.any() else np.ones(len(self.clients), dtype=np.bool_)

    def against(self, typical: F64) -> tuple[F64, F64]:
        """By client, block and layer: what ops would take at the typical client, and what they took beyond that, ns.

        Both are 0 for what has no typical time.
        """
        ops, spent = (self.ops, self.spent) if len(typical) == self.ops.shape[1] else self._in_one
        expected = np.einsum("ibk,bkl->ibl", ops, np.nan_to_num(typical))
        blind = ~self.has_queue & self.has_queue.any()
        expected[blind, :, SERVER] += expected[blind, :, QUEUE]
        expected[blind, :, QUEUE] = 0
        expected[~self.has_network, :, NETWORK] = 0
        return expected, np.einsum("ibkl,bkl->ibl", spent, ~np.isnan(typical)) - expected

    @property
    def _in_one(self) -> tuple[F64, F64]:
        return self.ops.sum(axis=1, keepdims=True), self.spent.sum(axis=1, keepdims=True)

    def excess(self) -> list[Excess | None]:
        """Of each client over all the time."""
        if len(self.clients) < TYPICAL_OF - 1:
            return [None] * len(self.clients)
        _, beyond = self.against(self.typical[None])
        out: list[Excess | None] = []
        for client, (network, server, queue) in zip(self.clients, (to_s(beyond[:, 0])).tolist(), strict=True):
            total = network + server + queue
            out.append(Excess(total, network, server, queue, total * 1e3 / client.ops) if client.ops else None)
        return out


def grid_of(clients: Sequence[ClientSummary]) -> Grid:
    """Of all clients that have any ops."""
    classes = _classes(clients)
    windows = max((one.cells.windows for one in clients), default=1)
    typical_ops = float(np.median([one.ops for one in clients])) if clients else 0.0
    blocks = max(min(int(typical_ops / _CELL_OPS), windows, _MOST_BLOCKS), 1)
    block_of = np.arange(windows, dtype=np.int64) * blocks // windows
    begins = np.searchsorted(block_of, np.arange(blocks))
    has_network = np.array([one.has_both for one in clients], dtype=np.bool_)
    has_queue = np.array([one.cells.total("queues") > 0 for one in clients], dtype=np.bool_)
    if 2 * np.count_nonzero(has_queue) < len(clients):
        has_queue[:] = False
    place = {one: at for at, one in enumerate(classes)}
    ops = np.zeros((len(clients), blocks, len(classes)))
    spent = np.zeros((*ops.shape, len(LAYERS)))
    for row, client in enumerate(clients):
        cells = client.cells
        here = [at for at, one in enumerate(cells.classes) if one in place]
        there = [place[cells.classes[at]] for at in here]
        network = cells.client - cells.server if has_network[row] else np.zeros_like(cells.server)
        queue = cells.queue if has_queue[row] else np.zeros_like(cells.server)
        ops[row][:, there] = np.add.reduceat(cells.ops[:, here], begins, axis=0)
        for layer, values in enumerate((network, cells.server - queue, queue)):
            spent[row, :, :, layer][:, there] = np.add.reduceat(values[:, here], begins, axis=0)
    return Grid(clients, classes, block_of, ops, spent, has_network, has_queue)


class Beyond(NamedTuple):
    """What ops took beyond what such ops take at the typical client in calm times, mean ms."""

    network_ms: float
    server_ms: float  # waits for a thread included


def window_excess(grid: Grid, row: int) -> list[Beyond | None]:
    """For each window that of the ops of client `row`; None where none of them can be compared."""
    client = grid.clients[row]
    cells = client.cells
    place = {one: at for at, one in enumerate(grid.classes)}
    typical = np.full((len(cells.classes), len(LAYERS)), np.nan)
    for at, one in enumerate(cells.classes):
        if one in place:
            typical[at] = grid.calm[place[one]]
    compared = ~np.isnan(typical[:, SERVER])
    both = compared & ~np.isnan(typical[:, NETWORK]) if grid.has_network[row] else np.zeros_like(compared)
    ops = cells.ops[:, compared].sum(axis=1)
    server = typical[:, SERVER] + np.nan_to_num(typical[:, QUEUE])
    in_server = (cells.server - cells.ops * np.nan_to_num(server))[:, compared].sum(axis=1)
    network = cells.client - cells.server - cells.ops * np.nan_to_num(typical[:, NETWORK])
    on_network = network[:, both].sum(axis=1)
    if len(grid.clients) < TYPICAL_OF - 1:
        return [None] * cells.windows
    return [
        Beyond(to_ms(one / n), to_ms(other / n)) if n else None
        for one, other, n in zip(on_network.tolist(), in_server.tolist(), ops.tolist(), strict=True)
    ]


def _classes(clients: Sequence[ClientSummary]) -> tuple[OpClass, ...]:
    """Those that enough clients have to say what is typical, the most frequent ones."""
    least = min(TYPICAL_OF, max(len(clients), 1))
    counts: dict[OpClass, list[int]] = {}
    for client in clients:
        for one, ops in zip(client.cells.classes, client.cells.ops.sum(axis=0).tolist(), strict=True):
            counts.setdefault(one, []).append(ops)
    able = [one for one, each in counts.items() if sum(ops >= ENOUGH for ops in each) >= least]
    return tuple(sorted(able, key=lambda one: (-sum(counts[one]), one))[:_MOST_CLASSES])


def _middle(means: F64, mask: Bool) -> F64:
    """Median of the first axis where `mask` is; of two clients the lesser; NaN where there are too few."""
    clients = len(means)
    ordered = np.sort(np.where(mask, means, np.inf), axis=0)
    count = mask.sum(axis=0)
    if clients < TYPICAL_OF:
        return np.where(count == clients, ordered[0], np.nan) if clients else np.zeros(means.shape[1:])
    low = np.maximum((count - 1) // 2, 0)[None]
    high = np.minimum(count // 2, clients - 1)[None]
    both = np.take_along_axis(ordered, low, 0)[0], np.take_along_axis(ordered, high, 0)[0]
    enough = count >= TYPICAL_OF
    return np.where(enough, (np.where(enough, both[0], 0) + np.where(enough, both[1], 0)) / 2, np.nan)
