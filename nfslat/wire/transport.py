"""Two decoded captures and their matched connections -> what TCP sent again, lost and received twice, by direction.

With a capture at either end loss is counted, not guessed. What the sender's capture shows twice was sent again; what
the receiver's shows twice had arrived the first time. The rest of what was sent again was lost between the two capture
points, or the receiver's capture would show it twice, too (V. Paxson, "End-to-end Internet packet dynamics", 1997, does
the same packet by packet). Sequence numbers (RFC 9293 section 3.4) say which bytes are the same, so segments may be cut
up or put together on the way, and no clock is needed. A copy that the network or the capture makes says what the first
one says (native/src/copies.rs) and is none of this.

Neither capture shows that a segment was lost in front of the sender's capture point where no data were behind it: its
retransmission is the first that is seen of it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from enum import StrEnum
from typing import NamedTuple

import numpy as np

from nfslat.model.decoded import Decoded
from nfslat.model.details import Again, Tcp, TcpEvent
from nfslat.model.protocol import NULL
from nfslat.model.tables import I8, I32, I64, Bool, Matched, Ops
from nfslat.select import is_reverse

_NUMBERS = 1 << 32
# Captures hardly ever end at the same byte: what more than this share of the bytes is about is all of them.
_ALL = 0.99
_TABLE_CELLS = 1_000_000  # TCP connections between the same endpoints, the SYNs of none captured: more are not compared
_REPEATED, _LATE = TcpEvent.RETRANSMISSION, TcpEvent.OUT_OF_ORDER


class Way(StrEnum):
    """A direction of a connection, whichever end opened it or was seen first."""

    CALL = "call"  # to the NFS server
    REPLY = "reply"  # to the client


class Caveat(StrEnum):
    """Why a count may be wrong, and how."""

    SENDER_DROPS = "sender-drops"  # the sender's capture lost packets: more may have been sent again, and lost
    RECEIVER_DROPS = "receiver-drops"  # the receiver's capture lost packets: less may have been lost on the way
    PARTIAL = "partial"  # the captures have only some of the bytes in common: these are counted
    OTHER_NUMBERS = "other-numbers"  # sequence numbers do not meet (rewritten on the way): all of both is counted
    EVENTS_DROPPED = "events-dropped"  # more events than are kept: all of both is counted, in packets and bytes
    COPIES_UNKNOWN = "copies-unknown"  # IPv6 has no identification: a late copy without timestamps looks sent again


class Amount(NamedTuple):
    """Data of one kind at one capture point."""

    packets: int  # as they were captured: offload shows many segments as one
    segments: int | None  # on the wire, if each packet's bytes were cut by the MSS; None where no SYN showed it
    bytes: int  # of payload, of that kind only


class Delivery(NamedTuple):
    """One direction of a TCP connection, all its reconnects, as the captures at its two ends show it.

    ``lost - surplus`` is ``sent_again - arrived_again`` in bytes, and one of the two is 0. In segments, too, but where
    the two sides show the same bytes in other packets: then as few as the bytes need, and none where they are none.
    """

    server_conn: int  # row of the server's connections
    client_conn: int  # row of the client's
    way: Way
    bytes: int  # of payload that both captures know of, each byte counted once
    sent_again: Amount  # at the sender: bytes that were seen there before
    sent_late: Amount  # at the sender, but behind later data: lost in front of the capture point, and sent again
    arrived_again: Amount  # at the receiver: bytes that had arrived before, so that they were sent again for nothing
    arrived_late: Amount  # at the receiver: bytes that fill holes, having been lost or overtaken
    lost_bytes: int  # between the capture points
    lost_segments: int | None  # None as in `Amount`
    surplus_bytes: int  # seen twice at the receiver and once at the sender, whose capture may have missed one
    surplus_segments: int | None
    sent_copies: int  # packets, with data or without, that are in the sender's capture twice
    arrived_copies: int  # the same at the receiver
    arrived_packets: int  # all that the receiver's capture has, copies left out
    sent_gaps: tuple[int, int]  # ranges of data that were acknowledged, but are not in the sender's capture, and bytes
    arrived_gaps: tuple[int, int]  # the same of the receiver's
    segment_size: int | None  # the most bytes that a segment had as it was sent; None where no SYN showed it
    caveats: frozenset[Caveat]

    @property
    def doubled(self) -> int:
        """Packets that the network doubled; where the receiver's capture has most of them twice (two interfaces, a
        mirror port), the capture did, and it cannot be told."""
        if self.arrived_copies * 2 > self.arrived_packets:
            return 0
        return max(self.arrived_copies - self.sent_copies, 0)

    @property
    def loss(self) -> float:
        """Share of the bytes sent, those that were sent again included, that was lost between the capture points."""
        return self.lost_bytes / max(self.bytes + self.sent_again.bytes, 1)


class Hits(NamedTuple):
    """Which matched ops loss or reordering touched: masks as long as `Matched`."""

    call: Bool  # bytes of the call were sent again
    reply: Bool
    call_overtaken: (
        Bool  # bytes of the call filled a hole at the receiver, and neither side shows that it was sent again
    )
    reply_overtaken: Bool


def deliveries(server: Decoded, client: Decoded, connections: Mapping[int, int]) -> tuple[Delivery, ...] | None:
    """Both directions of each TCP connection in `connections` (server connection row -> client connection row).

    A direction in which one of the captures has no data is left out, for nothing can be said of it. None where a side
    was decoded by an engine that does not say what TCP did.
    """
    if not (knows_tcp(server) and knows_tcp(client)):
        return None
    at_server, at_client = _Side(server), _Side(client)
    ways_s, ways_c = ways(server.ops), ways(client.ops)
    out = []
    for s, c in sorted(connections.items()):
        ends_s, ends_c = server.ops.connections[s], client.ops.connections[c]
        way_s, way_c = int(ways_s[s]), int(ways_c[c])
        if ends_s.key == ends_c.key:
            way_s = way_c if ends_s.source(0) == ends_c.source(0) else 1 - way_c
        for way, sender, sent, receiver, arrived in (
            (Way.CALL, at_client, at_client.rows(c, way_c), at_server, at_server.rows(s, way_s)),
            (Way.REPLY, at_server, at_server.rows(s, 1 - way_s), at_client, at_client.rows(c, 1 - way_c)),
        ):
            if sent and arrived:
                is_ipv6 = ":" in ends_s.addr_a + ends_c.addr_a
                out.append(_delivery((s, c), way, sender, sent, receiver, arrived, is_ipv6=is_ipv6))
    return tuple(out)


def hit(server: Decoded, client: Decoded, matched: Matched) -> Hits | None:
    """Which of the matched ops TCP's loss recovery touched, by the `Resent` rows of both sides; None as `deliveries`.

    Sent again is what either side shows twice, and what the sender's shows late: on its host nothing is overtaken. It
    may have been for nothing, and of many messages in flight the decoder remembers the last 64 only.
    """
    if not (knows_tcp(server) and knows_tcp(client)):
        return None
    of_server, of_client = (side.ops.spread(is_reverse(side.ops)) for side in (server, client))
    reverse = _of_rows(of_server, matched.server) | _of_rows(of_client, matched.client)
    masks = []
    for is_reply in (False, True):
        again_s, late_s = (_touched(server, kind, matched.server, is_reply=is_reply) for kind in Again)
        again_c, late_c = (_touched(client, kind, matched.client, is_reply=is_reply) for kind in Again)
        from_server = reverse ^ is_reply
        again: Bool = again_s | again_c | np.where(from_server, late_s, late_c)
        overtaken: Bool = np.where(from_server, late_c, late_s) & ~again
        masks += [again, overtaken]
    return Hits(call=masks[0], reply=masks[2], call_overtaken=masks[1], reply_overtaken=masks[3])


def knows_tcp(side: Decoded) -> bool:
    """Does the engine that decoded a side say what TCP did there? (`nfslat.model.details`)"""
    return len(side.details.tcp) > 0 or all(ends.transport != "tcp" for ends in side.ops.connections)


def _touched(side: Decoded, kind: Again, rows: I32, *, is_reply: bool) -> Bool:
    resent = side.details.resent
    out = np.zeros(len(side.ops), dtype=np.bool_)
    out[resent.op[(resent.kind == kind) & (resent.is_reply == is_reply)]] = True
    return _of_rows(out, rows)


def _of_rows(mask: Bool, rows: I32) -> Bool:
    """The same as `mask[rows]`, and far sooner where it masks nothing, as on most networks."""
    return mask[rows] if mask.any() else np.zeros(len(rows), dtype=np.bool_)


def ways(ops: Ops) -> I64:
    """For each connection the direction that leads to the NFS server: that of the calls, unless all are callbacks."""
    c, reverse = ops.classes, is_reverse(ops)
    of_calls = np.zeros((len(ops.connections), 2), dtype=np.int64)
    np.add.at(of_calls, (c.conn[~reverse], c.direction[~reverse]), c.count[~reverse])
    of_callbacks = np.zeros_like(of_calls)
    np.add.at(of_callbacks, (c.conn[reverse], 1 - c.direction[reverse]), c.count[reverse])
    ways = np.where(of_calls.any(axis=1), of_calls.argmax(axis=1), of_callbacks.argmax(axis=1))
    return np.asarray(ways, dtype=np.int64)


class _Part(NamedTuple):
    """A stretch of what a row of `Tcp` is about, in bytes from its first one; `segment_size` as far as it is known."""

    row: int
    begin: int
    end: int
    segment_size: int | None


class _Side:
    """What TCP did at one side."""

    def __init__(self, side: Decoded) -> None:
        self.tcp, events = side.details.tcp, side.details.events
        self.lost_packets = side.lost_ranges > 0 or side.interface_drops > 0
        self.lost_events = side.details.events_dropped > 0
        self.segment_sizes = _segment_sizes(self.tcp)
        self._rows: dict[tuple[int, int], list[int]] = {}
        for row in np.flatnonzero(self.tcp.seq_span > 0).tolist():
            key = int(self.tcp.conn[row]), int(self.tcp.direction[row])
            self._rows.setdefault(key, []).append(row)
        rows = _keys(self.tcp.conn, self.tcp.reconnect, self.tcp.direction)
        self._events = {}
        for kind in (_REPEATED, _LATE):
            of_kind = events.take(events.kind == kind)
            keys = _keys(of_kind.conn, of_kind.reconnect, of_kind.direction)
            order = np.argsort(keys, kind="stable")
            begin, end = np.searchsorted(keys[order], rows, "left"), np.searchsorted(keys[order], rows, "right")
            self._events[kind] = of_kind.offset[order], of_kind.value[order], begin, end

    def rows(self, conn: int, direction: int) -> list[int]:
        """Rows of `tcp` with data in one direction of a connection."""
        return self._rows.get((conn, direction), [])

    def amount(self, kind: TcpEvent, parts: Iterable[_Part]) -> Amount:
        """What the events of one kind within `parts` are about."""
        packets = size = 0
        segments: int | None = 0
        for part in parts:
            offset, value, begin, end = self._events[kind]
            here = slice(begin[part.row], end[part.row])
            chosen = value[here][(offset[here] >= part.begin) & (offset[here] < part.end)]
            packets, size = packets + len(chosen), size + int(chosen.sum())
            if part.segment_size is None or segments is None:
                segments = None if len(chosen) else segments
            else:
                segments += int((-(-chosen // part.segment_size)).sum())
        return Amount(packets, segments, size)

    def amount_in_all(self, kind: TcpEvent, rows: Sequence[int]) -> Amount:
        """The same from the counters, which are complete where events are not."""
        packets, size = {_REPEATED: ("retransmissions", "retransmitted_bytes"), _LATE: ("out_of_order", "late_bytes")}[
            kind
        ]
        return Amount(self.total(packets, rows), None, self.total(size, rows))

    def total(self, column: str, rows: Sequence[int]) -> int:
        """The sum of a column of `tcp` over some of its rows."""
        return int(getattr(self.tcp, column)[list(rows)].sum())


def _keys(conn: I64 | I32, reconnect: I64 | I32, direction: I64 | I8) -> I64:
    """Numbers in the order of the rows of `Tcp`."""
    return np.asarray(conn.astype(np.int64) << 33 | reconnect.astype(np.int64) << 1 | direction, dtype=np.int64)


def _segment_sizes(tcp: Tcp) -> list[int | None]:
    """For each row the smaller MSS in its connection's SYNs: what neither end exceeds (RFC 9293 section 3.7.1)."""
    sizes: dict[tuple[int, int], int] = {}
    connections = list(zip(tcp.conn.tolist(), tcp.reconnect.tolist(), strict=True))
    for key, mss in zip(connections, tcp.mss.tolist(), strict=True):
        if mss not in (NULL, 0):
            sizes[key] = min(mss, sizes.get(key, mss))
    return [sizes.get(key) for key in connections]


