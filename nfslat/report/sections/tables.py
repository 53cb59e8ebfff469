"""Report -> tables of operations and counts, one function a section."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from nfslat.answer.model import Bucket, Capture, MatchedOps, MatchedRow, RawRow, Report, Selection, StackRow
from nfslat.answer.words import of_mean, shares_adding_up, stacked
from nfslat.report.blocks import Block, Cell, Figure, Gap, Histogram, Label, Prose, Table, Title, indented
from nfslat.report.columns import Column, columns, group_columns, table
from nfslat.report.text_layout import adding_up_below_each_other, count, plain, shorten

# Miss and State names (tables.py) in words.
_MISSES = {
    "OUTSIDE_OVERLAP": "while the other capture was not running",
    "NOT_CAPTURED_AT_SERVER": "not in the server's capture",
    "NOT_CAPTURED_AT_CLIENT": "not in the client's capture",
    "CONNECTION_UNMATCHED": "nothing of its connection in the other capture",
    "AMBIGUOUS": "several candidates, nothing to tell them apart",
}
_STATES = {
    "PAIRED": "paired: the call or the reply of an op",
    "NO_REPLY": "call without a reply in the capture",
    "NO_CALL": "reply without a call in the capture",
    "RETRANSMITTED": "retransmitted: sent or answered again",
    "DUPLICATE_FRAME": "duplicate: same packet captured twice",
    "HEADER_NOT_CAPTURED": "RPC header not captured",
    "MALFORMED": "malformed RPC header",
}


def op_label(program: str, op: str) -> str:
    """``READ``, ``MOUNT MNT``, ``100099 PROC7``; callbacks name themselves (``CB_RECALL``)."""
    if program == "NFS" or (program == "NFS_CB" and op.startswith("CB_")):
        return plain(op)
    return plain(f"{program.removeprefix('program ')} {op}")


_RAW = (
    Column("op", lambda row: op_label(row.program, row.op)),
    Column("vers", lambda row: plain(row.version), "right"),
    *columns("count", "count"),
    *columns("ms", *(f"srt_ms.{name} {name}" for name in ("mean", "p50", "p95", "p99", "max"))),
)


STACK = (
    Column("layer", lambda of: indented(shorten(of[0].layer, 36), min(of[0].depth, 4))),
    Column("ms", lambda of: Figure(of[1], of[0].ms), "ms"),
    Column("share", lambda of: of[0].share, "share"),
    Column("source", lambda of: of[0].source),
)


def stack_section(stack: Sequence[StackRow]) -> Iterator[Block]:
    """The latency stack, one table an operation."""
    for op in dict.fromkeys(row.op for row in stack):
        yield from stack_blocks([row for row in stack if row.op == op], last="wrapped")


def stack_blocks(rows: Sequence[StackRow], **how: Any) -> Iterator[Block]:
    """One of the blocks of the section."""
    yield Title("Latency stack, mean ms" + ("" if rows[0].op == "all" else f": {shorten(rows[0].op, 40)}"))
    yield table(zip(rows, stacked(rows), strict=True), STACK, **how)


def means_of(row: MatchedRow) -> tuple[Cell, Cell, Cell]:
    """Client, network and server."""
    shown = of_mean(None, row.network_ms.mean, row.server_ms.mean, row.queue_ms)
    figures = {name: Figure(text, value) for name, (value, text) in shown.items()}
    return figures["client SRT"], figures["network"], figures["server"]


def raw_section(side: str, rows: Sequence[RawRow], capture: Capture) -> Iterator[Block]:
    """Every operation of one capture, matched or not; means alone where its stamps tick too slowly for more."""
    where = "" if side == "capture" else f" at the {side}"
    yield Title(f"Raw data: SRT{where}, ms, all ops of this capture")
    if not rows:
        yield Prose("No ops.")
        return
    yield table(rows, _RAW[: 4 if is_in_ticks(capture) else None])


def is_in_ticks(capture: Capture) -> bool:
    """Do its stamps tick too slowly for anything but means?"""
    return any(note.code == "capture-coarse-stamps" and note.severity == "warning" for note in capture.audit)


def histogram_section(raw: Mapping[str, Sequence[RawRow]]) -> Iterator[Block]:
    """Power-of-two histograms, the sides of an operation next to each other: a shift between them shows at once."""
    yield Title("Histogram of SRT: ops up to this time and above the one before")
    for title, buckets in histogram_rows(raw):
        yield Gap()
        yield Histogram(title, list(raw), buckets)


def histogram_rows(raw: Mapping[str, Sequence[RawRow]]) -> list[tuple[str, list[tuple[str, dict[str, int]]]]]:
    """Of each operation: (label, side -> ops), from the first bucket with an op on any side to the last."""
    by_op: dict[tuple[str, str], dict[str, Sequence[Bucket]]] = {}
    for side, rows in raw.items():
        for row in rows:
            by_op.setdefault((op_label(row.program, row.op), row.version), {})[side] = row.histogram
    found = [(f"{op} v{plain(version)}", _without_empty_ends(sides)) for (op, version), sides in by_op.items()]
    return [(title, buckets) for title, buckets in found if buckets]


def _without_empty_ends(sides: Mapping[str, Sequence[Bucket]]) -> list[tuple[str, dict[str, int]]]:
    """(label, side -> ops) in order of time, from the first bucket with an op on any side to the last."""
    labels: dict[tuple[bool, int, str], dict[str, int]] = {}
    for side, buckets in sides.items():
        for b in buckets:
            counts = labels.setdefault((b.le_us is None, b.le_us or 0, b.label), {})
            counts[side] = counts.get(side, 0) + b.count
    ordered = [(key[2], labels[key]) for key in sorted(labels)]
    filled = [i for i, (_, counts) in enumerate(ordered) if any(counts.values())]
    return ordered[filled[0] : filled[-1] + 1] if filled else []


class OpLine(NamedTuple):
    """A line of a table of operations; its means are texts that add up to the last digit."""

    op: str
    version: str
    row: MatchedRow
    client: str
    network: str
    server: str


def named_rows(
    matched: MatchedOps, every: str = "all", slowest: str = "", rows: Sequence[MatchedRow] | None = None
) -> list[tuple[str, str, MatchedRow]]:
    """Name, version and figures of operations (`rows`: some of them), of all together where they are several, and of
    the slowest where these have a name."""
    own = matched.by_op if rows is None else rows
    found = [(op_label(row.program, row.op), plain(row.version), row) for row in own]
    more = ((every if len(matched.by_op) != 1 else "", matched.total), (slowest, matched.slowest))
    return found + [(name, "", row) for name, row in more if name and row is not None]


def op_lines(rows: Sequence[tuple[str, str, MatchedRow]]) -> list[OpLine]:
    """The lines of a table of these."""
    sums = adding_up_below_each_other([[row.network_ms.mean, row.server_ms.mean] for _, _, row in rows])
    return [OpLine(*row, client, *parts) for row, (parts, client) in zip(rows, sums, strict=True)]


_NAMES = (*columns("text", "op"), *columns("right", "version vers"))
_OPS = (*_NAMES, *columns("count", "row.count count"), *columns("ms", "client", "server", "network"))
_TAILS = [f"row.{at}_ms.{what} {at}\n{what}" for at in ("client", "server", "network") for what in ("p99", "max")]


def matched_section(matched: MatchedOps) -> Iterator[Block]:
    """The same ops on both sides: client, server and the difference, which is the network."""
    yield Title("Matched data: ops seen in both captures, mean ms")
    lines = op_lines(named_rows(matched))
    if not lines:
        yield Prose("None.")
        return
    own = (*_OPS, Column("in server", _in_server, "right"))
    yield table(lines, [*own, *group_columns([line.row for line in lines], of="row.", apart=False)])
    if matched.tick_ms is not None:
        yield Prose(f"Time stamps tick every {matched.tick_ms:g} ms: no percentile and no maximum can be told.")
        return
    yield Title("Matched data: p99 and max, ms")
    yield table(lines, [*_NAMES, *columns("ms", *_TAILS)])
    if matched.total is not None and matched.total.negative_network:
        yield Prose(
            f"{count(matched.total.negative_network)} ops took longer at the server than at the client, which is "
            "impossible: clock drift, a wrong match, or packets that a capture stamped late. They are kept as they "
            "are."
        )


def _in_server(line: OpLine) -> str:
    return shares_adding_up([line.row.network_ms.mean, line.row.server_ms.mean])[1]


def misses_section(matched: MatchedOps) -> Iterator[Block]:
    """Ops processed, matched and missed, with the reason of each miss."""
    yield Title("Processed, matched and missed ops")
    sides = list(matched.processed)
    missed = {side: matched.unmatched.get(side, {}) for side in sides}
    rows = [
        ("processed", matched.processed),
        ("matched", dict.fromkeys(sides, matched.ops)),
        ("missed", {side: sum(missed[side].values()) for side in sides}),
    ]
    if matched.untimed:
        rows.insert(2, ("matched, but in flight when a clock was set", dict.fromkeys(sides, matched.untimed)))
    yield _by_side("ops", sides, [*rows, *_counts(missed, _MISSES, depth=1)])


def _by_side(
    head: str, sides: Iterable[str], rows: Sequence[tuple[str | Label, Mapping[str, int]]], alone: str = "capture"
) -> Table:
    """Counts of each side; none is 0. `alone`: the head of the only capture's."""
    heads = [f"1.{side} {alone if side == 'capture' else side}" for side in sides]
    return table(rows, [Column(head, lambda row: row[0]), *columns("count", *heads, none="0")])


