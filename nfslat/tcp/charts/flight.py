"""Bytes in flight with the receiver's window, and rates -> lanes by direction."""

from __future__ import annotations

from typing import Any

from nfslat.report.charts import legend
from nfslat.report.charts.board import Way
from nfslat.report.charts.chart import Chart
from nfslat.report.charts.style import COLOUR
from nfslat.report.text_layout import count, rate, visible
from nfslat.tcp.charts import axes
from nfslat.tcp.graphs import Graphs, WayGraphs
from nfslat.tcp.model import Detail
from nfslat.tcp.windows import Windows

_FAR = 4  # times what is in flight: a window above would flatten the lane
_RATE_PX = 110


def flight_chart(one: Detail, graphs: Graphs, name: str) -> list[Chart]:
    """Of both directions that have data."""
    board = axes.board_of(graphs)
    for way, windows in zip(graphs.ways, one.waits.windows, strict=True):
        if way.in_flight.points:
            _lane(board, way, windows)
    if not board.lanes:
        return []
    caption = (
        "Sent and not acknowledged behind each data packet, and the window that the receiver announced. A sender stops "
        "where the two meet."
    ) + axes.thinned([way.in_flight for way in graphs.ways], "data packets", board.clock)
    alt = "Bytes in flight and receive window over time. " + " ".join(
        f"From {way.sender}: up to {count(round(axes.most(way.in_flight)))} bytes in flight; {scale_of(windows)}."
        for way, windows in zip(graphs.ways, one.waits.windows, strict=True)
    )
    return [board.chart(f"flight-{name}", "Bytes in flight and receive window", caption, alt, "flight")]


def scale_of(windows: Windows) -> str:
    """``window scale 7 (factor 128)``."""
    if windows.scale is None:
        return f"window scale not known, {windows.scale_at_least} at least"
    return f"window scale {windows.scale} (factor {windows.factor})"


def _lane(board: axes.TimeBoard, way: WayGraphs, windows: Windows) -> None:
    clock = board.clock
    top = max(axes.most(way.in_flight), 1.0)
    window = way.window if way.window is not None and way.window.points else None
    # Without a scale the figures in the packets are not bytes.
    if windows.scale is None:
        window = None
    reach = 0.0 if window is None else axes.most(window)
    far = window is not None and min(window.low) > _FAR * top
    keys = [legend.line("in flight", axes.DATA, strokeWidth=2)]
    if windows.scale is None:
        keys.append(legend.line(f"window not drawn: {scale_of(windows)}", axes.WINDOW, strokeOpacity=0.0))
    elif window is not None:
        least = count(round(min(window.low)))
        sizes = f"{least} to {count(round(reach))} bytes" if min(window.low) < reach else f"{least} bytes"
        dashed: dict[str, Any] = {"strokeDash": [6, 3], "strokeOpacity": 0.0 if far else 1.0}
        keys.append(legend.line(visible(f"window of {way.receiver}: {sizes}"), axes.WINDOW, **dashed))
        text = ", above this axis" if far else ", cut at the upper edge" if reach > _FAR * top else ""
        keys.append(legend.line(scale_of(windows) + text, axes.WINDOW, strokeOpacity=0.0))
    shut = [] if window is None else [at for at, low in enumerate(window.low) if low == 0]
    if shut:
        keys.append(legend.dot("window closed", axes.COSTS, "cross"))
    shown = top if far else min(max(top, reach), _FAR * top)
    title = f"In flight from {way.sender}"
    drawn = board.graph(title, "bytes", [0, shown * 1.06], keys, axes.of_bytes(0, shown), clamp=True)
    points, spans = axes.extremes(way.in_flight, clock, "bytes")
    if window is not None and not far:
        edges, heights = axes.extremes(window, clock, "bytes")
        edges.sort(key=lambda one: one["at"])
        axes.ranges(heights, drawn, stroke=axes.WINDOW, strokeOpacity=0.4)
        axes.steps(edges, drawn, "bytes", stroke=axes.WINDOW, strokeDash=[6, 3], strokeWidth=2)
    axes.ranges(spans, drawn, stroke=axes.DATA, strokeOpacity=0.5)
    axes.dots(points, clock, drawn, "bytes", "in flight, bytes", fill=axes.DATA, size=12)
    if window is not None and shut:
        values = [{"at": clock.at(window.low_at_ms[at]), "bytes": 0, "frame": window.low_frame[at]} for at in shut]
        axes.dots(values, clock, drawn, "bytes", "window, bytes", shape="cross", size=60, fill=axes.COSTS)


def rate_chart(one: Detail, graphs: Graphs, name: str) -> list[Chart]:
    """From the first endpoint upwards, from the other downwards."""
    board = axes.board_of(graphs)
    tops = [max(way.mbit_s, default=0.0) for way in graphs.ways]
    if not any(tops):
        return []
    keys = [
        legend.box(visible(f"{where}: from {way.sender}"), COLOUR[side])
        for where, way, side in zip(("upwards", "downwards"), graphs.ways, ("client", "server"), strict=True)
    ]
    clock = board.clock
    part, begin = clock.at(graphs.part_ms), clock.at(graphs.from_ms)
    ways = []
    for way in graphs.ways:
        values = [
            {"at": round(begin + at * part, 9), "to": round(begin + (at + 1) * part, 9), "rate": mbit}
            for at, mbit in enumerate(way.mbit_s)
            if mbit
        ]
        sender = visible(way.sender)
        told = ("rate", f"from {sender}, Mbit/s", ",.4~r")
        ways.append(Way(values, "rate", (clock.tip, clock.until, told), f"From {sender}"))
    board.mirrored(f"Payload per {part:.4g} {clock.unit}", "Mbit/s", _RATE_PX, ways, keys, grid=True)
    carried = [
        f"from {way.sender} the path carried {rate(way.sustained.mbit_s)} Mbit/s for {way.sustained.ms:,.0f} ms"
        for way in one.throughput.ways
        if way.sustained is not None
    ]
    caption = "Payload in equal parts of the time, retransmissions included."
    caption += f" At best {'; '.join(carried)}." if carried else ""
    alt = "Throughput over time: " + ", ".join(
        f"up to {rate(top)} Mbit/s from {way.sender}" for top, way in zip(tops, graphs.ways, strict=True)
    )
    return [board.chart(f"rate-{name}", "Throughput", caption, f"{alt}.", "rate")]
