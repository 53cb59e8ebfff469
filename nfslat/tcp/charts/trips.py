"""Round trips over time -> a lane a direction: spikes, delayed ACKs with the decay behind them, and what was held."""

from __future__ import annotations

from nfslat.answer.words import ms
from nfslat.report.charts import legend
from nfslat.report.charts.board import Lane
from nfslat.report.charts.chart import Chart, Spec
from nfslat.report.charts.style import INK
from nfslat.report.text_layout import count_of
from nfslat.tcp.charts.axes import COSTS, DATA, Clock, TimeBoard, board_of, dots, durations, most, ranges, thinned
from nfslat.tcp.graphs import Graphs, LateAck, WayGraphs
from nfslat.tcp.model import Detail
from nfslat.tcp.rounds import HeldBack

_FAR = 60  # typical ones: where the highest is above so many, the axis is a logarithm
_FLOOR_MS = 1e-3
_CROWD = 60  # marks: more are drawn smaller
_DECADE = 10  # at least, of an axis that is a logarithm


def trips_chart(one: Detail, graphs: Graphs, name: str, title: str) -> list[Chart]:
    """Of both directions that have any."""
    board = board_of(graphs)
    for at, way in enumerate(graphs.ways):
        if way.trips_ms.points or way.late:
            trips_lane(board, way, one.waits.rounds[at].held)
    if not board.lanes:
        return []
    caption = (
        "From each data packet to the first ACK that covers it, by when the data were sent. All data that one delayed "
        "ACK covers wait for it: the later they were sent the shorter, so that round trips fall by a straight line. "
        "ACKs that come with data hold the time of the application that sends these."
        + thinned([way.trips_ms for way in graphs.ways], "round trips", board.clock)
    )
    alt = "Round trips over time. " + " ".join(map(_said, graphs.ways))
    return [board.chart(f"trips-{name}", title, caption, alt, "trips")]


def trips_lane(board: TimeBoard, way: WayGraphs, held: tuple[HeldBack, ...]) -> None:
    """A lane of one direction."""
    clock = board.clock
    waited = [late for late in way.late if late.is_waited_for]
    idle = [late for late in way.late if not late.is_waited_for]
    inside = [one for one in held if clock.graphs.from_ms <= one.at_ms <= clock.graphs.to_ms]
    keys = [legend.dot("round trip", DATA, "circle")]
    if way.typical_ms is not None:
        keys.append(legend.line(f"median, {ms(way.typical_ms)} ms", INK, strokeDash=[4, 4], strokeWidth=1))
    if waited:
        keys.append(legend.dot(f"delayed ACK, waited for{_timers(waited)}", COSTS, "triangle-up"))
    if idle:
        keys.append(legend.dot(f"delayed ACK at no cost{_timers(idle)}", COSTS, "triangle-up", filled=False))
    if way.spikes:
        keys.append(legend.dot("spike: 3 medians or more, no timer's", INK, "diamond", filled=False))
    if inside:
        keys.append(legend.line("held, then released together", INK, strokeWidth=2))
    # From near no round trip may be as long, or as short, as the median of the whole.
    typical = [] if way.typical_ms is None else [way.typical_ms]
    top = max([most(way.trips_ms), *(late.ms for late in way.late), *typical], default=1.0)
    low = max(min([*way.trips_ms.low, top / _DECADE, *typical]), _FLOOR_MS)
    is_log = way.typical_ms is not None and top > _FAR * max(way.typical_ms, _FLOOR_MS)
    lane = durations(
        *(board, f"Data of {way.sender}", keys, way.trips_ms, "round trip"),
        top=top,
        log_from=low if is_log else None,
        least=_FLOOR_MS,
        description="Round trips",
    )
    if way.typical_ms is not None:
        lane.level(max(way.typical_ms, _FLOOR_MS), stroke=INK, strokeDash=[4, 4], strokeWidth=1)
    for these, filled in ((waited, True), (idle, False)):
        if these:
            _late(these, clock, lane, filled=filled)
    if way.spikes:
        values = [
            {"at": clock.at(one.at_ms), "round_trip": one.ms, "frame": one.frame, "ack_frame": one.ack_frame}
            for one in way.spikes
        ]
        look: Spec = {"shape": "diamond", "size": 55 if len(values) <= _CROWD else 18, "filled": False}
        dots(values, clock, lane, "round_trip", "spike, ms", stroke=INK, strokeWidth=1.3, **look)
    if inside:
        least = low if is_log else 0.0
        falls = [
            {
                "at": clock.at(one.at_ms),
                "to": clock.at(one.at_ms + one.ms),
                "low": max(one.peak_ms + (way.typical_ms or 0.0), least),
                "high": max(way.typical_ms or 0.0, least),
            }
            for one in inside
        ]
        ranges(falls, lane, x2="to", stroke=INK, strokeWidth=2)


def _late(found: list[LateAck], clock: Clock, lane: Lane, *, filled: bool) -> None:
    values = [
        {
            "at": clock.at(one.at_ms),
            "to": clock.at(one.last_at_ms),
            "round_trip": one.ms,
            "low": one.ms,
            "high": max(one.last_ms, _FLOOR_MS),
            "covers": one.packets,
            "frame": one.data_frame,
            "ack_frame": one.frame,
        }
        for one in found
    ]
    more = [("covers", "data packets that it covers", ",")]
    look = {"shape": "triangle-up", "size": 70, "filled": filled, "stroke": COSTS, "strokeWidth": 1.3}
    ranges([value for value in values if value["to"] > value["at"]], lane, x2="to", stroke=COSTS, strokeWidth=1.5)
    dots(values, clock, lane, "round_trip", "delayed ACK, ms", more, **look, **({"fill": COSTS} if filled else {}))


def _timers(found: list[LateAck]) -> str:
    timers = sorted({one.timer_ms for one in found if one.timer_ms is not None})
    return f" ({' or '.join(map(str, timers))} ms)" if timers else ""


def _said(way: WayGraphs) -> str:
    text = f"From {way.sender}: {count_of(way.trips_ms.points, 'sample')}"
    if way.typical_ms is not None:
        text += f", median {ms(way.typical_ms)} ms, highest {ms(most(way.trips_ms))} ms"
    return f"{text}, {count_of(way.late_count, 'delayed ACK')}, {count_of(way.spike_count, 'other spike')}."
