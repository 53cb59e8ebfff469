"""Bytes of captures that follow one another, each cut off anywhere -> whole packets of one capture, in pipes.

A connection that was lost, and a file that is being written, end in the middle of a packet; there the decoder would
stop.
"""

from __future__ import annotations

import contextlib
import errno
import os
import select
import struct
import threading
from collections.abc import Sequence

from nfslat.errors import InputError
from nfslat.model.units import NS_PER_S

# Bytes of a pcap file's head and of that of its packets, and of the least block of pcapng.
_HEADER, _RECORD, _BLOCK = 24, 16, 12
_LOOK_MS = 200
_MOST_PACKET_BYTES = 1 << 24  # bytes of a packet: more is damage
_PCAP = {  # the magic number: order of bytes, ns in the smaller unit of time
    b"\xd4\xc3\xb2\xa1": ("<", 1000),
    b"\xa1\xb2\xc3\xd4": (">", 1000),
    b"\x4d\x3c\xb2\xa1": ("<", 1),
    b"\xa1\xb2\x3c\x4d": (">", 1),
}
_SECTION = b"\x0a\x0d\x0d\x0a"
_ORDERS = {b"\x4d\x3c\x2b\x1a": "<", b"\x1a\x2b\x3c\x4d": ">"}
_INTERFACE, _PACKET, _RESOLUTION = 1, 6, 9  # blocks of pcapng, and an option


class Splice:
    """Writes to one pipe or several. What it knows may be read by other threads."""

    def __init__(self, outs: Sequence[int], name: str) -> None:
        """`name` is for messages."""
        self.packets = self.bytes = 0
        self.wire_bytes = 0  # of the packets, had all of each been captured
        self.first_ns: int | None = None  # of the first packet since `begin`
        self.last_ns: int | None = None  # of the last packet, on its clock
        self._outs, self._name = {out: select.poll() for out in outs}, name
        for out, room in self._outs.items():
            os.set_blocking(out, False)
            room.register(out, select.POLLOUT)
        self._is_over = False
        self._held = b""
        self._is_first = self._at_header = True
        self._kind: bytes = b""  # magic number and link type, or pcapng's
        self._order, self._unit_ns = "<", 1000
        self._units: list[int] = []  # of a second, by interface of a section
        self._lock = threading.Lock()  # packets are whole in the pipe

    def begin(self) -> None:
        """Another capture follows: what is incomplete is dropped."""
        self._held, self._at_header, self.first_ns = b"", True, None

    def take(self, data: bytes) -> None:
        """The next bytes. Raises ``InputError`` where they are no capture, or one of another kind than before, and
        ``OSError`` where nobody reads any more."""
        held = self._held + data if self._held else data
        start = 0
        if self._at_header:
            begin = self._header(held)
            if begin is None:
                self._held = held
                return
            start = begin
        end = self._blocks(held, start) if self._kind == _SECTION else self._records(held, start)
        self._held = held[end:]
        self._write(held[start:end])

    def tick(self, t_ns: int) -> None:
        """Nothing came until then: a packet of no bytes moves the decoder's clock on, unless it is busy."""
        if not self._kind or self._kind == _SECTION or not self._lock.acquire(blocking=False):
            return
        try:
            seconds, rest = divmod(t_ns, NS_PER_S)
            self._put(struct.pack(f"{self._order}4I", seconds, rest // self._unit_ns, 0, 0))
        finally:
            self._lock.release()

    def _write(self, data: bytes) -> None:
        if data:
            with self._lock:
                self._put(data)
            self.bytes += len(data)

    def _put(self, data: bytes) -> None:
        self._refuse_over()
        for out, room in self._outs.items():
            view = memoryview(data)
            while view:
                self._refuse_over()
                # A decoder that was told to stop reads no more, and may hold its end open.
                if room.poll(_LOOK_MS):
                    with contextlib.suppress(BlockingIOError):
                        view = view[os.write(out, view) :]

    def _refuse_over(self) -> None:
        if self._is_over:
            raise OSError(errno.EPIPE, os.strerror(errno.EPIPE))

    def close(self) -> None:
        """The decoder finds the end."""
        self._is_over = True
        with self._lock:
            while self._outs:
                os.close(self._outs.popitem()[0])

    def _header(self, data: bytes) -> int | None:
        """Where packets begin; None: more is needed."""
        if len(data) < _HEADER:
            return None
        magic = data[:4]
        if magic == _SECTION:
            kind, start = _SECTION, 0
        elif magic in _PCAP:
            self._order, self._unit_ns = _PCAP[magic]
            kind, start = magic + data[20:24], _HEADER
        else:
            raise InputError("neither pcap nor pcapng", about=self._name)
        if self._is_first:
            self._kind, self._is_first = kind, False
            self._write(data[:start])
        elif kind != self._kind:
            raise InputError("goes on as a capture of another kind, or of another kind of network", about=self._name)
        self._at_header = False
        return start

    def _records(self, data: bytes, at: int) -> int:
        head = struct.Struct(f"{self._order}4I")
        size, last, first, packets, wire_bytes = len(data), -1, at, 0, 0
        while at + _RECORD <= size:
            _, _, length, whole = head.unpack_from(data, at)
            if length > _MOST_PACKET_BYTES:
                raise InputError("is damaged: a packet has no end", about=self._name)
            if at + _RECORD + length > size:
                break
            last = at
            at += _RECORD + length
            packets += 1
            wire_bytes += whole
        self.packets += packets
        self.wire_bytes += wire_bytes
        if last >= 0:
            self._saw(self._time(head, data, first), self._time(head, data, last))
        return at

    def _time(self, head: struct.Struct, data: bytes, at: int) -> int:
        seconds, rest = head.unpack_from(data, at)[:2]
        return int(seconds * NS_PER_S + rest * self._unit_ns)

    def _saw(self, first_ns: int, last_ns: int) -> None:
        if self.first_ns is None:
            self.first_ns = first_ns
        self.last_ns = last_ns

    def _blocks(self, data: bytes, at: int) -> int:
        while at + _BLOCK <= len(data):
            if data[at : at + 4] == _SECTION:
                order = _ORDERS.get(data[at + 8 : at + 12])
                if order is None:
                    raise InputError("is damaged: a section has no order of bytes", about=self._name)
                self._order, self._units = order, []
            kind, length = struct.unpack_from(f"{self._order}2I", data, at)
            if not _BLOCK <= length <= _MOST_PACKET_BYTES:
                raise InputError("is damaged: a block has no end", about=self._name)
            if at + length > len(data):
                break
            if kind == _INTERFACE:
                self._units.append(_per_second(data[at + 16 : at + length - 4], self._order))
            elif kind == _PACKET and length >= 28:
                number, high, low, _, whole = struct.unpack_from(f"{self._order}5I", data, at + 8)
                self.wire_bytes += whole
                if number < len(self._units):
                    t_ns = ((high << 32) + low) * NS_PER_S // self._units[number]
                    self._saw(t_ns, t_ns)
                self.packets += 1
            at += length
        return at


def _per_second(options: bytes, order: str) -> int:
    """Units of an interface's times in a second."""
    at = 0
    while at + 4 <= len(options):
        code, length = struct.unpack_from(f"{order}2H", options, at)
        if code == _RESOLUTION and length == 1 and at + 4 < len(options):
            power = options[at + 4]
            return int(2 ** (power & 0x7F) if power & 0x80 else 10**power)
        if code == 0:
            break
        at += 4 + (length + 3) // 4 * 4
    return 1_000_000
