"""A `Series` -> one self-contained HTML page in the style of the report's, and its pictures: the parts of the latency
by load, and what is done and in flight meanwhile."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

from nfslat.answer.words import ms
from nfslat.report.charts.board import Board, Lane
from nfslat.report.charts.chart import Chart, Spec
from nfslat.report.charts.knee import line_and_dots, line_key
from nfslat.report.charts.marks import beside, datum, heading, linear, note, px, rule
from nfslat.report.charts.style import COLOUR, DASH, PLAIN, WHOLE
from nfslat.report.html.blocks import shown
from nfslat.report.html.page import filled
from nfslat.report.png import write_charts
from nfslat.report.text_layout import shorten, visible
from nfslat.series.model import Series
from nfslat.series.points import parts_of
from nfslat.series.sections import growth_section, label, runs_section, steps_section
from nfslat.series.words import PARTS, amount, of_loads, parts_down_to

_PACKAGE = "nfslat.series"
_KEY_PX, _PLOT_PX, _RATE_PX, _GAP_PX = 15, 260, 90, 34
_STYLE: dict[str, tuple[str, list[int], str]] = {  # colour, dash and shape of each line
    "whole": (WHOLE, [1, 0], "circle"),
    "above": (COLOUR["client"], DASH["client"], "circle"),
    "network": (COLOUR["network"], DASH["network"], "square"),
    "queue": (COLOUR["server"], [1, 0], "diamond"),
    "beyond": (COLOUR["server"], [8, 3], "triangle-up"),
    "in_thread": (COLOUR["server"], DASH["server"], "triangle-down"),
}


def render(found: Series) -> str:
    """The page, ending in a newline; it asks no network.

    Raises ``UsageError`` where the libraries of the extra ``html`` are not installed.
    """
    sections = {"runs": runs_section, "growth": growth_section, "steps": steps_section}
    blocks = {name: shown(make(found)) for name, make in sections.items()}
    names = {"runs": "The runs", "growth": "What grows", "steps": "Run by run"}
    return filled(
        "series",
        charts(found),
        package=_PACKAGE,
        series=found,
        title=f"NFS latency by load: {len(found.points)} runs",
        layer=culprit(found) or "unknown",
        blocks=blocks,
        contents=[
            ("answer", "Answer"),
            ("picture", "Picture"),
            *((name, names[name]) for name, of in blocks.items() if of),
            *([("notes", "What to know")] if found.notes else []),
        ],
        names=names,
        tool={"version": found.nfslat, "engine": found.engine, "command": found.command},
    )


def write_png(found: Series, directory: Path) -> None:
    """One PNG a chart."""
    write_charts(charts(found), directory, culprit(found))


def culprit(found: Series) -> str | None:
    """The layer that makes the growth."""
    verdict = found.verdict
    grows = verdict.outcome in ("from-load", "throughout", "cannot-tell")
    return PARTS[verdict.part].layer if grows and verdict.part is not None else None


def charts(found: Series) -> list[Chart]:
    """One picture of two lanes; none for a single point."""
    if len(found.points) < 2:
        return []
    rows = [parts_of(point, found.top, found.bottom) for point in found.points]
    wholes = [math.fsum(of.values()) for of in rows]
    x, at = _x(found)
    keys, board = ["whole", *rows[0]], Board(x, gap=_GAP_PX)
    domain = [min(0.0, *(value for of in rows for value in of.values())), max(wholes) * 1.05 or 1.0]
    ticks = {"format": PLAIN, "tickCount": 6}
    drawn = board.lane("", "mean, ms", domain, _PLOT_PX, ticks, room=_KEY_PX * len(keys) + 24)
    named = {
        "whole": "application" if found.top == "application" else "client SRT",
        **{name: one.words for name, one in parts_down_to(found.bottom).items()},
    }
    for row, key in enumerate(keys):
        values, (colour, dash, _) = wholes if key == "whole" else [of[key] for of in rows], _STYLE[key]
        drawn.marks += line_key(named[key], colour, dash, row * _KEY_PX + 12)
        _line(found, key, named[key], values, at, drawn)
    if found.verdict.from_load is not None and at[0] is not None:
        drawn.marks += _from(found, drawn)
    rates = [point.ops_per_s for point in found.points]
    if all(rate is not None for rate in rates):
        top, domain = board.top, [0, max(r or 0.0 for r in rates) * 1.08 or 1.0]
        below = board.lane("", "ops/s", domain, _RATE_PX, {"format": PLAIN, "tickCount": 3}, room=20)
        below.marks.append(heading("Answered, ops/s of busy time", top + 12))
        _line(found, "whole", "ops/s", [r or 0.0 for r in rates], at, below)
    alt = "Latency by load. " + " ".join(
        f"{label(found, point)}: {ms(whole)} ms." for point, whole in zip(found.points, wholes, strict=True)
    )
    caption = (
        "Means of each run, and what they consist of: the parts sum to the highest line. What grows makes it grow. "
        "Below: operations that were answered a second; where that goes flat, a limit is reached."
    )
    return [board.chart("series", "Latency by load", caption, alt, "series")]


def _x(found: Series) -> tuple[Spec, list[float | None]]:
    """The channel, and where each run stands: by load, or one behind the other."""
    loads = [point.load for point in found.points]
    if None not in loads:
        end = max(load or 0.0 for load in loads) * 1.04 or 1.0
        return linear(found.unit, 0, end, title=visible(found.unit), values=[*dict.fromkeys(loads)]), loads
    last = len(loads) - 1
    labels = [visible(shorten(point.name, 14)) for point in found.points]
    named = f"{json.dumps(labels)}[datum.value]"
    axis = {"title": "run", "values": list(range(len(loads))), "labelExpr": named, "grid": False}
    return {**linear("run", -0.2, last + 0.2), "axis": axis}, [None] * len(loads)


def _line(found: Series, key: str, name: str, values: list[float], at: list[float | None], drawn: Lane) -> None:
    rows: list[dict[str, Any]] = [
        {"x": place if load is None else load, "run": visible(point.name), "load": label(found, point), "value": value}
        for place, (point, load, value) in enumerate(zip(found.points, at, values, strict=True))
    ]
    tip = ("run", "run"), ("load", visible(found.unit)), ("value", name, ",.4~r")
    line_and_dots(drawn, rows, "x", "value", _STYLE[key], tip, 70)


def _from(found: Series, drawn: Lane) -> list[Spec]:
    """The load from which it grows."""
    load = found.verdict.from_load or 0.0
    where, side = datum(drawn.x, load), beside(load / drawn.x["scale"]["domain"][1])
    text = f"grows above {of_loads(load, found.unit)}" if found.unit != "load" else f"grows above {amount(load)}"
    look = {"style": "inked", "strokeWidth": 1.5, "strokeDash": [8, 4]}
    return [
        rule(x=where, y=px(drawn.top - 12), y2=px(drawn.bottom), **look),
        note(text, where, px(drawn.top - 4), **side),
    ]
