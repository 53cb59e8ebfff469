"""Ops in flight at one side; and what is known of a server over all its clients, for one of them."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from nfslat.inflight.cap import ConnectionCap
from nfslat.inflight.levels import Levels, knee, levels_of
from nfslat.inflight.server import ServerLoad
from nfslat.kernels.levels import Events, in_order
from nfslat.model.tables import I32, I64, Bool


class Seen(NamedTuple):
    """Ops in flight at one side: NFS calls of the time and the hosts that were asked for, of any operation."""

    levels: Levels
    knee: int | None  # the level from which on throughput hardly grows
    hidden: float  # share of the ops, 0 to 1, that the capture does not hold


class ServerWide(NamedTuple):
    """What the server's threads did for all clients, where the ops of a side are those of one client only.

    The columns of `load` have a row for each op of this side; `caps` are of its connections, beside those of all
    clients. None: they are not known.
    """

    seen: Seen
    load: ServerLoad
    caps: tuple[ConnectionCap, ...] | None = None


def seen(starts: I64, ends: I64, compared: Bool, hidden: float, waiting: tuple[I64, I64] | None = None) -> Seen:
    """Levels of the ops that `compared` masks, and of calls without a reply that are `waiting`: from, and until."""
    if not compared.all():
        starts, ends = starts[compared], ends[compared]
    if waiting is not None:
        starts, ends = np.concatenate([starts, waiting[0]]), np.concatenate([ends, waiting[1]])
    return seen_of(in_order(starts, ends), hidden)


def seen_of(events: Events, hidden: float) -> Seen:
    """The same of ops in order."""
    found = levels_of(events)
    return Seen(found, knee(events, found), hidden)


def taken(load: ServerLoad, rows: I32 | I64) -> ServerLoad:
    """The same with the columns of the ops in `rows`."""
    queue = load.queue_ns[rows]
    # Without a limit they are one column: so they stay, and take memory once.
    least, most = (
        queue if column is load.queue_ns else column[rows]
        for column in (load.queue_with_least_ns, load.queue_with_most_ns)
    )
    return load._replace(queue_ns=queue, queue_with_least_ns=least, queue_with_most_ns=most)
