"""The report on a window of both captures -> a row of what `nfslat live` prints."""

from __future__ import annotations

import numpy as np
from msgspec import structs

from nfslat.answer.figures import GroupFigures, Summary, figures_of
from nfslat.answer.model import Report, Verdict
from nfslat.decompose import srt_ns
from nfslat.flow.alone import of_clients
from nfslat.flow.pairs import Pair
from nfslat.model.tables import Ops
from nfslat.model.units import NS_PER_S, iso, unix_s
from nfslat.tally.columns import OpColumns
from nfslat.tally.durations import SERVER
from nfslat.tally.ops import OpSums

SCHEMA = "nfslat.live/1"
SRT = "nfslat"  # how a response time is measured


class Row(GroupFigures, kw_only=True):
    """What ended in a window. Latencies are ms, None where no op is in both captures, or where nothing tells."""

    begin: str  # ISO 8601, on the client's clock
    end: str
    ops: int  # of NFS, that the client's capture shows
    retransmitted: int  # of them, those whose call RPC sent more than once
    ops_per_s: float
    payload_bytes: int  # of TCP
    mb_per_s: float  # of it, 10^6 bytes
    matched: int = 0  # of them, those that are in both captures
    given_up: int  # ops of the server's capture that were waited for in vain
    client_ms: float | None = None  # mean
    client_p99_ms: float | None = None
    network_ms: float | None = None  # mean
    server_ms: float | None = None  # mean, the wait for a thread included
    in_flight: float | None = None  # mean, at the server, while any op is
    threads: int | None = None  # of the server, where calls wait for one
    slots: int | None = None  # of the client, where they are likely to hold it back
    lost_segments: int | None = None  # between the captures
    outcome: str = "undecided"  # as of a report: fault, no-fault or undecided
    layer: str | None = None
    cause: str | None = None
    confidence: str = "low"
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
        """Its end, since 1970."""
        return unix_s(self.end)

    @property
    def seconds(self) -> float:
        """Its length."""
        return self.end_s - unix_s(self.begin)

    @property
    def named(self) -> str | None:
        """The cause that it names: none without packets, or with low confidence."""
        return self.cause if self.gap is None and self.outcome == "fault" and self.confidence != "low" else None

    def judged(self, verdict: Verdict) -> Row:
        """The same with another answer."""
        answer = {name: getattr(verdict, name) for name in ("outcome", "layer", "cause", "confidence", "text")}
        return structs.replace(self, **answer)

    def undecided(self, text: str) -> Row:
        """The same without an answer; the text says why."""
        return structs.replace(self, outcome="undecided", layer=None, cause=None, confidence="low", text=text)


def row_of(pair: Pair, report: Report | None) -> Row:
    """The figures of a window; `report` is that on it, where it has ops in both captures."""
    ops = pair.client.ops
    forward = ops.take(of_clients(ops))
    seconds = max(pair.end_ns - pair.begin_ns, 1) / NS_PER_S  # without a packet a stretch has no length
    payload = int(pair.client.details.loads.bytes.sum())
    row = Row(
        begin=iso(pair.begin_ns),
        end=iso(pair.end_ns),
        ops=len(forward),
        retransmitted=int(np.count_nonzero(forward.transmissions > 1)),
        ops_per_s=len(forward) / seconds,
        payload_bytes=payload,
        mb_per_s=payload / seconds / 1e6,
        given_up=pair.lone.ops,
        text="No operation of this time is in the server's capture." if len(forward) else "No operation ended.",
    )
    total = None if report is None or report.matched is None else report.matched.total
    if report is not None and report.verdict is not None:
        row = row.judged(report.verdict)
    if report is None or total is None:
        client = _at_client(forward)
        return row if client is None else structs.replace(row, client_ms=client.mean, client_p99_ms=client.p99)
    inflight, inferred = report.inflight, report.inferred
    server = None if inflight is None else inflight.server
    lost = [way.lost_segments for way in report.transport or ()]
    return structs.replace(
        row,
        matched=total.count,
        client_ms=total.client_ms.mean,
        client_p99_ms=total.client_ms.p99,
        network_ms=total.network_ms.mean,
        server_ms=total.server_ms.mean,
        **figures_of(total),
        in_flight=None if server is None else server.mean,
        threads=None if server is None or not server.limited else server.threads_estimate,
        slots=None if inflight is None else inflight.client.slots_estimate,
        lost_segments=None if None in lost else sum(count or 0 for count in lost),
        inferred=None if inferred is None else inferred.side,
        inferred_error_ms=None if inferred is None else inferred.mean_error_ms,
    )


def _at_client(ops: Ops) -> Summary | None:
    """Response times of ops that the client's capture alone has."""
    srt = srt_ns(ops, SRT, "client")
    (figures,) = OpSums.of(OpColumns(len(ops), server_ns=srt.__getitem__), percentiles=(SERVER,)).rows()
    return figures.summary(SERVER)
