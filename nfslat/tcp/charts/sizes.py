"""Sizes of segments -> a lane a direction: how many have each size that comes often, and what explains it."""

from __future__ import annotations

import math

from nfslat.answer.words import percent
from nfslat.model.record import Record
from nfslat.report.charts import legend
from nfslat.report.charts.chart import Chart, Spec
from nfslat.report.charts.style import PLAIN, Lane, channel, heading, lane, lanes, rule, tips, words
from nfslat.report.text_layout import count, visible
from nfslat.tcp.charts.axes import COSTS, DATA, GAP_PX, HEAD_PX
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
    scale = {"domain": domain, "nice": False, **({"type": "log"} if is_log else {"zero": False})}
    title = "payload of a packet, bytes" + (", log scale" if is_log else "")
    x = channel("payload, bytes", scale=scale, axis={"title": title, "format": PLAIN, "grid": False, "tickCount": 8})
    top, found, told = 0, [], []
    for way in ways:
        marked = _marked(one, way)
        keys = [legend.line("packets of a size that comes often", DATA, strokeWidth=5)]
        keys += [legend.line(line.text, COSTS, strokeDash=[5, 3]) for line in marked if line.bytes <= domain[1]]
        most = max(mode.share for mode in way.modes)
        drawn = lane(
            top + HEAD_PX + legend.height(keys),
            _PLOT_PX,
            "share of packets",
            [0, min(most * 1.25, 1.25)],
            {"format": "%", "values": [0, 0.25, 0.5, 0.75, 1] if most > 0.4 else [0, 0.1, 0.2, 0.3, 0.4], "grid": True},
        )
        drawn.marks += [heading(visible(f"From {way.sender}"), top + 14), *legend.legend(keys, top + HEAD_PX - 2)]
        for line in marked:
            if domain[0] <= line.bytes <= domain[1]:
                at = {"x": {**x, "datum": line.bytes}, "y": {"value": drawn.top}, "y2": {"value": drawn.bottom}}
                drawn.marks.append(rule(at, stroke=COSTS, strokeDash=[5, 3], strokeWidth=1.5))
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
        shown = tips(
            ("size", "payload, bytes", ","),
            ("packets", "packets", ","),
            ("share", "share of the packets", ".1%"),
            ("of_bytes", "share of all bytes", ".1%"),
            ("why", "what it is"),
        )
        drawn.marks.append(
            {
                "description": visible(f"Sizes from {way.sender}"),
                "data": {"values": values},
                "mark": {"type": "rule", "stroke": DATA, "strokeWidth": 5, "aria": False},
                "encoding": {
                    "tooltip": shown,
                    "x": {**x, "field": "size"},
                    "y": drawn.at("share"),
                    "y2": {"field": "base"},
                },
            }
        )
        drawn.marks += _labels(way, x, drawn, domain, is_log=is_log)
        told.append(
            f"From {way.sender}: "
            + ", ".join(f"{count(mode.bytes)} bytes {percent(mode.share)}" for mode in way.modes)
            + "."
        )
        found.append(drawn)
        top = drawn.bottom + GAP_PX
    height = found[-1].bottom
    alt = f"Sizes of packets. {' '.join(told)}"
    notes = [f"From {way.sender}: {text}" for way in ways if (text := _why(one, way))]
    caption = " ".join(["Sizes that at least 2 % of the packets, or of the bytes, have.", *notes])
    return [Chart(f"sizes-{name}", "Segment sizes", caption, alt, lanes(found, height, alt), height + 50, "sizes")]


def _labels(way: WaySizes, x: Spec, drawn: Lane, domain: list[float], *, is_log: bool) -> list[Spec]:
    """The most frequent sizes in figures, where there is room beside those before."""

    def place(size: float) -> float:
        low, high = (math.log(max(end, 1)) if is_log else end for end in domain)
        return ((math.log(max(size, 1)) if is_log else size) - low) / (high - low)

    placed: list[float] = []
    marks = []
    for mode in sorted(way.modes, key=lambda mode: -mode.share):
        at = place(mode.bytes)
        if all(abs(at - other) >= _APART for other in placed):
            placed.append(at)
            align = "left" if at < _APART / 2 else "right" if at > 1 - _APART / 2 else "center"
            text = f"{count(mode.bytes)}: {percent(mode.share)}"
            y = {**drawn.y, "datum": mode.share}
            marks.append(words(text, {**x, "datum": mode.bytes}, y, fontSize=11, align=align, dy=-5))
    return marks


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
