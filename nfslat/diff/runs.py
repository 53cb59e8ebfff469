"""One run of a load: `Run`; and what is compared of it: its single ops, or the operations of its report."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt
from msgspec import structs

from nfslat.answer.figures import Summary
from nfslat.answer.model import Report
from nfslat.clock.one_way import mean_error_ns
from nfslat.diff.statistics import SLICES, Means, Sample, summary_error
from nfslat.figures.op_columns import CHARGED
from nfslat.model.causes import FROM_OUTSIDE, Cause, code
from nfslat.model.protocol import NULL, NULL32
from nfslat.model.record import Record
from nfslat.model.tables import F64, I64
from nfslat.model.units import NS_PER_MS, NS_PER_S, to_ms
from nfslat.results import Analysis
from nfslat.select import op_labels
from nfslat.wire.charges.places import place

Ns = npt.NDArray[Any]  # of single ops whole, of a report's means not

# Of `Ops.moved`: the part in which each lies, and of which causes it is.
_MOVED: dict[str, tuple[str, frozenset[Cause]]] = {
    "tcp_waits": ("server", FROM_OUTSIDE),
    "call_paused": ("call_net", frozenset({Cause.HOST_PAUSE})),
    "server_paused": ("server", frozenset({Cause.HOST_PAUSE})),
    "reply_paused": ("reply_net", frozenset({Cause.HOST_PAUSE})),
}


class Rows(Record, eq=False, kw_only=True):
    """What is compared of a run, ns."""

    ops: tuple[str, ...]  # names
    op: I64  # row of `ops`
    size_bytes: I64  # asked for, or written; NULL where that is not known
    parts: dict[str, Ns]  # of the response time at the client: call_send, network, server, reply_send
    count: I64 | None = None  # ops of each row; None: one
    queue_ns: Ns | None = None  # of server: the wait for a thread, NULL where unknown; None: nothing is known of it
    of_network: dict[str, Ns] = {}  # parts of it: call_net, reply_net
    causes: dict[str, Ns] = {}  # what TCP and the path made of client_ns, as in `CHARGED`
    # What of a part is another layer's: tcp_waits and server_paused of server, call_paused of call_net, reply_paused of
    # reply_net. Empty: not known.
    moved: dict[str, Ns] = {}
    one_way_error_ns: float = 0.0  # of call_net and reply_net, which is no chance
    # Of one capture: the host whose times are inferred ("server" or "client"), and how far a mean of them may be off.
    inferred: str = ""
    inferred_error_ns: float = 0.0


class Single(Rows, eq=False, kw_only=True, dict=True):
    """Single ops in the order of their calls; `parts` sum to `client_ns`, row by row."""

    begin_ns: I64  # of the call, on the client's clock
    client_ns: I64

    def __len__(self) -> int:
        """Ops."""
        return len(self.op)

    @cached_property
    def slices(self) -> I64:
        """Stretch of the run in which each op began; they hold equally many."""
        return np.arange(len(self)) * SLICES // max(len(self), 1)

    @cached_property
    def in_flight(self) -> I64:
        """Ops in flight when each was called, itself included."""
        ends = np.sort(self.begin_ns + np.maximum(self.client_ns, 0))
        ended = np.searchsorted(ends, self.begin_ns, side="right")
        return np.asarray(np.maximum(np.arange(1, len(self) + 1) - ended, 1), dtype=np.int64)

    @cached_property
    def busy_ns(self) -> I64:
        """Time with any op in flight, from each call to the next one; of the last one to the end."""
        until = np.maximum.accumulate(self.begin_ns + np.maximum(self.client_ns, 0))
        until[:-1] = np.minimum(until[:-1], self.begin_ns[1:])
        return np.asarray(until - self.begin_ns)

    @property
    def load(self) -> tuple[Means, Means]:
        """Busy time from one call to the next, ns, and calls in flight."""
        alike = np.zeros(len(self), dtype=np.int64)
        return self.means(self.busy_ns, alike, 1), self.means(self.in_flight, alike, 1)

    @property
    def waits_ns(self) -> I64 | None:
        """For a thread; 0 where that is not known."""
        return None if self.queue_ns is None else np.where(self.queue_ns == NULL, 0, self.queue_ns)

    def time_ns(self, side: str) -> I64:
        """Client, server, or network: what is not the server's."""
        server = self.parts["server"]
        return {"client": self.client_ns, "server": server, "network": self.client_ns - server}[side]

    def means(self, values: Ns, kind: I64, kinds: int) -> Means:
        """By the kind of each row."""
        return Means.of(values, self.slices, kind, kinds)

    def means_ms(self, side: str, kind: I64, kinds: int) -> Means:
        """The same of `time_ns`."""
        return self.means(self.time_ns(side), kind, kinds).in_units(NS_PER_MS)

    def sample_ms(self, side: str, rows: I64) -> Sample:
        """Of some rows."""
        return Sample.of(to_ms(self.time_ns(side)[rows]), self.slices[rows])


