"""Parts of a server's capture -> one table of what says something of its threads, and where in it a part's ops are."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt

from nfslat.model.decoded import Decoded
from nfslat.model.details import Blocked, no_details
from nfslat.model.protocol import NULL
from nfslat.model.tables import I32, Bool, Connection, Kind, Loose, Ops, State

_SPREAD_PORTS = 1 << 16  # addresses of one server are told apart by ports that there are not
_KEPT = ("conn", "direction", "xid", "kind", "t1", "t2", "transmissions", "status", "call_first_frame")


def slim(part: Decoded) -> Decoded:
    """The same with what `joined` looks at: 35 bytes an op, not 81, and of the details what TCP kept back."""
    columns: dict[str, Any] = {
        name: getattr(part.ops, name) if name in _KEPT else _zeros(dtype, len(part.ops))
        for name, dtype in _dtypes(part.ops).items()
    }
    details = replace(no_details(), blocked=part.details.blocked, blocked_dropped=part.details.blocked_dropped)
    return replace(part, ops=replace(part.ops, **columns), details=details)


def joined(parts: Sequence[Decoded], facts: Decoded) -> tuple[Decoded, tuple[I32, ...]]:
    """Ops, loose messages and what TCP kept back, of all parts, and which rows of the ops are a part's.

    Columns that say nothing of threads are not brought over: they are zeros that take no memory.
    """
    if len(parts) == 1:
        only = parts[0]
        return _whole(parts, facts, only.ops, only.loose, only.details.blocked), (
            np.arange(len(only.ops), dtype=np.int32),
        )
    kinds: dict[Kind, int] = {}
    kind_of = [_numbers(part.ops.kinds, kinds) for part in parts]
    conn_base = np.cumsum([0, *(len(part.ops.connections) for part in parts)])
    op_base = np.cumsum([0, *(len(part.ops) for part in parts)])
    connections = tuple(ends for part in parts for ends in part.ops.connections)
    frames = _of_all([part.ops.call_first_frame for part in parts], np.int32)
    order = np.argsort(frames, kind="stable")
    place = np.empty(len(order), dtype=np.int32)
    place[order] = np.arange(len(order), dtype=np.int32)
    rows = tuple(place[begin:end] for begin, end in zip(op_base[:-1].tolist(), op_base[1:].tolist(), strict=True))

    columns: dict[str, npt.NDArray[Any]] = {}
    for name, dtype in _dtypes(facts.ops).items():
        if name in ("direction", "xid", "t1", "t2", "transmissions", "status", "call_first_frame"):
            columns[name] = _of_all([getattr(part.ops, name) for part in parts], dtype)[order]
        elif name not in ("conn", "kind"):
            columns[name] = _zeros(dtype, len(order))
    pairs = list(zip(parts, conn_base.tolist(), kind_of, op_base.tolist(), strict=False))
    columns["conn"] = _of_all([part.ops.conn + np.int32(base) for part, base, _, _ in pairs], np.int32)[order]
    columns["kind"] = _of_all([kind[part.ops.kind] for part, _, kind, _ in pairs], np.int16)[order]
    ops = Ops(**columns, kinds=tuple(kinds), connections=connections)

    def placed(op: I32, base: int) -> I32:
        out = op.copy()
        of_op = op != NULL  # the others may be of a part without ops, behind which there are no rows
        out[of_op] = place[op[of_op] + base]
        return out

    loose_columns = {
        name: _of_all([getattr(part.loose, name) for part in parts], dtype)
        for name, dtype in _dtypes(facts.loose).items()
    }
    loose_columns["conn"] = _of_all([part.loose.conn + np.int32(base) for part, base, _, _ in pairs], np.int32)
    loose_columns["kind"] = _of_all([kind[part.loose.kind] for part, _, kind, _ in pairs], np.int16)
    loose_columns["op"] = _of_all([placed(part.loose.op, base) for part, _, _, base in pairs], np.int32)
    loose = Loose(**loose_columns, kinds=tuple(kinds), connections=connections)
    loose = loose.take(np.argsort(loose.first_frame, kind="stable"))
    tables = [part.details.blocked for part in parts]
    blocked = Blocked(
        op=_of_all([placed(one.op, base) for one, (_, _, _, base) in zip(tables, pairs, strict=True)], np.int32),
        is_reply=_of_all([one.is_reply for one in tables], np.int8),
        until_ns=_of_all([one.until_ns for one in tables], np.int64),
    )
    return _whole(parts, facts, ops, loose, blocked), rows


def _whole(parts: Sequence[Decoded], facts: Decoded, ops: Ops, loose: Loose, blocked: Blocked) -> Decoded:
    every = (*parts, facts)
    dropped = sum(part.details.blocked_dropped for part in every)
    return replace(
        facts,
        ops=ops,
        loose=loose,
        repeats={state: sum(one.repeats.get(state, 0) for one in every) for state in State},
        hidden=sum(one.hidden for one in every),
        malformed=sum(one.malformed for one in every),
        details=replace(no_details(), blocked=blocked, blocked_dropped=dropped),
    )


def _dtypes(table: Ops | Loose) -> dict[str, np.dtype[Any]]:
    return {name: getattr(table, name).dtype for name in table.columns()}


def _zeros(dtype: npt.DTypeLike, rows: int) -> npt.NDArray[Any]:
    """A column that takes no memory."""
    return np.broadcast_to(np.zeros(1, dtype=dtype), rows)


def _numbers(kinds: Sequence[Kind], known: dict[Kind, int]) -> npt.NDArray[np.int16]:
    """What each kind of a part is among all; lists of operations say nothing here. NULL, at the end, stays."""
    numbers = [known.setdefault(kind._replace(ops=()), len(known)) for kind in kinds]
    return np.array([*numbers, NULL], dtype=np.int16)


def _of_all(columns: Sequence[npt.NDArray[Any]], dtype: npt.DTypeLike) -> npt.NDArray[Any]:
    return np.concatenate([np.zeros(0, dtype=dtype), *columns]).astype(dtype, copy=False)


def of_server(ops: Ops, reverse: Bool, servers: frozenset[str]) -> tuple[Ops, Bool]:
    """The same with all addresses of the server as one, and what is called elsewhere masked like a callback."""
    number = {address: at for at, address in enumerate(sorted(servers))}
    one = min(servers)

    def named(address: str, port: int) -> tuple[str, int]:
        return (one, port + _SPREAD_PORTS * number[address]) if address in number else (address, port)

    ends = [(*named(c.addr_a, c.port_a), *named(c.addr_b, c.port_b)) for c in ops.connections]
    connections = tuple(
        Connection(c.transport, *names) for c, names in zip(ops.connections, ends, strict=True)
    )  # fmt: skip
    ops = replace(ops, connections=connections)
    c = ops.classes
    elsewhere = [connections[conn].destination(way)[0] != one for conn, way in zip(c.conn, c.direction, strict=True)]
    return ops, reverse | np.array(elsewhere, dtype=np.bool_)