def _delivery(
    conns: tuple[int, int],
    way: Way,
    sender: _Side,
    sent: list[int],
    receiver: _Side,
    arrived: list[int],
    *,
    is_ipv6: bool,
) -> Delivery:
    sent_parts, arrived_parts = _common(sender, sent, receiver, arrived)
    in_common = sum(part.end - part.begin for part in sent_parts)
    spans = sender.total("seq_span", sent), receiver.total("seq_span", arrived)
    caveats = set()
    if not sent_parts:
        caveats.add(Caveat.OTHER_NUMBERS)
        in_common = min(spans)
        sent_parts, arrived_parts = _whole(sender, sent), _whole(receiver, arrived)
    elif in_common < _ALL * max(spans):
        caveats.add(Caveat.PARTIAL)
    if sender.lost_events or receiver.lost_events:
        caveats.add(Caveat.EVENTS_DROPPED)
        sent_again, sent_late = (sender.amount_in_all(kind, sent) for kind in (_REPEATED, _LATE))
        arrived_again, arrived_late = (receiver.amount_in_all(kind, arrived) for kind in (_REPEATED, _LATE))
    else:
        sent_again, sent_late = (sender.amount(kind, sent_parts) for kind in (_REPEATED, _LATE))
        arrived_again, arrived_late = (receiver.amount(kind, arrived_parts) for kind in (_REPEATED, _LATE))
    if sender.lost_packets:
        caveats.add(Caveat.SENDER_DROPS)
    if receiver.lost_packets:
        caveats.add(Caveat.RECEIVER_DROPS)
    if is_ipv6 and sent_again.packets + arrived_again.packets:
        caveats.add(Caveat.COPIES_UNKNOWN)
    missing = sent_again.bytes - arrived_again.bytes
    segment_size = max((part.segment_size for part in sent_parts if part.segment_size is not None), default=None)
    segments = missing_segments(sent_again, arrived_again, segment_size)
    return Delivery(
        server_conn=conns[0],
        client_conn=conns[1],
        way=way,
        bytes=in_common,
        sent_again=sent_again,
        sent_late=sent_late,
        arrived_again=arrived_again,
        arrived_late=arrived_late,
        lost_bytes=max(missing, 0),
        lost_segments=None if segments is None else max(segments, 0),
        surplus_bytes=max(-missing, 0),
        surplus_segments=None if segments is None else max(-segments, 0),
        sent_copies=sender.total("duplicates", sent),
        arrived_copies=receiver.total("duplicates", arrived),
        arrived_packets=receiver.total("packets", arrived),
        sent_gaps=(sender.total("lost_ranges", sent), sender.total("lost_bytes", sent)),
        arrived_gaps=(receiver.total("lost_ranges", arrived), receiver.total("lost_bytes", arrived)),
        segment_size=segment_size,
        caveats=frozenset(caveats),
    )


