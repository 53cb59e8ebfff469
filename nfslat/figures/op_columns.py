"""An `Analysis` -> the columns of the table of matched ops: for each its name, type and unit, and how it is made.

The one list of them: what CSV, Parquet, Arrow and pandas hold goes by it (docs/outputs.md).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cached_property
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from nfslat.decompose import PART_NAMES
from nfslat.evidence.known import Traced
from nfslat.model.blocks import filled
from nfslat.model.causes import columns
from nfslat.model.protocol import NULL, NULL32, op_name, program_name, version_name
from nfslat.model.record import Record
from nfslat.model.tables import I32, I64, WHOLE, Bool, Connection
from nfslat.results import Analysis, Side

Values = npt.NDArray[Any]

TEXT = "text"
INSTANTS = ("t0", "t1", "t2", "t3")
FRAMES = ("call_first_frame", "call_last_frame", "reply_first_frame", "reply_last_frame")
ENDS = ("client", "client_port", "server", "server_port")
ARGUMENTS = ("offset_bytes", "size_bytes", "fh_crc32")
_NEEDS_THETA = ("call_net", "reply_net")

# What of the client SRT causes of a kind made.
CHARGED = columns()


class Paths(Protocol):
    """Which file each matched op is about (`nfslat.names`)."""

    @property
    def of_op(self) -> I32:
        """Row of `texts` for each matched op; NULL: not known."""

    @property
    def texts(self) -> tuple[str, ...]:
        """Paths."""

    @property
    def partial(self) -> tuple[bool, ...]:
        """For each of `texts`: is its beginning not known?"""


class Cells(Record, eq=False):
    """Some rows of one column. Where `labels` is there, `values` are rows of it. What `null` marks has no meaning."""

    values: Values
    null: Bool | None = None  # None: no row is null
    labels: tuple[str, ...] | tuple[int, ...] | tuple[bool, ...] | None = None


class Column(Record):
    """What a column is; `dtype` is numpy's name of it, or "text"."""

    name: str
    dtype: str
    unit: str  # "ns", "bytes"; "" where it is a name or a number
    says: str
    make: Callable[[Block], Cells]
    is_moment: bool = False  # ns since 1970, not a length of time
    is_hex: bool = False  # in CSV


class Labels:
    """The texts of one table: each stands once, however many rows have it."""

    def __init__(self, c: Analysis, paths: Paths | None) -> None:
        kinds = c.client.ops.kinds
        self.program = tuple(program_name(kind.program) for kind in kinds)
        self.version = tuple(version_name(*kind[:3]) for kind in kinds)
        self.op = tuple(op_name(kind.program, kind.version, kind.op) for kind in kinds)
        self.of_client = _Ways(c.client.ops.connections)
        self.of_server = _Ways(c.server.ops.connections)
        named = {
            side: [name.hex() for name in found.decoded.details.slots.sessions]
            for side, found in (("client", c.client), ("server", c.server))
        }
        row_of = {name: row for row, name in enumerate(dict.fromkeys(named["client"] + named["server"]))}
        self.sessions = tuple(row_of)
        self.session_rows = {
            side: np.array([row_of[name] for name in names], np.int64) for side, names in named.items()
        }
        # What is no text in any encoding would end the writing of it.
        self.paths = tuple(path.encode("utf-8", "backslashreplace").decode() for path in paths.texts) if paths else ()
        self.partial = tuple(map(bool, paths.partial)) if paths else ()


class _Ways:
    """Caller and called of each connection (row times 2) and direction (plus 0 or 1)."""

    def __init__(self, connections: Sequence[Connection]) -> None:
        callers = [ends.source(way) for ends in connections for way in (0, 1)]
        called = [ends.destination(way) for ends in connections for way in (0, 1)]
        self.client, self.server = (tuple(address for address, _ in ends) for ends in (callers, called))
        self.client_port, self.server_port = (tuple(port for _, port in ends) for ends in (callers, called))
        self.transport = tuple(ends.transport for ends in connections for _ in (0, 1))


