"""A window of both captures -> its figures: a row of what `nfslat live` prints."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from nfslat.answer.figures import Summary
from nfslat.answer.model import Report
from nfslat.decompose import srt_ns
from nfslat.flow.alone import of_clients
from nfslat.flow.pairs import Pair
from nfslat.model.tables import Ops
from nfslat.model.units import NS_PER_S, iso, unix_s
from nfslat.tally.stats import summary_of

SCHEMA = "nfslat.live/1"
SRT = "nfslat"  # how a response time is measured


@dataclass(frozen=True)
class Row:
    """What ended in a window. Latencies are ms, None where no op is in both captures, or where nothing tells."""

    begin: str  # ISO 8601, on the client's clock
    end: str
    ops: int  # of NFS, that the client's capture shows
    retransmitted: int  # of them, those whose call RPC sent more than once
    ops_per_s: float
    payload_bytes: int  # of TCP
    mb_per_s: float  # of it, 10^6 bytes
    matched: int  # of them, those that are in both captures
    given_up: int  # ops of the server's capture that were waited for in vain
    client_ms: float | None  # mean
    client_p99_ms: float | None
    network_ms: float | None  # mean
    server_ms: float | None  # mean, the wait for a thread included
    queue_ms: float | None  # mean wait for a thread
    in_flight: float | None  # mean, at the server, while any op is
    threads: int | None  # of the server, where calls wait for one
    slots: int | None  # of the client, where they are likely to hold it back
    lost_segments: int | None  # between the captures
    outcome: str  # as of a report: fault, no-fault or undecided
    layer: str | None
    cause: str | None
    confidence: str
    text: str  # the answer
    client: str | None = None  # where there are several
    gap: str | None = None  # the side of which packets are missing, which nothing is judged of
    dropped: int | None = None  # packets since the last row, by the hosts' kernels, where these are asked
    capture_cpu_percent: int | None = None  # of a processor of the host where capturing takes more
    lag_s: float | None = None  # by which it comes later after its end than the promptest one did
    inferred: str | None = None  # the side whose times, and the network's, are told by packets of the other one
    inferred_error_ms: float | None = None  # how far a mean of these may be off

    @property
    def end_s(self) -> float:
        """Since 1970."""
        return unix_s(self.end)

    @property
    def seconds(self) -> float:
        """Its length."""
        return self.end_s - unix_s(self.begin)


def row_of(pair: Pair, report: Report | None) -> Row:
    """The figures of a window; `report` is that on it, where it has ops in both captures."""
    ops = pair.client.ops
    forward = ops.take(of_clients(ops))
    seconds = max(pair.end_ns - pair.begin_ns, 1) / NS_PER_S  # without a packet a stretch has no length
    payload = int(pair.client.details.loads.bytes.sum())
    matched = None if report is None else report.matched
    total = None if matched is None else matched.total
    verdict = None if report is None else report.verdict
    inflight = None if report is None else report.inflight
    server = None if inflight is None else inflight.server
    client = _alone(forward) if total is None else total.client_ms
    return Row(
        begin=iso(pair.begin_ns),
        end=iso(pair.end_ns),
        ops=len(forward),
        retransmitted=int(np.count_nonzero(forward.transmissions > 1)),
        ops_per_s=len(forward) / seconds,
        payload_bytes=payload,
        mb_per_s=payload / seconds / 1e6,
        matched=0 if total is None else total.count,
        given_up=pair.given_up,
        client_ms=None if client is None else client.mean,
        client_p99_ms=None if client is None else client.p99,
        network_ms=total.network_ms.mean if total else None,
        server_ms=total.server_ms.mean if total else None,
        queue_ms=None if server is None or total is None else server.queue_ms,
        in_flight=None if server is None else server.mean,
        threads=None if server is None or not server.limited else server.threads_estimate,
        slots=None if inflight is None else inflight.client.slots_estimate,
        lost_segments=_lost(report),
        outcome="undecided" if verdict is None else verdict.outcome,
        layer=None if verdict is None else verdict.layer,
        cause=None if verdict is None else verdict.cause,
        confidence="low" if verdict is None else verdict.confidence,
        text=verdict.text if verdict is not None else _unmatched(len(forward)),
        inferred=None if report is None or report.inferred is None else report.inferred.side,
        inferred_error_ms=None if report is None or report.inferred is None else report.inferred.mean_error_ms,
    )


def _lost(report: Report | None) -> int | None:
    if report is None:
        return None
    counts = [one.lost_segments for one in report.transport or ()]
    return None if None in counts else sum(count or 0 for count in counts)


def _alone(ops: Ops) -> Summary | None:
    """The SRT of ops that the client's capture alone has."""
    return summary_of(srt_ns(ops, SRT, "client")) if len(ops) else None


def _unmatched(ops: int) -> str:
    return "No operation ended." if not ops else "No operation of this time is in the server's capture."
