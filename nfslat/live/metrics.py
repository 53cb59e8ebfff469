"""Rows and what they are made of -> OpenMetrics: a file for the textfile collector of node_exporter, or an endpoint.

Histograms and counters only grow; gauges are of the last stretch. Where OpenTelemetry has a name or an attribute of
NFS, it is used (opentelemetry.io/docs/specs/semconv/nfs).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from threading import Thread
from wsgiref.simple_server import WSGIServer

import numpy as np
from prometheus_client import CollectorRegistry, start_http_server, write_to_textfile
from prometheus_client.metrics_core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily, Metric
from prometheus_client.registry import Collector

from nfslat.answer.contract import OUTCOMES
from nfslat.live.rows import Row
from nfslat.model.tables import I64
from nfslat.model.units import NS_PER_S
from nfslat.results import Analysis
from nfslat.tally.columns import OpColumns
from nfslat.tally.keys import by_operation, names_of

# Upper bounds, s: from a hit in a cache to a client that gives up.
_BOUNDS_S = (1e-4, 2.5e-4, 5e-4, 1e-3, 2.5e-3, 5e-3, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0)
_BOUNDS_NS = np.array([round(bound * NS_PER_S) for bound in _BOUNDS_S], dtype=np.int64)
_OF_OP = ("onc_rpc_procedure_name", "onc_rpc_version")
_HISTOGRAMS = {
    "nfslat_client_srt_seconds": "Response time at the client, first byte of the call to last byte of the reply.",
    "nfslat_network_seconds": "Client SRT minus server SRT, operation by operation.",
    "nfslat_thread_wait_seconds": "Wait for a thread of the server, of operations of which the packets tell.",
    "nfslat_in_thread_seconds": "Server SRT less that wait: file system, locks, storage.",
}
_COUNTS = (
    ("nfs_client_rpc_count", "rpcs", "RPCs of NFS that were answered, as the client's capture shows them."),
    ("nfs_client_rpc_retransmit_count", "retransmitted", "Of these, those that RPC sent more than once."),
    ("nfslat_matched_operations", "matched", "Operations in both captures."),
    ("nfslat_lost_segments", "lost_segments", "TCP segments that were lost between the captures."),
    ("nfslat_payload_bytes", "bytes", "TCP payload in the client's capture."),
    (
        "nfslat_dropped_packets",
        "dropped",
        "Packets that kernels of hosts had no room for, where nfslat captures there.",
    ),
    ("nfslat_stretches", "stretches", "Stretches of time that were judged."),
)
_GAUGES: tuple[tuple[str, Callable[[Row], float | None], str], ...] = (
    (
        "nfslat_operations_in_flight",
        lambda row: row.in_flight,
        "Mean operations in flight at the server, while any is.",
    ),
    ("nfslat_server_threads", lambda row: row.threads, "Threads of the server, where calls wait for one."),
    ("nfslat_client_slots", lambda row: row.slots, "Slots of the client, where they are likely to hold it back."),
    ("nfslat_stretch_end_timestamp_seconds", lambda row: row.end_s, "When the last stretch ended, client's clock."),
    ("nfslat_lag_seconds", lambda row: row.lag_s, "By how much it came later after that than the promptest one did."),
)


@dataclass
class _Histogram:
    """Operations up to each bound, and beyond the last; their sum, s."""

    counts: I64 = field(default_factory=lambda: np.zeros(len(_BOUNDS_S) + 1, dtype=np.int64))
    sum_s: float = 0.0

    def add(self, durations_ns: I64) -> None:
        """A duration of exactly a bound is below it."""
        self.counts += np.bincount(np.searchsorted(_BOUNDS_NS, durations_ns), minlength=len(self.counts))
        self.sum_s += float(durations_ns.sum()) / NS_PER_S

    @property
    def buckets(self) -> list[tuple[str, float]]:
        """As OpenMetrics has them: cumulative."""
        ends = [*(f"{bound:g}" for bound in _BOUNDS_S), "+Inf"]
        return list(zip(ends, np.cumsum(self.counts).astype(float).tolist(), strict=True))


class _Sums:
    """Of all stretches of a client so far."""

    def __init__(self) -> None:
        self.histograms: dict[str, dict[tuple[str, str], _Histogram]] = {
            name: defaultdict(_Histogram) for name in _HISTOGRAMS
        }
        self.counts = dict.fromkeys((key for _, key, _ in _COUNTS), 0.0)
        self.row: Row | None = None

    def add(self, row: Row, c: Analysis | None) -> None:
        self.row = row
        for name, count in (
            ("rpcs", row.ops),
            ("retransmitted", row.retransmitted),
            ("matched", row.matched),
            ("lost_segments", row.lost_segments or 0),
            ("bytes", row.payload_bytes),
            ("stretches", 1),
            ("dropped", row.dropped or 0),
        ):
            self.counts[name] += count
        if c is not None:
            self._add_durations(c)

    def _add_durations(self, c: Analysis) -> None:
        columns = OpColumns.of(c)
        groups = by_operation(c.client.ops.kinds, c.kind)
        order, spans = groups.ordered(len(c.matched))
        for key, span in zip(groups.labels, spans, strict=True):
            _, op, version = names_of(key)
            rows = order[span]
            client_ns, server_ns = c.client_srt_ns[rows], c.server_srt_ns[rows]
            self.histograms["nfslat_client_srt_seconds"][op, version].add(client_ns)
            self.histograms["nfslat_network_seconds"][op, version].add(client_ns - server_ns)
            if columns.wait_ns is not None:
                wait_ns = columns.wait_ns(rows)
                known = wait_ns >= 0
                self.histograms["nfslat_thread_wait_seconds"][op, version].add(wait_ns[known])
                self.histograms["nfslat_in_thread_seconds"][op, version].add((server_ns - wait_ns)[known])


class Metrics(Collector):
    """Of all stretches so far. Where there are several clients, all have a label that says which."""

    def __init__(self, clients: Sequence[str] = ()) -> None:
        """Of none; `clients`: where there are several."""
        self._registry = CollectorRegistry(auto_describe=False)
        self._registry.register(self)
        self._labels = ["client"] if clients else []
        self._sums = {one: _Sums() for one in clients or ("",)}

    def add(self, row: Row, c: Analysis | None) -> None:
        """One more stretch; `c` is what its row rests on, where it has ops in both captures."""
        self._sums[row.client or ""].add(row, c)

    def collect(self) -> Iterator[Metric]:
        """For a scrape."""
        each = [([client] if client else [], one) for client, one in self._sums.items()]
        for name, words in _HISTOGRAMS.items():
            family = HistogramMetricFamily(name, words, labels=[*self._labels, *_OF_OP])
            for client, sums in each:
                for labels, one in sorted(sums.histograms[name].items()):
                    family.add_metric([*client, *labels], one.buckets, one.sum_s)
            yield family
        for name, key, words in _COUNTS:
            counter = CounterMetricFamily(name, words, labels=self._labels)
            for client, sums in each:
                counter.add_metric(client, sums.counts[key])
            yield counter
        rows = [(client, sums.row) for client, sums in each if sums.row is not None]
        if not rows:
            return
        for name, value_of, words in _GAUGES:
            gauge = GaugeMetricFamily(name, words, labels=self._labels)
            for client, row in rows:
                if (value := value_of(row)) is not None:
                    gauge.add_metric(client, value)
            yield gauge
        outcomes = GaugeMetricFamily(
            "nfslat_outcome", "1 for the outcome of the last stretch.", labels=[*self._labels, "outcome"]
        )
        cause = GaugeMetricFamily(
            "nfslat_fault",
            "1 for the fault of the last stretch.",
            labels=[*self._labels, "cause", "layer", "confidence"],
        )
        for client, row in rows:
            for named in OUTCOMES:
                outcomes.add_metric([*client, named], float(named == row.outcome))
            if row.outcome == "fault":
                cause.add_metric([*client, row.cause or "", row.layer or "", row.confidence], 1.0)
        yield outcomes
        yield cause

    def write(self, path: str) -> None:
        """To a file, which is replaced as a whole."""
        write_to_textfile(path, self._registry)

    def serve(self, port: int) -> tuple[WSGIServer, Thread]:
        """On localhost, from now on; the server and its thread. Raises ``OSError`` where the port is taken."""
        return start_http_server(port, addr="127.0.0.1", registry=self._registry)