class Block:
    """Some of the matched ops, from which columns are made; what several of them need is made once."""

    def __init__(self, c: Analysis, labels: Labels, paths: Paths | None, traced: Traced | None, at: slice) -> None:
        self.c, self.labels, self.paths, self.traced, self.at = c, labels, paths, traced, at
        self.rows = len(range(*at.indices(len(c.matched))))

    @cached_property
    def _rows(self) -> dict[str, I64]:
        return dict(zip(("server", "client"), self.c.matched.rows(self.at), strict=True))

    def side(self, side: str) -> tuple[Side, I64]:
        """A side, and the rows of its ops."""
        found: Side = getattr(self.c, side)
        return found, self._rows[side]

    def of(self, side: str, name: str) -> Values:
        """The column `name` of a side's ops."""
        found, rows = self.side(side)
        values: Values = getattr(found.ops, name)[rows]
        return values

    def frames(self, side: str, name: str) -> Values:
        """The column `name` of a side's ops, as numbers that count through its files."""
        return self.side(side)[0].source.numbered(self.of(side, name))

    @cached_property
    def kind(self) -> Values:
        """Row of the client's kinds."""
        return self.of("client", "kind")

    @cached_property
    def ways(self) -> dict[str, Values]:
        """Row of `_Ways`, for each side."""
        return {side: self.of(side, "conn") * 2 + self.of(side, "direction") for side in ("client", "server")}

    @cached_property
    def parts(self) -> dict[str, I64]:
        """The five parts."""
        return dict(zip(PART_NAMES, self.c.parts.all_ns(self.at), strict=True))

    def unknown(self, dtype: str = "int64") -> Cells:
        """Null in each row."""
        return Cells(np.zeros(self.rows, dtype=dtype), np.ones(self.rows, dtype=np.bool_))

    @cached_property
    def path(self) -> Cells:
        """Row of the paths."""
        if self.paths is None:
            return Cells(*_nothing(self.rows), self.labels.paths)
        of_op = self.paths.of_op[self.at]
        return _known(of_op, self.labels.paths)

    @cached_property
    def slots(self) -> tuple[Cells, Cells]:
        """Session and slot, as the client's capture shows them, else the server's."""
        session, slot = np.full(self.rows, NULL), np.full(self.rows, NULL32, dtype=np.uint32)
        for name in ("server", "client"):
            side, rows = self.side(name)
            slots = side.decoded.details.slots
            if not len(slots):
                continue
            at = np.minimum(np.searchsorted(slots.op, rows), len(slots) - 1)
            there = np.flatnonzero((slots.op[at] == rows) & (slots.session[at] != NULL))
            session[there] = self.labels.session_rows[name][slots.session[at[there]]]
            there = np.flatnonzero((slots.op[at] == rows) & (slots.slot[at] != NULL32))
            slot[there] = slots.slot[at[there]]
        return _known(session, self.labels.sessions), _known(slot)


def _nothing(rows: int) -> tuple[Values, Bool]:
    return np.zeros(rows, dtype=np.int64), np.ones(rows, dtype=np.bool_)


def _known(values: Values, labels: tuple[str, ...] | None = None) -> Cells:
    """Null is what is null in `nfslat.model.tables`."""
    null = values == (NULL if values.dtype.kind == "i" else NULL32)
    if not null.any():
        return Cells(values, None, labels)
    return Cells(np.where(null, 0, values).astype(values.dtype), null, labels)


def _taken(side: str, name: str) -> Callable[[Block], Cells]:
    return lambda block: Cells(block.of(side, name))


def _captured(side: str, name: str) -> Callable[[Block], Cells]:
    """Null of a host that was not captured: it has no frames."""

    def make(block: Block) -> Cells:
        is_inferred = block.c.inferred is not None and block.c.inferred.side == side
        return Cells(block.frames(side, name), np.ones(block.rows, dtype=np.bool_) if is_inferred else None)

    return make


def _source(block: Block) -> Cells:
    """Null where both hosts were captured."""
    found = block.c.inferred
    if found is None:
        return Cells(np.zeros(block.rows, dtype=np.int32), np.ones(block.rows, dtype=np.bool_), ("server", "client"))
    row = ("server", "client").index(found.side)
    return Cells(np.full(block.rows, row, dtype=np.int32), None, ("server", "client"))


def _basis(block: Block) -> Cells:
    """Null where both hosts were captured."""
    found = block.c.inferred
    labels = ("acknowledgements", "time stamps")
    if found is None:
        return Cells(np.zeros(block.rows, dtype=np.int32), np.ones(block.rows, dtype=np.bool_), labels)
    return Cells(found.clocked[block.side("client")[1]].astype(np.int32), None, labels)


def _inferred(name: str) -> Callable[[Block], Cells]:
    def make(block: Block) -> Cells:
        found = block.c.inferred
        return block.unknown() if found is None else Cells(getattr(found, name)[block.side("client")[1]])

    return make


def _first_known(name: str) -> Callable[[Block], Cells]:
    """The client's value, else the server's."""

    def make(block: Block) -> Cells:
        client, server = block.of("client", name), block.of("server", name)
        return _known(np.where(client != (NULL if client.dtype.kind == "i" else NULL32), client, server))

    return make


def _of_kind(name: str) -> Callable[[Block], Cells]:
    return lambda block: Cells(block.kind, None, getattr(block.labels, name))


def _of_way(side: str, name: str) -> Callable[[Block], Cells]:
    return lambda block: Cells(block.ways[side], None, getattr(getattr(block.labels, f"of_{side}"), name))


