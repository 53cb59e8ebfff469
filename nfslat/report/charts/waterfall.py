"""Report -> the latency stack from the application to the storage, as bars that start where the one before ends."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from nfslat.answer.model import MatchedRow, Report, StackRow
from nfslat.answer.words import percent, stacked
from nfslat.report.charts import legend
from nfslat.report.charts.board import chart
from nfslat.report.charts.chart import Chart
from nfslat.report.charts.marks import at_px, by_side, linear, mark, on, written
from nfslat.report.charts.style import COLOUR, HUES, culprit_of, margin, spread
from nfslat.report.text_layout import count_of, shorten

_ROW_PX, _BAR_PX = 40, 16
_INDENT_PX = 14
_PALE = 0.25  # how solid what is divided is
_LAYERS = {"above the wire": "client", "network": "network", "server": "server"}
_NAMES = {"client": "client, above the wire", "network": "network", "server": "server"}
_SLUG = 60  # characters; a program of no known name can have a long one


def waterfalls(report: Report) -> list[Chart]:
    """A chart for each operation that the stack speaks of; what the captures alone tell where it speaks of none."""
    total = report.matched.total if report.matched is not None else None
    blocks: dict[str, list[StackRow]] = {}
    for row in report.stack:
        blocks.setdefault(row.op, []).append(row)
    if not blocks and total is not None:
        blocks["all"] = captured(total, None if report.inferred is None else report.inferred.side)
    return [
        _waterfall(op, rows, "waterfall" if number == 0 else f"waterfall-{number + 1}", total, culprit_of(report))
        for number, (op, rows) in enumerate(blocks.items())
    ]


def captured(total: MatchedRow, inferred: str | None = None) -> list[StackRow]:
    """The stack that two captures tell by themselves: from the client's wire into the server. `inferred`: the side
    whose capture there is not."""
    whole, server = total.client_ms.mean, total.server_ms.mean

    def row(layer: str, depth: int, value: float, source: str) -> StackRow:
        return StackRow("all", layer, depth, value, value / whole if whole > 0 else None, source)

    def source(side: str) -> str:
        return "inferred" if side == inferred else f"{side} capture"

    rows = [
        row("client SRT", 0, whole, source("client")),
        row("network", 1, total.network_ms.mean, "client SRT - server SRT"),
        row("server", 1, server, source("server")),
    ]
    if total.queue_ms:  # where no call waits, how many threads there are is not known
        rows.append(row("waiting for a thread", 2, total.queue_ms, "in-flight analysis"))
        rows.append(row("in a thread", 2, server - total.queue_ms, "in-flight analysis"))
    return rows


def _starts(rows: Sequence[StackRow]) -> list[float]:
    """Where each bar begins, ms: with the row that it is part of, or behind the one before it in there."""
    starts: list[float] = []
    open_rows: list[tuple[int, float, float]] = []  # depth, start, where its next part begins
    for row in rows:
        while open_rows and open_rows[-1][0] >= row.depth:
            open_rows.pop()
        start = open_rows[-1][2] if open_rows else 0.0
        if open_rows:
            depth, begin, _ = open_rows[-1]
            open_rows[-1] = (depth, begin, start + row.ms)
        starts.append(start)
        open_rows.append((row.depth, start, start))
    return starts


def _sides(rows: Sequence[StackRow]) -> list[str]:
    """Whose time a row is: that of the layer that it is, or is part of; of the application's, or client SRT's, nobody's
    alone."""
    found: list[str] = []
    inside = [(-1, "whole")]
    for row in rows:
        while inside[-1][0] >= row.depth:
            inside.pop()
        side = _LAYERS.get(row.layer, inside[-1][1])
        inside.append((row.depth, side))
        found.append(side)
    return found


def _waterfall(op: str, rows: list[StackRow], name: str, total: MatchedRow | None, culprit: str | None) -> Chart:
    starts, sides = _starts(rows), _sides(rows)
    keys = [legend.layer(side, culprit, _NAMES[side]) for side in COLOUR if side in sides]
    keys.append(legend.box("pale: divided by the bars below", HUES["whole"], _PALE))
    head = legend.height(keys)
    whole = [i + 1 < len(rows) and rows[i + 1].depth > row.depth for i, row in enumerate(rows)]
    values: list[dict[str, Any]] = []
    printed = stacked(rows)
    for i, (row, start) in enumerate(zip(rows, starts, strict=True)):
        share = "" if row.share is None or percent(row.share) == "-" else f" ({percent(row.share)})"
        values.append(
            {
                "label": f"{shorten(row.layer, 44)}: {printed[i]} ms{share}",
                "layer": row.layer,
                "ms": row.ms,
                "printed": printed[i],
                "start": start,
                "end": start + row.ms,
                "share": percent(row.share),
                "source": row.source,
                "side": sides[i],
                "whole": whole[i],
                "indent": _INDENT_PX * min(row.depth, 4),
                "text_y": head + _ROW_PX * i + 14,
                "top": head + _ROW_PX * i + 18,
                "bottom": head + _ROW_PX * i + 18 + _BAR_PX,
            }
        )
    height = head + _ROW_PX * len(rows) + 6
    domain = margin(spread((v for one in values for v in (one["start"], one["end"])), 0.0), 0, 0.02)
    shown = "of all matched ops" if op == "all" else f"of {shorten(op, 60)}"
    axis_title = f"time, ms (mean {shown})"
    x = linear("start, ms", domain[0], domain[1], title=axis_title, grid=True, tickCount=8)
    hue = by_side("side", "side")
    bars = mark(
        "rect",
        tip=(("layer", "layer"), ("printed", "time, ms"), ("share", "share"), ("source", "source")),
        x=on(x, "start"),
        x2="end",
        y=at_px("top"),
        y2="bottom",
        fill=hue,
        stroke=hue,
        fillOpacity={"condition": {"test": "datum.whole", "value": _PALE}, "value": 1},
        strokeWidth=1.5,
    )
    figures = "; ".join(f"{row.layer} {shown} ms" for row, shown in zip(rows, printed, strict=True))
    alt = f"Latency stack {shown}: {figures}."
    count = "" if op != "all" or total is None else f" Means over {count_of(total.count, 'matched op')}."
    caption = (
        "Each bar starts where the one before it ends. A row is part of the row above it that is less indented; pale "
        f"bars are divided by the bars below them.{count}"
    )
    layers = {row.layer for row in rows}
    ends = "application" if "application" in layers else "client", "storage" if "storage" in layers else "server"
    title = f"Latency stack, from the {ends[0]} to the {ends[1]}" + ("" if op == "all" else f": {shorten(op, 40)}")
    drawn = [*legend.legend(keys, 0), bars, written("text_y", "label", {"expr": "datum.indent + 2"})]
    return chart(name, title, caption, alt, "waterfall", drawn, height, data={"values": values})


def slug(text: str) -> str:
    """`text` as part of an `id`."""
    return re.sub(r"[^A-Za-z0-9._]+", "-", text).strip("-.")[:_SLUG] or "op"
