"""Both sides' ops -> everything that is known of what was in flight: levels, threads, slots, sessions, connections."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import reduce
from typing import NamedTuple

import numpy as np

from nfslat.inflight.all_clients import Seen, ServerWide, seen
from nfslat.inflight.cap import ConnectionCap, connection_caps
from nfslat.inflight.jobs import Host, find_jobs
from nfslat.inflight.levels import hidden_share
from nfslat.inflight.server import ServerLoad, beside, load_of, of_one_client, server_load, threads_of
from nfslat.inflight.sessions import Session, sessions
from nfslat.inflight.slots import MountSlots, client_slots
from nfslat.kernels.at_once import at_once
from nfslat.model.details import Details
from nfslat.model.tables import I64, Bool, Loose, Ops, State
from nfslat.peer.inferred import Stamps

_MOST_SERVERS = 16  # of the others the waits are not known


class OneSide(NamedTuple):
    """What a side knows; `compared` masks the ops that count, `reverse` the calls to NFS clients (one a
    class of ops, `nfslat.select.is_reverse`); `in_socket_ns`: see `server_load`; `stamps`: see `slots.held_at`."""

    ops: Ops
    loose: Loose
    details: Details
    states: Mapping[State, int]
    missing: int  # calls that the capture does not show, by the gaps in their XIDs
    compared: Bool
    reverse: Bool
    in_socket_ns: I64 | None = None
    stamps: Stamps | None = None
    span_ns: tuple[int, int] | None = None  # from the first call to the last that were asked for; None: all
    waiting: tuple[I64, I64] | None = None  # calls without a reply: from when, and until when, they are in flight
    servers: Sequence[Host] = ((),)  # whose threads are sought, that of most interest first


class InFlight(NamedTuple):
    """`load` is of all NFS ops of the server, whoever sent them: they share its threads."""

    server: Seen
    client: Seen
    load: ServerLoad
    mounts: tuple[MountSlots, ...]
    sessions: tuple[Session, ...]  # as the client's capture shows them, else the server's
    caps: tuple[ConnectionCap, ...]
    hosts: tuple[Host, ...]  # the servers, each with its threads


def in_flight(server: OneSide, client: OneSide, wide: ServerWide | None = None) -> InFlight:
    """In flight at the server: from the call's last byte to the reply's first; at the client from first to last.

    `wide` says what the server did for all its clients, where `server` holds the ops of one of them.
    """
    if wide is not None and len(wide.load.queue_ns) != len(server.ops):
        raise ValueError(f"what is known of {len(wide.load.queue_ns)} ops is not of these {len(server.ops)}")
    at_server, at_client = (np.flatnonzero(one.compared).astype(np.int32) for one in (server, client))
    hidden = hidden_share(server.states, server.missing), hidden_share(client.states, client.missing)
    halved = hidden_share(server.states)
    ops = client.ops
    with at_once(2, len(ops)) as pool:
        load = pool.submit(_load, server, (hidden[0], halved), wide)
        of_client = pool.submit(seen, ops.t0, ops.t3, client.compared, hidden[1], client.waiting)
        of_server = pool.submit(_at_server, server, hidden[0], wide)
        together = None if client.waiting is not None else of_client.result().levels
        mounts = pool.submit(client_slots, ops, at_client, hidden[1], client.stamps, together)
        return InFlight(
            hosts=tuple(server.servers),
            sessions=sessions(ops, client.details, client.compared, hidden[1], client.stamps)
            or sessions(server.ops, server.details, server.compared, hidden[0]),
            caps=connection_caps(server.ops, at_server, server.details.events)
            if wide is None or wide.caps is None
            else wide.caps,
            load=load.result(),
            mounts=mounts.result(),
            server=of_server.result(),
            client=of_client.result(),
        )


def with_so_many(load: ServerLoad, server: OneSide, there: int) -> ServerLoad:
    """`load`, of all of one `server`, with so many threads, as somebody says; the same where the packets deny that."""
    hidden = hidden_share(server.states, server.missing), hidden_share(server.states)
    one = server.ops, server.loose, server.reverse
    tried = server_load(*one, hidden, server.details, server.in_socket_ns, server.span_ns, load.jobs.addresses, there)
    return tried if tried.threads.estimate == there else load


def one_of_several(server: OneSide, why: str) -> ServerWide:
    """What the ops of one client say of a server that works for others, too, of whom nothing is known: `why`.

    So many threads are there at least; how many, and who waits for them, its ops do not tell.
    """
    ops, details = server.ops, server.details
    jobs = find_jobs(ops, server.loose, server.reverse, details.blocked, server.servers[0])
    threads = threads_of(jobs).untold(why)
    hidden = hidden_share(server.states, server.missing)
    return ServerWide(seen(ops.t1, ops.t2, server.compared, hidden), load_of(ops, jobs, threads))


def _load(server: OneSide, hidden: tuple[float, float], wide: ServerWide | None) -> ServerLoad:
    one = server.ops, server.loose, server.reverse
    if wide is None:
        loads = [
            server_load(*one, hidden, server.details, server.in_socket_ns, server.span_ns, address)
            for address in server.servers[:_MOST_SERVERS]
        ]
        load = reduce(beside, loads)
        return load if len(loads) == len(server.servers) else load._replace(is_whole=False)
    if server.in_socket_ns is None:
        return wide.load
    return of_one_client(wide.load, *one, server.details, server.in_socket_ns)


def _at_server(server: OneSide, hidden: float, wide: ServerWide | None) -> Seen:
    if wide is not None:
        return wide.seen
    return seen(server.ops.t1, server.ops.t2, server.compared, hidden, server.waiting)
