"""Report -> tables of operations and counts, one function a section."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

from nfslat.answer.model import Bucket, Capture, MatchedOps, MatchedRow, RawRow, Report, Selection, StackRow, Summary
from nfslat.answer.words import of_mean, percent, shares_adding_up, stacked
from nfslat.report.blocks import Block, Cell, Figure, Gap, Histogram, Prose, Table, Title, indented
from nfslat.report.sections.columns import cells_of, columns_of
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
_RAW_HEADERS = ("op", "vers", "count", "mean", "p50", "p95", "p99", "max")


def op_label(program: str, op: str) -> str:
    """``READ``, ``MOUNT MNT``, ``100099 PROC7``; callbacks name themselves (``CB_RECALL``)."""
    if program == "NFS" or (program == "NFS_CB" and op.startswith("CB_")):
        return plain(op)
    return plain(f"{program.removeprefix('program ')} {op}")


def stack_section(stack: Sequence[StackRow]) -> Iterator[Block]:
    """The latency stack, one table an operation."""
    for op in dict.fromkeys(row.op for row in stack):
        rows = [row for row in stack if row.op == op]
        yield Title("Latency stack, mean ms" + ("" if op == "all" else f": {shorten(op, 40)}"))
        yield Table("ldrl", ("layer", "ms", "share", "source"), stack_cells(rows), last="wrapped")


def stack_cells(rows: Sequence[StackRow]) -> list[list[Cell]]:
    """One block of the latency stack."""
    return [
        [indented(shorten(row.layer, 36), min(row.depth, 4)), Figure(shown, row.ms), percent(row.share), row.source]
        for row, shown in zip(rows, stacked(rows), strict=True)
    ]


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
    cells: list[list[Cell]] = []
    figures = 1 if is_in_ticks(capture) else 5
    for row in rows:
        s = row.srt_ms
        numbers = [float(value) for value in (s.mean, s.p50, s.p95, s.p99, s.max)]
        cells.append([op_label(row.program, row.op), plain(row.version), row.count, *numbers[:figures]])
    yield Table("lrrddddd"[: 3 + figures], _RAW_HEADERS[: 3 + figures], cells)


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


def matched_section(matched: MatchedOps) -> Iterator[Block]:
    """The same ops on both sides: client, server and the difference, which is the network."""
    yield Title("Matched data: ops seen in both captures, mean ms")
    rows = [(op_label(row.program, row.op), plain(row.version), row) for row in matched.by_op]
    if matched.total is not None and len(rows) != 1:
        rows.append(("all", "", matched.total))
    if not rows:
        yield Prose("None.")
        return
    means: list[list[Cell]] = []
    tails: list[list[Cell]] = []
    sums = adding_up_below_each_other([[row.network_ms.mean, row.server_ms.mean] for _, _, row in rows])
    columns = [column for column in columns_of([row for *_, row in rows]) if not column.stands_apart]
    for (op, version, row), ((network, server), client) in zip(rows, sums, strict=True):
        shares = shares_adding_up([row.network_ms.mean, row.server_ms.mean])
        means.append([op, version, row.count, client, server, network, shares[1], *cells_of(row, columns)])
        tails.append([op, version, *_tail(row.client_ms), *_tail(row.server_ms), *_tail(row.network_ms)])
    heads = ("op", "vers", "count", "client", "server", "network", "in server", *(column.head for column in columns))
    yield Table("lrrdddr" + "d" * len(columns), heads, means)
    if matched.tick_ms is not None:
        yield Prose(f"Time stamps tick every {matched.tick_ms:g} ms: no percentile and no maximum can be told.")
        return
    yield Title("Matched data: p99 and max, ms")
    headers = (
        "op",
        "vers",
        *(f"{at}\n{what}" for at in ("client", "server", "network") for what in ("p99", "max")),
    )
    yield Table("lrdddddd", headers, tails)
    if matched.total is not None and matched.total.negative_network:
        yield Prose(
            f"{count(matched.total.negative_network)} ops took longer at the server than at the client, which is "
            "impossible: clock drift, a wrong match, or packets that a capture stamped late. They are kept as they "
            "are."
        )


def _tail(summary: Summary) -> tuple[float, float]:
    return float(summary.p99), float(summary.max)


def misses_section(matched: MatchedOps) -> Iterator[Block]:
    """Ops processed, matched and missed, with the reason of each miss."""
    yield Title("Processed, matched and missed ops")
    sides = list(matched.processed)
    missed = {side: matched.unmatched.get(side, {}) for side in sides}
    rows: list[list[Cell]] = [
        ["processed", *matched.processed.values()],
        ["matched", *(matched.ops for _ in sides)],
        ["missed", *(sum(missed[side].values()) for side in sides)],
    ]
    if matched.untimed:
        rows.insert(2, ["matched, but in flight when a clock was set", *(matched.untimed for _ in sides)])
    for reason in _names_in_use(missed.values(), _MISSES):
        rows.append([indented(_words(reason, _MISSES), 1), *(missed[side].get(reason, 0) for side in sides)])
    yield Table("l" + "r" * len(sides), ["ops", *sides], rows)


def selection_section(selection: Selection) -> Iterator[Block]:
    """What the filters and the defaults left out."""
    yield Title("Excluded")
    for name, value in selection.filters.items():
        yield Prose(f"filter {name}: {value}", hanging=2)
    sides = list(selection.excluded)
    reasons = _names_in_use(selection.excluded.values(), {})
    if not reasons:
        yield Prose("No op was excluded.")
        return
    rows: list[list[Cell]] = [
        [_words(reason, {}), *(selection.excluded[side].get(reason, 0) for side in sides)] for reason in reasons
    ]
    yield Table("l" + "r" * len(sides), ["ops excluded", *sides], rows)


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
    rows: list[list[Cell]] = [
        [_words(name, words), *(counts.get(name, 0) for counts in sides.values())]
        for name in _names_in_use(sides.values(), words)
    ]
    rows.append(["total", *(sum(counts.values()) for counts in sides.values())])
    headers = [what, *("count" if side == "capture" else side for side in sides)]
    yield Table("l" + "r" * len(sides), headers, rows)


def _names_in_use(counts: Iterable[Mapping[str, int]], order: Mapping[str, str]) -> list[str]:
    """Names that count anything on any side: those of `order` first, then the others as they come."""
    in_use = dict.fromkeys(name for side in counts for name, n in side.items() if n)
    return [*(name for name in order if name in in_use), *(name for name in in_use if name not in order)]


def _words(name: str, words: Mapping[str, str]) -> str:
    return words.get(name, plain(name))
