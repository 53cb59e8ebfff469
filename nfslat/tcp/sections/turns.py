"""Turns, the walk of a slow one, and turns at both ends -> sections of the report."""

from __future__ import annotations

from collections.abc import Iterator

from nfslat.answer.words import ms, percent
from nfslat.clock.tick import bears_means
from nfslat.model.causes import WORDS, Cause
from nfslat.report.blocks import Block, Cell, Command, Item, Prose, Table, Title
from nfslat.report.columns import Column, columns, table
from nfslat.report.text_layout import count, count_of, duration, shorten
from nfslat.tcp.turns import Compared, Shape, Turns
from nfslat.tcp.walk import Walk

_PARTS = {
    "before": "before first request",
    "request": "request is sent",
    "wait": "wait for response",
    "response": "response is sent",
    "think": "until next request",
    "after": "after last response",
}
_ASKER_BY = {"syn": "it opened the connection", "port": "by the ports", "first": "it sent first"}
_FEW = 0.5  # of the time in the slowest tenth: few long ones
_STEADY = 0.2  # in the slowest tenth: all take about as long


def turns_section(found: Turns, tick_ms: float | None = None) -> Iterator[Block]:
    """How many turns, what they cost, in which part, and what it would be without delayed ACKs; means alone where the
    stamps tick too slowly for more."""
    if found.shape is Shape.SILENT:
        return
    yield Title("Turns: requests and responses, by changes of direction")
    if found.shape is Shape.PIPELINED:
        yield Prose(_pipelined(found))
        return
    if found.shape is Shape.NO_TIME:
        yield Prose(
            "How long turns took is not known: time runs backwards in the capture, by up to "
            f"{duration(found.time_back_ms)}."
        )
        return
    if found.shape is Shape.ONE_WAY:
        yield Prose("None: no request was answered. Data went in one direction only.")
        return
    yield Prose(_cost(found), style="bold")
    yield Prose(f"{found.asker} asks ({_ASKER_BY[found.asker_by]}), {found.answerer} answers.")
    in_ticks = tick_ms is not None and bears_means(tick_ms, _mean(found))
    names = _PARTS if found.asker_round_trip_ms is None else _PARTS | {"think": "asker, and the path to it"}
    rows = [(names[part.part], part.total_ms, percent(part.share), part.each) for part in found.parts]
    rows.append(("conversation", found.conversation_ms, "", None))
    yield table(rows, _TURNS[: 4 if in_ticks else None])
    think = next((part.each for part in found.parts if part.part == "think"), None)
    if found.asker_round_trip_ms is not None and think is not None:
        yield Prose(
            f"The capture is {ms(found.asker_round_trip_ms)} ms from the asker, there and back: of the time until the "
            f"next request {duration(found.asker_round_trip_ms * think.count)} at the least is that way.",
        )
    if found.request_bytes is not None and found.response_bytes is not None:
        yield Prose(
            f"A turn takes {ms(_mean(found))} ms and moves {count(round(found.request_bytes))} bytes there, "
            f"{count(round(found.response_bytes))} back (means). {'' if in_ticks else _few_or_many(found)}"
        )
    if found.stalls:
        yield table(found.stalls, _STALLS)
        yield Prose(
            "Their senders' silences of 30 ms or more, the round trip included; share: of the time in turns.",
            style="dim",
        )
    if found.delayed_ack_turns:
        yield Prose(
            f"Without delayed ACKs the turns would take {duration(found.without_delayed_ack_ms)} in place of "
            f"{duration(found.whole_total_ms)}.",
            style="bold",
        )
    if not in_ticks and found.round_trips_alone_ms is not None and found.round_trip_ms is not None:
        yield Prose(
            f"That many round trips alone, at the shortest of {ms(found.round_trip_ms)} ms, take "
            f"{duration(found.round_trips_alone_ms)}."
        )


def _pipelined(found: Turns) -> str:
    text = "Both sides send at once: requests follow each other before they are answered, so turns mean nothing here."
    if found.crossing_share is not None:
        text += f" At {percent(found.crossing_share)} of {count_of(found.changes, 'change')} of direction data of both"
        text += " sides crossed."
    if found.other_answer_share:
        text += f" {percent(found.other_answer_share)} of the RPC replies answer other calls than the one before them."
    return text


