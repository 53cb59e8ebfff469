"""Runs made by hand: single ops with response times that wander as those in a queue do, and reports."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence

import numpy as np
from verdicts import blames

from nfslat.answer.model import SCHEMA as REPORT
from nfslat.answer.model import (
    Capture,
    Charge,
    Clock,
    Completeness,
    Finding,
    MatchedOps,
    MatchedRow,
    Parts,
    Report,
    Selection,
    Summary,
    Tool,
)
from nfslat.diff.runs import Run, Single
from nfslat.diff.statistics import F64
from nfslat.model.tables import I64

MS = 1_000_000


def wandering(rng: np.random.Generator, ops: int, memory: float = 0.8, runs: int = 1) -> F64:
    """Factors around 1, log-normal: each remembers the one before it (AR(1)); a row a run."""
    noise = rng.standard_normal((runs, ops)) * 0.5
    out = np.empty_like(noise)
    out[:, 0] = noise[:, 0]
    keep = np.sqrt(1 - memory**2)
    for at in range(1, ops):
        out[:, at] = memory * out[:, at - 1] + keep * noise[:, at]
    return np.exp(out)


def single(
    server_ms: F64,
    network_ms: F64 | float = 0.5,
    *,
    names: Sequence[str] = ("READ",),
    op: I64 | None = None,
    size_bytes: int | I64 = 8192,
    gap_ms: float = 10.0,
    queue_ms: F64 | None = None,
    causes_ms: Mapping[str, F64] | None = None,
    moved_ms: Mapping[str, F64] | None = None,
) -> Single:
    """A call every `gap_ms`, whose reply takes these times; causes and what was moved lie within them."""
    rows = len(server_ms)
    server = (np.asarray(server_ms) * MS).astype(np.int64)
    network = (np.broadcast_to(np.asarray(network_ms, dtype=np.float64), rows) * MS).astype(np.int64)
    nothing = np.zeros(rows, dtype=np.int64)
    return Single(
        ops=tuple(names),
        op=nothing if op is None else op,
        size_bytes=np.broadcast_to(np.asarray(size_bytes, dtype=np.int64), rows).copy(),
        begin_ns=(np.arange(rows) * gap_ms * MS).astype(np.int64),
        client_ns=server + network,
        parts={"call_send": nothing, "network": network, "server": server, "reply_send": nothing},
        queue_ns=None if queue_ms is None else (queue_ms * MS).astype(np.int64),
        causes={name: (ms * MS).astype(np.int64) for name, ms in (causes_ms or {}).items()},
        moved={name: (ms * MS).astype(np.int64) for name, ms in (moved_ms or {}).items()},
    )


def cut(one: Single, at: slice) -> Single:
    """Some of its ops, in their order."""
    return dataclasses.replace(
        one,
        op=one.op[at],
        size_bytes=one.size_bytes[at],
        begin_ns=one.begin_ns[at],
        client_ns=one.client_ns[at],
        parts={name: ns[at] for name, ns in one.parts.items()},
        queue_ns=None if one.queue_ns is None else one.queue_ns[at],
        of_network={name: ns[at] for name, ns in one.of_network.items()},
        causes={name: ns[at] for name, ns in one.causes.items()},
        moved={name: ns[at] for name, ns in one.moved.items()},
    )


def run(one: Single, name: str = "by hand") -> Run:
    """As if read from two captures, whose report has no findings."""
    return Run(name, "captures", reported(float(one.client_ns.mean()) / MS, count=len(one)), one)


def reported(
    server_ms: float,
    network_ms: float = 0.5,
    *,
    tail: Sequence[float] = (1.0, 1.5, 2.0, 4.0),
    count: int = 1500,
    charges: list[Charge] | None = None,
    findings: bool = False,
) -> Report:
    """A report on READs that take so long at the client, so much of that the network's; `tail` is p50, p95, p99 and max
    over the mean."""
    server = Summary(server_ms, *(server_ms * factor for factor in tail))
    parts = Parts(0.0, None, server_ms - network_ms, 0.0, None, network_ms, None)
    network = Summary(*[network_ms] * 5)
    row = MatchedRow("NFS", "READ", "3", count, server, server, network, 0, parts)
    capture = Capture("x", [], "pcap", None, 0, None, None, {}, None, None, 0.0, 0, {}, 0, {})
    found = Finding("server-storage", "server", "warning", 0.9, "likely", "slow", {}, {})
    both = {"server": count, "client": count}
    return Report(
        schema=REPORT,
        nfslat=Tool("0", "native", "nfslat", "nfslat"),
        captures={"server": capture, "client": capture},
        raw={"server": [], "client": []},
        selection=Selection({}, {}),
        notes=[],
        matched=MatchedOps(
            both, count, 0, {"server": {}, "client": {}}, [row], row, row, None, Completeness(1.0, count, count, {})
        ),
        clock=Clock(False, None, None, None, None, None, [], 0, 0, 0),
        charges=charges,
        findings=[found] if findings else [],
        verdict=blames("server", None, None, None, "low", "The server adds most."),
    )
