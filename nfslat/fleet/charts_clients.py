"""Fleet -> pictures of the clients side by side: parts of their mean latency, and network against server."""

from __future__ import annotations

import json
import math
import statistics
from typing import Any

from nfslat.answer.words import ms
from nfslat.fleet.model import Client, Fleet
from nfslat.fleet.sections.words import common_prefix, compared, mean_ms
from nfslat.report.charts import marks
from nfslat.report.charts.board import Board
from nfslat.report.charts.chart import Chart, Spec
from nfslat.report.charts.legend import box, height, legend
from nfslat.report.charts.style import COLOUR, log_ticks
from nfslat.report.text_layout import count, count_of, shorten, visible

_MOST_BARS, _ROW_PX, _BAR_PX = 40, 17, 12
_NAME = 20  # columns of a name
_LONG = 16  # columns from which on what all names begin with is left out
_SCATTER_PX = 320
_NEAR = 0.07  # of an axis; dots that near have one label
_MOST_LABELS = 10
# Name, colour, opacity, words.
_PARTS = (
    ("network", COLOUR["network"], 0.9, "network"),
    ("thread", COLOUR["server"], 0.9, "in the server"),
    ("queue", COLOUR["server"], 0.4, "queue"),
)
_KEY = [box(said, colour, solid) for _, colour, solid, said in _PARTS]


def labels_of(ranked: list[tuple[int, Client]]) -> list[str]:
    """Rank and name, shortened alike."""
    names = [one.name for _, one in ranked]
    prefix = common_prefix(names) if max(map(len, names), default=0) > _LONG else ""
    return [f"{rank} {shorten(one.name.removeprefix(prefix), _NAME)}" for rank, one in ranked]


def rows_axis(ranked: list[tuple[int, Client]], font_px: int) -> Spec:
    """The axis of rows of clients from the top down: a label each."""
    labels = labels_of(ranked)
    return {
        "values": [row + 0.5 for row in range(len(ranked))],
        "labelExpr": f"{json.dumps(labels)}[floor(datum.value)]",
        "labelFontSize": font_px,
        "labelOverlap": False,
        "labelLimit": 150,
        # Vega cannot measure a font that is a variable of the page, and would leave too little room.
        "minExtent": min(round(0.62 * font_px * max(map(len, labels), default=0)) + 6, 150),
        "ticks": False,
        "domain": False,
        "grid": False,
    }


def bars_chart(fleet: Fleet) -> list[Chart]:
    """The mean client SRT of those that suffer most, divided."""
    everybody = list(enumerate(compared(fleet.clients), 1))
    ranked = everybody[:_MOST_BARS]
    if len(ranked) < 2:
        return []
    values = [value for row, (_, one) in enumerate(ranked) for value in _bar(row, one)]
    end = max([one["end"] for one in values] + [0.0]) or 1.0
    low = min([one["end"] for one in values] + [0.0])
    typical = statistics.median(mean_ms(one, "client") for _, one in everybody)
    title, steps = "mean client SRT, ms", _steps(end)
    board = Board(marks.linear(title, low, end * 1.02, values=steps))
    room, domain = height(_KEY) + 20, [len(ranked), 0]
    drawn = board.lane("", "", domain, _ROW_PX * len(ranked), rows_axis(ranked, 11), room=room)
    drawn.y["axis"]["title"] = None
    colours = marks.by_name("key", {name: colour for name, colour, *_ in _PARTS})
    drawn.draw(
        "rect",
        values,
        name="Parts of the mean client SRT",
        x="start",
        x2="end",
        y="above",
        y2="below",
        fill=colours,
        stroke=colours,
        fillOpacity=marks.as_it_is("solid"),
        strokeWidth=1,
        aria=False,
        tip=(("client", "client"), ("part", "part"), ("ms", "mean, ms", ",.4~r")),
    )
    at = marks.datum(board.x, typical)
    look = {"style": "inked", "strokeWidth": 1.5, "strokeDash": [8, 4]}
    drawn.marks.append(marks.rule(x=at, y=marks.px(drawn.top - 6), y2=marks.px(drawn.bottom), **look))
    side = marks.beside((typical - low) / ((end * 1.02 - low) or 1.0))
    drawn.marks.append(marks.note(f"median client {ms(typical)} ms", at, marks.px(drawn.top - 8), **side))
    drawn.marks += legend(_KEY, 0)
    worst = ranked[0][1]
    alt = (
        f"Mean client SRT of {count(len(ranked))} clients, divided into network, server and the wait for a thread; the "
        f"first, {visible(worst.name)}, has {ms(mean_ms(worst, 'client'))} ms, the median client {ms(typical)} ms."
    )
    caption = (
        "Means over the matched ops of each client, those that suffer most first: on the network, in the server, "
        "and of the server's time the wait for a thread where the packets tell it. The dashed line is the client in "
        "the middle."
    )
    if len(everybody) > len(ranked):
        caption += f" {count(len(everybody) - len(ranked))} more clients that suffer less are in the table."
    grid = marks.verticals(steps, board.x)
    return [board.chart("bars", "Where the clients' time goes", caption, alt, "clients", grid)]


def _steps(end: float) -> list[float]:
    """About six round numbers from 0 to `end`."""
    power = 10.0 ** math.floor(math.log10(end / 6))
    step = next(power * one for one in (1, 2, 5, 10) if power * one * 6 >= end)
    return [float(f"{i * step:.6g}") for i in range(int(end / step) + 1)]


