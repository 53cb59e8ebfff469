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

import struct
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from pathlib import Path

from wire import EPOCH_NS, Seen, write_pcap

from nfslat.constants import NULL
from nfslat.decode.capture import Source
from nfslat.details import no_details
from nfslat.tables import Connection
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
            Seen(EPOCH_NS + line.t_ns + round((later[line.way] + clock_ms) * MS), self._frame(line))
            for line in self.in_order(without=without)
        ]
        return write_pcap(path, seen, nano=True, snaplen=snaplen)

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
        options += bytes(-len(options) % 4)
        words = 5 + len(options) // 4
        tcp = struct.pack(">HHIIBBHHH", ends[0][1], ends[1][1], seq, ack, words << 4, line.flags, line.window, 0, 0)
        payload = line.head[: line.size].ljust(line.size, b"\0")
        total = 20 + len(tcp) + len(options) + line.size
        source, target = (bytes(map(int, host.split("."))) for host, _ in ends)
        ip = struct.pack(">BBHHHBBH", 0x45, 0, total, line.ip_id & 0xFFFF, 0x4000, 64, 6, 0) + source + target
        return bytes.fromhex("020000000001 020000000002 0800") + ip + tcp + options + payload

    def trace(self, *, without: Iterable[Line] = ()) -> Trace:
        """What the decoder makes of it, but for copies and pauses."""
        lines = self.in_order(without=without)
        ends = Connection("tcp", *self.client, *self.server)
        saw = [any(line.flags & SYN and line.way == way for line in lines) for way in _WAYS]
        ways = tuple(
            Way(
                first_seq=isn,
                saw_syn=syn,
                mss=self.mss if syn else None,
                window_scale=None if not all(saw) else self.scale or 0,
                sack_permitted=syn,
                timestamps=False,
                head=b"",
                copies=0,
                lost_bytes=0,
            )
            for isn, syn in zip(self.isn, saw, strict=True)
        )
        columns: dict[str, list[int]] = {name: [] for name in Packets.columns()}
        high, covered, window = {">": 0, "<": 0}, {">": NULL, "<": NULL}, {">": NULL, "<": NULL}
        holes: dict[str, list[tuple[int, int]]] = {">": [], "<": []}
        for frame, line in enumerate(lines, start=1):
            kind, ack_kind = self._kinds(line, high, holes, covered, window)
            row = {
                "conversation": 0, "direction": _WAYS.index(line.way), "frame": frame, "t_ns": EPOCH_NS + line.t_ns,
                "seq": line.seq, "size": line.size, "ack": NULL if line.ack is None else line.ack,
                "window": line.window, "flags": line.flags, "kind": kind, "ack_kind": ack_kind,
                "sacks": len(line.sack), "is_dsack": int(bool(line.sack) and line.sack[0][0] < (line.ack or 0)),
                "ip_id": line.ip_id & 0xFFFF, "ts_val": 0xFFFFFFFF,
                "head": int.from_bytes(line.head[: min(line.size, 8)].ljust(8, b"\0"), "big"),
                "head_size": min(line.size, 8),
            }  # fmt: skip
            for name, value in row.items():
                columns[name].append(value)
        return Trace(
            source=Source("made by hand", ()),
            packets=Packets.from_columns(columns),
            conversations=(Conversation(ends, 0, (ways[0], ways[1])),),
            pauses=no_details().pauses,
            total_packets=len(lines),
            other_packets=0,
            skipped_packets=0,
            copies=0,
            interface_drops=0,
            first_ns=EPOCH_NS + lines[0].t_ns,
            last_ns=EPOCH_NS + lines[-1].t_ns,
            snaplen=None,
        )

    def _kinds(
        self,
        line: Line,
        high: dict[str, int],
        holes: dict[str, list[tuple[int, int]]],
        covered: dict[str, int],
        window: dict[str, int],
    ) -> tuple[Kind, AckKind]:
        way, other = line.way, "<" if line.way == ">" else ">"
        kind, end = Kind.NONE, line.seq + line.size
        if line.size:
            if line.size == 1 and end <= covered[other]:
                kind = Kind.KEEP_ALIVE
            elif line.size == 1 and line.seq == covered[other] and window[other] == 0:
                kind = Kind.ZERO_WINDOW_PROBE
            elif line.seq > high[way]:
                kind = Kind.AHEAD
                holes[way].append((high[way], line.seq))
            elif line.seq == high[way]:
                kind = Kind.NEW
            elif any(begin < end and line.seq < until for begin, until in holes[way]):
                kind = Kind.OUT_OF_ORDER
                cut = [((a, min(b, line.seq)), (max(a, end), b)) for a, b in holes[way]]
                holes[way] = [piece for two in cut for piece in two if piece[0] < piece[1]]
            else:
                kind = Kind.RETRANSMISSION
            high[way] = max(high[way], end)
        said = AckKind.NONE
        if line.ack is not None and not line.flags & (SYN | RST):
            if line.ack > covered[way]:
                said = AckKind.ADVANCES
            elif not line.size and not line.flags & FIN:
                if line.window != window[way]:
                    said = AckKind.WINDOW_UPDATE
                elif line.ack < high[other]:
                    said = AckKind.DUPLICATE
            covered[way] = max(covered[way], line.ack)
        if line.ack is not None:
            window[way] = line.window
        return kind, said
