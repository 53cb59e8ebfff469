"""The packets of TCP conversations as a table, what their SYNs agreed on, and what they begin with.

Same conventions as `model.tables`. Positions are bytes from the first one of their direction (0 is the byte behind the
SYN, or the first one seen where no SYN was); sequence numbers wrap, positions do not, and are negative in front of it.
"""

from __future__ import annotations

import dataclasses
from enum import IntEnum
from functools import cached_property

import numpy as np
from msgspec import field

from nfslat.decode.capture import Source
from nfslat.model.protocol import NULL
from nfslat.model.record import Record
from nfslat.model.tables import I8, I16, I32, I64, U8, U32, U64, Connection, Table
from nfslat.tcp.mptcp import Flow, Level, Member, Signals, Subflow, connections, first_byte, level

# Bits of `Packets.flags` (RFC 9293 section 3.1).
FIN, SYN, RST, PSH, ACK = 0x01, 0x02, 0x04, 0x08, 0x10


class Kind(IntEnum):
    """What the payload of a packet is, by what was seen of its direction before."""

    NONE = 0  # no payload, or that of a RST
    NEW = 1
    AHEAD = 2  # new, with a hole in front
    RETRANSMISSION = 3  # holds bytes that were seen before, or those that three duplicate ACKs asked for (RFC 5681)
    OUT_OF_ORDER = 4  # fills a hole, or lies in front of all that was seen, or of a FIN, whatever else it repeats
    KEEP_ALIVE = 5  # the last byte sent, which is acknowledged, or only its number (RFC 9293 section 3.8.4)
    ZERO_WINDOW_PROBE = 6  # one byte, the next one, into a closed window (RFC 9293 section 3.8.6.1); not taken for sent
    # until it is acknowledged. Linux probes with a KEEP_ALIVE instead, which has no payload.


class AckKind(IntEnum):
    """What a packet says to the other direction's sender. Of a SYN or RST, and of one that was overtaken: NONE."""

    NONE = 0  # no ACK flag, or nothing new (same acknowledgement, same window, or beside payload)
    ADVANCES = 1  # covers more than any packet before
    DUPLICATE = 2  # RFC 5681 section 2: no payload, no SYN or FIN, data under way, same number and window as before
    WINDOW_UPDATE = 3  # no payload, covers nothing more, another window than before
    KEEP_ALIVE = 4  # answers a keep-alive or a probe of a closed window


class Packets(Table):
    """One row a TCP packet, in capture order; one that was captured twice has one row."""

    conversation: I32  # row of `Trace.conversations`
    direction: I8  # 0: from its endpoint a to b
    frame: I32
    t_ns: I64
    seq: I64  # position of the first byte
    size: I32  # bytes of payload, as they were on the wire
    ack: I64  # position in the other direction; NULL without the flag
    window: I32  # as in the header, not scaled
    flags: U8
    kind: I8  # `Kind`
    ack_kind: I8  # `AckKind`
    sacks: I8  # SACK blocks (RFC 2018)
    is_dsack: I8  # 1: the first of them tells of bytes that came twice (RFC 2883)
    ip_id: I32  # IPv4 identification; NULL over IPv6
    ts_val: U32  # TSval of the timestamps option (RFC 7323); NULL32 without
    head: U64  # the first 8 bytes of the payload, big-endian, zeros where there are fewer
    head_size: I16  # how many of these were captured: 0 to 8


class Way(Record):
    """One direction of a conversation; its sender shifts its own windows by `window_scale`. Options are its SYN's."""

    first_seq: int  # sequence number of position 0; NULL where there is neither a packet of it nor an ACK
    saw_syn: bool
    mss: int | None
    window_scale: int | None  # None: no SYN seen; 0: seen, without the option or declined by the other side's SYN
    timestamps: bool
    head: bytes  # what the stream begins with, up to 4096 bytes, as far as it was captured without a gap
    copies: int  # packets captured twice
    lost_bytes: int  # acknowledged, never captured


class Conversation(Record):
    """A TCP connection: one between a SYN and the next one on the same four-tuple (`reconnect` counts those before)."""

    ends: Connection
    reconnect: int
    ways: tuple[Way, Way]
    mptcp: Subflow | None = None  # both ends speak MPTCP (RFC 8684)
    # Of a part of a conversation: the shortest round trips to b and to a that all of it shows, ns (`floors.Floors`).
    floors_ns: tuple[int, int] | None = None

    def shift(self, direction: int) -> int | None:
        """By how many bits the windows in packets of `direction` are shifted (not those in SYNs); None: not known."""
        return self.ways[direction].window_scale


class Talk(Record):
    """One conversation with its packets, in capture order: what every analysis is about."""

    conversation: Conversation
    packets: Packets
    until_ns: int  # when the capture ended, or the next connection between the same ends began
    level: Level | None = None  # of a subflow of MPTCP


