"""Report -> latency over time as a heat map, with the ops in flight below it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from nfslat.report.charts.chart import Chart, Spec
from nfslat.report.charts.distributions import edges
from nfslat.report.charts.style import (
    COLOUR,
    DASH,
    PLAIN,
    Lane,
    channel,
    counted,
    heading,
    lane,
    lanes,
    log_axis,
    tips,
    words,
)
from nfslat.report.model import Report
from nfslat.report.pictures import Flying, OverTime, Pictures
from nfslat.report.text_layout import count

_HEAD_PX, _GAP_PX = 22, 18
_HEAT_PX, _FLYING_PX = 120, 110
_FAR = 4  # a limit so many times higher than what is in flight would flatten it
_TITLES = {"client": "Client SRT", "network": "Network (client SRT - server SRT)", "server": "Server SRT"}


def time_axis(over: OverTime, seconds: float | None = None) -> Spec:
    """The x channel of a chart over time."""
    end = over.bins * over.bin_ms / 1e3 if seconds is None else seconds
    title = ["time since the first call, s", f"begin: {over.begin}"]
    return channel(
        "time since the first call, s",
        scale={"domain": [0.0, end or 1.0], "nice": False, "zero": False},
        axis={"title": title, "format": PLAIN, "grid": False, "tickCount": 10, "titleLimit": 600},
    )


def heat_chart(report: Report) -> list[Chart]:
    """Latency at the client, on the network and in the server over time, and the ops in flight below."""
    if report.pictures is None or not report.pictures.over_time.bins:
        return []
    pictures, over = report.pictures, report.pictures.over_time
    x = time_axis(over)
    cells = {"client": over.heat.client, "network": over.heat.network, "server": over.heat.server}
    means = {"client": over.client_ms, "network": over.network_ms, "server": over.server_ms}
    used = [row for rows in cells.values() for _, row, _ in rows]
    if not used:
        return []
    bounds = edges(pictures.classes)
    low, high = bounds[min(used)], bounds[max(used) + 1]
    most = max(ops for rows in cells.values() for *_, ops in rows)
    found: list[Lane] = []
    top = 0
    for side, rows in cells.items():
        axis = log_axis("latency, us to s", low, high, grid=True)
        one = lane(top + _HEAD_PX, _HEAT_PX, axis.pop("title"), [low, high], axis, type="log")
        one.marks += [
            _cells(side, rows, pictures, x, one, most),
            _line(side, over, means[side], x, one, low, high),
            heading(_TITLES[side], top + 14),
        ]
        found.append(one)
        top = one.bottom + _GAP_PX
    flying = _flying(over, x, top)
    found.append(flying)
    height = flying.bottom
    alt = (
        f"Latency over time in {count(over.bins)} bins of {over.bin_ms:g} ms, at the client, on the network and in "
        f"the server; below it the ops in flight. Server: {_limit_text(over.server) or 'no limit is known'}. Client: "
        f"{_limit_text(over.client) or 'no limit is known'}."
    )
    caption = (
        "Each cell holds the ops whose call was sent at that time and that took so long, from 1 (palest) to "
        f"{count(most)} (strongest); the line is their mean. What shows in the lane of the client must show in "
        "that of the network or of the server, too. In flight: thick lines are means, the shade and the "
        "thin line are the most at once."
    )
    return [Chart("heat", "Latency over time", caption, alt, lanes(found, height, alt), height + 50, "heat")]


def _cells(side: str, rows: Sequence[tuple[int, int, int]], pictures: Pictures, x: Spec, one: Lane, most: int) -> Spec:
    # Rows of three numbers, for there are thousands of them; the bounds are looked up where they are drawn.
    bounds = edges(pictures.classes)
    seconds = pictures.over_time.bin_ms / 1e3
    return {
        "data": {"values": [list(row) for row in rows]},
        "transform": [
            {"calculate": f"datum[0] * {seconds!r}", "as": "from"},
            {"calculate": f"(datum[0] + 1) * {seconds!r}", "as": "to"},
            {"calculate": f"{bounds}[datum[1]]", "as": "above"},
            {"calculate": f"{bounds}[datum[1] + 1]", "as": "most"},
            {"calculate": "datum[2]", "as": "ops"},
        ],
        "mark": {"type": "rect", "fill": COLOUR[side], "aria": False},
        "encoding": {
            "x": {**x, "field": "from"},
            "x2": {"field": "to"},
            "y": one.at("above"),
            "y2": {"field": "most"},
            "fillOpacity": {
                "field": "ops",
                "type": "quantitative",
                "scale": {"type": "log", "domain": [1, max(most, 2)], "range": [0.4, 1]},
                "legend": None,
                "title": "ops (count)",
            },
            "tooltip": tips(
                ("from", "sent from, s", ",.6~r"),
                ("to", "sent until, s", ",.6~r"),
                ("above", "latency more than, ms", ",.4~r"),
                ("most", "latency at most, ms", ",.4~r"),
                ("ops", "ops (count)", ","),
            ),
        },
    }


def _line(
    side: str, over: OverTime, means: Sequence[float | None], x: Spec, one: Lane, low: float, high: float
) -> Spec:
    """The mean of each bin; a gap where there is none, or none that a log scale has a place for."""
    seconds = over.bin_ms / 1e3
    values: list[dict[str, Any]] = [
        {"at": (i + 0.5) * seconds, f"{side}_ms": mean if mean is not None and low <= mean <= high else None}
        for i, mean in enumerate(means)
    ]
    # A bin between empty ones is no line: the dots show it.
    marks = (
        {"type": "line", "strokeWidth": 1.3, "invalid": "break-paths-show-path-domains"},
        {"type": "point", "size": 7, "filled": True, "aria": False},
    )
    return {
        "data": {"values": values},
        "encoding": {
            "tooltip": tips(("at", "middle of the bin, s", ",.6~r"), (f"{side}_ms", f"{side}, mean, ms", ",.4~r")),
            "x": {**x, "field": "at"},
            "y": one.at(f"{side}_ms"),
        },
        "layer": [{"mark": {**mark, "style": "inked"}} for mark in marks],
    }


def _limit_text(flying: Flying) -> str:
    if flying.limit is None:
        return ""
    return f"limit {counted(flying.limit, flying.limit_of or '')}".rstrip()


_FLYING_LOOKS: dict[str, tuple[float, float, Spec]] = {
    "client": (0.18, 0, {"strokeWidth": 6, "strokeOpacity": 0.6}),
    "server": (0, 1, {"strokeWidth": 2, "strokeDash": DASH["server"]}),
}


def _flying(over: OverTime, x: Spec, top: int) -> Lane:
    both = {"client": over.client, "server": over.server}
    most = max([1, *(n for one in both.values() for n in one.max)])
    limits = [one.limit for one in both.values() if one.limit is not None and one.limit <= _FAR * most]
    # Two lines of labels above the lane.
    drawn = lane(
        top + _HEAD_PX + 30,
        _FLYING_PX,
        "ops in flight",
        [0, max([most, *limits]) * 1.05],
        {"format": PLAIN, "tickCount": 5, "tickMinStep": 1},
    )
    drawn.marks.append(heading("In flight", top + 14))
    seconds = over.bin_ms / 1e3
    for row, (side, one) in enumerate(both.items()):
        values = [
            {
                "at": (i + 0.5) * seconds,
                "from": i * seconds,
                "to": (i + 1) * seconds,
                f"{side}_mean": mean,
                f"{side}_max": n,
                "base": 0,
            }
            for i, (mean, n) in enumerate(zip(one.mean, one.max, strict=True))
        ]
        shown = tips(
            ("from", "from, s", ",.6~r"),
            ("to", "until, s", ",.6~r"),
            (f"{side}_mean", f"in flight at the {side}, mean (ops)", ",.4~r"),
            (f"{side}_max", f"in flight at the {side}, most (ops)", ","),
        )
        # The two are often alike: the client's lies wide below the server's.
        shade, thin, look = _FLYING_LOOKS[side]
        xs = {"x": {**x, "field": "from"}, "x2": {"field": "to"}}
        drawn.marks += [
            {
                "data": {"values": values},
                "layer": [
                    {
                        "mark": {"type": "rect", "fill": COLOUR[side], "fillOpacity": shade, "aria": False},
                        "encoding": {**xs, "y": drawn.at(f"{side}_max"), "y2": {"field": "base"}, "tooltip": shown},
                    },
                    {
                        "mark": {"type": "rule", "stroke": COLOUR[side], "strokeWidth": thin, "tooltip": None},
                        "encoding": {**xs, "y": drawn.at(f"{side}_max")},
                    },
                    {
                        "mark": {"type": "line", "stroke": COLOUR[side], **look},
                        "encoding": {"x": {**x, "field": "at"}, "y": drawn.at(f"{side}_mean"), "tooltip": shown},
                    },
                ],
            }
        ]
        drawn.marks += _label(side, one, most, top + _HEAD_PX + 8 + 14 * row, x, drawn)
    return drawn


def _label(side: str, one: Flying, most: int, y: int, x: Spec, drawn: Lane) -> list[Spec]:
    """The piece of line that stands for a side, with its name; and its limit."""
    text = {"client": "client: wide, shaded", "server": "server: dotted"}[side]
    limit = _limit_text(one)
    marks: list[Spec] = []
    if limit and one.limit is not None and one.limit <= _FAR * most:
        text += f"; {limit}: long dashes"
        marks.append(
            {
                "data": {"values": [{"limit": one.limit}]},
                "mark": {"type": "rule", "stroke": COLOUR[side], "strokeWidth": 2, "strokeDash": [12, 5]},
                "encoding": {
                    "y": drawn.at("limit"),
                    "tooltip": tips(("limit", f"{one.limit_of or 'limit'} of the {side} (count)", ",")),
                },
            }
        )
    elif limit:
        text += f"; {limit}, far above this axis"
    marks.append(
        {
            "data": {"values": [{}]},
            "mark": {"type": "rule", "stroke": COLOUR[side], "tooltip": None, **_FLYING_LOOKS[side][2]},
            "encoding": {"x": {"value": 0}, "x2": {"value": 30}, "y": {"value": y - 4}},
        }
    )
    marks.append(words(text, {"value": 36}, {"value": y}, fontSize=11))
    return marks
