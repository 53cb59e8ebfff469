"""Report -> its tables in brief, for a ticket: means beside p99, few rows, one table a subject."""

from __future__ import annotations

from collections.abc import Iterator

from nfslat.answer.model import Report
from nfslat.answer.words import percent, stacked
from nfslat.report.blocks import Block, Cell, Figure, Gap, Item, Label, Prose, Table, Title
from nfslat.report.sections.columns import cells_of, columns_of, in_full
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
    rows: list[list[Cell]] = []
    columns = columns_of(matched.by_op[:_MOST_ROWS])
    for row in matched.by_op[:_MOST_ROWS]:
        client, network, server = means_of(row)
        p99 = float(row.client_ms.p99) if matched.tick_ms is None else None
        name = op_label(row.program, row.op)
        rows.append([name, row.count, client, p99, network, server, *cells_of(row, columns)])
    yield Title("By operation")
    heads = ("op", "count", "client ms", "client p99 ms", "network ms", "server ms", *map(in_full, columns))
    yield Table("lrdddd" + "d" * len(columns), heads, rows)
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
    rows: list[list[Cell]] = []
    for op in dict.fromkeys(row.op for row in report.stack):
        block = [row for row in report.stack if row.op == op]
        for row, shown in zip(block, stacked(block), strict=True):
            rows.append([Label(row.layer, row.depth), row.op, Figure(shown, row.ms), percent(row.share), row.source])
    if rows:
        yield Title("From application to storage")
        yield Table("lldrl", ("layer", "op", "ms", "share", "source"), rows)


def pivots_section(report: Report) -> Iterator[Block]:
    """The matched ops by what --by asked for."""
    for pivot in report.pivots:
        rows: list[list[Cell]] = []
        columns = columns_of(pivot.rows[:_MOST_ROWS])
        for row in pivot.rows[:_MOST_ROWS]:
            of = ((row.client_ms, "mean"), (row.client_ms, "p99"), (row.network_ms, "mean"), (row.server_ms, "mean"))
            figures = (None if summary is None else float(getattr(summary, name)) for summary, name in of)
            rows.append(
                [
                    row.key,
                    row.ops,
                    "" if row.mb_per_s is None else f"{row.mb_per_s:.3g}",
                    *figures,
                    *cells_of(row, columns),
                ]
            )
        yield Title(f"By {pivot.by}")
        heads = (pivot.by, "ops", "MB/s", "client ms", "client p99 ms", "network ms", "server ms")
        yield Table("lrrdddd" + "d" * len(columns), (*heads, *map(in_full, columns)), rows)
        if pivot.groups > len(rows):
            yield Prose(f"and {count(pivot.groups - len(rows))} more.")


def raw_section(report: Report) -> Iterator[Block]:
    """Every operation of the one capture there is."""
    rows: list[list[Cell]] = []
    for row in report.raw.get("capture", [])[:_MOST_ROWS]:
        s = row.srt_ms
        rows.append([op_label(row.program, row.op), row.count, *map(float, (s.mean, s.p50, s.p95, s.p99, s.max))])
    if rows:
        yield Title("Response times")
        yield Table("lrddddd", ("op", "count", "mean ms", "p50", "p95", "p99", "max"), rows)


def slowest_section(report: Report) -> Iterator[Block]:
    """The ops to look at first."""
    slowest = report.slow_ops[:_MOST_SLOW]
    rows: list[list[Cell]] = [
        [one.op, one.xid, one.at, *map(float, (one.client_ms, one.network_ms, one.server_ms)), one.path]
        for one in slowest
    ]
    if rows:
        yield Title("Slowest ops")
        yield Table("lrldddl", ("op", "XID", "called", "client ms", "network ms", "server ms", "file"), rows)


def captures_section(report: Report) -> Iterator[Block]:
    """Files, sizes and times, and all that is to be said of them."""
    rows: list[list[Cell]] = [
        [side, one.path, one.packets, one.ops, f"{one.duration_s:.3f}", one.first, str(one.snaplen or "")]
        for side, one in report.captures.items()
    ]
    yield Title("Captures")
    yield Table("llrrrlr", ("capture", "file", "packets", "ops", "s", "first packet", "snaplen"), rows)
    yield Gap()
    for side, one in report.captures.items():
        for note in one.audit:
            yield Item(f"{side}: {note.text}")
