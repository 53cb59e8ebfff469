"""Ops of a server's capture, TCP events -> connections that the server holds back by closing their window.

Some servers take so many requests from a connection (ONTAP and Azure NetApp Files: 128) and then stop reading it. The
client's calls wait in its socket, while other connections of the same server go on. Only a window that closes is seen:
the tables hold no smaller windows.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from nfslat.columns import side_by_side
from nfslat.details import TcpEvent, TcpEvents
from nfslat.inflight.levels import levels
from nfslat.tables import I32, I64, Ops

_MANY = 64  # in flight on a connection; below, no server is known to stop reading for their number
_SLOWER = 2.0  # times the median of the server's other connections


@dataclass(frozen=True)
class ConnectionCap:
    """A connection with many ops in flight whose window the server closed."""

    conn: int  # row of ``Ops.connections``
    ops: int
    level: int  # in flight, hardly ever exceeded
    level_share: float  # of the busy time, spent at `level`
    zero_windows: int  # times that the server closed the window for calls
    zero_window_ns: int  # how long it was closed, altogether
    median_ns: int  # server SRT on this connection
    others: int  # other connections to the same server, with ops
    others_median_ns: int | None  # server SRT on those; None: there are none

    @property
    def likely(self) -> bool:
        """Are the server's other connections fast meanwhile? Without others it cannot be told."""
        return self.others_median_ns is not None and self.median_ns >= _SLOWER * self.others_median_ns


def connection_caps(ops: Ops, rows: I32 | I64, events: TcpEvents) -> tuple[ConnectionCap, ...]:
    """Connections among the ops in `rows` (no callbacks) that look as if they were held back, by ops, most first."""
    closed = events.take(events.kind == TcpEvent.ZERO_WINDOW)
    if not (len(rows) and len(closed)):
        return ()
    ways = 2 * len(ops.connections)
    order, spans = side_by_side(len(rows), ways, lambda at: 2 * ops.conn[rows[at]] + ops.direction[rows[at]])
    used: list[tuple[int, int, I32 | I64]] = [
        (way >> 1, way & 1, rows[order[span]]) for way, span in enumerate(spans) if span.stop > span.start
    ]
    found = []
    for conn, direction, mine in used:
        here = (closed.conn == conn) & (closed.direction == direction)
        if not here.any() or len(mine) < _MANY:
            continue
        seen = levels(ops.t0[mine], ops.t3[mine])
        level = seen.top
        if level is None or level < _MANY:
            continue
        server = ops.connections[conn].destination(direction)
        others = [r for c, way, r in used if c != conn and ops.connections[c].destination(way) == server]
        found.append(
            ConnectionCap(
                conn=conn,
                ops=len(mine),
                level=level,
                level_share=seen.share(level) or 0.0,
                zero_windows=int(np.count_nonzero(here)),
                zero_window_ns=int(closed.value[here].sum()),
                median_ns=_median_ns(ops, mine),
                others=len(others),
                others_median_ns=_median_ns(ops, np.concatenate(others).astype(np.int64)) if others else None,
            )
        )
    return tuple(sorted(found, key=lambda one: -one.ops))


def _median_ns(ops: Ops, rows: I32 | I64) -> int:
    return int(np.median(ops.t2[rows] - ops.t1[rows]))
