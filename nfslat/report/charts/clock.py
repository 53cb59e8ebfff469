"""Report -> what the ops say of the two clocks, and the estimate that goes between."""

from __future__ import annotations

from dataclasses import replace

from nfslat.answer.model import Clock, Report
from nfslat.answer.pictures import EnvelopePoint, Pictures
from nfslat.model.units import to_s
from nfslat.report.charts import events
from nfslat.report.charts.board import HEAD_PX, Board, Lane
from nfslat.report.charts.chart import Chart
from nfslat.report.charts.events import moment_ns
from nfslat.report.charts.heat import time_axis
from nfslat.report.charts.marks import beside, datum, note, px
from nfslat.report.charts.style import COLOUR, PLAIN, margin, spread
from nfslat.report.text_layout import count_of

_COURSE_PX, _ENVELOPE_PX = 90, 200
_MOST_STEPS = 8
_KEY_PX = 14
_MOST = 0.9  # of the bounds; the scale is made for these


def clock_chart(report: Report) -> list[Chart]:
    """One chart, where calls or replies say anything of the clocks."""
    pictures = report.pictures
    if report.inferred is not None or pictures is None:
        return []
    if not any(one.least_ms is not None or one.most_ms is not None for one in pictures.envelope):
        return []
    over, happened = pictures.over_time, events.marks(report)
    x = time_axis(over.begin, over.bins, over.bin_ms)
    steps = _steps(report.clock, pictures)
    board = Board(x, events.height(happened, x))
    _course(board, pictures, steps)
    near = [one for one in pictures.envelope if one.theta_ms is not None]
    left_out = _envelope(board, near, steps) if near else 0
    alt, caption = _words(report.clock, near, steps)
    if steps:
        caption += " Dashes: a clock was set there, and theta changed by so much."
    if left_out:
        caption += f" {count_of(left_out, 'bound')} further off {'is' if left_out == 1 else 'are'} not drawn."
    return [board.chart("clock", "The two clocks", caption, alt, "clock", events.drawn(happened, x, board.lanes))]


def _words(clock: Clock | None, near: list[EnvelopePoint], steps: list[tuple[float, float]]) -> tuple[str, str]:
    caption = (
        "theta is the server's clock minus the client's. A call cannot arrive before it was sent, nor a reply: each "
        "call says that theta is not above a value, each reply that it is not below one. "
    )
    if clock is None or clock.theta_ms is None or clock.bound_ms is None:
        return (
            "What calls and replies say of theta over time; no theta agrees with them.",
            caption + "No theta agrees with the calls and replies, so none is drawn.",
        )
    low, high = clock.bound_ms
    alt = f"theta is {clock.theta_ms:,.3f} ms, between {low:,.3f} and {high:,.3f} ms"
    alt += f", and drifts by {clock.drift_ppm:+,.1f} ppm" if clock.drifts else ""
    alt += f"; {count_of(len(steps), 'step')}" if steps else ""
    caption += (
        "Of each stretch of time the tightest two are drawn. The estimate lies between. The grey band is what all of "
        "them together leave, but never less than the ops of the best few moments leave by themselves: clocks that "
        "wander a little would make theta look better known than it is. So single bounds can lie inside the band. Half "
        "of its height is the error of one-way figures."
        if near
        else ""
    )
    return alt + ".", caption


def _steps(clock: Clock | None, pictures: Pictures) -> list[tuple[float, float]]:
    """(seconds since the begin, ms) of the times at which a clock was set."""
    if clock is None:
        return []
    end = pictures.over_time.bins * pictures.over_time.bin_ms / 1e3
    begin = moment_ns(pictures.over_time.begin)
    found = [(to_s(moment_ns(step.at) - begin), step.ms) for step in clock.steps]
    return [(at, jump) for at, jump in found if 0 <= at <= end][:_MOST_STEPS]


def _course(board: Board, pictures: Pictures, steps: list[tuple[float, float]]) -> None:
    """theta itself, or, where none fits, what would bound it."""
    rows = pictures.envelope
    fits = any(one.theta_ms is not None for one in rows)
    values = [
        v for one in rows for v in ((one.theta_ms, *(one.bound_ms or ())) if fits else (one.least_ms, one.most_ms))
    ]
    domain = margin(spread(values), 0.15, 0.15)
    title = "Estimate of theta" if fits else "What calls and replies say of theta"
    drawn = board.lane(title, "theta, ms", domain, _COURSE_PX, {"tickCount": 3, "format": ",.12~r"})
    if fits:
        _line(rows, drawn, steps)
    else:
        _points(rows, drawn, "ms", 0)
    for at, jump in steps:
        drawn.upright(at, strokeDash=[4, 3])
        side = beside(at / board.x["scale"]["domain"][1])
        drawn.marks.append(note(f"theta {jump:+,.3f} ms", datum(board.x, at), px(drawn.top + 12), **side))


