"""A capture -> the same without TCP time stamps, as a box that strips them would leave it: NOPs in their place.

With the option gone from the SYN as well (RFC 7323 section 3.2) this is what hosts send that have them off, but that
their segments would hold 12 bytes more. Checksums are kept as right, or wrong, as they were.
"""

from __future__ import annotations

import struct
import subprocess
from pathlib import Path

_TIME_STAMPS, _LENGTH = 8, 10  # the option's kind, and its bytes (RFC 7323 section 3.1)
_NOP, _END, _TCP = 1, 0, 6
_ETHERNET, _SLL, _SLL2 = 1, 113, 276  # link types of pcap
_IPV4, _IPV6, _VLANS = 0x0800, 0x86DD, (0x8100, 0x88A8)


def unstamped(source: Path, target: Path) -> Path:
    """Write `target`, a pcap file; whatever editcap reads will do for `source`. Returns `target`."""
    subprocess.run(["editcap", "-F", "nsecpcap", str(source), str(target)], check=True, stdout=subprocess.DEVNULL)
    data = bytearray(target.read_bytes())
    (link,) = struct.unpack_from("<I", data, 20)
    at = 24
    while at < len(data):
        (size,) = struct.unpack_from("<I", data, at + 8)
        begin, end = at + 16, at + 16 + size
        tcp = _tcp(data, begin, end, link & 0xFFFF)
        if tcp is not None:
            _strip(data, tcp, end)
        at = end
    target.write_bytes(data)
    return target


def _tcp(data: bytearray, at: int, end: int, link: int) -> int | None:
    """Where the TCP header begins; None without one, and in fragments behind the first."""
    if end - at < 60:  # shorter than Ethernet's least packet
        return None
    kind_at = {_ETHERNET: at + 12, _SLL: at + 14, _SLL2: at}[link]
    ip = {_ETHERNET: at + 14, _SLL: at + 16, _SLL2: at + 20}[link]
    (kind,) = struct.unpack_from(">H", data, kind_at)
    while kind in _VLANS:
        (kind,) = struct.unpack_from(">H", data, ip + 2)
        ip += 4
    if kind == _IPV4 and data[ip + 9] == _TCP and not struct.unpack_from(">H", data, ip + 6)[0] & 0x1FFF:
        return ip + (data[ip] & 15) * 4
    return ip + 40 if kind == _IPV6 and data[ip + 6] == _TCP else None


def _strip(data: bytearray, tcp: int, end: int) -> None:
    """Of one segment, whose checksum is mended by what changed (RFC 1624)."""
    stop = min(tcp + (data[tcp + 12] >> 4) * 4, end)
    before = _sum(data, tcp, stop)
    at = tcp + 20
    while at < stop and data[at] != _END:
        if data[at] == _NOP:
            at += 1
            continue
        length = data[at + 1] if at + 1 < stop else 0
        if length < 2:
            return
        if data[at] == _TIME_STAMPS:
            data[at : min(at + _LENGTH, stop)] = bytes([_NOP]) * (min(at + _LENGTH, stop) - at)
        at += length
    (old,) = struct.unpack_from(">H", data, tcp + 16)
    new = (~old & 0xFFFF) + (~before & 0xFFFF) + _sum(data, tcp, stop)
    while new >> 16:
        new = (new & 0xFFFF) + (new >> 16)
    struct.pack_into(">H", data, tcp + 16, ~new & 0xFFFF)


def _sum(data: bytearray, begin: int, end: int) -> int:
    """Of 16-bit words, in one's complement; without the checksum's own."""
    words: tuple[int, ...] = struct.unpack(f">{(end - begin) // 2}H", data[begin : end - (end - begin) % 2])
    out = sum(words[:8]) + sum(words[9:])
    while out >> 16:
        out = (out & 0xFFFF) + (out >> 16)
    return out
