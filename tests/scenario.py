"""A scenario in TOML -> the two captures that it describes, and what nfslat has to say about them.

`timeline` has one packet a line, in true time, milliseconds. Between sent and arrived stands its way: ">" to the
server, "<" to the client. Sent is when the sender's tap sees it, arrived when the receiver's does, "-" if it was lost:

    # sent     arrived   packet
      0      > 1         READ 7 0 8192              XID, offset, count; also WRITE, and GETATTR with the XID alone
      5      < 6         reply 7                    to the last call with that XID
      200    > 201       retransmit 7               TCP sends the call again; "2/3" behind it: the second third of it
      9      > 10        syn                        a TCP connection begins, with sequence numbers of its own
      11     < 12        rst                        and ends; also synack, ack

A message in several packets has several times, the same number on both ways or not, and is cut into equal pieces:
"0,2 > 3,4,5" are two of its sender's, that arrive as three; "0..19/20" is 20 packets from 0 to 19. A call that comes
again is RPC's retransmission: the same message at another place of the stream. Further words of a line:

    conn=b                         on another connection (a, b, ... have the client's ports 700, 701, ...)
    drop=server  twice=client      the capture at that tap missed it, or holds it twice
    late=server                    it stands in that file behind the packet that came next
    stamp_server=50                that capture's clock was 50 ms late for this packet alone

`[[repeat]]` plays its own `timeline` again: `begin_ms`, `every_ms`, `times`, and by how much `xid` and `offset` grow.
`[server]` and `[client]` say how a tap sees it all:

    offset_ms  drift_ppm  rx_offset_ms     its clock against true time; packets that it receives: a clock of their own
    steps = [{ at_ms, ms }]                when (true time) it was set, and by how much
    sees = { a = "192.0.2.1:40000 > 10.0.0.2:2049" }        addresses that are rewritten on the way to it
    isn_shift                              TCP numbers that are, where a load balancer ends one connection
    vlan  vxlan  snaplen  begins_ms  ends_ms  twice         what is around a frame; what the file holds of it

`udp = true` at the top: datagrams, and no connection.
"""

from __future__ import annotations

import heapq
import tomllib
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Self

import wire

MS = 1_000_000
FOLDER = Path(__file__).parent / "scenarios"
FILES = sorted(FOLDER.glob("*.toml"))

_FLAGS = {"syn": 0x02, "synack": 0x12, "ack": 0x10, "rst": 0x04}
_COPY_NS = 10_000  # the second copy of a frame comes so much later
_ISN = {">": 1_000, "<": 5_000}
_MARKS = {"conn", "drop", "twice", "late", "stamp_server", "stamp_client"}
_TOP = {"purpose", "udp", "engines", "timeline", "repeat", "server", "client", "expect"}
_REPEAT = {"timeline", "begin_ms", "every_ms", "times", "xid", "offset"}
_TAP = {
    *("offset_ms", "drift_ppm", "rx_offset_ms", "steps", "sees", "isn_shift"),
    *("vlan", "vxlan", "snaplen", "begins_ms", "ends_ms", "twice"),
}
_CALLS: dict[str, Callable[..., bytes]] = {"READ": wire.read, "WRITE": wire.write, "GETATTR": wire.getattr3}
_REPLIES = {"WRITE": wire.WRITE3, "GETATTR": wire.GETATTR3}  # to a READ as much as it asks for


@dataclass(frozen=True)
class Line:
    """One line of a timeline; times in ns, None in `arrived` for what was lost."""

    sent: list[int]
    way: str
    arrived: list[int | None]
    what: str
    numbers: list[int]
    piece: tuple[int, int] = (1, 1)  # of a message that is sent again: the first of one, the second of three
    marks: dict[str, str] = field(default_factory=dict)

    @classmethod
    def parse(cls, text: str) -> Self:
        """Raises ``ValueError`` for what is no line, and for a packet that arrives before it was sent."""
        words = text.split()
        marks = dict(word.split("=") for word in words if "=" in word)
        sent, way, arrived, what, *rest = [word for word in words if "=" not in word]
        piece = next((word for word in rest if "/" in word), "1/1")
        at, of = map(int, piece.split("/"))
        numbers = [int(word, 0) for word in rest if "/" not in word]
        out = cls([t for t in _times(sent) if t is not None], way, _times(arrived), what, numbers, (at, of), marks)
        seen = [t for t in out.arrived if t is not None]
        is_early = bool(seen) and (min(seen) < min(out.sent) or max(seen) < max(out.sent))
        if way not in ("<", ">") or is_early or not _MARKS.issuperset(marks):
            raise ValueError(f"not a line of a timeline: {text}")
        return out

    def later(self, ns: int, xid: int, offset: int) -> Line:
        """The same line in another round of a repeat."""
        numbers = [number + more for number, more in zip(self.numbers, (xid, offset, 0), strict=False)]
        arrived = [None if t is None else t + ns for t in self.arrived]
        return replace(self, sent=[t + ns for t in self.sent], arrived=arrived, numbers=numbers)


