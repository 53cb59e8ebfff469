"""Report -> the distributions of latency at the client, on the network and in the server; a chart an operation."""

from __future__ import annotations

import math

from nfslat.answer.model import MatchedRow, Report, Summary
from nfslat.answer.pictures import Classes, Distribution
from nfslat.answer.words import ms
from nfslat.report.charts import legend
from nfslat.report.charts.chart import Chart, Spec
from nfslat.report.charts.style import (
    COLOUR,
    INK,
    WHOLE,
    Lane,
    channel,
    culprit_of,
    heading,
    lane,
    lanes,
    log_axis,
    rule,
    tips,
    verticals,
    words,
)
from nfslat.report.charts.waterfall import slug
from nfslat.report.sections.tables import op_label
from nfslat.report.text_layout import count_of, shorten

MOST_OPS = 8  # charts of single operations; the page's table has all
_FEWEST = 10  # ops of a chart; fewer are no distribution
_NAME = 40  # characters of an operation's name in a title
_HEAD_PX, _LABELS_PX, _BARS_PX, _GAP_PX = 18, 42, 62, 14
_LABEL_PX = 13
_HUES = {**COLOUR, "client": WHOLE}
_TITLES = {"client": "Client SRT", "network": "Network", "server": "Server SRT"}
_ROOM = 2.0  # the axis goes on to so many times the largest figure


def distributions(report: Report) -> list[Chart]:
    """All ops together, then the operations with most ops; where there is one operation only, that one."""
    if report.pictures is None:
        return []
    rows = {} if report.matched is None else {(r.program, r.op, r.version): r for r in report.matched.by_op}
    found = [one for one in report.pictures.distributions if one.ops]
    if len(found) == 2:
        found = found[1:]
    found = found[:1] + [one for one in found[1 : MOST_OPS + 1] if one.ops >= _FEWEST]
    charts = []
    taken: set[str] = set()
    domain = _domain(found, edges(report.pictures.classes))
    for one in found:
        row = rows.get((one.program, one.op, one.version))
        if one.op == "all" and report.matched is not None:
            row = report.matched.total
        label = "all operations" if one.op == "all" else f"{op_label(one.program, one.op)} v{one.version}"
        name = slug(one.op if one.op == "all" else label.removesuffix(f" v{one.version}"))
        if name in taken:
            name = slug(label)
        while name in taken:
            name += "-"
        taken.add(name)
        charts.append(
            _distribution(f"distribution-{name}", label, one, row, report.pictures.classes, domain, culprit_of(report))
        )
    return charts


def edges(classes: Classes) -> list[float]:
    """Bounds of the classes, one more than there are: the first class is drawn as wide as the others."""
    return [classes.le_ms[0] / 10 ** (1 / classes.per_decade), *classes.le_ms]


def _sides(one: Distribution) -> dict[str, list[int]]:
    return {"client": one.client, "network": one.network, "server": one.server}


def _domain(found: list[Distribution], bounds: list[float]) -> tuple[float, float]:
    """One for all charts, so that they can be compared."""
    used = [one.first + i for one in found for counts in _sides(one).values() for i, n in enumerate(counts) if n]
    return (bounds[min(used)], bounds[max(used) + 1] * _ROOM) if used else (bounds[0], bounds[-1])


