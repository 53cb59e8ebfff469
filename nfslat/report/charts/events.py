"""Report -> what happened while it was captured, in words, and its marks on axes of time."""

from __future__ import annotations

import string
from collections.abc import Sequence
from datetime import datetime
from typing import Any

from nfslat.answer.model import Report
from nfslat.answer.pictures import Event
from nfslat.answer.words import ms
from nfslat.findings.catalogue import row
from nfslat.model.record import Record
from nfslat.model.units import to_s
from nfslat.report.charts.board import Lane
from nfslat.report.charts.chart import Spec
from nfslat.report.charts.legend import LINE_PX
from nfslat.report.charts.marks import at_px, group, mark, note, on, px, text_of
from nfslat.report.charts.style import CULPRIT, INK
from nfslat.report.text_layout import count, duration

_MOST = 8  # that are marked; the table has all
_ROWS, _NEAR = 3, 0.03  # of the axis: letters that are nearer stand below each other


class Mark(Record):
    """`begin_s` is since the axis begins; `end_s` None: a moment. `letter` is empty where it is only in the table."""

    letter: str
    kind: str
    begin_s: float
    end_s: float | None
    at: str
    text: str
    is_cause: bool  # the verdict names it


def marks(report: Report) -> list[Mark]:
    """In order of time; those that last longest have letters, where there are many."""
    over = report.pictures.over_time if report.pictures is not None else report.alone
    if over is None:
        return []
    found = [
        *(_event(one) for one in over.events),
        *_steps(report, over.begin),
        *_phases(report, over.begin),
        *_hangs(report, over.begin),
        *_recoveries(report, over.begin),
    ]
    end = over.bins * over.bin_ms / 1e3
    seen = sorted((one for one in found if one[1] <= end and (one[2] or one[1]) >= 0), key=lambda one: (one[1], one[0]))
    longest = sorted(range(len(seen)), key=lambda at: -_length(seen[at]))[:_MOST]
    letters = dict(zip(sorted(longest), string.ascii_uppercase, strict=False))
    verdict = report.verdict
    cause = None if verdict is None or verdict.outcome != "fault" else verdict.cause
    blamed = "" if cause is None else row(cause).event
    return [
        Mark(letters.get(at, ""), kind, begin, stop, when, text, kind == blamed)
        for at, (kind, begin, stop, when, text) in enumerate(seen)
    ]


_Found = tuple[str, float, float | None, str, str]  # kind, begin, end, when, words


def _length(one: _Found) -> float:
    """Moments come first: steps and phases divide what is seen."""
    return float("inf") if one[2] is None else one[2] - one[1]


def _event(one: Event) -> _Found:
    long = duration(one.ms)
    text = {
        "pause": f"{one.side}'s host paused, {long}",
        "no-connection": f"no connection, {long}",
        "loss": f"losses, sent by the {one.side}, {duration(one.cost_ms or 0.0)}",
    }[one.what]
    return one.what, one.at_s, one.at_s + one.ms / 1e3, one.at, text


def _steps(report: Report, begin: str) -> list[_Found]:
    steps = [] if report.clock is None else report.clock.steps
    return [("clock-step", _since(one.at, begin), None, one.at, f"clock set: theta {one.ms:+,.3f} ms") for one in steps]


def _phases(report: Report, begin: str) -> list[_Found]:
    return [
        ("phase", _since(one.begin, begin), None, one.begin, f"phase {number}: mean {ms(one.client_ms)} ms")
        for number, one in enumerate(report.phases[1:], 2)
    ]


def _hangs(report: Report, begin: str) -> list[_Found]:
    clock = report.clock
    found: list[_Found] = []
    for one in report.hangs or ():
        ahead_s = (clock.theta_ms or 0.0) / 1e3 if clock is not None and one.capture == "server" else 0.0
        at = _since(one.since, begin) - ahead_s
        what = "window stays shut" if one.awaits == "window" else "data unacknowledged"
        found.append(("hang", at, at + one.ms / 1e3, one.since, f"{what}, {duration(one.ms)}"))
    return found