def _part(name: str) -> Callable[[Block], Cells]:
    if name in _NEEDS_THETA:
        return lambda block: Cells(block.parts[name]) if block.c.clock.fits else block.unknown()
    return lambda block: Cells(block.parts[name])


def _srt(side: str) -> Callable[[Block], Cells]:
    return lambda block: Cells(getattr(block.c, f"{side}_srt_ns")[block.at])


def _network(block: Block) -> Cells:
    return Cells(block.c.client_srt_ns[block.at] - block.c.server_srt_ns[block.at])


def _one_way_error(block: Block) -> Cells:
    """Not known where a packet of the op was not captured."""
    if not block.c.clock.fits:
        return block.unknown()
    (client, rows), (server, other) = block.side("client"), block.side("server")
    cut = ~(_is_whole(client, rows) & _is_whole(server, other))
    return Cells(block.c.clock.errors_ns(client.ops, rows), cut if cut.any() else None)


def _is_whole(side: Side, rows: I64) -> Bool:
    return np.asarray((side.ops.flags[rows] & WHOLE) != 0)


def _whole(side: str) -> Callable[[Block], Cells]:
    return lambda block: Cells(_is_whole(*block.side(side)))


def _wait(place: int) -> Callable[[Block], Cells]:
    """The wait to be sent again: for the call (0) or for the reply (1)."""

    def make(block: Block) -> Cells:
        waits = block.c.retrans_waits_ns
        if waits is None or not block.c.clock.fits:
            return block.unknown()
        one, begin = waits[place], block.at.start
        here = slice(*np.searchsorted(one.row, [begin, begin + block.rows]).tolist())
        column = np.zeros(block.rows, dtype=np.int64)
        column[one.row[here] - begin] = one.ns[here]
        return Cells(column)

    return make


def _charged(name: str) -> Callable[[Block], Cells]:
    def make(block: Block) -> Cells:
        charges = block.c.charges
        return block.unknown() if charges is None else Cells(charges.ns_of(CHARGED[name], block.at))

    return make


def _queue(block: Block) -> Cells:
    load = block.c.inflight.load
    return block.unknown() if load.threads.cannot else _known(load.queue_ns[block.side("server")[1]])


def _traced(name: str) -> Callable[[Block], Cells]:
    def make(block: Block) -> Cells:
        return block.unknown() if block.traced is None else _known(getattr(block.traced, name)[block.at])

    return make


def _uid(block: Block) -> Cells:
    uid = np.full(block.rows, NULL32, dtype=np.uint32)
    for name in ("server", "client"):
        side, rows = block.side(name)
        callers = side.decoded.details.callers
        if len(callers):
            here = callers.uid[rows]
            uid = np.where(here != NULL32, here, uid)
    return _known(uid)


def _path(block: Block) -> Cells:
    return block.path


def _path_partial(block: Block) -> Cells:
    return Cells(block.path.values, block.path.null, block.labels.partial)


def _session(block: Block) -> Cells:
    return block.slots[0]


def _slot(block: Block) -> Cells:
    return block.slots[1]


_POINTS = ("the call's first byte", "the call's last byte", "the reply's first byte", "the reply's last byte")
_FRAMES_SAY = ("the call's first", "the call's last", "the reply's first", "the reply's last")
_PARTS_SAY = (
    "from the call's first to its last byte at the client",
    "the call's last byte in transit; depends on theta",
    "from the call's last byte at the server to the reply's first",
    "from the reply's first to its last byte at the server",
    "the reply's last byte in transit; depends on theta",
)
_CHARGED_SAY = (
    "loss",
    "packets that arrived out of order",
    "paused hosts, and data held back behind a gap",
    "closed and small receive windows",
    "delayed ACKs",
    "a saturated path",
    "the congestion window, or an unknown window",
    "a sender that paused",
    "large messages in front on the same connection",
    "the shortest time in transit",
)
_TRACED_SAY = {
    "slot_wait_ns": "before it was sent, as tracepoints say",
    "execute_ns": "in the client's kernel, all of it, as tracepoints say",
    "thread_ns": "in a thread of the server, as tracepoints say",
}
_ENDS_SAY = ("address of the caller", "its port", "address of the called", "its port")


def _ends(side: str, suffix: str, where: str) -> list[Column]:
    return [
        Column(f"{name}{suffix}", TEXT if number % 2 == 0 else "int32", "", f"{says}{where}", _of_way(side, name))
        for number, (name, says) in enumerate(zip(ENDS, _ENDS_SAY, strict=True))
    ]


