"""Bytes sent and acknowledged over time -> a lane a direction, with what was sent again and the end of the window."""

from __future__ import annotations

from nfslat.report.charts import legend
from nfslat.report.charts.chart import Chart
from nfslat.report.charts.style import INK
from nfslat.report.text_layout import count, count_of
from nfslat.tcp.charts import axes
from nfslat.tcp.graphs import Graphs, WayGraphs

_KINDS = {
    "retransmission": ("retransmitted", "cross", axes.COSTS),
    "spurious": ("retransmitted, though it had arrived", "cross", INK),
    "out-of-order": ("out of order", "square", INK),
}


def sequence_chart(graphs: Graphs, name: str, title: str) -> list[Chart]:
    """Of both directions that have data."""
    board = axes.board_of(graphs)
    for way in graphs.ways:
        if way.sent.points:
            sequence_lane(board, way)
    if not board.lanes:
        return []
    caption = (
        "Bytes since the first one of each direction: a bar is a packet, the line below it is what was acknowledged, "
        "the dashed one how far the receiver's window goes."
    ) + axes.thinned([way.sent for way in graphs.ways], "data packets", board.clock)
    alt = "Bytes sent and acknowledged over time. " + " ".join(
        f"From {way.sender}: {count_of(way.sent.points, 'data packet')}, {count(way.again_count)} retransmitted or out "
        "of order."
        for way in graphs.ways
    )
    return [board.chart(f"sequence-{name}", title, caption, alt, "sequence")]


def sequence_lane(board: axes.TimeBoard, way: WayGraphs) -> None:
    """A lane of one direction."""
    clock = board.clock
    kinds = dict.fromkeys(one.kind for one in way.again)
    top, low = axes.most(way.sent), min([*way.sent.low, *(one.byte for one in way.again)], default=0.0)
    reach = axes.most(way.allowed) if way.allowed is not None and way.allowed.points else None
    far = reach is not None and reach - top > 2 * max(top - low, 1.0)
    keys = [legend.line("sent", axes.DATA, strokeWidth=3), legend.line("acknowledged", axes.ACKS, strokeWidth=1.5)]
    if reach is not None:
        text = "end of the receiver's window" + (", above this axis" if far else "")
        keys.append(legend.line(text, axes.WINDOW, strokeDash=[6, 3], strokeOpacity=0.0 if far else 1.0))
    keys += [legend.dot(_KINDS[kind][0], _KINDS[kind][2], _KINDS[kind][1]) for kind in kinds]
    shown = top if far or reach is None else max(top, reach)
    room = (shown - low) * 0.05 or 1.0
    domain, title = [low - room, shown + room], f"Sent by {way.sender}"
    lane = board.graph(title, "bytes", domain, keys, axes.of_bytes(low, shown), clamp=True)
    acked, _ = axes.extremes(way.acked, clock, "bytes")
    acked.sort(key=lambda one: (one["at"], one["bytes"]))
    if reach is not None and not far and way.allowed is not None:
        allowed, _ = axes.extremes(way.allowed, clock, "bytes")
        allowed.sort(key=lambda one: one["at"])
        axes.steps(allowed, lane, "bytes", stroke=axes.WINDOW, strokeDash=[6, 3])
    axes.steps(acked, lane, "bytes", stroke=axes.ACKS, strokeWidth=1.5)
    of = way.sent
    columns = (of.low_at_ms, of.low, of.high_at_ms, of.high, of.high_frame)
    sent = [
        {"at": clock.at(at), "low": low, "to": clock.at(to), "high": high, "bytes": high, "frame": frame}
        for at, low, to, high, frame in zip(*columns, strict=True)
    ]
    axes.ranges(sent, lane, x2="to", stroke=axes.DATA, strokeWidth=3)
    found = [{"at": one["to"], "bytes": one["high"], "frame": one["frame"]} for one in sent]
    # What the pointer finds: a bar of a packet is thin.
    axes.dots(found, clock, lane, "bytes", "sent up to byte", fill=axes.DATA, size=10)
    for kind in kinds:
        words, shape, colour = _KINDS[kind]
        values = [
            {"at": clock.at(one.at_ms), "bytes": one.byte, "frame": one.frame} for one in way.again if one.kind == kind
        ]
        axes.dots(values, clock, lane, "bytes", f"{words}, from byte", shape=shape, size=45, fill=colour)
