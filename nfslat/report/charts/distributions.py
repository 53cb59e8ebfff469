"""Report -> the distributions of latency at the client, on the network and in the server; a chart an operation."""

from __future__ import annotations

import math

from nfslat.answer.model import MatchedRow, Report, Summary
from nfslat.answer.pictures import Classes, Distribution
from nfslat.answer.words import ms
from nfslat.report.charts import legend
from nfslat.report.charts.board import Board, Lane
from nfslat.report.charts.chart import Chart
from nfslat.report.charts.marks import datum, heading, logarithmic, note, px, rule, verticals
from nfslat.report.charts.style import COLOUR, INK, WHOLE, culprit_of
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
    x = logarithmic("latency", low, high, "time, log scale")
    keys = [
        legend.box(_TITLES["client"], _HUES["client"]),
        *(legend.layer(side, culprit, _TITLES[side]) for side in ("network", "server")),
        legend.line("percentiles", INK, strokeWidth=1.2),
    ]
    board = Board(x, legend.height(keys), _GAP_PX)
    for side, counts in sides.items():
        top, domain_y = board.top, [0, 100 * max(1, *counts) / one.ops]
        ticks = {"tickCount": 2, "grid": False}
        bars = board.lane("", "% of the ops", domain_y, _BARS_PX, ticks, room=_HEAD_PX + _LABELS_PX)
        _bars(side, counts, one, bounds, bars)
        bars.marks.append(heading(_TITLES[side], top + 12))
        if side in figures:
            _percentiles(figures[side], domain, top + _HEAD_PX, bars)
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
    behind = [*legend.legend(keys, 0), *verticals(x["axis"]["values"], x)]
    return board.chart(name, title[:1].upper() + title[1:], caption, alt, "distributions", behind)


def _bars(side: str, counts: list[int], one: Distribution, bounds: list[float], bars: Lane) -> None:
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
    tip = (
        ("side", "time of"),
        ("from", "more than, ms", ",.4~r"),
        ("to", "at most, ms", ",.4~r"),
        ("ops", "ops (count)", ","),
        ("percent", "share of the ops, %", ".3~r"),
    )
    look = {"fill": _HUES[side], "stroke": _HUES[side], "strokeWidth": 0.5}
    bars.draw("rect", values, x="from", x2="to", y="percent", y2="base", tip=tip, **look)


def _percentiles(summary: Summary, domain: tuple[float, float], top: int, bars: Lane) -> None:
    """Upright lines with labels above the bars, each label on a line of its own, so that none lies on another."""
    low, high = domain
    figures = [("p50", summary.p50), ("p95", summary.p95), ("p99", summary.p99)]
    places = [math.log(min(max(v, low), high) / low) / math.log(high / low) for _, v in figures]
    # The outermost label on the side where labels go has the shortest line, so that no line crosses a label.
    leftward = places[-1] > 0.75
    labels = list(zip(figures, places, strict=True))
    for level, ((which, value), place) in enumerate(reversed(labels) if leftward else labels):
        at = datum(bars.x, min(max(value, low), high))
        y = top + _LABEL_PX * (level + 1) - 3
        bars.marks.append(rule(x=at, y=px(y - 9), y2=px(bars.bottom), strokeWidth=1.2))
        off = " (left of the axis)" if value < low else " (right of the axis)" if value > high else ""
        side = {"align": "right", "dx": -4} if leftward and place > 0.3 else {"align": "left", "dx": 4}
        bars.marks.append(note(f"{which} {ms(value)} ms{off}", at, px(y + 1), **side))
