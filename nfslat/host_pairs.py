"""Matched ops -> the pairs of hosts that they are of: who calls whom, by their addresses."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import NamedTuple

import numpy as np

from nfslat.model.blocks import distinct, together
from nfslat.model.protocol import NULL
from nfslat.model.tables import I64, Bool, Matched, Ops
from nfslat.select import is_reverse


class HostPair(NamedTuple):
    """Addresses as the client's capture has them; `there` is the server's as its own has it."""

    client: str
    server: str
    there: str
    ops: int  # matched

    @property
    def words(self) -> str:
        """As a part of a sentence."""
        return f"between {self.client} and {self.server}"


class HostPairs(NamedTuple):
    """`pairs` are those with matched ops, most first; the columns have a row for each class of the ops of a side, and
    say of which pair it is: NULL for hosts that only one of the captures knows."""

    pairs: tuple[HostPair, ...]
    of_server: I64
    of_client: I64

    @property
    def servers(self) -> tuple[str, ...]:
        """Addresses in the server's capture, that with most matched ops first."""
        ops: dict[str, int] = {}
        for one in self.pairs:
            ops[one.there] = ops.get(one.there, 0) + one.ops
        return tuple(sorted(ops, key=lambda address: -ops[address]))


def host_pairs(server: Ops, client: Ops, matched: Matched) -> HostPairs:
    """Of ops that clients call. A connection is of one pair; one without a matched op is of the pair that has its
    addresses."""
    at_client, at_server = ends_of(client), ends_of(server)
    numbers: dict[tuple[str, str], int] = {}
    own = np.array([numbers.setdefault(one, len(numbers)) for one in at_client], dtype=np.int64)
    names = list(numbers)
    linked = np.full(len(server.connections), NULL, dtype=np.int64)
    if len(names) == 1:
        counts = np.array([len(matched)])
        linked[distinct(server.conn[together(matched.server)], len(linked))] = 0
    else:
        pair = client.spread(own)[matched.client]
        counts = np.bincount(pair, minlength=len(names))
        linked[server.conn[matched.server]] = pair
    order = [int(one) for one in np.argsort(-counts, kind="stable") if counts[one]]
    number = np.full(len(names), NULL, dtype=np.int64)
    number[order] = np.arange(len(order))
    linked[linked != NULL] = number[linked[linked != NULL]]
    of_class = linked[server.classes.conn]
    alike = {ends: int(one) for ends, one in zip(at_server, of_class.tolist(), strict=True) if one != NULL}
    there = {one: ends[1] for ends, one in alike.items()}
    return HostPairs(
        pairs=tuple(HostPair(*names[one], there[at], int(counts[one])) for at, one in enumerate(order)),
        of_server=np.array(
            [alike.get(ends, NULL) if one == NULL else one for ends, one in zip(at_server, of_class, strict=True)],
            dtype=np.int64,
        ),
        of_client=number[own] if len(own) else own,
    )


def has_several(ops: Ops) -> bool:
    """Does the capture know more than one pair, whatever of them is compared?"""
    return len(set(ends_of(ops))) > 1


def is_at(ops: Ops, addresses: Collection[str]) -> Bool:
    """Of each class of ops: is that the server, or, of callbacks, the client that is called?"""
    c = ops.classes
    return np.array(
        [ops.connections[conn].destination(way)[0] in addresses for conn, way in zip(c.conn, c.direction, strict=True)],
        dtype=np.bool_,
    )


def ends_of(ops: Ops) -> list[tuple[str, str]]:
    """Addresses of the client and the server of each class."""
    out = []
    for conn, way, reverse in zip(ops.classes.conn, ops.classes.direction, is_reverse(ops), strict=True):
        caller, called = ops.connections[conn].source(way)[0], ops.connections[conn].destination(way)[0]
        out.append((called, caller) if reverse else (caller, called))
    return out


def apart(theta_ns: Mapping[tuple[str, str], int]) -> tuple[dict[str, int], dict[str, int]]:
    """Of pairs of a server and a client, by address, the server's clock minus the client's -> by how much each clock is
    later than the first one of its side. Hosts that nothing joins to the first are left out."""
    servers: dict[str, int] = {}
    clients: dict[str, int] = {}
    if not theta_ns:
        return servers, clients
    (server, client), first_ns = next(iter(theta_ns.items()))
    servers[server] = clients[client] = 0
    left = dict(theta_ns)
    while True:
        joined = [ends for ends in left if ends[0] in servers or ends[1] in clients]
        if not joined:
            return servers, clients
        for server, client in joined:
            more_ns = left.pop((server, client)) - first_ns
            if server not in servers:
                servers[server] = more_ns + clients[client]
            if client not in clients:
                clients[client] = servers[server] - more_ns
