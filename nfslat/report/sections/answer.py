"""Report -> the answer, what to know before one relies on it, the captures, and what the words mean."""

from __future__ import annotations

from collections.abc import Iterator

from nfslat.answer.model import AuditNote, Capture, MatchedOps, MatchedRow, RawRow, Report, Verdict
from nfslat.answer.words import ms, percent
from nfslat.findings.catalogue import row as row_of
from nfslat.report.blocks import Block, Cell, Gap, Item, Prose, Table, Title
from nfslat.report.sections.findings import LAYERS
from nfslat.report.sections.inferred import inferred_words
from nfslat.report.sections.pivots import legend
from nfslat.report.sections.tables import (
    is_in_ticks,
    op_label,
)
from nfslat.report.text_layout import adding_up_below_each_other, count, count_of, shorten

SRT_MEANS = {
    "nfslat": "at the client from the first byte of the call to the last byte of the reply, at the server from the "
    "last byte of the call to the first byte of the reply",
    "tshark": "from the frame that completes the call to the frame that completes the reply, on either side, as "
    "Wireshark counts it",
}

_SOME_UNSEEN = 0.01  # of the ops
_FEW = 2  # operations that are named
_DATA_OPS = frozenset(("READ", "WRITE", "READ_PLUS"))  # what a figure without an operation is about
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


def answer_section(report: Report) -> Iterator[Block]:
    """Where the time goes, the sum that proves it, and how sure that is."""
    if "capture" in report.captures:
        yield from one_side_section(report)
        return
    verdict = report.verdict
    found = verdict is not None and report.matched is not None and report.matched.ops
    yield Prose(verdict.text if found and verdict else headline(verdict, report.matched), style="bold")
    if report.matched is not None:
        yield from _proof(report)
        if report.inferred is not None:
            yield Prose(inferred_words(report.inferred))
        yield from _with_unseen(report.captures)
    if verdict is not None:
        yield Prose(
            f"Confidence is {verdict.confidence}: {'; '.join(verdict.reasons) or 'no reason given'}.", hanging=2
        )


def headline(verdict: Verdict | None, matched: MatchedOps | None) -> str:
    """The answer in a sentence or two."""
    if matched is None or not matched.ops:
        return "No op is in both captures: nothing can be said about where the time goes."
    if verdict is None:
        return "The captures do not say which layer adds the time."
    return f"{verdict.text} Confidence: {verdict.confidence}."


def _proof(report: Report) -> Iterator[Block]:
    """Client SRT = network + server, on average and in the slowest 1 %; the printed numbers add up.

    Two lines, so that a headline of three lines and this make the first five of the report. The mean is that of the ops
    that the headline is about, which are named where they are those that the application's time was given for.
    """
    matched = report.matched
    if matched is None or matched.total is None:
        return
    total, slow = matched.total, matched.slowest
    of_them = _of_application(report, matched)
    names = ", ".join(sorted({row.op for row in of_them}))
    every = "all " if any(row.layer == "application" for row in report.stack) else ""
    means = [total.network_ms.mean, total.server_ms.mean]
    lines = [("mean client SRT", means, every + count_of(total.count, "op"), "")]
    if ops := sum(row.count for row in of_them):
        means = [
            sum(row.network_ms.mean * row.count for row in of_them) / ops,
            sum(row.server_ms.mean * row.count for row in of_them) / ops,
        ]
        lines = [("mean client SRT", means, f"{count(ops)} {names}", names)]
    if slow is not None:
        of_all = f" of all {count(total.count)}" if of_them else ""
        figures = [slow.network_ms.mean, slow.server_ms.mean]
        lines.append(("slowest 1 %", figures, count_of(slow.count, "op") + of_all, "all ops" if of_them else ""))
    sums = adding_up_below_each_other([figures for _, figures, _, _ in lines])
    rows: list[list[Cell]] = [
        [name, client, "= network", network, "+ server", server, f"ms, {who}"]
        for (name, _, who, _), ((network, server), client) in zip(lines, sums, strict=True)
    ]
    short = [[*row[:-1], f"ms, {line[3]}" if line[3] else "ms"] for row, line in zip(rows, lines, strict=True)]
    yield Table("ldldldl", (), rows, narrower=Table("ldldldl", (), short))


def _of_application(report: Report, matched: MatchedOps) -> list[MatchedRow]:
    """Operations that the application's time was given for; none where it is not known, or these are all, or many."""
    given = {row.op for row in report.stack if row.layer == "application"}
    for names in (given, _DATA_OPS) if given else ():
        rows = [row for row in matched.by_op if row.op in names]
        if rows:
            return rows if len(rows) <= _FEW and len(rows) < len(matched.by_op) else []
    return []


