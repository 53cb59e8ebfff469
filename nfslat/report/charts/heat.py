"""Report -> latency over time as a heat map, with the ops in flight below it."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from nfslat.answer.model import Report
from nfslat.answer.pictures import Flying, OverTime, Pictures
from nfslat.report.charts.chart import Chart, Spec
from nfslat.report.charts.distributions import edges
from nfslat.report.charts.style import (
    COLOUR,
    DASH,
    PLAIN,
    STRONG,
    Lane,
    channel,
    counted,
    heading,
    lane,
    lanes,
    log_axis,
    rule,
    tips,
    words,
)
from nfslat.report.text_layout import count

_HEAD_PX, _GAP_PX = 22, 18
_HEAT_PX, _FLYING_PX = 150, 110
_ZEROS = r"(?<=\d{3})0{3}(?=Z$|\+)"  # below a microsecond
_PALEST = 0.65  # of STRONG: 3:1 against the paper
_FAR = 4  # a limit so many times higher than what is in flight would flatten it
_TITLES = {"client": "Client SRT", "network": "Network (client SRT - server SRT)", "server": "Server SRT"}


def time_axis(over: OverTime, seconds: float | None = None) -> Spec:
    """The x channel of a chart over time."""
    end = over.bins * over.bin_ms / 1e3 if seconds is None else seconds
    title = ["time since the first call, s", f"begin: {re.sub(_ZEROS, '', over.begin)}"]
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
        axis = log_axis("time, log scale", low, high, grid=True)
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
        f"Each cell holds the ops whose call was sent in those {over.bin_ms:g} ms and that took so long, from 1 "
        f"(palest) to {count(most)} (strongest); the line is the mean. What shows in the lane of the client must show "
        "in that of the network or of the server, too. In flight: thick lines are means, thin lines the most at once, "
        "that of the client with a shade below."
    )
    if min(used) == 0:
        caption += " The lowest cells also hold what took less, figures of zero and below it included."
    # For the page's table of the figures: what the three numbers of a cell stand for.
    cells_are = {"cells": {"bin_s": over.bin_ms / 1e3, "bounds_ms": bounds}}
    spec = lanes(found, height, alt, usermeta=cells_are)
    return [Chart("heat", "Latency over time", caption, alt, spec, height + 50, "heat")]


def _cells(side: str, rows: Sequence[tuple[int, int, int]], pictures: Pictures, x: Spec, one: Lane, most: int) -> Spec:
    # Rows of three numbers, for there are thousands of them; the bounds are looked up where they are drawn.
    bounds = edges(pictures.classes)
    seconds = pictures.over_time.bin_ms / 1e3
    return {
        "description": f"Cells: {_TITLES[side]}",
        "data": {"values": [list(row) for row in rows]},
        "transform": [
            {"calculate": f"datum[0] * {seconds!r}", "as": "from"},
            {"calculate": f"(datum[0] + 1) * {seconds!r}", "as": "to"},
            {"calculate": f"{bounds}[datum[1]]", "as": "above"},
            {"calculate": f"{bounds}[datum[1] + 1]", "as": "most"},
            {"calculate": "datum[2]", "as": "ops"},
        ],
        "mark": {"type": "rect", "fill": STRONG[side], "aria": False},
        "encoding": {
            "x": {**x, "field": "from"},
            "x2": {"field": "to"},
            "y": one.at("above"),
            "y2": {"field": "most"},
            "fillOpacity": {
                "field": "ops",
                "type": "quantitative",
                "scale": {"type": "log", "domain": [1, max(most, 2)], "range": [_PALEST, 1]},
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
    # A bin between empty ones is no line: the dots show it. The halo keeps the line apart from strong cells.
    gaps = {"type": "line", "invalid": "break-paths-show-path-domains"}
    marks = (
        {**gaps, "strokeWidth": 2.6, "strokeOpacity": 0.6, "style": "halo", "tooltip": None},
        {**gaps, "strokeWidth": 1.3, "style": "inked"},
        {"type": "point", "size": 9, "filled": True, "style": "inked", "aria": False},
    )
    return {
        "description": f"Means: {_TITLES[side]}",
        "data": {"values": values},
        "encoding": {
            "tooltip": tips(("at", "middle of the bin, s", ",.6~r"), (f"{side}_ms", f"{side}, mean, ms", ",.4~r")),
            "x": {**x, "field": "at"},
            "y": one.at(f"{side}_ms"),
        },
        "layer": [{"mark": mark} for mark in marks],
    }


def _limit_text(flying: Flying) -> str:
    if flying.limit is None:
        return ""
    return f"limit {counted(flying.limit, flying.limit_of or '')}".rstrip()


_FLYING_LOOKS: dict[str, tuple[float, float, Spec]] = {
    "client": (0.18, 1, {"strokeWidth": 6, "strokeOpacity": 0.75}),
    "server": (0, 1, {"strokeWidth": 2, "strokeDash": DASH["server"]}),
}


def _flying(over: OverTime, x: Spec, top: int) -> Lane:
    both = {"client": over.client, "server": over.server}
    most = max([1, *(n for one in both.values() for n in one.max)])
    limits = [one.limit for one in both.values() if one.limit is not None and one.limit <= _FAR * most]
    # A line of labels above the lane for each side, and for each limit.
    lines = len(both) + sum(one.limit is not None for one in both.values())
    drawn = lane(
        top + _HEAD_PX + 2 + _LABEL_PX * lines,
        _FLYING_PX,
        "ops in flight",
        [0, max([most, *limits]) * 1.05],
        {"format": PLAIN, "tickCount": 5, "tickMinStep": 1},
    )
    drawn.marks.append(heading("In flight", top + 14))
    seconds = over.bin_ms / 1e3
    label = top + _HEAD_PX + 8
    for side, one in both.items():
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
                "description": f"In flight at the {side}",
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
        drawn.marks += _key(f"{side}: {_WORDS[side]}", label, side, look)
        label += _LABEL_PX
        if one.limit is not None:
            drawn.marks += _limit(side, one, most, label, drawn)
            label += _LABEL_PX
    return drawn


_WORDS = {"client": "wide line, shade", "server": "dotted line"}
_LABEL_PX = 14
_LIMIT_LOOK: Spec = {"strokeWidth": 2, "strokeDash": [12, 5]}


def _limit(side: str, one: Flying, most: int, y: int, drawn: Lane) -> list[Spec]:
    """The limit of a side as a line, where the axis has a place for it; and its label."""
    text = f"{side}: {_limit_text(one)}"
    if one.limit is None or one.limit > _FAR * most:
        return [words(f"{text}, above this axis", {"value": 36}, {"value": y}, fontSize=11)]
    line = {
        "data": {"values": [{"limit": one.limit}]},
        "mark": {"type": "rule", "stroke": COLOUR[side], **_LIMIT_LOOK},
        "encoding": {
            "y": drawn.at("limit"),
            "tooltip": tips(("limit", f"{one.limit_of or 'limit'} of the {side} (count)", ",")),
        },
    }
    return [line, *_key(f"{text}, long dashes", y, side, _LIMIT_LOOK)]


def _key(text: str, y: int, side: str, look: Spec) -> list[Spec]:
    """The piece of line that stands for something, with its name."""
    at = {"x": {"value": 0}, "x2": {"value": 30}, "y": {"value": y - 4}}
    return [rule(at, stroke=COLOUR[side], **look), words(text, {"value": 36}, {"value": y}, fontSize=11)]
