"""A `Series` -> one self-contained HTML page in the style of the report's, and its pictures: the parts of the latency
by load, and what is done and in flight meanwhile."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

from nfslat.answer.words import ms
from nfslat.report.charts.chart import Chart, Spec
from nfslat.report.charts.style import COLOUR, DASH, PLAIN, WHOLE, Lane, beside, channel, lane, lanes, rule, tips, words
from nfslat.report.html.blocks import shown
from nfslat.report.html.page import filled
from nfslat.report.png import pngs, titled
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
        "series.html",
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
    pictures = charts(found)
    for chart, picture in zip(pictures, pngs([titled(one) for one in pictures], culprit(found)), strict=True):
        (directory / f"{chart.id}.png").write_bytes(picture)


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
    keys = ["whole", *rows[0]]
    top = _KEY_PX * len(keys) + 24
    domain = [min(0.0, *(value for of in rows for value in of.values())), max(wholes) * 1.05 or 1.0]
    drawn = lane(top, _PLOT_PX, "mean, ms", domain, {"format": PLAIN, "tickCount": 6})
    named = {
        "whole": "application" if found.top == "application" else "client SRT",
        **{name: one.words for name, one in parts_down_to(found.bottom).items()},
    }
    for row, key in enumerate(keys):
        values = wholes if key == "whole" else [of[key] for of in rows]
        drawn.marks += [*_key(key, named[key], row * _KEY_PX + 12), _line(found, key, named[key], values, x, at, drawn)]
    if found.verdict.from_load is not None and at[0] is not None:
        drawn.marks += _from(found, x, drawn)
    found_lanes = [drawn]
    rates = [point.ops_per_s for point in found.points]
    if all(rate is not None for rate in rates):
        below = lane(drawn.bottom + _GAP_PX + 20, _RATE_PX, "ops/s", [0, max(r or 0.0 for r in rates) * 1.08 or 1.0],
                     {"format": PLAIN, "tickCount": 3})  # fmt: skip
        below.marks += [
            words("Answered, ops/s of busy time", {"value": 0}, {"value": below.top - 8}, style="heading"),
            _line(found, "whole", "ops/s", [r or 0.0 for r in rates], x, at, below),
        ]
        found_lanes.append(below)
    height = found_lanes[-1].bottom
    alt = "Latency by load. " + " ".join(
        f"{label(found, point)}: {ms(whole)} ms." for point, whole in zip(found.points, wholes, strict=True)
    )
    caption = (
        "Means of each run, and what they consist of: the parts sum to the highest line. What grows makes it grow. "
        "Below: operations that were answered a second; where that goes flat, a limit is reached."
    )
    return [Chart("series", "Latency by load", caption, alt, lanes(found_lanes, height, alt), height + 60, "series")]


def _x(found: Series) -> tuple[Spec, list[float | None]]:
    """The channel, and where each run stands: by load, or one behind the other."""
    loads = [point.load for point in found.points]
    if None not in loads:
        end = max(load or 0.0 for load in loads) * 1.04 or 1.0
        scale = {"domain": [0, end], "nice": False, "zero": False}
        axis: Spec = {"title": visible(found.unit), "format": PLAIN, "grid": False, "values": [*dict.fromkeys(loads)]}
        return channel(found.unit, scale=scale, axis=axis), loads
    last = len(loads) - 1
    labels = [visible(shorten(point.name, 14)) for point in found.points]
    named = f"{json.dumps(labels)}[datum.value]"
    axis = {"title": "run", "values": list(range(len(loads))), "labelExpr": named, "grid": False}
    scale = {"domain": [-0.2, last + 0.2], "nice": False, "zero": False}
    return channel("run", scale=scale, axis=axis), [None] * len(loads)


def _line(found: Series, key: str, name: str, values: list[float], x: Spec, at: list[float | None], on: Lane) -> Spec:
    colour, dash, shape = _STYLE[key]
    rows: list[dict[str, Any]] = [
        {"x": place if load is None else load, "run": visible(point.name), "load": label(found, point), "value": value}
        for place, (point, load, value) in enumerate(zip(found.points, at, values, strict=True))
    ]
    where = {"x": {**x, "field": "x"}, "y": on.at("value")}
    shown = tips(("run", "run"), ("load", visible(found.unit)), ("value", name, ",.4~r"))
    mark = {"type": "point", "fill": colour, "stroke": None, "fillOpacity": 0.9, "shape": shape, "size": 70}
    return {
        "data": {"values": rows},
        "layer": [
            {"mark": {"type": "line", "stroke": colour, "strokeWidth": 2, "strokeDash": dash}, "encoding": where},
            {"mark": mark, "encoding": {"tooltip": shown, **where}},
        ],
    }


def _key(key: str, name: str, y: int) -> list[Spec]:
    colour, dash, _ = _STYLE[key]
    at = {"x": {"value": 0}, "x2": {"value": 30}, "y": {"value": y - 4}}
    return [rule(at, stroke=colour, strokeWidth=2, strokeDash=dash), words(name, {"value": 36}, {"value": y})]


def _from(found: Series, x: Spec, drawn: Lane) -> list[Spec]:
    """The load from which it grows."""
    load = found.verdict.from_load or 0.0
    end = x["scale"]["domain"][1]
    where = {**x, "datum": load}
    line = {"x": where, "y": {"value": drawn.top - 12}, "y2": {"value": drawn.bottom}}
    text = f"grows above {of_loads(load, found.unit)}" if found.unit != "load" else f"grows above {amount(load)}"
    return [
        rule(line, style="inked", strokeWidth=1.5, strokeDash=[8, 4]),
        words(text, where, {"value": drawn.top - 4}, fontSize=11, **beside(load / end)),
    ]
