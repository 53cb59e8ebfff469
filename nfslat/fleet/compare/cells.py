"""Ops with their time, class and durations -> counts and sums by stretch of time and class: `Cells`, which add up."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from nfslat.model.blocks import each_block
from nfslat.model.tables import I64

NO_SIZE = -1
MEASURES = ("ops", "client", "server", "queue", "queues")


class OpClass(NamedTuple):
    """Ops that should take alike: one operation, and of those that move data one size up to a factor of two."""

    program: str
    op: str
    version: str
    size_log2: int = NO_SIZE  # a size of 2^(this - 1) < bytes <= 2^this; `NO_SIZE`: not known, or no data


@dataclass(frozen=True, eq=False)
class Cells:
    """A row for each stretch of time, a column for each of `classes`; sums are integers, in ns.

    `client` is 0 where only the server's capture is there. `queue` is the wait for a thread, over the `queues` of the
    ops of which it is known.
    """

    classes: tuple[OpClass, ...]
    ops: I64
    client: I64
    server: I64
    queue: I64
    queues: I64

    @property
    def windows(self) -> int:
        """Stretches of time."""
        return len(self.ops)

    def total(self, measure: str) -> int:
        """Sum of one of `MEASURES` over all."""
        return int(getattr(self, measure).sum())

    def by_window(self, measure: str) -> I64:
        """Sums of one of `MEASURES` by stretch of time."""
        return np.asarray(getattr(self, measure).sum(axis=1), dtype=np.int64)


def cells_of(
    classes: tuple[OpClass, ...], of_op: I64, window: I64, windows: int, client_ns: I64 | None, server_ns: I64,
    queue_ns: I64 | None,
) -> Cells:  # fmt: skip
    """Of ops of which each has a row in `of_op` (its class), `window` and the durations; a negative wait is unknown."""
    many = len(classes)
    size = windows * many
    nothing = np.zeros(size, dtype=np.int64)
    known = None if queue_ns is None else queue_ns >= 0

    def count(at: slice) -> I64:
        key = window[at] * many + of_op[at]
        rows: list[I64] = [np.bincount(key, minlength=size)]
        rows += [nothing if one is None else sums_of(key, one[at], size) for one in (client_ns, server_ns)]
        if queue_ns is None or known is None:
            rows += [nothing, nothing]
        else:
            rows += [
                sums_of(key, np.where(known[at], queue_ns[at], 0), size),
                np.bincount(key[known[at]], minlength=size),
            ]
        return np.asarray(rows, dtype=np.int64)

    found = np.zeros((len(MEASURES), size), dtype=np.int64)
    for part in each_block(len(of_op), count):
        found += part
    return Cells(classes, *(measure.reshape(windows, many) for measure in found))


def sums_of(key: I64, ns: I64, size: int) -> I64:
    """Sums of `ns` for each of `size` keys: exact, for a float holds all sums below 2^53 ns, 104 days.

    Where there may be longer ones two halves are summed.
    """
    if not len(ns) or max(int(ns.max()), -int(ns.min())) * len(ns) < 1 << 53:
        return np.bincount(key, ns, size).astype(np.int64)
    low, high = np.bincount(key, ns & 0xFFFFF, size), np.bincount(key, ns >> 20, size)
    return np.asarray(high.astype(np.int64) * (1 << 20) + low.astype(np.int64))
