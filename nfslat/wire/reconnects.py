"""Ops, loose messages and TCP details of a side -> ops that were sent again on a new connection, and how long there was
none."""

from __future__ import annotations

import itertools
from typing import NamedTuple

import numpy as np

from nfslat.model.details import Details, Tcp
from nfslat.model.protocol import NULL
from nfslat.model.tables import I64, Bool, Loose, Ops, State


def sent_on_a_new_connection(ops: Ops, loose: Loose, details: Details) -> Bool:
    """Mask of the ops whose call came again where a connection had ended: from the same port (NFSv3) or another."""
    again = _sent_again(loose)
    if not len(again):
        return np.zeros(len(ops), dtype=np.bool_)
    row = loose.op[again]
    made_anew = np.isin(loose.conn[again], details.tcp.conn[details.tcp.reconnect > 0])
    out = np.zeros(len(ops), dtype=np.bool_)
    out[row[made_anew | _moved(ops, loose, again, details.tcp)]] = True
    return out & (ops.transmissions > 1)


def _sent_again(loose: Loose) -> I64:
    return np.flatnonzero((loose.state == State.RETRANSMITTED) & (loose.is_reply == 0) & (loose.op >= 0))


def _moved(ops: Ops, loose: Loose, again: I64, tcp: Tcp) -> Bool:
    """Which of the calls in rows `again` came on another connection: an op is on that of its answer, so where the first
    call is older than its connection, that was on another one."""
    row, conn = loose.op[again], loose.conn[again]
    began = np.full(len(ops.connections), NULL, dtype=np.int64)
    order = np.argsort(-tcp.first_ns, kind="stable")
    began[tcp.conn[order]] = tcp.first_ns[order]  # of each the earliest
    return np.asarray((conn != ops.conn[row]) | (ops.t0[row] < began[conn]))


def without_connection(ops: Ops, loose: Loose, tcp: Tcp, mask: Bool) -> tuple[I64, I64, I64]:
    """Times in which the client of the ops in `mask` had no connection: the connection that came next, from, and until.

    Until the server answers on one that it then serves. From the first attempt on, for nobody connects who has nothing
    to send; where a call that had been sent waited for it, from when the server was last heard of, or from that
    call on where it came later. `tcp` is that of the
    client's side.
    """
    again = _sent_again(loose)
    again = again[mask[loose.op[again]]]
    sent, row, new = loose.first_ns[again], loose.op[again], loose.conn[again].astype(np.int64)
    moved = _moved(ops, loose, again, tcp)
    made_anew = set(tcp.conn[tcp.reconnect > 0].tolist())
    if not made_anew and not moved.any():
        nothing = np.zeros(0, dtype=np.int64)
        return nothing, nothing, nothing
    ways = ops.ways(mask)
    mount_of = {way >> 1: _mount(ops, way) for way in ways.tolist()}
    mounts = {mount_of[conn] for conn in new[moved].tolist() if conn in mount_of}
    lives = _lives(tcp, [way for way in ways.tolist() if way >> 1 in made_anew or mount_of[way >> 1] in mounts])
    found: dict[tuple[int, int], int] = {}  # the new connection, and until when -> since when
    for conn, stood in lives.items():
        here = np.flatnonzero((new == conn) & ~moved)
        for before, after in itertools.pairwise(stood):
            late = here[(sent[here] > before.heard_ns) & (sent[here] < after.last_ns)]
            since_ns = max(before.heard_ns, int(ops.t0[row[late]].min(initial=after.tried_ns)))
            found[conn, after.stands_ns] = min(since_ns, after.tried_ns)
    # From another port: what was sent again tells that one was made for another that had ended.
    for at in np.flatnonzero(moved).tolist():
        conn, first_ns = int(new[at]), int(ops.t0[row[at]])
        made = [one for one in lives.get(conn, ()) if one.tried_ns <= sent[at]]
        if not made:
            continue
        others = [one for other in lives if other != conn and mount_of[other] == mount_of[conn] for one in lives[other]]
        ended = [one.heard_ns for one in others if one.tried_ns <= first_ns and one.last_ns < made[-1].stands_ns]
        if ended:
            key = conn, made[-1].stands_ns
            since_ns = max(*ended, first_ns)
            found[key] = min(since_ns, found.get(key, since_ns))
    rows = sorted((conn, since, until) for (conn, until), since in found.items() if since < until)
    columns = np.array(rows, dtype=np.int64).reshape(-1, 3).T.copy()
    return columns[0], columns[1], columns[2]


def _mount(ops: Ops, way: int) -> tuple[str, str, int]:
    """The client's address, the server's, and its port."""
    ends = ops.connections[way >> 1]
    return ends.source(way & 1)[0], *ends.destination(way & 1)


class _Life(NamedTuple):
    """Of one TCP connection that the server served, and of the attempts in vain in front of it."""

    tried_ns: int  # the client's first packet since the one before had ended
    stands_ns: int  # the server's first packet, or the client's where that came later
    heard_ns: int  # the server's last packet
    last_ns: int  # of both


def _lives(tcp: Tcp, ways: list[int]) -> dict[int, list[_Life]]:
    """By connection, in time order; `ways` (connection times 2, plus direction) are those of the calls."""
    order = np.lexsort((tcp.reconnect, tcp.conn))
    conns = tcp.conn[order]
    out: dict[int, list[_Life]] = {}
    for way in ways:
        conn, calls = way >> 1, way & 1
        rows = order[slice(*np.searchsorted(conns, [conn, conn + 1]).tolist())]
        tried = NULL
        for number in np.unique(tcp.reconnect[rows]).tolist():
            of_it = rows[tcp.reconnect[rows] == number]
            client, server = (of_it[tcp.direction[of_it] == side].tolist() for side in (calls, 1 - calls))
            if client and tried == NULL:
                tried = int(tcp.first_ns[client[0]])
            if not (client and server and tcp.data_packets[server[0]]):
                continue  # nobody served it
            first, last = (column[[client[0], server[0]]].tolist() for column in (tcp.first_ns, tcp.last_ns))
            out.setdefault(conn, []).append(_Life(tried, max(first), last[1], max(last)))
            tried = NULL
    return out
