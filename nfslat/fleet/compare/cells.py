"""Ops with their time, class and durations -> counts and sums by stretch of time and class: `Cells`, which add up."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from nfslat.model.tables import I64
from nfslat.tally.columns import OpColumns
from nfslat.tally.keys import Grouping
from nfslat.tally.ops import OpSums

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
    key = Grouping(window * many + of_op, range(windows * many))
    sums = OpSums.of(columns_of(client_ns, server_ns, queue_ns), key).sums
    return Cells(
        classes, *(sums[name].reshape(windows, many) for name in ("ops", "client_ns", "server_ns", "wait_ns", "waits"))
    )


def columns_of(client_ns: I64 | None, server_ns: I64, queue_ns: I64 | None) -> OpColumns:
    """Of ops with these durations; None where nothing is known."""
    client, wait = (None if one is None else one.__getitem__ for one in (client_ns, queue_ns))
    return OpColumns(len(server_ns), server_ns.__getitem__, client, wait)
