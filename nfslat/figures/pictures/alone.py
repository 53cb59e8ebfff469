"""One capture and what its report says of ops in flight -> what pictures of it alone are drawn from."""

from __future__ import annotations

import numpy as np

from nfslat.answer import model
from nfslat.answer.pictures import Alone, Classes, SlowCall
from nfslat.decompose import srt_ns
from nfslat.figures.op_view import side_view
from nfslat.figures.pictures.bins import CLASSES, LE_NS, PER_DECADE, Bins, classes_of
from nfslat.figures.pictures.events import connections_lost
from nfslat.figures.pictures.flying import flying, limit_of_server, with_waiting
from nfslat.figures.wireshark import of_side
from nfslat.kernels.order import ranked
from nfslat.model.tables import I64, endpoint
from nfslat.model.units import iso, to_ms
from nfslat.results import Side
from nfslat.tally.keys import names_of
from nfslat.tally.stats import longest
from nfslat.tally.unanswered import in_flight_at_end

_P99 = 99
_SLOWEST = 3


def alone_of(side: Side, inflight: model.InFlight, srt: str) -> Alone | None:
    """Of the selected ops that a client called; None where there is none. `srt` is the definition in force, the
    client's."""
    ops, rows = side.ops, np.flatnonzero(side.forward)
    if not len(rows):
        return None
    begin, end = ops.t0[rows], ops.t3[rows]
    took = srt_ns(ops, srt, "client", rows)
    waiting = in_flight_at_end(side)
    until = [begin, end] if waiting is None else [begin, end, waiting[1]]
    bins = Bins.over(int(begin.min()), max(int(column.max()) for column in until))
    time, latency = bins.of(begin), classes_of(took)
    cells = np.bincount(time * CLASSES + latency, minlength=bins.count * CLASSES).reshape(bins.count, CLASSES)
    with_any = np.flatnonzero(cells.sum(axis=0))
    used = slice(int(with_any[0]), int(with_any[-1]) + 1)
    counts = cells.sum(axis=1).tolist()
    order = np.argsort(time, kind="stable")
    ends = np.cumsum(counts).tolist()
    in_bins = [took[order[last - n : last]] for n, last in zip(counts, ends, strict=True)]
    shown_time, shown_class = np.nonzero(cells[:, used])
    held = side.flying
    return Alone(
        classes=Classes(PER_DECADE, [to_ms(ns) for ns in LE_NS[used].tolist()]),
        begin=iso(bins.begin_ns),
        bin_ms=to_ms(bins.width_ns),
        bins=bins.count,
        ops=counts,
        srt_ms=[to_ms(float(of_bin.mean())) if len(of_bin) else None for of_bin in in_bins],
        p99_ms=[to_ms(ranked(of_bin, _P99)) if len(of_bin) else None for of_bin in in_bins],
        heat=list(
            zip(
                shown_time.tolist(),
                shown_class.tolist(),
                cells[:, used][shown_time, shown_class].tolist(),
                strict=True,
            )
        ),
        flying=flying(*with_waiting(ops.t0[held], ops.t3[held], waiting), bins, limit_of_server(inflight.server)),
        events=connections_lost(side, bins),
        slowest=[_slow_call(side, row, ns) for row, ns in zip(*_slowest(rows, took), strict=True)],
    )


def _slowest(rows: I64, took: I64) -> tuple[list[int], list[int]]:
    few = longest(took, _SLOWEST)
    return rows[few].tolist(), took[few].tolist()


def _slow_call(side: Side, row: int, took_ns: int) -> SlowCall:
    view = side_view(side, row)
    program, op, version = names_of(side.ops.kinds[side.ops.kind[row]][:4])
    return SlowCall(
        program=program,
        op=op,
        version=version,
        xid=f"0x{int(side.ops.xid[row]):08x}",
        client=endpoint(*view.client_end),
        server=endpoint(*view.server_end),
        at=iso(view.call.first_ns),
        srt_ms=to_ms(took_ns),
        wireshark=of_side(view, "capture"),
    )
