"""Each side -> who calls whom with which procedure, and which of these calls wait for their reply."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from nfslat.answer.callers import Called
from nfslat.model.protocol import op_name, program_name
from nfslat.model.tables import State, endpoint
from nfslat.model.units import to_ms
from nfslat.results import Side
from nfslat.select import Filters


class _Key(NamedTuple):
    caller: str
    host: str
    port: int
    transport: str
    program: str
    op: str


@dataclass
class _Calls:
    answered: int = 0
    took_ns: float = 0.0
    waits_ms: list[float] = field(default_factory=list)
    again: int = 0


def called_of(sides: Mapping[str, Side], filters: Filters) -> dict[str, list[Called]]:
    """Of each side."""
    return {name: _rows(side, filters) for name, side in sides.items()}


def _rows(side: Side, filters: Filters) -> list[Called]:
    """Calls without a reply first, those that wait longest in front."""
    found: dict[_Key, _Calls] = defaultdict(_Calls)
    ops, loose, last_ns = side.ops, side.decoded.loose, side.decoded.last_ns
    kept = np.flatnonzero(side.kept)
    classes = np.stack([ops.conn[kept], ops.direction[kept], ops.kind[kept]], axis=1)
    groups, group = np.unique(classes, axis=0, return_inverse=True)
    group = np.ravel(group)  # some versions of numpy give it a second dimension
    counts = np.bincount(group, minlength=len(groups))
    took_ns = np.bincount(group, (ops.t3 - ops.t0)[kept], minlength=len(groups))
    for number, (conn, way, kind) in enumerate(groups.tolist()):
        of = found[_key(side, conn, way, kind)]
        of.answered += int(counts[number])
        of.took_ns += float(took_ns[number])
    calls = loose.take(loose.is_reply == 0)
    for conn, way, kind, state, first_ns in zip(
        calls.conn.tolist(), calls.direction.tolist(), calls.kind.tolist(), calls.state.tolist(),
        calls.first_ns.tolist(), strict=True,
    ):  # fmt: skip
        of = found[_key(side, conn, way, kind)]
        if state == State.NO_REPLY:
            of.waits_ms.append(to_ms(last_ns - first_ns))
        elif state == State.RETRANSMITTED:
            of.again += 1
    rows = [
        Called(
            caller=key.caller,
            called=endpoint(key.host, key.port),
            transport=key.transport,
            program=key.program,
            op=key.op,
            answered=of.answered,
            unanswered=len(of.waits_ms),
            again=of.again,
            mean_ms=to_ms(of.took_ns / of.answered) if of.answered else None,
            waits_ms=max(of.waits_ms, default=None),
        )
        for key, of in found.items()
        if (of.answered or of.waits_ms or of.again) and _is_wanted(key, filters)
    ]
    return sorted(rows, key=lambda row: (-(row.waits_ms or 0.0), -row.answered, row.program, row.op))


def _is_wanted(key: _Key, filters: Filters) -> bool:
    return (
        (not filters.ops or key.op in filters.ops)
        and (not filters.clients or key.caller in filters.clients)
        and (not filters.servers or key.host in filters.servers)
        and (not filters.ports or key.port in filters.ports)
    )


def _key(side: Side, conn: int, way: int, kind: int) -> _Key:
    ends, asked = side.ops.connections[conn], side.ops.kinds[kind]
    host, port = ends.destination(way)
    name = op_name(asked.program, asked.version, asked.op)
    return _Key(ends.source(way)[0], host, port, ends.transport, program_name(asked.program), name)
