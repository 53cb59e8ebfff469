"""Report -> what the templates show: rows with their bars, labels and choices; templates do no arithmetic."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from nfslat.answer import pictures
from nfslat.answer.model import MatchedRow, Report, StackRow, Summary
from nfslat.answer.pictures import SlowOp
from nfslat.answer.pivots import IntervalRow, Pivot, PivotRow
from nfslat.answer.words import adding_up, percent, stacked
from nfslat.report.charts.waterfall import captured
from nfslat.report.html.blocks import Shown, shown
from nfslat.report.sections.all import blocks
from nfslat.report.sections.pieces import PARTS_IN_WORDS, in_order, largest
from nfslat.report.sections.tables import histogram_rows, op_label

PARTS = ("call_send", "call_net", "server", "reply_send", "reply_net")
# Parts in words, and what a part is divided into or put together from.
_IN_WORDS = {**PARTS_IN_WORDS, "queue": "wait for a server thread", "in a thread": "in a server thread"}
_SECTIONS = {
    "warnings": ("warnings",), "one_side": ("one side",), "outcomes": ("outcomes",), "in_flight": ("in flight",),
    "parts": ("parts", "percentiles"), "misses": ("misses",), "clock": ("clock",),
    "transport": ("charges", "transport"), "hangs": ("hangs",), "what_if": ("what if",), "evidence": ("evidence",),
    "messages": ("messages", "programs"), "phases": ("phases",), "excluded": ("excluded",),
}  # fmt: skip
_SHOWN = 0.0005  # shares are printed to 0.1 %
_LAYERS = ("application", "above the wire", "network", "server")
_OF_APPLICATION = (
    ("application", "whole", "Application"),
    ("above", "client", "Above the wire"),
    ("network", "network", "Network"),
    ("server", "server", "Server"),
)
_MOST_INTERVALS = 1500  # rows; of more, those of all operations together are shown
_MOST_OF_ALL = 3600


@dataclass(frozen=True)
class Tile:
    """One of the numbers under the verdict."""

    key: str
    layer: str  # whose it is; "whole" is the sum of the others
    title: str
    ms: float
    text: str
    share: float | None  # of the whole
    slowest_ms: float | None
    slowest_text: str
    slowest_share: float | None
    means: str


@dataclass(frozen=True)
class OpRow:
    op: str
    version: str
    count: int
    sides: list[tuple[str, Summary, str]]  # and the mean as it is printed


@dataclass(frozen=True)
class HistogramRow:
    label: str
    counts: list[tuple[int, float]]  # of each side, and the length of its bar in per cent


@dataclass(frozen=True)
class Histogram:
    title: str
    rows: list[HistogramRow]


@dataclass(frozen=True)
class Moment:
    """A line of a packet timeline: one capture's event stands on its own side."""

    event: pictures.Moment
    client: bool


@dataclass(frozen=True)
class PartBar:
    name: str
    words: str
    ms: float
    width: float


@dataclass(frozen=True)
class Slow:
    op: SlowOp
    label: str
    bars: list[PartBar]
    moments: list[Moment]
    pieces: list[tuple[str, float, str]]  # where its time went, ms, and the share; the largest first
    main: str  # what most of its time went to


def tiles(report: Report) -> list[Tile]:
    """The numbers of the verdict: a whole and what it is the sum of.

    That is the mean client SRT of the matched ops; where the verdict is about the application's time, that time.
    """
    matched = report.matched
    if matched is None or matched.total is None:
        return []
    if of_application := _application(report):
        return [
            Tile(
                f"stack_{key}",
                layer,
                f"{title}: {row.op}" if layer == "whole" else title,
                row.ms,
                text,
                row.share,
                None,
                "",
                None,
                row.source,
            )
            for (key, layer, title), row, text in zip(
                _OF_APPLICATION, of_application, stacked(of_application), strict=True
            )
        ]
    total, slowest = matched.total, matched.slowest
    texts, tails = _printed(total), {} if slowest is None else _printed(slowest)

    def tile(key: str, title: str, means: str) -> Tile:
        mean, tail = _mean(total, key), None if slowest is None else _mean(slowest, key)
        tail_share = None if slowest is None or tail is None else _share(tail, slowest)
        layer = "whole" if key == "client" else key
        return Tile(
            key, layer, title, mean, texts[key], _share(mean, total), tail, tails.get(key, ""), tail_share, means
        )

    return [
        tile("client", "Client SRT", "from the call's first byte to the reply's last byte, at the client's wire"),
        tile("network", "Network", "client SRT minus server SRT, op by op; needs no clock"),
        tile("server", "Server SRT", "from the call's last byte to the reply's first byte, at the server's wire"),
    ]


