"""TCP conversations written by hand, so that a person can check them: packets in, a `Trace` or a pcap file out.

Times are milliseconds at the capture, ">" is from the client (endpoint a), "<" from the server, positions are bytes
from the first one of their direction:

    line = Timeline()
    line.handshake(0, rtt_ms=1)
    line.send(10, ">", 100)
    line.ack(210, "<")
    line.send(211, "<", 1460)
    line.trace()
    line.write(path)

An ACK covers what the other side has sent before, at this capture, without gaps; any field can be given. `trace` does
in plain steps what the decoder does (tests/tcp/test_tcp_reading.py holds the two against each other).
"""

from __future__ import annotations

import ipaddress
import struct
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np
from wire import EPOCH_NS, Seen, write_pcap

from nfslat.decode.capture import Source
from nfslat.model.protocol import NULL, NULL32
from nfslat.model.tables import Connection
from nfslat.tcp.packets import ACK, FIN, PSH, RST, SYN, AckKind, Conversation, Kind, Packets, Trace, Way

MS = 1_000_000
_WAYS = (">", "<")


@dataclass(frozen=True)
class Line:
    """One packet; `seq` and `ack` are positions, -1 of a SYN."""

    t_ns: int
    way: str
    seq: int
    size: int
    ack: int | None
    window: int
    flags: int
    head: bytes = b""
    sack: tuple[tuple[int, int], ...] = ()
    ip_id: int = 0
    options: bytes = b""  # behind those that a SYN, or SACK, has


@dataclass
class _Side:
    """What a capture has shown of one direction so far; positions of bytes."""

    low: int | None = None  # the first one seen, or that would have been next
    high: int = 0  # behind the last one seen
    next: int = 0  # the same, but a FIN counts, too
    holes: list[tuple[int, int]] = field(default_factory=list)  # what was not seen in between
    acked: int | None = None  # the other side has everything below
    window: int | None = None  # as it announced it last, but in a SYN
    last: Kind = Kind.NONE
    probed: bool = False  # the next byte went out as a probe of a closed window
    is_begun: bool = False  # it showed a SYN or payload
    duplicates: int = 0  # ACKs that ask for the byte at `acked`
    fin: int | None = None

    def takes(self, begin: int, end: int) -> Kind:
        """The next packet with payload."""
        if begin == self.high:
            kind = Kind.NEW
        elif begin > self.high:
            kind = Kind.AHEAD
            self.holes.append((self.high, begin))
        else:
            if self.low is not None and begin < self.low:  # from before the capture began
                self.holes.insert(0, (begin, self.low))
                self.low = begin
            kind = Kind.RETRANSMISSION
            if any(a < end and begin < b for a, b in self.holes):
                kind = Kind.OUT_OF_ORDER
                cut = [piece for a, b in self.holes for piece in ((a, min(b, begin)), (max(a, end), b))]
                self.holes = [(a, b) for a, b in cut if a < b]
        self.high = max(self.high, end)
        if kind in (Kind.NEW, Kind.AHEAD) and self.fin is not None and end <= self.fin:
            kind = Kind.OUT_OF_ORDER
        if kind == Kind.OUT_OF_ORDER and self.duplicates >= 3 and begin == self.acked:
            kind = Kind.RETRANSMISSION
        return kind

    def is_acked(self, ack: int) -> None:
        """The other side has everything below `ack`."""
        if self.acked is not None and ack <= self.acked:
            return
        if ack == self.high + 1 and self.probed:
            self.takes(self.high, ack)
        elif ack == self.high + 1 and self.low is not None and not self.is_begun and self.next == self.high:
            self.low = self.high = self.next = ack  # what was seen first was a keep-alive
        self.acked, self.duplicates = ack, 0


