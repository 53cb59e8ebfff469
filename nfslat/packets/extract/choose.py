"""Matched ops -> the messages of one side, each time they were sent, and of the packets around those with them."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from nfslat.model.details import Again
from nfslat.model.record import Record
from nfslat.model.tables import I64, State
from nfslat.packets.extract.packets import Packet
from nfslat.results import Correlation, Side

SIDES = ("client", "server")
# The first byte of a message can be the last to come, when its segment was lost: then others stand in front of it.
_LOOK_BACK = 512  # frames
_LAST_FRAGMENT = 1 << 31  # of a record mark, RFC 5531 section 11
_TAIL = 32  # bytes in front of TCP's payload in which two packets of one content differ, but for copies


class Message(Record):
    """One transmission of a call or reply at one side; frames count through the side's set of files.

    `frames` are those that may hold it, from the first to the last; `first` holds its first byte.
    """

    row: int  # of the matched ops
    xid: int
    side: str
    is_reply: bool
    is_again: bool  # sent again as a whole, by RPC or by TCP
    first: int
    frames: tuple[int, int]


@dataclass(eq=False)
class Carried:
    """The packets of one message, in capture order; `again` are the numbers of those that TCP sent again."""

    message: Message
    packets: list[Packet] = field(default_factory=list)
    again: set[int] = field(default_factory=set)


@dataclass(eq=False)
class _Open:
    """A message whose packets are being looked for."""

    carried: Carried
    early: list[Packet] = field(default_factory=list)  # that came before the one with its first byte
    ends: tuple[str, int, str, int] | None = None  # of that one
    ip_id: str = ""
    begin: int = 0  # sequence number of its first byte
    length: int | None = None  # record mark included; None where that is not in the packet
    seen: set[tuple[object, ...]] = field(default_factory=set)

    def first(self, packet: Packet) -> None:
        """Learn from the packet with the first byte what the message's packets look like."""
        self.ends, self.ip_id = packet.ends, packet.ip_id
        if packet.seq is not None:
            at, self.length = _record(packet, self.carried.message)
            self.begin = packet.seq + at

    def holds(self, packet: Packet) -> bool:
        """Does the packet hold a byte of the message? Not where it is a copy that the capture made."""
        if self.ends is None or (packet.ends[0], packet.ends[2]) != (self.ends[0], self.ends[2]):
            return False
        if packet.seq is None or packet.ends != self.ends:
            # UDP, or an IP fragment of it.
            return bool(self.ip_id) and packet.seq is None and packet.ip_id == self.ip_id
        if not packet.size:
            return False
        at = (packet.seq - self.begin + (1 << 31)) % (1 << 32) - (1 << 31)
        if at + packet.size <= 0 or (self.length is not None and at >= self.length):
            return False
        tail = packet.data[max(packet.payload_at - _TAIL, 0) :] if not packet.ip_id else packet.ip_id
        key = (packet.seq, packet.size, tail)
        if key in self.seen:
            return False
        self.seen.add(key)
        return True


def messages_of(found: Correlation, rows: Sequence[int], side: str) -> list[Message]:
    """Calls and replies of the matched ops in `rows` at one side, and what was sent again of them; in capture order."""
    matched = found.matched.take(np.array(rows, dtype=np.int64))
    one: Side = getattr(found, side)
    of_side: I64 = getattr(matched, side).astype(np.int64)
    ops, loose = one.ops, one.decoded.loose
    late = _late(one, of_side)
    out = []
    for row, at in zip(rows, of_side.tolist(), strict=True):
        for is_reply, name in ((False, "call"), (True, "reply")):
            first, last = (int(getattr(ops, f"{name}_{end}_frame")[at]) for end in ("first", "last"))
            begin = max(first - _LOOK_BACK, 1) if (first, at) in late else first
            span = (min(begin, last), max(first, last))
            out.append(Message(row, int(ops.xid[at]), side, is_reply, False, first, span))
    row_of = dict(zip(of_side.tolist(), rows, strict=True))
    again = np.flatnonzero(np.isin(loose.op, of_side) & (loose.state == State.RETRANSMITTED))
    for at in again.tolist():
        first, last = int(loose.first_frame[at]), int(loose.last_frame[at])
        whose = row_of[int(loose.op[at])]
        out.append(Message(whose, int(loose.xid[at]), side, bool(loose.is_reply[at]), True, first, (first, last)))
    return sorted(out, key=lambda message: (message.first, message.row, message.is_reply))


