"""Ops of one capture without a partner, window by window -> why: whether the other capture has their connection, is
known when all was read."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Self

import numpy as np

from nfslat.kernels.exact import longer
from nfslat.match.connections import by_ends
from nfslat.model.protocol import NULL
from nfslat.model.tables import I64, Bool, Connection, Ops, hosts
from nfslat.select import Filters, is_reverse, select


def by_connection(ops: Ops, rows: Bool) -> I64:
    """How many of the ops in `rows` are on each connection."""
    return np.bincount(ops.conn[rows], minlength=len(ops.connections)).astype(np.int64)


def of_clients(ops: Ops, filters: Filters | None = None) -> Bool:
    """Those that reports are about: of NFS, called by a client, and selected."""
    return np.asarray((select(ops, filters or Filters(), ops.t0, 0) == 0) & ~ops.spread(is_reverse(ops)))


def alone_and_outside(ops: Ops, ran_ns: tuple[int, int], filters: Filters, rows: Bool | None = None) -> tuple[I64, int]:
    """Of the ops that reports are about, or of those in `rows`: by connection, those while the other capture ran; and
    how many are not."""
    rows = of_clients(ops, filters) if rows is None else rows & of_clients(ops, filters)
    outside = rows & ((ops.t0 < ran_ns[0]) | (ops.t3 > ran_ns[1]))
    return by_connection(ops, rows & ~outside), int(np.count_nonzero(outside))


@dataclass(frozen=True)
class Told:
    """Ops without a partner."""

    not_captured: int  # of connections that the other capture has
    of_others: int  # of connections that it has not
    of_strangers: int  # of these, those of hosts that it does not know


class Alone:
    """Of one capture, those that happened while the other one ran."""

    def __init__(self) -> None:
        """None."""
        self._counts: I64 = np.zeros(0, dtype=np.int64)  # by connection
        self._linked: set[int] = set()

    def add(self, counts: I64) -> None:
        """More of them, by connection."""
        self._counts = longer(self._counts, counts)

    def link(self, conns: Collection[int]) -> None:
        """Connections of which it is known that the other capture has them, though its addresses may be others."""
        self._linked.update(conns)

    def join(self, other: Self) -> None:
        """Those of more windows."""
        self.add(other._counts)
        self.link(other._linked)

    def told(self, own: Sequence[Connection], other: Sequence[Connection]) -> Told:
        """`own` and `other` are all connections of both captures."""
        known = hosts(other)
        linked = self._linked | set(np.flatnonzero(by_ends(tuple(own), tuple(other)).server != NULL).tolist())
        counts = dict(enumerate(self._counts.tolist()))
        others = [conn for conn, count in counts.items() if count and conn not in linked]
        of_others = sum(counts[conn] for conn in others)
        of_strangers = sum(counts[conn] for conn in others if not hosts([own[conn]]) <= known)
        return Told(sum(counts.values()) - of_others, of_others, of_strangers)