def _counts(
    sides: Mapping[str, Mapping[str, int]], words: Mapping[str, str], depth: int = 0
) -> list[tuple[str | Label, dict[str, int]]]:
    """A row for each name that counts anything on any side: those of `words` first, then the others as they come."""
    in_use = dict.fromkeys(name for side in sides.values() for name, n in side.items() if n)
    names = [*(name for name in words if name in in_use), *(name for name in in_use if name not in words)]
    return [
        (indented(words.get(name, name), depth), {side: counts.get(name, 0) for side, counts in sides.items()})
        for name in names
    ]


def selection_section(selection: Selection) -> Iterator[Block]:
    """What the filters and the defaults left out."""
    yield Title("Excluded")
    for name, value in selection.filters.items():
        yield Prose(f"filter {name}: {value}", hanging=2)
    rows = _counts(selection.excluded, {})
    if rows:
        yield _by_side("ops excluded", selection.excluded, rows)
    else:
        yield Prose("No op was excluded.")


def messages_section(captures: Mapping[str, Capture]) -> Iterator[Block]:
    """RPC messages by state, and packets by kind; each adds up to its total."""
    yield Title("RPC messages by state")
    yield from _counts_table("messages", {side: c.messages for side, c in captures.items()}, _STATES)
    yield Title("Packets by kind")
    yield from _counts_table("packets", {side: c.packet_kinds for side, c in captures.items()}, {})


def programs_section(report: Report) -> Iterator[Block]:
    """RPC programs that were seen and have no row in the raw data."""
    for side, capture in report.captures.items():
        shown = {row.program for row in report.raw.get(side, [])} | {"NFS"}
        hidden = [f"{name} {count(ops)}" for name, ops in capture.programs.items() if name not in shown and ops]
        if hidden:
            where = "capture" if side == "capture" else f"{side} capture"
            yield Prose(f"Also in the {where}, not shown (ops): {', '.join(hidden)}. See --all-programs.", hanging=2)


def _counts_table(what: str, sides: Mapping[str, Mapping[str, int]], words: Mapping[str, str]) -> Iterator[Block]:
    total = ("total", {side: sum(counts.values()) for side, counts in sides.items()})
    yield _by_side(what, sides, [*_counts(sides, words), total], alone="count")
