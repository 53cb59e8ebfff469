"""The report on TCP conversations -> text, and Markdown: what it cost and where first, then what proves it."""

from __future__ import annotations

from collections.abc import Iterator

from nfslat.answer.words import ms, percent
from nfslat.model.causes import WORDS
from nfslat.report.blocks import Block, Gap, Item, Prose, Title
from nfslat.report.columns import Column, columns, table
from nfslat.report.markdown import paragraphs
from nfslat.report.text_layout import count, count_of, duration, rate, shorten
from nfslat.report.text_writer import write
from nfslat.tcp.hangs import Hanging
from nfslat.tcp.model import Capture, Detail, Ends, Report
from nfslat.tcp.sections.ends import ends_section
from nfslat.tcp.sections.hangs import hang_line, hangs_section, of_detail
from nfslat.tcp.sections.multipath import multipath_items
from nfslat.tcp.sections.rounds import rounds_section
from nfslat.tcp.sections.sizes import sizes_section, throughput_section
from nfslat.tcp.sections.sqlnet import sqlnet_section, trace_section
from nfslat.tcp.sections.turns import compared_section, turns_section, walk_section
from nfslat.tcp.sections.windows import windows_section
from nfslat.tcp.turns import Shape

_LINES = 20  # conversations in the list
_MOST_ENDPOINT = 21


def render(report: Report, *, width: int, color: bool) -> str:
    """The report as text of at most `width` columns."""
    return write(_blocks(report), width=width, color=color)


def markdown(report: Report) -> str:
    """The same as Markdown, for a ticket."""
    return "\n\n".join(["## TCP conversations", *paragraphs(_blocks(report))]) + "\n"


def _blocks(report: Report) -> Iterator[Block]:
    for detail in report.details:
        yield Gap()
        yield from answer_blocks(detail, of_detail(detail, report))
    yield from notes_blocks(report)
    yield from hangs_section(report)
    yield from list_blocks(report)
    for detail in report.details:
        if len(report.details) > 1:
            yield Title(f"Conversation {detail.stream}: {detail.a} to {detail.b}")
        yield from detail_blocks(detail)
    yield from captures_blocks(report)


def notes_blocks(report: Report) -> Iterator[Block]:
    """What to know before relying on a figure."""
    for note in report.notes:
        yield Item(note)
    yield from multipath_items(report)


def answer_blocks(one: Detail, hanging: list[Hanging]) -> Iterator[Block]:
    """Who talks, what takes the time, what hangs, what TCP cost, and whether the network can be it."""
    yield Prose(f"{one.a} to {one.b}, {duration(one.duration_s * 1e3)}: {_mostly(one)}", style="bold")
    for wait in hanging:
        yield hang_line(wait)
    if one.waits.one_sided is not None:
        yield Prose(
            "The capture shows packets of one direction only (a mirror port, or an asymmetric route): what the "
            "sender waited for cannot be told from it. Capture both directions.",
            hanging=2,
        )
        return
    if one.costs:
        parts = [f"{WORDS[cost.cause].cost} {duration(cost.ms)} ({percent(cost.share)})" for cost in one.costs]
        yield Prose(f"TCP made its senders wait: {'; '.join(parts)}.", hanging=2)
    elif not hanging:
        yield Prose("TCP made neither sender wait.", hanging=2)
    if one.ends is not None:
        yield Prose(_on_the_way(one.ends), hanging=2)
        if one.ends.turns is not None:
            turns = one.ends.turns
            yield Prose(
                f"Of a turn's {ms(turns.client.mean_ms)} ms the server takes {ms(turns.wait_ms)} "
                f"({percent(turns.wait_share)}), the network {ms(turns.network_ms)} ({percent(turns.network_share)}).",
                hanging=2,
            )
    yield Prose(_again(one), hanging=2)


def _on_the_way(found: Ends) -> str:
    """What two captures know of the path."""
    parts = []
    for way in found.passed:
        told = []
        if way.lost_bytes:
            told.append(f"{count(way.lost_packets)} packets lost ({percent(way.lost_share)} of the bytes)")
        if way.reordered:
            told.append(f"{count(way.reordered)} overtaken")
        if way.held:
            told.append(f"held {count(len(way.held))} x up to {ms(max(one.peak_ms for one in way.held))} ms")
        if way.needless:
            told.append(f"{count(way.needless)} spurious retransmissions")
        if told:
            parts.append(f"from {way.sender} {', '.join(told)}")
    trip = "" if found.least_round_trip_ms is None else f", {ms(found.least_round_trip_ms)} ms round trip at least"
    return f"In transit{trip}: {'; '.join(parts) or 'nothing lost, overtaken or held'}."


