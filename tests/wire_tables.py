"""Messages and ops without a capture: a timeline of lines in, the table that the decoder or the pairing would make out.

Times are milliseconds; each line is one frame. TCP sequence numbers and IP identifications count up as they do on the
wire, unless a line says otherwise:

    messages(call(0, 0x11), call(60_000, 0x11), reply(60_005, 0x11))
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from nfslat.decode.tshark.messages import Messages
from nfslat.model.decoded import Decoded
from nfslat.model.protocol import NFS, NULL, NULL32
from nfslat.model.tables import CALL_SHOWN_LAST, REPLY_SHOWN_LAST, WHOLE, Connection, Kind, Loose, Ops

MS = 1_000_000
GETATTR, READ, WRITE = 1, 6, 7

CONNECTIONS = tuple(Connection("tcp", "10.0.0.1", 700 + port, "10.0.0.2", 2049) for port in range(4))


@dataclass(frozen=True)
class Line:
    """One message. `way` is the direction of the call, for a reply too; 0 is client to server.

    `acks`: it acknowledges all that the other side has sent; `at_once`: nothing in front of it is on the way.
    """

    t_ms: float
    is_reply: int
    xid: int
    conn: int
    way: int
    last_ms: float | None
    seq: int | None
    ip_id: int | None
    acks: bool
    at_once: bool
    asked: dict[str, int] = field(default_factory=dict)


def call(
    t_ms: float,
    xid: int,
    *,
    conn: int = 0,
    way: int = 0,
    last_ms: float | None = None,
    seq: int | None = None,
    ip_id: int | None = None,
    acks: bool = False,
    at_once: bool = True,
    program: int = NFS,
    version: int = 3,
    op: int = READ,
    offset: int = 0,
    size: int = 8192,
    fh: int = 0xF11E,
) -> Line:
    asked = {"program": program, "version": version, "op": op, "offset": offset, "size": size, "fh": fh}
    return Line(t_ms, 0, xid, conn, way, last_ms, seq, ip_id, acks, at_once, asked)


def reply(
    t_ms: float,
    xid: int,
    *,
    conn: int = 0,
    way: int = 0,
    last_ms: float | None = None,
    seq: int | None = None,
    ip_id: int | None = None,
) -> Line:
    return Line(t_ms, 1, xid, conn, way, last_ms, seq, ip_id, acks=False, at_once=False)


def messages(*lines: Line, connections: tuple[Connection, ...] = CONNECTIONS) -> Messages:
    """The lines in time order; a line without `seq` or `ip_id` is a packet of its own."""
    rows: list[dict[str, Any]] = []
    seqs: Counter[tuple[int, int]] = Counter()
    for frame, line in enumerate(sorted(lines, key=lambda line: line.t_ms), 1):
        direction = 1 - line.way if line.is_reply else line.way
        acked = seqs[line.conn, 1 - direction] + 100
        seqs[line.conn, direction] += 100
        seq = seqs[line.conn, direction] if line.seq is None else line.seq
        t_ns = round(line.t_ms * MS)
        asked = line.asked or dict.fromkeys(("program", "version", "op", "offset", "size", "fh"), NULL)
        rows.append(
            asked
            | {"conn": line.conn, "direction": direction, "is_reply": line.is_reply, "xid": line.xid, "minor": NULL}
            | {"frame": frame, "first_frame": frame, "last_frame": frame}
            | {"t_ns": t_ns, "first_ns": t_ns, "last_ns": t_ns if line.last_ms is None else round(line.last_ms * MS)}
            | {"seq": seq, "end": NULL if seq == NULL else seq + 100}
            | {"acked": acked if line.acks else NULL, "at_once": line.at_once}
            | {"stream": line.conn, "whole": True}
            | {"ip_id": frame if line.ip_id is None else line.ip_id}
        )
    columns = {name: [row[name] for row in rows] for name in rows[0]} if rows else _empty(Messages)
    made = Messages.from_columns(columns, connections=connections)
    made.check()
    return made


@dataclass(frozen=True)
class Op:
    """One op of one side; `at_ms` are its four instants."""

    at_ms: tuple[float, float, float, float]
    xid: int
    conn: int = 0
    direction: int = 0
    program: int = NFS
    version: int = 3
    op: int = READ
    offset: int = 0
    size: int = 8192
    fh: int = 0xF11E
    truth: int = NULL  # which op it really is; not in the table

    def but(self, **changes: Any) -> Op:
        return replace(self, **changes)


def op(t0_ms: float, t3_ms: float, xid: int, **others: Any) -> Op:
    """An op whose call and reply are one packet each."""
    return Op((t0_ms, t0_ms, t3_ms, t3_ms), xid, **others)


def ops(*rows: Op, connections: tuple[Connection, ...] = CONNECTIONS) -> Ops:
    """The table of one side, in the order of the calls."""
    made = []
    kinds: dict[Kind, int] = {}
    for frame, row in enumerate(sorted(rows, key=lambda row: row.at_ms[0])):
        t0, t1, t2, t3 = (round(t * MS) for t in row.at_ms)
        kind = kinds.setdefault(Kind(row.program, row.version, NULL, row.op), len(kinds))
        made.append(
            {"conn": row.conn, "direction": row.direction, "xid": row.xid, "kind": kind, "offset": row.offset}
            | {"size": row.size & NULL32, "fh": row.fh & NULL32}
            | {"t0": t0, "t1": t1, "t2": t2, "t3": t3}
            | {"call_first_frame": 2 * frame + 1, "call_last_frame": 2 * frame + 1}
            | {"reply_first_frame": 2 * frame + 2, "reply_last_frame": 2 * frame + 2}
            | {"transmissions": 1, "status": 0, "accept": 0, "flags": WHOLE | CALL_SHOWN_LAST | REPLY_SHOWN_LAST}
        )
    columns = {name: [row[name] for row in made] for name in made[0]} if made else _empty(Ops)
    return Ops.from_columns(columns, kinds=tuple(kinds), connections=connections)


def decoded(made: Ops, first_ns: int = 0, last_ns: int = 0, **others: Any) -> Decoded:
    """A capture that holds these ops and no other message."""
    counts = "hidden malformed duplicate_packets lost_ranges lost_bytes backward_times tls_connections".split()
    return Decoded(
        ops=made,
        loose=Loose.from_columns(_empty(Loose), kinds=made.kinds, connections=made.connections),
        **(dict.fromkeys(counts, 0) | {"packet_kinds": {}, "cut_short": False, "engine": "made"} | others),
        first_ns=first_ns,
        last_ns=last_ns,
    )


def truths(*rows: Op) -> np.ndarray[Any, np.dtype[np.int64]]:
    """The `truth` of each row of the table that `ops` makes of the same rows."""
    return np.array([row.truth for row in sorted(rows, key=lambda row: row.at_ms[0])], dtype=np.int64)


def _empty(table: type[Messages] | type[Ops] | type[Loose]) -> dict[str, list[int]]:
    return {name: [] for name in table.columns()}
