"""A server with all that its clients asked of it -> what its threads did meanwhile, for the ops of one of them."""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from nfslat.inflight.all_clients import ServerWide, seen, taken
from nfslat.inflight.analysis import OneSide
from nfslat.inflight.cap import connection_caps
from nfslat.inflight.jobs import find_jobs
from nfslat.inflight.levels import hidden_share
from nfslat.inflight.server import server_load
from nfslat.model.protocol import NULL
from nfslat.model.tables import I64

if TYPE_CHECKING:
    from nfslat.inflight.play import Load
    from nfslat.inflight.replay import Replay


class Others(NamedTuple):
    """What a server did for others than one client: its row of each call, when that was there, its wait for a thread,
    its connection."""

    op: I64
    t1: I64
    t2: I64
    queue_ns: I64
    conn: I64


class SharedServer:
    """What is known of it is found once, and each of its clients takes the rows of its own ops."""

    def __init__(self, side: OneSide, wide: ServerWide | None = None) -> None:
        """`side` has the ops of all clients, and `compared` those in flight at the first of its `servers`; `wide`: what
        is known of it already."""
        self._side, self._known = side, wide
        self._replay: Replay | None = None

    @cached_property
    def wide(self) -> ServerWide:
        """What it did for all of them."""
        if self._known is not None:
            return self._known
        side = self._side
        ops, compared = side.ops, side.compared
        hidden = hidden_share(side.states, side.missing), hidden_share(side.states)
        load = server_load(ops, side.loose, side.reverse, hidden, side.details, server=side.servers[0])
        caps = connection_caps(ops, np.flatnonzero(compared).astype(np.int32), side.details.events)
        return ServerWide(seen(ops.t1, ops.t2, compared, hidden[0]), load, caps)

    @cached_property
    def _rows(self) -> I64:
        """Its calls that are ops, ascending."""
        side = self._side
        jobs = find_jobs(side.ops, side.loose, side.reverse, server=side.servers[0])
        return np.sort(jobs.op[jobs.op != NULL])

    def others(self, rows: I64) -> Others:
        """Its ops but for `rows`, as far as they were there between the first and the last of those."""
        ops = self._side.ops
        calls = self._rows
        is_other = np.ones(len(ops), dtype=np.bool_)
        is_other[rows] = False
        begin_ns, end_ns = ops.t1[rows].min(), ops.t2[rows].max()
        other = calls[is_other[calls] & (ops.t2[calls] >= begin_ns) & (ops.t1[calls] <= end_ns)]
        queue_ns = np.maximum(self.wide.load.queue_ns[other], 0)
        return Others(other, ops.t1[other], ops.t2[other], queue_ns, ops.conn[other].astype(np.int64))

    def replay(self, load: Callable[[], Load]) -> Replay:
        """What `load` makes, which is the same whoever asks first."""
        if self._replay is None:
            from nfslat.inflight.replay import Replay  # noqa: PLC0415  (most runs replay nothing)

            self._replay = Replay(load())
        return self._replay


class ServerShare(NamedTuple):
    """The `rows` of a server's ops, and its `conns`, that are those of one of its clients; `load` makes what all of
    them had it do."""

    server: SharedServer
    rows: I64
    conns: I64
    load: Callable[[], Load]

    @property
    def wide(self) -> ServerWide:
        """What the server did for all, as far as these ops waited for it."""
        wide = self.server.wide
        new_conn = {conn: at for at, conn in enumerate(self.conns.tolist())}
        caps = tuple(cap._replace(conn=new_conn[cap.conn]) for cap in wide.caps or () if cap.conn in new_conn)
        return ServerWide(wide.seen, taken(wide.load, self.rows), caps)
