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
from nfslat.answer.figures import GROUP_FIGURES, GroupFigure, figures_of
from nfslat.live.rows import Row
from nfslat.model.tables import I64
from nfslat.model.units import NS_PER_MS, NS_PER_S
from nfslat.results import Analysis
from nfslat.tally.columns import NOT_TOLD, OpColumns
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
_COUNTS: tuple[tuple[str, Callable[[Row], int], str], ...] = (
    (
        "nfs_client_rpc_count",
        lambda row: row.ops,
        "RPCs of NFS that were answered, as the client's capture shows them.",
    ),
    ("nfs_client_rpc_retransmit_count", lambda row: row.retransmitted, "Of these, those that RPC sent more than once."),
    ("nfslat_matched_operations", lambda row: row.matched, "Operations in both captures."),
    ("nfslat_lost_segments", lambda row: row.lost_segments or 0, "TCP segments that were lost between the captures."),
    ("nfslat_payload_bytes", lambda row: row.payload_bytes, "TCP payload in the client's capture."),
    ("nfslat_dropped_packets", lambda row: row.dropped or 0, "Packets for which kernels of hosts had no room."),
    ("nfslat_stretches", lambda _: 1, "Stretches of time that were judged."),
)
_GAUGES: tuple[tuple[str, Callable[[Row], float | None], str], ...] = (
    ("nfslat_operations_in_flight", lambda row: row.in_flight, "Mean operations at the server, while any is."),
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


class _ClientSums:
    """What all stretches of a client add up to so far."""

    def __init__(self) -> None:
        self.histograms: dict[str, dict[tuple[str, str], _Histogram]] = {
            name: defaultdict(_Histogram) for name in _HISTOGRAMS
        }
        self.counts = dict.fromkeys((name for name, _, _ in _COUNTS), 0)
        self.row: Row | None = None

    def add(self, row: Row, c: Analysis | None) -> None:
        self.row = row
        for name, count_of, _ in _COUNTS:
            self.counts[name] += count_of(row)
        if c is not None:
            self._add_durations(c)

    def _add_durations(self, c: Analysis) -> None:
        columns, key = OpColumns.of(c), by_operation(c.client.ops.kinds, c.kind)
        order, spans = key.ordered(columns.rows)
        for operation, span in zip(key.labels, spans, strict=True):
            rows, (_, *labels) = order[span], names_of(operation)
            client_ns, server_ns = c.client_srt_ns[rows], columns.server_ns(rows)
            wait_ns = np.full(len(rows), NOT_TOLD) if columns.wait_ns is None else columns.wait_ns(rows)
            known = wait_ns >= 0
            durations = (client_ns, client_ns - server_ns, wait_ns[known], (server_ns - wait_ns)[known])
            for name, ns in zip(_HISTOGRAMS, durations, strict=True):
                if len(ns):
                    self.histograms[name][labels[0], labels[1]].add(ns)


def metric_of(figure: GroupFigure) -> str:
    """Its name: OpenMetrics has seconds."""
    return f"nfslat_mean_{figure.name.removesuffix('_ms')}_seconds" if figure.unit else f"nfslat_mean_{figure.name}"


def in_metrics(figure: GroupFigure, value: float) -> float:
    """The value as OpenMetrics has it."""
    return value * NS_PER_MS / NS_PER_S if figure.unit else value


class Metrics(Collector):
    """Metrics of all stretches so far. Where there are several clients, all have a label that says which."""

    def __init__(self, clients: Sequence[str] = ()) -> None:
        """`clients`: where there are several."""
        self._registry = CollectorRegistry(auto_describe=False)
        self._registry.register(self)
        self._labels = ["client"] if clients else []
        self._sums = {client: _ClientSums() for client in clients or ("",)}

    def add(self, row: Row, c: Analysis | None) -> None:
        """One more stretch; `c` is what its row rests on, where it has ops in both captures."""
        self._sums[row.client or ""].add(row, c)

    def collect(self) -> Iterator[Metric]:
        """What a scrape gets."""
        each = [([client] if self._labels else [], sums) for client, sums in self._sums.items()]
        for name, words in _HISTOGRAMS.items():
            family = HistogramMetricFamily(name, words, labels=[*self._labels, *_OF_OP])
            for client, sums in each:
                for labels, histogram in sorted(sums.histograms[name].items()):
                    family.add_metric([*client, *labels], histogram.buckets, histogram.sum_s)
            yield family
        for name, _, words in _COUNTS:
            counter = CounterMetricFamily(name, words, labels=self._labels)
            for client, sums in each:
                counter.add_metric(client, sums.counts[name])
            yield counter
        rows = [(client, sums.row) for client, sums in each if sums.row is not None]
        if rows:
            yield from self._gauges(rows)

    def _gauges(self, rows: Sequence[tuple[list[str], Row]]) -> Iterator[Metric]:
        for name, value_of, words in _GAUGES:
            values = [(client, value) for client, row in rows if (value := value_of(row)) is not None]
            yield self._gauge(name, words, (), values)
        for figure in GROUP_FIGURES:
            means = [(client, figures_of(row)[figure.name]) for client, row in rows]
            known = [(client, in_metrics(figure, mean)) for client, mean in means if mean is not None]
            yield self._gauge(metric_of(figure), figure.says, (), known)
        outcomes = [([*client, each], float(each == row.outcome)) for client, row in rows for each in OUTCOMES]
        yield self._gauge("nfslat_outcome", "1 for the outcome of the last stretch.", ("outcome",), outcomes)
        labels = ("cause", "layer", "confidence")
        faults = [
            ([*client, *(str(getattr(row, label) or "") for label in labels)], 1.0)
            for client, row in rows
            if row.outcome == "fault"
        ]
        yield self._gauge("nfslat_fault", "1 for the fault of the last stretch.", labels, faults)

    def _gauge(
        self, name: str, words: str, labels: Sequence[str], values: Sequence[tuple[list[str], float]]
    ) -> GaugeMetricFamily:
        gauge = GaugeMetricFamily(name, words, labels=[*self._labels, *labels])
        for of, value in values:
            gauge.add_metric(of, value)
        return gauge

    def write(self, path: str) -> None:
        """Write them to a file, which is replaced as a whole."""
        write_to_textfile(path, self._registry)

    def serve(self, port: int) -> tuple[WSGIServer, Thread]:
        """On localhost, from now on; the server and its thread. Raises ``OSError`` where the port is taken."""
        return start_http_server(port, addr="127.0.0.1", registry=self._registry)
