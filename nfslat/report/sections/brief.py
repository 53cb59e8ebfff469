"""Report -> its tables in brief, for a ticket: means beside p99, few rows, one table a subject."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from nfslat.answer.model import Report
from nfslat.answer.words import stacked
from nfslat.report.blocks import Block, Cell, Figure, Gap, Item, Label, Prose, Table, Title
from nfslat.report.columns import Column, columns, group_columns, table
from nfslat.report.sections.tables import means_of, op_label
from nfslat.report.text_layout import count, count_of

_PARTS = ("call_send", "call_net", "server", "reply_send", "reply_net")
_MOST_ROWS = 20
_MOST_SLOW = 5


def notes_section(report: Report) -> Iterator[Block]:
    """What the reader must know before believing a figure."""
    for note in report.notes:
        yield Item(note, style="accent")


def by_op_section(report: Report) -> Iterator[Block]:
    """The matched ops by operation."""
    matched = report.matched
    if matched is None or matched.total is None:
        return
    shown = matched.by_op[:_MOST_ROWS]
    rows = [(row, *means_of(row)) for row in shown]
    yield Title("By operation")
    is_coarse = matched.tick_ms is not None
    own = (
        Column("op", lambda row: op_label(row[0].program, row[0].op)),
        *(*columns("count", "0.count count"), *columns("ms", "1 client ms")),
        Column("client p99 ms", lambda row: None if is_coarse else row[0].client_ms.p99, "ms", none=""),
        *columns("ms", "2 network ms", "3 server ms"),
    )
    yield table(rows, [*own, *group_columns(shown, of="0.", between=" ")])
    if len(matched.by_op) > len(rows):
        yield Prose(f"and {count_of(len(matched.by_op) - len(rows), 'operation')} more.")


def parts_section(report: Report) -> Iterator[Block]:
    """The client SRT part by part."""
    matched = report.matched
    if matched is None or matched.total is None:
        return
    of = [(name, row.parts_ms) for name, row in (("mean", matched.total), ("slowest 1 %", matched.slowest)) if row]
    rows: list[list[Cell]] = []
    for name in _PARTS:
        values = [getattr(parts, name) for _, parts in of]
        rows.append([name.replace("_", " "), *("cannot tell" if value is None else float(value) for value in values)])
    rows.append(["network both ways", *(float(parts.net_both) for _, parts in of)])
    yield Title("Parts of the client SRT")
    yield Table("ldd"[: 1 + len(of)], ("part", *(f"{name}, ms" for name, _ in of)), rows)


def stack_section(report: Report) -> Iterator[Block]:
    """All blocks of the latency stack in one table."""
    blocks = [[row for row in report.stack if row.op == op] for op in dict.fromkeys(row.op for row in report.stack)]
    rows = [pair for block in blocks for pair in zip(block, stacked(block), strict=True)]
    if rows:
        yield Title("From application to storage")
        yield table(rows, _STACK)


_STACK = (
    Column("layer", lambda pair: Label(pair[0].layer, pair[0].depth)),
    *(*columns("as it is", "0.op op"), Column("ms", lambda pair: Figure(pair[1], pair[0].ms), "ms")),
    *(*columns("share", "0.share share"), *columns("as it is", "0.source source")),
)


def pivots_section(report: Report) -> Iterator[Block]:
    """The matched ops by what --by asked for."""
    for pivot in report.pivots:
        rows = pivot.rows[:_MOST_ROWS]
        yield Title(f"By {pivot.by}")
        yield table(rows, [*columns("as it is", f"key {pivot.by}"), *_PIVOT, *group_columns(rows, between=" ")])
        if pivot.groups > len(rows):
            yield Prose(f"and {count(pivot.groups - len(rows))} more.")


_PIVOT = (
    *columns("count", "ops"),
    Column("MB/s", lambda row: None if row.mb_per_s is None else f"{row.mb_per_s:.3g}", "right", none=""),
    *columns("ms", "client_ms.mean client ms", "client_ms.p99 client p99 ms", none=""),
    *columns("ms", "network_ms.mean network ms", "server_ms.mean server ms", none=""),
)


def _titled(title: str, rows: Sequence[object], shown: Sequence[Column]) -> Iterator[Block]:
    if rows:
        yield Title(title)
        yield table(rows, shown)


def raw_section(report: Report) -> Iterator[Block]:
    """Every operation of the one capture there is."""
    yield from _titled("Response times", report.raw.get("capture", [])[:_MOST_ROWS], _RAW)


_RAW = (
    Column("op", lambda row: op_label(row.program, row.op)),
    *(*columns("count", "count"), *columns("ms", "srt_ms.mean mean ms")),
    *columns("ms", *(f"srt_ms.{name} {name}" for name in ("p50", "p95", "p99", "max"))),
)


def slowest_section(report: Report) -> Iterator[Block]:
    """The ops to look at first."""
    yield from _titled("Slowest ops", report.slow_ops[:_MOST_SLOW], _SLOWEST)


_SLOWEST = (
    *columns("as it is", "op", "xid XID", "at called"),
    *columns("ms", "client_ms client ms", "network_ms network ms", "server_ms server ms"),
    *columns("as it is", "path file", none=""),
)


def captures_section(report: Report) -> Iterator[Block]:
    """Files, sizes and times, and all that is to be said of them."""
    yield from _titled("Captures", list(report.captures.items()), _CAPTURES)
    yield Gap()
    for side, one in report.captures.items():
        for note in one.audit:
            yield Item(f"{side}: {note.text}")


_CAPTURES = (
    *(*columns("as it is", "0 capture", "1.path file"), *columns("count", "1.packets packets", "1.ops ops")),
    Column("s", lambda row: f"{row[1].duration_s:.3f}", "right"),
    *columns("as it is", "1.first first packet", none=""),
    Column("snaplen", lambda row: str(row[1].snaplen or ""), "right"),
)
