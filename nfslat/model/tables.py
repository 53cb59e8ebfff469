"""Every table that passes between stages: frozen numpy columns of one length, and what must hold for them.

Conventions for all tables: times are int64 nanoseconds since 1970 on the clock of their capture; null is all bits set,
-1 (``protocol.NULL``) in signed columns, 2^32 - 1 (``protocol.NULL32``) in unsigned ones; frame numbers are 1-based
and count through a set of rotated files. A table checks its dtypes and lengths when it is made and sets its columns
read-only; `check` holds the invariants that cost a pass.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from enum import IntEnum
from functools import cache, cached_property
from typing import Any, ClassVar, NamedTuple, Self, dataclass_transform

import numpy as np
import numpy.typing as npt

from nfslat.model.blocks import distinct, filled, tally
from nfslat.model.protocol import NULL
from nfslat.model.record import Fields, Record, declared

I64 = npt.NDArray[np.int64]
F64 = npt.NDArray[np.float64]
I32 = npt.NDArray[np.int32]
I16 = npt.NDArray[np.int16]
I8 = npt.NDArray[np.int8]
U32 = npt.NDArray[np.uint32]
U64 = npt.NDArray[np.uint64]
U8 = npt.NDArray[np.uint8]
Bool = npt.NDArray[np.bool_]

_DTYPES = {
    "I64": np.int64,
    "I32": np.int32,
    "I16": np.int16,
    "I8": np.int8,
    "U32": np.uint32,
    "U64": np.uint64,
    "U8": np.uint8,
    "Bool": np.bool_,
}
_DENSE = 1 << 22  # classes of ops that are counted in a table with a cell for each, used or not

_DIRECT = 1 << 10  # classes that are looked up in such a table, however few the ops are

# Bits of ``Ops.flags``. The dissector shows a message in its first frame or in its last one.
WHOLE = 1  # every byte of call and reply is in the capture, so that t1 and t3 are exact
CALL_SHOWN_LAST = 2
REPLY_SHOWN_LAST = 4
UNSTABLE_WRITE = 16  # the server may answer before the data are on stable storage (RFC 1813, 3.3.7)


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


@dataclass_transform(frozen_default=True, eq_default=False)
class Table:
    """Columns of equal length; subclasses name them. Raises ``ValueError`` on a wrong dtype or length."""

    __dataclass_fields__: ClassVar[Any] = Fields()

    def __init__(self, *columns: Any, **others: Any) -> None:
        values = {**dict(zip(self._names(), columns, strict=False)), **others}
        for name in self._names():
            vars(self)[name] = values.pop(name) if name in values else getattr(type(self), name)
        if values or len(columns) > len(self._names()):
            raise TypeError(f"{type(self).__name__}: no column {', '.join(values)}")
        rows = None
        for name, want in self.dtypes().items():
            column = getattr(self, name)
            if not isinstance(column, np.ndarray) or column.dtype != want:
                raise ValueError(f"{type(self).__name__}.{name}: {want.__name__} column expected")
            rows = len(column) if rows is None else rows
            if column.ndim != 1 or len(column) != rows:
                raise ValueError(f"{type(self).__name__}.{name}: {rows} rows expected")
            column.setflags(write=False)

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError(f"{type(self).__name__}.{name} stays as it is")

    def __repr__(self) -> str:
        return f"<{type(self).__name__}: {len(self):,} rows>"

    def __len__(self) -> int:
        """Rows."""
        return len(getattr(self, next(iter(self.dtypes()))))

    def __getstate__(self) -> dict[str, Any]:
        """Without columns that have no rows: most tables of a small capture, which another process makes anew."""
        return dict(vars(self)) if len(self) else {n: v for n, v in vars(self).items() if n not in self.dtypes()}

    def __setstate__(self, state: dict[str, Any]) -> None:
        if not self.dtypes().keys() <= state.keys():
            state = {**{name: np.zeros(0, dtype) for name, dtype in self.dtypes().items()}, **state}
        vars(self).update(state)

    def take(self, index: I64 | I32 | Bool | slice) -> Self:
        """The rows at `index` (row numbers, a mask or a slice), in that order."""
        values = vars(self)
        return self._with({name: values[name][index] for name in self.dtypes()})

    def replaced(self, columns: Mapping[str, Any], **others: Any) -> Self:
        """The same with other `columns`, of the same types and lengths, and with `others`, which are none."""
        return self._with(columns, **others)

    def compact(self, *names: str) -> Self:
        """The same, where a column of these whose rows are all alike has the memory of one row: it is not contiguous
        then, as compiled loops need it."""
        columns = {name: getattr(self, name) for name in names if len(self)}
        alike = {name: column for name, column in columns.items() if (column == column[0]).all()}
        return self._with({name: np.broadcast_to(one[:1].copy(), len(one)) for name, one in alike.items()})

    def _with(self, columns: Mapping[str, Any], **others: Any) -> Self:
        made = object.__new__(type(self))  # what the columns have to be they are, and need not be looked at again
        values = vars(self)
        for column in columns.values():
            column.setflags(write=False)
        vars(made).update({name: values[name] for name in self._names()}, **columns, **others)
        return made

    @classmethod
    @cache
    def _names(cls) -> tuple[str, ...]:
        return tuple(declared(cls))

    @classmethod
    @cache
    def dtypes(cls) -> dict[str, Any]:
        """Names of the columns, with the dtype of each."""
        return {name: _DTYPES[hint] for name, hint in declared(cls).items() if hint in _DTYPES}

    @classmethod
    def columns(cls) -> list[str]:
        """Names of the columns."""
        return list(cls.dtypes())

    @classmethod
    @cache
    def empty(cls) -> Self:
        """A table without rows; there is one of each kind."""
        return cls.from_columns({name: [] for name in cls.dtypes()})

    @classmethod
    def with_nulls(cls, rows: int, **known: Any) -> Self:
        """A table of which some columns are known: all others are null, which is all bits set in every dtype."""
        unknown: dict[str, Any] = {
            name: np.full(rows, NULL, dtype=np.int64).astype(dtype)
            for name, dtype in cls.dtypes().items()
            if name not in known
        }
        return cls(**unknown, **known)

    @classmethod
    def from_columns(cls, columns: dict[str, Any], **others: Any) -> Self:
        """Build from plain sequences, each brought to its column's dtype; ``ValueError`` where a value does not fit."""
        made: dict[str, Any] = {
            name: _narrowed(np.asarray(columns[name]), dtype, name) for name, dtype in cls.dtypes().items()
        }
        return cls(**made, **others)


