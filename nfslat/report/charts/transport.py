"""Report -> what TCP did over time: data, packets sent again, and the time that ops lost by losses."""

from __future__ import annotations

import math

from nfslat.answer.model import Report
from nfslat.answer.pictures import OverTime
from nfslat.answer.words import ms
from nfslat.model.record import Record
from nfslat.report.charts import events, legend
from nfslat.report.charts.chart import Chart, Spec
from nfslat.report.charts.heat import time_axis
from nfslat.report.charts.style import COLOUR, PLAIN, Lane, heading, lane, lanes, rule, tips
from nfslat.report.text_layout import count_of

_HEAD_PX, _GAP_PX, _WAY_PX = 22, 18, 96
_KEYS = (
    legend.box("upwards: the client sends (calls)", COLOUR["client"]),
    legend.box("downwards: the server sends (replies)", COLOUR["server"]),
)
_WAYS = (("call", "client", "to the server", 1), ("reply", "server", "to the client", -1))


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
    found: list[Lane] = []
    caption = "What the two hosts sent each other over time."
    above = events.height(happened, x)
    top = above + legend.height(_KEYS)
    for kind in _KINDS:
        series = {way: getattr(values, kind.field) for way, values in ways.items()}
        if not any(value for values in series.values() for value in values):
            caption += f" {kind.none}".rstrip()
            continue
        found.append(_mirrored(over, kind, series, x, top))
        top = found[-1].bottom + _GAP_PX
    if not found:
        return []
    height = found[-1].bottom
    alt = f"Transport over time, {count_of(over.bins, 'bin')} of {over.bin_ms:g} ms." + "".join(
        f" {where.capitalize()}: {count_of(sum(ways[way].sent_again), 'packet')} retransmitted, "
        f"{ms(math.fsum(ways[way].lost_ms))} ms lost."
        for way, _, where, _ in _WAYS
        if way in ways
    )
    behind = [*legend.legend(_KEYS, above), *events.drawn(happened, x, found)]
    spec = lanes(found, height, alt, behind)
    return [Chart("transport", "Transport over time", caption, alt, spec, height + 50, "transport")]


def _mirrored(over: OverTime, kind: _Kind, series: dict[str, list[float | None]], x: Spec, top: int) -> Lane:
    most = {way: max((v for v in values if v is not None), default=0.0) for way, values in series.items()}
    # A way with nothing still has a place.
    least = max(most.values()) * 0.1
    domain = [-max(most.get("reply", 0.0), least) * 1.05, max(most.get("call", 0.0), least) * 1.05]
    axis: Spec = {"tickCount": 4, "labelExpr": f"format(abs(datum.value), '{PLAIN}')"}
    if kind.unit == "packets":
        axis["tickMinStep"] = 1
    one = lane(top + _HEAD_PX, _WAY_PX, kind.unit, domain, axis)
    seconds = over.bin_ms / 1e3
    for way, side, where, sign in _WAYS:
        name = f"{kind.field}_{way}"
        values = [
            {"from": i * seconds, "to": (i + 1) * seconds, name: v, "end": sign * v, "base": 0}
            for i, v in enumerate(series.get(way, ()))
            if v
        ]
        shown = tips(
            ("from", "from, s", ",.6~r"), ("to", "until, s", ",.6~r"), (name, f"{kind.figure}, {where}", ",.4~r")
        )
        one.marks.append(
            {
                "data": {"values": values},
                "mark": {"type": "rect", "fill": COLOUR[side], "aria": False},
                "encoding": {
                    "tooltip": shown,
                    "x": {**x, "field": "from"},
                    "x2": {"field": "to"},
                    "y": one.at("end"),
                    "y2": {"field": "base"},
                },
            }
        )
    per = "" if kind.unit == "MB/s" else f", per {over.bin_ms:g} ms"
    one.marks.append(heading(kind.title + per, top + 14))
    one.marks.append(rule({"y": {**one.y, "datum": 0}}, style="edge"))
    return one