def _distribution(
    name: str,
    label: str,
    one: Distribution,
    row: MatchedRow | None,
    classes: Classes,
    domain: tuple[float, float],
    culprit: str | None,
) -> Chart:
    bounds, sides = edges(classes), _sides(one)
    low, high = domain
    figures = {} if row is None else {"client": row.client_ms, "network": row.network_ms, "server": row.server_ms}
    x = channel(
        "latency",
        scale={"type": "log", "domain": [low, high], "nice": False},
        axis=log_axis("time, log scale", low, high, grid=False),
    )
    decades = x["axis"]["values"]
    keys = [
        legend.box(_TITLES["client"], _HUES["client"]),
        *(legend.layer(side, culprit, _TITLES[side]) for side in ("network", "server")),
        legend.line("percentiles", INK, strokeWidth=1.2),
    ]
    found: list[Lane] = []
    top = legend.height(keys)
    for side, counts in sides.items():
        bars = lane(
            top + _HEAD_PX + _LABELS_PX,
            _BARS_PX,
            "% of the ops",
            [0, 100 * max(1, *counts) / one.ops],
            {"tickCount": 2, "grid": False},
        )
        bars.marks.append(_bars(side, counts, one, bounds, x, bars))
        bars.marks.append(heading(_TITLES[side], top + 12))
        if side in figures:
            bars.marks += _percentiles(figures[side], domain, x, top + _HEAD_PX, bars.bottom)
        found.append(bars)
        top = bars.bottom + _GAP_PX
    height = top - _GAP_PX
    alt = f"Distribution of latency, {label}, {count_of(one.ops, 'op')}. " + "; ".join(
        f"{side}: median {ms(s.p50)} ms, 95th percentile {ms(s.p95)} ms, 99th percentile {ms(s.p99)} ms"
        for side, s in figures.items()
    )
    caption = (
        "Share of the ops by latency, in classes equally wide on a log scale; the heights of each side have a scale of "
        "their own. Network is client SRT less server SRT, op by op."
    )
    if one.first == 0 and any(counts and counts[0] for counts in sides.values()):
        caption += " The leftmost class also holds what is less, figures of zero and below it included."
    title = f"{shorten(label, _NAME)}: {count_of(one.ops, 'op')}"
    return Chart(
        name,
        title[:1].upper() + title[1:],
        caption,
        alt,
        lanes(found, height, alt, [*legend.legend(keys, 0), *verticals(decades, x)]),
        height + 50,
        "distributions",
    )


def _bars(side: str, counts: list[int], one: Distribution, bounds: list[float], x: Spec, bars: Lane) -> Spec:
    values = [
        {
            "side": side,
            "from": bounds[one.first + i],
            "to": bounds[one.first + i + 1],
            "ops": n,
            "percent": 100 * n / one.ops,
            "base": 0,
        }
        for i, n in enumerate(counts)
        if n
    ]
    return {
        "data": {"values": values},
        "mark": {"type": "rect", "fill": _HUES[side], "stroke": _HUES[side], "strokeWidth": 0.5},
        "encoding": {
            "tooltip": tips(
                ("side", "time of"),
                ("from", "more than, ms", ",.4~r"),
                ("to", "at most, ms", ",.4~r"),
                ("ops", "ops (count)", ","),
                ("percent", "share of the ops, %", ".3~r"),
            ),
            "x": {**x, "field": "from"},
            "x2": {"field": "to"},
            "y": bars.at("percent"),
            "y2": {"field": "base"},
        },
    }


def _percentiles(summary: Summary, domain: tuple[float, float], x: Spec, top: int, bottom: int) -> list[Spec]:
    """Upright lines with labels above the bars, each label on a line of its own, so that none lies on another."""
    low, high = domain
    marks = []
    figures = [("p50", summary.p50), ("p95", summary.p95), ("p99", summary.p99)]
    places = [math.log(min(max(v, low), high) / low) / math.log(high / low) for _, v in figures]
    # The outermost label on the side where labels go has the shortest line, so that no line crosses a label.
    leftward = places[-1] > 0.75
    labels = list(zip(figures, places, strict=True))
    for level, ((which, value), place) in enumerate(reversed(labels) if leftward else labels):
        at = {**x, "datum": min(max(value, low), high)}
        y = top + _LABEL_PX * (level + 1) - 3
        marks.append(rule({"x": at, "y": {"value": y - 9}, "y2": {"value": bottom}}, strokeWidth=1.2))
        off = " (left of the axis)" if value < low else " (right of the axis)" if value > high else ""
        side = {"align": "right", "dx": -4} if leftward and place > 0.3 else {"align": "left", "dx": 4}
        marks.append(words(f"{which} {ms(value)} ms{off}", at, {"value": y + 1}, fontSize=11, **side))
    return marks
