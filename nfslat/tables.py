"""Every table that passes between stages: frozen numpy columns of one length, and what must hold for them.

Conventions for all tables: integers are signed, times are int64 nanoseconds since 1970 on the clock of their capture,
-1 (``constants.NULL``) is null, frame numbers are 1-based and count through a set of rotated files. A table checks its
dtypes and lengths when it is made and sets its columns read-only; `check` holds the invariants that cost a pass.
"""

from __future__ import annotations

import dataclasses
from array import array
from collections.abc import Iterable
from dataclasses import dataclass
from enum import IntEnum
from typing import Any, Self

import numpy as np
import numpy.typing as npt

I64 = npt.NDArray[np.int64]
I8 = npt.NDArray[np.int8]
I32 = npt.NDArray[np.int32]
Bool = npt.NDArray[np.bool_]

_DTYPES = {"I64": np.int64, "I32": np.int32, "I8": np.int8, "Bool": np.bool_}


class State(IntEnum):
    """The one state in which every RPC message of a capture ends; their counts add up (docs/method.md)."""

    PAIRED = 0  # the call, or the reply, that an op is made of
    NO_REPLY = 1  # a call whose reply is not in the capture
    NO_CALL = 2  # a reply whose call is not in the capture
    RETRANSMITTED = 3  # sent again, by TCP or by RPC, or answered again: belongs to an op or a call that is counted
    DUPLICATE_FRAME = 4  # the same packet captured twice
    HEADER_NOT_CAPTURED = 5  # a message is known to begin here, its header cannot be seen
    MALFORMED = 6  # a header that makes no sense


class Miss(IntEnum):
    """Why an op of one capture has no partner in the other (docs/method.md)."""

    MATCHED = 0
    OUTSIDE_OVERLAP = 1  # it happened while the other capture was not running
    NOT_CAPTURED_AT_SERVER = 2
    NOT_CAPTURED_AT_CLIENT = 3
    CONNECTION_UNMATCHED = 4  # nothing of its connection is in the other capture
    AMBIGUOUS = 5  # several candidates, and nothing to tell them apart


@dataclass(frozen=True, eq=False)
class Table:
    """Columns of equal length; subclasses name them. Raises ``ValueError`` on a wrong dtype or length."""

    def __post_init__(self) -> None:
        rows = None
        for field in dataclasses.fields(self):
            column = getattr(self, field.name)
            want = _DTYPES.get(str(field.type))
            if want is None:
                continue
            if not isinstance(column, np.ndarray) or column.dtype != want:
                raise ValueError(f"{type(self).__name__}.{field.name}: {want.__name__} column expected")
            rows = len(column) if rows is None else rows
            if column.ndim != 1 or len(column) != rows:
                raise ValueError(f"{type(self).__name__}.{field.name}: {rows} rows expected")
            column.setflags(write=False)

    def __len__(self) -> int:
        """Rows."""
        return next(len(getattr(self, f.name)) for f in dataclasses.fields(self) if str(f.type) in _DTYPES)

    def take(self, index: I64 | Bool) -> Self:
        """The rows at `index` (row numbers or a mask), in that order."""
        columns = {f.name: getattr(self, f.name)[index] for f in dataclasses.fields(self) if str(f.type) in _DTYPES}
        return dataclasses.replace(self, **columns)

    @classmethod
    def from_columns(cls, columns: dict[str, Any], **others: Any) -> Self:
        """Build from plain sequences, each brought to its column's dtype; ``ValueError`` where a value does not fit."""
        made: dict[str, Any] = {
            f.name: _narrowed(np.asarray(columns[f.name]), _DTYPES[str(f.type)], f.name)
            for f in dataclasses.fields(cls)
            if str(f.type) in _DTYPES
        }
        return cls(**made, **others)


@dataclass(frozen=True)
class Connection:
    """Two endpoints that exchange RPC over one transport: a TCP four-tuple (all its reconnects), or a UDP one.

    `a` is the endpoint that sent first. Direction 0 is a to b, direction 1 is b to a.
    """

    transport: str  # "tcp" or "udp"
    addr_a: str
    port_a: int
    addr_b: str
    port_b: int

    @property
    def key(self) -> tuple[str, tuple[str, int], tuple[str, int]]:
        """The connection, whichever endpoint was seen first."""
        ends = sorted([(self.addr_a, self.port_a), (self.addr_b, self.port_b)])
        return self.transport, ends[0], ends[1]

    def source(self, direction: int) -> tuple[str, int]:
        """(address, port) of the sender in `direction`."""
        return (self.addr_b, self.port_b) if direction else (self.addr_a, self.port_a)

    def destination(self, direction: int) -> tuple[str, int]:
        """(address, port) of the receiver in `direction`."""
        return self.source(1 - direction)


