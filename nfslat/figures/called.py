"""Each side -> who calls whom with which procedure, and which of these calls wait for their reply."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple, Self

import numpy as np

from nfslat.answer.callers import Called
from nfslat.model.protocol import op_name, program_name
from nfslat.model.record import Record
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


class _Calls(NamedTuple):
    answered: int = 0
    took_ns: float = 0.0
    unanswered: int = 0
    first_ns: int = 0  # of those, when the one was sent that waits longest
    again: int = 0

    def joined(self, other: _Calls) -> _Calls:
        firsts = [some.first_ns for some in (self, other) if some.unanswered]
        return _Calls(
            self.answered + other.answered,
            self.took_ns + other.took_ns,
            self.unanswered + other.unanswered,
            min(firsts, default=0),
            self.again + other.again,
        )


class CalledTally(Record):
    """Calls by who calls whom with which procedure."""

    calls: Mapping[_Key, _Calls] = {}

    @classmethod
    def of(cls, side: Side) -> Self:
        """Selected ops of a capture, or of a block of it, and calls without one."""
        return cls.of_ops(side) + cls.of_none(side)

    @classmethod
    def of_ops(cls, side: Side) -> Self:
        """Ops of the side that filters select."""
        ops, kept = side.ops, np.flatnonzero(side.kept)
        classes = np.stack([ops.conn[kept], ops.direction[kept], ops.kind[kept]], axis=1)
        groups, group = np.unique(classes, axis=0, return_inverse=True)
        group = np.ravel(group)  # some versions of numpy give it a second dimension
        counts = np.bincount(group, minlength=len(groups)).tolist()
        took_ns = np.bincount(group, (ops.t3 - ops.t0)[kept], minlength=len(groups)).tolist()
        calls = (_Calls(count, ns) for count, ns in zip(counts, took_ns, strict=True))
        return cls(_summed(zip((_key(side, *of) for of in groups.tolist()), calls, strict=True)))

    @classmethod
    def of_none(cls, side: Side) -> Self:
        """Calls that have no reply, or came again."""
        calls = side.decoded.loose.take(side.decoded.loose.is_reply == 0)
        columns = (calls.conn, calls.direction, calls.kind, calls.state, calls.first_ns)
        none: list[tuple[_Key, _Calls]] = []
        for conn, way, kind, state, first_ns in zip(*(column.tolist() for column in columns), strict=True):
            if state == State.NO_REPLY:
                none.append((_key(side, conn, way, kind), _Calls(unanswered=1, first_ns=first_ns)))
            elif state == State.RETRANSMITTED:
                none.append((_key(side, conn, way, kind), _Calls(again=1)))
        return cls(_summed(none))

    def __add__(self, later: Self) -> Self:
        """This one, and a later block's."""
        return type(self)(_summed((*self.calls.items(), *later.calls.items())))

    def rows(self, filters: Filters, last_ns: int) -> list[Called]:
        """Calls without a reply first, those that wait longest in front; the capture ended at `last_ns`."""
        rows = [
            Called(
                caller=key.caller,
                called=endpoint(key.host, key.port),
                transport=key.transport,
                program=key.program,
                op=key.op,
                answered=of.answered,
                unanswered=of.unanswered,
                again=of.again,
                mean_ms=to_ms(of.took_ns / of.answered) if of.answered else None,
                waits_ms=to_ms(last_ns - of.first_ns) if of.unanswered else None,
            )
            for key, of in self.calls.items()
            if (of.answered or of.unanswered or of.again) and _is_wanted(key, filters)
        ]
        return sorted(rows, key=lambda row: (-(row.waits_ms or 0.0), -row.answered, row.program, row.op))


def called_of(sides: Mapping[str, Side], filters: Filters) -> dict[str, list[Called]]:
    """Of each side; nothing where only NFS was asked for, of which other figures say more."""
    if not filters.all_programs:
        return {}
    return {name: CalledTally.of(side).rows(filters, side.decoded.last_ns) for name, side in sides.items()}


def _summed(some: Iterable[tuple[_Key, _Calls]]) -> dict[_Key, _Calls]:
    of: dict[_Key, _Calls] = {}
    for key, calls in some:
        of[key] = of[key].joined(calls) if key in of else calls
    return of


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