def _bar(row: int, one: Client) -> list[dict[str, Any]]:
    network, server = mean_ms(one, "network"), mean_ms(one, "server")
    wait = one.queue_ms or 0.0
    margin = (_ROW_PX - _BAR_PX) / 2 / _ROW_PX
    found, at = [], 0.0
    for (key, _, solid, said), value in zip(_PARTS, (network, server - wait, wait), strict=True):
        if value:
            found.append(
                {"client": visible(one.name), "key": key, "part": said, "ms": float(f"{value:.5g}"), "start": at}
                | {"end": at + value, "above": row + margin, "below": row + 1 - margin, "solid": solid}
            )
        at += value
    return found


# ---- network against server ----


def scatter_chart(fleet: Fleet) -> list[Chart]:
    """Every client as a dot: its mean time on the network, and in the server."""
    ranked = list(enumerate(compared(fleet.clients), 1))
    if len(ranked) < 3:
        return []
    ranges = {}
    for part in ("network", "server"):
        known = [value for _, one in ranked if (value := mean_ms(one, part)) > 0]
        if not known:
            return []
        # A decade at least: what differs by a few per cent shall not fill the picture.
        low, high = min(known) * 0.8, max(known) * 1.4
        wider = max(1.0, math.sqrt(10 * low / high))
        ranges[part] = (low / wider, high * wider)
    low_x, high_x = ranges["network"]
    board = Board(marks.logarithmic("network, ms", low_x, high_x, "mean on the network, log scale"))
    low_y, high_y = ranges["server"]
    axis, title = log_ticks(low_y, high_y, grid=True), "mean server SRT, log scale"
    drawn = board.lane("", title, [low_y, high_y], _SCATTER_PX, axis, type="log")
    values = [
        {
            "client": visible(one.name),
            "rank": rank,
            "network": float(f"{max(mean_ms(one, 'network'), low_x):.5g}"),
            "server": float(f"{max(mean_ms(one, 'server'), low_y):.5g}"),
            "ops": one.ops,
            "excess": None if one.excess is None else float(f"{one.excess.total_s:.5g}"),
            "kind": "stands out" if one.outlier else "as most",
        }
        for rank, one in ranked
    ]
    kinds = ["as most", "stands out"]
    drawn.draw(
        "point",
        values,
        name="Clients, network against server",
        x="network",
        y="server",
        fill=marks.by_name("kind", dict(zip(kinds, ("var(--dim)", "var(--link)"), strict=True))),
        shape=marks.by_name("kind", dict(zip(kinds, ("circle", "diamond"), strict=True))),
        size={"condition": {"test": f"datum.kind == '{kinds[1]}'", "value": 90}, "value": 36},
        filled=True,
        opacity=0.75,
        aria=False,
        tip=(
            ("client", "client"),
            ("rank", "rank", ","),
            ("network", "network, mean, ms", ",.4~r"),
            ("server", "server SRT, mean, ms", ",.4~r"),
            ("ops", "ops (count)", ","),
            ("excess", "excess, s", ",.4~r"),
            ("kind", "kind"),
        ),
    )
    for label in _labels(ranked, ranges):
        right = math.log(label["x"] / low_x) > 0.5 * math.log(high_x / low_x)
        side: Spec = {"align": "right", "dx": 6} if right else {"align": "left", "dx": -6}
        place = marks.datum(board.x, label["x"]), marks.datum(drawn.y, label["y"])
        drawn.marks.append(marks.note(label["text"], *place, dy=-12, **side))
    drawn.marks.append(marks.note("diamonds stand out, circles are as most", marks.px(0), marks.px(10)))
    out = [one for _, one in ranked if one.outlier]
    alt = (
        f"{count(len(ranked))} clients by their mean time on the network and in the server; "
        f"{count_of(len(out), 'client')} stand{'s' if len(out) == 1 else ''} out"
        f"{': ' + ', '.join(visible(one.name) for one in out[:8]) if out else ''}."
    )
    caption = (
        "Each dot is a client. Far to the right: its path is slow; far up: the server is slow for it. One cloud means "
        "that what is slow is slow for all; dots apart are single clients, or groups. One label stands for dots that "
        "are close together. What is above the wire, such as a wait for a slot, is in neither figure."
    )
    grid = marks.verticals(board.x["axis"]["values"], board.x)
    return [board.chart("scatter", "Network against server", caption, alt, "clients", grid)]


def _labels(ranked: list[tuple[int, Client]], ranges: dict[str, tuple[float, float]]) -> list[dict[str, Any]]:
    """Of clients that stand out, the first of each heap."""
    found: list[dict[str, Any]] = []
    for _, one in ranked:
        if not one.outlier:
            continue
        place = {key: max(mean_ms(one, part), ranges[part][0]) for key, part in (("x", "network"), ("y", "server"))}
        near = next((other for other in found if _is_near(other, place, ranges)), None)
        if near is not None:
            near["more"] += 1
        elif len(found) < _MOST_LABELS:
            found.append({**place, "name": shorten(one.name, _NAME), "more": 0})
    return [{**one, "text": one["name"] + (f" and {one['more']} near it" if one["more"] else "")} for one in found]


def _is_near(one: dict[str, Any], other: dict[str, float], ranges: dict[str, tuple[float, float]]) -> bool:
    return all(
        abs(math.log(one[key] / other[key])) < _NEAR * math.log(ranges[part][1] / ranges[part][0])
        for key, part in (("x", "network"), ("y", "server"))
    )
