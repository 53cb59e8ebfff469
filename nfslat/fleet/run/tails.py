"""The first and the last bytes of a capture file -> its last packet, without reading what lies between.

Only plain pcap and pcapng; anything else, and whatever does not add up, gives None: nothing depends on it but how sure
`nfslat.fleet.run.points` is of files that belong together.
"""

from __future__ import annotations

import struct

from nfslat.model.units import NS_PER_S

SHORT_BYTES = 1 << 16  # tells, unless packets are large
TAIL_BYTES = 1 << 20
_HEADER_BYTES = 24  # of a pcap
_SCAN_BYTES = 1 << 19  # two packets of the largest size lie in it
_MOST_PACKET_BYTES = 1 << 18
_DAY_S = 86_400
_MOST_S = 60 * _DAY_S  # longer than anybody captures into one file
_ENOUGH_RECORDS = 3
_PCAP = {
    bytes.fromhex("d4c3b2a1"): ("<", 1000),
    bytes.fromhex("a1b2c3d4"): (">", 1000),
    bytes.fromhex("4d3cb2a1"): ("<", 1),
    bytes.fromhex("a1b23c4d"): (">", 1),
}
_PCAPNG = bytes.fromhex("0a0d0d0a")
_SECTION, _PACKET = 0x0A0D0D0A, 6


def can_tell(first: bytes) -> bool:
    """Is it worth while to fetch the last bytes?"""
    return first[:4] in _PCAP or first[:4] == _PCAPNG


def last_packet(first: bytes, last: bytes) -> bytes | None:
    """A capture with the last whole packet alone. `first` begins with the file's header, `last` ends where the file
    does."""
    if first[:4] in _PCAP:
        return _of_pcap(first, last)
    if first[:4] == _PCAPNG:
        return _of_pcapng(first, last)
    return None


def _of_pcap(first: bytes, last: bytes) -> bytes | None:
    order, unit_ns = _PCAP[first[:4]]
    record = struct.Struct(order + "IIII")
    if len(first) < _HEADER_BYTES + record.size:
        return None
    begin_s = record.unpack_from(first, _HEADER_BYTES)[0]

    def behind(at: int) -> int | None:
        """Where the record at `at` ends, if there may be one."""
        seconds, fraction, kept, whole = record.unpack_from(last, at)
        if not begin_s - _DAY_S <= seconds <= begin_s + _MOST_S or fraction * unit_ns >= NS_PER_S:
            return None
        return at + record.size + kept if 0 < kept <= whole <= _MOST_PACKET_BYTES else None

    for begin in range(min(len(last) - record.size, _SCAN_BYTES) + 1):
        edges = [begin]
        while edges[-1] + record.size <= len(last):
            end = behind(edges[-1])
            if end is None:
                edges = []
                break
            if end > len(last):
                break  # cut in the middle of a packet
            edges.append(end)
        if len(edges) > _ENOUGH_RECORDS or (len(edges) > 1 and edges[-1] == len(last)):
            return first[:_HEADER_BYTES] + last[edges[-2] : edges[-1]]
    return None


def _of_pcapng(first: bytes, last: bytes) -> bytes | None:
    order = "<" if first[8:12] == bytes.fromhex("4d3c2b1a") else ">"
    end = len(last)
    while end >= 12:
        (length,) = struct.unpack_from(order + "I", last, end - 4)
        if length < 12 or length % 4 or length > end:
            return None
        kind, again = struct.unpack_from(order + "II", last, end - length)
        if again != length or kind == _SECTION:
            return None
        if kind == _PACKET and length >= 32:
            return first[: _packets_begin(first, order)] + last[end - length : end]
        end -= length
    return None


def _packets_begin(first: bytes, order: str) -> int:
    """Behind the blocks that say what interfaces there are, and in which unit their times are."""
    at = 0
    while at + 12 <= len(first):
        kind, length = struct.unpack_from(order + "II", first, at)
        if length < 12 or length % 4 or kind == _PACKET or (kind == _SECTION and at):
            break
        at += length
    return at
