"""Ops of a client's capture, without TCP's word on them -> what their replies alone say of the server and the path.

UDP acknowledges nothing, and carries no clock. A call was with the server when its reply left, and both were on the way
for some time: so the server took no longer than the client saw. The path does not look at what an operation does: what
the quickest kind of them takes, time after time, is more than the path takes for the others beside them, too.
"""

from __future__ import annotations

import dataclasses

import numpy as np

from nfslat.model.details import TcpEvent, TcpEvents
from nfslat.model.tables import F64, I16, I64, Bool, Ops
from nfslat.peer.instants import Between
from nfslat.peer.path import Waits
from nfslat.peer.vantage import Vantage

_ENOUGH = 30  # ops of a kind
_STRETCHES, _IN_MOST = 16, 0.75  # of all ops in order: in so many of them the kind is


def quickest_kind(kind: I16, begin: I64, end: I64, least_ns: float) -> Waits | None:
    """Of ops in the order of their calls: what those of the quickest kind took beyond the shortest, as far as they were
    called while as many others were in flight as usual; for a queue that ops make is not there without them. None where
    there is one kind only, or none goes along with the others often enough."""
    stretch = np.arange(len(kind)) * _STRETCHES // max(len(kind), 1)
    in_flight = np.arange(len(kind)) - np.searchsorted(np.sort(end), begin)
    found = None
    kinds = np.unique(kind)
    for one in kinds.tolist() if len(kinds) > 1 else ():
        usual = np.median(in_flight[kind != one])
        rows = np.flatnonzero((kind == one) & (in_flight >= usual))
        if len(rows) < _ENOUGH or len(np.unique(stretch[rows])) < _IN_MOST * _STRETCHES:
            continue
        own = Waits.of((end - begin)[rows] - np.float64(least_ns))
        if found is None or own.mean_ns < found.mean_ns:
            found = own
    return found


def incomplete_replies(ops: Ops, events: TcpEvents) -> tuple[I64, I64]:
    """Ops of which a reply lacked a fragment before one came whole, and when the first of it came."""
    events = events.take(events.kind == TcpEvent.INCOMPLETE)
    if not len(events) or not len(ops):
        return np.zeros(0, dtype=np.int64), np.zeros(0, dtype=np.int64)
    ways = ops.conn.astype(np.int64) * 2 + (ops.direction ^ 1)
    of_op, of_event = (
        way << 32 | xid.astype(np.int64)
        for way, xid in ((ways, ops.xid), (events.conn.astype(np.int64) * 2 + events.direction, events.offset))
    )
    order = np.argsort(of_op, kind="stable")
    at = order[np.minimum(np.searchsorted(of_op[order], of_event), len(order) - 1)]
    is_its = (of_op[at] == of_event) & (events.t_ns >= ops.t1[at]) & (events.t_ns < ops.t2[at])
    rows, first = np.unique(at[is_its], return_index=True)
    return rows.astype(np.int64), events.t_ns[is_its][first]


def as_answered(ops: Ops, rows: I64, t_ns: I64) -> Ops:
    """With these instants of their replies: the server had sent them by then, whatever became of them."""
    t2, t3 = ops.t2.copy(), ops.t3.copy()
    t2[rows] = t3[rows] = t_ns
    return dataclasses.replace(ops, t2=t2, t3=t3)


def of_server(ops: Ops, rows: I64) -> tuple[list[Between], F64, float]:
    """When the server of a pair of hosts had each call, and sent the first and last packet of its reply, on the
    client's clock; how far the server's time may be misdated; and the shortest round trip that the ops allow."""
    call, reply, last = (column[rows].astype(np.float64) for column in (ops.t1, ops.t2, ops.t3))
    took = reply - call
    once: Bool = ops.transmissions[rows] == 1
    least = float(took[once].min()) if once.any() else 0.0
    waits = quickest_kind(ops.kind[rows][once], ops.t1[rows][once], ops.t2[rows][once], least)
    # Of the shortest the server took a part: half, give or take as much.
    trip = least / 2
    large = ops.call_first_frame[rows] != ops.call_last_frame[rows]
    sending = _least_of(ops.kind[rows], took, large & once) - least if large.any() else np.zeros(len(rows))
    if waits is None:
        room, middle, doubt = took, np.zeros(len(rows)), took - trip
    else:
        room = np.where(once, np.fmin(least + waits.most_ns + sending, took), took)
        middle = np.where(once, np.fmin(waits.mean_ns / 2, (took - trip) / 2), 0.0)
        doubt = np.where(once, trip + waits.mean_ns - middle + sending, took - trip)
    place = np.zeros(len(rows), dtype=np.int64)
    had = Between(call, call + (trip + middle) / 2, call + room / 2, place)
    sent, ended = (Between(at - room / 2, at - (trip + middle) / 2, at, place) for at in (reply, last))
    return [had, sent, ended], doubt, trip


def _least_of(kind: I16, took: F64, rows: Bool) -> F64:
    """For each op in `rows` the least that one of its kind took; of the others the least of all."""
    out = np.full(len(kind), took.min())
    for one in np.unique(kind[rows]).tolist():
        own = rows & (kind == one)
        out[own] = took[own].min()
    return out


def of_hosts(ops: Ops, rows: I64) -> list[I64]:
    """Ops by their two hosts."""
    names = [tuple(sorted((ends.addr_a, ends.addr_b))) for ends in ops.connections]
    numbers = {name: at for at, name in enumerate(sorted(set(names)))}
    pair = np.array([numbers[name] for name in names], dtype=np.int64)[ops.conn[rows]]
    return [rows[pair == one] for one in np.unique(pair).tolist()]


def by_hosts(ops: Ops, rows: I64) -> Vantage:
    """Where NFS over UDP was captured, which no packet says: at the one server of several clients, else at a client.
    (With one client and one server what is said of the server's time is right at either of them.)"""
    ends = {(ops.connections[conn], int(way)) for conn, way in zip(ops.conn[rows], ops.direction[rows], strict=True)}
    clients = {one.source(way)[0] for one, way in ends}
    servers = {one.destination(way)[0] for one, way in ends}
    place = "server" if len(clients) > 1 and len(servers) == 1 else "client"
    return Vantage(place, np.nan, np.nan, np.nan, np.nan)
