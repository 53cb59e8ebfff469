"""The first and the last bytes of a capture file -> the time of its last packet, without reading what lies between.

Only plain pcap and pcapng; anything else, and whatever does not add up, gives None: nothing depends on it but how sure
`nfslat.fleet.run.points` is of files that belong together.
"""

from __future__ import annotations

import struct

from nfslat.model.units import NS_PER_S

SHORT_BYTES = 1 << 16  # tells, unless packets are large
TAIL_BYTES = 1 << 20
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
_SECTION, _INTERFACE, _PACKET = 0x0A0D0D0A, 1, 6


def can_tell(first: bytes) -> bool:
    """Is it worth while to fetch the last bytes?"""
    return first[:4] in _PCAP or first[:4] == _PCAPNG


def last_ns(first: bytes, last: bytes) -> int | None:
    """Time of the last whole packet. `first` begins with the file's header, `last` ends where the file does."""
    if first[:4] in _PCAP:
        return _of_pcap(first, last)
    if first[:4] == _PCAPNG:
        return _of_pcapng(first, last)
    return None


def _of_pcap(first: bytes, last: bytes) -> int | None:
    order, unit_ns = _PCAP[first[:4]]
    record = struct.Struct(order + "IIII")
    if len(first) < 24 + record.size:
        return None
    begin_s = record.unpack_from(first, 24)[0]

    def plausible(at: int) -> tuple[int, int] | None:
        """(time, position behind it) of the record at `at`."""
        seconds, fraction, kept, whole = record.unpack_from(last, at)
        if not begin_s - _DAY_S <= seconds <= begin_s + _MOST_S or fraction * unit_ns >= NS_PER_S:
            return None
        if not 0 < kept <= whole or whole > _MOST_PACKET_BYTES:
            return None
        return seconds * NS_PER_S + fraction * unit_ns, at + record.size + kept

    for begin in range(min(len(last) - record.size, _SCAN_BYTES) + 1):
        at, found, records = begin, None, 0
        while at + record.size <= len(last):
            one = plausible(at)
            if one is None:
                found = None
                break
            if one[1] > len(last):
                break  # cut in the middle of a packet
            (found, at), records = one, records + 1
        if found is not None and (records >= _ENOUGH_RECORDS or at == len(last)):
            return found
    return None


def _of_pcapng(first: bytes, last: bytes) -> int | None:
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
            interface, high, low = struct.unpack_from(order + "III", last, end - length + 8)
            units = _units_per_s(first, order, interface)
            return None if units is None else (high << 32 | low) * NS_PER_S // units
        end -= length
    return None


def _units_per_s(first: bytes, order: str, interface: int) -> int | None:
    """What an interface of the first section counts time in; None where it is not among the first blocks."""
    at, number = 0, 0
    while at + 12 <= len(first):
        kind, length = struct.unpack_from(order + "II", first, at)
        if length < 12 or length % 4 or (kind == _SECTION and at):
            return None
        if kind == _INTERFACE:
            if number == interface:
                return _resolution(first[at + 16 : at + length - 4], order)
            number += 1
        at += length
    return None


def _resolution(options: bytes, order: str) -> int | None:
    at = 0
    while at + 4 <= len(options):
        code, length = struct.unpack_from(order + "HH", options, at)
        if code == 14:
            return None  # an offset of whole seconds; hardly anybody writes one
        if code == 9 and length == 1 and at + 4 < len(options):
            power = options[at + 4]
            return int(2 ** (power & 0x7F)) if power & 0x80 else int(10**power)
        if code == 0:
            break
        at += 4 + length + -length % 4
    return 1_000_000