class Connection(Record):
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


def endpoint(address: str, port: int) -> str:
    """``10.0.0.1:2049``, ``[fd00::1]:2049``."""
    return f"[{address}]:{port}" if ":" in address else f"{address}:{port}"


def hosts(connections: Iterable[Connection]) -> set[str]:
    """Addresses of all endpoints."""
    return {address for ends in connections for address in (ends.addr_a, ends.addr_b)}


class Kind(NamedTuple):
    """What a call asks for; numbers as on the wire, -1 where they are not known.

    `op` is the procedure, of NFSv4 the main operation of the COMPOUND, whose list is `ops` (empty where none is kept).
    Two rows of a table of kinds may differ in `ops` alone: what is printed goes by the other four.
    """

    program: int
    version: int
    minor: int
    op: int
    ops: tuple[int, ...] = ()


class Classes(Table):
    """Every combination of connection, direction and kind that a table of ops holds, and how many ops have it."""

    conn: I64
    direction: I64
    kind: I64
    count: I64


class Ops(Table):
    """Ops of one side: a call and its reply, paired; ordered by the call's first frame. 81 bytes a row.

    Invariants: instants t0 to t3 are call first byte, call last byte, reply first byte, reply last byte. transmissions
    counts RPC-level sends (32,767 are that many or more); the instants belong to the first one. Other columns are those
    of the call, connection and frames of the reply are those of the answer.
    """

    conn: I32  # row of `connections`
    direction: I8  # of the call
    xid: U32
    kind: I16  # row of `kinds`
    offset: I64  # READ, WRITE, COMMIT: bytes
    size: U32  # READ: bytes asked for; WRITE: bytes sent
    fh: U32  # CRC-32 of the file handle, as Wireshark computes it
    t0: I64
    t1: I64
    t2: I64
    t3: I64
    call_first_frame: I32
    call_last_frame: I32
    reply_first_frame: I32
    reply_last_frame: I32
    transmissions: I16
    status: I16  # NFS status of the reply
    accept: I8  # RPC accept_stat of the reply, 8 + reject_stat where it was denied
    flags: U8  # WHOLE, CALL_SHOWN_LAST, REPLY_SHOWN_LAST, UNSTABLE_WRITE
    kinds: tuple[Kind, ...] = ()
    connections: tuple[Connection, ...] = ()

    @property
    def whole(self) -> Bool:
        """Ops that are in the capture with every byte of call and reply."""
        return np.asarray((self.flags & WHOLE) != 0)

    @property
    def shown_call_ns(self) -> I64:
        """Time of the frame in which the dissector shows the call."""
        return np.where(self.flags & CALL_SHOWN_LAST, self.t1, self.t0)

    @property
    def shown_reply_ns(self) -> I64:
        """Time of the frame in which the dissector shows the reply."""
        return np.where(self.flags & REPLY_SHOWN_LAST, self.t3, self.t2)

    @property
    def program(self) -> I64:
        """RPC program of each op. Like `version`, `minor` and `op` made anew at each use: hot paths go by `kinds`."""
        return self._of_kind(0)

    @property
    def version(self) -> I64:
        """Version of the program of each op."""
        return self._of_kind(1)

    @property
    def minor(self) -> I64:
        """NFSv4 minor version of each op."""
        return self._of_kind(2)

    @property
    def op(self) -> I64:
        """Procedure of each op, of NFSv4 the main operation."""
        return self._of_kind(3)

    def _of_kind(self, field: int) -> I64:
        return np.array([kind[field] for kind in self.kinds], dtype=np.int64)[self.kind]

    def ways(self, some: Bool | I64) -> I64:
        """Connections (times 2, plus direction) that carry the calls of the ops in `some`, in order."""
        if some.dtype == np.bool_ and some.all():
            return np.unique(self.classes.conn * 2 + self.classes.direction)
        return distinct(self.conn[some] * 2 + self.direction[some], 2 * len(self.connections))

    @cached_property
    def classes(self) -> Classes:
        """What the table holds, in a few rows: what depends on nothing else is decided there, not for each op."""
        cells = 2 * len(self.connections) * len(self.kinds)
        if cells <= _DENSE:
            counts = tally(len(self), cells, self._class_keys)
            used = np.flatnonzero(counts)
            counts = counts[used]
        else:
            used, counts = np.unique(self._class_keys(slice(None)), return_counts=True)
        way, kind = np.divmod(used, max(len(self.kinds), 1))
        return Classes(*(np.asarray(c, dtype=np.int64) for c in (way >> 1, way & 1, kind, counts)))

    def spread(self, values: npt.NDArray[Any]) -> npt.NDArray[Any]:
        """For each op the one of `values` (a row for each of `classes`) that is its class's."""
        if not len(values) or (values == values[0]).all():
            return np.full(len(self), values[0] if len(values) else 0, dtype=values.dtype)
        c = self.classes
        used = (c.conn * 2 + c.direction) * len(self.kinds) + c.kind
        cells = 2 * len(self.connections) * len(self.kinds)
        if cells <= max(_DIRECT, len(self)):
            of_cell = np.zeros(cells, dtype=values.dtype)
            of_cell[used] = values
            return filled(len(self), values.dtype, lambda at: of_cell[self._class_keys(at)])
        return filled(len(self), values.dtype, lambda at: values[np.searchsorted(used, self._class_keys(at))])

    def _class_keys(self, at: slice) -> I64:
        ways = self.conn[at].astype(np.int64) * 2 + self.direction[at]
        return ways * len(self.kinds) + self.kind[at]


