"""Report -> what fits a screen: causes with what to set, a table of operations, what limits trust."""

from __future__ import annotations

from collections.abc import Iterator

from nfslat.answer.model import Finding, NextStep, Report
from nfslat.findings.catalogue import row as row_of
from nfslat.report.blocks import Block, Command, Gap, Item, Prose, Title
from nfslat.report.columns import columns, table
from nfslat.report.sections.findings import LAYERS, advice_of, explains
from nfslat.report.sections.tables import named_rows, op_lines, raw_section, stack_blocks
from nfslat.report.text_layout import count_of
from nfslat.report.text_writer import commands, labelled, setting

_CAUSES, _OPERATIONS, _NOTES = 3, 5, 3  # that are shown
_SOME_TIME = 0.01  # of the time of all: an operation that takes less is not shown
_LABEL = 8  # columns of "check   "


def causes_section(report: Report) -> Iterator[Block]:
    """The causes that matter, each with what to set or to look at, how, and how to check it."""
    matter = [one for one in report.findings if one.layer in LAYERS and one.severity == "warning"]
    yield from _causes(matter, report)
    light = [finding for finding in report.findings if finding.severity != "warning" and row_of(finding.code).in_brief]
    if light:
        yield Title("Also seen")
    for finding in light:
        # Its last part is what holds always.
        yield Item(
            f"{finding.code}, {finding.confidence}: {_sentence(finding.text.rpartition('; ')[0])}", style=finding.layer
        )


def _causes(matter: list[Finding], report: Report) -> Iterator[Block]:
    if not matter:
        return
    lead = None if report.verdict is None else report.verdict.cause
    matter.sort(key=lambda one: one.code != lead)  # the headline's first
    yield Title("Causes, and what to do")
    for number, one in enumerate(matter[:_CAUSES], 1):
        yield Prose(f"{number}. {one.code}, {one.confidence}: {explains(one)}", hanging=3, style=one.layer)
        if one.code != lead:
            yield Prose(f"{_sentence(one.text.split('; ')[0])}.", indent=3)
        yield from _in_brief(one)
    if len(matter) > _CAUSES:
        yield Prose(f"and {len(matter) - _CAUSES} more (--full).")


def _in_brief(one: Finding) -> Iterator[Block]:
    """What to set or look at, the first command, and how to check it."""
    advice = advice_of(one)
    yield from setting(advice)
    if advice.how:
        yield from commands([next((line for line in advice.how if not line.startswith("#")), advice.how[0])])
    if advice.verify:
        yield labelled("check", advice.verify)


def next_section(report: Report) -> Iterator[Block]:
    """The one measurement that would decide more."""
    yield from next_blocks(None if report.verdict is None else report.verdict.next)


def next_blocks(step: NextStep | None) -> Iterator[Block]:
    """The command by itself, to be pasted."""
    if step is not None:
        yield Command(f"{'Next':<{_LABEL}}", step.command)
        yield Prose(f"{step.where}: {step.decides}", indent=_LABEL)


def first_stack_section(report: Report) -> Iterator[Block]:
    """The latency stack: the block that the verdict is about, which is the first."""
    rows = [row for row in report.stack if row.op == report.stack[0].op]
    if not rows:
        return
    layers = [_LAYER_OF.get(row.layer, "") for row in rows]
    yield from stack_blocks(rows, last="cut", styles=layers)


_LAYER_OF = {
    "above the wire": "client",
    "waiting for a slot": "client",
    "network": "network",
    "server": "server",
    "waiting for a thread": "server",
    "in a thread": "server",
    "server, outside storage": "server",
    "storage": "server",
}


def ops_section(report: Report) -> Iterator[Block]:
    """The operations that take most of the time: client, server and network, mean and p99; the printed means add up."""
    matched = report.matched
    if matched is None or matched.total is None:
        return
    by_time = sorted(matched.by_op, key=lambda row: -row.count * row.client_ms.mean)
    least_ms = _SOME_TIME * matched.total.count * matched.total.client_ms.mean
    shown = [row for row in by_time[:_OPERATIONS] if row.count * row.client_ms.mean >= least_ms] or by_time[:1]
    is_coarse = matched.tick_ms is not None
    of = "in both captures" if report.inferred is None else f"with inferred times of the {report.inferred.side}"
    yield Title(f"Operations {of}, ms: {'means' if is_coarse else 'mean and p99 of each'}")
    yield table(op_lines(named_rows(matched, rows=shown)), _OPS[: 5 if is_coarse else None])
    if len(by_time) > len(shown):
        yield Prose(f"{count_of(len(by_time) - len(shown), 'operation')} more: --sections matched")


def first_raw_section(report: Report) -> Iterator[Block]:
    """Of one capture by itself, the operations that take most of the time."""
    rows = sorted(report.raw.get("capture", ()), key=lambda row: -row.count * row.srt_ms.mean)
    yield from raw_section("capture", rows[:_OPERATIONS], report.captures["capture"])
    if len(rows) > _OPERATIONS:
        yield Prose(f"{count_of(len(rows) - _OPERATIONS, 'operation')} more: --sections raw")


_SIDES = ("client", "server", "network")
_OPS = (
    *(*columns("text", "op"), *columns("count", "row.count count")),
    *columns("ms", *(f"{side} {side}\nmean" for side in _SIDES)),
    *columns("ms", *(f"row.{side}_ms.p99 {side}\np99" for side in _SIDES)),
)


def trust_section(report: Report) -> Iterator[Block]:
    """What limits trust, a sentence each."""
    warnings = {
        note.text: f" ({note.code})"
        for capture in report.captures.values()
        for note in capture.audit
        if note.severity == "warning"
    }
    notes = [*warnings.items(), *((text, "") for text in report.notes)]
    if not notes and not report.evidence:
        return
    yield Title("Before you rely on this")
    for text, code in notes[:_NOTES]:
        yield Item(f"{_sentence(text)}{code}", style="accent")
    if len(notes) > _NOTES:
        yield Item(f"and {len(notes) - _NOTES} more (--sections audit)", style="accent")
    # What was given in vain is never left out.
    shown = [text for text in report.evidence if text.startswith("not used: ")] or report.evidence[:1]
    for text in shown:
        left = len(report.evidence) - len(shown)
        more = f"; and {left} more" if left and text is shown[-1] else ""
        yield Item(f"evidence: {_sentence(text)}{more} (--sections evidence)", style="accent")


def more_section(_: Report) -> Iterator[Block]:
    """How to get the rest."""
    yield Gap()
    yield Prose("All of it: --full. Parts of it: --sections clock,parts (--help has all)", style="dim")


def _sentence(text: str) -> str:
    """The first, whole: it is wrapped, and never cut."""
    return text.split(". ", 1)[0].rstrip(".")
