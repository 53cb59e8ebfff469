"""Pivots and intervals of the report -> their tables, one function a section."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from nfslat.report.blocks import Block, Prose, Title
from nfslat.report.columns import Column, columns, group_columns, table
from nfslat.report.text_layout import adding_up_below_each_other, count, count_of, plain

if TYPE_CHECKING:
    from nfslat.answer.pivots import IntervalRow, Intervals, Pivot, PivotRow

MOST_SHOWN = 20  # rows of a table: more are read with other tools
_MB = 1e6
# What nfsiostat shows of a mount, and all ops.
_SHOWN_OPS = ("all", "READ", "WRITE")


def pivot_section(pivot: Pivot) -> Iterator[Block]:
    """The matched ops by what --by asked for: throughput and means, then percentiles."""
    begin = f" from {_moment(pivot.rows[0].key)} UTC" if pivot.by == "second" and pivot.rows else ""
    yield Title(f"Matched data by {pivot.by}{begin}: mean ms")
    if not pivot.rows:
        yield Prose("None.")
        return
    shown = pivot.rows[:MOST_SHOWN]
    hidden = [*pivot.rows[MOST_SHOWN:], *([pivot.others] if pivot.others is not None else [])]
    more = pivot.groups - len(shown)
    labels = [_label(pivot.by, row) for row in shown]
    rows: list[PivotRow | None] = [*shown]
    lines = [(label, row.ops, row.mb_per_s, *_means(row)) for label, row in zip(labels, shown, strict=True)]
    if hidden:
        rows.append(None)
        lines.append((f"and {count(more)} more", *_together(pivot, hidden, more)))
    sums = adding_up_below_each_other([[network or 0.0, server or 0.0] for *_, server, network in lines])
    cells = [
        (row, *line[:3], *((client, *parts) if line[3] is not None else (None,) * 3))
        for row, line, (parts, client) in zip(rows, lines, sums, strict=True)
    ]
    by = columns("text", f"1 {pivot.by}")
    yield table(cells, [*by, *_MEANS, *group_columns(rows, of="0.")])
    yield Title(f"Matched data by {pivot.by}: p50 and p99, ms")
    yield table(zip(shown, labels, strict=True), [*by, *_PERCENTILES])
    if hidden:
        yield Prose(f"and {count(more)} more (all of them with --json)")
    yield from _without_size(sum(row.without_size for row in (*shown, *hidden)))


_SIDES = ("client", "server", "network")
_MEANS = (*(*columns("count", "2 ops"), *columns("ms", "3 MB/s", "4 client", "6 server", "5 network")),)
_PERCENTILES = columns("ms", *(f"0.{at}_ms.{what} {at}\n{what}" for at in _SIDES for what in ("p50", "p99")))


def intervals_section(intervals: Intervals) -> Iterator[Block]:
    """A table of time for all ops, for READ and for WRITE."""
    rows = {name: [row for row in intervals.rows if row.op == name] for name in _SHOWN_OPS}
    of_all = rows["all"]
    if not of_all:
        yield Title("Intervals")
        yield Prose("None: no op is in both captures.")
        return
    for name, found in rows.items():
        if found:
            what = "all ops" if name == "all" else name
            yield Title(f"{what}, every {intervals.seconds:g} s from {_moment(of_all[0].begin)} UTC, client's clock")
            yield from _interval_table(found)
    others = {row.op for row in intervals.rows} - set(_SHOWN_OPS)
    if others:
        yield Prose(f"{count_of(len(others), 'other operation')}: with --json")
    yield from _without_size(sum(row.without_size for row in of_all))


def legend(pivots: Sequence[Pivot], intervals: Intervals | None) -> list[str]:
    """What the figures of these sections mean, a paragraph each."""
    lines = []
    if pivots:
        lines.append(
            "By size, client, file ...: MB/s are 10^6 bytes that READs asked for and WRITEs sent, over the time from "
            "the first matched call to the last reply (by second, of the client's clock: over that second). queue: of "
            "server, the mean wait for a thread. Rows add up to the matched ops; those with most time of the client "
            "come first."
        )
    if intervals is not None:
        lines.append(
            "Intervals, by when the call was sent: begin is seconds from the first matched call. kB: 1024 bytes "
            "that READs asked for and WRITEs sent (nfsiostat counts headers, too); kB/op: over all ops of the row. "
            "retrans: calls that the client retransmitted. client, server, network, queue: means; client is "
            "nfsiostat's avg RTT. p99: of client. Rates are over whole intervals, also in the last one. READ and "
            "WRITE have rows where there are any."
        )
    return lines


def _interval_table(rows: Sequence[IntervalRow]) -> Iterator[Block]:
    shown = rows[:MOST_SHOWN]
    yield table(shown, [*_INTERVAL, *group_columns(shown, between="\n")])
    if len(rows) > len(shown):
        yield Prose(f"and {count(len(rows) - len(shown))} more (all of them with --json)")


_INTERVAL = (
    Column("begin\ns", lambda row: f"{row.begin_s:.9f}".rstrip("0").rstrip(".")),
    *columns("ms", "ops_per_s ops/s", "kb_per_s kB/s", "kb_per_op kB/op"),
    *columns("count", "retrans re-\ntrans"),
    *columns("ms", "client_ms client\nms", "client_p99_ms p99\nms", "server_ms server\nms", "network_ms network\nms"),
)


def _label(by: str, row: PivotRow) -> str:
    return row.key[11:23] if by == "second" else plain(row.key)


def _moment(iso: str) -> str:
    """``2026-02-03 14:15:16.123``."""
    return plain(iso[:23].replace("T", " "))


def _means(row: PivotRow) -> tuple[float | None, float | None]:
    """Of server and network."""
    if row.server_ms is None or row.network_ms is None:
        return None, None
    return row.server_ms.mean, row.network_ms.mean


def _together(
    pivot: Pivot, rows: Sequence[PivotRow], groups: int
) -> tuple[int, float | None, float | None, float | None]:
    """Of `rows`, which are so many groups: ops, MB/s, means of server and network."""
    ops = sum(row.ops for row in rows)
    rates = [row.mb_per_s for row in rows if row.mb_per_s is not None]
    rate: float | None = math.fsum(rates) if rates else None
    if pivot.by == "second":  # each row has a time of its own
        rate = sum(row.bytes or 0 for row in rows) / _MB / groups
    weighted = [[mean * row.ops for row in rows if (mean := _means(row)[at]) is not None] for at in range(2)]
    server, network = (math.fsum(one) / ops if ops else None for one in weighted)
    return ops, rate, server, network


def _without_size(ops: int) -> Iterator[Block]:
    if ops:
        yield Prose(
            f"Bytes are without those of {count_of(ops, 'op')}, READs and WRITEs whose size neither capture shows.",
            hanging=2,
        )
