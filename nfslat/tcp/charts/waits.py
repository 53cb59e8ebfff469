"""What each sender waited for, when -> a row a cause; and turns over time."""

from __future__ import annotations

from nfslat.answer.words import ms
from nfslat.model.causes import LIMITS, WORDS, Limit
from nfslat.report.charts import legend
from nfslat.report.charts.board import Lane
from nfslat.report.charts.chart import Chart, Spec
from nfslat.report.charts.marks import at_px, note, px
from nfslat.report.text_layout import count, count_of, duration, visible
from nfslat.tcp.charts.axes import COSTS, DATA, FILTER, Clock, TimeBoard, board_of, durations, most, thinned
from nfslat.tcp.graphs import Graphs, Waited, WayGraphs
from nfslat.tcp.limits import Limits
from nfslat.tcp.model import Detail
from nfslat.tcp.thinned import STRETCHES
from nfslat.tcp.turns import Turns

_ROW_PX, _BAR_PX = 30, 12
_FAR = 60
_LEAST_BAR = 0.25


def waits_chart(one: Detail, graphs: Graphs, name: str) -> list[Chart]:
    """Rows of the causes that either sender waited for."""
    board = board_of(graphs)
    for at, way in enumerate(graphs.ways):
        if way.waited:
            waits_lane(board, way, one.waits.limits[at])
    if not board.lanes:
        return []
    left = [way for way in graphs.ways if way.waited_count > len(way.waited)]
    caption = "Times in which a sender had data to send and did not send, by what it waited for." + "".join(
        f" From {way.sender} there are {count(way.waited_count)}: a bar is the higher the larger the share of its "
        "time, and the long ones are drawn besides."
        for way in left
    )
    alt = "What the senders waited for, over time. " + " ".join(_said(way) for way in graphs.ways if way.waited)
    return [board.chart(f"waits-{name}", "What the senders waited for", caption, alt, "waits")]


def _said(way: WayGraphs) -> str:
    parts = [f"{WORDS[cause].limit} {duration(sum(wait.ms for wait in found))}" for cause, found in _by_cause(way)]
    return f"{way.sender}: {', '.join(parts)}."


def waits_lane(board: TimeBoard, way: WayGraphs, limits: Limits | None = None) -> None:
    """A row a cause, the one that cost most in the colour of what costs. `limits` have the sums of the whole, which
    hold waits that are not drawn."""
    clock = board.clock
    rows = _by_cause(way)
    worst = max(rows, key=lambda row: sum(wait.ms for wait in row[1]))[0]
    height = _ROW_PX * len(rows)
    drawn = board.lane(visible(f"{way.sender} waited for"), "", [height, 0], height, None)
    sums = {} if limits is None else {limit.limit: (limit.ms, limit.waits) for limit in limits.limits}
    # Of very many waits those that are drawn one by one would be seen for all; what is narrower than a pixel is not
    # missed, for the sums have it.
    drawn_all = limits is None or way.waited_count == len(way.waited)
    pixel_ms = (clock.graphs.to_ms - clock.graphs.from_ms) / STRETCHES
    for at, (cause, found) in enumerate(rows):
        top = drawn.top + _ROW_PX * at
        total, many = sums.get(cause, (sum(wait.ms for wait in found), len(found)))
        colour = COSTS if cause == worst else DATA
        said = f"{WORDS[cause].limit}: {duration(total)} in {count(many)}"
        drawn.marks.append(note(said, px(0), px(top + 12)))
        if not drawn_all and limits is not None:
            _sums(drawn, limits, cause, clock, top + 16, colour)
        shown = [wait for wait in found if drawn_all or wait.ms >= pixel_ms]
        _bars(drawn, shown, clock, top + 16, colour, WORDS[cause].limit)


