"""Fleet -> the time axis that pictures of it share, and the server's lanes on it."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, TypeVar

from nfslat.fleet.model import ClientWindow, Fleet, ServerWindow
from nfslat.fleet.sections.words import mean_over, moment, threads
from nfslat.report.charts.chart import Spec
from nfslat.report.charts.style import COLOUR, PLAIN, Lane, channel, lane, rule, tips, words

MOST = 120  # stretches of time in a picture
_LANE_PX, _HEAD_PX, _GAP_PX = 64, 24, 16
_FAR = 3  # a number of threads so many times above what is in flight would flatten the lane
_MOST_TICKS = 8
_STEPS_S = (1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 14400, 21600, 43200, 86400)

_Window = TypeVar("_Window", ServerWindow, ClientWindow)


@dataclass(frozen=True)
class Times:
    """The windows in seconds from the begin of the first one, at most `MOST`, and that begin where it is known."""

    begin: datetime | None
    spans: list[tuple[float, float]]
    per: int  # so many windows are put together in one of them

    @property
    def end(self) -> float:
        """Of the last window."""
        return max((stop for _, stop in self.spans), default=1.0)

    def said(self, seconds: float) -> str:
        """Time of day, so many seconds after the begin."""
        if self.begin is None:
            return f"{seconds:g} s"
        return moment((self.begin + timedelta(seconds=seconds)).isoformat(), self.begin.isoformat())


def parts(windows: Sequence[_Window], times: Times) -> list[Sequence[_Window]]:
    """Windows as they are put together."""
    return [windows[i : i + times.per] for i in range(0, len(windows), times.per)]


def times_of(fleet: Fleet, bins: int) -> Times:
    """The server's windows, or where it has none `bins` of the usual length."""
    windows = [] if fleet.server is None else fleet.server.windows
    begin = _instant(windows[0].begin if windows else fleet.captures.begin)
    found = _spans(windows, begin)
    number = max(bins, len(windows))
    if len(found) < number:
        length = fleet.window_s or 1.0
        found = [(i * length, (i + 1) * length) for i in range(number)]
    per = math.ceil(len(found) / MOST) or 1
    groups = [found[i : i + per] for i in range(0, len(found), per)]
    return Times(begin, [(group[0][0], group[-1][1]) for group in groups], per)


def _spans(windows: list[ServerWindow], first: datetime | None) -> list[tuple[float, float]]:
    """As far as they are in order."""
    found: list[tuple[float, float]] = []
    for one in windows:
        begin, end = _instant(one.begin), _instant(one.end)
        if first is None or begin is None or end is None or not first <= begin < end:
            break
        found.append(((begin - first).total_seconds(), (end - first).total_seconds()))
    return found


def _instant(at: str | None) -> datetime | None:
    """A moment with its zone; None for what is none."""
    try:
        found = None if at is None else datetime.fromisoformat(at)
    except ValueError:
        return None
    return None if found is None or found.tzinfo is None else found


def time_axis(times: Times) -> Spec:
    """The x channel: seconds since the begin, labelled with the time of day at whole steps of the clock."""
    end, begin = times.end, times.begin
    into_day = 0.0
    if begin is not None:
        into_day = (begin - begin.replace(hour=0, minute=0, second=0, microsecond=0)).total_seconds()
    step = next((float(one) for one in _STEPS_S if end / one <= _MOST_TICKS), end / _MOST_TICKS)
    ticks = [one * step - into_day for one in range(int(into_day // step), int((into_day + end) // step) + 1)]
    ticks = [one for one in ticks if 0 <= one <= end]
    said = [times.said(tick) for tick in ticks]
    if begin is not None and all(one.endswith(":00") for one in said):
        said = [one.removesuffix(":00") for one in said]
    labels = json.dumps(said)
    title = "time" if begin is None else f"time, server's clock, {begin.date().isoformat()}"
    return channel(
        "time",
        scale={"domain": [0.0, end], "nice": False, "zero": False},
        axis={
            "title": title,
            "values": ticks,
            # Of the tick next to it: a number that comes back from Vega need not be the same to the last bit.
            "labelExpr": f"{labels}[round((datum.value - {ticks[0] if ticks else 0.0!r}) / {step!r})]",
            "grid": False,
            "labelSeparation": 16,
            "titleLimit": 500,
        },
    )


def server_lanes(fleet: Fleet, times: Times, x: Spec, left: int) -> tuple[list[Lane], int]:
    """What calls wait for a thread and how many ops are in flight, by window; and the pixel where the next lane begins.

    `left`: pixels from the axis, where headings begin.
    """
    server = fleet.server
    if server is None or not server.windows:
        return [], 0
    found, px = [], 0
    for name, title, axis in (
        ("queue_ms", "Server: mean wait for a thread, ms", "ms"),
        ("in_flight_mean", "Server: mean of ops in flight", "ops"),
    ):
        values: list[dict[str, Any]] = [
            {"from": begin, "to": end, "at": times.said(begin), name: _short(value), "base": 0}
            | {"ops": sum(one.ops for one in part)}
            for (begin, end), part in zip(times.spans, parts(server.windows, times), strict=False)
            if (value := mean_over(part, name, by_ops=name == "queue_ms")) is not None
        ]
        if not values:
            continue
        most = max(one[name] for one in values)
        limit = server.inflight.threads_estimate if name == "in_flight_mean" else None
        shown = limit is not None and limit <= _FAR * most
        top = max([most, *([limit] if shown and limit is not None else [])])
        drawn = lane(px + _HEAD_PX, _LANE_PX, axis, [0, top * 1.05 or 1.0], {"format": PLAIN, "tickCount": 3})
        text = title if limit is None else f"Server: ops in flight; line: {threads(limit, None)}"
        drawn.marks += [
            words(text, {"value": left}, {"value": px + 14}, style="heading"),
            {
                "description": title,
                "data": {"values": values},
                "mark": {"type": "rect", "fill": COLOUR["server"], "aria": False},
                "encoding": {
                    "x": {**x, "field": "from"},
                    "x2": {"field": "to"},
                    "y": drawn.at(name),
                    "y2": {"field": "base"},
                    "tooltip": tips(("at", "from"), (name, title, ",.4~r"), ("ops", "calls (count)", ",")),
                },
            },
        ]
        if shown:
            line = {"y": {**drawn.y, "datum": limit}}
            drawn.marks.append(rule(line, style="inked", strokeWidth=1.5, strokeDash=[8, 4]))
        elif limit is not None:
            drawn.marks.append(words("above this axis", {"value": 4}, {"value": px + _HEAD_PX + 10}, fontSize=11))
        found.append(drawn)
        px = drawn.bottom + _GAP_PX
    return found, px


def _short(value: float) -> float:
    """Five digits are enough for a picture."""
    return float(f"{value:.5g}")


def by_name(field: str, colours: Mapping[str, str]) -> Spec:
    """The channel of a field that holds one of the names, in their colours or shapes."""
    scale = {"domain": list(colours), "range": list(colours.values())}
    return {"field": field, "type": "nominal", "scale": scale, "legend": None, "title": None}


def as_it_is(field: str) -> Spec:
    """The channel of a field that holds an opacity."""
    return {"field": field, "type": "quantitative", "scale": None, "legend": None, "title": None}