def _mean(found: Turns) -> float:
    return found.whole.mean_ms if found.whole is not None else 0.0


def _cost(found: Turns) -> str:
    """``72,000 turns x 200 ms = 4.0 h, 98.0 % of the conversation``."""
    return (
        f"{count_of(found.count, 'turn')} x {ms(_mean(found))} ms = {duration(found.whole_total_ms)}, "
        f"{percent(found.whole_share)} of the conversation."
    )


def _few_or_many(found: Turns) -> str:
    if found.slowest_10_share is None:
        return ""
    text = f"The slowest tenth takes {percent(found.slowest_10_share)} of the time in turns"
    if found.slowest_1_share is not None:
        text += f", the slowest 1 % {percent(found.slowest_1_share)}"
    if found.slowest_10_share >= _FEW:
        return text + ": few long ones."
    return text + (": many alike." if found.slowest_10_share <= _STEADY else ".")


_TURNS = (
    *(*columns("text", "0 part"), *columns("duration", "1 in all"), *columns("share", "2 share")),
    *columns("ms", "3.mean_ms mean ms", "3.p50_ms p50", "3.p99_ms p99", "3.max_ms max", none=""),
)
_STALLS = (
    *(*columns("text", "where in the"), Column("waited for", lambda stall: WORDS[stall.cause].sender)),
    *(*columns("count", "count times", "turns"), *columns("ms", "mean_ms mean ms")),
    *(*columns("duration", "total_ms in all"), *columns("share", "share")),
)


def walk_section(found: Walk) -> Iterator[Block]:
    """One slow turn, frame by frame, and what can be done."""
    title, few = "A typical slow turn", count_of(found.slow_turns, "turn")
    why = {
        Cause.DELAYED_ACK: f"the median of the {few} that a delayed ACK held up",
        "longest": f"{percent(found.share)} of the time in turns",
        "slowest": f"the median of the slowest tenth, {few}" if found.slow_turns > 1 else "the slowest one",
    }[found.chosen_by]
    if found.chosen_by == "longest":
        title = "The longest turn"
    yield Title(f"{title}: number {count(found.turn)}, {why}")
    yield table(found.steps, _STEPS)
    text = f"It took {ms(found.took_ms)} ms"
    if found.without_ms < found.took_ms:
        text += f"; without the time that it was stalled by TCP it would have taken {ms(found.without_ms)} ms"
    yield Prose(text + ".")
    for note in found.notes:
        yield Item(note.text)
        if note.command:
            yield Command("  ", note.command)
        if note.risk:
            yield Prose(f"Risk: {note.risk}.", indent=2)
        yield Prose(f"Source: {note.source}.", indent=2, style="dim")


_STEPS = (
    *(Column("frame", lambda step: _frames(step.frame, step.last_frame)), *columns("ms", "at_ms ms")),
    *(Column("", lambda step: _arrow(step.direction)), Column("", lambda step: shorten(step.what, 50))),
)


def _frames(first: int | None, last: int | None) -> str:
    if first is None or last is None:
        return ""
    return str(first) if first == last else f"{first}-{last}"


def _arrow(direction: int | None) -> str:
    return "" if direction is None else (">", "<")[direction]


def compared_section(found: Compared) -> Iterator[Block]:
    """How much of the turns is the network, and how much the server."""
    yield Title(f"Turns at both ends: {count_of(found.matched, 'turn')} in both captures")
    yield Prose(
        f"Of {ms(found.client.mean_ms)} ms at the client the server takes {ms(found.wait_ms)} "
        f"({percent(found.wait_share)}) and the network {ms(found.network_ms)} ({percent(found.network_share)}). The "
        "difference of the two captures is the network: no clock is needed.",
        style="bold",
    )
    rows: list[list[Cell]] = [
        ["request: the client sends it", found.request_ms],
        ["server: request in to response out", found.wait_ms],
        ["response: the server sends it", found.response_ms],
        ["network: the rest", found.network_ms],
        ["turn at the client", found.client.mean_ms],
    ]
    yield Table("ld", ["part", "mean ms"], rows)
    if found.client_only or found.server_only:
        yield Prose(
            f"Only in the client's capture: {count_of(found.client_only, 'turn')}; only in the server's: "
            f"{count_of(found.server_only, 'turn')}."
        )