def hosts(connections: Iterable[Connection]) -> set[str]:
    """Addresses of all endpoints."""
    return {address for ends in connections for address in (ends.addr_a, ends.addr_b)}


@dataclass(frozen=True, eq=False)
class Messages(Table):
    """RPC messages of one capture, in the order in which the dissector shows them; one row a message.

    Invariants: first_ns and last_ns are those of frames first_frame and last_frame; frame is where the dissector shows
    the message (on whole captures the frame that completes it, on cut ones the first). seq is the position of the
    record mark in its TCP direction, unwrapped, NULL for UDP and where it could not be followed.
    """

    conn: I32  # row of `connections`
    stream: I32  # the reconnects of one `conn` have different numbers
    direction: I8
    frame: I64
    t_ns: I64
    first_frame: I64
    first_ns: I64
    last_frame: I64
    last_ns: I64
    whole: Bool  # every byte of it is in the capture, so that last_ns is exact
    seq: I64
    ip_id: I32
    xid: I64
    is_reply: I8
    program: I64  # NULL in replies: the call says it
    version: I64
    minor: I64  # NFSv4 minor version
    op: I64  # procedure; NFSv4: main operation of the COMPOUND
    offset: I64  # READ, WRITE, COMMIT: bytes
    size: I64  # READ: bytes asked for; WRITE: bytes sent
    fh: I64  # CRC-32 of the file handle, as Wireshark computes it
    connections: tuple[Connection, ...] = ()

    def check(self) -> None:
        """Raise ``ValueError`` where an invariant does not hold."""
        if len(self) and (self.conn.min() < 0 or self.conn.max() >= len(self.connections)):
            raise ValueError("messages: conn out of range")
        if ((self.is_reply == 0) & (self.xid < 0)).any():
            raise ValueError("messages: a call without an XID")
        if (self.first_frame > self.last_frame).any() or (self.first_frame < 1).any():
            raise ValueError("messages: first frame after last frame")


@dataclass(frozen=True, eq=False)
class Ops(Table):
    """Ops of one side: a call and its reply, paired; ordered by the call's first frame.

    Invariants: instants t0 to t3 are call first byte, call last byte, reply first byte, reply last byte;
    shown_call_ns and shown_reply_ns are where the dissector shows the two. transmissions counts RPC-level sends; the
    instants belong to the first one, last_call_ns to the last. Pairing columns are those of the call.
    """

    conn: I32
    direction: I8  # of the call
    xid: I64
    program: I64
    version: I64
    minor: I64
    op: I64
    offset: I64
    size: I64
    fh: I64
    t0: I64
    t1: I64
    t2: I64
    t3: I64
    shown_call_ns: I64
    shown_reply_ns: I64
    call_first_frame: I64
    call_last_frame: I64
    reply_first_frame: I64
    reply_last_frame: I64
    whole: Bool  # every byte of call and reply is in the capture
    transmissions: I32
    last_call_ns: I64
    connections: tuple[Connection, ...] = ()


@dataclass(frozen=True, eq=False)
class Matched(Table):
    """Ops seen in both captures: row numbers into the two Ops tables, and why the others are not here.

    Invariants: each op of a side is in at most one row; for each side the ops of every `Miss` value sum to its ops.
    """

    server: I64  # row of the server's Ops
    client: I64  # row of the client's Ops


@dataclass(frozen=True)
class Unmatched:
    """For each side, one `Miss` value an op (int8, length of that side's Ops); ``MATCHED`` where it has a partner."""

    server: I8
    client: I8


def empty_columns(table: type[Table]) -> dict[str, array[int]]:
    """An empty array of 64-bit integers for each column of `table`, to fill and hand to ``from_columns``."""
    return {f.name: array("q") for f in dataclasses.fields(table) if str(f.type) in _DTYPES}


def _narrowed(values: npt.NDArray[Any], dtype: Any, name: str) -> npt.NDArray[Any]:
    """`values` as `dtype`; numpy alone would wrap what does not fit into another number without a word."""
    out = values.astype(dtype)
    if not (out == values).all():
        raise ValueError(f"{name}: a value does not fit into {np.dtype(dtype)}")
    return out
