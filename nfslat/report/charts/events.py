"""Report -> what happened while it was captured, in words, and its marks on axes of time."""

from __future__ import annotations

import string
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from nfslat.answer.model import Report
from nfslat.answer.pictures import Event
from nfslat.model.units import to_s
from nfslat.report.charts.chart import Spec
from nfslat.report.charts.legend import LINE_PX
from nfslat.report.charts.style import CULPRIT, INK, rule, words
from nfslat.report.text_layout import count, count_of, ms

_MOST = 8  # that are marked; the table has all
_ROWS, _NEAR = 3, 0.03  # of the axis: letters that are nearer stand below each other
_KINDS = {
    "host-pause": "host-pause",
    "no-connection": "reconnect",
    "loss": "net-loss",
    "hang": "window-stays-shut never-acknowledged",
    "recovery": "state-lost",
}


@dataclass(frozen=True)
class Mark:
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
    cause = (report.verdict.cause if report.verdict is not None else None) or "-"
    return [
        Mark(letters.get(at, ""), kind, begin, stop, when, text, cause in _KINDS.get(kind, "").split())
        for at, (kind, begin, stop, when, text) in enumerate(seen)
    ]


_Found = tuple[str, float, float | None, str, str]  # kind, begin, end, when, words


def _length(one: _Found) -> float:
    """Moments come first: steps and phases divide what is seen."""
    return float("inf") if one[2] is None else one[2] - one[1]


def _event(one: Event) -> _Found:
    text = {
        "host-pause": f"the {one.side}'s host stands still for {ms(one.ms)} ms",
        "no-connection": f"no connection to the server for {ms(one.ms)} ms",
        "loss": f"burst of lost data from the {one.side}: it costs ops {ms(one.cost_ms or 0.0)} ms",
    }[one.what]
    return one.what, one.at_s, one.at_s + one.ms / 1e3, one.at, text


def _steps(report: Report, begin: str) -> list[_Found]:
    steps = [] if report.clock is None else report.clock.steps
    return [
        ("clock-step", _since(one.at, begin), None, one.at, f"{one.clock or 'a'} clock is set: theta {one.ms:+,.3f} ms")
        for one in steps
    ]


def _phases(report: Report, begin: str) -> list[_Found]:
    return [
        ("phase", _since(one.begin, begin), None, one.begin, f"phase {number} begins: mean {ms(one.client_ms)} ms")
        for number, one in enumerate(report.phases[1:], 2)
    ]


def _hangs(report: Report, begin: str) -> list[_Found]:
    clock = report.clock
    found: list[_Found] = []
    for one in report.hangs or ():
        ahead_s = (clock.theta_ms or 0.0) / 1e3 if clock is not None and one.capture == "server" else 0.0
        at = _since(one.since, begin) - ahead_s
        what = "window stays shut" if one.awaits == "window" else "data stay unacknowledged"
        found.append(("hang", at, at + one.ms / 1e3, one.since, f"{what}: the {one.side} waits {ms(one.ms)} ms"))
    return found


def _recoveries(report: Report, begin: str) -> list[_Found]:
    recovered = [] if report.outcomes is None else report.outcomes.recoveries
    return [
        (
            "recovery", (at := _since(one.at, begin)), at + one.ms / 1e3, one.at,
            f"client recovers lost state for {ms(one.ms)} ms; {count_of(one.waited, 'request')} waited",
        )
        for one in recovered
    ]  # fmt: skip


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
    return LINE_PX * lines + 6 if shown else 0


def drawn(found: Sequence[Mark], x: Spec, bottom: int) -> list[Spec]:
    """Over all lanes down to `bottom`: a dashed line where each begins, a shade while it lasts, its letter above; in
    front of them, from 0 down, what the letters mean."""
    shown = [one for one in found if one.letter]
    layers: list[Spec] = []
    for row, one in enumerate(shown):
        y = {"value": LINE_PX * row + 10}
        layers.append(words(one.letter, {"value": 0}, y, **_look(one)))
        layers.append(words(one.text, {"value": 16}, y, fontSize=11))
    if len(found) > len(shown):
        more = f"and {count(len(found) - len(shown))} more, in the table"
        layers.append(words(more, {"value": 16}, {"value": LINE_PX * len(shown) + 10}, fontSize=11))
    levels = _levels(shown, x)
    top = height(found, x) - LINE_PX * (max(levels, default=0) + 1)
    low, high = x["scale"]["domain"]
    for one, level in zip(shown, levels, strict=True):
        begin, end = (min(max(at, low), high) for at in (one.begin_s, one.begin_s if one.end_s is None else one.end_s))
        letter = {"value": top + LINE_PX * level + 6}
        layers.append(words(one.letter, {**x, "datum": begin}, letter, align="center", **_look(one)))
        colour, y2 = CULPRIT if one.is_cause else INK, {"y2": {"value": bottom}}
        at = {"x": {**x, "datum": begin}, "y": {"value": top + LINE_PX * level + 9}, **y2}
        layers.append(rule(at, stroke=colour, strokeDash=[3, 3], strokeWidth=1))
        if one.end_s is not None:
            ends = {"x": {**x, "datum": begin}, "x2": {"datum": end}, "y": {"value": height(found, x)}, **y2}
            shade = {"type": "rect", "fill": colour, "fillOpacity": 0.1, "tooltip": None, "aria": False}
            layers.append({"data": {"values": [{}]}, "mark": shade, "encoding": ends})
    return layers


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


def _look(one: Mark) -> Spec:
    return {"fontWeight": "bold", "fontSize": 12, "color": CULPRIT if one.is_cause else INK}
