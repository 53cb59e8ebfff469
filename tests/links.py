"""IP packets in, frames of every kind of link and tunnel that the native engine reads out; and files of other formats.

As a program it writes what scripts/fuzz begins with: `links.py TARGET FOLDER`.

Layouts: tcpdump.org/linktypes.html and what it refers to; RFC 1761 for snoop, Endace_ERF_Types.pdf for ERF.
"""

from __future__ import annotations

import ipaddress
import struct
import sys
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

import wire

Wrap = Callable[[bytes], bytes]  # an IPv4 packet -> a frame
ETHERNET = 1
_MAC = bytes(range(2, 14))


def _ethernet(kind: int, inner: bytes) -> bytes:
    return _MAC + struct.pack(">H", kind) + inner


def plain(ip: bytes) -> bytes:
    """A frame of Ethernet."""
    return _ethernet(0x0800, ip)


def _snap(ip: bytes) -> bytes:
    return bytes.fromhex("aaaa03 000000 0800") + ip


def _air(control: str, behind: bytes, sequence: int = 0x30) -> bytes:
    """A frame of IEEE 802.11; `control` is its frame control."""
    addresses = bytes.fromhex("021122334455 024455667788 0299aabbccdd")
    return bytes.fromhex(control) + bytes(2) + addresses + struct.pack("<H", sequence) + behind


def _amsdu(ip: bytes) -> bytes:
    return _MAC + struct.pack(">H", len(_snap(ip))) + _snap(ip)


def _avs() -> bytes:
    return struct.pack(">II", 0x80211001, 64) + bytes(56)


def _nflog(ip: bytes, order: str) -> bytes:
    prefix = struct.pack(order + "HH", 7, 10) + b"in\0\0"
    return b"\2\0\0\5" + prefix + struct.pack(order + "HH", 4 + len(ip), 9) + ip


def _outer(protocol: int, payload: bytes) -> bytes:
    ends = (ipaddress.ip_address(end).packed for end in ("192.0.2.1", "192.0.2.2"))
    head = struct.pack(">BBHHHBBH", 0x45, 0, 20 + len(payload), 1, 0, 64, protocol, 0)
    return plain(head + b"".join(ends) + payload)


def _over_udp(port: int, head: str, inner: bytes) -> bytes:
    payload = bytes.fromhex(head) + inner
    return _outer(17, struct.pack(">HHHH", 5555, port, 8 + len(payload), 0) + payload)


def _gre(head: str, inner: bytes) -> bytes:
    return _outer(47, bytes.fromhex(head) + inner)


def erf_record(kind: int, packet: bytes, t_ns: int, *, wire_bytes: int | None = None, extensions: bytes = b"") -> bytes:
    """One record, filled up to a multiple of 8 bytes; `packet` has what its kind wants in front."""
    seconds, ns = divmod(t_ns, 10**9)
    stamp = seconds << 32 | (ns << 32) // 10**9
    behind = extensions + packet
    behind += bytes(-len(behind) % 8)
    size = len(packet) if wire_bytes is None else wire_bytes
    return struct.pack("<Q", stamp) + struct.pack(">BBHHH", kind, 4, 16 + len(behind), 0, size) + behind


def _erf(kind: int, front: bytes, extensions: bytes = b"") -> Wrap:
    return lambda inner: erf_record(kind, front + inner, 0, wire_bytes=len(inner), extensions=extensions)


def _erf_ethernet(ip: bytes) -> bytes:
    return _erf(2, b"\0\0")(plain(ip))