def _mostly(one: Detail) -> str:
    turns = one.turns
    if one.waits.one_sided is not None:
        return f"{count_of(sum(way.packets for way in one.counts), 'packet')} of one direction."
    if turns.shape is Shape.TURNS and turns.whole is not None:
        largest = max(turns.parts, key=lambda part: part.total_ms)
        what = _PARTS[largest.part]
        if largest.part == "think" and turns.asker_round_trip_ms is not None:
            what += ", and the round trip"
        return (
            f"{count_of(turns.count, 'turn')} of {ms(turns.whole.mean_ms)} ms on average, "
            f"{percent(turns.whole_share)} of the time; most of it is the {what} "
            f"({percent(largest.share)})."
        )
    if turns.shape is Shape.SILENT:
        return "no payload."
    if turns.shape is Shape.NO_TIME:
        return "its packets' times run backwards, so no duration can be given."
    sent = max(one.waits.limits, key=lambda limits: limits.busy_ms)
    way = "many requests at once" if turns.shape is Shape.PIPELINED else "data one way"
    text = f"{way}; {sent.sender} had data to send for {percent(sent.busy_ms / max(sent.total_ms, 1e-9))} of the time"
    flat = max(one.throughput.ways, key=lambda way: way.plateau.mbit_s if way.is_flat and way.plateau else 0.0)
    if flat.is_flat and flat.plateau is not None:
        text += f", and from {flat.sender} the path carried a steady {rate(flat.plateau.mbit_s)} Mbit/s: its bandwidth"
    return f"{text}."


_PARTS = {
    "before": "time before the first request",
    "request": "sending of requests",
    "wait": "wait for responses",
    "response": "sending of responses",
    "think": "asker's own time between turns",
    "after": "time after the last response",
}


def _again(one: Detail) -> str:
    again = [way.retransmissions for way in one.counts]
    holes = [way.out_of_order for way in one.counts]
    used = [way.sending_used_share for way in one.throughput.ways if way.sending_used_share is not None]
    text = f"Retransmitted: {count_of(sum(again), 'packet')}; out of order: {count(sum(holes))}."
    if used:
        # A rate while sending may be above one that the path was seen to sustain, which is a least one.
        text += f" Of what the path has carried {percent(min(max(used), 1.0))} were used while sending."
    return text


def list_blocks(report: Report) -> Iterator[Block]:
    """All conversations, where there are several."""
    if len(report.conversations) < 2:
        return
    yield Title(f"Conversations: {count(len(report.conversations))}")
    known = [line for line in report.conversations if line.cost_ms is not None]
    shown = sorted(known, key=lambda line: (-(line.cost_ms or 0.0), -line.packets))[:_LINES]
    yield table(shown, _CONVERSATIONS)
    if len(report.conversations) > len(shown):
        yield Prose(f"The {count(len(shown))} that TCP cost most; --json has all {count(len(report.conversations))}.")
    yield Prose("no: for --stream. cost: what TCP made both senders wait. again: retransmitted packets.", style="dim")


_CONVERSATIONS = (
    # A table makes its first column fit.
    Column("endpoints", lambda line: shorten(f"{line.a} {line.b}", 2 * _MOST_ENDPOINT - 8)),
    *(*columns("count", "stream no"), Column("s", lambda line: f"{line.duration_s:.1f}", "right")),
    *(*columns("count", "packets"), Column("bytes", lambda line: sum(line.bytes), "count")),
    *columns("count", "retransmissions again"),
    Column("cost", lambda line: line.cost_ms or None, "duration"),
    *columns("text", "most.value mostly", none=""),
)


def detail_blocks(one: Detail) -> Iterator[Block]:
    """All figures of a conversation."""
    if one.ends is not None:
        yield from ends_section(one.ends)
        if one.ends.turns is not None:
            yield from compared_section(one.ends.turns)
    yield from turns_section(one.turns, one.tick_ms)
    if one.walk is not None and one.tick_ms is None:
        yield from walk_section(one.walk)
    yield from rounds_section(one.waits, one.tick_ms)
    yield from windows_section(one.waits)
    yield from throughput_section(one.throughput)
    yield from sizes_section(one.sizes)
    yield from sqlnet_section(one.sqlnet)
    if one.sqlnet_trace is not None:
        yield from trace_section(one.sqlnet_trace)
    yield from _counts(one)


def _counts(one: Detail) -> Iterator[Block]:
    yield Title("Packets by kind")
    rows = [(words, *(getattr(way, name) for way in one.counts)) for name, words in _COUNTS.items()]
    sent = columns("count", f"1 from {one.a}", f"2 from {one.b}")
    yield table([row for row in rows if any(row[1:])], [*columns("as it is", "0 "), *sent])


_COUNTS = {
    "packets": "packets",
    "data_packets": "with payload",
    "new": "  new",
    "ahead": "new, beyond a gap",
    "retransmissions": "  retransmitted",
    "out_of_order": "out of order, or retransmitted into a gap",
    "keep_alives": "  keep-alives",
    "zero_window_probes": "  probes of a closed window",
    "bytes": "bytes of payload",
    "duplicate_acks": "duplicate ACKs",
    "window_updates": "window updates",
    "zero_windows": "that close the window",
    "copies": "captured twice (not counted above)",
}


def captures_blocks(report: Report) -> Iterator[Block]:
    """What was read."""
    yield Title("Captures")
    for capture in report.captures:
        yield Prose(_capture(capture), hanging=2)
    yield Prose(f"Read by {report.nfslat.engine}.", style="dim")


def _capture(one: Capture) -> str:
    parts = [(one.tcp_packets, "of TCP"), (one.copies, "of TCP captured twice"), (one.skipped_packets, "not asked for")]
    parts.append((one.damaged_packets, "of TCP damaged"))
    parts.append((one.other_packets, "not TCP"))
    told = ", ".join(f"{count(number)} {what}" for number, what in parts if number)
    snaplen = "" if one.snaplen is None else f", cut at {count(one.snaplen)} bytes"
    return f"{one.path}: {one.duration_s:.1f} s from {one.first}, {count_of(one.packets, 'packet')}{snaplen} ({told})"