class Summaries(Rows, eq=False, kw_only=True):
    """Operations of a report, most frequent first; times are means."""

    count: I64
    of_side: dict[str, list[Summary]]  # client, server, network: of each row
    load: tuple[Means, Means] | None
    all_moved: dict[str, float]  # `moved`, of which only the means over all ops are known

    @property
    def waits_ns(self) -> Ns | None:
        """For a thread; None where that is not known of each row."""
        return None if self.queue_ns is None or (self.queue_ns == NULL).any() else self.queue_ns

    def means(self, values: Ns, kind: I64, kinds: int, error: F64 | None = None) -> Means:
        """By the kind of each row; without a standard error of each nothing is known of how they vary."""
        counts = np.bincount(kind, self.count, kinds).astype(np.float64)

        def mean(of: Ns) -> F64:
            return np.asarray(np.bincount(kind, of * self.count, kinds) / np.maximum(counts, 1))

        return Means.about(mean(values), counts, None if error is None else mean(error))

    def means_ms(self, side: str, kind: I64, kinds: int) -> Means:
        """The same of a side's response time."""
        values, errors = (np.array([of(one) for one in self.of_side[side]]) for of in (_mean, summary_error))
        return self.means(values, kind, kinds, errors)

    def take(self, rows: I64, *, all_moved: bool) -> Summaries:
        """Some operations; `all_moved`: each with what was moved on an average."""
        moved = {name: np.full(len(rows), ns) for name, ns in self.all_moved.items()} if all_moved else {}
        return structs.replace(
            self,
            parts={name: ns[rows] for name, ns in self.parts.items()},
            queue_ns=None if self.queue_ns is None else self.queue_ns[rows],
            moved=moved,
            count=self.count[rows],
        )


Ops = Single | Summaries


def _mean(of: Summary) -> float:
    return of.mean


class Shift(Record):
    """Where the response times of a pair that was split change their level, found in the whole of it."""

    at_ns: int  # on the client's clock
    off_ns: int  # from the split
    before_ms: float  # means of the phases on both sides
    after_ms: float
    is_split: bool  # as near to the split as can be told


