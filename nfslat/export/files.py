"""A `Correlation` or a `Side`, and its paths -> one CSV row an op that works on a file: who did what to which, when."""

from __future__ import annotations

from typing import TextIO

import numpy as np

from nfslat.decode.capture import Source
from nfslat.figures.op_columns import Values
from nfslat.kernels.compiled import native
from nfslat.model.protocol import NULL, NULL32, op_name, version_name
from nfslat.model.record import Record
from nfslat.model.tables import I64, U32, Bool, Ops
from nfslat.names.paths import Paths
from nfslat.results import Correlation, Side
from nfslat.select import is_reverse

BLOCK = 1 << 16  # rows

COLUMNS = (
    "time",
    "seconds",
    "client",
    "server",
    "uid",
    "op",
    "version",
    "path",
    "to_path",
    "partial",
    "offset_bytes",
    "size_bytes",
    "status",
    "xid",
    "frame",
)
# As `native.Lines` calls their forms. Client and server, operation and version stand in one text each.
_FORMS = (
    *("moment", "seconds", "text", "decimal", "text", "cell", "cell", "text"),
    *("decimal", "decimal", "decimal", "hex8", "decimal", "nothing"),
)


def write_files(found: Correlation | Side, out: TextIO, paths: Paths) -> None:
    """Rows in the order of the calls, of the matched ops, or of the selected ones of one capture.

    Only ops that have a file handle or a name. Times are when the call was sent, on the client's clock (of one
    capture: on its own), frames those in which it begins there. Null is an empty cell. `paths` is what `paths_of`, or
    `paths_of_side`, makes of the same.
    """
    out.write(",".join(COLUMNS) + "\n")
    table = _of_pair(found, paths) if isinstance(found, Correlation) else _of_side(found, paths)
    ends, kinds, partial = _ends(table.ops), _kinds(table.ops), ["yes" if one else "no" for one in paths.partial]
    texts = (None, None, ends, None, kinds, paths.texts, paths.texts, partial, *[None] * 6)
    always = ("", *[","] * (len(_FORMS) - 2), "\n")
    before = ("0x" if form == "hex8" else "" for form in _FORMS)
    form = native.Lines([*zip(always, before, _FORMS, texts, strict=True)])
    for begin in range(0, len(table.op), BLOCK):
        at = slice(begin, begin + BLOCK)
        cells = [(column.astype(np.int64, copy=False), null) for column, null in _columns(table, at)]
        out.write(form.of([*cells, (None, None)], len(table.op[at])))


class _Table(Record):
    """What rows are made of: `op` are rows of `ops`, `row` those of `paths`."""

    source: Source
    ops: Ops
    first_ns: int
    op: I64
    row: I64
    paths: Paths
    uid: U32
    offset: I64
    size: U32


def _of_side(side: Side, paths: Paths) -> _Table:
    ops = side.ops
    at = np.flatnonzero(side.kept & ((ops.fh != NULL32) | (paths.of_op != NULL)))
    return _Table(side.source, ops, side.decoded.first_ns, at, at, paths, _uids(side, at), ops.offset[at], ops.size[at])


def _of_pair(c: Correlation, paths: Paths) -> _Table:
    client, server = c.client.ops, c.server.ops
    fh = np.minimum(client.fh[c.matched.client], server.fh[c.matched.server])  # null is the highest
    row = np.flatnonzero((fh != NULL32) | (paths.of_op != NULL))
    at, other = c.matched.client[row].astype(np.int64), c.matched.server[row].astype(np.int64)
    uid = np.minimum(_uids(c.client, at), _uids(c.server, other))
    offset = np.maximum(client.offset[at], server.offset[other])
    size = np.minimum(client.size[at], server.size[other])
    return _Table(c.client.source, client, c.client.decoded.first_ns, at, row, paths, uid, offset, size)


def _uids(side: Side, at: I64) -> U32:
    uid = side.decoded.details.callers.uid
    return uid[at] if len(uid) else np.full(len(at), NULL32, dtype=np.uint32)


def _columns(table: _Table, at: slice) -> list[tuple[Values, Bool | None]]:
    """Numbers, and where they are null."""
    ops, op, row = table.ops, table.op[at], table.row[at]
    t_ns = ops.t0[op]
    path = _known(table.paths.of_op[row], NULL)
    return [
        (t_ns, None),
        (t_ns - table.first_ns, None),
        (ops.conn[op].astype(np.int64) * 2 + ops.direction[op], None),
        _known(table.uid[at], NULL32),
        (ops.kind[op], None),
        path,
        _known(table.paths.to_of_op[row], NULL),
        path,
        _known(table.offset[at], NULL),
        _known(table.size[at], NULL32),
        _known(ops.status[op], NULL),
        (ops.xid[op], None),
        (table.source.numbered(ops.call_first_frame[op]), None),
    ]


def _known(column: Values, null: int) -> tuple[Values, Bool]:
    return column, column == null


def _ends(ops: Ops) -> list[str]:
    """Cells for client and server of each connection (row times 2) and direction (plus 0 or 1)."""
    out = [f"{ends.source(way)[0]},{ends.destination(way)[0]}" for ends in ops.connections for way in (0, 1)]
    c = ops.classes
    for conn, way, reverse in zip(c.conn.tolist(), c.direction.tolist(), is_reverse(ops).tolist(), strict=True):
        if reverse:  # of callbacks the client is the one called
            ends = ops.connections[conn]
            out[conn * 2 + way] = f"{ends.destination(way)[0]},{ends.source(way)[0]}"
    return out


def _kinds(ops: Ops) -> list[str]:
    return [f"{op_name(kind.program, kind.version, kind.op)},{version_name(*kind[:3])}" for kind in ops.kinds]
