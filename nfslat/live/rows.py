"""A window of both captures -> its figures: a row of what `nfslat live` prints."""

from __future__ import annotations

import dataclasses
import json
from dataclasses import dataclass

import numpy as np

from nfslat import api
from nfslat.answer.model import Report
from nfslat.live.pairs import Pair
from nfslat.model.units import NS_PER_S, iso, to_ms
from nfslat.select import is_reverse

SCHEMA = "nfslat.live/1"


@dataclass(frozen=True)
class Row:
    """What ended in a window. Latencies are ms, None where no op is in both captures, or where nothing tells."""

    begin: str  # ISO 8601, on the client's clock
    end: str
    ops: int  # that the client's capture shows
    ops_per_s: float
    mb_per_s: float  # payload of TCP, 10^6 bytes
    matched: int  # of them, those that are in both captures
    given_up: int  # ops of the server's capture that were waited for in vain
    client_ms: float | None  # mean
    client_p99_ms: float | None
    network_ms: float | None  # mean
    server_ms: float | None  # mean, the wait for a thread included
    queue_ms: float | None  # mean wait for a thread
    in_flight: float | None  # mean, at the server, while any op is
    threads: int | None  # of the server, where calls wait for one
    slots: int | None  # that hold the client back
    lost_segments: int | None  # between the captures
    outcome: str  # as of a report: fault, no-fault or undecided
    layer: str | None
    cause: str | None
    confidence: str
    text: str  # the answer

    def as_json(self) -> str:
        """A line of JSON."""
        return json.dumps({"schema": SCHEMA, **dataclasses.asdict(self)}, allow_nan=False)


def row_of(pair: Pair) -> Row:
    """The figures of a window."""
    ops = pair.client.ops
    forward = ops.take(~ops.spread(is_reverse(ops)))
    seconds = max(pair.end_ns - pair.begin_ns, 1) / NS_PER_S  # without a packet a stretch has no length
    srt_ns = np.sort(forward.t2 - forward.t1)
    report = None if pair.found is None else api.Report(pair.found, api.Options()).summary
    matched = None if report is None else report.matched
    total = None if matched is None else matched.total
    verdict = None if report is None else report.verdict
    server = None if report is None or report.inflight is None else report.inflight.server
    p99 = None if not len(srt_ns) else to_ms(float(np.percentile(srt_ns, 99)))
    return Row(
        begin=iso(pair.begin_ns),
        end=iso(pair.end_ns),
        ops=len(forward),
        ops_per_s=len(forward) / seconds,
        mb_per_s=float(pair.client.details.loads.bytes.sum()) / seconds / 1e6,
        matched=0 if total is None else total.count,
        given_up=pair.unmatched,
        client_ms=total.client_ms.mean if total else (to_ms(float(srt_ns.mean())) if len(srt_ns) else None),
        client_p99_ms=total.client_ms.p99 if total else p99,
        network_ms=total.network_ms.mean if total else None,
        server_ms=total.server_ms.mean if total else None,
        queue_ms=None if server is None or total is None else server.queue_ms,
        in_flight=None if server is None else server.mean,
        threads=None if server is None or not server.limited else server.threads_estimate,
        slots=None,
        lost_segments=_lost(report),
        outcome="undecided" if verdict is None else verdict.outcome,
        layer=None if verdict is None else verdict.layer,
        cause=None if verdict is None else verdict.cause,
        confidence="low" if verdict is None else verdict.confidence,
        text=verdict.text if verdict is not None else _alone(len(forward)),
    )


def _lost(report: Report | None) -> int | None:
    if report is None:
        return None
    counts = [one.lost_segments for one in report.transport or ()]
    return None if None in counts else sum(count or 0 for count in counts)


def _alone(ops: int) -> str:
    return "No operation ended." if not ops else "No operation of this time is in the server's capture."
