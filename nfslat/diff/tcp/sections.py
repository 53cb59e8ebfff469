"""What changed between two TCP conversations -> text: the answer, the figures, sizes, settings."""

from __future__ import annotations

from collections.abc import Iterator

from nfslat.answer.words import percent
from nfslat.diff import judge
from nfslat.diff.tcp.compare import difference, number
from nfslat.diff.tcp.figures import WAITS
from nfslat.diff.tcp.model import Conversation, Figure, TransportDiff
from nfslat.model.causes import Cause
from nfslat.report.blocks import Block, Cell, Gap, Item, Prose, Table, Title
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
        rows: list[list[Cell]] = [_row(one) for one in found.figures if one.of == of]
        yield Table("lrrrrl", ["", "A", "B", "B - A", "95 % CI", ""], rows)
    yield Prose(
        "busy: while it had data to send. ms/s: a second of the conversation has so many ms of waits.", style="dim"
    )
    if found.sizes:
        yield Title("Sizes of packets that come often, share of the packets")
        sizes: list[list[Cell]] = [
            [one.of, count(one.bytes), percent(one.share_a), percent(one.share_b), one.what] for one in found.sizes
        ]
        yield Table("lrrrl", ["from", "bytes", "A", "B", ""], sizes, last="wrapped")
    if found.settings:
        yield Title("How they were set up, and what was seen of it")
        yield Table("lll", ["", "A", "B"], [[one.name, one.a, one.b] for one in found.settings])
    if found.notes:
        yield Gap()
    for note in found.notes:
        yield Item(note)


def _run(one: Conversation) -> str:
    return (
        f"{one.name}: {one.a} to {one.b}, {one.duration_s:.1f} s, {count(one.packets)} packets, "
        f"{count(one.bytes[0])} and {count(one.bytes[1])} bytes ({one.kind})"
    )


def _row(one: Figure) -> list[Cell]:
    change = one.change
    interval = ""
    if change.low is not None and change.high is not None:
        interval = f"{number(change.low, one.unit)} to {number(change.high, one.unit)}"
    return [
        f"{_LABELS.get(one.name, one.name)}, {one.unit}",
        number(change.a, one.unit),
        number(change.b, one.unit),
        difference(one),
        interval,
        judge.said_of(change),
    ]