def _application(report: Report) -> list[StackRow]:
    """The application's time and its layers, from the block of the stack that the verdict is about, or from all."""
    verdict = report.verdict
    if verdict is None or verdict.largest_share is None:
        return []
    by_op = [[row for row in report.stack if row.op == op] for op in dict.fromkeys(row.op for row in report.stack)]
    for block in [*by_op, _together(report, by_op)]:
        rows = {row.layer: row for row in block}
        found = [rows[name] for name in _LAYERS if name in rows]
        leading = rows.get("above the wire" if verdict.largest_layer == "client" else verdict.largest_layer or "")
        share = None if leading is None else leading.share
        if len(found) == len(_OF_APPLICATION) and share is not None and abs(share - verdict.largest_share) < _SHOWN:
            return found
    return []


def _together(report: Report, by_op: Sequence[Sequence[StackRow]]) -> list[StackRow]:
    """Blocks with an application's time as one, of the mean op of all of them."""
    counts = Counter[str]()
    for row in [] if report.matched is None else report.matched.by_op:
        counts[row.op] += row.count
    given = [{row.layer: row for row in block} for block in by_op]
    given = [rows for rows in given if all(name in rows for name in _LAYERS)]
    ops = [(rows, counts[rows["application"].op]) for rows in given]
    whole = sum(rows["application"].ms * count for rows, count in ops)
    if len(ops) < 2 or whole <= 0:
        return []
    of = " and ".join(rows["application"].op for rows, _ in ops)
    sums = {name: sum(rows[name].ms * count for rows, count in ops) for name in _LAYERS}
    every = sum(count for _, count in ops)
    first = ops[0][0]
    return [
        StackRow(of, name, first[name].depth, ms / every, ms / whole, first[name].source) for name, ms in sums.items()
    ]


def _mean(row: MatchedRow, key: str) -> float:
    summary: Summary = getattr(row, f"{key}_ms")
    return summary.mean


def means(report: Report) -> dict[str, str]:
    """Those of all matched ops, as they are printed."""
    total = None if report.matched is None else report.matched.total
    return {} if total is None else _printed(total)


def _printed(row: MatchedRow) -> dict[str, str]:
    """The means of client, network and server."""
    (network, server), client = adding_up([row.network_ms.mean, row.server_ms.mean])
    return {"client": client, "server": server, "network": network}


def _share(value: float, row: MatchedRow) -> float | None:
    return value / row.client_ms.mean if row.client_ms.mean > 0 else None


def stacks(report: Report) -> list[tuple[str, list[StackRow], list[str]]]:
    """Blocks of the latency stack by operation, with their ms as printed; where none was made, client SRT, network and
    server."""
    total = None if report.matched is None else report.matched.total
    rows = report.stack or ([] if total is None else captured(total))
    blocks_of = {op: [row for row in rows if row.op == op] for op in dict.fromkeys(row.op for row in rows)}
    return [(op, block, stacked(block)) for op, block in blocks_of.items()]


def op_rows(report: Report) -> list[OpRow]:
    """Each operation of the matched ops, all together last, with the distributions of its three figures."""
    matched = report.matched
    if matched is None:
        return []
    rows = [(op_label(row.program, row.op), row.version, row) for row in matched.by_op]
    if matched.total is not None and len(rows) != 1:
        rows.append(("all ops", "", matched.total))
    if matched.slowest is not None:
        rows.append(("slowest 1 %", "", matched.slowest))
    return [
        OpRow(op, version, row.count, [(key, getattr(row, f"{key}_ms"), text) for key, text in _printed(row).items()])
        for op, version, row in rows
    ]


