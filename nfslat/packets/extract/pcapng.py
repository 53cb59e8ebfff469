"""Packets -> a pcapng file with interfaces and comments, and editcap's pcapng -> packets; the four blocks that takes.

Format: draft-ietf-opsawg-pcapng, sections 4.1 to 4.3. python-pcapng would do the same, with deprecation warnings of its
own; scapy writes no names of interfaces.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import BinaryIO

from nfslat.errors import ToolError

_SECTION, _INTERFACE, _PACKET = 0x0A0D0D0A, 1, 6
_LITTLE = 0x1A2B3C4D
_COMMENT, _APPLICATION, _NAME, _DESCRIPTION, _RESOLUTION = 1, 4, 2, 3, 9
_NS = b"\x09"  # of _RESOLUTION: 10^-9 s
_SNAPLEN = 262_144  # as tcpdump's
_MOST_OPTION = 0xFFFF  # bytes


class Writer:
    """Writes one section to `out`; times are ns since 1970."""

    def __init__(self, out: BinaryIO, application: str) -> None:
        self._out = out
        self._interfaces = 0
        self._block(_SECTION, struct.pack("<IHHq", _LITTLE, 1, 0, -1) + _options((_APPLICATION, application.encode())))

    def interface(self, name: str, description: str, link_type: int) -> int:
        """Begin an interface; returns its number."""
        options = _options((_NAME, name.encode()), (_DESCRIPTION, description.encode()), (_RESOLUTION, _NS))
        self._block(_INTERFACE, struct.pack("<HHI", link_type, 0, _SNAPLEN) + options)
        self._interfaces += 1
        return self._interfaces - 1

    def packet(self, interface: int, t_ns: int, data: bytes, length: int, comment: str) -> None:
        """Write a packet, of which `length` bytes were on the wire. Raises ``struct.error`` for a negative time."""
        head = struct.pack("<IIIII", interface, t_ns >> 32, t_ns & 0xFFFFFFFF, len(data), length)
        self._block(_PACKET, head + _padded(data) + _options((_COMMENT, comment.encode())))

    def _block(self, kind: int, body: bytes) -> None:
        length = struct.pack("<I", len(body) + 12)
        self._out.write(struct.pack("<I", kind) + length + body + length)


def packets(stream: BinaryIO) -> Iterator[tuple[int, bytes]]:
    """(link type, data) of each packet of one section, as editcap writes it in the byte order of this machine.

    Raises ``ToolError`` where it is something else.
    """
    link_types: list[int] = []
    order = "="
    while head := stream.read(8):
        kind, length = struct.unpack(order + "II", head.ljust(8, b"\0"))
        body = stream.read(max(length - 8, 0))
        if length < 12 or len(body) != length - 8:
            raise ToolError("editcap wrote a pcapng file that ends early; is the disk for temporary files full?")
        if kind == _INTERFACE:
            link_types.append(struct.unpack_from(order + "H", body)[0])
        elif kind == _PACKET:
            interface, _, _, captured = struct.unpack_from(order + "IIII", body)
            yield link_types[interface], body[20 : 20 + captured]


def _options(*options: tuple[int, bytes]) -> bytes:
    return b"".join(
        struct.pack("<HH", code, len(value[:_MOST_OPTION])) + _padded(value[:_MOST_OPTION]) for code, value in options
    ) + bytes(4)


def _padded(data: bytes) -> bytes:
    return data + bytes(-len(data) % 4)
