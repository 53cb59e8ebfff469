"""Connections of two captures -> which of them are one: by addresses and ports, by shared ops, by TCP sequence numbers.

Equal addresses and ports are believed as long as nothing speaks against them. What is left over (NAT, load balancers,
proxies) is found by ops that can be no others: XID, program, version and all arguments that both captures show. Where
several connections have the same ones, the ranges of their TCP sequence numbers, which a NAT leaves as they are, tell
them apart. Several connections of a side may belong to one of the other: a box in between gave a reconnect another
port, or spreads the calls of a client over several connections.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

import numpy as np

from nfslat.match.sequences import Ranges, compare
from nfslat.match.shared_ops import SHARED_OPS, Shared, find_shared, sizes
from nfslat.model.details import Tcp
from nfslat.model.protocol import NULL
from nfslat.model.record import Record
from nfslat.model.tables import I32, I64, Bool, Connection, Ops

# So many shared ops are no accident: enough between the first and the last that is shared (captures that overlap in
# part), where their arguments are seen; and enough for one more connection beside one that is found already.
_MANY = 10
# Connections with the same addresses and ports that share no more of their ops than this may be others all the same.
_NEXT_TO_NOTHING = 0.05

_Pairs = list[tuple[int, int]]  # connections: the server's, the client's


class Links(Record):
    """For each connection of a side the number of what it is part of, NULL where the other side has nothing of it."""

    server: I32
    client: I32

    @property
    def count(self) -> int:
        """Numbers go from 0 to below this."""
        return 1 + max(int(self.server.max(initial=NULL)), int(self.client.max(initial=NULL)))


def by_ends(server: tuple[Connection, ...], client: tuple[Connection, ...]) -> Links:
    """Connections with the same addresses and ports are one; there is at most one of a side in each link."""
    rows = {connection.key: row for row, connection in enumerate(server)}
    return _links(len(server), len(client), [(rows[c.key], row) for row, c in enumerate(client) if c.key in rows])


def revise(server: Ops, client: Ops, links: Links, partner: I32, contrary: I64, tcp: tuple[Tcp, Tcp] | None) -> Links:
    """`links` by addresses and ports, with what shared ops and TCP sequence numbers say for others and against them.

    `partner` says for each row of the client which of the server it has by `links`, else NULL; `contrary` are the
    client's rows whose only counterpart by XID asks for something else. Returns `links` itself where there is nothing
    to add.
    """
    of_server, of_client = np.empty(links.count, dtype=np.int64), np.empty(links.count, dtype=np.int64)
    for of_link, link in ((of_server, links.server), (of_client, links.client)):
        rows = np.flatnonzero(link != NULL)
        of_link[link[rows]] = rows
    ranges = None if tcp is None else (Ranges.of(server, tcp[0]), Ranges.of(client, tcp[1]))
    without = partner == NULL
    agreed, denied = (
        np.bincount(client.conn[rows], minlength=len(client.connections))[of_client] for rows in (~without, contrary)
    )
    counts = sizes(server)[of_server], sizes(client)[of_client]
    doubted = (agreed <= _NEXT_TO_NOTHING * np.minimum(*counts)) | (agreed < denied)
    if ranges is not None:
        doubted |= compare(*ranges, of_server, of_client, 1)[1]
    doubted &= np.maximum(*counts) > 0
    free_s, free_c = links.server == NULL, links.client == NULL
    refuted = (denied >= _MANY) & (agreed < denied) & (agreed > 0)
    if not (refuted.any() or free_s.any() or free_c.any()) and np.count_nonzero(doubted) < 2:
        return links
    free_s[of_server[doubted]] = free_c[of_client[doubted]] = True
    rivals = int(max(np.count_nonzero(free_s), np.count_nonzero(free_c)))

    def alike(s: I64, c: I64) -> Bool:
        return np.zeros(len(s), dtype=np.bool_) if ranges is None else compare(*ranges, s, c, rivals)[0]

    left_s = np.ones(len(server), dtype=np.bool_)
    left_s[partner[~without]] = False
    rows_s = np.flatnonzero(left_s | free_s[server.conn])
    rows_c = np.flatnonzero(without | free_c[client.conn])
    kept, more = _pairs_of(of_server, of_client, ~doubted), []
    if len(rows_s) and len(rows_c):
        shared = find_shared(server, rows_s, client, rows_c, alike)
        may = free_s[shared.server] | free_c[shared.client]
        more = _chosen(server, client, shared, may, alike(shared.server, shared.client), kept)
    if not (more or refuted.any()):
        return links
    moved = {s for s, _ in more}, {c for _, c in more}
    # Those for which nothing better was found are believed all the same, if nothing speaks for the contrary.
    unmoved = [
        (s, c) for s, c in _pairs_of(of_server, of_client, doubted & ~refuted) if not (s in moved[0] or c in moved[1])
    ]
    return _links(len(server.connections), len(client.connections), [*kept, *unmoved, *more])


def _pairs_of(of_server: I64, of_client: I64, mask: Bool) -> _Pairs:
    return list(zip(of_server[mask].tolist(), of_client[mask].tolist(), strict=True))


def _chosen(server: Ops, client: Ops, shared: Shared, may: Bool, alike: Bool, kept: _Pairs) -> _Pairs:
    """The pairs of connections that are one; they come on top of those `kept`."""
    enough = (shared.part >= SHARED_OPS) | alike
    enough |= (shared.part_between >= SHARED_OPS) & (shared.telling >= _MANY)
    enough &= (shared.ops > 0) & (shared.ops >= shared.against) & may
    by_ops: dict[int, _Pairs] = {}
    found = []
    for at in np.flatnonzero(enough).tolist():
        pair = int(shared.server[at]), int(shared.client[at])
        if server.connections[pair[0]].transport != client.connections[pair[1]].transport:
            continue
        if shared.ops[at] >= _MANY or alike[at]:
            found.append(pair)
        else:
            by_ops.setdefault(int(shared.ops[at]), []).append(pair)
    # Few ops are enough only where neither has another that shares as many.
    linked = {s for s, _ in (*kept, *found)}, {c for _, c in (*kept, *found)}
    for _, pairs in sorted(by_ops.items(), reverse=True):
        times = Counter(s for s, _ in pairs), Counter(c for _, c in pairs)
        for s, c in pairs:
            if s not in linked[0] and c not in linked[1] and times[0][s] == times[1][c] == 1:
                found.append((s, c))
        linked[0].update(times[0])
        linked[1].update(times[1])
    return found


def _links(servers: int, clients: int, pairs: Iterable[tuple[int, int]]) -> Links:
    """Whatever hangs together by `pairs` is one; numbered in order of the server's connections."""
    parent = list(range(servers + clients))

    def root(node: int) -> int:
        while parent[node] != node:
            parent[node] = node = parent[parent[node]]
        return node

    nodes = set()
    for s, c in pairs:
        one, other = root(s), root(servers + c)
        parent[max(one, other)] = min(one, other)
        nodes |= {s, servers + c}
    numbers: dict[int, int] = {}
    out = np.full(servers + clients, NULL, dtype=np.int32)
    for node in sorted(nodes):
        out[node] = numbers.setdefault(root(node), len(numbers))
    return Links(out[:servers], out[servers:])
