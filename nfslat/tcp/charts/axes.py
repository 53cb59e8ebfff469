"""What the graphs of a conversation have in common: its time, its lanes, its points and their frames."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from msgspec import Struct

from nfslat.model.record import Record
from nfslat.report.charts import legend
from nfslat.report.charts.chart import Spec
from nfslat.report.charts.style import COLOUR, CULPRIT, PLAIN, Lane, channel, heading, lane, lanes, log_axis, tips
from nfslat.report.text_layout import count, visible
from nfslat.tcp.graphs import Graphs
from nfslat.tcp.thinned import Thinned

HEAD_PX, GAP_PX, LANE_PX = 22, 20, 150
# Data are the sender's, ACKs and windows the receiver's; what costs time has the colour of the culprit, and a shape.
DATA, ACKS, WINDOW, COSTS = COLOUR["client"], COLOUR["server"], COLOUR["network"], CULPRIT
_LONG_MS = 3_000  # of longer times the axis has seconds
_NS = r"(?<=\d{6})\d{3}(?=Z$)"
_SI_FROM = 100_000


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
        return channel(
            f"time, {self.unit}",
            scale={"domain": [begin, end if end > begin else begin + 1], "nice": False, "zero": False},
            axis={
                "title": [f"time since the conversation's first packet, {self.unit}", f"begin: {visible(said)}"],
                "format": PLAIN,
                "grid": False,
                "tickCount": 8,
                "labelSeparation": 8,
                "titleLimit": 600,
            },
        )

    def tip(self) -> tuple[str, str, str]:
        """Of a tooltip."""
        return ("at", f"at, {self.unit}", ",.9~r")


FILTER = ("filter", "Wireshark filter")


class Board(Struct):
    """Lanes below each other."""

    clock: Clock
    found: list[Lane]
    top: int = 0

    def add(
        self, title: str, axis: str, domain: Sequence[float], keys: Sequence[legend.Entry], ticks: Spec, **scale: Any
    ) -> Lane:
        """A lane with its title and its legend above it."""
        keys_px = legend.height(keys) if keys else 0
        one = lane(
            self.top + HEAD_PX + keys_px, LANE_PX, axis, domain, {"tickCount": 5, "grid": True, **ticks}, **scale
        )
        one.marks += [heading(visible(title), self.top + 14), *legend.legend(keys, self.top + HEAD_PX - 2)]
        self.found.append(one)
        self.top = one.bottom + GAP_PX
        return one

    def spec(self, alt: str) -> tuple[Spec, int]:
        """And how high it is."""
        height = self.found[-1].bottom
        return lanes(self.found, height, alt), height


def frames_of(*names: str) -> list[Spec]:
    """Makes the field `filter` for Wireshark of fields with frame numbers."""
    if len(names) == 1:
        told = f"'frame.number == ' + datum.{names[0]}"
    else:
        told = "'frame.number in {' + " + " + ', ' + ".join(f"datum.{name}" for name in names) + " + '}'"
    return [{"calculate": told, "as": "filter"}]


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
            spans.append(
                {"from": clock.at(min(low_at, high_at)), "low": round(low, digits), "high": round(high, digits)}
            )
    return points, spans


def dots(
    values: Sequence[dict[str, Any]],
    clock: Clock,
    one: Lane,
    name: str,
    title: str,
    more: Sequence[Any] = (),
    **look: Any,
) -> Spec:
    """Points with their frames; `values` have ``at``, `name` and ``frame``."""
    two = bool(values) and "ack_frame" in values[0]
    shown = tips(
        clock.tip(),
        (name, title, ",.6~r"),
        *more,
        ("frame", "frame", "d"),
        *([("ack_frame", "frame of the ACK", "d")] if two else []),
        FILTER,
    )
    return {
        "data": {"values": list(values)},
        "transform": frames_of("frame", "ack_frame") if two else frames_of("frame"),
        "mark": {"type": "point", "filled": True, "opacity": 1, "size": 14, "cursor": "pointer", "aria": False, **look},
        "encoding": {"x": {**clock.x, "field": "at"}, "y": one.at(name), "tooltip": shown},
    }


def slopes(values: Sequence[dict[str, float]], clock: Clock, one: Lane, **look: Any) -> Spec:
    """Straight lines from (at, low) to (to, high)."""
    return {
        "data": {"values": list(values)},
        "mark": {"type": "rule", "tooltip": None, "aria": False, **look},
        "encoding": {
            "x": {**clock.x, "field": "at"},
            "x2": {"field": "to"},
            "y": one.at("low"),
            "y2": {"field": "high"},
        },
    }


def upright(values: Sequence[dict[str, float]], clock: Clock, one: Lane, **look: Any) -> Spec:
    """Upright lines from the lowest to the highest of a stretch."""
    return {
        "data": {"values": list(values)},
        "mark": {"type": "rule", "tooltip": None, "aria": False, **look},
        "encoding": {"x": {**clock.x, "field": "from"}, "y": one.at("low"), "y2": {"field": "high"}},
    }


def line(values: Sequence[dict[str, float]], clock: Clock, one: Lane, name: str, **look: Any) -> Spec:
    """Steps through points."""
    return {
        "data": {"values": list(values)},
        "mark": {"type": "line", "interpolate": "step-after", "tooltip": None, **look},
        "encoding": {"x": {**clock.x, "field": "at"}, "y": one.at(name)},
    }


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
    board: Board,
    title: str,
    keys: Sequence[legend.Entry],
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
        one = board.add(title, f"{what}, ms", [0, top * 1.08 or 1.0], keys, {"format": PLAIN})
    else:
        ticks = log_axis("", log_from, top * 1.2)
        ticks.pop("title")
        one = board.add(title, f"{what}, log scale", [log_from / 1.2, top * 1.2], keys, ticks, type="log")
    name = what.replace(" ", "_")
    points, spans = extremes(of, board.clock, name)
    for value in (*points, *spans):
        for key in (name, "low", "high"):
            if log_from is not None and key in value:
                value[key] = max(value[key], least)
    one.marks += [
        upright(spans, board.clock, one, stroke=DATA, strokeOpacity=0.35),
        dots(points, board.clock, one, name, f"{what}, ms", fill=DATA, **look),
    ]
    return one