def _with_unseen(captures: dict[str, Capture]) -> Iterator[Block]:
    """The means of all ops, where the captures do not show some that matter."""
    known = {side: one.unseen for side, one in captures.items() if one.unseen is not None}
    shown = [one for one in known.values() if one.share >= _SOME_UNSEEN or one.matters]
    if shown:
        most = max(one.ops for one in shown)
        means = ", ".join(f"{side} SRT {_between(*one.mean_ms)} ms" for side, one in sorted(known.items()))
        yield Prose(f"With the {count_of(most, 'op')} that the captures do not show, mean {means}.")


def _between(low_ms: float, high_ms: float) -> str:
    one, other = ms(low_ms), ms(high_ms)
    return one if one == other else f"{one} to {other}"


def one_side_section(report: Report) -> Iterator[Block]:
    """What one capture can say, and what it cannot."""
    rows = report.raw.get("capture", [])
    found = next((one for one in report.findings if one.severity == "warning" and one.layer in LAYERS), None)
    if report.verdict is not None:
        yield Prose(report.verdict.text, style="bold")
    elif found is not None:
        yield Prose(f"{row_of(found.code).title}.", style="bold")
    yield Prose("One capture shows how long operations took, not where the time goes.", style="" if found else "bold")
    if rows:
        yield Prose(_heaviest(rows, in_ticks=is_in_ticks(report.captures["capture"])))
    yield Gap()
    yield Prose(
        "It can say: the SRT of every operation as seen at this point, which operations are slow, what was "
        "retransmitted and what was not answered. Taken on the server, also how many threads calls wait for; taken "
        "on the client, whether slots are likely to hold them (below, in flight).",
        hanging=2,
    )
    yield Prose(
        "It cannot say: which layer adds the time. Taken on the client, SRT is network plus server; taken on the "
        "server, SRT leaves out the network and the client.",
        hanging=2,
    )
    yield Prose(
        "To tell them apart, capture on both hosts at the same time and run: nfslat server.cap client.cap", hanging=2
    )


def _heaviest(rows: list[RawRow], *, in_ticks: bool) -> str:
    time_ms = [row.count * row.srt_ms.mean for row in rows]
    total_ms = sum(time_ms)
    top = max(range(len(rows)), key=lambda i: time_ms[i])
    row, share = rows[top], percent(time_ms[top] / total_ms if total_ms else None)
    p99 = "" if in_ticks else f", p99 {ms(row.srt_ms.p99)} ms"
    return (
        f"{op_label(row.program, row.op)} v{row.version} has the largest share of the ops' time, {share}: "
        f"{count_of(row.count, 'op')}, mean {ms(row.srt_ms.mean)} ms{p99}."
    )


def warnings_section(report: Report) -> Iterator[Block]:
    """What the reader must know before believing a figure: warnings of the captures, and the report's notes."""
    warnings = [
        _note(where if where == "capture" else "both captures" if where == "both" else f"{where}'s capture", note)
        for where, note in _by_place(report.captures, warnings=True)
    ]
    if warnings or report.notes:
        yield Title("Before you rely on this")
    for text in [*warnings, *report.notes]:
        yield Item(text, style="accent")


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


def captures_section(report: Report) -> Iterator[Block]:
    """Each capture: its format, size and time, and what is to be said of it without a warning."""
    yield Title("Captures")
    notes = _by_place(report.captures, warnings=False)
    for side, c in report.captures.items():
        yield Prose(f"{side}: {shorten(c.path, 60)}", hanging=2)
        snaplen = "whole packets" if c.snaplen is None else f"snaplen {count(c.snaplen)}"
        files = f"{len(c.files)} files, " if len(c.files) > 1 else ""
        size = "" if c.wire_bytes is None else f" ({c.wire_bytes / 1e6:,.1f} MB)"
        yield Prose(
            f"{files}{c.format}, {snaplen}, {count_of(c.packets, 'packet')}{size} in {c.duration_s:,.3f} s, "
            f"{count_of(c.flows, 'flow')}, {count_of(c.ops, 'op')}",
            indent=2,
            hanging=2,
        )
        yield Prose(f"{c.first or '?'} to {c.last or '?'}", indent=2)
        for where, note in notes:
            if where == side:
                yield Item(_note("note", note), indent=2)
    both = [note for where, note in notes if where == "both"] + [n for n in report.audit if n.severity != "warning"]
    if both:
        yield Prose("both:")
    for note in both:
        yield Item(_note("note", note), indent=2)


def legend_section(report: Report) -> Iterator[Block]:
    """What the words and figures of the sections above mean."""
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
    yield Title("Legend")
    for line in lines:
        yield Prose(line, hanging=2, style="dim")
