"""One run of a load, as far as its captures, its CSV file or its report tell: `Run`, its single ops and its figures."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import cached_property

import numpy as np

from nfslat.answer.figures import Summary
from nfslat.answer.model import MatchedRow, Report
from nfslat.clock.one_way import mean_error_ns
from nfslat.diff.statistics import SLICES, Sample
from nfslat.figures.op_columns import CHARGED
from nfslat.model.blocks import rank
from nfslat.model.causes import FROM_OUTSIDE, Cause, code
from nfslat.model.protocol import NULL, NULL32
from nfslat.model.record import Record
from nfslat.model.tables import I64, Bool
from nfslat.model.units import to_ms
from nfslat.results import Analysis
from nfslat.select import op_labels
from nfslat.wire.charges.places import place

LAYERS = ("client", "network", "server")
# Whose the parts of the response time are, as in the verdict of a report: what is not the server's response time is the
# network's, and of that what TCP, or a host that stood still, made of it is theirs.
_LAYER_OF = {"server": "server", "queue": "server", "in_thread": "server", "server_paused": "server",
             "client_paused": "client"}  # fmt: skip
# Of the causes those that no part but the server's and the network's own has a claim to.
_NOT_OUTSIDE = ("held", "sender", "distance")


# Of `Single.moved`: the part in which each lies, and of which causes it is.
_MOVED: dict[str, tuple[str, frozenset[Cause]]] = {
    "tcp_waits": ("server", FROM_OUTSIDE),
    "call_paused": ("call_net", frozenset({Cause.HOST_PAUSE})),
    "server_paused": ("server", frozenset({Cause.HOST_PAUSE})),
    "reply_paused": ("reply_net", frozenset({Cause.HOST_PAUSE})),
}


def layer_of(part: str) -> str:
    """client, network or server."""
    return _LAYER_OF.get(part, "network")


class Single(Record, eq=False, dict=True):
    """Ops of a run in the order of their calls, a row each; ns. `parts` sum to `client_ns`, row by row."""

    ops: tuple[str, ...]  # names
    op: I64  # row of `ops`
    size_bytes: I64  # asked for, or written; NULL where that was not captured
    begin_ns: I64  # of the call, on the client's clock
    client_ns: I64
    parts: dict[str, I64]  # call_send, network, server, reply_send
    queue_ns: I64 | None = None  # of server: the wait for a thread, NULL where unknown; None: nothing is known of it
    of_network: dict[str, I64] = {}  # parts of it: call_net, reply_net
    causes: dict[str, I64] = {}  # what TCP and the path made of client_ns, as in `CHARGED`
    # What of a part is another layer's: tcp_waits and server_paused of server, call_paused of call_net, reply_paused of
    # reply_net. Empty: not known.
    moved: dict[str, I64] = {}
    one_way_error_ns: float = 0.0  # of call_net and reply_net, which is no chance
    # Of one capture: the host whose times are inferred ("server" or "client"), and how far a mean of them may be off.
    inferred: str = ""
    inferred_error_ns: float = 0.0

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
        return until - self.begin_ns

    def sample(self, values: I64, rows: Bool | I64 | slice) -> Sample:
        """Of some rows, in ms."""
        return Sample.of(to_ms(values[rows]), self.slices[rows])


def moved_in(one: Single, *, exact: bool) -> dict[str, I64]:
    """`Single.moved`, or at least so much of it: a CSV file has causes, and not in which part each of them lies.

    What TCP made of an op beyond all of its time outside of the server's part must lie in that, for no two charges
    overlap and none is longer than its part.
    """
    if exact:
        return dict(one.moved)
    if not one.causes:
        return {}
    nothing = np.zeros(len(one), dtype=np.int64)
    from_outside = sum((ns for name, ns in one.causes.items() if name not in _NOT_OUTSIDE), nothing)
    elsewhere = one.client_ns - one.parts["server"] - one.causes.get("distance", nothing)
    least = np.clip(from_outside - np.maximum(elsewhere, 0), 0, np.maximum(one.parts["server"], 0))
    return {"tcp_waits": least}


class Figures(Record):
    """Of one operation of a run, ms, as a report has them."""

    op: str
    count: int
    client: Summary
    server: Summary
    network: Summary
    parts: dict[str, float | None]  # means: call_send, network, server, reply_send, queue


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
    kind: str  # captures, csv, report
    report: Report | None
    single: Single | None
    shifts: Sequence[Shift] = ()  # within it, or where it was split

    @cached_property
    def figures(self) -> list[Figures]:
        """By operation, most frequent first; versions of NFS together."""
        return _of_report(self.report) if self.report is not None else _of_single(self.single)

    @property
    def inferred(self) -> tuple[str, float]:
        """Of one capture: the host whose times are inferred, and how far their mean may be off, ms; else "" and 0."""
        if self.single is not None:
            return self.single.inferred, self.single.inferred_error_ns / 1e6
        found = None if self.report is None else self.report.inferred
        return ("", 0.0) if found is None else (found.side, found.mean_error_ms)

    @cached_property
    def moved_ms(self) -> dict[str, float] | None:
        """`Single.moved`, means over all ops; None where it is not known."""
        if self.report is not None:
            rows = self.report.charges  # other engines, and earlier versions, have none
            return (
                None
                if rows is None
                else {
                    name: math.fsum(row.mean_ms for row in rows if row.part == part and row.cause in causes)
                    for name, (part, causes) in _MOVED.items()
                }
            )
        if self.single is None:
            return None
        found = moved_in(self.single, exact=bool(self.single.moved))
        return {name: float(to_ms(found[name].mean())) if name in found else 0.0 for name in _MOVED} if found else None


def single_ops(c: Analysis) -> Single:
    """The matched ops."""
    client = c.client.ops
    rows = c.matched.client.astype(np.int64)
    order = np.argsort(client.t0[rows], kind="stable")
    send, call_net, server, reply_send, reply_net = (part[order] for part in c.parts.all_ns())
    network = call_net + reply_net
    names = sorted(set(op_labels(client.kinds)))
    of_kind = np.array([names.index(label) for label in op_labels(client.kinds)], dtype=np.int64)
    of_network = {"call_net": call_net, "reply_net": reply_net} if c.clock.fits else {}
    charges = c.charges
    causes = {} if charges is None else {name: charges.ns_of(of, slice(None))[order] for name, of in CHARGED.items()}
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
        of_network=of_network,
        causes=causes,
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


def _of_single(single: Single | None) -> list[Figures]:
    if single is None:
        return []
    found = []
    counts = np.bincount(single.op, minlength=len(single.ops))
    for number in np.argsort(-counts, kind="stable").tolist():
        if not counts[number]:
            continue
        mask = single.op == number
        parts: dict[str, float | None] = {name: float(to_ms(ns[mask].mean())) for name, ns in single.parts.items()}
        if single.queue_ns is not None:
            known = single.queue_ns[mask][single.queue_ns[mask] != NULL]
            parts["queue"] = float(to_ms(known.mean())) if len(known) else None
        found.append(
            Figures(
                single.ops[number],
                int(counts[number]),
                _summary(single.client_ns[mask]),
                _summary(single.parts["server"][mask]),
                _summary(single.client_ns[mask] - single.parts["server"][mask]),
                parts,
            )
        )
    return found


def _summary(ns: I64) -> Summary:
    ordered = to_ms(np.sort(ns))
    p50, p95, p99 = (float(ordered[rank(len(ordered), percent)]) for percent in (50, 95, 99))
    return Summary(float(ordered.mean()), p50, p95, p99, float(ordered[-1]))


def _of_report(report: Report) -> list[Figures]:
    rows = sorted(report.matched.by_op if report.matched else [], key=lambda row: -row.count)
    named = [row.op for row in rows]
    # One op under two versions of NFS has no common percentiles.
    return [_figures(row, row.op if named.count(row.op) == 1 else f"{row.op} v{row.version}") for row in rows]


def _figures(row: MatchedRow, op: str) -> Figures:
    parts = row.parts_ms
    return Figures(
        op,
        row.count,
        row.client_ms,
        row.server_ms,
        row.network_ms,
        {
            "call_send": parts.call_send,
            "network": parts.net_both,
            "server": parts.server,
            "reply_send": parts.reply_send,
            "queue": row.queue_ms,
        },
    )
