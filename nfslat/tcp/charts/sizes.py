"""Sizes of segments -> a lane a direction: how many have each size that comes often, and what explains it."""

from __future__ import annotations

import math

from nfslat.answer.words import percent
from nfslat.model.record import Record
from nfslat.report.charts import legend
from nfslat.report.charts.board import Board, Lane
from nfslat.report.charts.chart import Chart
from nfslat.report.charts.marks import datum, linear, note
from nfslat.report.text_layout import count, visible
from nfslat.tcp.charts.axes import COSTS, DATA
from nfslat.tcp.model import Detail
from nfslat.tcp.sizes import WaySizes

_PLOT_PX = 120
_WIDE = 20_000  # bytes: with larger ones, as of offload, the axis is a logarithm
_LEAST_LABEL = 0.01
_APART = 0.22  # of the axis: labels that are nearer would lie over each other on narrow pages


class _Line(Record):
    """A size that a full packet has."""

    bytes: int
    text: str


def sizes_chart(one: Detail, name: str) -> list[Chart]:
    """Of both directions that have data."""
    ways = [way for way in one.sizes.ways if way.data_packets and way.modes]
    if not ways:
        return []
    largest = max(mode.bytes for way in ways for mode in way.modes)
    largest = max([largest, *(way.mss or 0 for way in ways)])
    is_log = largest > _WIDE
    least = min(mode.bytes for way in ways for mode in way.modes)
    domain = [max(least, 1) / 1.3, largest * 1.3] if is_log else [0, largest * 1.08]
    title = "payload of a packet, bytes" + (", log scale" if is_log else "")
    x = linear("payload, bytes", domain[0], domain[1], title=title, tickCount=8)
    if is_log:
        x["scale"] = {"type": "log", "domain": domain, "nice": False}
    board, told = Board(x), []
    for way in ways:
        marked = _marked(one, way)
        keys = [legend.line("packets of a size that comes often", DATA, strokeWidth=5)]
        keys += [legend.line(line.text, COSTS, strokeDash=[5, 3]) for line in marked if line.bytes <= domain[1]]
        most = max(mode.share for mode in way.modes)
        shares = [0, 0.25, 0.5, 0.75, 1] if most > 0.4 else [0, 0.1, 0.2, 0.3, 0.4]
        ticks = {"format": "%", "values": shares, "grid": True}
        sender = visible(way.sender)
        drawn = board.lane(f"From {sender}", "share of packets", [0, min(most * 1.25, 1.25)], _PLOT_PX, ticks, keys)
        for line in marked:
            if domain[0] <= line.bytes <= domain[1]:
                drawn.upright(line.bytes, stroke=COSTS, strokeDash=[5, 3], strokeWidth=1.5)
        values = [
            {
                "size": mode.bytes,
                "packets": mode.count,
                "share": mode.share,
                "of_bytes": mode.bytes_share,
                "base": 0,
                "why": explained(one, way, mode.bytes),
            }
            for mode in way.modes
        ]
        tip = (
            ("size", "payload, bytes", ","),
            ("packets", "packets", ","),
            ("share", "share of the packets", ".1%"),
            ("of_bytes", "share of all bytes", ".1%"),
            ("why", "what it is"),
        )
        look = {"stroke": DATA, "strokeWidth": 5, "aria": False}
        drawn.draw("rule", values, x="size", y="share", y2="base", tip=tip, name=f"Sizes from {sender}", **look)
        _labels(way, drawn, domain, is_log=is_log)
        told.append(
            f"From {way.sender}: "
            + ", ".join(f"{count(mode.bytes)} bytes {percent(mode.share)}" for mode in way.modes)
            + "."
        )
    alt = f"Sizes of packets. {' '.join(told)}"
    notes = [f"From {way.sender}: {text}" for way in ways if (text := _why(one, way))]
    caption = " ".join(["Sizes that at least 2 % of the packets, or of the bytes, have.", *notes])
    return [board.chart(f"sizes-{name}", "Segment sizes", caption, alt, "sizes")]


def _labels(way: WaySizes, drawn: Lane, domain: list[float], *, is_log: bool) -> None:
    """The most frequent sizes in figures, where there is room beside those before."""

    def place(size: float) -> float:
        low, high = (math.log(max(end, 1)) if is_log else end for end in domain)
        return ((math.log(max(size, 1)) if is_log else size) - low) / (high - low)

    placed: list[float] = []
    for mode in sorted(way.modes, key=lambda mode: -mode.share):
        at = place(mode.bytes)
        if all(abs(at - other) >= _APART for other in placed):
            placed.append(at)
            align = "left" if at < _APART / 2 else "right" if at > 1 - _APART / 2 else "center"
            text = f"{count(mode.bytes)}: {percent(mode.share)}"
            place_of = datum(drawn.x, mode.bytes), datum(drawn.y, mode.share)
            drawn.marks.append(note(text, *place_of, align=align, dy=-5))


def _marked(one: Detail, way: WaySizes) -> list[_Line]:
    """The segment, and the SDU where SQL*Net has one."""
    lines = []
    if way.mss is not None:
        lines.append(_Line(way.mss, f"full segment, {count(way.mss)} bytes"))
    if one.sqlnet is not None and one.sqlnet.sdu_bytes is not None and one.sqlnet.sdu_bytes != way.mss:
        lines.append(_Line(one.sqlnet.sdu_bytes, f"SDU of SQL*Net, {count(one.sqlnet.sdu_bytes)} bytes"))
    return lines


def explained(one: Detail, way: WaySizes, size: int) -> str:
    """What a size is; empty where nothing explains it."""
    if size == way.mss:
        return "a full segment"
    for spill in way.spills:
        if size in (spill.piece_bytes, spill.rest_bytes):
            part = "first" if size == spill.piece_bytes else "second"
            return f"{part} piece of a unit of {count(spill.unit_bytes)} bytes that is sent in two"
    near = next((near for near in way.near if near.bytes == size), None)
    if near is not None:
        return f"a buffer (SDU) of {count(near.buffer_bytes)} less {count(near.headers_bytes)} of headers"
    sdu = one.sqlnet.sdu_bytes if one.sqlnet is not None else None
    if sdu is not None and 0 <= sdu - size <= 70:
        return f"a full SDU of {count(sdu)}"
    if way.mss and size > way.mss and size % way.mss == 0:
        return f"{count(size // way.mss)} full segments (offload)"
    if way.mss and sdu is not None and size == sdu % way.mss:
        return f"the rest of an SDU of {count(sdu)} behind full segments"
    if way.mss:
        for other in way.near:
            if size == other.buffer_bytes % way.mss or size == other.bytes % way.mss:
                return f"the rest of a buffer of {count(other.buffer_bytes)} behind full segments"
    return ""


def _why(one: Detail, way: WaySizes) -> str:
    found = [(mode, explained(one, way, mode.bytes)) for mode in way.modes]
    said = [f"{count(mode.bytes)} is {why}" for mode, why in found if why and mode.share >= _LEAST_LABEL]
    return f"{'; '.join(said)}." if said else ""
