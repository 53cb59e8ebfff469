"""Sizes of rows, or of reads and writes -> SDUs, TCP segments and bytes on the wire: arithmetic, without a capture.

A fetch of SQL*Net brings `array_size` rows in one round trip. Its data are cut into SDUs, each with a header in front:
8 bytes of TNS and 2 of data flags, so that 2048 bytes hold 2038. Each SDU is one write to TCP, sent at once (as with
TCP_NODELAY), and is cut into segments of the MSS, so that no segment holds the end of one and the begin of the next.
An NFS READ reply or WRITE call is one write: record mark (RFC 5531 section 11), RPC header, arguments or results, data.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from nfslat.errors import UsageError
from nfslat.model.record import Record

HEADERS = ("tcp", "ethernet", "rpc", "sdu", "fetch")  # which `Wire`, `Sqlnet` and `transfer` have the bytes of
SDU_HEADER = 10  # TNS header 8, data flags 2
IP_TCP_HEADERS = 40  # IPv4 20, TCP 20, both without options
ETHERNET_HEADERS = 18  # header 14, frame check sequence 4 (IEEE 802.3 section 3.1.1)
_SMALLEST_FRAME = 64  # IEEE 802.3 section 3.2.8: shorter ones are padded

# RFC 5531 sections 9 and 11: record mark; xid, type, reply status, AUTH_NONE verifier (two words), accept status.
_RPC_REPLY = 4 + 6 * 4
# RFC 1813 section 3.3.6: status, post_op_attr (a word and 84 bytes), count, eof, length of the data.
READ_HEADER = _RPC_REPLY + 4 + (4 + 84) + 4 + 4 + 4
# RFC 5531: record mark; xid, message type, RPC version, program, version, procedure; AUTH_SYS (flavor, length, stamp,
# a host name of 9 to 12 bytes with its length, uid, gid, no further groups); AUTH_NONE verifier.
# RFC 1813 section 3.3.7: file handle of 16 bytes with its length, offset, count, stable, length of the data.
WRITE_HEADER = 4 + 6 * 4 + (2 * 4 + 4 + (4 + 12) + 4 + 4 + 4) + 2 * 4 + (4 + 16) + 8 + 4 + 4 + 4

# SDU sizes to set beside the one that is asked about: defaults and limits of Oracle's releases, see docs/packets.md.
_LARGER_SDUS = (8192, 65535, 2097152)
_LARGER_ARRAYS = (100, 1000)
_MOST_ALTERNATIVES = 5


class Run(Record):
    """`count` pieces of `size` bytes, one behind the other."""

    count: int
    size: int


Runs = tuple[Run, ...]


class Wire(Record):
    """What carries a message. Sizes are bytes."""

    mss: int = 1460
    ip_tcp_header: int = IP_TCP_HEADERS  # of each segment
    ethernet_header: int = ETHERNET_HEADERS  # of each frame, with its check sequence; without preamble and gap


class Sqlnet(Record):
    """How rows are fetched. Sizes are bytes."""

    sdu: int
    array_size: int  # rows of a fetch
    rows: tuple[int, ...]  # bytes of each row; when more rows are fetched they begin again
    row_count: int
    sdu_header: int = SDU_HEADER  # of each SDU, part of its size
    fetch_header: int = 0  # in front of the rows of each fetch


class Fetch(Record):
    """Fetches of one kind. Sizes are bytes; runs are in the order in which they are sent."""

    times: int
    rows: int  # of each
    row_bytes: int
    data_bytes: int  # the rows and the header in front of them; what the SDUs hold
    unit_data: Runs  # data in each SDU
    units: Runs  # these with their headers
    segments: Runs  # bytes of TCP payload
    packets: Runs  # these with IP and TCP headers
    unit_bytes: int
    packet_bytes: int
    wire_bytes: int


class Total(Record):
    """All fetches, or all RPCs."""

    round_trips: int
    payload_bytes: int  # what the application gets
    data_bytes: int
    units: int
    unit_bytes: int
    segments: int
    runts: int  # segments smaller than the MSS
    packet_bytes: int  # with IP and TCP headers
    wire_bytes: int  # with Ethernet
    payload_share: float  # of what the application gets in the bytes on the wire
    round_trip_ms: float | None  # round trips one after another


class Alternative(Record):
    """The same rows with another SDU or array size."""

    sdu: int
    array_size: int
    total: Total
    saved_round_trips: int
    saved_wire_bytes: int
    saved_ms: float | None


class Fetching(Record):
    """Rows fetched through SQL*Net; first what was asked about."""

    asked: Sqlnet
    wire: Wire
    rtt_ms: float | None
    fetches: tuple[Fetch, ...]  # by the order in which each kind comes first
    total: Total
    alternatives: tuple[Alternative, ...]


class Message(Record):
    """READ replies or WRITE calls of one kind; sizes are bytes."""

    times: int
    file_bytes: int
    bytes: int  # with record mark, RPC and NFS headers and padding to four bytes
    segments: Runs
    packets: Runs
    packet_bytes: int
    wire_bytes: int


class Transfer(Record):
    """A file read or written over NFS."""

    op: str  # READ or WRITE
    size: int  # rsize or wsize
    header: int  # in front of the data of each message
    wire: Wire
    rtt_ms: float | None
    messages: tuple[Message, ...]
    total: Total


def fetching(asked: Sqlnet, wire: Wire, rtt_ms: float | None = None) -> Fetching:
    """Raises ``UsageError`` where an SDU has no room for data."""
    kinds, total = _fetched(asked, wire, rtt_ms)
    others: list[Alternative] = []
    for sdu, array_size in _others(asked, max(kind.data_bytes for kind in kinds)):
        with_it = Sqlnet(sdu, array_size, asked.rows, asked.row_count, asked.sdu_header, asked.fetch_header)
        other = _fetched(with_it, wire, rtt_ms)[1]
        trips, saved_bytes = total.round_trips - other.round_trips, total.wire_bytes - other.wire_bytes
        if other != total and all(other != one.total for one in others):
            saved_ms = None if rtt_ms is None else trips * rtt_ms
            others.append(Alternative(sdu, array_size, other, trips, saved_bytes, saved_ms))
    return Fetching(asked, wire, rtt_ms, tuple(kinds), total, tuple(others[:_MOST_ALTERNATIVES]))


def transfer(op: str, size: int, file_bytes: int, wire: Wire, rtt_ms: float | None, header: int | None) -> Transfer:
    """`file_bytes` of a file by READs or WRITEs of `size`; `header` None: see `READ_HEADER` and `WRITE_HEADER`."""
    header = (READ_HEADER if op == "READ" else WRITE_HEADER) if header is None else header
    messages = []
    for run in cut(file_bytes, size):
        whole = header + run.size + -run.size % 4  # RFC 4506 section 4.10: opaque data are padded
        segments, packets, wire_bytes = _sent((Run(1, whole),), wire)
        messages.append(Message(run.count, run.size, whole, segments, packets, _bytes(packets), wire_bytes))
    total = _total(
        [
            (m.times, m.file_bytes, m.bytes, (Run(1, m.bytes),), m.segments, m.packet_bytes, m.wire_bytes)
            for m in messages
        ],
        wire,
        rtt_ms,
    )
    return Transfer(op, size, header, wire, rtt_ms, tuple(messages), total)


def cut(total: int, most: int) -> Runs:
    """`total` bytes in pieces of `most` and one for the rest."""
    full, rest = divmod(total, most)
    return _joined([Run(full, most), Run(1, rest)])


def _joined(runs: Sequence[Run]) -> Runs:
    """Without empty ones; equal neighbours are one."""
    found: list[Run] = []
    for run in runs:
        if not run.count or not run.size:
            continue
        if found and found[-1].size == run.size:
            found[-1] = Run(found[-1].count + run.count, run.size)
        else:
            found.append(run)
    return tuple(found)


def _bytes(runs: Runs) -> int:
    return sum(run.count * run.size for run in runs)


def _count(runs: Runs) -> int:
    return sum(run.count for run in runs)


def _sent(writes: Runs, wire: Wire) -> tuple[Runs, Runs, int]:
    """Segments of writes, each of its own; packets; bytes on the wire.

    Writes of one size that need several segments alternate (1460, 588, 1460, 588): their sizes are told once, as all
    full ones and all rests.
    """
    segments = _joined(
        [
            Run(piece.count * write.count, piece.size)
            for write in writes
            for piece in cut(write.size, wire.mss)
        ]
    )  # fmt: skip
    packets = tuple(Run(run.count, run.size + wire.ip_tcp_header) for run in segments)
    smallest = _SMALLEST_FRAME if wire.ethernet_header else 0
    frames = sum(run.count * max(run.size + wire.ethernet_header, smallest) for run in packets)
    return segments, packets, frames


def _fetched(asked: Sqlnet, wire: Wire, rtt_ms: float | None) -> tuple[list[Fetch], Total]:
    room = asked.sdu - asked.sdu_header
    if room < 1:
        raise UsageError(f"an SDU of {asked.sdu} bytes has no room for data behind its header of {asked.sdu_header}")
    kinds = []
    for times, rows, row_bytes in _grouped(asked):
        data = row_bytes + asked.fetch_header
        held = cut(data, room)
        units = tuple(Run(run.count, run.size + asked.sdu_header) for run in held)
        segments, packets, wire_bytes = _sent(units, wire)
        kinds.append(
            Fetch(
                times, rows, row_bytes, data, held, units, segments, packets, _bytes(units), _bytes(packets), wire_bytes
            )
        )
    total = _total(
        [(k.times, k.row_bytes, k.data_bytes, k.units, k.segments, k.packet_bytes, k.wire_bytes) for k in kinds],
        wire,
        rtt_ms,
    )
    return kinds, total


def _grouped(asked: Sqlnet) -> list[tuple[int, int, int]]:
    """(fetches, rows of each, bytes of these rows) by the first fetch of its kind."""
    sums = [0]
    for size in asked.rows:
        sums.append(sums[-1] + size)
    period = len(asked.rows)

    def up_to(row: int) -> int:
        again, rest = divmod(row, period)
        return again * sums[-1] + sums[rest]

    full, rest = divmod(asked.row_count, asked.array_size)
    # Fetch k begins at row k * array_size of a list that repeats: so do the fetches.
    different = min(full, period // math.gcd(asked.array_size, period))
    kinds: dict[tuple[int, int], int] = {}
    for first in range(different):
        begin = first * asked.array_size
        kind = asked.array_size, up_to(begin + asked.array_size) - up_to(begin)
        kinds[kind] = kinds.get(kind, 0) + -(-(full - first) // different)
    if rest:
        kind = rest, up_to(asked.row_count) - up_to(asked.row_count - rest)
        kinds[kind] = kinds.get(kind, 0) + 1
    return [(times, rows, row_bytes) for (rows, row_bytes), times in kinds.items()]


_Kind = tuple[int, int, int, Runs, Runs, int, int]  # times; of each: payload, data, writes, segments, packets, wire


def _total(kinds: Sequence[_Kind], wire: Wire, rtt_ms: float | None) -> Total:
    trips = sum(times for times, *_ in kinds)
    payload, wire_bytes = sum(k[0] * k[1] for k in kinds), sum(k[0] * k[6] for k in kinds)
    return Total(
        round_trips=trips,
        payload_bytes=payload,
        data_bytes=sum(k[0] * k[2] for k in kinds),
        units=sum(k[0] * _count(k[3]) for k in kinds),
        unit_bytes=sum(k[0] * _bytes(k[3]) for k in kinds),
        segments=sum(k[0] * _count(k[4]) for k in kinds),
        runts=sum(k[0] * run.count for k in kinds for run in k[4] if run.size < wire.mss),
        packet_bytes=sum(k[0] * k[5] for k in kinds),
        wire_bytes=wire_bytes,
        payload_share=payload / wire_bytes,
        round_trip_ms=None if rtt_ms is None else trips * rtt_ms,
    )


def _others(asked: Sqlnet, largest: int) -> list[tuple[int, int]]:
    """SDU and array sizes worth a look: the next larger ones, one at a time, then both."""
    sdus = [sdu for sdu in _LARGER_SDUS if sdu > asked.sdu][:2]
    arrays = [rows for rows in _LARGER_ARRAYS if asked.array_size < rows]
    if asked.array_size < asked.row_count < _LARGER_ARRAYS[-1]:  # all of them at once, and no more
        arrays = sorted({min(rows, asked.row_count) for rows in arrays})
    pairs = [(sdu, asked.array_size) for sdu in sdus if largest > asked.sdu - asked.sdu_header]
    if asked.row_count > asked.array_size:
        pairs += [(asked.sdu, rows) for rows in arrays]
        pairs += [(sdus[-1], arrays[-1])] if sdus and arrays else []
    return pairs
