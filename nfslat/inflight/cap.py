"""Ops of a server's capture, TCP events -> connections that the server holds back by closing their window.

Some servers take so many requests from a connection (ONTAP and Azure NetApp Files: 128) and then stop reading it. The
client's calls wait in its socket, while other connections of the same server go on. Only a window that closes is seen:
the tables hold no smaller windows.
"""

from __future__ import annotations

from collections import defaultdict
from typing import NamedTuple

import numpy as np

from nfslat.inflight.levels import levels
from nfslat.kernels.order import side_by_side
from nfslat.model.details import TcpEvent, TcpEvents
from nfslat.model.tables import I32, I64, Ops

_MANY = 64  # in flight on a connection; below, no server is known to stop reading for their number
_SLOWER = 2.0  # times the median of the server's other connections


class ConnectionCap(NamedTuple):
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
    order, spans = side_by_side(
        len(rows), 2 * len(ops.connections), lambda at: 2 * ops.conn[rows[at]] + ops.direction[rows[at]]
    )
    parts = {way: rows[order[span]] for way, span in enumerate(spans) if span.stop > span.start}
    closed_way = 2 * closed.conn.astype(np.int64) + closed.direction
    of_server: defaultdict[tuple[str, int], list[I32 | I64]] = defaultdict(list)
    for way, mine in parts.items():
        of_server[_server(ops, way)].append(mine)
    times: dict[tuple[str, int], _Times] = {}  # of the servers that are asked for
    found = []
    for way in np.unique(closed_way).tolist():
        if way not in parts or len(parts[way]) < _MANY:
            continue
        mine = parts[way]
        seen = levels(ops.t0[mine], ops.t3[mine])
        level = seen.top
        if level is None or level < _MANY:
            continue
        server = _server(ops, way)
        if server not in times:
            times[server] = _Times.of(ops, of_server[server])
        here = closed_way == way
        found.append(
            ConnectionCap(
                conn=way >> 1,
                ops=len(mine),
                level=level,
                level_share=seen.share(level) or 0.0,
                zero_windows=int(np.count_nonzero(here)),
                zero_window_ns=int(closed.value[here].sum()),
                median_ns=int(np.median(ops.t2[mine] - ops.t1[mine])),
                others=len(of_server[server]) - 1,
                others_median_ns=times[server].median_without(way >> 1),
            )
        )
    return tuple(sorted(found, key=lambda one: -one.ops))


def _server(ops: Ops, way: int) -> tuple[str, int]:
    return ops.connections[way >> 1].destination(way & 1)


class _Times(NamedTuple):
    """Server SRT of all ops of one server, ascending: what the median is without one of its connections is read off."""

    conn: I32
    srt_ns: I64

    @classmethod
    def of(cls, ops: Ops, parts: list[I32 | I64]) -> _Times:
        rows = np.concatenate(parts).astype(np.int64)
        srt_ns = ops.t2[rows] - ops.t1[rows]
        order = np.argsort(srt_ns)
        return cls(ops.conn[rows[order]], srt_ns[order])

    def median_without(self, conn: int) -> int | None:
        """Of the other connections; None: there are none."""
        srt_ns = self.srt_ns[self.conn != conn]
        if not len(srt_ns):
            return None
        return int(srt_ns[(len(srt_ns) - 1) // 2 : len(srt_ns) // 2 + 1].mean())
