"""Report -> the parts of the mean op and of the slowest 1 %, in the order in which an op goes through them."""

from __future__ import annotations

from typing import Any

from nfslat.answer.model import MatchedRow, Report
from nfslat.answer.words import adding_up, ms, shares_adding_up
from nfslat.report.charts.board import chart
from nfslat.report.charts.chart import Chart, Spec
from nfslat.report.charts.marks import as_it_is, at_px, by_side, group, heading, linear, mark, on, px, text_of, written
from nfslat.report.charts.style import INK, ON_COLOUR, spread
from nfslat.report.text_layout import count_of

_HEAD_PX, _BAR_PX, _LINE_PX, _GAP_PX = 22, 28, 18, 26
_SWATCH_PX = 12
_SOLID = 0.5  # what is paler shows the paper
_NUMBERED = 0.04  # of a bar; less has no room for a number

# (layer that it counts as, how solid it is drawn)
_LOOK = {
    "call_send": ("network", 0.35),
    "call_net": ("network", 0.9),
    "queue": ("server", 0.4),
    "thread": ("server", 1.0),
    "server": ("server", 1.0),
    "reply_send": ("network", 0.35),
    "reply_net": ("network", 0.9),
    "net_both": ("network", 0.9),
}
_IN_SERVER = ("queue", "thread", "server")
_MEANS = {
    "call_send": "call_send: client sends it",
    "call_net": "call_net: call in transit",
    "queue": "server: waits for a thread",
    "thread": "server: in a thread",
    "server": "server: call in to reply out",
    "reply_send": "reply_send: server sends it",
    "reply_net": "reply_net: reply in transit",
    "net_both": "net_both: in transit, both directions",
}


def parts_chart(report: Report) -> list[Chart]:
    """One chart, where ops were matched."""
    matched = report.matched
    if matched is None or matched.total is None:
        return []
    found = [(f"Mean of {count_of(matched.total.count, 'matched op')}", matched.total)]
    if matched.slowest is not None:
        found.append((f"Mean of the slowest 1 % ({count_of(matched.slowest.count, 'op')})", matched.slowest))
    # What one of the two bars cannot tell apart, both show together: they are there to be compared.
    split = all(row.parts_ms.call_net is not None and row.parts_ms.reply_net is not None for _, row in found)
    waits = [row.queue_ms for _, row in found]
    queue = any(waits) and None not in waits
    layers: list[Spec] = []
    said = []
    top = 0
    for title, row in found:
        segments = _segments(row, split, queue)
        values = [value for _, value in segments]
        of = ["server" if name in _IN_SERVER else "network" for name, _ in segments]
        shown, whole = adding_up(values, of=of)
        shares = shares_adding_up(values, of)
        texts = [
            f"{number}. {_MEANS[name]}: {value} ms" + (f" ({share})" if share != "-" else "")
            for number, ((name, _), value, share) in enumerate(zip(segments, shown, shares, strict=True), 1)
        ]
        layers += _bar(f"{title}: {whole} ms", segments, texts, top)
        said.append(f"{title}: {whole} ms; " + "; ".join(texts))
        top += _HEAD_PX + _BAR_PX + 8 + _LINE_PX * len(segments) + _GAP_PX
    height = top - _GAP_PX
    alt = f"Parts of the client SRT. {'. '.join(said)}."
    caption = (
        "The parts of an op from the first byte of the call to the last byte of the reply, in the order in which it "
        "goes through them. Each bar has a scale of its own; the figures below it sum to its mean."
    )
    error = matched.total.parts_ms.one_way_error
    if not split:
        caption += " How the network time divides between call and reply cannot be told from these clocks."
    elif error is not None:
        caption += f" call_net and reply_net are known to +/- {ms(error)} ms, their sum is exact."
    title, scales = "Where the time goes, part by part", {"scale": {"x": "independent"}}
    return [chart("parts", title, caption, alt, "parts", layers, height, foot_px=10, resolve=scales)]


def _segments(row: MatchedRow, split: bool, queue: bool) -> list[tuple[str, float]]:
    parts = row.parts_ms
    server = [("server", parts.server)]
    if queue and row.queue_ms is not None:
        server = [("queue", row.queue_ms), ("thread", parts.server - row.queue_ms)]
    first, last = [("net_both", parts.net_both)], []
    if split and parts.call_net is not None and parts.reply_net is not None:
        first, last = [("call_net", parts.call_net)], [("reply_net", parts.reply_net)]
    return [("call_send", parts.call_send), *first, *server, ("reply_send", parts.reply_send), *last]


def _bar(title: str, segments: list[tuple[str, float]], texts: list[str], top: int) -> list[Spec]:
    values: list[dict[str, Any]] = []
    at = 0.0
    domain_at = [0.0]
    for number, ((name, value), text) in enumerate(zip(segments, texts, strict=True), 1):
        side, opacity = _LOOK[name]
        line = top + _HEAD_PX + _BAR_PX + 8 + _LINE_PX * number
        values.append(
            {"part": name, "ms": value, "start": at, "end": at + value, "side": side, "solid": opacity, "text": text}
            | {"number": str(number), "line": line - 4, "swatch": line - 4 - _SWATCH_PX + 2, "swatch_end": line - 2}
        )
        at += value
        domain_at.append(at)
    low, high = spread(domain_at)
    for one in values:
        one["number"] = one["number"] if abs(one["ms"]) >= _NUMBERED * (high - low) else ""
    x = {**linear("time, ms", low, high), "axis": None}
    bar_top = top + _HEAD_PX
    in_hue: Spec = {
        "fill": by_side("side", "layer"),
        "stroke": by_side("side", "layer"),
        "fillOpacity": as_it_is("solid"),
    }
    on_bar = {
        "condition": [
            {"test": f"datum.solid < {_SOLID}", "value": INK},
            {"test": "datum.side === 'server'", "value": ON_COLOUR["server"]},
        ],
        "value": ON_COLOUR["network"],
    }
    layers = [
        mark(
            "rect",
            tip=[("text", "part, ms")],
            x=on(x, "start"),
            x2="end",
            y=px(bar_top),
            y2=px(bar_top + _BAR_PX),
            strokeWidth=1,
            **in_hue,
        ),
        mark(
            "text",
            calculate={"middle": "(datum.start + datum.end) / 2"},
            x=on(x, "middle"),
            y=px(bar_top + _BAR_PX / 2),
            text=text_of("number"),
            color=on_bar,
            align="center",
            baseline="middle",
            style="heading",
        ),
        mark("rect", x=px(1), x2=px(1 + _SWATCH_PX), y=at_px("swatch"), y2="swatch_end", strokeWidth=1, **in_hue),
        written("line", "text", _SWATCH_PX + 8),
    ]
    return [heading(title, top + 14), group(values, layer=layers)]
