"""How many ops were in flight in each bin -> a lane with means, the most at once, and limits."""

from __future__ import annotations

from collections.abc import Mapping

from nfslat.answer.pictures import Flying
from nfslat.report.charts import legend
from nfslat.report.charts.board import Board, Lane
from nfslat.report.charts.chart import Spec
from nfslat.report.charts.legend import Entry
from nfslat.report.charts.marks import group
from nfslat.report.charts.style import COLOUR, DASH, PLAIN, counted

_PLOT_PX = 110
_FAR = 4  # a limit so many times higher than what is in flight would flatten it
_LIMIT_DASH = [12, 5]
# The two are often alike: the client's lies wide, with a shade, below the server's.
_MEAN: dict[str, Spec] = {
    "client": {"strokeWidth": 4},
    "server": {"strokeWidth": 2, "strokeDash": DASH["server"]},
    "capture": {"strokeWidth": 3},
}
_SHADE = {"client": 0.25, "server": 0.0, "capture": 0.25}
_HUE = {"client": "client", "server": "server", "capture": "client"}
_MOST = 0.55  # how solid the lines of the most at once are


def flying_lane(board: Board, both: Mapping[str, Flying], bin_s: float) -> None:
    """Of both sides, or of "capture" alone. A shade reaches up to the mean that it belongs to."""
    most = max([1, *(n for one in both.values() for n in one.max)])
    limits = [one.limit for one in both.values() if one.limit is not None and one.limit <= _FAR * most]
    entries = [entry for side, one in both.items() for entry in _entries(side, one, most)]
    ticks = {"format": PLAIN, "tickCount": 5, "tickMinStep": 1}
    drawn = board.lane("In flight", "ops in flight", [0, max([most, *limits]) * 1.05], _PLOT_PX, ticks, entries)
    for side, one in both.items():
        _of_side(side, one, bin_s, drawn)
        if one.limit in limits:
            tip = (("limit", f"{one.limit_of or 'limit'} of the {side} (count)", ","),)
            look = {"stroke": COLOUR[_HUE[side]], "strokeWidth": 2, "strokeDash": _LIMIT_DASH}
            drawn.draw("rule", [{"limit": one.limit}], y="limit", tip=tip, **look)


def limit_text(flying: Flying) -> str:
    """``limit 4 threads``; empty where none is known."""
    if flying.limit is None:
        return ""
    return f"limit {counted(flying.limit, flying.limit_of or '')}".rstrip()


def _name(side: str) -> str:
    return "this capture" if side == "capture" else side


def _entries(side: str, one: Flying, most: int) -> list[Entry]:
    colour = COLOUR[_HUE[side]]
    shade = ", with a shade" if _SHADE[side] else ", dotted"
    found = [
        legend.line(f"{_name(side)}: mean of each bin{shade}", colour, **_MEAN[side]),
        legend.line(f"{_name(side)}: most at once, thin", colour, strokeWidth=1, strokeOpacity=_MOST),
    ]
    if one.limit is not None:
        text = f"{_name(side)}: {limit_text(one)}"
        far = one.limit > _FAR * most
        look = {"strokeDash": _LIMIT_DASH, "strokeOpacity": 0.0 if far else 1.0}
        found.append(legend.line(text + (", above this axis" if far else ", long dashes"), colour, **look))
    return found


def _of_side(side: str, one: Flying, bin_s: float, drawn: Lane) -> None:
    mean, most = f"{side}_mean", f"{side}_max"
    values = [
        {"from": i * bin_s, "to": (i + 1) * bin_s, mean: value, most: n, "base": 0}
        for i, (value, n) in enumerate(zip(one.mean, one.max, strict=True))
    ]
    tip = (
        ("from", "from, s", ",.6~r"),
        ("to", "until, s", ",.6~r"),
        (mean, f"in flight, {_name(side)}, mean (ops)", ",.4~r"),
        (most, f"in flight, {_name(side)}, most (ops)", ","),
    )
    colour = COLOUR[_HUE[side]]
    # What the pointer finds, and the shade: up to the mean.
    shade: Spec = {"fill": colour, "fillOpacity": _SHADE[side], "aria": False}
    bars = drawn.made("rect", x="from", x2="to", y=mean, y2="base", tip=tip, **shade)
    thin = {"strokeWidth": 1, "strokeOpacity": _MOST}
    lines = [
        drawn.made("line", x="edge", y=name, stroke=colour, tooltip=None, **look)
        for name, look in ((most, thin), (mean, _MEAN[side]))
    ]
    # A line has a point at either edge of a bin: its steps are those of the shade.
    edges = [{"calculate": "[datum.from, datum.to]", "as": "edge"}, {"flatten": ["edge"]}]
    layers = [bars, {"transform": edges, "layer": lines}]
    drawn.marks.append(group(values, name=f"In flight, {_name(side)}", layer=layers))