# Name -> link type and frames of it.
LINKS: dict[str, tuple[int, Wrap]] = {
    "loopback": (0, lambda ip: struct.pack("<I", 2) + ip),
    "token ring": (6, lambda ip: b"\x10\x40" + _MAC + _snap(ip)),
    "token ring, route": (6, lambda ip: b"\x10\x40" + _MAC[:6] + b"\x88" + _MAC[7:] + b"\4\0\1\2" + _snap(ip)),
    "PPP, protocol of one byte": (9, lambda ip: b"\xff\3\x21" + ip),
    "FDDI": (10, lambda ip: b"\x50" + _MAC + _snap(ip)),
    "PPP over a line": (50, lambda ip: b"\xff\3\0\x21" + ip),
    "HDLC over a line": (50, lambda ip: b"\x0f\0\x08\0" + ip),
    "PPPoE": (51, lambda ip: struct.pack(">BBHHH", 0x11, 0, 1, 2 + len(ip), 0x21) + ip),
    "Cisco HDLC": (104, lambda ip: b"\x0f\0\x08\0" + ip),
    "802.11": (105, lambda ip: _air("0802", _snap(ip))),
    "802.11, QoS": (105, lambda ip: _air("8801", bytes(2) + _snap(ip))),
    "802.11, four addresses": (105, lambda ip: _air("8803", _MAC[:6] + bytes(2) + _snap(ip))),
    "802.11, A-MSDU": (105, lambda ip: _air("8801", b"\x80\0" + _amsdu(ip))),
    "Prism": (119, lambda ip: struct.pack("<II", 0x44, 144) + bytes(136) + _air("0802", _snap(ip))),
    "AVS as Prism": (119, lambda ip: _avs() + _air("0802", _snap(ip))),
    "radiotap": (127, lambda ip: bytes.fromhex("0000 0800 00000000") + _air("0802", _snap(ip))),
    "radiotap, padding": (
        127,
        lambda ip: bytes.fromhex("0000 0900 02000000 20") + _air("8801", bytes(4) + _snap(ip)),
    ),
    "AVS": (163, lambda ip: _avs() + _air("0802", _snap(ip))),
    "PPI": (192, lambda ip: struct.pack("<BBHI", 0, 0, 8, 105) + _air("0802", _snap(ip))),
    "ERF": (197, _erf_ethernet),
    "ERF, extension": (197, lambda ip: _erf(0x82, b"\0\0", extensions=b"\4" + bytes(7))(plain(ip))),
    "ERF, HDLC": (197, lambda ip: _erf(1, b"")(b"\x0f\0\x08\0" + ip)),
    "PPP, direction": (204, lambda ip: b"\1\xff\3\0\x21" + ip),
    "HDLC, direction": (205, lambda ip: b"\0\x0f\0\x08\0" + ip),
    "ipnet": (226, lambda ip: struct.pack(">BBHIIIII", 1, 2, 0, len(ip), 1, 1, 0, 0) + ip),
    "NFLOG": (239, lambda ip: _nflog(ip, "<")),
    "NFLOG, big-endian": (239, lambda ip: _nflog(ip, ">")),
    "IPoIB": (242, lambda ip: bytes(40) + b"\x08\0\0\0" + ip),
    "VXLAN": (1, lambda ip: _over_udp(4789, "0800000000000700", plain(ip))),
    "VXLAN, group policy": (1, lambda ip: _over_udp(4789, "8848000700000700", plain(ip))),
    "VXLAN, reserved bits": (1, lambda ip: _over_udp(4789, "0800000300000700", plain(ip))),
    "802.1ah": (1, lambda ip: _ethernet(0x88E7, bytes.fromhex("00000009") + plain(ip))),
    "VNTag": (1, lambda ip: _ethernet(0x8926, bytes.fromhex("00010002 0800") + ip)),
    "VNTag, 802.1Q": (1, lambda ip: _ethernet(0x8926, bytes.fromhex("00010002 8100 0005 0800") + ip)),
    "802.1BR": (1, lambda ip: _ethernet(0x893F, bytes.fromhex("000100020000 0800") + ip)),
    "HSR": (1, lambda ip: _ethernet(0x892F, struct.pack(">HHH", 6 + len(ip), 1, 0x0800) + ip)),
    "GRE over UDP": (1, lambda ip: _over_udp(4754, "00000800", ip)),
    "GTP-U": (1, lambda ip: _over_udp(2152, f"30ff{len(ip):04x}00000009", ip)),
    "GTP-U, number": (1, lambda ip: _over_udp(2152, f"32ff{4 + len(ip):04x}0000000900010000", ip)),
    "GTP-U, extension": (1, lambda ip: _over_udp(2152, f"34ff{8 + len(ip):04x}000000090000008501000900", ip)),
    "Aruba": (1, lambda ip: _gre("00008210", _air("0801", _snap(ip)))),
}
# tshark 4.0 shows the one as data, and takes a preference for the byte order of the other.
UNKNOWN_TO_TSHARK = frozenset(("HDLC, direction", "NFLOG, big-endian"))


