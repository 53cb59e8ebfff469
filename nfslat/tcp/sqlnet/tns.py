"""Bytes and packets of a conversation -> its TNS packets: the handshake, and the headers that begin a TCP packet.

TNS (Transparent Network Substrate) carries SQL*Net. It is told by its content, not by a port: each of its packets has a
header of 8 bytes: length (2, and 2 of checksum, which nobody uses; from version 315 on 4 bytes of length once a
connection is accepted), type, flags, checksum of the header (2). Fields of connect and accept packets as Wireshark's
packet-tns.c names them; the 32-bit sizes behind them as python-oracledb's thin mode sends and reads them
(impl/thin/messages/connect.pyx).
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from enum import IntEnum

import numpy as np

from nfslat.kernels.compiled import native
from nfslat.model.record import Record
from nfslat.model.tables import I64, Bool
from nfslat.tcp.packets import Kind, Packets, Talk


class Type(IntEnum):
    """Of a TNS packet."""

    CONNECT = 1
    ACCEPT = 2
    ACK = 3
    REFUSE = 4
    REDIRECT = 5
    DATA = 6
    NULL = 7
    ABORT = 9
    RESEND = 11
    MARKER = 12
    ATTENTION = 13
    CONTROL = 14
    DATA_DESCRIPTOR = 15  # bytes that its length does not count follow it


HEADER = 8
_HIGHEST_TYPE = 19
LONG_LENGTHS = 315  # version from which lengths have 4 bytes
_LARGEST = 2 << 20  # the largest SDU there is
_NO_CHECKSUM = (0, 4)  # 10g clients write a 4, says packet-tns.c
_ONE = (b"\x00\x01", b"\x01\x00")  # "value of 1 in hardware": the byte order of the sender
_FEWEST = 4  # data packets by which TNS is told where no handshake was captured
_SERVICE = re.compile(rb"\(\s*(?:SERVICE_NAME|SID)\s*=\s*([^()\s]{1,128})", re.IGNORECASE)
_PROGRAM = re.compile(rb"\(\s*PROGRAM\s*=\s*([^()]{1,128})", re.IGNORECASE)
_ERROR = re.compile(rb"\(\s*(?:ERR|CODE)\s*=\s*(\d{1,5})(?!\d)", re.IGNORECASE)
_TARGET = re.compile(rb"\(\s*(HOST|PORT)\s*=\s*([^()\s]{1,64})", re.IGNORECASE)


class Connect(Record):
    """What a client asked for. Sizes in bytes."""

    version: int
    min_version: int
    service_options: int
    sdu_bytes: int
    tdu_bytes: int
    service: str | None  # SERVICE_NAME or SID; None: not captured
    program: str | None


class Accept(Record):
    """What a server agreed to. Sizes in bytes."""

    version: int
    service_options: int
    sdu_bytes: int
    tdu_bytes: int


class Headers(Record):
    """TNS headers of one direction, in stream order."""

    at: I64  # position
    length: I64
    type: I64
    rows: I64  # rows of the conversation's packets
    confirmed: int  # those that end where another packet begins, or where everything does
    stream_bytes: int
    seen_bytes: int


# Handshake: whole packets at the begin of a stream


def _whole(talk: Talk, direction: int) -> Iterator[bytes]:
    """TNS packets at the begin of a stream as far as they were captured: those that begin a TCP packet, and behind."""
    head = talk.conversation.ways[direction].head
    packets = talk.packets
    mine = (packets.direction == direction) & (packets.size > 0) & (packets.seq >= 0) & (packets.seq < len(head))
    end = 0
    for start in np.unique(np.append(packets.seq[mine], 0)).tolist():
        at = start
        while at >= end and (length := _length(head[at : at + HEADER])):
            end = at + length
            yield head[at:end]
            at = end


def _length(header: bytes) -> int:
    """What a header says, in either form; 0: it is none."""
    if len(header) < HEADER or not 1 <= header[4] <= _HIGHEST_TYPE or header[6:8] != b"\0\0":
        return 0
    short, check = int.from_bytes(header[:2], "big"), int.from_bytes(header[2:4], "big")
    length = short if check in _NO_CHECKSUM and short else int.from_bytes(header[:4], "big")
    return length if HEADER <= length <= _LARGEST else 0


def _number(packet: bytes, at: int, size: int = 2) -> int:
    return int.from_bytes(packet[at : at + size], "big")


def connects(talk: Talk, direction: int) -> list[Connect]:
    """Connect packets at the begin of a stream."""
    found: list[Connect] = []
    for packet in _whole(talk, direction):
        if packet[4] == Type.CONNECT and len(packet) >= 34 and packet[22:24] in _ONE:
            found.append(_connect(packet))
        elif packet[4] == Type.DATA and found and found[-1].service is None:
            # Long connect data have a data packet of their own.
            found[-1] = _with_data(found[-1], packet)
    return found


def _connect(packet: bytes) -> Connect:
    version, data_at = _number(packet, 8), _number(packet, 26)
    sdu, tdu = _number(packet, 14), _number(packet, 16)
    if version >= LONG_LENGTHS and min(data_at, len(packet)) >= 66:
        sdu, tdu = _number(packet, 58, 4) or sdu, _number(packet, 62, 4) or tdu
    bare = Connect(version, _number(packet, 10), _number(packet, 12), sdu, tdu, None, None)
    return _with_data(bare, packet[data_at:] if data_at >= 34 else b"")


def _with_data(connect: Connect, data: bytes) -> Connect:
    service, program = _SERVICE.search(data), _PROGRAM.search(data)
    return Connect(
        connect.version,
        connect.min_version,
        connect.service_options,
        connect.sdu_bytes,
        connect.tdu_bytes,
        _text(service[1]) if service else None,
        _text(program[1]) if program else None,
    )


def _text(raw: bytes) -> str:
    return raw.decode("utf-8", "replace")


def accepted(talk: Talk, direction: int) -> Accept | None:
    """The accept packet at the begin of a stream."""
    for packet in _whole(talk, direction):
        if packet[4] == Type.ACCEPT and len(packet) >= 24 and packet[16:18] in _ONE:
            version, sdu, tdu = _number(packet, 8), _number(packet, 12), _number(packet, 14)
            if version >= LONG_LENGTHS and len(packet) >= 40:
                sdu, tdu = _number(packet, 32, 4) or sdu, _number(packet, 36, 4) or tdu
            return Accept(version, _number(packet, 10), sdu, tdu)
    return None


def turned_away(talk: Talk, server: int) -> tuple[int | None, str | None]:
    """(Number of the refusal, where the client was sent to) in packets at the begin of the server's stream."""
    refused, target, redirected = None, None, False
    for packet in _whole(talk, server):
        if packet[4] == Type.REFUSE and refused is None:
            code = _ERROR.search(packet)
            refused = int(code[1]) if code else 0
        redirected = redirected or packet[4] == Type.REDIRECT
        if redirected and target is None:  # the address may have a data packet of its own
            parts = {name.upper(): value for name, value in _TARGET.findall(packet)}
            target = _text(b":".join(parts[name] for name in (b"HOST", b"PORT") if name in parts)) or None
    return refused, target


