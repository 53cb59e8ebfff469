"""Matched ops of a window -> what rows of tables need of them: exact sums, and histograms that can be merged."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Self

import numpy as np

from nfslat.answer import model
from nfslat.decompose import PART_NAMES
from nfslat.figures.matched import RETRANS_WAITS, Groups, Key, parts_of
from nfslat.figures.sketch import Sketch
from nfslat.model.blocks import filled
from nfslat.model.protocol import NULL
from nfslat.model.tables import I32, I64
from nfslat.model.units import to_ms
from nfslat.results import Analysis
from nfslat.tally.stats import summary_of
from nfslat.windows.slowest import CALL_WAIT, CLIENT, PARTS, QUEUE, REPLY_WAIT, SERVER

_NEARLY_ALL = 0.95  # of the ops: a mean over fewer is none over all


@dataclass(frozen=True)
class Sums:
    """Of some ops; sums in ns."""

    count: int
    client: Sketch
    server: Sketch
    network: Sketch
    negative: int  # ops whose network part is
    parts_ns: tuple[float, ...]  # in the order of PART_NAMES
    waits_ns: tuple[float, float] | None  # for what was sent again, of calls and replies; None: not known
    queue_ns: float  # waits for a thread, of ...
    queues: int  # so many ops of which it is known
    one_way_ns: float | None  # how far a mean one-way time may be off, times `count`; None: the clocks are not known

    @classmethod
    def merge(cls, some: Sequence[Self]) -> Self:
        """Of all of them. Raises ``ValueError`` where there are none."""
        if len(some) == 1:
            return some[0]
        one_way = [one.one_way_ns for one in some]
        waits = [one.waits_ns for one in some if one.waits_ns is not None]
        return cls(
            count=sum(one.count for one in some),
            client=Sketch.merge(one.client for one in some),
            server=Sketch.merge(one.server for one in some),
            network=Sketch.merge(one.network for one in some),
            negative=sum(one.negative for one in some),
            parts_ns=tuple(map(sum, zip(*(one.parts_ns for one in some), strict=True))),
            waits_ns=(sum(a for a, _ in waits), sum(b for _, b in waits)) if len(waits) == len(some) else None,
            queue_ns=sum(one.queue_ns for one in some),
            queues=sum(one.queues for one in some),
            one_way_ns=None if None in one_way else sum(one or 0.0 for one in one_way),
        )

    @property
    def queue_ms(self) -> float | None:
        """Mean wait for a thread; None where it is known of too few of them."""
        return to_ms(self.queue_ns / self.queues) if self.queues and self.queues >= _NEARLY_ALL * self.count else None

    def row(self, names: tuple[str, str, str]) -> model.MatchedRow:
        """As the report has it, percentiles to within `nfslat.figures.sketch.RELATIVE_ERROR`."""
        return _row(self, names, *(one.summary() for one in (self.client, self.server, self.network)))


def sums_of(c: Analysis) -> dict[Key, Sums]:
    """Of each kind of matched ops."""
    groups = Groups.of(c.client.ops.kinds, c.kind)
    order = groups.order
    client, server = (_ordered(one, order) for one in (c.client_srt_ns, c.server_srt_ns))
    queue = None if c.inflight.load.threads.cannot else _ordered(c.inflight.load.queue_ns[c.matched.server], order)
    parts = [_ordered(c.parts.ns(name), order) for name in PART_NAMES]
    waits: list[I64] | None = None
    if c.retrans_waits_ns is not None and c.clock.fits:
        waits = []
        for one in c.retrans_waits_ns:
            of_all = np.zeros(len(order), dtype=np.int64)
            of_all[one.row] = one.ns
            waits.append(of_all[order])
    found = {}
    for key, at in zip(groups.keys, groups.spans, strict=True):
        network = client[at] - server[at]
        known = None if queue is None else queue[at][queue[at] != NULL]
        rows = c.matched.client[order[at]]
        found[key] = Sums(
            count=at.stop - at.start,
            client=Sketch.of(client[at]),
            server=Sketch.of(server[at]),
            network=Sketch.of(network),
            negative=int(np.count_nonzero(network < 0)),
            parts_ns=tuple(float(one[at].sum()) for one in parts),
            waits_ns=None if waits is None else (float(waits[0][at].sum()), float(waits[1][at].sum())),
            queue_ns=0.0 if known is None else float(known.sum()),
            queues=0 if known is None else len(known),
            one_way_ns=c.clock.error_ns(c.client.ops, rows) * len(rows) if c.clock.fits else None,
        )
    return found


def _ordered(column: I64, order: I32) -> I64:
    return filled(len(order), np.int64, lambda at: column[order[at]])


def row_of_columns(columns: I64, names: tuple[str, str, str], one_way_ns: float | None) -> model.MatchedRow:
    """Of single ops as `nfslat.windows.slowest` has them; `one_way_ns` is how far a one-way time may be off."""
    client, server, queue = columns[CLIENT], columns[SERVER], columns[QUEUE]
    count, network, known = len(client), client - server, queue[queue != NULL]
    empty = Sketch.of(client[:0])
    sums = Sums(
        count=count,
        client=empty,
        server=empty,
        network=empty,
        negative=int(np.count_nonzero(network < 0)),
        parts_ns=tuple(columns[PARTS:].sum(axis=1).astype(np.float64).tolist()),
        waits_ns=(float(columns[CALL_WAIT].sum()), float(columns[REPLY_WAIT].sum())),
        queue_ns=float(known.sum()),
        queues=len(known),
        one_way_ns=None if one_way_ns is None else one_way_ns * count,
    )
    return _row(sums, names, summary_of(client), summary_of(server), summary_of(network))


def _row(
    sums: Sums, names: tuple[str, str, str], client: model.Summary, server: model.Summary, network: model.Summary
) -> model.MatchedRow:
    count = sums.count
    error = None if sums.one_way_ns is None else to_ms(sums.one_way_ns / count)
    waits = (
        {}
        if sums.waits_ns is None
        else {name: to_ms(ns / count) for name, ns in zip(RETRANS_WAITS, sums.waits_ns, strict=True)}
    )
    return model.MatchedRow(
        *names,
        count=count,
        client_ms=client,
        server_ms=server,
        network_ms=network,
        negative_network=sums.negative,
        parts_ms=parts_of((ns / count for ns in sums.parts_ns), error, waits),
        queue_ms=sums.queue_ms,
    )
