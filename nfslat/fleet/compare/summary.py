"""One client's `Analysis` and report -> what is kept of it to be compared with others: a small `ClientSummary`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from nfslat.answer import model
from nfslat.figures.pivots import sizes_of
from nfslat.findings.catalogue import SLOTS
from nfslat.findings.client import Slots
from nfslat.findings.network import DELAY, Delay
from nfslat.fleet.compare.attributes import attributes, servers_of
from nfslat.fleet.compare.cells import Cells, OpClass, cells_of, columns_of
from nfslat.fleet.compare.tops import Top, tops_of
from nfslat.fleet.compare.windows import Windows
from nfslat.fleet.model import CANNOT_TELL, Brief, Client
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
_SIZES = 34  # classes of sizes of 32 bits, and one for "none"


class ClientSummary(Client, kw_only=True):
    """A client's row of the report before it is compared, and what it is compared by. Small: it goes from a worker to
    the process that compares all of them."""

    by_op: OpSums  # by the names of operations; without times of the client where only the server's capture is there
    cells: Cells
    tops: tuple[Top, ...] = ()  # data ops by place
    outside: int = 0  # ops in the server's capture while the client's was not running

    @property
    def has_both(self) -> bool:
        """Has it times of both sides, measured or inferred?"""
        return self.state in (BOTH, INFERRED)

    def error_ms(self, layer: str) -> float:
        """How far the mean of a layer ("network", "server", "queue") may be off, because it was inferred."""
        found = self.inferred
        rests = found is not None and (layer == "network" or (layer != "client" and found.side == "server"))
        return found.mean_error_ms if found is not None and rests else 0.0


def counted(cells: Cells) -> dict[str, Any]:
    """`cells`, and the fields of the row that they tell: the ops that figures are of, and their mean wait for a thread,
    where the packets tell it."""
    known = cells.total("queues")
    return {
        "cells": cells,
        "ops": cells.total("ops"),
        "queue_ms": to_ms(cells.total("queue") / known) if known else None,
    }


def summarize(
    c: Analysis, figures: model.Report, windows: Windows, addresses: Sequence[str], groups: Mapping[str, str],
    **known: Any,
) -> ClientSummary:  # fmt: skip
    """A client with times of both sides; `figures` is the report on `c`, `groups` are what a manifest says, `known`
    are further fields. An op's time is that at which the server had its call."""
    server_rows = c.matched.server
    load = c.inflight.load
    queue_ns = _column(load.queue_ns, server_rows) if load.tells else None
    kinds = c.client.ops.kinds
    tops = tops_of(c)
    total = figures.matched.total if figures.matched else None
    inflight = figures.inflight
    transport = figures.transport or []
    lost = [way.lost_segments for way in transport]
    unmatched = figures.matched.unmatched if figures.matched else {}
    inferred, sent_again = figures.inferred, sum(way.sent_again.bytes for way in transport)
    sent = sum(way.bytes for way in transport) + sent_again
    return ClientSummary(
        **known,
        addresses=list(addresses),
        state=BOTH if inferred is None else INFERRED,
        source="both" if inferred is None else "server" if inferred.side == "client" else "client",
        groups={**attributes(addresses, kinds, c.kind, servers_of(c.client), tops, inflight), **groups},
        by_op=sums_of(kinds, c.kind, columns_of(c.client_srt_ns, c.server_srt_ns, queue_ns)),
        **_cells(
            kinds, c.kind, sizes_of(c), _column(c.server.ops.t1, server_rows), windows, c.client_srt_ns,
            c.server_srt_ns, queue_ns,
        ),
        tops=tops,
        client_ms=total.client_ms if total else None,
        server_ms=total.server_ms if total else None,
        network_ms=total.network_ms if total else None,
        verdict=figures.verdict,
        findings=[Brief(one.code, one.layer, one.share, one.confidence, one.text) for one in figures.findings],
        clock=figures.clock,
        missed=sum(n for of_side in unmatched.values() for why, n in of_side.items() if why != "OUTSIDE_OVERLAP"),
        outside=unmatched.get("server", {}).get("OUTSIDE_OVERLAP", 0),
        round_trip_ms=_round_trip_ms(figures),
        lost_segments=sum(n for n in lost if n is not None) if transport and None not in lost else None,
        sent_again_share=sent_again / sent if sent else None,
        slots=_slots(figures),
        slots_held=inflight.client.held if inflight else CANNOT_TELL,
        in_flight_max=inflight.client.max if inflight else 0,
        audit=_warnings(figures),
        inferred=inferred,
    )  # fmt: skip


def summarize_server_only(
    side: Side, windows: Windows, addresses: Sequence[str], groups: Mapping[str, str], wide: ServerWide | None = None,
    **known: Any,
) -> ClientSummary:  # fmt: skip
    """What the server's capture shows of a client's calls, where nothing is inferred of it.

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
        **known,
        addresses=list(addresses),
        state=SERVER_ONLY,
        source="server",
        groups={**attributes(addresses, ops.kinds, kind, servers_of(side), (), None), **groups},
        by_op=sums_of(ops.kinds, kind, columns_of(None, server_ns, queue_ns)),
        **_cells(ops.kinds, kind, sizes, at_ns, windows, None, server_ns, queue_ns),
        server_ms=Sketch.of(server_ns).summary() if len(rows) else None,
        in_flight_max=levels_of(in_order(at_ns, at_ns + server_ns)).max if len(rows) else 0,
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
) -> dict[str, Any]:  # fmt: skip
    keys, of_kind = keys_of(kinds, kind)
    # Of a size of 2^k the bits of one less are k.
    bits = filled(len(sizes), np.int64, lambda at: np.frexp(np.maximum(sizes[at], 1) - 1)[1] + 1)
    bits[sizes <= 0] = 0
    code = of_kind[kind].astype(np.int64) * _SIZES + bits
    used = np.flatnonzero(np.bincount(code, minlength=len(keys) * _SIZES))
    place = np.zeros(len(keys) * _SIZES, dtype=np.int64)
    place[used] = np.arange(len(used))
    classes = tuple(OpClass(*names_of(keys[one // _SIZES]), int(one % _SIZES) - 1) for one in used)
    cells = cells_of(classes, place[code], windows.index(at_ns), windows.count, client_ns, server_ns, queue_ns)
    return counted(cells)


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
        if one.code in SLOTS:
            return Slots.read(one).slots
    return report.inflight.client.slots_estimate if report.inflight else None


def _warnings(report: model.Report) -> list[str]:
    """On the client's capture, and on the two together: those on the server's are of all clients."""
    own = report.captures["client"].audit if "client" in report.captures else []
    return list(dict.fromkeys(one.text for one in [*own, *report.audit] if one.severity == "warning"))