_STRETCH = {"field": "stretch", "type": "nominal", "title": "stretch between steps"}


def _stretch(one: EnvelopePoint, steps: list[tuple[float, float]]) -> int:
    return sum(at <= one.at_s for at, _ in steps)


def _line(rows: list[EnvelopePoint], drawn: Lane, steps: list[tuple[float, float]]) -> None:
    # A line for each stretch between steps: theta does not slide from one value to the other.
    values = [
        {"at": one.at_s, "theta": one.theta_ms, "stretch": _stretch(one, steps)}
        for one in rows
        if one.theta_ms is not None
    ]
    tip = ("at", "time, s", ",.6~r"), ("theta", "theta, ms", ",.9~r")
    # A stretch of one moment is no line: the dots show it.
    for kind, look in (("line", {"strokeWidth": 2}), ("point", {"size": 8, "filled": True})):
        drawn.draw(kind, values, x="at", y="theta", tip=tip, detail=_STRETCH, style="inked", **look)


def _envelope(board: Board, rows: list[EnvelopePoint], steps: list[tuple[float, float]]) -> int:
    """Bounds and band, less the estimate: drift and steps would leave nothing to be seen of them. Returns how many
    bounds are so far off that they would flatten the others."""
    limit = _reach(rows)
    inside = [
        replace(one, least_ms=_within(one.least_ms, one, limit), most_ms=_within(one.most_ms, one, limit))
        for one in rows
    ]
    left_out = sum(
        getattr(one, name) is not None and getattr(other, name) is None
        for one, other in zip(rows, inside, strict=True)
        for name in ("least_ms", "most_ms")
    )
    shown = [v - (one.theta_ms or 0.0) for one in inside for v in _bounds(one)]
    low, high = margin(spread(shown, 0.0), 0.06, 0.06)
    top, room = board.top, HEAD_PX + 2 + _KEY_PX * len(_KEYS)
    axis = {"format": "+" + PLAIN, "tickCount": 6}
    drawn = board.lane("Distance from the estimate", "ms from the estimate", [low, high], _ENVELOPE_PX, axis, room=room)
    drawn.marks += [note(text, px(0), px(top + 30 + _KEY_PX * row)) for row, text in enumerate(_KEYS)]
    values = [
        {
            "at": one.at_s,
            "low": one.bound_ms[0] - one.theta_ms,
            "high": one.bound_ms[1] - one.theta_ms,
            "stretch": _stretch(one, steps),
        }
        for one in rows
        if one.bound_ms is not None and one.theta_ms is not None
    ]
    tip = ("at", "time, s", ",.6~r"), ("low", "band from, ms off", "+,.4~r"), ("high", "band to, ms off", "+,.4~r")
    band = {"fillOpacity": 0.3, "line": False, "style": "dim", "detail": _STRETCH}
    drawn.draw("area", values, x="at", y="low", y2="high", tip=tip, **band)
    _points(inside, drawn, "ms from the estimate", 1)
    drawn.level(0, strokeWidth=1.5)
    return left_out


def _bounds(one: EnvelopePoint) -> list[float]:
    return [v for v in (one.least_ms, one.most_ms, *(one.bound_ms or ())) if v is not None]


def _reach(rows: list[EnvelopePoint]) -> float:
    """How far from the estimate bounds are drawn, ms: as far as the band and most of them go, and half as far again."""
    apart = sorted(abs(v - (one.theta_ms or 0.0)) for one in rows for v in (one.least_ms, one.most_ms) if v is not None)
    band = [abs(v - (one.theta_ms or 0.0)) for one in rows for v in one.bound_ms or ()]
    return max([1.5 * apart[int(_MOST * (len(apart) - 1))] if apart else 0.0, *band])


def _within(bound: float | None, one: EnvelopePoint, limit: float) -> float | None:
    return bound if bound is not None and abs(bound - (one.theta_ms or 0.0)) <= limit else None


_KEYS = (
    "triangles down: at most this, say calls",
    "triangles up: at least this, say replies",
    "grey band: where theta can be",
)


def _points(rows: list[EnvelopePoint], drawn: Lane, unit_text: str, relative: int) -> None:
    kinds = (
        ("most_ms", "client", "triangle-down", "not above, by calls"),
        ("least_ms", "server", "triangle-up", "not below, by replies"),
    )
    for name, side, shape, what in kinds:
        apart = f"{name}_apart"
        values = [
            {"at": one.at_s, apart: bound - relative * (one.theta_ms or 0.0), name: bound}
            for one in rows
            if (bound := getattr(one, name)) is not None
        ]
        tip = (
            ("at", "time, s", ",.6~r"),
            (apart, f"{what}, {unit_text}", "+,.4~r"),
            (name, f"theta {what}, ms", ",.9~r"),
        )
        look = {"shape": shape, "size": 34, "filled": True, "color": COLOUR[side], "opacity": 0.9}
        drawn.draw("point", values, x="at", y=apart, tip=tip, **look)
