"""Ops of one capture without a partner, window by window -> why: whether the other capture has their connection, is
known when all was read."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Self

import numpy as np

from nfslat.kernels.exact import longer
from nfslat.match.connections import by_ends
from nfslat.model.protocol import NULL
from nfslat.model.tables import I64, Bool, Connection, Miss, Ops, hosts
from nfslat.results import Analysis
from nfslat.select import Filters, is_reverse, select

_NOT_CAPTURED = {"server": Miss.NOT_CAPTURED_AT_CLIENT, "client": Miss.NOT_CAPTURED_AT_SERVER}
_KNOWN = (Miss.OUTSIDE_OVERLAP, Miss.AMBIGUOUS)  # of those that have no partner: why, at once


def of_clients(ops: Ops, filters: Filters | None = None, later_ns: int = 0) -> Bool:
    """The ops that reports are about: of NFS, called by a client, and selected; the client's clock is so much later."""
    reasons = select(ops, filters or Filters(), ops.t0 + later_ns, 0)
    return np.asarray((reasons == 0) & ~ops.spread(is_reverse(ops)))


@dataclass(frozen=True, eq=False)
class Lone:
    """How many have no partner: by connection, those while the other capture ran; and the others."""

    by_conn: I64 = field(default_factory=lambda: np.zeros(0, dtype=np.int64))
    outside: int = 0

    @classmethod
    def of(cls, ops: Ops, ran_ns: tuple[int, int], filters: Filters, later_ns: int = 0) -> Self:
        """Sums of the ops that reports are about; the other capture ran from when to when, and the client's clock is so
        much later than that of the ops."""
        rows = of_clients(ops, filters, later_ns)
        outside = rows & ((ops.t0 < ran_ns[0]) | (ops.t3 > ran_ns[1]))
        by_conn = np.bincount(ops.conn[rows & ~outside], minlength=len(ops.connections)).astype(np.int64)
        return cls(by_conn, int(np.count_nonzero(outside)))

    def __add__(self, later: Self) -> Self:
        """These, and others."""
        return type(self)(longer(self.by_conn, later.by_conn), self.outside + later.outside)

    @property
    def ops(self) -> int:
        """All of them."""
        return int(self.by_conn.sum()) + self.outside


class Fates:
    """What becomes of the ops of either side that have no partner."""

    def __init__(self, filters: Filters) -> None:
        """No window was read."""
        self.unmatched: dict[str, Counter[str]] = {name: Counter() for name in _NOT_CAPTURED}
        self.untimed = 0
        self.alone: Counter[str] = Counter()  # ops by side that the other capture should have and has not
        self._filters = filters
        self._lone = {name: Lone() for name in _NOT_CAPTURED}
        # Connections of which it is known that the other capture has them, though its addresses may be others.
        self._linked: dict[str, set[int]] = {name: set() for name in _NOT_CAPTURED}

    def add(self, lone: Mapping[str, Lone]) -> None:
        """More of them."""
        for name, some in lone.items():
            self._lone[name] += some

    def add_compared(self, c: Analysis) -> None:
        """Those of a window that has ops in both captures."""
        self.untimed += c.untimed
        links = c.matching.links
        for name, side, link in (("server", c.server, links.server), ("client", c.client, links.client)):
            fates, compared = c.missed(name), c.compared(name)
            counts = {why: int(np.count_nonzero(compared & (fates == why))) for why in _KNOWN}
            self.unmatched[name].update({why.name: count for why, count in counts.items()})
            self.alone[name] += counts[Miss.AMBIGUOUS]
            is_open = compared & ((fates == _NOT_CAPTURED[name]) | (fates == Miss.CONNECTION_UNMATCHED))
            self._lone[name] += Lone(np.bincount(side.ops.conn[is_open]))
            self._linked[name].update(np.flatnonzero(link != NULL).tolist())

    def end(self, outside: int, connections: Mapping[str, Sequence[Connection]]) -> None:
        """All was read; `outside`: ops that the server's capture has beyond the client's."""
        self._lone["server"] += Lone(outside=outside)
        for name, other in (("server", "client"), ("client", "server")):
            own, theirs = tuple(connections[name]), tuple(connections[other])
            known = hosts(theirs)
            linked = self._linked[name] | set(np.flatnonzero(by_ends(own, theirs).server != NULL).tolist())
            counts, lone = self.unmatched[name], self._lone[name]
            counts[Miss.OUTSIDE_OVERLAP.name] += lone.outside
            for conn, ops in enumerate(lone.by_conn.tolist()):
                counts[(_NOT_CAPTURED[name] if conn in linked else Miss.CONNECTION_UNMATCHED).name] += ops
                is_stranger = conn not in linked and not hosts([own[conn]]) <= known
                self.alone[name] += 0 if is_stranger else ops
