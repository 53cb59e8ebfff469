"""Calls that were joined with ops -> of each kind of call, how much of it was page cache, wait above the wire, network
and server."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from nfslat.evidence.calls_join import Joined, join
from nfslat.evidence.known import CallMeans, Pieces
from nfslat.evidence.oracle_files import calls_of
from nfslat.evidence.oracle_trace import Wait
from nfslat.evidence.strace import Call
from nfslat.model.protocol import NULL, NULL32
from nfslat.model.tables import F64, I64
from nfslat.model.units import to_ms
from nfslat.names.paths import paths_of_side
from nfslat.results import Analysis
from nfslat.select import is_reverse

_NEARLY_ALL = 0.8  # of the ops of the captures
_NOT = -1.0  # the server's capture does not have the op


@dataclass(frozen=True)
class OfCalls:
    """What a log says of the operations of the captures."""

    means: tuple[CallMeans, ...]
    notes: list[str]  # how much of the log that is of; why there are no means
    # Of operations nearly all of which are the only one of a call: the mean of these calls.
    app_ms: Mapping[str, float] = field(default_factory=dict)


def of_waits(name: str, waits: Sequence[Wait], files: Mapping[int, str], c: Analysis) -> OfCalls:
    """The same of the file waits of a 10046 trace; `files` are paths of data files by their numbers."""
    ops = c.client.ops
    calls = calls_of(waits, ops, ~ops.spread(is_reverse(ops)), files) if _own_client(c) else []
    if not calls:
        return OfCalls(
            (), [f"{name}: none of its waits goes with operations of the captures: no wait is joined with them"]
        )
    return of_calls(name, calls, c, source="10046 trace")


def of_calls(name: str, calls: Sequence[Call], c: Analysis, *, source: str = "strace") -> OfCalls:
    """Means of each kind of call, and the application's time where the calls are those of the operations."""
    if not _own_client(c):
        why = f"{name}: calls of the client are joined with its own capture, and there is none: they are not used"
        return OfCalls((), [why])
    ops = c.client.ops
    # All of them, selected or not: a call whose op is not selected had its bytes from the server, too.
    joined = join(calls, ops, ~ops.spread(is_reverse(ops)), _names(c))
    server_ns = np.full(len(ops), _NOT)
    server_ns[c.matched.client] = c.server_srt_ns
    parts = np.array([_parts(*one, c, server_ns) for one in zip(calls, joined.ops, strict=True)])
    used = joined.cached | (parts[:, 0] >= 0)
    total = np.array([one.end_ns - one.begin_ns for one in calls], dtype=np.int64)
    if not joined.seen.any():
        return OfCalls((), [f"{name}: none of its calls was made while the captures ran; it is left out"])
    found = []
    kinds, names = (np.array([getattr(one, key) for one in calls]) for key in ("kind", "name"))
    for kind in dict.fromkeys(kinds.tolist()):
        rows = used & (kinds == kind)
        if not rows.any():
            continue
        mine = np.where(joined.cached[rows, None], 0.0, parts[rows])
        before, network, server, after = (float(to_ms(mine[:, at].mean())) for at in range(4))
        cached = float(to_ms(np.where(joined.cached[rows], total[rows], 0).mean()))
        found.append(
            CallMeans(
                call=kind,
                source=f"{source} {name}",
                calls=int(np.count_nonzero(rows)),
                cached_calls=int(np.count_nonzero(rows & joined.cached)),
                total_ms=float(to_ms(total[rows].mean())),
                cached_ms=cached,
                before_ms=before,
                network_ms=network,
                server_ms=server,
                after_ms=after,
                pieces=_pieces(calls, joined, np.flatnonzero(rows & ~joined.cached), np.flatnonzero(kinds == kind), c),
            )
        )
    app_ms = {}
    for op, kind in (("READ", "pread"), ("WRITE", "pwrite")):
        alone = (names == kind) & np.array([len(rows) == 1 for rows in joined.ops]) & (parts[:, 0] >= 0)
        if op in c.ops_of and np.count_nonzero(alone) >= _NEARLY_ALL * c.ops_of[op]:
            app_ms[op] = float(to_ms(total[alone].mean()))
    return OfCalls(tuple(found), [_said(name, joined, used, total)], app_ms)