class Run(Record, eq=False, dict=True):
    """`single` is None where nothing but a report is known."""

    name: str
    kind: str  # captures, report
    report: Report
    single: Single | None
    shifts: Sequence[Shift] = ()  # within it, or where it was split

    @property
    def inferred(self) -> tuple[str, float]:
        """Of one capture: the host whose times are inferred, and how far their mean may be off, ms; else "" and 0."""
        found = self.report.inferred
        return ("", 0.0) if found is None else (found.side, found.mean_error_ms)

    @property
    def ops_per_s(self) -> float | None:
        """Of the time with any op in flight at the client."""
        inflight = self.report.inflight
        return None if inflight is None else math.fsum(one.share * one.ops_per_s for one in inflight.client.levels)

    @property
    def in_flight(self) -> float | None:
        """At the client, mean over that time."""
        return None if self.report.inflight is None else self.report.inflight.client.mean

    @cached_property
    def summaries(self) -> Summaries:
        """What the report says."""
        rows = sorted(self.report.matched.by_op if self.report.matched else [], key=lambda row: -row.count)
        named = [row.op for row in rows]
        host, error_ms = self.inferred
        rate, level = self.ops_per_s, self.in_flight
        load = None
        if rate is not None and level is not None:
            every = np.array([float(sum(row.count for row in rows))])
            gap, flying = (np.array([value]) for value in (NS_PER_S / rate if rate else 0.0, level))
            load = Means.about(gap, every, None), Means.about(flying, every, None)

        def ns(ms: Iterable[float | None]) -> F64:
            return np.array([NULL if one is None else one * NS_PER_MS for one in ms], dtype=np.float64)

        parts = [row.parts_ms for row in rows]
        return Summaries(
            # One op under two versions of NFS has no common percentiles.
            ops=tuple(row.op if named.count(row.op) == 1 else f"{row.op} v{row.version}" for row in rows),
            op=np.arange(len(rows)),
            size_bytes=np.full(len(rows), NULL),
            parts={
                "call_send": ns(one.call_send for one in parts),
                "network": ns(one.net_both for one in parts),
                "server": ns(one.server for one in parts),
                "reply_send": ns(one.reply_send for one in parts),
            },
            count=np.array([row.count for row in rows], dtype=np.int64),
            queue_ns=ns(row.queue_ms for row in rows),
            inferred=host,
            inferred_error_ns=error_ms * NS_PER_MS,
            of_side={
                "client": [row.client_ms for row in rows],
                "server": [row.server_ms for row in rows],
                "network": [row.network_ms for row in rows],
            },
            load=load,
            all_moved={}
            if self.report.charges is None  # other engines, and earlier versions, have none
            else {
                name: math.fsum(
                    row.mean_ms * NS_PER_MS for row in self.report.charges if row.part == part and row.cause in causes
                )
                for name, (part, causes) in _MOVED.items()
            },
        )


def comparable(a: Run, b: Run) -> tuple[Ops, Ops]:
    """Single ops where both have some."""
    if a.single is not None and b.single is not None:
        return a.single, b.single
    return a.summaries, b.summaries


def single_ops(c: Analysis) -> Single:
    """The matched ops."""
    client = c.client.ops
    rows = c.matched.client.astype(np.int64)
    order = np.argsort(client.t0[rows], kind="stable")
    send, call_net, server, reply_send, reply_net = (part[order] for part in c.parts.all_ns())
    network = call_net + reply_net
    names = sorted(set(op_labels(client.kinds)))
    of_kind = np.array([names.index(label) for label in op_labels(client.kinds)], dtype=np.int64)
    charges = c.charges
    threads = c.inflight.load
    size = client.size[rows[order]].astype(np.int64)
    return Single(
        ops=tuple(names),
        op=of_kind[client.kind[rows[order]]],
        size_bytes=np.where(size == NULL32, NULL, size),
        begin_ns=client.t0[rows[order]],
        client_ns=send + network + server + reply_send,
        parts={"call_send": send, "network": network, "server": server, "reply_send": reply_send},
        queue_ns=None if threads.threads.cannot else threads.queue_ns[c.matched.server][order],
        of_network={"call_net": call_net, "reply_net": reply_net} if c.clock.fits else {},
        causes={} if charges is None else {name: charges.ns_of(of, slice(None))[order] for name, of in CHARGED.items()},
        moved={} if charges is None else {name: _charged(c, *of)[order] for name, of in _MOVED.items()},
        one_way_error_ns=float(mean_error_ns(c.clock, client, c.matched.client)) if c.clock.fits else 0.0,
        inferred="" if c.inferred is None else c.inferred.side,
        inferred_error_ns=0.0 if c.inferred is None else float(c.inferred.mean_error_ns(c.matched.client)),
    )


def _charged(c: Analysis, part: str, causes: frozenset[Cause]) -> I64:
    """What these causes made of a part of each matched op, ns."""
    out = np.zeros(len(c.matched), dtype=np.int64)
    if c.charges is not None:
        rare = c.charges.rare
        wanted = (rare.place == place(part)) & np.isin(rare.cause, [code(one) for one in causes])
        np.add.at(out, rare.row[wanted], rare.ns[wanted])
    return out
