"""What each sender waited for, when -> a row a cause; and turns over time."""

from __future__ import annotations

from nfslat.answer.words import ms
from nfslat.model.causes import LIMITS, WORDS, Limit
from nfslat.report.charts import legend
from nfslat.report.charts.chart import Chart, Spec
from nfslat.report.charts.style import heading, lane, tips, words
from nfslat.report.text_layout import count, count_of, duration, visible
from nfslat.tcp.charts.axes import COSTS, DATA, GAP_PX, Board, Clock, durations, most, thinned
from nfslat.tcp.graphs import Graphs, Waited, WayGraphs
from nfslat.tcp.limits import Limits
from nfslat.tcp.model import Detail
from nfslat.tcp.thinned import STRETCHES
from nfslat.tcp.turns import Turns

_ROW_PX, _BAR_PX, _TITLE_PX = 30, 12, 22
_FAR = 60
_LEAST_BAR = 0.25


def waits_chart(one: Detail, graphs: Graphs, name: str) -> list[Chart]:
    """Rows of the causes that either sender waited for."""
    clock = Clock(graphs)
    board = Board(clock, [])
    for at, way in enumerate(graphs.ways):
        if way.waited:
            waits_lane(board, way, one.waits.limits[at])
    if not board.found:
        return []
    left = [way for way in graphs.ways if way.waited_count > len(way.waited)]
    caption = "Times in which a sender had data to send and did not send, by what it waited for." + "".join(
        f" From {way.sender} there are {count(way.waited_count)}: a bar is the higher the larger the share of its "
        "time, and the long ones are drawn besides."
        for way in left
    )
    alt = "What the senders waited for, over time. " + " ".join(_said(way) for way in graphs.ways if way.waited)
    spec, height = board.spec(alt)
    return [Chart(f"waits-{name}", "What the senders waited for", caption, alt, spec, height + 50, "waits")]


def _said(way: WayGraphs) -> str:
    parts = [f"{WORDS[cause].limit} {duration(sum(wait.ms for wait in found))}" for cause, found in _by_cause(way)]
    return f"{way.sender}: {', '.join(parts)}."


def waits_lane(board: Board, way: WayGraphs, limits: Limits | None = None) -> None:
    """A row a cause, the one that cost most in the colour of what costs. `limits` have the sums of the whole, which
    hold waits that are not drawn."""
    clock = board.clock
    rows = _by_cause(way)
    worst = max(rows, key=lambda row: sum(wait.ms for wait in row[1]))[0]
    height = _ROW_PX * len(rows)
    drawn = lane(board.top + _TITLE_PX, height, "", [height, 0], None)
    drawn.marks.append(heading(visible(f"{way.sender} waited for"), board.top + 14))
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
        drawn.marks += [
            words(said, {"value": 0}, {"value": top + 12}, fontSize=11),
            *([] if drawn_all or limits is None else [_sums(limits, cause, clock, top + 16, colour)]),
            _bars(
                [wait for wait in found if drawn_all or wait.ms >= pixel_ms],
                clock,
                top + 16,
                colour,
                WORDS[cause].limit,
            ),
        ]
    board.found.append(drawn)
    board.top = drawn.bottom + GAP_PX


def _sums(limits: Limits, cause: Limit, clock: Clock, top: int, colour: str) -> Spec:
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
    shown = tips(
        clock.tip(),
        ("to", f"until, {clock.unit}", ",.9~r"),
        ("waited", "waited in it, ms", ",.6~r"),
        ("share", "share of it", ".1%"),
    )
    return {
        "description": f"{WORDS[cause].limit}, all waits",
        "data": {"values": values},
        "mark": {"type": "rect", "fill": colour, "fillOpacity": 0.7, "aria": False},
        "encoding": {
            "tooltip": shown,
            "x": {**clock.x, "field": "at"},
            "x2": {"field": "to"},
            "y": {"field": "high", "type": "quantitative", "scale": None, "axis": None, "title": None},
            "y2": {"value": top + _BAR_PX},
        },
    }


def _by_cause(way: WayGraphs) -> list[tuple[Limit, list[Waited]]]:
    found = [(limit, [wait for wait in way.waited if wait.cause is limit]) for limit in LIMITS]
    return [(limit, waits) for limit, waits in found if waits]


def _bars(found: list[Waited], clock: Clock, top: int, colour: str, what: str) -> Spec:
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
    shown = tips(
        clock.tip(),
        ("waited", "waited, ms", ",.6~r"),
        ("what", "for"),
        ("before", "frame of the data before", "d"),
        ("frame", "frame of the data after", "d"),
        ("filter", "Wireshark filter"),
    )
    # Where one of the frames is not known the filter is open at that end.
    told = "datum.before == null && datum.frame == null ? '' : "
    told += "datum.before == null ? 'frame.number <= ' + datum.frame : "
    told += "datum.frame == null ? 'frame.number >= ' + datum.before : "
    told += "'frame.number in {' + min(datum.before, datum.frame) + '..' + max(datum.before, datum.frame) + '}'"
    return {
        "description": what,
        "data": {"values": values},
        "transform": [{"calculate": told, "as": "filter"}],
        "mark": {
            "type": "rect",
            "fill": colour,
            "stroke": colour,
            "strokeWidth": 1,
            "cursor": "pointer",
            "aria": False,
        },
        "encoding": {
            "tooltip": shown,
            "x": {**clock.x, "field": "at"},
            "x2": {"field": "to"},
            "y": {"value": top},
            "y2": {"value": top + _BAR_PX},
        },
    }


def turns_chart(one: Detail, graphs: Graphs, name: str) -> list[Chart]:
    """How long each turn took."""
    of, turns = graphs.turns_ms, one.turns
    if of is None or not of.points:
        return []
    clock = Clock(graphs)
    board = Board(clock, [])
    top, low = most(of), max(min(of.low), 1e-3)
    mean = turns.whole.mean_ms if turns.whole is not None else 0.0
    is_log = top > _FAR * max(mean, 1e-3)
    keys = [legend.dot(f"a turn: {_what(turns)}", DATA, "circle")]
    durations(board, "Turns", keys, of, "turn", top=top, log_from=low if is_log else None, least=low)
    caption = f"From the first byte of a request to the last of its response.{thinned([of], 'turns', clock)}"
    alt = f"Duration of {count_of(of.points, 'turn')} over time: mean {ms(mean)} ms, longest {ms(top)} ms."
    spec, height = board.spec(alt)
    return [Chart(f"turns-{name}", "Turns over time", caption, alt, spec, height + 50, "turns")]


def _what(turns: Turns) -> str:
    asker = f"{turns.asker} asks" if turns.asker else "request and response"
    return visible(f"{asker}, {count_of(turns.count, 'turn')}")