def _recoveries(report: Report, begin: str) -> list[_Found]:
    found: list[_Found] = []
    for one in () if report.outcomes is None else report.outcomes.recoveries:
        at = _since(one.at, begin)
        found.append(("recovery", at, at + one.ms / 1e3, one.at, f"lost state re-established, {duration(one.ms)}"))
    return found


def _since(at: str, begin: str) -> float:
    return to_s(moment_ns(at) - moment_ns(begin))


def moment_ns(iso: str) -> int:
    """Of an ISO 8601 time; datetime knows microseconds, what is behind them is not seen here."""
    return round(datetime.fromisoformat(iso).timestamp() * 1e6) * 1000


# ---- on an axis ----


def height(found: Sequence[Mark], x: Spec) -> int:
    """Pixels above the lanes."""
    shown = [one for one in found if one.letter]
    lines = len(shown) + (len(found) > len(shown)) + max(_levels(shown, x), default=-1) + 1
    return LINE_PX * lines + 8 if shown else 0


def drawn(found: Sequence[Mark], x: Spec, over: Sequence[Lane]) -> list[Spec]:
    """In each lane a dashed line where each begins, and a shade while it lasts; above them what the letters mean, and
    the letters."""
    shown = [one for one in found if one.letter]
    if not shown:
        return []
    levels = _levels(shown, x)
    letters_px = height(found, x) - LINE_PX * (max(levels) + 1) - 2
    low, high = x["scale"]["domain"]
    values = [
        {
            "letter": one.letter,
            "what": one.text,
            "begin": min(max(one.begin_s, low), high),
            "end": min(max(one.begin_s if one.end_s is None else one.end_s, low), high),
            "is_cause": one.is_cause,
            "line": LINE_PX * row + 10,
            "level": letters_px + LINE_PX * level + 10,
        }
        for row, (one, level) in enumerate(zip(shown, levels, strict=True))
    ]
    tip = ("what", "event, what"), ("begin", "from, s", ",.6~r"), ("end", "until, s", ",.6~r")
    hue = {"condition": {"test": "datum.is_cause", "value": CULPRIT}, "value": INK}
    bold = {"fontWeight": "bold", "fontSize": 12}
    begin = on(x, "begin")
    layers: list[Spec] = [
        _text("letter", px(4), "line", hue, **bold),
        _text("what", px(16), "line", {"value": INK}, align="left", fontSize=11),
        _text("letter", begin, "level", hue, **bold),
    ]
    for lane in over:
        sides: Spec = {"x": begin, "y": px(lane.top), "y2": px(lane.bottom), "tip": tip, "aria": False}
        layers += [
            mark("rect", x2="end", fill=hue, fillOpacity=0.1, **sides),
            mark("rule", stroke=hue, strokeDash=[3, 3], strokeWidth=1, **sides),
        ]
    marks: list[Spec] = [group(values, name="Events", layer=layers)]
    if len(found) > len(shown):
        more = f"and {count(len(found) - len(shown))} more, in the table"
        marks.append(note(more, px(16), px(LINE_PX * len(shown) + 10)))
    return marks


def _text(field: str, x: Spec, y: str, colour: Spec, **look: Any) -> Spec:
    look = {"align": "center", "baseline": "alphabetic", "tooltip": None, **look}
    return mark("text", x=x, y=at_px(y), text=text_of(field), color=colour, **look)


def _levels(shown: Sequence[Mark], x: Spec) -> list[int]:
    """Letters that are near each other stand below each other."""
    low, high = x["scale"]["domain"]
    levels: list[int] = []
    last = [float("-inf")] * _ROWS  # on each line
    for one in shown:
        begin = min(max(one.begin_s, low), high)
        free = (row for row, at in enumerate(last) if begin - at >= _NEAR * (high - low))
        levels.append(next(free, _ROWS - 1))
        last[levels[-1]] = begin
    return levels