_OPS = {"pread": "READ", "pwrite": "WRITE"}


def _pieces(calls: Sequence[Call], joined: Joined, mine: I64, kind: I64, c: Analysis) -> Pieces | None:
    """What the calls `mine`, which have ops, are made of; None where they are few of all the calls of the `kind`."""
    op = _OPS.get(calls[int(kind[0])].name)
    seen = int(np.count_nonzero(joined.seen[kind]))
    if op is None or not len(mine) or len(mine) < _FEW * seen:
        return None
    ops = c.client.ops
    asked_ns, busy_ns, gaps_ns, count, size = 0, 0, 0, 0, 0
    for row in mine.tolist():
        of_call = joined.ops[row]
        begun, until = 0, 0
        for begin, end in sorted((int(ops.t0[op_row]), int(ops.t3[op_row])) for op_row in of_call):
            gaps_ns += max(begin - until, 0) if begun else 0
            busy_ns += max(end - max(begin, until), 0)
            asked_ns += end - begin
            begun, until = 1, max(until, end)
        count += len(of_call)
        size += sum(int(ops.size[op_row]) for op_row in of_call if ops.size[op_row] != NULL32)
    gaps = max(count - len(mine), 1)
    return Pieces(op, count / len(mine), asked_ns / max(busy_ns, 1), size / count, float(to_ms(gaps_ns / gaps)))


def _own_client(c: Analysis) -> bool:
    """Is there a capture of the client?"""
    return c.inferred is None or c.inferred.side != "client"


def _said(name: str, joined: Joined, used: object, total: object) -> str:
    seen, calls = joined.seen, int(np.count_nonzero(joined.seen))
    mine = seen & np.asarray(used)
    took = np.asarray(total)
    text = (
        f"{name}: {int(np.count_nonzero(mine)):,} of {calls:,} calls while the captures ran "
        f"({np.count_nonzero(mine) / calls:.1%}) are joined with what they waited for, "
        f"{took[mine].sum() / max(took[seen].sum(), 1):.1%} of their time"
    )
    if joined.doubtful:
        text += f"; {joined.doubtful:,} might have waited for what others did, and are left out"
    if np.count_nonzero(mine) < _FEW * calls:
        text += "; are they of files of these captures, and was the client's capture taken on its own host?"
    return text


_FEW = 0.5


def _names(c: Analysis) -> dict[int, str]:
    """Paths of file handles, as far as the client's capture tells them."""
    ops = c.client.ops
    paths = paths_of_side(c.client)
    rows = np.flatnonzero((paths.of_op != NULL) & (ops.offset >= 0))
    handles, first = np.unique(ops.fh[rows], return_index=True)
    return {
        handle: paths.texts[int(paths.of_op[rows[at]])]
        for handle, at in zip(handles.tolist(), first.tolist(), strict=True)
    }


def _parts(call: Call, rows: Sequence[int], c: Analysis, server_ns: F64) -> tuple[float, float, float, float]:
    """Before its first op, in the network, in the server, and behind and between its ops, ns; -1 where not known.

    Of ops in flight at once each has its part of the time in which there was any.
    """
    if not rows or any(server_ns[row] < 0 for row in rows):
        return _NOT, _NOT, _NOT, _NOT
    ops = c.client.ops
    late = min(max(max(int(ops.t3[row]) for row in rows) - call.end_ns, 0), call.late_ns)
    began, ended = call.begin_ns + late, call.end_ns + late
    spans = sorted((max(int(ops.t0[row]), began), min(int(ops.t3[row]), ended)) for row in rows)
    on_wire, until = 0, began
    for begin, end in spans:
        on_wire += max(end - max(begin, until), 0)
        until = max(until, end)
    asked = sum(int(ops.t3[row] - ops.t0[row]) for row in rows)
    share = min(sum(float(server_ns[row]) for row in rows) / asked, 1.0) if asked else 0.0
    before = max(spans[0][0] - began, 0)
    server = on_wire * share
    return before, on_wire - server, server, call.end_ns - call.begin_ns - before - on_wire
