"""One client's `Analysis` and report -> what is kept of it to be compared with others: a small `ClientSummary`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from nfslat.answer import model
from nfslat.answer.figures import Summary
from nfslat.figures.pivots import sizes_of
from nfslat.findings.client import SLOT_CODES, Slots
from nfslat.findings.network import DELAY, Delay
from nfslat.fleet.compare.attributes import attributes, servers_of
from nfslat.fleet.compare.cells import Cells, OpClass, cells_of, columns_of
from nfslat.fleet.compare.tops import Top, tops_of
from nfslat.fleet.compare.windows import Windows
from nfslat.fleet.model import Brief
from nfslat.inflight.all_clients import ServerWide
from nfslat.inflight.levels import levels_of
from nfslat.kernels.levels import in_order
from nfslat.model.blocks import filled
from nfslat.model.protocol import DATA_OPS, NULL32
from nfslat.model.tables import I16, I32, I64, Kind
from nfslat.model.units import to_ms
from nfslat.results import Analysis, Side
from nfslat.select import op_labels
from nfslat.tally.columns import OpColumns
from nfslat.tally.durations import SERVER, SIDES
from nfslat.tally.keys import by_operation, keys_of, names_of
from nfslat.tally.ops import OpSums
from nfslat.tally.sketch import Sketch

BOTH, INFERRED, SERVER_ONLY = "compared", "inferred", "server only"
CANNOT_TELL = "cannot tell"
_SIZES = 34  # classes of sizes of 32 bits, and one for "none"


@dataclass(frozen=True)
class ClientSummary:
    """What is kept of one client. Small: it goes from a worker to the process that compares all of them."""

    name: str
    addresses: tuple[str, ...]
    state: str  # `BOTH`, `INFERRED` or `SERVER_ONLY`
    groups: Mapping[str, str]
    by_op: OpSums  # by the names of operations; without times of the client where only the server's capture is there
    cells: Cells
    tops: tuple[Top, ...]  # data ops by place
    client_ms: Summary | None  # exact, as the next two
    server_ms: Summary | None
    network_ms: Summary | None
    application_ms: float | None = None
    verdict: model.Verdict | None = None
    findings: tuple[Brief, ...] = ()
    clock: model.Clock | None = None
    missed: int = 0
    outside: int = 0  # ops in the server's capture while the client's was not running
    round_trip_ms: float | None = None
    lost_segments: int | None = None
    sent_again_bytes: int = 0
    tcp_bytes: int = 0
    slots: int | None = None
    slots_held: str = CANNOT_TELL
    in_flight_max: int = 0
    audit: tuple[str, ...] = ()
    report: str | None = None  # name of its own, where that is kept
    inferred: model.Inferred | None = None  # where there is one capture
    why_not_inferred: str = ""

    @property
    def has_both(self) -> bool:
        """Has it times of both sides, measured or inferred?"""
        return self.state in (BOTH, INFERRED)

    @property
    def source(self) -> str:
        """The captures that its figures rest on: "both", "server", "client"."""
        if self.inferred is not None:
            return "server" if self.inferred.side == "client" else "client"
        return "server" if self.state == SERVER_ONLY else "both"

    def error_ms(self, layer: str) -> float:
        """How far the mean of a layer ("network", "server", "queue") may be off, because it was inferred."""
        found = self.inferred
        rests = found is not None and (layer == "network" or (layer != "client" and found.side == "server"))
        return found.mean_error_ms if found is not None and rests else 0.0

    @property
    def ops(self) -> int:
        """Ops that the figures are of."""
        return self.cells.total("ops")

    @property
    def queue_ms(self) -> float | None:
        """Mean wait for a thread; None where the packets do not tell."""
        known = self.cells.total("queues")
        return to_ms(self.cells.total("queue") / known) if known else None

    @property
    def sent_again_share(self) -> float | None:
        """Of the TCP bytes of both directions."""
        return self.sent_again_bytes / self.tcp_bytes if self.tcp_bytes else None


@dataclass(frozen=True)
class About:
    """What is known of a client beside its packets; `groups` are what a manifest says."""

    name: str
    addresses: tuple[str, ...]
    groups: Mapping[str, str]
    windows: Windows
    application_ms: float | None = None
    report: str | None = None  # name of its own, where that is kept


def summarize(c: Analysis, report: model.Report, about: About) -> ClientSummary:
    """Of a client with times of both sides; `report` is the report on `c`. An op's time is that at which the server had
    its call."""
    server_rows = c.matched.server
    load = c.inflight.load
    queue_ns = _column(load.queue_ns, server_rows) if load.tells else None
    kinds = c.client.ops.kinds
    tops = tops_of(c)
    total = report.matched.total if report.matched else None
    inflight = report.inflight
    transport = report.transport or []
    lost = [way.lost_segments for way in transport]
    unmatched = report.matched.unmatched if report.matched else {}
    return ClientSummary(
        name=about.name,
        addresses=about.addresses,
        state=BOTH if report.inferred is None else INFERRED,
        groups={**attributes(about.addresses, kinds, c.kind, servers_of(c.client), tops, inflight), **about.groups},
        by_op=sums_of(kinds, c.kind, columns_of(c.client_srt_ns, c.server_srt_ns, queue_ns)),
        cells=_cells(
            kinds, c.kind, sizes_of(c), _column(c.server.ops.t1, server_rows), about.windows, c.client_srt_ns,
            c.server_srt_ns, queue_ns,
        ),
        tops=tops,
        client_ms=total.client_ms if total else None,
        server_ms=total.server_ms if total else None,
        network_ms=total.network_ms if total else None,
        application_ms=about.application_ms,
        verdict=report.verdict,
        findings=tuple(Brief(one.code, one.layer, one.share, one.confidence, one.text) for one in report.findings),
        clock=report.clock,
        missed=sum(n for of_side in unmatched.values() for why, n in of_side.items() if why != "OUTSIDE_OVERLAP"),
        outside=unmatched.get("server", {}).get("OUTSIDE_OVERLAP", 0),
        round_trip_ms=_round_trip_ms(report),
        lost_segments=sum(n for n in lost if n is not None) if transport and None not in lost else None,
        sent_again_bytes=sum(way.sent_again.bytes for way in transport),
        tcp_bytes=sum(way.bytes + way.sent_again.bytes for way in transport),
        slots=_slots(report),
        slots_held=inflight.client.held if inflight else CANNOT_TELL,
        in_flight_max=inflight.client.max if inflight else 0,
        audit=_warnings(report),
        report=about.report,
        inferred=report.inferred,
    )  # fmt: skip


def summarize_server_only(side: Side, about: About, wide: ServerWide | None = None, why: str = "") -> ClientSummary:
    """Of a client without a capture of its own: what the server's capture shows of its calls. `why`: nothing more is
    inferred of it.

    Without `wide`, how long they waited for a thread is not known.
    """
    rows = np.flatnonzero(side.forward)
    ops = side.ops
    kind = ops.kind[rows]
    at_ns = _column(ops.t1, rows)
    server_ns = _column(ops.t2, rows) - at_ns
    queue_ns = _column(wide.load.queue_ns, rows) if wide is not None and wide.load.tells else None
    is_data = np.array([label in DATA_OPS for label in op_labels(ops.kinds)], dtype=np.bool_)
    size = ops.size[rows]
    sizes = np.where(is_data[kind] & (size != NULL32), size, 0).astype(np.int64)
    return ClientSummary(
        name=about.name,
        addresses=about.addresses,
        state=SERVER_ONLY,
        groups={**attributes(about.addresses, ops.kinds, kind, servers_of(side), (), None), **about.groups},
        by_op=sums_of(ops.kinds, kind, columns_of(None, server_ns, queue_ns)),
        cells=_cells(ops.kinds, kind, sizes, at_ns, about.windows, None, server_ns, queue_ns),
        tops=(),
        client_ms=None,
        server_ms=Sketch.of(server_ns).summary() if len(rows) else None,
        network_ms=None,
        in_flight_max=levels_of(in_order(at_ns, at_ns + server_ns)).max if len(rows) else 0,
        why_not_inferred=why,
    )


def _column(values: I64, rows: I64 | I32) -> I64:
    return filled(len(rows), np.int64, lambda at: values[rows[at].astype(np.int64)])


def sums_of(kinds: Sequence[Kind], kind: I16, columns: OpColumns) -> OpSums:
    """By operation, as its names are printed; small, for percentiles are those of sketches."""
    key = by_operation(kinds, kind)
    sides = SIDES if columns.client_ns is not None else (SERVER,)
    return OpSums.of(columns, key, percentiles=sides).as_sketches().by(names_of)


def _cells(
    kinds: Sequence[Kind], kind: I16, sizes: I64, at_ns: I64, windows: Windows, client_ns: I64 | None, server_ns: I64,
    queue_ns: I64 | None,
) -> Cells:  # fmt: skip
    keys, of_kind = keys_of(kinds, kind)
    # Of a size of 2^k the bits of one less are k.
    bits = filled(len(sizes), np.int64, lambda at: np.frexp(np.maximum(sizes[at], 1) - 1)[1] + 1)
    bits[sizes <= 0] = 0
    code = of_kind[kind].astype(np.int64) * _SIZES + bits
    used = np.flatnonzero(np.bincount(code, minlength=len(keys) * _SIZES))
    place = np.zeros(len(keys) * _SIZES, dtype=np.int64)
    place[used] = np.arange(len(used))
    classes = tuple(OpClass(*names_of(keys[one // _SIZES]), int(one % _SIZES) - 1) for one in used)
    return cells_of(classes, place[code], windows.index(at_ns), windows.count, client_ns, server_ns, queue_ns)


def _round_trip_ms(report: model.Report) -> float | None:
    """The shortest: the span that causality leaves for theta is as wide as that."""
    if report.inferred is not None:
        return report.inferred.round_trip_ms
    clock = report.clock
    seen = [] if clock is None or clock.bound_ms is None else [clock.bound_ms[1] - clock.bound_ms[0]]
    seen += [Delay.read(one).least_round_trip_ms for one in report.findings if one.code == DELAY]
    return max(min(seen), 0.0) if seen else None


def _slots(report: model.Report) -> int | None:
    for one in report.findings:
        if one.code in SLOT_CODES:
            return Slots.read(one).slots
    return report.inflight.client.slots_estimate if report.inflight else None


def _warnings(report: model.Report) -> tuple[str, ...]:
    """On the client's capture, and on the two together: those on the server's are of all clients."""
    own = report.captures["client"].audit if "client" in report.captures else []
    return tuple(dict.fromkeys(one.text for one in [*own, *report.audit] if one.severity == "warning"))