def histograms(report: Report) -> list[Histogram]:
    """SRT of each operation of each capture by powers of two, the sides next to each other."""
    made = []
    for title, rows in histogram_rows(report.raw):
        most = [max((counts.get(side, 0) for _, counts in rows), default=0) for side in report.raw]
        made.append(
            Histogram(
                title,
                [
                    HistogramRow(
                        _spoken(label),
                        [
                            (n, round(100 * n / top, 1) if top else 0.0)
                            for n, top in zip((counts.get(side, 0) for side in report.raw), most, strict=True)
                        ],
                    )
                    for label, counts in rows
                ],
            )
        )
    return made


_UNITS = {"u": "us", "m": "ms", "s": "s"}


def _spoken(label: str) -> str:
    """``.2m`` -> ``0.2 ms``, ``4s`` -> ``4 s``, ``<=0`` -> ``0 or less``."""
    if label == "<=0":
        return "0 or less"
    known = re.fullmatch(r"(\.?)(\d+)([ums])", label)
    return f"{'0.' if known[1] else ''}{known[2]} {_UNITS[known[3]]}" if known else label


def slow_ops(report: Report) -> list[Slow]:
    """The slowest ops with bars of their parts, and what they are charged with."""
    return [] if report.pictures is None else [_slow(one) for one in report.pictures.slowest]


def _slow(op: SlowOp) -> Slow:
    known = [(name, value) for name in PARTS if (value := op.parts_ms.get(name)) is not None]
    if len(known) < len(PARTS):  # the clocks do not tell the two ways apart
        inside = [(name, value) for name, value in known if not name.endswith("_net")]
        known = [*inside, ("network", op.client_ms - sum(value for _, value in inside))]
    if op.queue_ms:
        at = next((i for i, (name, _) in enumerate(known) if name == "server"), None)
        if at is not None:
            known[at : at + 1] = [("queue", op.queue_ms), ("in a thread", known[at][1] - op.queue_ms)]
    whole = sum(max(value, 0.0) for _, value in known)
    bars = [
        PartBar(name, _IN_WORDS[name], value, round(100 * max(value, 0.0) / whole, 2) if whole > 0 else 0.0)
        for name, value in known
    ]
    pieces = in_order(op)
    of_all = sum(ms for _, ms in pieces)
    return Slow(
        op,
        op_label(op.program, op.op),
        bars,
        [Moment(event, event.side == "client") for event in op.timeline],
        [(words, ms, percent(ms / of_all) if of_all > 0 else "") for words, ms in pieces],
        largest(op),
    )


def pivot_rows(pivot: Pivot) -> list[PivotRow]:
    """All rows of a table, the small groups that were put together last."""
    return [*pivot.rows, *([pivot.others] if pivot.others is not None else [])]


def unsized(pivot: Pivot) -> int:
    """READs and WRITEs whose bytes are not known."""
    return sum(row.without_size for row in pivot_rows(pivot))


def interval_rows(report: Report) -> tuple[list[IntervalRow], str]:
    """The intervals that the page shows, and what it leaves out."""
    if report.intervals is None:
        return [], ""
    rows = report.intervals.rows
    if len(rows) <= _MOST_INTERVALS:
        return rows, ""
    of_all = [row for row in rows if row.op == "all"]
    left = f"Of {len(rows):,} rows those of all operations together are shown; the JSON report has them all."
    if len(of_all) <= _MOST_OF_ALL:
        return of_all, left
    return of_all[:_MOST_OF_ALL], f"The first {_MOST_OF_ALL:,} intervals are shown; the JSON report has them all."


def sections(report: Report) -> dict[str, list[Shown]]:
    """What the page has in common with the text report, by section; an empty list where there is nothing to show."""
    return {name: shown(blocks(report, *names)) for name, names in _SECTIONS.items()}
