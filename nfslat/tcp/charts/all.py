"""The report on TCP conversations -> its charts, those of each conversation in the order in which a reader asks."""

from __future__ import annotations

from nfslat.model.causes import WORDS
from nfslat.report.charts.chart import Chart
from nfslat.report.text_layout import duration
from nfslat.tcp.charts.axes import board_of
from nfslat.tcp.charts.flight import flight_chart, rate_chart
from nfslat.tcp.charts.sequence import sequence_chart, sequence_lane
from nfslat.tcp.charts.sizes import sizes_chart
from nfslat.tcp.charts.trips import trips_chart, trips_lane
from nfslat.tcp.charts.waits import turns_chart, waits_chart, waits_lane
from nfslat.tcp.graphs import Graphs
from nfslat.tcp.model import Detail, Report


def charts(report: Report) -> list[Chart]:
    """Of the conversations in full that pictures were made for; a chart that would show nothing is not there."""
    return [chart for one in report.details for chart in charts_of(one)]


def charts_of(one: Detail) -> list[Chart]:
    """Of one conversation."""
    if one.pictures is None:
        return []
    whole, close, name = one.pictures.whole, one.pictures.close, str(one.stream)
    return [
        *waits_chart(one, whole, name),
        *turns_chart(one, whole, name),
        *trips_chart(one, whole, name, "Round trips"),
        *([] if close is None else _close(one, close, name)),
        *sequence_chart(whole, name, "Bytes sent and acknowledged"),
        *flight_chart(one, whole, name),
        *rate_chart(one, whole, name),
        *sizes_chart(one, name),
    ]


def _close(one: Detail, graphs: Graphs, name: str) -> list[Chart]:
    """What was waited for longest, from near: who waited, what was sent and acknowledged, and round trips."""
    board = board_of(graphs)
    for way in graphs.ways:
        if way.waited:
            waits_lane(board, way)
    for way in graphs.ways:
        if way.sent.points:
            sequence_lane(board, way)
    for at, way in enumerate(graphs.ways):
        if way.trips_ms.points or way.late:
            trips_lane(board, way, one.waits.rounds[at].held)
    if not board.lanes:
        return []
    waits = [(wait.ms, wait, way) for way in graphs.ways for wait in way.waited]
    title = "The longest spike, from near"
    if waits:
        long_ms, wait, way = max(waits, key=lambda one: one[0])
        title = f"The longest wait, from near: {way.sender}, {duration(long_ms)}, {WORDS[wait.cause].limit}"
    caption = "Who waited, what was sent and acknowledged, and the round trips, packet by packet where there is room."
    return [board.chart(f"close-{name}", title, caption, f"{title}. {caption}", "close")]
