"""Messages of one side and the packets around them -> the packets that carry them, and what each of them carries."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence

from msgspec import Struct, field

from nfslat.packets.extract.messages import Message
from nfslat.packets.extract.packets import Packet

_LAST_FRAGMENT = 1 << 31  # of a record mark, RFC 5531 section 11
_TAIL = 32  # bytes in front of TCP's payload in which two packets of one content differ, but for copies


class Carried(Struct, eq=False):
    """The packets of one message, in capture order; `again` are the numbers of those that TCP sent again."""

    message: Message
    packets: list[Packet] = []
    again: set[int] = field(default_factory=set)


class _Open(Struct, eq=False):
    """A message whose packets are being looked for."""

    carried: Carried
    early: list[Packet] = []  # that came before the one with its first byte
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


def choose(
    messages: Sequence[Message], again: Mapping[int, Sequence[tuple[int, bool]]], packets: Iterable[Packet]
) -> list[Carried]:
    """What carries each of `messages`; those come, like `packets`, in capture order.

    `again` are segments that TCP sent again (`messages.segments_again`). A message without packets has none.
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
