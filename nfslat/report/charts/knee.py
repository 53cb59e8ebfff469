"""Report -> throughput against the ops in flight, of both sides: where more of them bring no more."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from nfslat.answer.model import InFlight, Level, Report
from nfslat.answer.words import percent
from nfslat.report.charts.board import Board, Lane
from nfslat.report.charts.chart import Chart, Spec
from nfslat.report.charts.marks import Tip, beside, datum, group, linear, note, px, rule, words
from nfslat.report.charts.style import COLOUR, DASH, PLAIN, counted
from nfslat.report.text_layout import count

_LEAST_SHARE = 0.01  # of the time; what is said of less is chance
_FAR = 1.5  # a limit so many times higher than what was in flight is not on the axis
_LABEL_PX, _PLOT_PX = 15, 260


def knee_chart(report: Report) -> list[Chart]:
    """One chart, where ops were in flight; of one capture, which shows one of the sides."""
    if report.inflight is None:
        return []
    two = "capture" not in report.captures
    found = _sides(report.inflight) if two else {"capture": _sides(report.inflight)["server"]}
    levels = {side: [one for one in rows if one.share >= _LEAST_SHARE] or rows for side, (rows, _, _) in found.items()}
    shown = [one for rows in levels.values() for one in rows]
    if max((len(rows) for rows in levels.values()), default=0) < 2:  # nothing to compare
        return []
    largest = max(one.share for one in shown)
    most, fastest = max(one.in_flight for one in shown), max(one.ops_per_s for one in shown)
    limits = [limit for _, _, limit in found.values() if limit is not None and limit <= _FAR * most]
    marked = [
        (side, number, text, dash)
        for side, (_, knee, limit) in found.items()
        for number, text, dash in (
            (limit if limit in limits else None, f"{side}: limit {counted(limit or 0, _WHAT[side])}", [12, 5]),
            (knee, f"{side}: knee at {count(knee or 0)}", [1, 3]),
        )
        if number is not None
    ]
    end = max([most, *limits]) * 1.05
    board = Board(linear("in flight, ops", 0, end, title="in flight at once, ops", values=_whole(end)))
    top, domain = _LABEL_PX * (len(found) + len(marked)) + 10, [0, fastest * 1.08 or 1.0]
    drawn = board.lane("", "answered, ops/s", domain, _PLOT_PX, {"format": PLAIN, "tickCount": 6}, room=top)
    for row, side in enumerate(found):
        _dots(drawn, side, levels[side], largest)
        drawn.marks += line_key(_KEYS[side], COLOUR[_hue(side)], DASH[_hue(side)], _LABEL_PX * row + 12)
    for row, (side, number, text, dash) in enumerate(marked, len(found)):
        at, y = datum(board.x, number), _LABEL_PX * row + 12
        look = {"stroke": COLOUR[_hue(side)], "strokeWidth": 2, "strokeDash": dash}
        drawn.marks.append(rule(x=at, y=px(y - 9), y2=px(drawn.bottom), **look))
        drawn.marks.append(note(text, at, px(y), **beside(number / end)))
    said = [_said(side, levels[side], knee, limit) for side, (_, knee, limit) in found.items()]
    alt = "Throughput against ops in flight. " + " ".join(said)
    caption = (
        "How many ops were answered a second while so many were in flight; the larger a dot, the more of the time. "
        "Where the line goes flat from one large dot to the next, more ops in flight only wait. Small dots are "
        "moments, a start or a burst of replies, and say little of the load. Levels with less than 1 % of the time are "
        "left out."
    )
    return [board.chart("knee", "Throughput against ops in flight", caption, alt, "knee")]


def _whole(end: float) -> list[int]:
    """About ten whole numbers from 0 to `end`."""
    rough = max(end / 10, 1.0)
    power = 10 ** math.floor(math.log10(rough))
    step = next(power * one for one in (1, 2, 5, 10) if power * one >= rough)
    return list(range(0, math.floor(end) + 1, step))


def _sides(one: InFlight) -> dict[str, tuple[list[Level], int | None, int | None]]:
    """Side -> levels, knee, limit."""
    return {
        "client": (one.client.levels, one.client.knee, one.client.slots_estimate),
        "server": (one.server.levels, one.server.knee, one.server.threads_estimate),
    }


def _said(side: str, rows: list[Level], knee: int | None, limit: int | None) -> str:
    if not rows:
        return f"{side}: nothing in flight."
    usual = max(rows, key=lambda one: one.share)
    text = f"{side}: most often ({percent(usual.share)} of the time) {count(usual.in_flight)} in flight"
    text += f", {usual.ops_per_s:,.0f} ops/s"
    text += "" if knee is None else f"; knee at {count(knee)}"
    return text + ("" if limit is None else f"; limit {count(limit)}") + "."


_WHAT = {"client": "slots", "server": "threads", "capture": "threads"}
_KEYS = {"client": "client: circles, solid line", "server": "server: diamonds, dotted line", "capture": "this capture"}


def _hue(side: str) -> str:
    return side if side in COLOUR else "client"


def _dots(drawn: Lane, side: str, rows: list[Level], largest: float) -> None:
    values = [
        {"side": side, "in_flight": one.in_flight, "ops_per_s": one.ops_per_s, "share": one.share} for one in rows
    ]
    size = {
        "field": "share",
        "type": "quantitative",
        "scale": {"domain": [0, largest or 1.0], "range": [14, 420]},
        "legend": None,
        "title": "share of the time",
    }
    tip = (
        ("side", "capture of"),
        ("in_flight", "in flight, ops", ","),
        ("ops_per_s", "answered, ops/s", ",.4~r"),
        ("share", "share of the time", ".1%"),
    )
    shape = "diamond" if side == "server" else "circle"
    line_and_dots(drawn, values, "in_flight", "ops_per_s", (COLOUR[_hue(side)], DASH[_hue(side)], shape), tip, size)


def line_and_dots(
    drawn: Lane,
    values: Sequence[dict[str, Any]],
    x: str,
    y: str,
    look: tuple[str, list[int], str],
    tip: Sequence[Tip],
    size: Spec | float,
) -> None:
    """A line with a dot for each of its points; `look` is colour, dash and shape."""
    colour, dash, shape = look
    dots: Spec = {"fill": colour, "stroke": None, "fillOpacity": 0.9, "shape": shape}
    layers = [
        drawn.made("line", x=x, y=y, stroke=colour, strokeWidth=2, strokeDash=dash),
        drawn.made("point", x=x, y=y, size=size, tip=tip, **dots),
    ]
    drawn.marks.append(group(values, layer=layers))


def line_key(text: str, colour: str, dash: list[int], y: int) -> list[Spec]:
    """The piece of line that stands for one, with its name."""
    line = rule(x=px(0), x2=px(30), y=px(y - 4), stroke=colour, strokeWidth=2, strokeDash=dash)
    return [line, words(text, px(36), px(y))]