# New ones go to the end, so that what reads the CSV file by position goes on to work.
COLUMNS = (
    Column("xid", "uint32", "", "XID of the call", _taken("client", "xid"), is_hex=True),
    Column("program", TEXT, "", "RPC program", _of_kind("program")),
    Column("version", TEXT, "", "its version, with NFSv4's minor version", _of_kind("version")),
    Column("op", TEXT, "", "operation; of a COMPOUND the main one", _of_kind("op")),
    *_ends("client", "", ""),
    Column("offset_bytes", "int64", "bytes", "offset of READ, WRITE, COMMIT", _first_known("offset")),
    Column("size_bytes", "uint32", "bytes", "asked for by READ, sent by WRITE", _first_known("size")),
    Column("fh_crc32", "uint32", "", "CRC-32 of the file handle, as Wireshark has it", _first_known("fh"), is_hex=True),
    *(
        Column(
            f"{side}_{name}_ns",
            "int64",
            "ns",
            f"{says} at the {side}, since 1970 on its clock",
            _taken(side, name),
            is_moment=True,
        )
        for side in ("client", "server")
        for name, says in zip(INSTANTS, _POINTS, strict=True)
    ),
    *(
        Column(f"{side}_{name}", "int32", "", f"{says} frame in the {side}'s capture, from 1", _captured(side, name))
        for side in ("client", "server")
        for name, says in zip(FRAMES, _FRAMES_SAY, strict=True)
    ),
    Column("client_srt_ns", "int64", "ns", "response time at the client", _srt("client")),
    Column("server_srt_ns", "int64", "ns", "response time at the server", _srt("server")),
    Column("network_ns", "int64", "ns", "the difference of the two; needs no clock", _network),
    *(
        Column(f"{name}_ns", "int64", "ns", says, _part(name))
        for name, says in zip(PART_NAMES, _PARTS_SAY, strict=True)
    ),
    Column("one_way_error_ns", "int64", "ns", "by so much call_net_ns and reply_net_ns may be off", _one_way_error),
    Column("call_retrans_wait_ns", "int64", "ns", "of call_net_ns: until the call was retransmitted", _wait(0)),
    Column("reply_retrans_wait_ns", "int64", "ns", "of reply_net_ns: until the reply was retransmitted", _wait(1)),
    *(
        Column(f"{name}_ns", "int64", "ns", f"of client_srt_ns: {says}", _charged(name))
        for name, says in zip(CHARGED, _CHARGED_SAY, strict=True)
    ),
    Column("queue_ns", "int64", "ns", "of server_ns: the wait for a thread, as far as packets tell", _queue),
    *(Column(name, "int64", "ns", says, _traced(name)) for name, says in _TRACED_SAY.items()),
    Column("client_transmissions", "int16", "", "times the client sent the call", _taken("client", "transmissions")),
    Column("server_transmissions", "int16", "", "times it came to the server", _taken("server", "transmissions")),
    Column("uid", "uint32", "", "on whose behalf (AUTH_SYS)", _uid),
    Column("path", TEXT, "", "path of the file", _path),
    Column("path_partial", "bool", "", "is the path's beginning not known?", _path_partial),
    Column("session", TEXT, "", "NFSv4.1 session, 16 bytes in hex", _session),
    Column("slot", "uint32", "", "its slot, from 0", _slot),
    Column("status", "int16", "", "NFS status of the reply, 0: done", _first_known("status")),
    Column("rpc_accept", "int8", "", "RPC accept_stat, 8 + reject_stat where it was denied", _first_known("accept")),
    Column("transport", TEXT, "", "tcp or udp", _of_way("client", "transport")),
    Column("client_connection", "int32", "", "its connection in that capture, from 0", _taken("client", "conn")),
    Column("server_connection", "int32", "", "the same at the server", _taken("server", "conn")),
    *_ends("server", "_at_server", ", as the server's capture has it"),
    Column("client_whole", "bool", "", "is every byte of it in the client's capture?", _whole("client")),
    Column("server_whole", "bool", "", "is every byte of it in the server's capture?", _whole("server")),
    Column("inferred", TEXT, "", "the host that was not captured: its times are inferred", _source),
    Column("inferred_low_ns", "int64", "ns", "of its server_srt_ns or client_srt_ns: at least", _inferred("low_ns")),
    Column("inferred_high_ns", "int64", "ns", "and at most", _inferred("high_ns")),
    Column("inferred_by", TEXT, "", "what that rests on: time stamps, or acknowledgements", _basis),
)  # fmt: skip
_MAKERS = {column.name: column.make for column in COLUMNS}


def numbers_of(c: Analysis, labels: Labels, paths: Paths | None, name: str) -> I64:
    """A column of the table of matched ops as numbers, of a text its row; ``NULL`` is null."""

    def make(at: slice) -> I64:
        cells = _MAKERS[name](Block(c, labels, paths, None, at))
        values = cells.values.astype(np.int64)
        return values if cells.null is None else np.where(cells.null, NULL, values)

    return filled(len(c.matched), np.int64, make)
