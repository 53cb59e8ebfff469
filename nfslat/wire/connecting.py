"""TCP details of a client's side, and of the server's -> connections whose first SYN was not answered, and its fate.

A SYN is sent again after 1 s, 3 s and 7 s (RFC 6298 section 2.1; Linux: tcp_syn_retries), longer than any path takes.
"""

from __future__ import annotations

from enum import IntEnum
from typing import NamedTuple

import numpy as np

from nfslat.model.details import Tcp
from nfslat.model.protocol import NULL
from nfslat.model.tables import I32, I64, Ops

LEAST_RETRY_NS = 900_000_000
_LEAST_TRIES = 3  # SYNs, in vain: two are 1 s


class Fate(IntEnum):
    """Where the first SYN of a connection, or its answer, was lost."""

    UNKNOWN = 0
    TO_SERVER = 1  # the server's capture does not show it
    TO_CLIENT = 2  # the server answered it
    IN_SERVER = 3  # the server had it, and answered late or not at all
    OLDER = 4  # answered, and not with a SYN: of an older connection between these ports (RFC 5961 section 4)


class Connecting(NamedTuple):
    """A row a connection: from its first SYN until it stood, or the capture ended; on the client's clock."""

    conn: I64  # or another one to that server, where this one carries no calls
    since_ns: I64
    until_ns: I64
    fate: I64
    is_open: I64  # 1: it stood to the end of the capture as little


class There(NamedTuple):
    """The server's side: the connections there of each of the client's, and by how much its clock is ahead."""

    tcp: Tcp
    links: tuple[I32, I32]  # of the server's connections, and of the client's
    ahead_ns: int
    last_ns: int  # of the capture, on its own clock


def ways_to_servers(ops: Ops, tcp: Tcp, ways: I64) -> dict[int, int]:
    """Connections (times 2, plus direction) that carry calls in `ways`, and those that were tried in vain between the
    same hosts to the same port: rows in `tcp` without an op. For each a connection between these that carries calls."""

    def ends(way: int) -> tuple[str, str, int]:
        return ops.connections[way >> 1].source(way & 1)[0], *ops.connections[way >> 1].destination(way & 1)

    to_server = {way: way >> 1 for way in ways.tolist()}
    carries = {ends(way): conn for way, conn in to_server.items()}
    in_vain = np.setdiff1d((tcp.conn * 2 + tcp.direction)[(tcp.saw_syn == 1) & (tcp.data_packets == 0)], ways)
    return to_server | {way: carries[ends(way)] for way in in_vain.tolist() if ends(way) in carries}


def connecting(tcp: Tcp, to_server: dict[int, int], there: There | None, last_ns: int) -> Connecting:
    """The client's connections that took `LEAST_RETRY_NS` or longer to be opened, of those in `to_server`
    (`ways_to_servers`). The capture ended at `last_ns`."""
    ways = np.array(list(to_server), dtype=np.int64)
    rows = []
    number = {
        (conn, reconnect, direction): row
        for row, (conn, reconnect, direction) in enumerate(
            zip(tcp.conn.tolist(), tcp.reconnect.tolist(), tcp.direction.tolist(), strict=True)
        )
    }
    for row in np.flatnonzero((tcp.saw_syn == 1) & np.isin(tcp.conn * 2 + tcp.direction, ways)).tolist():
        conn, reconnect, direction = int(tcp.conn[row]), int(tcp.reconnect[row]), int(tcp.direction[row])
        answer = number.get((conn, reconnect, 1 - direction))
        since_ns, is_open = int(tcp.first_ns[row]), answer is None or tcp.saw_syn[answer] != 1
        until_ns = _given_up_ns(tcp, ways, row, last_ns) if answer is None or is_open else int(tcp.first_ns[answer])
        if until_ns - since_ns >= LEAST_RETRY_NS:
            carries = to_server[conn * 2 + direction]
            fate = Fate.OLDER if is_open and answer is not None else _fate(there, tcp, row, carries)
            rows.append((carries, since_ns, until_ns, int(fate), int(is_open and until_ns == last_ns)))
    return Connecting(*np.array(rows, dtype=np.int64).reshape(-1, 5).T.copy())


