"""The TCP segments of a connection with RPC, as a table: what the decoder of messages does not keep of each packet."""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum

from nfslat.model.record import Record
from nfslat.model.tables import I32, I64, U8, U32, Table

# Bits of `Segments.marks`; those of flags are where TCP has them (RFC 9293 section 3.1).
BACK, SYN, RST = 0x01, 0x02, 0x04  # BACK: of direction 1
AGAIN = 0x08  # bytes that were sent before, keep-alives and probes of closed windows
TWICE = 0x20  # says of bytes that they came twice (RFC 2883)


class Wanted(IntEnum):
    """Which segments a capture is decoded for. By numbers, which the decoder knows."""

    NONE = 0
    SOME = 1  # stretches of packets all over it, 262,144 segments at most
    ALL = 2


@dataclass(frozen=True, eq=False, repr=False)
class Segments(Table):
    """One row a segment of one connection, in capture order; one that was captured twice has one row. Positions are
    bytes from the first one of their direction, and do not wrap."""

    frame: I32
    t_ns: I64
    seq: I64
    size: I32  # bytes of payload, as they were on the wire
    ack: I64  # position in the other direction; NULL without the flag, and where it cannot be
    ts_val: U32  # TSval of the timestamps option (RFC 7323); NULL32 without
    marks: U8


class Talks(Record):
    """The segments of several connections, one connection behind the other, as they are stored; `rows` has how many
    each of them has."""

    segments: Segments
    rows: tuple[int, ...]
