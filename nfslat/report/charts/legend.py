"""What a chart draws -> its legend: a piece of each mark with its name, a line each, so that narrow pages cut none."""

from __future__ import annotations

from collections.abc import Sequence

from nfslat.model.record import Record
from nfslat.report.charts.chart import Spec
from nfslat.report.charts.marks import mark, note, px, rule
from nfslat.report.charts.style import COLOUR

LINE_PX = 14
_SWATCH_PX, _BOX_PX = 30, 9
_THE_FAULT = ", where the fault is"


class Entry(Record):
    """`looks` are pieces of line side by side; thick ones are boxes, and those with a shape a point."""

    text: str
    looks: Sequence[Spec]


def line(text: str, colour: str, **look: object) -> Entry:
    """Of a line."""
    return Entry(text, [{"stroke": colour, "strokeWidth": 2, **look}])


def box(text: str, colour: str, *opacities: float) -> Entry:
    """Of what is filled, in one strength or in several."""
    looks = [{"stroke": colour, "strokeWidth": _BOX_PX, "strokeOpacity": one} for one in opacities or (1.0,)]
    return Entry(text, looks)


def dot(text: str, colour: str, shape: str, *, filled: bool = True) -> Entry:
    """Of points of a shape."""
    return Entry(
        text, [{"shape": shape, "size": 60, "stroke": None if filled else colour, "fill": colour if filled else None}]
    )


def layer(side: str, culprit: str | None, text: str = "") -> Entry:
    """Of a layer in its colour; of the culprit's it says so."""
    return box((text or side) + (_THE_FAULT if side == culprit else ""), COLOUR[side])


def legend(entries: Sequence[Entry], top: int) -> list[Spec]:
    """Marks of all entries, the first one at `top`; as high as `height` says."""
    marks = []
    for number, entry in enumerate(entries):
        y = top + LINE_PX * number + 10
        wide = _SWATCH_PX / len(entry.looks)
        for at, look in enumerate(entry.looks):
            if "shape" in look:
                marks.append(mark("point", [{}], x=px(_SWATCH_PX / 2), y=px(y - 4), tooltip=None, **look))
            else:
                marks.append(rule(x=px(at * wide), x2=px((at + 1) * wide), y=px(y - 4), **look))
        marks.append(note(entry.text, px(_SWATCH_PX + 6), px(y)))
    return marks


def height(entries: Sequence[Entry]) -> int:
    """Pixels, with a little room below."""
    return LINE_PX * len(entries) + 6
