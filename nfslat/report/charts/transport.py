"""Report -> what TCP did over time: data, packets sent again, and the time that ops lost by losses."""

from __future__ import annotations

import math

from nfslat.answer.model import Report
from nfslat.answer.pictures import OverTime
from nfslat.answer.words import ms
from nfslat.model.record import Record
from nfslat.report.charts import events, legend
from nfslat.report.charts.board import Board, Way
from nfslat.report.charts.chart import Chart, Spec
from nfslat.report.charts.heat import time_axis
from nfslat.report.charts.style import COLOUR
from nfslat.report.text_layout import count_of

_GAP_PX, _WAY_PX = 18, 96
_KEYS = (
    legend.box("upwards: the client sends (calls)", COLOUR["client"]),
    legend.box("downwards: the server sends (replies)", COLOUR["server"]),
)
_WAYS = (("call", "to the server"), ("reply", "to the client"))


class _Kind(Record):
    """What a lane shows: a field of `pictures.Way`."""

    field: str
    title: str
    unit: str
    figure: str  # its name in tooltips and tables
    none: str  # said in place of a lane of zeros


_KINDS = (
    _Kind("mb_per_s", "Data", "MB/s", "data, MB/s (10^6 bytes)", ""),
    _Kind("sent_again", "Packets retransmitted", "packets", "retransmitted, packets", "No bytes were retransmitted."),
    _Kind("lost_ms", "Time that losses cost ops", "ms", "time lost, ms", "No op lost time by losses."),
)


def transport_chart(report: Report) -> list[Chart]:
    """Data, packets sent again and time lost, to the server upwards and to the client downwards."""
    if report.pictures is None or not report.pictures.over_time.bins:
        return []
    over = report.pictures.over_time
    ways = {name: way for name, way in (("call", over.call), ("reply", over.reply)) if way is not None}
    happened = events.marks(report)
    x = time_axis(over.begin, over.bins, over.bin_ms)
    caption = "What the two hosts sent each other over time."
    above = events.height(happened, x)
    board = Board(x, above + legend.height(_KEYS), _GAP_PX)
    for kind in _KINDS:
        series = {way: getattr(values, kind.field) for way, values in ways.items()}
        if not any(value for values in series.values() for value in values):
            caption += f" {kind.none}".rstrip()
        else:
            _both_ways(board, over, kind, series)
    if not board.lanes:
        return []
    alt = f"Transport over time, {count_of(over.bins, 'bin')} of {over.bin_ms:g} ms." + "".join(
        f" {where.capitalize()}: {count_of(sum(ways[way].sent_again), 'packet')} retransmitted, "
        f"{ms(math.fsum(ways[way].lost_ms))} ms lost."
        for way, where in _WAYS
        if way in ways
    )
    behind = [*legend.legend(_KEYS, above), *events.drawn(happened, x, board.lanes)]
    return [board.chart("transport", "Transport over time", caption, alt, "transport", behind)]


def _both_ways(board: Board, over: OverTime, kind: _Kind, series: dict[str, list[float | None]]) -> None:
    seconds, ways = over.bin_ms / 1e3, []
    for way, where in _WAYS:
        name = f"{kind.field}_{way}"
        values = [
            {"from": i * seconds, "to": (i + 1) * seconds, name: v} for i, v in enumerate(series.get(way, ())) if v
        ]
        tip = ("from", "from, s", ",.6~r"), ("to", "until, s", ",.6~r"), (name, f"{kind.figure}, {where}", ",.4~r")
        ways.append(Way(values, name, tip))
    per = "" if kind.unit == "MB/s" else f", per {over.bin_ms:g} ms"
    step: Spec = {"tickMinStep": 1} if kind.unit == "packets" else {}
    board.mirrored(kind.title + per, kind.unit, _WAY_PX, ways, **step)
