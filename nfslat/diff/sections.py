"""A `Diff` -> text for a terminal of 80 columns: the answer, what moved, kind by kind, findings, what it rests on."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from nfslat.answer.words import adding_up, ms, percent
from nfslat.diff import judge
from nfslat.diff import verdict as verdicts
from nfslat.diff.model import Change, Diff, Part, Row, Setting
from nfslat.diff.parts import PARTS
from nfslat.report.blocks import Block, Cell, Gap, Item, Label, Prose, Table, Title, indented
from nfslat.report.columns import Column, columns, table
from nfslat.report.text_layout import count, count_of
from nfslat.report.text_writer import write

_DIFFERS = 3  # kinds of ops that only one run has; the table names them all
_ROWS = 15  # of the table by operation; the others are counted


def render(found: Diff, *, width: int, color: bool) -> str:
    """All of it."""
    return write(_blocks(found), width=width, color=color)


def _blocks(found: Diff) -> Iterator[Block]:
    if found.load.differs:
        more = len(found.load.differs) - _DIFFERS
        rest = f"; and {count_of(more, 'kind')} more" if more > 0 else ""
        yield Prose(f"Another load: {'; '.join(found.load.differs[:_DIFFERS])}{rest}.", style="accent")
    yield Prose(found.verdict.text, style="bold")
    for text in found.events:
        yield Prose(text)
    for check in found.checks:
        figures = "" if check.a is None or check.b is None else f": {ms(check.a)} -> {ms(check.b)} ms"
        limit = "" if check.limit_ms is None else f", may rise by {ms(check.limit_ms)}"
        why = f" ({check.reason})" if check.reason else ""
        style = "" if check.result == "passed" else "accent"
        yield Prose(f"--check {check.text} {check.result.upper()}{figures}{limit}{why}", style=style, hanging=2)
    yield Gap()
    for name, run in (("A", found.a), ("B", found.b)):
        yield Prose(f"{name}: {run.name}: {count(run.ops)} ops, mean {ms(run.mean_ms)} ms ({run.kind})", hanging=3)
        if run.verdict:
            yield Prose(run.verdict, indent=3)
    yield from _load(found)
    yield from _mix(found)
    yield from _parts("Where it moved", "part", found.parts)
    yield from _parts("What TCP and the path contributed", "cause", found.causes)
    yield from _rows(found.rows)
    yield from _findings(found)
    yield from _settings("Differs in the reports", found.settings)
    yield from _settings("TCP and clocks", found.transport)
    yield from _settings("Layers of the stack, ms", found.stack)
    yield Gap()
    for note in found.notes:
        yield Item(note)


def _load(found: Diff) -> Iterator[Block]:
    rows: list[list[Cell]] = []
    for name, change in (("ops/s of busy time", found.load.ops_per_s), ("in flight", found.load.in_flight)):
        if change is not None:
            rows.append(
                [name, f"{change.a:,.1f}", f"{change.b:,.1f}", f"{change.difference:+,.1f}", judge.said_of(change)]
            )
    rows.append(["same load", "", "", percent(found.load.shared), "share of the ops"])
    yield Title("Load")
    yield Table("lrrrl", ["", "A", "B", "change", ""], rows)


def _mix(found: Diff) -> Iterator[Block]:
    m = found.mix
    yield Title("Difference of the means, ms")
    shown, total = adding_up([m.within_ms, m.mix_ms])
    rows: list[list[Cell]] = [
        ["ops of the same kind take", shown[0]],
        ["other shares of the kinds", shown[1]],
        ["all ops, B - A", total],
    ]
    yield Table("ld", ["", "ms"], rows)
    if m.same_mix is not None:
        covered = f"{percent(m.covered_a)} of A and {percent(m.covered_b)} of B"
        yield Prose(f"At the same mix: {verdicts.figures(m.same_mix)}; of kinds that both have: {covered}.")


def _parts(title: str, column: str, parts: Sequence[Part]) -> Iterator[Block]:
    if not parts:
        return
    yield Title(f"{title}, ms at the same mix")
    yield table(parts, [Column(column, _part_name), *_CHANGE, Column("", lambda one: judge.said_of(one.change))])


def _part_name(one: Part) -> Label:
    return indented(PARTS[one.name].label if one.name in PARTS else one.name.replace("_", " "), one.depth)


_CHANGE = columns(
    "ms", "change.a A", "change.b B", "change.difference B - A", "change.low from", "change.high to", none=""
)


def _rows(rows: Sequence[Row]) -> Iterator[Block]:
    yield Title("By operation and size, client SRT, ms")
    lines: list[tuple[str | Label, int | None, int | None, Change | None, str]] = []
    for row in rows[:_ROWS]:
        lines.append((verdicts.label(row), row.count_a, row.count_b, row.mean, _said(row)))
        if row.mean is not None and row.verdict in ("slower", "faster", "not relevant", "load"):
            for label, change in (("median", row.p50), ("p99", row.p99)):
                if change is not None:
                    lines.append((indented(label, 1), None, None, change, judge.said_of(change)))
    yield table(lines, _BY_OPERATION)
    if len(rows) > _ROWS:
        yield Prose(
            f"{len(rows) - _ROWS} more kinds, each with no more ops than the last one: --json has them.", style="dim"
        )


_BY_OPERATION = (
    *(*columns("text", "0 "), *columns("count", "1 ops A", "2 B", none="")),
    *columns("ms", "3.a mean A", "3.b B", "3.difference B - A", "3.low from", "3.high to", none=""),
    *columns("text", "4 "),
)


def _said(row: Row) -> str:
    """The verdict; where that is none, why."""
    return judge.said_of(row.mean) if row.verdict == "no evidence" and row.mean is not None else row.verdict


def _findings(found: Diff) -> Iterator[Block]:
    if not found.findings:
        return
    yield Title("Findings")
    for one in found.findings:
        shares = (
            f"{percent(one.share_a)} -> {percent(one.share_b)}"
            if one.change == "both"
            else percent(one.share_b if one.change == "new" else one.share_a)
        )
        yield Prose(f"{one.change:<4} {one.code} ({one.layer}, {one.confidence}, {shares}): {one.text}", hanging=5)


def _settings(title: str, rows: Sequence[Setting]) -> Iterator[Block]:
    if rows:
        yield Title(title)
        yield Table("lrr", ["", "A", "B"], [[row.name, row.a, row.b] for row in rows])