# Headers: those at the begin of TCP packets


def has_new_data(packets: Packets) -> Bool:
    """Of each packet: whether it holds bytes that were not seen before."""
    new = (packets.kind == Kind.NEW) | (packets.kind == Kind.AHEAD) | (packets.kind == Kind.OUT_OF_ORDER)
    new &= packets.size > 0
    for way in (0, 1):
        data = np.flatnonzero((packets.direction == way) & (packets.size > 0))
        new[data[native.never_seen(packets, data)]] = True
    return np.asarray(new)


def headers(packets: Packets, direction: int, accept: Accept | None) -> Headers:
    """Of the TNS packets that begin a TCP packet; of others nothing can be seen behind the begin of the stream."""
    rows = np.flatnonzero((packets.direction == direction) & has_new_data(packets))
    rows = rows[np.argsort(packets.seq[rows], kind="stable")]
    begin, end = packets.seq[rows], packets.seq[rows] + packets.size[rows].astype(np.int64)
    stream = _covered(begin, end)
    head = packets.head[rows]
    kind = ((head >> np.uint64(24)) & np.uint64(0xFF)).astype(np.int64)
    check = ((head >> np.uint64(32)) & np.uint64(0xFFFF)).astype(np.int64)
    short, whole = (head >> np.uint64(48)).astype(np.int64), (head >> np.uint64(32)).astype(np.int64)
    largest = _LARGEST if accept is None else max(accept.sdu_bytes, 0xFFFF)
    is_short = ((check == _NO_CHECKSUM[0]) | (check == _NO_CHECKSUM[1])) & (short >= HEADER)
    if accept is not None and accept.version >= LONG_LENGTHS:
        # 65536 times what a short length would be: nobody sends so little data in a packet.
        is_short &= (kind != Type.DATA) | (whole > largest)
    length = np.where(is_short, short, whole)
    fits = (length >= HEADER) & (length <= largest) & (kind >= 1) & (kind <= _HIGHEST_TYPE)
    fits &= ((head & np.uint64(0xFFFF)) == 0) & (packets.head_size[rows] == HEADER)
    at = np.flatnonzero(fits)
    at = at[_outside_each_other(begin[at], begin[at] + length[at])]
    ends = begin[at] + length[at]
    top = int(end.max()) if len(end) else 0
    known = np.searchsorted(begin, ends)
    meets = (ends == top) | (begin[np.minimum(known, max(len(begin) - 1, 0))] == ends) if len(at) else np.zeros(0, bool)
    return Headers(
        at=begin[at],
        length=length[at],
        type=kind[at],
        rows=rows[at],
        confirmed=int(np.count_nonzero(meets)),
        stream_bytes=stream,
        seen_bytes=_inside(begin[at], ends, begin, end),
    )


