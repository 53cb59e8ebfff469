"""What charts are drawn with: channels of fields and places, tooltips, and marks of values or of one place."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from nfslat.report.charts.chart import Spec
from nfslat.report.charts.style import PLAIN, SIDES, log_ticks

Tip = tuple[str, str] | tuple[str, str, str]  # field, title with its unit, format of a number; without one: a text

# ---- channels ----


def linear(title: str, low: float, high: float, /, **axis: Any) -> Spec:
    """The channel of an x axis, without a field; `title` has the unit in it."""
    return {
        "type": "quantitative",
        "title": title,
        "scale": {"domain": [low, high], "nice": False, "zero": False},
        "axis": {"title": title, "format": PLAIN, "grid": False, **axis},
    }


def logarithmic(title: str, low: float, high: float, said: str) -> Spec:
    """The same on a scale of logarithms; `said` is the axis's title."""
    return {
        "type": "quantitative",
        "title": title,
        "scale": {"type": "log", "domain": [low, high], "nice": False},
        "axis": {"title": said, **log_ticks(low, high, grid=False)},
    }


def on(axis: Spec, field: str) -> Spec:
    """The channel of a field on an axis."""
    return {**axis, "field": field}


def datum(axis: Spec, value: float) -> Spec:
    """A place on an axis."""
    return {**axis, "datum": value}


def px(pixels: float) -> Spec:
    """A place of a chart, in pixels."""
    return {"value": pixels}


def at_px(field: str) -> Spec:
    """The channel of a field that holds pixels."""
    return {"field": field, "type": "quantitative", "title": None, "scale": None, "axis": None}


def as_it_is(field: str) -> Spec:
    """The channel of a field that holds an opacity."""
    return {"field": field, "type": "quantitative", "title": None, "scale": None, "legend": None}


def text_of(field: str) -> Spec:
    """The channel of a field that is written."""
    return {"field": field, "type": "nominal", "title": None}


def by_name(field: str, colours: Mapping[str, str]) -> Spec:
    """The channel of a field that holds one of the names, in their colours or shapes."""
    return {**text_of(field), "scale": {"domain": list(colours), "range": list(colours.values())}, "legend": None}


def by_side(field: str, title: str) -> Spec:
    """The channel of a field that holds a layer, or the whole, in its colour."""
    return {"field": field, "type": "nominal", "title": title, "scale": SIDES, "legend": None}


# ---- marks ----


def mark(
    kind: str,
    values: Sequence[Any] | None = None,
    *,
    name: str = "",
    calculate: Mapping[str, str] | None = None,
    tip: Iterable[Tip] = (),
    **how: Any,
) -> Spec:
    """A mark for each of `values`: of `how`, mappings are channels, `x2` and `y2` fields, and the rest is how it looks.

    Without `values` it is of what the marks around it have. `calculate`: fields that are made where it is drawn.
    """
    how |= {end: {"field": how[end]} for end in ("x2", "y2") if isinstance(how.get(end), str)}
    channels = {key: value for key, value in how.items() if isinstance(value, dict)}
    shown = [
        {
            "field": field,
            "title": title,
            **({"type": "quantitative", "format": form[0]} if form else {"type": "nominal"}),
        }
        for field, title, *form in tip
    ]
    return group(
        values,
        name=name,
        calculate=calculate,
        mark={"type": kind, **{key: value for key, value in how.items() if key not in channels}},
        encoding={**channels, **({"tooltip": shown} if shown else {})},
    )


def group(
    values: Sequence[Any] | None, *, name: str = "", calculate: Mapping[str, str] | None = None, **parts: Any
) -> Spec:
    """What shares its values: one mark, or a `layer` of several."""
    return {
        **({"description": name} if name else {}),
        **({} if values is None else {"data": {"values": list(values)}}),
        **({"transform": [{"calculate": how, "as": field} for field, how in calculate.items()]} if calculate else {}),
        **parts,
    }


def words(text: str, x: Spec, y: Spec, **look: Any) -> Spec:
    """One text that no field holds."""
    look = {"align": "left", "baseline": "alphabetic", "tooltip": None, **look}
    return mark("text", [{}], x=x, y=y, text=text, **look)


def note(text: str, x: Spec, y: Spec, **look: Any) -> Spec:
    """The same in small letters."""
    return words(text, x, y, fontSize=11, **look)


def written(y: str, text: str, left: Any) -> Spec:
    """Texts of a field, each where another says, so many pixels from the left."""
    look = {"type": "text", "align": "left", "baseline": "alphabetic", "x": left}
    return {"mark": look, "encoding": {"y": at_px(y), "text": text_of(text)}}


def rule(**how: Any) -> Spec:
    """One straight line that no field holds."""
    return mark("rule", [{}], tooltip=None, **how)


def heading(text: str, y: float, left: float = 0) -> Spec:
    """The title of a lane, above it."""
    return words(text, px(left), px(y), style="heading")


def verticals(values: Iterable[float], x: Spec) -> list[Spec]:
    """Grid lines over all lanes: those of an axis have the height of one."""
    return [rule(x=datum(x, value), style="grid") for value in values]


def beside(share: float) -> Spec:
    """How a label goes with an upright line that stands at this share of the axis: on the side where there is room."""
    return {"align": "right", "dx": -4} if share > 0.7 else {"align": "left", "dx": 4}