def segments_again(found: Correlation, rows: Sequence[int], side: str) -> dict[int, list[tuple[int, bool]]]:
    """Frames of segments with bytes of these ops that TCP sent again -> (row, is it of the reply) of each."""
    one: Side = getattr(found, side)
    of_side = getattr(found.matched, side)[np.array(rows, dtype=np.int64)]
    row_of = dict(zip(of_side.tolist(), rows, strict=True))
    resent = one.decoded.details.resent
    out: dict[int, list[tuple[int, bool]]] = {}
    for at in np.flatnonzero(np.isin(resent.op, of_side)).tolist():
        out.setdefault(int(resent.frame[at]), []).append((row_of[int(resent.op[at])], bool(resent.is_reply[at])))
    return out


def _late(side: Side, rows: I64) -> set[tuple[int, int]]:
    """(frame, op) of segments that came behind what follows them."""
    resent = side.decoded.details.resent
    at = np.flatnonzero(np.isin(resent.op, rows) & (resent.kind == Again.LATE))
    return set(zip(resent.frame[at].tolist(), resent.op[at].tolist(), strict=True))


def choose(
    messages: Sequence[Message], again: Mapping[int, Sequence[tuple[int, bool]]], packets: Iterable[Packet]
) -> list[Carried]:
    """What carries each of `messages`; those come, like `packets`, in capture order.

    `again` are segments that TCP sent again (`segments_again`). A message without packets has none.
    """
    waiting = sorted(messages, key=lambda message: message.frames[0], reverse=True)
    done = [Carried(message) for message in waiting]
    unopened = [_Open(carried) for carried in done]
    by_op: dict[tuple[int, bool], list[_Open]] = {}
    for one in unopened:
        if not one.carried.message.is_again:
            by_op.setdefault((one.carried.message.row, one.carried.message.is_reply), []).append(one)
    active: list[_Open] = []
    for packet in packets:
        while unopened and unopened[-1].carried.message.frames[0] <= packet.frame:
            active.append(unopened.pop())
        for one in active:
            _offer(one, packet)
        for key in again.get(packet.frame, ()):
            for one in by_op.get(key, ()):
                if packet not in one.carried.packets:
                    one.carried.packets.append(packet)
                one.carried.again.add(packet.frame)
        active = [one for one in active if one.carried.message.frames[1] > packet.frame]
    return sorted(done, key=lambda carried: (carried.message.first, carried.message.row, carried.message.is_reply))


def _offer(one: _Open, packet: Packet) -> None:
    message = one.carried.message
    if packet.frame < message.first:
        one.early.append(packet)
        return
    if packet.frame == message.first:
        one.first(packet)
        one.carried.packets += [early for early in one.early if one.holds(early)]
        one.early.clear()
        one.holds(packet)  # so that a copy of it is known for one
        one.carried.packets.append(packet)
    elif one.holds(packet):
        one.carried.packets.append(packet)


def _record(packet: Packet, message: Message) -> tuple[int, int | None]:
    """Where in TCP's payload the record of the message begins, and its length with the mark, if it is one fragment.

    (0, None) where the packet does not show its header whole.
    """
    # Record mark, XID, and whether it is a call or a reply (RFC 5531 section 9).
    header = re.compile(
        rb"(.{4})" + re.escape(message.xid.to_bytes(4, "big")) + bytes((0, 0, 0, int(message.is_reply))), re.DOTALL
    )
    for found in header.finditer(packet.data, max(packet.payload_at, 0)):
        mark = int.from_bytes(found[1], "big")
        whole = 4 + mark - _LAST_FRAGMENT if mark & _LAST_FRAGMENT else None
        return found.start() - packet.payload_at, whole
    return 0, None


def comments(carried: Sequence[Carried], names: Mapping[int, str]) -> Iterator[tuple[Packet, Message, str]]:
    """Each packet of each message with what it is: ``READ 0x1a2b3c4d client call 1/3``."""
    for one in carried:
        count = len(one.packets)
        message = one.message
        for number, packet in enumerate(one.packets, 1):
            part = f" {number}/{count}" if count > 1 else ""
            again = ", retransmitted" if message.is_again or packet.frame in one.again else ""
            kind = "reply" if message.is_reply else "call"
            yield packet, message, f"{names[message.row]} {message.side} {kind}{part}{again}"