def _outside_each_other(begin: I64, end: I64) -> I64:
    """Places of headers that stand in no packet of the headers taken before them; both in stream order.

    A header says where the next one can be: a chain from the first. It is followed by doubling its steps, so that
    millions of headers take a few passes.
    """
    rows = len(begin)
    if rows < 2 or bool(np.all(begin[1:] >= np.maximum.accumulate(end)[:-1])):
        return np.arange(rows)
    step = np.append(np.searchsorted(begin, end), rows)
    taken = np.zeros(rows + 1, bool)
    taken[0] = True
    for _ in range(rows.bit_length()):
        taken[step[taken]] = True
        step = step[step]
    return np.flatnonzero(taken[:rows])


def _covered(begin: I64, end: I64) -> int:
    """Bytes of a stream in ranges that may overlap, in order of their begin."""
    if not len(begin):
        return 0
    before = np.concatenate([begin[:1], np.maximum.accumulate(end)[:-1]])
    return int(np.maximum(end - np.maximum(begin, before), 0).sum())


def _inside(begin: I64, end: I64, part_begin: I64, part_end: I64) -> int:
    """Bytes of the stream's parts that lie in ranges which do not overlap."""
    if not len(begin):
        return 0
    before = np.concatenate([part_begin[:1], np.maximum.accumulate(part_end)[:-1]])
    first, last = np.maximum(part_begin, before), part_end
    keep = last > first
    first, last = first[keep], last[keep]
    total = np.concatenate([[0], np.cumsum(last - first)])

    def up_to(position: I64) -> I64:
        place = np.searchsorted(first, position, side="right")
        inside = np.where(place > 0, np.minimum(position, last[place - 1]) - first[place - 1], 0)
        return total[np.maximum(place - 1, 0)] + inside

    return int((up_to(end) - up_to(begin)).sum())


def is_tns(found: list[Headers]) -> bool:
    """Headers in a row: bytes that look like one by chance do not say where the next one is."""
    data = sum(int(np.count_nonzero(one.type == Type.DATA)) for one in found)
    headers, confirmed = sum(len(one.at) for one in found), sum(one.confirmed for one in found)
    return data >= _FEWEST and 2 * confirmed >= headers
