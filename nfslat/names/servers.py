"""Ops of one or two captures -> the number of the server of each, by its addresses."""

from __future__ import annotations

import numpy as np

from nfslat.model.blocks import distinct
from nfslat.model.tables import I32, Ops
from nfslat.results import Correlation
from nfslat.select import is_reverse


def servers_of(ops: Ops, numbers: dict[str, int]) -> I32:
    """The number of the NFS server of each class of ops: who is called, of callbacks who calls."""
    c = ops.classes
    ends = [
        (ops.connections[conn].source(way) if reverse else ops.connections[conn].destination(way))[0]
        for conn, way, reverse in zip(c.conn.tolist(), c.direction.tolist(), is_reverse(ops).tolist(), strict=True)
    ]
    return np.array([numbers[end] for end in ends], dtype=np.int32)


def alone(ops: Ops) -> dict[str, int]:
    """A number for each address of one capture."""
    addresses = sorted({end for ends in ops.connections for end in (ends.addr_a, ends.addr_b)})
    return {address: number for number, address in enumerate(addresses)}


def joined(c: Correlation) -> dict[str, dict[str, int]]:
    """For each side a number for each address; those that matched ops show to be one host have one."""
    numbers = {"client": alone(c.client.ops)}
    taken = len(numbers["client"])
    numbers["server"] = {address: taken + number for address, number in alone(c.server.ops).items()}
    parent = list(range(taken + len(numbers["server"])))

    def root(one: int) -> int:
        while parent[one] != one:
            one = parent[one]
        return one

    server, client = c.server.ops, c.client.ops
    pair = c.matching.matched
    at_server = server.conn[pair.server].astype(np.int64) * 2 + server.direction[pair.server]
    at_client = client.conn[pair.client].astype(np.int64) * 2 + client.direction[pair.client]
    width = 2 * len(client.connections)
    ways = np.divmod(distinct(at_server * width + at_client, 2 * len(server.connections) * width), width)
    for of_server, of_client in zip(*(column.tolist() for column in ways), strict=True):
        ends = [ops.connections[way >> 1] for ops, way in ((server, of_server), (client, of_client))]
        for end in ("source", "destination"):
            one = root(numbers["server"][getattr(ends[0], end)(of_server & 1)[0]])
            other = root(numbers["client"][getattr(ends[1], end)(of_client & 1)[0]])
            parent[max(one, other)] = min(one, other)
    return {side: {address: root(number) for address, number in of.items()} for side, of in numbers.items()}
