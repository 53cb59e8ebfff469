"""Report -> text for a terminal: the answer first, then what limits it, then the tables that prove it."""

from __future__ import annotations

from nfslat.answer.model import AuditNote, Capture, MatchedOps, RawRow, Report, Verdict
from nfslat.report.sections.findings import evidence_section, findings_section, what_if_section
from nfslat.report.sections.inflight import inflight_section
from nfslat.report.sections.parts import clock_section, part_percentiles_section, parts_section
from nfslat.report.sections.pivots import intervals_section, legend, pivot_section
from nfslat.report.sections.tables import (
    histogram_section,
    matched_section,
    messages_section,
    misses_section,
    op_label,
    programs_section,
    raw_section,
    selection_section,
    stack_section,
)
from nfslat.report.sections.transport import charges_section, transport_section
from nfslat.report.text_layout import (
    Cell,
    Page,
    adding_up_below_each_other,
    count,
    count_of,
    ms,
    percent,
    shorten,
    table,
)

SRT_MEANS = {
    "nfslat": "at the client from the first byte of the call to the last byte of the reply, at the server from the "
    "last byte of the call to the first byte of the reply",
    "tshark": "from the frame that completes the call to the frame that completes the reply, on either side, as "
    "Wireshark counts it",
    "first": "from the first frame of the call to the first frame of the reply, on either side",
}

_IN_FLIGHT_MEANS = (
    "In flight: shares of time are of that in which any op is. most: at once; level: hardly ever exceeded; time at it: "
    "or below it by as many as may be in flight unseen; held by: what keeps more from being in flight.",
    "queue: of the server SRT, from the call's last byte to the moment at which a server thread takes it. in a thread: "
    "the rest, the file system and the storage with it.",
    "slots: a client sends no more calls at once than it has slots (of a connection; with NFSv4.1 also of a session); "
    "others wait above the wire, where no packet shows them.",
    "behind a reply: of the calls that fill the level, those that leave at once when a reply frees a place, and how "
    "long after it. Slots do that; workers, which each wait for their answer, are slower.",
)


def render(report: Report, *, hist: bool = False, width: int = 80, color: bool = False) -> str:
    """The report as text of at most `width` columns (80 if it is less); its colour codes add nothing to it."""
    page = Page(width, color)
    _answer(page, report)
    warnings_section(page, report)
    if report.matched is not None and report.matched.ops:
        findings_section(page, report.findings, report.inflight)
    stack_section(page, report.stack)
    what_if_section(page, report.what_if)
    evidence_section(page, report.evidence)
    if report.inflight is not None:
        inflight_section(page, report.inflight, report.matched)
    for side, rows in report.raw.items():
        raw_section(page, side, rows)
    if hist:
        histogram_section(page, report.raw)
    if report.matched is not None:
        matched_section(page, report.matched)
        misses_section(page, report.matched)
        if report.matched.total is not None:
            parts_section(page, report.matched.total, report.matched.slowest)
        if report.charges is not None:
            charges_section(page, report.charges)
        if report.matched.parts is not None:
            part_percentiles_section(page, report.matched.parts)
    for pivot in report.pivots:
        pivot_section(page, pivot)
    if report.intervals is not None:
        intervals_section(page, report.intervals)
    if report.transport:
        transport_section(page, report.transport)
    if report.clock is not None:
        clock_section(page, report.clock)
    selection_section(page, report.selection)
    captures_section(page, report)
    messages_section(page, report.captures)
    programs_section(page, report)
    _legend(page, report)
    page.gap()
    tool = report.nfslat
    page.prose(f"nfslat {tool.version}, engine {tool.engine}: {tool.command}", hanging=2, style="dim")
    return page.text()


def _answer(page: Page, report: Report) -> None:
    if "capture" in report.captures:
        one_side_section(page, report)
        return
    verdict = report.verdict
    page.prose(headline(verdict, report.matched), style="bold")
    if report.matched is not None:
        page.lines(_proof(report.matched, page.width))
    if verdict is not None:
        page.gap()
        page.prose(f"Confidence is {verdict.confidence}: {'; '.join(verdict.reasons) or 'no reason given'}.", hanging=2)


def headline(verdict: Verdict | None, matched: MatchedOps | None) -> str:
    """The answer in a sentence or two."""
    if matched is None or not matched.ops:
        return "No op is in both captures: nothing can be said about where the time goes."
    if verdict is None:
        return "The captures do not say which layer adds the time."
    return f"{verdict.text} Confidence: {verdict.confidence}."


def _proof(matched: MatchedOps, width: int) -> list[str]:
    """Client SRT = network + server, on average and in the slowest 1 %; the printed numbers add up.

    Two lines, so that a headline of three lines and this make the first five of the report.
    """
    named = [
        (name, row)
        for name, row in (("mean client SRT", matched.total), ("slowest 1 %", matched.slowest))
        if row is not None
    ]
    if not named:
        return []
    sums = adding_up_below_each_other([[row.network_ms.mean, row.server_ms.mean] for _, row in named])
    rows: list[list[Cell]] = [
        [name, client, "= network", network, "+ server", server, f"ms, {count_of(row.count, 'op')}"]
        for (name, row), ((network, server), client) in zip(named, sums, strict=True)
    ]
    lines = table("ldldldl", (), rows, 2 * width)
    if max(map(len, lines)) > width:
        lines = table("ldldldl", (), [[*row[:-1], "ms"] for row in rows], width)
    return lines


