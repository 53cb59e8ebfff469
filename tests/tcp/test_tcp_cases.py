"""The first cases of nfslat, replayed with their own figures: redo over a WAN, and a query of 72,000 turns."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
from drawn import report_of, wan
from timeline import MS, Timeline
from wire import EPOCH_NS

from nfslat.diff.tcp.compare import compare
from nfslat.diff.tcp.read import Run
from nfslat.model.causes import Cause
from nfslat.tcp.charts.all import charts
from nfslat.tcp.model import Detail
from nfslat.tcp.packets import ACK, PSH, AckKind, Kind, Packets, Trace
from nfslat.tcp.sections.all import render


def _run(detail: Detail, name: str) -> Run:
    return Run(name, "capture", detail, 0, 1)


def test_redo_over_a_wan() -> None:
    """Data Guard: round trips of 8 ms with spikes of 40 ms more that fall by a straight line; an ACK timeout of 40
    ms, a window scale of 7, sizes of 1,448 and 3,844 bytes. The capture without spikes is the better baseline."""
    (good,) = report_of(wan(200, every=0).trace()).details
    problem = report_of(wan(200, every=5).trace())
    (bad,) = problem.details
    (late,) = bad.waits.rounds[0].delayed
    assert (late.timer_ms, late.count, late.waited_for) == (40, 40, 40)
    assert bad.waits.windows[0].scale == 7
    assert [mode.bytes for mode in bad.sizes.ways[0].modes] == [1448, 3844]
    # Held for 34 ms behind the last of the four; the transit is the path's.
    assert {cost.cause: cost.ms for cost in bad.costs}[Cause.DELAYED_ACK] == pytest.approx(40 * 34)
    assert bad.pictures is not None
    way = bad.pictures.whole.ways[0]
    assert way.typical_ms == pytest.approx(8)
    assert {round(one.ms) for one in way.late} == {48}
    assert all((one.ms - one.last_ms) / (one.last_at_ms - one.at_ms) == pytest.approx(1) for one in way.late)
    drawn = {chart.section: chart for chart in charts(problem)}
    assert "40 delayed ACKs" in drawn["trips"].alt
    assert "delayed ACK" in drawn["waits"].alt
    assert "1,448 is a full segment" in drawn["sizes"].caption
    found = compare(_run(good, "quiet night"), _run(bad, "problem"))
    assert (found.verdict.change, found.verdict.better) == ("slower", "A")
    assert "wait for delayed ACKs" in found.verdict.text
    timers = next(one for one in found.settings if one.name.startswith("delayed-ACK timer of 10.0.0.2"))
    assert (timers.a, timers.b) == ("none seen", "40 ms (40)")


def _turns(count: int, turn_ms: int) -> Trace:
    """A query of `count` rows, each a turn of its own: 120 bytes there, 300 back, `turn_ms` from one to the next."""
    line = Timeline(server=("10.0.0.2", 1521))
    line.handshake(0)
    empty = line.trace()
    rows, begin = np.arange(2 * count), EPOCH_NS + MS
    turn, way = rows // 2, rows % 2
    columns = {name: np.zeros(2 * count, dtype=np.int64) for name in Packets.columns()}
    columns |= {
        "direction": way,
        "frame": rows + 4,
        "t_ns": begin + (turn * turn_ms + way * (turn_ms - 1)) * MS,
        "seq": turn * np.where(way == 0, 120, 300),
        "size": np.where(way == 0, 120, 300),
        "ack": np.where(way == 0, turn * 300, (turn + 1) * 120),
        "window": np.full(2 * count, 500),
        "flags": np.full(2 * count, ACK | PSH),
        "kind": np.full(2 * count, Kind.NEW),
        "ack_kind": np.full(2 * count, AckKind.ADVANCES),
    }
    packets = Packets.from_columns({**columns, "head": columns["head"].astype(np.uint64)})
    places = np.arange(len(packets), dtype=np.int32)
    return dataclasses.replace(
        empty, packets=packets, places=places, last_ns=int(packets.t_ns[-1]), total_packets=2 * count
    )


def test_a_query_of_72_000_turns() -> None:
    """SQL*Net row by row over a path of 200 ms: four hours of turns, which the first line says; TCP costs nothing. The
    graph has all turns in few points; against the same query at 2 ms it is slower, and the path is the reason."""
    found = report_of(_turns(72_000, 200))
    (one,) = found.details
    assert one.turns.count == 72_000
    assert one.turns.whole_total_ms == pytest.approx(72_000 * 199)
    text = render(found, width=80, color=False)
    assert "72,000 turns of 199.0 ms on average" in " ".join(text.split())
    assert "TCP made neither sender wait." in text
    assert one.pictures is not None
    graph = one.pictures.whole.turns_ms
    assert graph is not None
    assert graph.points == sum(graph.count) == 72_000
    assert len(graph.count) <= 500
    assert {*graph.low, *graph.high} == {199}
    chart = next(chart for chart in charts(found) if chart.section == "turns")
    assert "72,000 turns are drawn as the lowest and the highest" in chart.caption
    (near,) = report_of(_turns(72_000, 2)).details
    told = compare(_run(near, "beside it"), _run(one, "far away"))
    assert told.verdict.text.startswith("B is slower: turns 1.00 -> 199.0 ms")
    assert told.verdict.better == "A"
    assert not any(figure.name.startswith("wait for delayed") for figure in told.figures)