@dataclass
class Timeline:
    """A conversation under construction. `scale` None: its SYNs have no window scale option."""

    client: tuple[str, int] = ("10.0.0.1", 40_000)
    server: tuple[str, int] = ("10.0.0.2", 1521)
    mss: int = 1460
    scale: int | None = 7
    isn: tuple[int, int] = (1000, 5000)  # sequence numbers of position 0
    lines: list[Line] = field(default_factory=list)
    windows: dict[str, int] = field(default_factory=lambda: {">": 0xFFFF, "<": 0xFFFF})  # of the next packets
    next: dict[str, int] = field(default_factory=lambda: {">": 0, "<": 0})
    ids: dict[str, int] = field(default_factory=lambda: {">": 0x1000, "<": 0x8000})

    def handshake(self, ms: float, *, rtt_ms: float = 0.2) -> None:
        """SYN, SYN-ACK, ACK."""
        self.add(ms, ">", -1, 0, None, SYN)
        self.add(ms + rtt_ms / 2, "<", -1, 0, 0, SYN | ACK)
        self.add(ms + rtt_ms, ">", 0, 0, 0, ACK)

    def send(
        self,
        ms: float,
        way: str,
        size: int,
        *,
        seq: int | None = None,
        ack: int | None = None,
        head: bytes = b"",
        flags: int = ACK | PSH,
    ) -> Line:
        """A packet with payload; the next bytes, or those from `seq` on. The payload begins with `head`, then zeros."""
        at = self.next[way] if seq is None else seq
        self.next[way] = max(self.next[way], at + size)
        return self.add(ms, way, at, size, self._covered(ms, way) if ack is None else ack, flags, head=head)

    def burst(self, ms: float, way: str, size: int, *, apart_ms: float = 0.01) -> float:
        """`size` bytes in segments of the MSS; returns when the last one went by."""
        while size > 0:
            self.send(ms, way, min(size, self.mss))
            size -= self.mss
            ms += apart_ms
        return ms - apart_ms

    def ack(
        self,
        ms: float,
        way: str,
        *,
        ack: int | None = None,
        sack: tuple[tuple[int, int], ...] = (),
        window: int | None = None,
    ) -> Line:
        """A packet without payload."""
        if window is not None:
            self.windows[way] = window
        covered = self._covered(ms, way) if ack is None else ack
        return self.add(ms, way, self.next[way], 0, covered, ACK, sack=sack)

    def fin(self, ms: float, way: str) -> Line:
        return self.add(ms, way, self.next[way], 0, self._covered(ms, way), ACK | FIN)

    def rst(self, ms: float, way: str) -> Line:
        return self.add(ms, way, self.next[way], 0, None, RST)

    def again(self, ms: float, line: Line) -> Line:
        """The network or the capture doubles a packet: the same IP identification."""
        copy = replace(line, t_ns=round(ms * MS))
        self.lines.append(copy)
        return copy

    def add(
        self,
        ms: float,
        way: str,
        seq: int,
        size: int,
        ack: int | None,
        flags: int,
        *,
        head: bytes = b"",
        sack: tuple[tuple[int, int], ...] = (),
    ) -> Line:
        """Any packet."""
        self.ids[way] += 1
        window = min(self.windows[way], 0xFFFF)
        line = Line(round(ms * MS), way, seq, size, ack, window, flags, head, sack, self.ids[way])
        self.lines.append(line)
        return line

    def _covered(self, ms: float, way: str) -> int:
        other = sorted((one.seq, one.seq + one.size) for one in self.lines if one.way != way and one.t_ns <= ms * MS)
        end = 0
        for begin, until in other:
            end = max(end, until) if begin <= end else end
        return end

    def in_order(self, *, without: Iterable[Line] = ()) -> list[Line]:
        """What a capture shows."""
        gone = {id(line) for line in without}
        return sorted((line for line in self.lines if id(line) not in gone), key=lambda line: line.t_ns)

    def write(
        self,
        path: Path,
        *,
        there_ms: float = 0,
        back_ms: float = 0,
        clock_ms: float = 0,
        without: Iterable[Line] = (),
        snaplen: int = 262_144,
    ) -> Path:
        """A pcap file with nanoseconds; packets from the client are `there_ms` later, those to it `back_ms`."""
        later = {">": there_ms, "<": back_ms}
        seen = [
            Seen(one.t_ns + round((later[line.way] + clock_ms) * MS), one.frame)
            for one, line in zip(self.seen(without=without), self.in_order(without=without), strict=True)
        ]
        return write_pcap(path, seen, nano=True, snaplen=snaplen)

    def seen(self, *, without: Iterable[Line] = ()) -> list[Seen]:
        """The frames of a capture, for `write_pcap`, which puts several conversations into one file."""
        return [Seen(EPOCH_NS + line.t_ns, self._frame(line)) for line in self.in_order(without=without)]

    def _frame(self, line: Line) -> bytes:
        ends = (self.client, self.server) if line.way == ">" else (self.server, self.client)
        at = _WAYS.index(line.way)
        seq = (self.isn[at] + line.seq) % (1 << 32)
        ack = 0 if line.ack is None else (self.isn[1 - at] + line.ack) % (1 << 32)
        options = b""
        if line.flags & SYN:
            options += struct.pack(">BBH", 2, 4, self.mss) + b"\x04\x02\x01\x01"
            options += b"" if self.scale is None else struct.pack(">BBBB", 3, 3, self.scale, 1)
        if line.sack:
            blocks = b"".join(
                struct.pack(">II", *((self.isn[1 - at] + edge) % (1 << 32) for edge in b)) for b in line.sack
            )
            options += struct.pack(">BBBB", 1, 1, 5, 2 + len(blocks)) + blocks
        options += line.options
        options += bytes(-len(options) % 4)
        words = 5 + len(options) // 4
        tcp = struct.pack(">HHIIBBHHH", ends[0][1], ends[1][1], seq, ack, words << 4, line.flags, line.window, 0, 0)
        payload = line.head[: line.size].ljust(line.size, b"\0")
        segment = tcp + options + payload
        source, target = (ipaddress.ip_address(host) for host, _ in ends)
        if source.version == 6:
            ip = struct.pack(">IHBB", 6 << 28, len(segment), 6, 64)
        else:
            ip = struct.pack(">BBHHHBBH", 0x45, 0, 20 + len(segment), line.ip_id & 0xFFFF, 0x4000, 64, 6, 0)
        kind = struct.pack(">H", 0x86DD if source.version == 6 else 0x0800)
        return bytes.fromhex("020000000001 020000000002") + kind + ip + source.packed + target.packed + segment

    def trace(self, *, without: Iterable[Line] = ()) -> Trace:
        """What the decoder makes of it, but for copies and what counts the bytes of a direction."""
        lines = self.in_order(without=without)
        order = (1, 0) if lines[0].way == "<" else (0, 1)  # endpoint a sends first
        ends = [(self.client, self.server)[at] for at in order]
        begin = self._begin(lines)
        shows_syn = [any(line.flags & SYN and line.way == way for line in lines) for way in _WAYS]
        no_scale = 0 if self.scale is None and any(shows_syn) else None
        ways = [
            Way(
                first_seq=NULL if begin[way] is None else (self.isn[at] + (begin[way] or 0)) % (1 << 32),
                saw_syn=shows_syn[at],
                mss=self.mss if shows_syn[at] else None,
                window_scale=self.scale if all(shows_syn) and self.scale is not None else no_scale,
                timestamps=False,
                head=b"",
                copies=0,
                lost_bytes=0,
            )
            for at, way in enumerate(_WAYS)
        ]
        columns: dict[str, list[int]] = {name: [] for name in Packets.columns()}
        sides = {way: _Side() for way in _WAYS}
        is_v4 = ":" not in self.client[0]
        for frame, given in enumerate(lines, start=1):
            way, other = given.way, "<" if given.way == ">" else ">"
            seq, ack = given.seq - (begin[way] or 0), None if given.ack is None else given.ack - (begin[other] or 0)
            line = replace(given, seq=seq, ack=ack)
            kind = self._kind(line, sides[way], is_closed=sides[other].window == 0)
            ack_kind = self._ack_kind(line, sides[way], sides[other], kind)
            sides[way].last = kind
            row = {
                "conversation": 0, "direction": order[_WAYS.index(way)], "frame": frame,
                "t_ns": EPOCH_NS + line.t_ns, "seq": line.seq, "size": line.size,
                "ack": NULL if line.ack is None else line.ack, "window": line.window, "flags": line.flags,
                "kind": kind, "ack_kind": ack_kind, "sacks": len(line.sack),
                "is_dsack": int(self._tells_of_copies(given)), "ip_id": line.ip_id & 0xFFFF if is_v4 else NULL,
                "ts_val": NULL32, "head": int.from_bytes(line.head[: min(line.size, 8)].ljust(8, b"\0"), "big"),
                "head_size": min(line.size, 8),
            }  # fmt: skip
            for name, value in row.items():
                columns[name].append(value)
        return Trace(
            source=Source("made by hand", ()),
            packets=Packets.from_columns(columns | {"head": np.array(columns["head"], dtype=np.uint64)}),
            places=np.arange(len(lines), dtype=np.int32),
            conversations=(Conversation(Connection("tcp", *ends[0], *ends[1]), 0, (ways[order[0]], ways[order[1]])),),
            total_packets=len(lines),
            other_packets=0,
            skipped_packets=0,
            copies=0,
            damaged=0,
            misdated=0,
            interface_drops=0,
            first_ns=EPOCH_NS + lines[0].t_ns,
            last_ns=EPOCH_NS + lines[-1].t_ns,
            snaplen=None,
        )

    def _begin(self, lines: list[Line]) -> dict[str, int | None]:
        """Where the positions of a capture begin: at what it shows first of a direction, a byte of it or its ACK."""
        begin: dict[str, int | None] = {">": None, "<": None}
        for line in lines:
            other = "<" if line.way == ">" else ">"
            if begin[line.way] is None:
                begin[line.way] = line.seq + bool(line.flags & SYN)
            if begin[other] is None:
                begin[other] = line.ack
        return begin

    def _tells_of_copies(self, line: Line) -> bool:
        first, *rest = line.sack or [(0, 0)]
        return bool(line.sack) and (
            first[0] < (line.ack or 0) or any(a <= first[0] and first[1] <= b for a, b in rest[:1])
        )

    def _kind(self, line: Line, own: _Side, *, is_closed: bool) -> Kind:
        begin = line.seq + bool(line.flags & SYN)
        is_first = own.low is None
        if is_first and not line.flags & RST:
            own.low = own.high = own.next = begin
        own.is_begun |= bool(line.flags & SYN)
        kind = Kind.NONE
        is_plain = not line.flags & (SYN | FIN | RST)
        is_acked = own.acked is not None and own.acked > begin
        if line.size <= 1 and is_plain and not is_first and begin + 1 == own.next and is_acked:
            kind = Kind.KEEP_ALIVE
        elif line.size == 1 and is_closed and begin == own.high and not is_first and is_plain:
            own.probed = True
            kind = Kind.ZERO_WINDOW_PROBE
        elif line.size and not line.flags & RST:
            own.probed, own.is_begun = False, True
            kind = own.takes(begin, begin + line.size)
        own.next = max(own.next, own.high)
        if line.flags & FIN:
            own.next = max(own.next, begin + line.size + 1)
            own.fin = begin + line.size if not line.flags & RST else own.fin
        return kind

    def _ack_kind(self, line: Line, own: _Side, other: _Side, kind: Kind) -> AckKind:
        if line.ack is None or line.flags & RST:
            return AckKind.NONE
        if line.flags & SYN:
            other.is_acked(line.ack)
            return AckKind.NONE
        if other.acked is not None and line.ack < other.acked:
            return AckKind.NONE
        before, own.window = own.window, line.window
        if other.acked is None or line.ack > other.acked:
            other.is_acked(line.ack)
            return AckKind.ADVANCES
        if line.size or line.flags & FIN or before is None:
            return AckKind.NONE
        if before == line.window and kind == Kind.NONE and other.last in (Kind.KEEP_ALIVE, Kind.ZERO_WINDOW_PROBE):
            return AckKind.KEEP_ALIVE
        if before != line.window:
            return AckKind.WINDOW_UPDATE
        if kind != Kind.NONE or line.ack >= other.high:
            return AckKind.NONE
        other.duplicates += 1
        return AckKind.DUPLICATE
