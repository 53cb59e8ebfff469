"""Lanes below each other that share their x axis, each with a title, a legend and an axis; and the chart of them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from msgspec import Struct

from nfslat.report.charts.chart import VEGA_LITE, Chart, Spec
from nfslat.report.charts.legend import Entry, height, legend
from nfslat.report.charts.marks import Tip, datum, heading, mark, on, px, rule
from nfslat.report.charts.style import COLOUR, PLAIN

HEAD_PX = 22  # above a lane, for its title
_FOOT_PX = 50  # below the last one, for axis and title of a chart


class Lane(Struct):
    """One of several drawings: pixels from `top` to `top + height`.

    A specification of several views cannot be as wide as the page lets it; one view whose y scales have ranges of
    their own can.
    """

    top: int
    height: int
    x: Spec  # channels of the axes, without a field
    y: Spec
    marks: list[Spec] = []

    @property
    def bottom(self) -> int:
        return self.top + self.height

    def made(self, kind: str, values: Sequence[Any] | None = None, **how: Any) -> Spec:
        """A mark as of `mark`, in which `x` and `y` may be fields on the axes, too."""
        how |= {axis: on(getattr(self, axis), how[axis]) for axis in "xy" if isinstance(how.get(axis), str)}
        return mark(kind, values, **how)

    def draw(self, kind: str, values: Sequence[Any] | None = None, **how: Any) -> None:
        """The same, on the lane."""
        self.marks.append(self.made(kind, values, **how))

    def level(self, value: float, **look: Any) -> None:
        """A line from left to right."""
        self.marks.append(rule(y=datum(self.y, value), **look))

    def upright(self, value: float, **look: Any) -> None:
        """A line from top to bottom."""
        self.marks.append(rule(x=datum(self.x, value), y=px(self.top), y2=px(self.bottom), **look))


class Way(NamedTuple):
    """What goes one way over time; `values` have when they begin, ``to`` when they end, and the field `name`."""

    values: Sequence[dict[str, Any]]
    name: str
    tip: Sequence[Tip]
    description: str = ""


class Board(Struct):
    """Lanes, from the top down."""

    x: Spec
    top: int = 0  # of the next lane
    gap: int = 20  # pixels between two
    lanes: list[Lane] = []

    def lane(
        self,
        title: str,
        axis: str,
        domain: Sequence[float],
        height_px: int,
        ticks: Spec | None,
        keys: Sequence[Entry] = (),
        *,
        room: int = HEAD_PX,
        left: float = 0,
        **scale: Any,
    ) -> Lane:
        """A lane with its title and its legend above it, and an axis of its own at the left; None: without ticks."""
        begin, top = self.top, self.top + room + (height(keys) if keys else 0)
        shown = (
            None if ticks is None else {"orient": "left", "title": axis, "titleLimit": max(height_px + 30, 60), **ticks}
        )
        scale = {"domain": list(domain), "range": [top + height_px, top], "nice": False, **scale}
        if scale.get("type") != "log":
            scale["zero"] = False
        y = {"type": "quantitative", "title": axis, "scale": scale, "axis": shown}
        one = Lane(top, height_px, self.x, y)
        if title:
            one.marks.append(heading(title, begin + 14, left))
        one.marks += legend(keys, begin + HEAD_PX - 2)
        self.lanes.append(one)
        self.top = one.bottom + self.gap
        return one

    def mirrored(
        self, title: str, axis: str, height_px: int, ways: Sequence[Way], keys: Sequence[Entry] = (), **ticks: Any
    ) -> None:
        """A lane of what the client's side sends, upwards, and the server's, downwards."""
        tops = [max((row[way.name] for row in way.values), default=0.0) for way in ways]
        least = max(tops) * 0.1  # a way with nothing still has a place
        domain = [-max(tops[1], least) * 1.05, max(tops[0], least) * 1.05]
        ticks = {"tickCount": 4, "labelExpr": f"format(abs(datum.value), '{PLAIN}')", **ticks}
        one = self.lane(title, axis, domain, height_px, ticks, keys)
        for way, sign, side in zip(ways, (1, -1), ("client", "server"), strict=True):
            values = [{**row, "end": sign * row[way.name], "base": 0} for row in way.values]
            begin, look = way.tip[0][0], {"fill": COLOUR[side], "aria": False}
            one.draw("rect", values, x=begin, x2="to", y="end", y2="base", tip=way.tip, name=way.description, **look)
        one.level(0, style="edge")

    def chart(
        self,
        name: str,
        title: str,
        caption: str,
        alt: str,
        section: str,
        behind: Sequence[Spec] = (),
        **more: Any,
    ) -> Chart:
        """What the lanes show, drawn over what is `behind`."""
        layers = [*behind, *({"layer": one.marks} for one in self.lanes)]
        spec_px = self.lanes[-1].bottom
        return chart(
            name, title, caption, alt, section, layers, spec_px, resolve={"scale": {"y": "independent"}}, **more
        )


def chart(
    name: str,
    title: str,
    caption: str,
    alt: str,
    section: str,
    layers: Sequence[Spec],
    height_px: int,
    *,
    foot_px: int = _FOOT_PX,
    **more: Any,
) -> Chart:
    """A chart of one view, as wide as its place."""
    spec = {
        "$schema": f"https://vega.github.io/schema/vega-lite/v{VEGA_LITE}.json",
        "description": alt,
        "width": "container",
        "height": height_px,
        "autosize": {"type": "fit-x", "contains": "padding"},
        "padding": {"left": 4, "top": 4, "right": 12, "bottom": 4},
        **more,
        "layer": list(layers),
    }
    return Chart(name, title, caption, alt, spec, height_px + foot_px, section)