class Trace(Record, dict=True):
    """One capture, as far as TCP goes."""

    source: Source
    packets: Packets  # those of each conversation side by side
    places: I32  # of each of these in the capture
    conversations: tuple[Conversation, ...]
    total_packets: int  # in the capture
    other_packets: int  # not TCP, or cut in front of the end of the TCP header
    skipped_packets: int  # TCP, and not asked for (--port, --stream)
    copies: int  # TCP packets that were captured twice
    damaged: int  # TCP packets whose sequence number was spoilt, by their checksum
    misdated: int  # of `other_packets` those of interfaces whose times cannot be
    interface_drops: int
    first_ns: int  # of the capture
    last_ns: int
    snaplen: int | None
    damage: str = ""
    signals: Signals = field(default_factory=lambda: Signals.with_nulls(0))  # of MPTCP

    @cached_property
    def begins(self) -> I64:
        """Where the packets of each conversation begin, and where those of the last one end."""
        return np.searchsorted(self.packets.conversation, np.arange(len(self.conversations) + 1))

    def of(self, conversation: int) -> Packets:
        """The packets of the conversation in row `conversation`."""
        return self.packets.take(slice(*self.begins[conversation : conversation + 2].tolist()))

    def times_ns(self, first: int | None = None) -> I64:
        """When packets passed, in the capture's order; of the `first` ones alone."""
        rows = slice(None) if first is None else np.flatnonzero(self.places < first)
        places = self.places[rows]
        times_ns = np.empty(len(places), dtype=np.int64)
        times_ns[places] = self.packets.t_ns[rows]
        return times_ns

    def talk(self, conversation: int) -> Talk:
        """The conversation in row `conversation`."""
        until_ns = self._next_ns.get(conversation, self.last_ns)
        return Talk(self.conversations[conversation], self.of(conversation), until_ns, self._level(conversation))

    @cached_property
    def mptcp(self) -> list[list[Member]]:
        """The connections of MPTCP that are known, with their subflows."""
        return connections([one.mptcp for one in self.conversations])

    @cached_property
    def _member(self) -> dict[int, tuple[list[Member], Member]]:
        return {one.row: (members, one) for members in self.mptcp for one in members}

    def _level(self, conversation: int) -> Level | None:
        if self.conversations[conversation].mptcp is None:
            return None
        alone = Member(conversation, is_turned=False)
        members, own = self._member.get(conversation, ([alone], alone))
        first = self.conversations[members[0].row].mptcp
        keys = (None, None) if first is None else first.keys[:: -1 if own.is_turned else 1]
        version = 1 if first is None or first.version is None else first.version
        there, back = (None if key is None else first_byte(version, key) for key in keys)
        flows = [self._flow(one.row, one.is_turned != own.is_turned, (there, back)) for one in members]
        return level(flows, members.index(own))

    def _flow(self, conversation: int, is_turned: bool, first: tuple[int | None, int | None]) -> Flow:
        """The packets of a subflow; if it `is_turned`, with directions the other way round."""
        packets, one = self.of(conversation), self.conversations[conversation]
        begin, end = self.begins[conversation : conversation + 2]
        signals = self.signals.take(slice(*np.searchsorted(self.signals.row, [begin, end]).tolist()))
        shift = np.array([-1 if scale is None else scale for scale in (one.shift(0), one.shift(1))])[packets.direction]
        window = packets.window.astype(np.int64) << np.maximum(shift, 0)
        window[(shift < 0) & (window > 0)] = NULL
        there, back = one.ways[:: -1 if is_turned else 1]
        return Flow(
            direction=packets.direction ^ np.int8(is_turned),
            t_ns=packets.t_ns,
            frame=packets.frame,
            seq=packets.seq,
            size=packets.size,
            window=window,
            saw_syn=(there.saw_syn, back.saw_syn),
            signals=dataclasses.replace(signals, row=(signals.row - begin).astype(np.int32)),
            first=first,
        )

    @cached_property
    def _next_ns(self) -> dict[int, int]:
        """When the next connection between the ends of a conversation began, of those that one follows."""
        before: dict[object, int] = {}
        followed: dict[int, int] = {}
        for row, one in enumerate(self.conversations):
            if one.reconnect and one.ends.key in before:
                followed[before[one.ends.key]] = row
            before[one.ends.key] = row
        # None of those that were not asked for has packets here.
        begins = self.begins.tolist()
        return {
            row: int(self.packets.t_ns[begins[other]])
            for row, other in followed.items()
            if begins[other] < begins[other + 1]
        }

    def is_followed(self, conversation: int) -> bool:
        """Does another connection between the same ends follow?"""
        return conversation in self._next_ns
