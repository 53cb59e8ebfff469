"""Report -> what TCP and the path did to the operations, and what was sent again and lost; a section a function."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from nfslat.answer.model import Charge, Hang, TcpAmount, Transport, Unanswered
from nfslat.answer.words import ms, percent
from nfslat.model.causes import in_words
from nfslat.report.blocks import Block, Cell, Item, Prose, Table, Title
from nfslat.report.columns import columns, table
from nfslat.report.text_layout import count, count_of, duration

_WORTH, _WORTH_SLOWEST = 0.01, 0.05  # of the client SRT on average, or in the slowest 1 %: less has no row
_PLACES = {"before": "before the call's first byte", "after": "after the reply's last byte"}


def charges_section(charges: Sequence[Charge]) -> Iterator[Block]:
    """What each part is made of, as far as TCP and the path explain it; nothing where that is hardly anything."""
    causes = [one for one in charges if one.cause != "unexplained"]
    outside = [one for one in causes if one.part in _PLACES]
    within = [one for one in causes if one not in outside]
    worth = [one for one in within if _matters(one)]
    total_ms = sum(one.mean_ms for one in charges if one.part not in _PLACES)
    outside = [one for one in outside if one.mean_ms >= _WORTH * total_ms]
    if not outside and all(one.cause == "distance" for one in worth):
        return
    yield Title("What TCP did to the operations, ms per matched op")
    rows: list[tuple[object, ...]] = [
        (in_words(one.cause), one.part, one.ops, one.mean_ms, one.share, one.slowest_ms) for one in worth
    ]
    small = [one for one in within if one not in worth]
    if small:
        shares = sum(one.share or 0.0 for one in small)
        means = sum(one.mean_ms for one in small), sum(one.slowest_ms for one in small)
        rows.append(("causes of less than 1 % each", "", "", means[0], shares, means[1]))
    rows += [
        ("not explained by TCP", one.part, "", one.mean_ms, one.share, one.slowest_ms)
        for one in charges
        if one.cause == "unexplained" and (one.mean_ms or one.slowest_ms)
    ]
    yield table(rows, _CHARGES)
    for one in outside:
        yield Item(
            f"{_PLACES[one.part]}, so in no SRT: {ms(one.mean_ms)} ms on average ({count_of(one.ops, 'op')}), "
            f"{in_words(one.cause)}.",
        )
    if any(one.part == "server" for one in worth):
        yield Prose(
            "What TCP held back within the server's time (calls that had arrived, replies that were ready) still "
            "counts as network."
        )


_CHARGES = (
    *(*columns("text", "0 waits for, or because of", "1 within"), *columns("count", "2 ops")),
    *(*columns("ms", "3 mean"), *columns("share", "4 share"), *columns("ms", "5 slowest 1 %")),
)


def _matters(one: Charge) -> bool:
    return (one.share or 0.0) >= _WORTH or (one.slowest_share or 0.0) >= _WORTH_SLOWEST


# Caveats (transport.py) in words.
_CAVEATS = {
    "sender-drops": "the sender's capture dropped packets, so more may have been retransmitted",
    "receiver-drops": "the receiver's capture dropped packets, so less may have been lost in transit",
    "partial": "the captures have only some bytes in common; those are counted",
    "other-numbers": "TCP sequence numbers are rewritten in transit, so everything in both captures is counted",
    "events-dropped": "there were too many retransmissions to keep each one",
    "copies-unknown": "over IPv6, without timestamps, a packet captured twice 2 ms apart looks retransmitted",
}


def transport_section(transport: Sequence[Transport]) -> Iterator[Block]:
    """What TCP sent again, by direction, where it did: loss between two captures is counted, not guessed."""
    if not any(one.sent_again.packets or one.arrived_again.packets or one.doubled for one in transport):
        return
    yield Title("TCP between the captures")
    ways = [[one for one in transport if one.way == way] for way in ("call", "reply")]

    def row(label: str, cells: list[int | str]) -> list[Cell]:
        return [label, *cells]

    def amounts(name: str) -> list[int | str]:
        return [_segments([getattr(one, name) for one in way]) for way in ways]

    lost = [sum(one.lost_bytes for one in way) for way in ways]
    sent = [sum(one.bytes + one.sent_again.bytes for one in way) for way in ways]
    segments = [[one.lost_segments for one in way] for way in ways]
    lost_segments: list[int | str] = [
        "no SYN seen" if None in each else sum(n for n in each if n is not None) for each in segments
    ]
    rows = [
        row("retransmitted segments", amounts("sent_again")),
        row("that had arrived before (spurious)", amounts("arrived_again")),
        row("segments lost in transit", lost_segments),
        row("share of the bytes lost", [percent(a / b if b else None) for a, b in zip(lost, sent, strict=True)]),
        row("packets duplicated in transit", [sum(one.doubled for one in way) for way in ways]),
        row("matched ops of which bytes were retransmitted", [sum(one.ops_hit for one in way) for way in ways]),
    ]
    yield Table("lrr", ("", "calls", "replies"), rows)
    seen = {
        caveat for one in transport for caveat in one.caveats if one.sent_again.packets or one.arrived_again.packets
    }
    for caveat in sorted(seen):
        yield Item(f"{_CAVEATS.get(caveat, caveat)}")


def _segments(amounts: Sequence[TcpAmount]) -> int | str:
    """Segments where they are known, else packets as they were captured."""
    segments = [one.segments for one in amounts]
    if None in segments:
        return f"{count(sum(one.packets for one in amounts))} packets"
    return sum(n for n in segments if n is not None)


_AWAITS = {"window": "{other} to open its window", "ack": "an ACK from {other}"}
_TRIES = {"window": "probe", "ack": "transmission"}
_UNTIL = {
    "nothing": "at the capture's end",
    "own-reset": "when it gave up with a RST",
    "reset": "when a RST came",
    "next-connection": "when its next connection began",
}
_HANGS_SHOWN = 10


def hangs_section(hangs: Sequence[Hang]) -> Iterator[Block]:
    """Who waited for whom to the last, since when, how long, and how often it asked."""
    if not hangs:
        return
    yield Title("Connections that hang")
    for one in hangs[:_HANGS_SHOWN]:
        yield Item(_hang(one))
    if len(hangs) > _HANGS_SHOWN:
        yield Prose(f"{_HANGS_SHOWN} of {count(len(hangs))}; --json has more.")


def _hang(one: Hang) -> str:
    parts = [f"{count_of(one.tries, _TRIES[one.awaits])}, the last one after {duration(one.last_try_ms)}"]
    if one.compared is not None and one.arrived is not None:
        of = "them" if one.compared == one.tries else f"the {count(one.compared)} in its time"
        parts.append(f"{count(one.arrived)} of {of} in the other capture")
    if one.heard is None or one.heard <= one.since:
        parts.append("nothing came back")
    if one.bytes:
        parts.append(f"{count_of(one.bytes, 'byte')} not acknowledged")
    if one.calls:
        parts.append(f"{count_of(one.calls, 'call')} without a reply")
    where = "" if one.capture == "capture" else f"the {one.side}, "
    return (
        f"{where}{one.waiter}, waits for {_AWAITS[one.awaits].format(other=one.other)} since {one.since}: "
        f"{duration(one.ms)} {_UNTIL[one.cut]} (frame {one.frame}). {'; '.join(parts)}."
    )


_CALLS_SHOWN = 10


def unanswered_section(groups: Sequence[Unanswered]) -> Iterator[Block]:
    """Calls that nobody answered until the capture ended: which, whose, since when, and what is known of where."""
    if not groups:
        return
    yield Title("Calls without a reply")
    for group in groups[:_CALLS_SHOWN]:
        yield Item(_calls_without_reply(group))
    if len(groups) > _CALLS_SHOWN:
        yield Prose(f"{_CALLS_SHOWN} of {count(len(groups))}; --json has more.")


def _calls_without_reply(group: Unanswered) -> str:
    parts = [f"{count_of(group.sends, 'transmission')}, the last at {group.last_sent}"]
    if group.arrived is not None:
        parts.append(f"the server's capture shows {count(group.arrived)}, and {count_of(group.replied or 0, 'reply')}")
    if group.acked:
        parts.append("the server's TCP acknowledged them")
    others = f", {count(group.answered_others)} of other clients" if group.answered_others else ""
    parts.append(f"{count_of(group.answered, 'other call')} answered meanwhile{others}")
    return (
        f"{count_of(group.calls, group.op)} of {group.client} to {group.server} since {group.since}: "
        f"{duration(group.longest_ms)} at the capture's end (XID 0x{group.xid:08x}, frame {group.frame}). "
        f"{'; '.join(parts)}."
    )
