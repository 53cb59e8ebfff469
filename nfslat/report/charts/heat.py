"""Report -> latency over time as a heat map, with the ops in flight below it, and what happened meanwhile."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from nfslat.answer.model import Report
from nfslat.answer.pictures import Classes, Flying
from nfslat.model.record import Record
from nfslat.report.charts import events, legend
from nfslat.report.charts.board import Board, Lane
from nfslat.report.charts.chart import Chart, Spec
from nfslat.report.charts.distributions import edges
from nfslat.report.charts.flying import flying_lane, limit_text
from nfslat.report.charts.marks import group, linear
from nfslat.report.charts.style import INK, STRONG, culprit_of, log_ticks
from nfslat.report.text_layout import count, count_of

_GAP_PX, _HEAT_PX = 18, 150
_ZEROS = r"(?<=\d{3})0{3}(?=Z$|\+)"  # below a microsecond
_PALEST = 0.65  # of STRONG: 3:1 against the paper
_STRENGTHS = (_PALEST, (1 + _PALEST) / 2, 1.0)


class _Row(Record):
    """A lane of the map."""

    name: str
    hue: str  # a key of STRONG
    title: str
    cells: Sequence[tuple[int, int, int]]
    means: Sequence[float | None]


class _Map(Record):
    """What the maps of two captures and of one are both made of."""

    classes: Classes
    begin: str
    bin_ms: float
    bins: int
    rows: Sequence[_Row]
    flying: dict[str, Flying]

    @property
    def bin_s(self) -> float:
        return self.bin_ms / 1e3


def time_axis(begin: str, bins: int, bin_ms: float) -> Spec:
    """The x channel of a chart over time."""
    title = ["time since the first call, s", f"begin: {re.sub(_ZEROS, '', begin)}"]
    return linear(title[0], 0.0, bins * bin_ms / 1e3 or 1.0, title=title, tickCount=10, titleLimit=600)


def heat_chart(report: Report) -> list[Chart]:
    """Latency at the client, on the network and in the server over time, or of one capture; ops in flight below."""
    found = _map_of(report)
    if found is None or not any(row.cells for row in found.rows):
        return []
    happened = events.marks(report)
    x = time_axis(found.begin, found.bins, found.bin_ms)
    bounds = edges(found.classes)
    used = [latency for row in found.rows for _, latency, _ in row.cells]
    most = max(ops for row in found.rows for *_, ops in row.cells)
    low, high = bounds[min(used)], bounds[max(used) + 1]
    keys = [
        legend.box(f"ops in a cell: 1 (palest) to {count(most)}", STRONG["whole"], *_STRENGTHS),
        legend.line("mean of each bin", INK, strokeWidth=1.3),
    ]
    above, culprit = events.height(happened, x), culprit_of(report)
    board = Board(x, above + legend.height(keys), _GAP_PX)
    for row in found.rows:
        title = f"{row.title.partition(' (')[0]}: the fault is here" if row.hue == culprit else row.title
        one = board.lane(title, "time, log scale", [low, high], _HEAT_PX, log_ticks(low, high, grid=True), type="log")
        _cells(row, found, bounds, one, most)
        _line(row, found.bin_s, one, low, high)
    board.lanes[0].marks += legend.legend(keys, above)
    flying_lane(board, found.flying, found.bin_s)
    # For the page's table of the figures: what the three numbers of a cell stand for.
    cells_are = {"cells": {"bin_s": found.bin_s, "bounds_ms": bounds}}
    alt, caption = _alt(found, happened), _caption(found)
    if min(used) == 0:
        caption += " The lowest cells also hold what took less, figures of zero and below it included."
    behind = events.drawn(happened, x, board.lanes)
    return [board.chart("heat", "Latency over time", caption, alt, "heat", behind, usermeta=cells_are)]


def _map_of(report: Report) -> _Map | None:
    if report.pictures is not None:
        over = report.pictures.over_time
        rows = [
            _Row("client", "whole", "Client SRT", over.heat.client, over.client_ms),
            _Row("network", "network", "Network (client SRT - server SRT)", over.heat.network, over.network_ms),
            _Row("server", "server", "Server SRT", over.heat.server, over.server_ms),
        ]
        flying = {"client": over.client, "server": over.server}
        return _Map(report.pictures.classes, over.begin, over.bin_ms, over.bins, rows, flying)
    one = report.alone
    if one is None:
        return None
    rows = [_Row("capture", "whole", "SRT at this capture", one.heat, one.srt_ms)]
    return _Map(one.classes, one.begin, one.bin_ms, one.bins, rows, {"capture": one.flying})


def _alt(found: _Map, happened: Sequence[events.Mark]) -> str:
    names = ", ".join(row.title for row in found.rows)
    limits = ". ".join(
        f"In flight, {side}: {limit_text(one) or 'no limit is known'}" for side, one in found.flying.items()
    )
    text = f"Latency over time in {count_of(found.bins, 'bin')} of {found.bin_ms:g} ms: {names}. {limits}."
    return text + "".join(f" {one.letter}: {one.text}, {one.begin_s:.3f} s." for one in happened if one.letter)


def _caption(found: _Map) -> str:
    text = (
        f"Each cell holds the ops whose call was sent in those {found.bin_ms:g} ms and that took so long. "
        "In flight: calls sent, replies not yet seen."
    )
    if len(found.rows) > 1:
        text += " What shows in the client's lane must show in the network's or the server's too."
    return text


def _cells(row: _Row, found: _Map, bounds: list[float], one: Lane, most: int) -> None:
    seconds = found.bin_s
    strength = {
        "field": "ops",
        "type": "quantitative",
        "scale": {"type": "log", "domain": [1, max(most, 2)], "range": [_PALEST, 1]},
        "legend": None,
        "title": "ops (count)",
    }
    one.draw(
        "rect",
        # Rows of three numbers, for there are thousands of them; the bounds are looked up where they are drawn.
        [list(cell) for cell in row.cells],
        name=f"Cells: {row.title}",
        calculate={
            "from": f"datum[0] * {seconds!r}",
            "to": f"(datum[0] + 1) * {seconds!r}",
            "above": f"{bounds}[datum[1]]",
            "most": f"{bounds}[datum[1] + 1]",
            "ops": "datum[2]",
        },
        tip=(
            ("from", "sent from, s", ",.6~r"),
            ("to", "sent until, s", ",.6~r"),
            ("above", "latency more than, ms", ",.4~r"),
            ("most", "latency at most, ms", ",.4~r"),
            ("ops", "ops (count)", ","),
        ),
        x="from",
        x2="to",
        y="above",
        y2="most",
        fillOpacity=strength,
        fill=STRONG[row.hue],
        aria=False,
    )


def _line(row: _Row, seconds: float, one: Lane, low: float, high: float) -> None:
    """The mean of each bin; a gap where there is none, or none that a log scale has a place for."""
    name = f"{row.name}_ms"
    values: list[dict[str, Any]] = [
        {"at": (i + 0.5) * seconds, name: mean if mean is not None and low <= mean <= high else None}
        for i, mean in enumerate(row.means)
    ]
    # A bin between empty ones is no line: the dots show it. The halo keeps the line apart from strong cells.
    gaps = {"type": "line", "invalid": "break-paths-show-path-domains"}
    marks = (
        {**gaps, "strokeWidth": 2.6, "strokeOpacity": 0.6, "style": "halo", "tooltip": None},
        {**gaps, "strokeWidth": 1.3, "style": "inked"},
        {"type": "point", "size": 9, "filled": True, "style": "inked", "aria": False},
    )
    tip = ("at", "middle of the bin, s", ",.6~r"), (name, f"{row.name}, mean, ms", ",.4~r")
    encoding = one.made("", x="at", y=name, tip=tip)["encoding"]
    layers = [{"mark": mark} for mark in marks]
    one.marks.append(group(values, name=f"Means: {row.title}", encoding=encoding, layer=layers))