def one_side_section(page: Page, report: Report) -> None:
    """What one capture can say, and what it cannot."""
    rows = report.raw.get("capture", [])
    page.prose("One capture: it shows how long ops took, not where the time goes.", style="bold")
    if rows:
        page.prose(_heaviest(rows))
    page.gap()
    page.prose(
        "It can say: the SRT of every op as seen at this point, which ops are slow, what was sent again and what was "
        "not answered. Taken on the server, also how many threads calls wait for; taken on the client, whether slots "
        "are likely to hold them (below, in flight).",
        hanging=2,
    )
    page.prose(
        "It cannot say: which layer adds the time. Taken on the client, SRT is network plus server; taken on the "
        "server, SRT leaves out the network and the client.",
        hanging=2,
    )
    page.prose(
        "To tell them apart, capture on both hosts at the same time and run: nfslat server.cap client.cap", hanging=2
    )


def _heaviest(rows: list[RawRow]) -> str:
    time_ms = [row.count * row.srt_ms.mean for row in rows]
    total_ms = sum(time_ms)
    top = max(range(len(rows)), key=lambda i: time_ms[i])
    row, share = rows[top], percent(time_ms[top] / total_ms if total_ms else None)
    return (
        f"{op_label(row.program, row.op)} v{row.version} has the largest share of the ops' time, {share}: "
        f"{count(row.count)} ops, mean {ms(row.srt_ms.mean)} ms, p99 {ms(row.srt_ms.p99)} ms."
    )


def warnings_section(page: Page, report: Report) -> None:
    """What the reader must know before believing a figure: warnings of the captures, and the report's notes."""
    warnings = [
        _note(where if where == "capture" else "both captures" if where == "both" else f"{where}'s capture", note)
        for where, note in _by_place(report.captures, warnings=True)
    ]
    if warnings or report.notes:
        page.title("Before you rely on this")
    for text in [*warnings, *report.notes]:
        page.prose(f"- {text}", hanging=2, style="accent")


def _by_place(captures: dict[str, Capture], *, warnings: bool) -> list[tuple[str, AuditNote]]:
    """Notes of the captures with the side that each is about; "both" where the two say the same."""
    notes = {
        side: [note for note in capture.audit if (note.severity == "warning") == warnings]
        for side, capture in captures.items()
    }
    if len(notes) < 2:
        return [(side, note) for side, own in notes.items() for note in own]
    one, other = notes.values()
    shared = [note for note in one if note in other]
    both = [("both", note) for note in shared]
    return both + [(side, note) for side, own in notes.items() for note in own if note not in shared]


def _note(where: str, note: AuditNote) -> str:
    return f"{where}: {note.text} ({note.code})"


def captures_section(page: Page, report: Report) -> None:
    """Each capture: its format, size and time, and what is to be said of it without a warning."""
    page.title("Captures")
    notes = _by_place(report.captures, warnings=False)
    for side, c in report.captures.items():
        page.prose(f"{side}: {shorten(c.path, 60)}", hanging=2)
        snaplen = "whole packets" if c.snaplen is None else f"snaplen {count(c.snaplen)}"
        files = f"{len(c.files)} files, " if len(c.files) > 1 else ""
        size = "" if c.wire_bytes is None else f" ({c.wire_bytes / 1e6:,.1f} MB)"
        page.prose(
            f"{files}{c.format}, {snaplen}, {count_of(c.packets, 'packet')}{size} in {c.duration_s:,.3f} s, "
            f"{count_of(c.flows, 'flow')}, {count_of(c.ops, 'op')}",
            indent=2,
            hanging=2,
        )
        page.prose(f"{c.first or '?'} to {c.last or '?'}", indent=2)
        for where, note in notes:
            if where == side:
                page.prose(f"- {_note('note', note)}", indent=2, hanging=2)
    both = [note for where, note in notes if where == "both"] + [n for n in report.audit if n.severity != "warning"]
    if both:
        page.prose("both:")
    for note in both:
        page.prose(f"- {_note('note', note)}", indent=2, hanging=2)


def _legend(page: Page, report: Report) -> None:
    srt = report.nfslat.srt
    meaning = SRT_MEANS.get(srt, srt)
    if srt == "nfslat" and "capture" in report.captures:
        meaning = "from the first byte of the call to the last byte of the reply"
    lines = [
        f"op: an RPC call and its reply; an NFSv4 COMPOUND has the name of its main operation. "
        f"SRT (service response time, --srt={srt}): {meaning}.",
        "p50, p95, p99: so many percent of the ops of that row and table took at most this long. Durations are ms.",
    ]
    if report.matched is not None:
        lines += [
            "Raw data: each capture by itself; the two may hold different ops. Matched data: the same ops on both "
            "sides, so that they may be compared.",
            "network: client SRT minus server SRT, op by op; it needs no clock. Its p99 and max are those of the "
            "differences, not differences of p99 and max.",
            "in server: share of the mean client SRT that the server accounts for.",
            "slowest 1 %: the matched ops with the longest client SRT, at least one; figures are means over them.",
        ]
    if report.matched is not None and report.matched.total is not None:
        lines.append(
            "Parts: means over matched ops. call_send runs on the client's clock, server and reply_send on the "
            "server's, call_net and reply_net need both; +/- is how far the clocks may put them off."
        )
    if report.clock is not None:
        lines.append("theta: the server's clock minus the client's.")
    if report.inflight is not None:
        lines += _IN_FLIGHT_MEANS
    if report.inflight is not None and report.inflight.sessions:
        lines.append(
            "NFSv4.1 session: slots that CREATE_SESSION granted, that the server wants used in the end, that limit the "
            "client, and that were used. Exact, from the packets."
        )
    lines += legend(report.pivots, report.intervals)
    if report.stack:
        lines.append("Latency stack: a row is part of the row above it that is less indented.")
    page.title("Legend")
    for line in lines:
        page.prose(line, hanging=2, style="dim")