def _times(text: str) -> list[int | None]:
    """ "1.5", "1,-,3" or "0..19/20" in ns."""
    if ".." in text:
        first, rest = text.split("..")
        last, count = rest.split("/")
        step = (_ns(float(last)) - _ns(float(first))) / (int(count) - 1)
        return [_ns(float(first)) + round(i * step) for i in range(int(count))]
    return [None if word == "-" else _ns(float(word)) for word in text.split(",")]


def _ns(ms: float) -> int:
    return round(ms * MS)


def _lines(text: str) -> list[Line]:
    return [Line.parse(line) for line in (row.partition("#")[0].strip() for row in text.splitlines()) if line]


@dataclass(frozen=True)
class _Data:
    """What a line puts on the wire: for UDP a datagram, for TCP a stretch of the stream."""

    data: bytes
    seq: int = 0
    ack: int = 0
    flags: int = 0x18

    def pieces(self, count: int) -> Iterator[tuple[int, bytes]]:
        """(sequence number, bytes) of each of `count` equal pieces; the last one is what is left."""
        size = -(-len(self.data) // count)
        for begin in range(0, count * size or 1, size or 1):
            yield self.seq + begin, self.data[begin : begin + size]


@dataclass
class _Way:
    """One direction of a TCP connection: what was put into it, and what has come out of it."""

    next: int
    messages: dict[int, _Data] = field(default_factory=dict)  # by XID
    _arriving: list[tuple[int, int, int]] = field(default_factory=list)  # a heap: when (ns), from, to (numbers)
    _behind: list[tuple[int, int]] = field(default_factory=list)  # a heap: what has arrived, behind a hole

    def __post_init__(self) -> None:
        self._hole = self.next

    def arrives(self, begin: int, end: int, t_ns: int) -> None:
        """A stretch of sequence numbers."""
        heapq.heappush(self._arriving, (t_ns, begin, end))

    def acknowledged(self, t_ns: int) -> int:
        """The sequence number of the first hole, by then; later than it was asked for before."""
        while self._arriving and self._arriving[0][0] <= t_ns:
            heapq.heappush(self._behind, heapq.heappop(self._arriving)[1:])
        while self._behind and self._behind[0][0] <= self._hole:
            self._hole = max(self._hole, heapq.heappop(self._behind)[1])
        return self._hole


class _Connection:
    """What both ends of a connection know of it."""

    def __init__(self, name: str, *, udp: bool) -> None:
        self.udp = udp
        self._first = {way: isn + 1_000_000 * _number(name) for way, isn in _ISN.items()}
        self._ways = {way: _Way(first) for way, first in self._first.items()}
        self._asked: dict[int, Line] = {}  # XID -> the last call

    def put(self, line: Line) -> _Data:
        """Take a line."""
        if self.udp:
            return _Data(self._message(line))
        if line.what == "syn":
            self._first = {way: first + 10_000_000 for way, first in self._first.items()}
            self._ways = {way: _Way(first) for way, first in self._first.items()}
        own, back = line.way, "<" if line.way == ">" else ">"
        way, ack = self._ways[own], self._ways[back].acknowledged(line.sent[0])
        if line.what in _FLAGS:
            return _Data(b"", way.next - ("syn" in line.what), ack, _FLAGS[line.what])
        if line.what == "retransmit":
            at, of = line.piece
            seq, piece = list(way.messages[line.numbers[0]].pieces(of))[at - 1]
            out = _Data(piece, seq, ack)
        else:
            out = _Data(wire.record(self._message(line)), way.next, ack)
            way.next += len(out.data)
            way.messages[line.numbers[0]] = out
        for t_ns, (seq, piece) in zip(line.arrived, out.pieces(len(line.arrived)), strict=True):
            if t_ns is not None:
                way.arrives(seq, seq + len(piece), t_ns)
        return out

    def _message(self, line: Line) -> bytes:
        xid, *numbers = line.numbers
        if line.what == "reply":
            asked = self._asked[xid]
            return wire.reply(xid, wire.read3(asked.numbers[2]) if asked.what == "READ" else _REPLIES[asked.what])
        self._asked[xid] = line
        return _CALLS[line.what](xid, *numbers)


@dataclass
class _Tap:
    """One capture point: how it sees the connections, and the packets that its file holds."""

    side: str
    settings: dict[str, Any]
    flows: dict[str, wire.Tcp | wire.Udp] = field(default_factory=dict)
    rows: list[tuple[int, wire.Packet, Line]] = field(default_factory=list)  # when it came by, what, and why

    def see(self, times: list[int] | list[int | None], name: str, line: Line, sent: _Data, *, udp: bool) -> None:
        """The packets of a line come by at these times, or not at all."""
        flow = self.flows.get(name) or self._flow(name, udp=udp)
        self.flows[name] = flow
        shift = self.settings.get("isn_shift", 0)
        begins, ends = _ns(self.settings.get("begins_ms", -1e9)), _ns(self.settings.get("ends_ms", 1e9))
        for t_ns, (seq, piece) in zip(times, sent.pieces(len(times)), strict=True):
            if isinstance(flow, wire.Udp):
                packet = flow.send(0, line.way, piece)[0]
            else:
                packet = flow.raw(0, line.way, seq + shift, piece, ack=sent.ack + shift, flags=sent.flags)
            if t_ns is not None and begins <= t_ns <= ends and self.side not in line.marks.get("drop", ""):
                self.rows.append((t_ns, packet, line))

    def _flow(self, name: str, *, udp: bool) -> wire.Tcp | wire.Udp:
        usual = f"10.0.0.1:{700 + _number(name)} > 10.0.0.2:2049"
        ends = [end.rsplit(":", 1) for end in self.settings.get("sees", {}).get(name, usual).split(" > ")]
        client, server = [(host, int(port)) for host, port in ends]
        return (wire.Udp if udp else wire.Tcp)(client=client, server=server, vlan=self.settings.get("vlan"))

    def clock_ns(self, t_ns: int, line: Line) -> int:
        """What the clock shows when the tap sees a packet of this line."""
        s = self.settings
        out: int = t_ns + _ns(s.get("offset_ms", 0)) + round(t_ns * s.get("drift_ppm", 0) / 1_000_000)
        out += sum(_ns(step["ms"]) for step in s.get("steps", []) if t_ns >= _ns(step["at_ms"]))
        received = line.way == (">" if self.side == "server" else "<")
        return out + received * _ns(s.get("rx_offset_ms", 0)) + _ns(float(line.marks.get(f"stamp_{self.side}", 0)))

    def write(self, path: Path) -> Path:
        """The packets in the order in which they came by, whatever the clock said."""
        frames: dict[int, bytes] = {}
        for flow in self.flows.values():
            seen = flow.seen_by("client", back_ms=0)  # "client": the tap has its times already
            frames |= {id(packet): one.frame for packet, one in zip(flow.packets, seen, strict=True)}
        out: list[wire.Seen] = []
        late: list[wire.Seen] = []
        for t_ns, packet, line in sorted(self.rows, key=lambda row: row[0]):
            frame = frames[id(packet)]
            if "vxlan" in self.settings:
                frame = wire.vxlan(frame, line.way, self.settings["vxlan"])
            seen = [wire.Seen(wire.EPOCH_NS + self.clock_ns(t_ns, line), frame)]
            if self.settings.get("twice") or self.side in line.marks.get("twice", ""):
                seen.append(wire.Seen(seen[0].t_ns + _COPY_NS, frame))
            if self.side in line.marks.get("late", ""):
                late = seen
                continue
            out += seen + late
            late = []
        snaplen = self.settings.get("snaplen", 262_144)
        return wire.write_pcap(path, out + late, snaplen=snaplen, nano=True, as_given=True)


@dataclass(frozen=True)
class Scenario:
    """One file of the folder."""

    settings: dict[str, Any]

    @classmethod
    def load(cls, path: Path) -> Self:
        """Raises ``ValueError`` for what is no TOML, and for a key that means nothing."""
        settings = tomllib.loads(path.read_text())
        tables = [(settings, _TOP), *((settings.get(side, {}), _TAP) for side in ("server", "client"))]
        tables += [(repeat, _REPEAT) for repeat in settings.get("repeat", [])]
        unknown = [key for table, known in tables for key in table if key not in known]
        if unknown or not settings.get("purpose"):
            raise ValueError(f"{path.name}: {unknown or 'no purpose'}")
        return cls(settings)

    @property
    def expect(self) -> dict[str, Any]:
        """What nfslat has to say (test_scenarios.py)."""
        return dict(self.settings["expect"])

    @property
    def engines(self) -> list[str]:
        """Which engines can see enough of it."""
        return list(self.settings.get("engines", ["native", "tshark"]))

    def lines(self) -> list[Line]:
        """All lines, those of the repeats written out, in the order in which packets leave."""
        out = _lines(self.settings.get("timeline", ""))
        for repeat in self.settings.get("repeat", []):
            for i in range(repeat["times"]):
                by = _ns(repeat.get("begin_ms", 0)) + i * _ns(repeat["every_ms"])
                grown = (i * repeat.get("xid", 1), i * repeat.get("offset", 8192))
                out += [line.later(by, *grown) for line in _lines(repeat["timeline"])]
        return sorted(out, key=lambda line: line.sent[0])

    def write(self, folder: Path) -> tuple[Path, Path]:
        """The server's capture and the client's."""
        udp = self.settings.get("udp", False)
        server, client = (_Tap(side, self.settings.get(side, {})) for side in ("server", "client"))
        connections: dict[str, _Connection] = {}
        for line in self.lines():
            name = line.marks.get("conn", "a")
            if name not in connections:
                connections[name] = _Connection(name, udp=udp)
            sent = connections[name].put(line)
            sender, receiver = (client, server) if line.way == ">" else (server, client)
            sender.see(line.sent, name, line, sent, udp=udp)
            receiver.see(line.arrived, name, line, sent, udp=udp)
        return server.write(folder / "server.pcap"), client.write(folder / "client.pcap")


def _number(name: str) -> int:
    return ord(name) - ord("a")
