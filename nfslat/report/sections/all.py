"""Report -> its sections by name; each writer has a list of those that it shows, and in what order."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

from nfslat.answer.model import Report, Tool
from nfslat.report.blocks import Block, Gap, Prose
from nfslat.report.sections import (
    answer,
    brief,
    called,
    findings,
    handover,
    inflight,
    outcomes,
    overview,
    parts,
    phases,
    pivots,
    tables,
    transport,
)


def blocks(report: Report, *names: str) -> Iterator[Block]:
    """Sections one after the other; nothing of those of which the report knows nothing."""
    for name in names:
        yield from SECTIONS[name](report)


def _findings(report: Report) -> Iterable[Block]:
    if "capture" in report.captures:
        return findings.one_side_findings_section(report.findings)
    found = report.matched is not None and report.matched.ops
    if not found or report.matched is None:
        return ()
    complete = report.matched.completeness
    return findings.findings_section(report.findings, report.inflight, report.captures, complete)


def _in_flight(report: Report) -> Iterable[Block]:
    return inflight.inflight_section(report.inflight, report.matched) if report.inflight is not None else ()


def _called(report: Report) -> Iterator[Block]:
    for side, rows in report.called.items():
        yield from called.called_section(side, rows)


def _raw(report: Report) -> Iterator[Block]:
    for side, rows in report.raw.items():
        yield from tables.raw_section(side, rows, report.captures[side])


def _parts(report: Report) -> Iterable[Block]:
    matched = report.matched
    return parts.parts_section(matched.total, matched.slowest) if matched is not None and matched.total else ()


def _percentiles(report: Report) -> Iterable[Block]:
    matched = report.matched
    return parts.part_percentiles_section(matched.parts) if matched is not None and matched.parts is not None else ()


def _pivots(report: Report) -> Iterator[Block]:
    for pivot in report.pivots:
        yield from pivots.pivot_section(pivot)


def made_by(tool: Tool) -> Iterator[Block]:
    """What made the report, and how to make it again."""
    yield Gap()
    yield Prose(f"nfslat {tool.version}, engine {tool.engine}: {tool.command}", hanging=2, style="dim")


SECTIONS: dict[str, Callable[[Report], Iterable[Block]]] = {
    "answer": answer.answer_section,
    "one side": lambda of: answer.one_side_section(of) if "capture" in of.captures else (),
    "warnings": answer.warnings_section,
    "findings": _findings,
    "handover": handover.handover_section,
    "phases": lambda of: phases.phases_section(of.phases),
    "pairs": lambda of: phases.pairs_section(of.pairs),
    "stack": lambda of: tables.stack_section(of.stack),
    "what if": lambda of: findings.what_if_section(of.what_if),
    "evidence": lambda of: findings.evidence_section(of.evidence),
    "in flight": _in_flight,
    "outcomes": lambda of: () if of.outcomes is None else outcomes.outcomes_section(of.outcomes),
    "called": _called,
    "raw": _raw,
    "histograms": lambda of: tables.histogram_section(of.raw),
    "matched": lambda of: () if of.matched is None else tables.matched_section(of.matched),
    "misses": lambda of: () if of.matched is None else tables.misses_section(of.matched),
    "parts": _parts,
    "charges": lambda of: () if of.charges is None else transport.charges_section(of.charges),
    "percentiles": _percentiles,
    "pivots": _pivots,
    "intervals": lambda of: () if of.intervals is None else pivots.intervals_section(of.intervals),
    "hangs": lambda of: (*transport.hangs_section(of.hangs or []), *transport.unanswered_section(of.unanswered or [])),
    "transport": lambda of: transport.transport_section(of.transport or []),
    "clock": lambda of: () if of.clock is None else parts.clock_section(of.clock),
    "excluded": lambda of: tables.selection_section(of.selection),
    "captures": answer.captures_section,
    "messages": lambda of: tables.messages_section(of.captures),
    "programs": tables.programs_section,
    "legend": answer.legend_section,
    "made by": lambda of: made_by(of.nfslat),
    # In brief, for a screen.
    "next": overview.next_section,
    "causes": overview.causes_section,
    "first stack": overview.first_stack_section,
    "ops": overview.ops_section,
    "brief pairs": lambda of: phases.pairs_section(of.pairs, brief=True),
    "brief in flight": lambda of: () if of.inflight is None else inflight.brief_inflight_section(of.inflight),
    "first raw": overview.first_raw_section,
    "trust": overview.trust_section,
    "more": overview.more_section,
    # In brief, for a ticket.
    "notes": brief.notes_section,
    "brief by op": brief.by_op_section,
    "brief parts": brief.parts_section,
    "brief stack": brief.stack_section,
    "brief pivots": brief.pivots_section,
    "brief raw": brief.raw_section,
    "slowest": brief.slowest_section,
    "brief captures": brief.captures_section,
}