def _given_up_ns(tcp: Tcp, ways: I64, row: int, last_ns: int) -> int:
    """Until when a client waits for the answer to the SYNs in `row` of `tcp`, of which none is a SYN: until another
    connection to that server stands, the end of the capture, or the last SYN, where the next would have come. That of
    a connection on which something was sent, or which was refused at once, is no wait: its first SYN."""
    since_ns, tried_ns = int(tcp.first_ns[row]), int(tcp.last_ns[row])
    if tcp.packets[row] < _LEAST_TRIES or tcp.data_packets[row]:
        return since_ns
    until_ns = last_ns if last_ns - tried_ns <= 2 * (tried_ns - since_ns) + LEAST_RETRY_NS else tried_ns
    answers = np.isin(tcp.conn * 2 + 1 - tcp.direction, ways) & (tcp.saw_syn == 1) & (tcp.first_ns > since_ns)
    return min(until_ns, int(tcp.first_ns[answers].min(initial=until_ns)))


def _fate(there: There | None, tcp: Tcp, row: int, carries: int) -> Fate:
    """What the server's capture shows of the SYN in `row` of the client's `tcp`, by the sequence number behind it.

    `carries` is a connection to that server with calls."""
    if there is None:
        return Fate.UNKNOWN
    server, client = there.links
    if client[carries] == NULL:
        return Fate.UNKNOWN
    link = client[tcp.conn[row]]  # NULL: it has no call
    theirs = there.tcp
    same = np.isin(theirs.conn, np.flatnonzero(server == link)) & (theirs.saw_syn == 1)
    (matching,) = np.nonzero(same & (theirs.first_seq == tcp.first_seq[row]))
    if len(matching) != 1:
        ran_on = there.last_ns - there.ahead_ns >= int(tcp.last_ns[row])
        return Fate.TO_SERVER if ran_on and not len(matching) else Fate.UNKNOWN
    at = int(matching[0])
    came_ns = int(theirs.first_ns[at]) - there.ahead_ns
    if came_ns - int(tcp.first_ns[row]) >= LEAST_RETRY_NS:
        return Fate.TO_SERVER
    back = (theirs.conn == theirs.conn[at]) & (theirs.reconnect == theirs.reconnect[at])
    back &= theirs.direction != theirs.direction[at]
    if not back.any():
        return Fate.IN_SERVER if theirs.packets[at] >= _LEAST_TRIES else Fate.UNKNOWN
    late_ns = int(theirs.first_ns[back].min()) - int(theirs.first_ns[at])
    return Fate.IN_SERVER if late_ns >= LEAST_RETRY_NS else Fate.TO_CLIENT


def unheard_ns(ops: Ops, tcp: Tcp, ways: I64, since_ns: int) -> int:
    """How long in all, from `since_ns` on, clients were not heard of before they opened a connection, after others;
    `ways` as before.

    At the server nothing shows whether it had nothing to ask for then, or its first SYNs were lost.
    """

    def ends(way: int) -> tuple[str, str]:
        return ops.connections[way >> 1].source(way & 1)[0], ops.connections[way >> 1].destination(way & 1)[0]

    lives: dict[tuple[str, str], list[tuple[int, int, bool]]] = {ends(way): [] for way in ways.tolist()}
    columns = (tcp.conn * 2 + tcp.direction, tcp.first_ns, tcp.last_ns, tcp.saw_syn == 1)
    for way, first_ns, last_ns, opens in zip(*(column.tolist() for column in columns), strict=True):
        for hosts, is_client in ((ends(way), True), (ends(way ^ 1), False)):
            if hosts in lives:
                lives[hosts].append((first_ns, last_ns, is_client and opens))
    total_ns = 0
    for stood in lives.values():
        heard_ns = None
        for first_ns, last_ns, opens in sorted(stood, key=lambda life: (life[0], not life[2])):
            if heard_ns is not None and opens and first_ns - heard_ns >= LEAST_RETRY_NS:
                total_ns += max(first_ns - max(heard_ns, since_ns), 0)
            heard_ns = last_ns if heard_ns is None else max(heard_ns, last_ns)
    return total_ns
