"""The application's time, and operations that follow one another in a file -> that time as the sum of several.

One caller that waits for each answer sends the next operation right behind it, where the one before ended. A request
that waited for a slot would be sent when some other's answer comes, which takes as long as the others do.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from msgspec import structs

from nfslat.evidence.known import CallMeans, Known, Pieces, data_ops
from nfslat.model.protocol import NULL, NULL32
from nfslat.model.tables import I64
from nfslat.model.units import to_ms
from nfslat.results import Analysis
from nfslat.select import op_labels

_FEWEST_OPS = 50
_GAP_SHARE = 0.5  # of an operation's time: a caller sends the next one sooner, and what waits for a slot later
_LEAST_SHARE = 0.5  # of the operations are in such rows; and of the application's time they take so much
_LEAST_PIECES = 3.0  # operations of a request: a mean of two may be another application's
_ROW_FACTOR = 1.1  # times a row, that a request may be long: rows begin and end between requests


class _Rows(NamedTuple):
    """Operations that follow one another."""

    ops: int  # all of that name
    size: float  # bytes
    gaps_ns: I64  # from an answer to the operation behind it


def with_sums(known: Known, c: Analysis, *, has_one_slot: bool) -> Known:
    """`known`, with what was given of requests that are several operations in a row as what each of these takes; the
    first of them is its `row`. With one slot, that may be what makes a row."""
    if has_one_slot or "app_ms" in known.sources or (c.inferred is not None and c.inferred.side == "client"):
        return known
    names, app_ms, sums = data_ops(c), dict(known.app_ms), []
    for name, given_ms in known.app_ms.items():
        op = name or (next(iter(names)) if len(names) == 1 else "")
        if op not in names or (rows := _rows_of(c, op)) is None:
            continue
        known = structs.replace(known, is_in_turn=True)
        if (row := _sum(c, op, rows, given_ms)) is not None and row.pieces is not None:
            app_ms[name] = given_ms / row.pieces.ops
            sums.append((row, row.pieces.ops))
    if not sums:
        return known
    row, ops = sums[0]
    sources = {**known.sources, "app_ms": f"--app-ms / {ops:.1f}"}
    return structs.replace(known, app_ms=app_ms, request_ms=known.app_ms, row=row, sources=sources)


def _rows_of(c: Analysis, op: str) -> _Rows | None:
    """Operations of the name `op` in rows; None where they are few of them."""
    ops = c.client.ops
    mine = c.compared("client") & np.isin(ops.kind, [n for n, name in enumerate(op_labels(ops.kinds)) if name == op])
    rows = np.flatnonzero(mine & (ops.offset != NULL) & (ops.size != NULL32) & (ops.t3 != NULL))
    if len(rows) < _FEWEST_OPS:
        return None
    begin, end, size = ops.t0[rows], ops.t3[rows], ops.size[rows].astype(np.int64)
    # Ends and beginnings of operations by file, place and time: in front of each beginning, the end that it follows.
    file, place = np.tile(ops.fh[rows], 2), np.concatenate([ops.offset[rows] + size, ops.offset[rows]])
    when, begins = np.concatenate([end, begin]), np.repeat([False, True], len(rows))
    order = np.lexsort((begins, when, place, file))
    file, place, when, begins = file[order], place[order], when[order], begins[order]
    before = np.maximum.accumulate(np.where(begins, -1, np.arange(len(order))))
    follows = begins & (before >= 0) & (file[before] == file) & (place[before] == place)
    gaps_ns = (when - when[before])[follows]
    gaps_ns = gaps_ns[gaps_ns <= _GAP_SHARE * (end - begin).mean()]
    return _Rows(len(rows), float(size.mean()), gaps_ns) if len(gaps_ns) >= _LEAST_SHARE * len(rows) else None


def _sum(c: Analysis, op: str, rows: _Rows, given_ms: float) -> CallMeans | None:
    """A request of `given_ms`, where it is as long as operations in a row."""
    at = c.rows_of([op])
    gap_ms, client_ms, server_ms = (
        float(to_ms(times.mean())) for times in (rows.gaps_ns, c.client_srt_ns[at], c.server_srt_ns[at])
    )
    count = min(given_ms / (client_ms + gap_ms), _ROW_FACTOR * rows.ops / max(rows.ops - len(rows.gaps_ns), 1))
    if count < _LEAST_PIECES or count * client_ms < _LEAST_SHARE * given_ms:
        return None
    return CallMeans(
        call="request of the application",
        source="--app-ms",
        calls=round(rows.ops / count),
        cached_calls=0,
        total_ms=given_ms,
        cached_ms=0.0,
        before_ms=0.0,
        network_ms=count * (client_ms - server_ms),
        server_ms=count * server_ms,
        after_ms=given_ms - count * client_ms,
        pieces=Pieces(op, count, 1.0, rows.size, gap_ms),
    )