class Loose(Table):
    """Messages of one side that are neither the call nor the reply of an op, in capture order."""

    conn: I32
    direction: I8  # of the message
    is_reply: I8
    xid: U32
    kind: I16  # NULL in replies: the call says it
    state: I8  # `State`, never PAIRED
    op: I32  # row of the Ops that a RETRANSMITTED or DUPLICATE_FRAME message belongs to
    first_frame: I32
    last_frame: I32
    first_ns: I64
    last_ns: I64
    kinds: tuple[Kind, ...] = ()
    connections: tuple[Connection, ...] = ()


def last_sent_ns(ops: Ops, loose: Loose, row: int) -> int:
    """When the call of op `row` was sent last, not counting what was sent when the answer had come; else t0."""
    again = (loose.op == row) & (loose.state == State.RETRANSMITTED) & (loose.is_reply == 0)
    times = loose.first_ns[again & (loose.first_ns <= ops.t2[row])] if ops.transmissions[row] > 1 else []
    return int(max(times, default=ops.t0[row]))


class Matched(Table):
    """Ops seen in both captures: row numbers into the two Ops tables, in the order of the client's.

    Invariants: each op of a side is in at most one row; for each side the ops of every `Miss` value sum to its ops.
    """

    server: I32  # row of the server's Ops
    client: I32  # row of the client's Ops

    def rows(self, at: slice | I64) -> tuple[I64, I64]:
        """The server's and the client's rows of the matched ops in rows `at`, as numpy indexes fastest."""
        return self.server[at].astype(np.int64), self.client[at].astype(np.int64)


class Unmatched(Record):
    """For each side, one `Miss` value an op (int8, length of that side's Ops); ``MATCHED`` where it has a partner."""

    server: I8
    client: I8


def _narrowed(values: npt.NDArray[Any], dtype: Any, name: str) -> npt.NDArray[Any]:
    """`values` as `dtype`; numpy alone would wrap what does not fit into another number without a word."""
    out = values.astype(dtype)
    if not (out == values).all():
        raise ValueError(f"{name}: a value does not fit into {np.dtype(dtype)}")
    return out