def ops(count: int, client: tuple[str, int] = ("10.0.0.1", 700), xid: int = 0x1000) -> wire.Tcp:
    """Some READs of one connection."""
    tcp = wire.Tcp(client=client)
    for n in range(count):
        tcp.send(10 * n, ">", wire.read(xid + n, 512 * n, 512))
        tcp.send(10 * n + 2, "<", wire.reply(xid + n, wire.read3(512)))
    return tcp


def packets(seen: Iterable[wire.Seen]) -> list[tuple[int, bytes]]:
    """Times in ns, and IP packets."""
    return [(packet.t_ns, packet.frame[14:]) for packet in seen]


def write_pcap(path: Path, link: int, wrap: Wrap, found: Sequence[tuple[int, bytes]]) -> Path:
    """The packets as frames of one link; returns `path`."""
    out = [struct.pack("<IHHiIII", 0xA1B23C4D, 2, 4, 0, 0, 262_144, link)]
    for t_ns, ip in found:
        frame = wrap(ip)
        out += [struct.pack("<IIII", *divmod(t_ns, 10**9), len(frame), len(frame)), frame]
    path.write_bytes(b"".join(out))
    return path


def write_pcapng(path: Path, every: Sequence[tuple[int, Wrap, Sequence[tuple[int, bytes]]]]) -> Path:
    """Packets of several links, in time order, each on an interface of its own; returns `path`."""

    def block(kind: int, body: bytes) -> bytes:
        body += bytes(-len(body) % 4)
        return struct.pack("<II", kind, 12 + len(body)) + body + struct.pack("<I", 12 + len(body))

    out = [block(0x0A0D0D0A, struct.pack("<IHHq", 0x1A2B3C4D, 1, 0, -1))]
    frames = []
    for number, (link, wrap, found) in enumerate(every):
        out.append(block(1, struct.pack("<HHI", link, 0, 0) + struct.pack("<HHI", 9, 1, 9) + bytes(4)))
        frames += [(t_ns, number, wrap(ip)) for t_ns, ip in found]
    for t_ns, number, frame in sorted(frames, key=lambda one: one[0]):
        head = struct.pack("<IIIII", number, t_ns >> 32, t_ns & 0xFFFFFFFF, len(frame), len(frame))
        out.append(block(6, head + frame))
    path.write_bytes(b"".join(out))
    return path


def write_snoop(path: Path, found: Sequence[tuple[int, bytes]]) -> Path:
    """The packets over Ethernet as Solaris writes them, to the us; returns `path`."""
    out = [b"snoop\0\0\0" + struct.pack(">II", 2, 4)]
    for t_ns, ip in found:
        frame = plain(ip)
        padding = -len(frame) % 4
        seconds, ns = divmod(t_ns, 10**9)
        length = 24 + len(frame) + padding
        out += [struct.pack(">IIIIII", len(frame), len(frame), length, 0, seconds, ns // 1000), frame, bytes(padding)]
    path.write_bytes(b"".join(out))
    return path


def write_erf(path: Path, found: Sequence[tuple[int, bytes]]) -> Path:
    """The packets over Ethernet as a DAG card writes them, without check sequences; returns `path`."""
    frames = [(t_ns, plain(ip)) for t_ns, ip in found]
    path.write_bytes(b"".join(erf_record(2, b"\0\0" + frame, t_ns, wire_bytes=len(frame)) for t_ns, frame in frames))
    return path


def write_seeds(target: str, folder: Path) -> None:
    """Small inputs for a target of native/fuzz, in formats and of links that no sample has."""
    found = packets(ops(2).seen_by("client"))
    if target == "container":
        write_snoop(folder / "seed-snoop", found)
        write_erf(folder / "seed-erf", found)
    elif target == "links":
        for number, (_, wrap) in enumerate(LINKS.values()):
            (folder / f"seed-{number}").write_bytes(b"\0" + wrap(found[0][1]))


if __name__ == "__main__":
    write_seeds(sys.argv[1], Path(sys.argv[2]))
