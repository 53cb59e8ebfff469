"""Connections of MPTCP (RFC 8684) written by hand: subflows, each a `Timeline` with the options in its packets."""

from __future__ import annotations

import hashlib
import struct
from dataclasses import dataclass, field, replace
from pathlib import Path

from timeline import Line, Timeline
from wire import write_pcap

KEYS = (
    0x0102030405143484,
    0x11121314152232DF,
)  # the numbers of version 1 wrap after 486 and 2,666 bytes
_WAYS = (">", "<")


def _digest(version: int, way: int) -> bytes:
    return (hashlib.sha256 if version else hashlib.sha1)(struct.pack(">Q", KEYS[way])).digest()


@dataclass
class Multipath:
    """Positions are bytes of the connection. The first subflow has the MP_CAPABLE, the others join it, from the client
    unless `joins_back` has their number."""

    version: int = 1
    scale: int = 0
    is_short: bool = False  # numbers of 4 bytes, not 8
    mapping: int = 1460  # bytes that a mapping is of; a packet is of no more
    joins_back: frozenset[int] = frozenset()
    flows: list[Timeline] = field(default_factory=list)
    sent: dict[str, int] = field(default_factory=lambda: {">": 0, "<": 0})

    def open(self, ms: float) -> int:
        """Another subflow, its handshake beginning at `ms`."""
        number = len(self.flows)
        client, server = (f"10.0.{number}.1", 40_000 + number), ("10.0.0.2", 1521)
        back = number in self.joins_back
        line = Timeline(client=server if back else client, server=client if back else server, scale=self.scale)
        line.handshake(ms)
        if number == 0:
            first = [KEYS[:0] if self.version else KEYS[:1], KEYS[1:], KEYS]
            options = [self._option(0, self.version, b"\x81", *map(_key, keys)) for keys in first]
        else:
            token = _digest(self.version, 0 if back else 1)[:4]
            options = [self._option(1, 0, b"\x07", token, bytes(4)), self._option(1, 0, b"\x07", bytes(12))]
            options.append(self._option(1, 0, b"\x00", bytes(20)))
        line.lines[:] = [replace(one, options=more) for one, more in zip(line.lines, options, strict=True)]
        self.flows.append(line)
        return number

    def send(self, flow: int, ms: float, way: str, size: int, *, at: int | None = None, first: bool = False) -> Line:
        """A packet with the connection's next bytes, or those from `at` on; with MP_CAPABLE if it is the `first`."""
        begin = self.sent[way] if at is None else at
        self.sent[way] = max(self.sent[way], begin + size)
        line = self.flows[flow]
        start = line.next[self._own(flow, way)]
        ahead = start % self.mapping if at is None else 0
        number = self._number(way, begin - ahead)
        options = self._dss(4, number + struct.pack(">IH", start - ahead + 1, self.mapping if at is None else size))
        if first:
            options = self._option(0, self.version, b"\x81", *map(_key, KEYS), struct.pack(">H", size))
        return self._with(line, line.send(ms, self._own(flow, way), size), options)

    def ack(self, flow: int, ms: float, way: str, upto: int, *, window: int | None = None) -> Line:
        """A packet without payload whose DATA_ACK covers what the other side has sent below `upto`."""
        line = self.flows[flow]
        other = "<" if way == ">" else ">"
        return self._with(
            line, line.ack(ms, self._own(flow, way), window=window), self._dss(1, self._number(other, upto))
        )

    def write(self, path: Path, *, only: tuple[int, ...] | None = None, snaplen: int = 262_144) -> Path:
        """A pcap file with all packets, or those of some of the subflows."""
        flows = [flow for number, flow in enumerate(self.flows) if only is None or number in only]
        return write_pcap(path, *(flow.seen() for flow in flows), nano=True, snaplen=snaplen)

    def _own(self, flow: int, way: str) -> str:
        """What a direction is called in a subflow."""
        return "<>"[_WAYS.index(way)] if flow in self.joins_back else way

    @staticmethod
    def _with(flow: Timeline, line: Line, options: bytes) -> Line:
        at = next(at for at, one in enumerate(flow.lines) if one is line)
        flow.lines[at] = replace(line, options=options)
        return flow.lines[at]

    def _number(self, way: str, position: int) -> bytes:
        first = int.from_bytes(_digest(self.version, _WAYS.index(way))[-8:]) + 1
        number = struct.pack(">Q", (first + position) % (1 << 64))
        return number[4:] if self.is_short else number

    def _dss(self, has: int, body: bytes) -> bytes:
        return self._option(2, 0, bytes([has if self.is_short else has * 3]), body)

    @staticmethod
    def _option(subtype: int, low: int, *parts: bytes) -> bytes:
        body = bytes([subtype << 4 | low]) + b"".join(parts)
        return bytes([30, 2 + len(body)]) + body


def _key(key: int) -> bytes:
    return struct.pack(">Q", key)