def _sums(drawn: Lane, limits: Limits, cause: Limit, clock: Clock, top: int, colour: str) -> None:
    """Time waited in equal parts of the whole, none left out: the higher a bar, the larger the share of its part."""
    place = LIMITS.index(cause)
    begin = clock.graphs.from_ms
    values = [
        {
            "at": clock.at(begin + at * limits.bin_ms),
            "to": clock.at(min(begin + (at + 1) * limits.bin_ms, clock.graphs.to_ms)),
            "waited": row[place],
            "share": min(row[place] / limits.bin_ms, 1.0),
            # However short, it is seen.
            "high": top + _BAR_PX * (1 - min(max(row[place] / limits.bin_ms, _LEAST_BAR), 1.0)),
        }
        for at, row in enumerate(limits.bins)
        if row[place]
    ]
    tip = (clock.tip, clock.until, ("waited", "waited in it, ms", ",.6~r"), ("share", "share of it", ".1%"))
    where: Spec = {"x": "at", "x2": "to", "y": at_px("high"), "y2": px(top + _BAR_PX)}
    look = {"fill": colour, "fillOpacity": 0.7, "aria": False}
    drawn.draw("rect", values, name=f"{WORDS[cause].limit}, all waits", tip=tip, **where, **look)


def _by_cause(way: WayGraphs) -> list[tuple[Limit, list[Waited]]]:
    found = [(limit, [wait for wait in way.waited if wait.cause is limit]) for limit in LIMITS]
    return [(limit, waits) for limit, waits in found if waits]


def _bars(drawn: Lane, found: list[Waited], clock: Clock, top: int, colour: str, what: str) -> None:
    values = [
        {
            "at": clock.at(max(wait.at_ms, clock.graphs.from_ms)),
            "to": clock.at(min(wait.at_ms + wait.ms, clock.graphs.to_ms)),
            "waited": wait.ms,
            "what": what,
            "frame": wait.frame,
            "before": wait.before_frame,
        }
        for wait in found
    ]
    tip = (
        clock.tip,
        ("waited", "waited, ms", ",.6~r"),
        ("what", "for"),
        ("before", "frame of the data before", "d"),
        ("frame", "frame of the data after", "d"),
        FILTER,
    )
    # Where one of the frames is not known the filter is open at that end.
    told = "datum.before == null && datum.frame == null ? '' : "
    told += "datum.before == null ? 'frame.number <= ' + datum.frame : "
    told += "datum.frame == null ? 'frame.number >= ' + datum.before : "
    told += "'frame.number in {' + min(datum.before, datum.frame) + '..' + max(datum.before, datum.frame) + '}'"
    where: Spec = {"x": "at", "x2": "to", "y": px(top), "y2": px(top + _BAR_PX)}
    look = {"fill": colour, "stroke": colour, "strokeWidth": 1, "cursor": "pointer", "aria": False}
    drawn.draw("rect", values, name=what, calculate={"filter": told}, tip=tip, **where, **look)


def turns_chart(one: Detail, graphs: Graphs, name: str) -> list[Chart]:
    """How long each turn took."""
    of, turns = graphs.turns_ms, one.turns
    if of is None or not of.points:
        return []
    board = board_of(graphs)
    top, low = most(of), max(min(of.low), 1e-3)
    mean = turns.whole.mean_ms if turns.whole is not None else 0.0
    is_log = top > _FAR * max(mean, 1e-3)
    keys = [legend.dot(f"a turn: {_what(turns)}", DATA, "circle")]
    durations(board, "Turns", keys, of, "turn", top=top, log_from=low if is_log else None, least=low)
    caption = f"From the first byte of a request to the last of its response.{thinned([of], 'turns', board.clock)}"
    alt = f"Duration of {count_of(of.points, 'turn')} over time: mean {ms(mean)} ms, longest {ms(top)} ms."
    return [board.chart(f"turns-{name}", "Turns over time", caption, alt, "turns")]


def _what(turns: Turns) -> str:
    asker = f"{turns.asker} asks" if turns.asker else "request and response"
    return visible(f"{asker}, {count_of(turns.count, 'turn')}")
