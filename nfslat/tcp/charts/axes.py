"""What the graphs of a conversation have in common: its time, its points and their frames."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from nfslat.model.record import Record
from nfslat.report.charts.board import Board, Lane
from nfslat.report.charts.chart import Spec
from nfslat.report.charts.legend import Entry
from nfslat.report.charts.marks import Tip, linear
from nfslat.report.charts.style import COLOUR, CULPRIT, PLAIN, log_ticks
from nfslat.report.text_layout import count, visible
from nfslat.tcp.graphs import Graphs
from nfslat.tcp.thinned import Thinned

_LANE_PX = 150
# Data are the sender's, ACKs and windows the receiver's; what costs time has the colour of the culprit, and a shape.
DATA, ACKS, WINDOW, COSTS = COLOUR["client"], COLOUR["server"], COLOUR["network"], CULPRIT
_LONG_MS = 3_000  # of longer times the axis has seconds
_NS = r"(?<=\d{6})\d{3}(?=Z$)"
_SI_FROM = 100_000
FILTER = ("filter", "Wireshark filter")


class Clock(Record):
    """The x axis of all graphs of a time."""

    graphs: Graphs

    @property
    def is_long(self) -> bool:
        """Seconds, not milliseconds."""
        return self.graphs.to_ms - self.graphs.from_ms > _LONG_MS

    @property
    def unit(self) -> str:
        """``s``."""
        return "s" if self.is_long else "ms"

    def at(self, ms: float) -> float:
        """On the axis."""
        return round(ms / 1e3, 9) if self.is_long else round(ms, 6)

    @property
    def x(self) -> Spec:
        """The channel, without a field."""
        begin, end = self.at(self.graphs.from_ms), self.at(self.graphs.to_ms)
        said = re.sub(_NS, "", self.graphs.begin)
        title = [f"time since the conversation's first packet, {self.unit}", f"begin: {visible(said)}"]
        look = {"tickCount": 8, "labelSeparation": 8, "titleLimit": 600}
        return linear(f"time, {self.unit}", begin, end if end > begin else begin + 1, title=title, **look)

    @property
    def tip(self) -> Tip:
        """Of a tooltip."""
        return ("at", f"at, {self.unit}", ",.9~r")

    @property
    def until(self) -> Tip:
        """The channel for the end of what has a begin."""
        return ("to", f"until, {self.unit}", ",.9~r")


class TimeBoard(Board, kw_only=True):
    """Lanes of a conversation's time."""

    clock: Clock

    def graph(
        self, title: str, axis: str, domain: Sequence[float], keys: Sequence[Entry], ticks: Spec, **scale: Any
    ) -> Lane:
        """A lane of a chart, with points."""
        ticks = {"tickCount": 5, "grid": True, **ticks}
        return self.lane(visible(title), axis, domain, _LANE_PX, ticks, keys, **scale)


def board_of(graphs: Graphs) -> TimeBoard:
    """A lane that has no data."""
    clock = Clock(graphs)
    return TimeBoard(clock.x, clock=clock)


def frames_of(*names: str) -> str:
    """Makes a filter for Wireshark of fields with frame numbers."""
    if len(names) == 1:
        return f"'frame.number == ' + datum.{names[0]}"
    return "'frame.number in {' + " + " + ', ' + ".join(f"datum.{name}" for name in names) + " + '}'"


def extremes(
    of: Thinned, clock: Clock, name: str, digits: int = 6
) -> tuple[list[dict[str, float]], list[dict[str, float]]]:
    """The points that are drawn, each once; and the stretches of several, from their lowest to their highest."""
    points, spans = [], []
    columns = (of.count, of.low_at_ms, of.low, of.low_frame, of.high_at_ms, of.high, of.high_frame)
    for many, low_at, low, low_frame, high_at, high, high_frame in zip(*columns, strict=True):
        points.append({"at": clock.at(high_at), name: round(high, digits), "frame": high_frame})
        if many > 1 and low < high:
            points.append({"at": clock.at(low_at), name: round(low, digits), "frame": low_frame})
            spans.append({"at": clock.at(min(low_at, high_at)), "low": round(low, digits), "high": round(high, digits)})
    return points, spans


def dots(
    values: Sequence[dict[str, Any]],
    clock: Clock,
    one: Lane,
    name: str,
    title: str,
    more: Sequence[Tip] = (),
    **look: Any,
) -> None:
    """Points with their frames; `values` have ``at``, `name` and ``frame``."""
    frames = {"frame": "frame", "ack_frame": "frame of the ACK"}
    known = [field for field in frames if values and field in values[0]] or ["frame"]
    tip = (clock.tip, (name, title, ",.6~r"), *more, *((field, frames[field], "d") for field in known), FILTER)
    look = {"filled": True, "opacity": 1, "size": 14, "cursor": "pointer", "aria": False, **look}
    one.draw("point", values, calculate={"filter": frames_of(*known)}, x="at", y=name, tip=tip, **look)


def ranges(values: Sequence[dict[str, float]], one: Lane, **look: Any) -> None:
    """Straight lines from (at, low) to `high`, at the same time or, where `x2` is ``to``, at another."""
    one.draw("rule", values, x="at", y="low", y2="high", tooltip=None, aria=False, **look)


def steps(values: Sequence[dict[str, float]], one: Lane, name: str, **look: Any) -> None:
    """Steps through points."""
    one.draw("line", values, x="at", y=name, interpolate="step-after", tooltip=None, **look)


def thinned(of: Sequence[Thinned], nouns: str, clock: Clock) -> str:
    """How points were thinned; empty where all are drawn."""
    many = [one for one in of if one.stretch_ms is not None]
    if not many:
        return ""
    part = clock.at(many[0].stretch_ms or 0.0)
    return (
        f" {' and '.join(count(one.points) for one in many)} {nouns} are drawn as the lowest and the highest of each "
        f"{part:.4g} {clock.unit}; none is averaged."
    )


def of_bytes(low: float, high: float) -> Spec:
    """Ticks of an axis of bytes."""
    return {"format": "~s" if high - low >= _SI_FROM else ",d", "tickMinStep": 1}


def most(of: Thinned) -> float:
    """The highest value."""
    return max(of.high, default=0.0)


def durations(
    board: TimeBoard,
    title: str,
    keys: Sequence[Entry],
    of: Thinned,
    what: str,
    *,
    top: float,
    log_from: float | None,
    least: float,
    **look: Any,
) -> Lane:
    """A lane of times in ms: from 0 on, or on a scale of logarithms, where none is below `least`."""
    if log_from is None:
        one = board.graph(title, f"{what}, ms", [0, top * 1.08 or 1.0], keys, {"format": PLAIN})
    else:
        domain = log_from / 1.2, top * 1.2
        one = board.graph(title, f"{what}, log scale", domain, keys, log_ticks(log_from, top * 1.2), type="log")
    name = what.replace(" ", "_")
    points, spans = extremes(of, board.clock, name)
    for value in (*points, *spans):
        for key in (name, "low", "high"):
            if log_from is not None and key in value:
                value[key] = max(value[key], least)
    ranges(spans, one, stroke=DATA, strokeOpacity=0.35)
    dots(points, board.clock, one, name, f"{what}, ms", fill=DATA, **look)
    return one
