"""Matched ops -> how many there are, and how long they took, by time, by latency and by operation."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from nfslat.answer.pictures import Classes, Distribution, Heat
from nfslat.figures.pictures.bins import CLASSES, LE_NS, PER_DECADE, Bins, classes_of
from nfslat.kernels.order import ranked, side_by_side
from nfslat.model.blocks import each_block
from nfslat.model.record import Record
from nfslat.model.tables import F64, I16, I64
from nfslat.model.units import to_ms
from nfslat.results import Analysis

MEASURES = ("client", "server", "network")
_P99 = 99


class Tallies(Record, eq=False):
    """Counts of matched ops: [measure, bin, class], and [measure, operation, class]; ns of each measure by bin."""

    heat: I64
    by_op: I64
    total_ns: F64
    p99_ns: list[int | None]  # of the client, by bin

    @classmethod
    def of(cls, c: Analysis, bins: Bins, of_kind: I16, groups: int) -> Tallies:
        """Of all matched ops; `of_kind` is the operation (below `groups`) of each kind."""
        heat = np.zeros((len(MEASURES), bins.count * CLASSES), dtype=np.int64)
        by_op = np.zeros((len(MEASURES), groups * CLASSES), dtype=np.int64)
        total_ns = np.zeros((len(MEASURES), bins.count))
        client, server, rows = c.client_srt_ns, c.server_srt_ns, c.matched.client
        bin_of = np.empty(len(rows), dtype=np.int16)

        def add(at: slice) -> None:
            time = bins.of(c.client.ops.t0[rows[at]])
            bin_of[at] = time
            group = of_kind[c.kind[at]].astype(np.int64) * CLASSES
            cell = time * CLASSES
            for number, ns in enumerate((client[at], server[at], client[at] - server[at])):
                latency = classes_of(ns)
                heat[number] += np.bincount(cell + latency, minlength=bins.count * CLASSES)
                by_op[number] += np.bincount(group + latency, minlength=groups * CLASSES)
                # Exact up to 104 days; with clocks that are decades off the sum is more than 64 bits hold.
                total_ns[number] += np.bincount(time, ns, bins.count)

        each_block(len(rows), add)
        order, spans = side_by_side(len(rows), bins.count, lambda at: bin_of[at])
        return cls(
            heat.reshape(len(MEASURES), bins.count, CLASSES),
            by_op.reshape(len(MEASURES), groups, CLASSES),
            total_ns,
            [ranked(client[order[span]], _P99) if span.start < span.stop else None for span in spans],
        )

    @property
    def ops(self) -> I64:
        """Matched ops by bin."""
        return np.asarray(self.heat[0].sum(axis=1))

    @property
    def used(self) -> slice:
        """Classes from the first to the last one with any op."""
        with_any = np.flatnonzero(self.by_op.sum(axis=(0, 1)))
        return slice(int(with_any[0]), int(with_any[-1]) + 1)

    @property
    def classes(self) -> Classes:
        """Those."""
        return Classes(PER_DECADE, [to_ms(ns) for ns in LE_NS[self.used].tolist()])

    def means_ms(self, measure: str) -> list[float | None]:
        """By bin; None without ops."""
        totals = self.total_ns[MEASURES.index(measure)].tolist()
        return [to_ms(ns / ops) if ops else None for ns, ops in zip(totals, self.ops.tolist(), strict=True)]

    @property
    def p99_ms(self) -> list[float | None]:
        """Of the client, by bin; nearest rank, as in the tables of the report."""
        return [None if ns is None else to_ms(ns) for ns in self.p99_ns]

    @property
    def heat_cells(self) -> Heat:
        """Cells with any op."""
        return Heat(*(_cells(of_measure[:, self.used]) for of_measure in self.heat))

    def distributions(self, names: Sequence[tuple[str, str, str]]) -> list[Distribution]:
        """Of all ops, then of each operation; `names` are program, operation and version of each."""
        used = self.by_op[:, :, self.used]
        of_all = _distribution(("", "all", ""), used.sum(axis=1))
        return [of_all, *(_distribution(one, used[:, at]) for at, one in enumerate(names))]


def _distribution(names: tuple[str, str, str], counts: I64) -> Distribution:
    with_any = np.flatnonzero(counts.sum(axis=0))
    first, end = int(with_any[0]), int(with_any[-1]) + 1
    program, op, version = names
    return Distribution(program, op, version, int(counts[0].sum()), first, *counts[:, first:end].tolist())


def _cells(counts: I64) -> list[tuple[int, int, int]]:
    time, latency = np.nonzero(counts)
    return list(zip(time.tolist(), latency.tolist(), counts[time, latency].tolist(), strict=True))
