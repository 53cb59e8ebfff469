"""Small captures, written by hand: a timeline of RPC messages in, pcap files as the client and the server see it out.

A scenario is a list of lines "when, which way, what"; times are milliseconds on the client's clock, ">" is client to
server, "<" is server to client:

    tcp = Tcp()
    tcp.send(0, ">", read(0x11, offset=4096, count=8192))
    tcp.send(5, "<", reply(0x11, READ3))
    write_pcap(path, tcp.seen_by("client"))
    write_pcap(path, tcp.seen_by("server", there_ms=1, back_ms=1, theta_ms=3_600_000))

Plain struct packing after RFC 791, 8200, 9293, 768, 5531, 1813 and 8881; checksums stay zero, as offload leaves them.
"""

from __future__ import annotations

import ipaddress
import struct
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path

EPOCH_NS = 1_700_000_000_000_000_000  # the instant "0 ms" of every scenario
MS = 1_000_000

NFS, MOUNT, PORTMAP, CALLBACK = 100003, 100005, 100000, 0x40000000
FH = bytes(range(32))
OTHER_FH = bytes(range(32, 64))

# --- RPC messages -----------------------------------------------------------------------------------------------------


def _opaque(data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + data + bytes(-len(data) % 4)


def _ints(*values: int) -> bytes:
    return struct.pack(f">{len(values)}I", *values)


def _long(value: int) -> bytes:
    return struct.pack(">Q", value)


AUTH_NONE = _ints(0, 0)
AUTH_SYS = _ints(1) + _opaque(_ints(0) + _opaque(b"client") + _ints(0, 0, 0))


def call(xid: int, program: int, version: int, procedure: int, body: bytes = b"", *, cred: bytes = AUTH_SYS) -> bytes:
    """Any call; the named ones below are made of it."""
    return _ints(xid, 0, 2, program, version, procedure) + cred + AUTH_NONE + body


def null(xid: int, program: int = NFS, version: int = 3) -> bytes:
    return call(xid, program, version, 0, cred=AUTH_NONE)


def getattr3(xid: int, fh: bytes = FH) -> bytes:
    return call(xid, NFS, 3, 1, _opaque(fh))


def read(xid: int, offset: int = 0, count: int = 8192, fh: bytes = FH) -> bytes:
    return call(xid, NFS, 3, 6, _opaque(fh) + _long(offset) + _ints(count))


def write(xid: int, offset: int = 0, count: int = 8192, fh: bytes = FH, stable: int = 2) -> bytes:
    """`stable` is stable_how: UNSTABLE 0, DATA_SYNC 1, FILE_SYNC 2."""
    return call(xid, NFS, 3, 7, _opaque(fh) + _long(offset) + _ints(count, stable) + _opaque(bytes(count)))


def rename(xid: int, fh: bytes = FH, to: bytes = OTHER_FH) -> bytes:
    return call(xid, NFS, 3, 14, _opaque(fh) + _opaque(b"old") + _opaque(to) + _opaque(b"new"))


def read2(xid: int, offset: int = 0, count: int = 8192) -> bytes:
    """NFSv2 (RFC 1094): 32-bit offset, and a total count that nobody uses."""
    return call(xid, NFS, 2, 6, FH + _ints(offset, count, count))


def compound(xid: int, *ops: bytes, minor: int = 1) -> bytes:
    return call(xid, NFS, 4, 1, _opaque(b"") + _ints(minor, len(ops)) + b"".join(ops))


def cb_compound(xid: int, *ops: bytes, minor: int = 1) -> bytes:
    """A callback: the server calls, the client answers (RFC 8881 section 20)."""
    return call(xid, CALLBACK, 1, 1, _opaque(b"") + _ints(minor, 0, len(ops)) + b"".join(ops))


def v4_sequence(slot: int = 0, seqid: int = 1) -> bytes:
    return _ints(53) + bytes(16) + _ints(seqid, slot, 63, 0)


def v4_putfh(fh: bytes = FH) -> bytes:
    return _ints(22) + _opaque(fh)


def v4_read(offset: int = 0, count: int = 8192) -> bytes:
    return _ints(25) + bytes(16) + _long(offset) + _ints(count)


def v4_write(offset: int = 0, count: int = 8192, stable: int = 2) -> bytes:
    return _ints(38) + bytes(16) + _long(offset) + _ints(stable) + _opaque(bytes(count))


V4_GETATTR = _ints(9, 1, 0x18)
CB_SEQUENCE = _ints(11) + bytes(16) + _ints(1, 0, 0, 0, 0)
CB_RECALL = _ints(4) + bytes(16) + _ints(0) + _opaque(FH)

# Bodies of successful replies.
NULL_OK = b""
GETATTR3 = _ints(0) + bytes(84)
WRITE3 = _ints(0, 0, 0, 8192, 2) + bytes(8)
RENAME3 = _ints(0, 0, 0, 0, 0)


def read3(count: int = 8192) -> bytes:
    return _ints(0, 0, count, 0) + _opaque(bytes(count))


def v4_results(*results: bytes) -> bytes:
    return _ints(0) + _opaque(b"") + _ints(len(results)) + b"".join(results)


V4_SEQUENCE_OK = _ints(53, 0) + bytes(16) + _ints(1, 0, 63, 63, 0)
V4_PUTFH_OK = _ints(22, 0)
CB_SEQUENCE_OK = _ints(11, 0) + bytes(16) + _ints(1, 0, 0, 0)
CB_RECALL_OK = _ints(4, 0)


def v4_read_ok(count: int = 8192) -> bytes:
    return _ints(25, 0, 0) + _opaque(bytes(count))


def reply(xid: int, body: bytes = NULL_OK) -> bytes:
    """Accepted, successful."""
    return _ints(xid, 1, 0) + AUTH_NONE + _ints(0) + body


class Framed(bytes):
    """Bytes that carry their record marks already."""


def record(message: bytes, *fragments: int) -> Framed:
    """`message` behind its record mark; `fragments` are the sizes of the first fragments, the rest is the last one."""
    out, at = b"", 0
    for size in fragments:
        out += _ints(size) + message[at : at + size]
        at += size
    return Framed(out + _ints(0x80000000 | len(message) - at) + message[at:])


# --- Packets ----------------------------------------------------------------------------------------------------------


@dataclass
class Packet:
    """One IP packet on its way; `sent_ns` is when its sender's capture sees it, on the client's clock."""

    sent_ns: int
    way: str  # ">" or "<"
    ip: bytes  # from the IP header on
    vlan: int | None = None


@dataclass(frozen=True)
class Seen:
    """One packet at one capture point."""

    t_ns: int
    frame: bytes


@dataclass
class _Flow:
    client: tuple[str, int] = ("10.0.0.1", 700)
    server: tuple[str, int] = ("10.0.0.2", 2049)
    vlan: int | None = None
    packets: list[Packet] = field(default_factory=list)
    ip_ids: dict[str, int] = field(default_factory=lambda: {">": 0x1000, "<": 0x8000})

    def seen_by(
        self,
        side: str,
        *,
        there_ms: float = 0.1,
        back_ms: float = 0.1,
        theta_ms: float = 0,
        without: Iterable[Packet] = (),
        swap_addresses: dict[str, str] | None = None,
    ) -> list[Seen]:
        """The frames that the capture of `side` holds, on its own clock; `without` are those that never came by.

        `theta_ms` is the server's clock minus the client's; `swap_addresses` is what a NAT box in between rewrites.
        """
        missed = {id(packet) for packet in without}
        out = []
        for packet in self.packets:
            if id(packet) in missed:
                continue
            t_ns = EPOCH_NS + packet.sent_ns
            if side == "server":
                t_ns += _ns(theta_ms) + (_ns(there_ms) if packet.way == ">" else 0)
            elif packet.way == "<":
                t_ns += _ns(back_ms)
            ip = packet.ip
            for old, new in (swap_addresses or {}).items():
                ip = ip.replace(ipaddress.ip_address(old).packed, ipaddress.ip_address(new).packed, 2)
            out.append(Seen(t_ns, _ethernet(ip, packet.vlan)))
        return out

    def _ends(self, way: str) -> tuple[tuple[str, int], tuple[str, int]]:
        return (self.client, self.server) if way == ">" else (self.server, self.client)

    def _next_id(self, way: str) -> int:
        self.ip_ids[way] += 1
        return self.ip_ids[way]


@dataclass
class Sent(Packet):
    """A TCP segment, so that it can be sent again."""

    seq: int = 0
    ack: int = 0
    data: bytes = b""


@dataclass
class Tcp(_Flow):
    """One TCP connection. `isn` are the sequence numbers of the first data byte in the two directions.

    `window` is what packets that go a way say of the other way: what their sender takes now, in the header's units.
    """

    isn: tuple[int, int] = (1000, 5000)
    window: dict[str, int] = field(default_factory=lambda: {">": 0xFFFF, "<": 0xFFFF})
    counts: bool = True  # its ends give each packet an IP identification; else 0, as macOS and FreeBSD do
    stamps_hz: int = 0  # rate of the timestamps in its packets (RFC 7323); 0: they have none
    stamps: dict[str, int] = field(default_factory=lambda: {">": 0, "<": 0})  # the newest that left either end

    def __post_init__(self) -> None:
        self.next = {">": self.isn[0], "<": self.isn[1]}

    def syn(self, t_ms: float, *, scale: int | None = None) -> None:
        """The handshake, in three packets 0.1 ms apart; with `scale` both ends shift their windows by so much."""
        options = b"" if scale is None else struct.pack(">BBHBBBB", 2, 4, 1460, 1, 3, 3, scale)
        self._add(_ns(t_ms), ">", self.next[">"] - 1, 0, b"", flags=0x02, options=options)
        self._add(_ns(t_ms + 0.1), "<", self.next["<"] - 1, self.next[">"], b"", flags=0x12, options=options)
        self._add(_ns(t_ms + 0.2), ">", self.next[">"], self.next["<"], b"", flags=0x10)

    def send(
        self, t_ms: float, way: str, *messages: bytes, cut: Sequence[int] = (), at: Sequence[float] = ()
    ) -> list[Sent]:
        """Put `messages` into the stream: one segment, or segments of the sizes `cut` and one with what is left.

        Segments follow each other by 0.1 ms, or leave at the times `at` (ms), which need not be in stream order.
        """
        stream = b"".join(m if isinstance(m, Framed) else record(m) for m in messages)
        sizes, left = list(cut), len(stream) - sum(cut)
        sizes += [left] if left > 0 else []
        times = list(at) or [t_ms + 0.1 * i for i in range(len(sizes))]
        out, ack = [], self.next["<" if way == ">" else ">"]
        for size, when in zip(sizes, times, strict=True):
            out.append(self._add(_ns(when), way, self.next[way], ack, stream[:size]))
            stream = stream[size:]
            self.next[way] = (self.next[way] + size) % (1 << 32)
        return out

    def ack(self, t_ms: float, way: str, upto: Sent | None = None) -> Sent:
        """A packet without data that acknowledges everything sent in the other direction so far, or up to a segment."""
        ack = self.next["<" if way == ">" else ">"] if upto is None else upto.seq + len(upto.data)
        return self._add(_ns(t_ms), way, self.next[way], ack, b"")

    def again(self, t_ms: float, *old: Sent) -> Sent:
        """TCP sends these neighbouring segments again, as one: same sequence numbers, a new IP identification."""
        return self._add(_ns(t_ms), old[0].way, old[0].seq, old[0].ack, b"".join(segment.data for segment in old))

    def raw(self, t_ms: float, way: str, seq: int, data: bytes, *, ack: int | None = None, flags: int = 0x18) -> Sent:
        """Any bytes of the stream at any time: segments that overlap; `ack` is all that was sent if not given."""
        ack = self.next["<" if way == ">" else ">"] if ack is None else ack
        return self._add(_ns(t_ms), way, seq, ack, data, flags)

    def copy(self, t_ms: float, old: Sent) -> Sent:
        """The capture sees this very packet a second time: same IP identification."""
        again = replace(old, sent_ns=_ns(t_ms))
        self.packets.append(again)
        return again

    def _add(
        self, sent_ns: int, way: str, seq: int, ack: int, data: bytes, flags: int = 0x18, options: bytes = b""
    ) -> Sent:
        (_, sport), (_, dport) = ends = self._ends(way)
        numbers = seq % (1 << 32), ack % (1 << 32)
        if self.stamps_hz and not flags & 0x02:
            self.stamps[way] = max(self.stamps[way], 1000 + sent_ns * self.stamps_hz // 1_000_000_000)
            options += struct.pack(">BBBBII", 1, 1, 8, 10, self.stamps[way], self.stamps["<" if way == ">" else ">"])
        length = (20 + len(options)) // 4 << 4
        header = struct.pack(">HHIIBBHHH", sport, dport, *numbers, length, flags, self.window[way], 0, 0)
        ip = _ip(ends, 6, self._next_id(way) if self.counts else 0, header + options + data)[0]
        self.ip_ids[way] += max(len(data) - 1, 0) // 1448  # offload cuts it up, and numbers the pieces
        packet = Sent(sent_ns, way, ip, self.vlan, seq, ack, data)
        self.packets.append(packet)
        return packet


@dataclass
class Udp(_Flow):
    """Datagrams between one client port and one server port."""

    def send(self, t_ms: float, way: str, message: bytes, *, mtu: int = 0xFFFF) -> list[Packet]:
        """One datagram, in IP fragments 0.1 ms apart where it is larger than `mtu`."""
        (_, sport), (_, dport) = ends = self._ends(way)
        datagram = struct.pack(">HHHH", sport, dport, 8 + len(message), 0) + message
        out = [
            Packet(_ns(t_ms + 0.1 * i), way, ip, self.vlan)
            for i, ip in enumerate(_ip(ends, 17, self._next_id(way), datagram, mtu))
        ]
        self.packets += out
        return out


@cache  # of the same few for each packet
def _addresses(ends: tuple[tuple[str, int], tuple[str, int]]) -> tuple[int, bytes]:
    """Which version of IP they are of, and both as a header has them."""
    source, destination = (ipaddress.ip_address(host) for host, _ in ends)
    return source.version, source.packed + destination.packed


def _ns(ms: float) -> int:
    return round(ms * MS)


def _ip(
    ends: tuple[tuple[str, int], tuple[str, int]], protocol: int, ident: int, payload: bytes, mtu: int = 0xFFFF
) -> list[bytes]:
    """`payload` in one IP packet, or in fragments that fit `mtu`."""
    version, addresses = _addresses(ends)
    step = (mtu - 20 - 28 * (version == 6)) // 8 * 8
    whole = len(payload) + (20 if version == 4 else 0) <= mtu
    pieces = [payload] if whole else [payload[at : at + step] for at in range(0, len(payload), step)]
    out, at = [], 0
    for piece in pieces:
        more = at + len(piece) < len(payload)
        extension = b""
        if version == 4:
            where = at // 8 | (0x2000 if more else 0)
            head = struct.pack(">BBHHHBBH", 0x45, 0, 20 + len(piece), ident & 0xFFFF, where, 64, protocol, 0)
        else:
            if not whole:
                extension = struct.pack(">BBHI", protocol, 0, at | more, ident)
            following = protocol if whole else 44
            head = struct.pack(">IHBB", 6 << 28, len(extension) + len(piece), following, 64)
        out.append(b"".join((head, addresses, extension, piece)))
        at += step
    return out


_MACS = bytes.fromhex("020000000001 020000000002")


def _ethernet(ip: bytes, vlan: int | None) -> bytes:
    kind = b"\x08\x00" if ip[0] >> 4 == 4 else b"\x86\xdd"
    tag = b"" if vlan is None else struct.pack(">HH", 0x8100, vlan)
    return b"".join((_MACS, tag, kind, ip))


def doubled(seen: list[Seen], apart_us: float, *, size: int = 0x10000) -> list[Seen]:
    """What the capture holds if it sees each TCP packet a second time, so much later, in pieces of `size` bytes.

    Pieces are numbered from the identification of the whole on, as segmentation offload does where there is any.
    """
    out = []
    for one in sorted(seen, key=lambda one: one.t_ns):
        later = one.t_ns + round(apart_us * 1000)
        out += [one, *(Seen(later + 100 * number, frame) for number, frame in enumerate(_pieces(one.frame, size)))]
    return out


def _pieces(frame: bytes, size: int) -> Iterable[bytes]:
    is_v4 = frame[12:14] == b"\x08\x00"
    tcp = 14 + (20 if is_v4 else 40)
    data = tcp + (frame[tcp + 12] >> 4) * 4
    for number, at in enumerate(range(data, max(len(frame), data + 1), size)):
        head, piece = bytearray(frame[:data]), frame[at : at + size]
        (seq,) = struct.unpack_from(">I", head, tcp + 4)
        struct.pack_into(">I", head, tcp + 4, (seq + at - data) % (1 << 32))
        length = data - tcp + len(piece)
        struct.pack_into(">H", head, 16 if is_v4 else 18, length + 20 * is_v4)
        if is_v4 and (ident := struct.unpack_from(">H", head, 18)[0]):
            struct.pack_into(">H", head, 18, ident + number)
        yield bytes(head) + piece


def vxlan(frame: bytes, way: str, vni: int) -> bytes:
    """`frame` on its way between the two ends' hypervisors (RFC 7348)."""
    ends = (("172.16.0.1", 49_152), ("172.16.0.2", 4789))
    inner = struct.pack(">II", 0x08000000, vni << 8) + frame
    datagram = struct.pack(">HHHH", 49_152, 4789, 8 + len(inner), 0) + inner
    return _ethernet(_ip(ends if way == ">" else ends[::-1], 17, 0, datagram)[0], None)


_SEQ, _SUM = 38, 50  # in a frame of Ethernet, IPv4 and TCP


def summed(frame: bytes) -> bytes:
    """With the checksum of its TCP segment."""
    segment = frame[34:_SUM] + b"\0\0" + frame[_SUM + 2 :]
    words = frame[26:34] + struct.pack(">HH", 6, len(segment)) + segment + bytes(len(segment) % 2)
    total = sum(struct.unpack(f">{len(words) // 2}H", words))
    while total > 0xFFFF:
        total = (total >> 16) + (total & 0xFFFF)
    return frame[:_SUM] + struct.pack(">H", total ^ 0xFFFF) + frame[_SUM + 2 :]


def moved(frame: bytes, by: int) -> bytes:
    """With a sequence number that is `by` off, and the checksum that was right before."""
    (seq,) = struct.unpack_from(">I", frame, _SEQ)
    return frame[:_SEQ] + struct.pack(">I", (seq + by) % 2**32) + frame[_SEQ + 4 :]


# --- Files ------------------------------------------------------------------------------------------------------------


def write_pcap(
    path: Path, *seen: list[Seen], snaplen: int = 262_144, nano: bool = False, as_given: bool = False
) -> Path:
    """Write everything that was seen, in time order (or `as_given`), as tcpdump would; returns `path`."""
    unit = 1 if nano else 1000
    out = [struct.pack("<IHHiIII", 0xA1B23C4D if nano else 0xA1B2C3D4, 2, 4, 0, 0, snaplen, 1)]
    packets = [packet for part in seen for packet in part]
    for packet in packets if as_given else sorted(packets, key=lambda packet: packet.t_ns):
        kept = packet.frame[:snaplen]
        seconds, ns = divmod(packet.t_ns, 1_000_000_000)
        out += [struct.pack("<IIII", seconds, ns // unit, len(kept), len(packet.frame)), kept]
    path.write_bytes(b"".join(out))
    return path