def missing_segments(sent_again: Amount, arrived_again: Amount, segment_size: int | None) -> int | None:
    """Segments that were sent again less those that arrived again: none without bytes, and enough for those."""
    missing = sent_again.bytes - arrived_again.bytes
    if not missing:
        return 0
    if sent_again.segments is None or arrived_again.segments is None or segment_size is None:
        return None
    # Segments may be put together on the way, or cut up: their bytes stay the same.
    sign = 1 if missing > 0 else -1
    return sign * max(sign * (sent_again.segments - arrived_again.segments), -(-abs(missing) // segment_size))


def _whole(side: _Side, rows: Iterable[int]) -> list[_Part]:
    return [_Part(row, 0, int(side.tcp.seq_span[row]), side.segment_sizes[row]) for row in rows]


def _common(sender: _Side, sent: list[int], receiver: _Side, arrived: list[int]) -> tuple[list[_Part], list[_Part]]:
    """The bytes that both sides know of, part by part, as either side counts them."""
    of_sender, of_receiver = [], []
    for one, other in _same(sender.tcp, sent, receiver.tcp, arrived):
        shift = int(apart(receiver.tcp.first_seq[other], sender.tcp.first_seq[one]))
        begin, end = max(shift, 0), min(int(sender.tcp.seq_span[one]), shift + int(receiver.tcp.seq_span[other]))
        size = sender.segment_sizes[one] or receiver.segment_sizes[other]
        of_sender.append(_Part(one, begin, end, size))
        of_receiver.append(_Part(other, begin - shift, end - shift, size))
    return of_sender, of_receiver


def _same(sender: Tcp, sent: list[int], receiver: Tcp, arrived: list[int]) -> list[tuple[int, int]]:
    """Rows of the two sides that are about the same TCP connection: they begin with the same byte, or share most."""
    by_first = {int(receiver.first_seq[row]): row for row in arrived}
    same = [(row, by_first.pop(first)) for row in sent if (first := int(sender.first_seq[row])) in by_first]
    done_s, done_r = {one for one, _ in same}, {other for _, other in same}
    one = np.array([row for row in sent if row not in done_s], dtype=np.int64)
    other = np.array([row for row in arrived if row not in done_r], dtype=np.int64)
    if not 0 < len(one) * len(other) <= _TABLE_CELLS:
        return same
    shift = apart(receiver.first_seq[None, other], sender.first_seq[one, None])
    end = np.minimum(sender.seq_span[one, None], shift + receiver.seq_span[None, other])
    shared = end - np.maximum(shift, 0)
    for cell in np.argsort(-shared, axis=None, kind="stable").tolist():
        row, column = divmod(cell, len(other))
        if shared[row, column] <= 0:
            break
        if one[row] not in done_s and other[column] not in done_r:
            done_s.add(int(one[row]))
            done_r.add(int(other[column]))
            same.append((int(one[row]), int(other[column])))
    return same


def apart(number: I64, other: I64) -> I64:
    """Bytes from one sequence number on to another: the shorter way round (RFC 9293 section 3.4)."""
    return np.asarray((number - other + _NUMBERS // 2) % _NUMBERS - _NUMBERS // 2, dtype=np.int64)
