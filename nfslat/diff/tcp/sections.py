"""What changed between two TCP conversations -> text: the answer, the figures, sizes, settings."""

from __future__ import annotations

from collections.abc import Iterator

from nfslat.diff import judge
from nfslat.diff.tcp.compare import difference, number
from nfslat.diff.tcp.figures import WAITS
from nfslat.diff.tcp.model import Conversation, Figure, TransportDiff
from nfslat.model.causes import Cause
from nfslat.report.blocks import Block, Gap, Item, Prose, Title
from nfslat.report.columns import Column, columns, table
from nfslat.report.text_layout import count
from nfslat.report.text_writer import write

# Where a table has no room for the whole name.
_LABELS = {
    WAITS[Cause.DELAYED_ACK]: "delayed ACKs",
    WAITS[Cause.LOSS]: "loss",
    WAITS[Cause.RECEIVE_WINDOW]: "window",
    WAITS[Cause.SPURIOUS]: "spurious",
    WAITS[Cause.CONGESTION]: "congestion",
    WAITS[Cause.UNKNOWN_WINDOW]: "some window",
    "rate with data to send": "busy rate",
    "payload of a packet": "payload",
    "round trip, median": "median",
    "round trip, p99": "p99",
    "turns per second": "turns",
}


def render(found: TransportDiff, *, width: int, color: bool) -> str:
    """All of it."""
    return write(_blocks(found), width=width, color=color)


def _blocks(found: TransportDiff) -> Iterator[Block]:
    yield Prose(found.verdict.text, style="bold")
    yield Gap()
    for name, run in (("A", found.a), ("B", found.b)):
        yield Prose(f"{name}: {_run(run)}", hanging=3)
    for of in dict.fromkeys(one.of for one in found.figures):
        yield Title(f"Data from {of}" if of else "Turns")
        yield table([one for one in found.figures if one.of == of], _FIGURES)
    yield Prose(
        "busy: while it had data to send. ms/s: a second of the conversation has so many ms of waits.", style="dim"
    )
    if found.sizes:
        yield Title("Sizes of packets that come often, share of the packets")
        yield table(found.sizes, _SIZES, last="wrapped")
    if found.settings:
        yield Title("How they were set up, and what was seen of it")
        yield table(found.settings, columns("text", "name ", "a A", "b B"))
    if found.notes:
        yield Gap()
    for note in found.notes:
        yield Item(note)


def _run(one: Conversation) -> str:
    return (
        f"{one.name}: {one.a} to {one.b}, {one.duration_s:.1f} s, {count(one.packets)} packets, "
        f"{count(one.bytes[0])} and {count(one.bytes[1])} bytes ({one.kind})"
    )


def _interval(one: Figure) -> str:
    low, high = one.change.low, one.change.high
    return "" if low is None or high is None else f"{number(low, one.unit)} to {number(high, one.unit)}"


_FIGURES = (
    Column("", lambda one: f"{_LABELS.get(one.name, one.name)}, {one.unit}"),
    Column("A", lambda one: number(one.change.a, one.unit), "right"),
    Column("B", lambda one: number(one.change.b, one.unit), "right"),
    *(Column("B - A", difference, "right"), Column("95 % CI", _interval, "right")),
    Column("", lambda one: judge.said_of(one.change)),
)
_SIZES = (
    *(*columns("text", "of from"), *columns("count", "bytes"), *columns("share", "share_a A", "share_b B")),
    *columns("text", "what "),
)
