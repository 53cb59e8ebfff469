"""Report -> what the templates show: rows with their bars, labels and choices; templates do no arithmetic."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from nfslat.answer import pictures
from nfslat.answer.figures import GroupFigures
from nfslat.answer.model import Report, StackRow, Summary
from nfslat.answer.pictures import SlowOp
from nfslat.answer.pivots import IntervalRow, Pivot, PivotRow
from nfslat.answer.words import OF_ONE, adding_up, percent, stacked
from nfslat.model.record import Record
from nfslat.report.charts.waterfall import captured
from nfslat.report.columns import group_columns
from nfslat.report.html.blocks import Shown, shown
from nfslat.report.html.tiles import printed
from nfslat.report.sections.all import blocks
from nfslat.report.sections.pieces import PARTS_IN_WORDS, in_order, largest
from nfslat.report.sections.tables import histogram_rows, named_rows, op_label

PARTS = ("call_send", "call_net", "server", "reply_send", "reply_net")
# Parts in words, and what a part is divided into or put together from.
_IN_WORDS = {**PARTS_IN_WORDS, "queue": "wait for a server thread", "in a thread": "in a server thread"}
_IN_SERVER = ("server", "queue", "in a thread")
_SECTIONS = {
    "warnings": ("warnings",), "one_side": ("one side",), "outcomes": ("outcomes",), "in_flight": ("in flight",),
    "parts": ("parts", "percentiles"), "misses": ("misses",), "clock": ("clock",),
    "transport": ("charges", "transport"), "hangs": ("hangs",), "what_if": ("what if",), "evidence": ("evidence",),
    "messages": ("messages", "programs"), "phases": ("phases",), "pairs": ("pairs",), "excluded": ("excluded",),
}  # fmt: skip
_MOST_INTERVALS = 1500  # rows; of more, those of all operations together are shown
_MOST_OF_ALL = 3600


class OpRow(Record):
    op: str
    version: str
    count: int
    sides: list[tuple[str, Summary, str]]  # and the mean as it is printed
    of_group: list[tuple[str, float]]  # other figures, with their heads


class HistogramRow(Record):
    label: str
    counts: list[tuple[int, float]]  # of each side, and the length of its bar in per cent


class Histogram(Record):
    title: str
    rows: list[HistogramRow]


class Moment(Record):
    """A line of a packet timeline: one capture's event stands on its own side."""

    event: pictures.Moment
    client: bool


class PartBar(Record):
    name: str
    words: str
    ms: float
    text: str
    width: float


class Slow(Record):
    op: SlowOp
    label: str
    printed: dict[str, str]  # client, server and network
    bars: list[PartBar]
    moments: list[Moment]
    pieces: list[tuple[str, float, str]]  # where its time went, ms, and the share; the largest first
    main: str  # what most of its time went to


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
    return [
        OpRow(
            op,
            version,
            row.count,
            [(key, getattr(row, f"{key}_ms"), text) for key, text in printed(row).items()],
            [(one.head, getattr(row, str(one.cell))) for one in group_columns([row], between=" ")],
        )
        for op, version, row in named_rows(matched, "all ops", "slowest 1 %")
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
    return [_slow(one) for one in report.slow_ops]


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
    of = ["server" if name in _IN_SERVER else "network" for name, _ in known]
    texts, _ = adding_up([value for _, value in known], places=OF_ONE, of=of)
    bars = [
        PartBar(name, _IN_WORDS[name], value, text, round(100 * max(value, 0.0) / whole, 2) if whole > 0 else 0.0)
        for (name, value), text in zip(known, texts, strict=True)
    ]
    (network, server), client = adding_up([op.network_ms, op.server_ms], places=OF_ONE)
    pieces = in_order(op)
    of_all = sum(ms for _, ms in pieces)
    return Slow(
        op,
        op_label(op.program, op.op),
        {"client": client, "server": server, "network": network},
        bars,
        [Moment(event, event.side == "client") for event in op.timeline],
        [(words, ms, percent(ms / of_all) if of_all > 0 else "") for words, ms in pieces],
        largest(op),
    )


def columns_of(rows: Sequence[GroupFigures]) -> list[tuple[Any, str]]:
    """Of the columns that tables of groups have: the field, and its head."""
    return [(one.cell, one.head) for one in group_columns(rows, between=" ")]


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
