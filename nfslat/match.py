"""Ops of the server's capture + ops of the client's -> matched ops, and a reason for each op that has no partner.

No clock is needed: connections are matched by their addresses and ports, or by the XIDs that they share, and ops in
them by XID, program, version and, where both captures show them, operation, handle, offset and count (docs/method.md).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from nfslat.columns import filled
from nfslat.constants import NFS, NULL, NULL32
from nfslat.kernels import JoinSide, join
from nfslat.overlap import nearest, offsets
from nfslat.tables import I8, I32, I64, Bool, Kind, Matched, Miss, Ops, Unmatched

# Connections whose addresses differ (NAT, load balancer) are one where at least this share of the ops of the smaller
# agree in XID, program, version and operation. XIDs start at random, so strangers share practically none.
SHARED_OPS = 0.5
_TABLE_CELLS = 1_000_000  # one XID for more ops than this says nothing about any of them


@dataclass(frozen=True)
class Matching:
    """Pairs of rows, the fate of every op, and how many connections were found on both sides."""

    matched: Matched
    unmatched: Unmatched
    connections: dict[int, int]  # server connection row -> client connection row


def match(server: Ops, client: Ops, server_range_ns: tuple[int, int], client_range_ns: tuple[int, int]) -> Matching:
    """Match two sides; the ranges are first and last packet of each capture on its own clock, int ns.

    Each op is in at most one pair, and for each side the counts over `Miss` sum to its ops.
    """
    connections = _connections(server, client)
    link_of_server = np.full(len(server.connections), NULL, dtype=np.int32)
    link_of_client = np.full(len(client.connections), NULL, dtype=np.int32)
    for number, (s, c) in enumerate(sorted(connections.items())):
        link_of_server[s], link_of_client[c] = number, number
    fate_s = _fates(server, link_of_server, Miss.NOT_CAPTURED_AT_CLIENT)
    fate_c = _fates(client, link_of_client, Miss.NOT_CAPTURED_AT_SERVER)

    partner = _pairs(server, client, link_of_server, link_of_client, fate_s, fate_c)
    rows_c = np.flatnonzero(partner != NULL).astype(np.int32)
    rows_s = partner if len(rows_c) == len(partner) else partner[rows_c]
    fate_s[rows_s] = fate_c[rows_c] = Miss.MATCHED
    matched = Matched(rows_s, rows_c)

    if len(matched):
        missed_s, missed_c = np.flatnonzero(fate_s != Miss.MATCHED), np.flatnonzero(fate_c != Miss.MATCHED)
        if len(missed_s):
            order = np.argsort(rows_s, kind="stable")
            near = matched.take(order[nearest(server, missed_s, rows_s[order])])
            _mark_outside(server, missed_s, fate_s, -offsets(server, client, near), client_range_ns)
        if len(missed_c):
            near = matched.take(nearest(client, missed_c, rows_c))
            _mark_outside(client, missed_c, fate_c, offsets(server, client, near), server_range_ns)
    return Matching(matched, Unmatched(fate_s, fate_c), connections)


def _fates(ops: Ops, link: I32, otherwise: Miss) -> I8:
    """What becomes of each op if nothing better is found."""
    alone = link[ops.classes.conn] == NULL
    return ops.spread(np.where(alone, Miss.CONNECTION_UNMATCHED, otherwise).astype(np.int8))


def _connections(server: Ops, client: Ops) -> dict[int, int]:
    """Server connection row -> client connection row."""
    client_rows = {connection.key: row for row, connection in enumerate(client.connections)}
    found = {
        row: client_rows[connection.key]
        for row, connection in enumerate(server.connections)
        if connection.key in client_rows
    }
    kinds_s, kinds_c = _numbered(server, client, lambda kind: (kind.program, kind.version, kind.op))
    ids_s, conn_s = _signatures(server, kinds_s, set(found))
    ids_c, conn_c = _signatures(client, kinds_c, set(found.values()))
    # Each connection that has an id at the server with each that has it at the client.
    begin, end = np.searchsorted(ids_c, ids_s, side="left"), np.searchsorted(ids_c, ids_s, side="right")
    times = end - begin
    which = np.repeat(begin - np.concatenate([[0], np.cumsum(times)[:-1]]), times) + np.arange(times.sum())
    wide = len(client.connections)
    shared, counts = np.unique(np.repeat(conn_s, times) * wide + conn_c[which], return_counts=True)
    size_s, size_c = np.bincount(conn_s), np.bincount(conn_c)
    best_s: Counter[int] = Counter()
    best_c: Counter[int] = Counter()
    pairs = [(*divmod(pair, wide), count) for pair, count in zip(shared.tolist(), counts.tolist(), strict=True)]
    for row, other, count in pairs:
        best_s[row], best_c[other] = max(best_s[row], count), max(best_c[other], count)
    by_end: Counter[tuple[int, int]] = Counter()  # how many candidates of an end are as good as its best
    for row, other, count in pairs:
        by_end[0, row] += count == best_s[row]
        by_end[1, other] += count == best_c[other]
    for row, other, count in pairs:
        enough = count >= SHARED_OPS * min(size_s[row], size_c[other])
        best = best_s[row] == best_c[other] == count
        if enough and best and by_end[0, row] == by_end[1, other] == 1:
            found[row] = other
    return found


def _numbered(server: Ops, client: Ops, key: Callable[[Kind], tuple[int, ...]]) -> tuple[I32, I32]:
    """A number for each kind of the two sides, equal where `key` is."""
    numbers: dict[tuple[int, ...], int] = {}
    server_numbers, client_numbers = (
        np.array([numbers.setdefault(key(kind), len(numbers)) for kind in ops.kinds], dtype=np.int32)
        for ops in (server, client)
    )
    return server_numbers, client_numbers


def _signatures(ops: Ops, number: I32, taken: set[int]) -> tuple[I64, I64]:
    """What identifies the ops of each connection that is not `taken`: (XID and number of the kind, connection) of each
    op, each once, in order of the first."""
    free = np.array([conn not in taken for conn in range(len(ops.connections))], dtype=np.bool_)
    none = np.zeros(0, dtype=np.int64)
    if not free[ops.classes.conn].any():
        return none, none
    rows = np.flatnonzero(free[ops.conn])
    ids, conn = ops.xid[rows].astype(np.int64) << 16 | number[ops.kind[rows]], ops.conn[rows].astype(np.int64)
    order = np.lexsort((conn, ids))
    ids, conn = ids[order], conn[order]
    new = np.ones(len(rows), dtype=np.bool_)
    new[1:] = (ids[1:] != ids[:-1]) | (conn[1:] != conn[:-1])
    return ids[new], conn[new]


def _pairs(server: Ops, client: Ops, link_s: I32, link_c: I32, fate_s: I8, fate_c: I8) -> I32:
    """For each client row the server row that belongs to it, or NULL; marks AMBIGUOUS ones in the fates."""
    number_s, number_c = _numbered(server, client, lambda kind: (kind.program, kind.version))
    numbers = 1 + max(int(number.max(initial=0)) for number in (number_s, number_c))
    places = numbers * (1 + max(int(link.max(initial=NULL)) for link in (link_s, link_c)))
    sides = [
        JoinSide(ops.conn, ops.kind, ops.xid, np.where(link == NULL, NULL, link * numbers), number)
        for ops, link, number in ((server, link_s, number_s), (client, link_c, number_c))
    ]
    partner, several = join(sides[0], sides[1], places)
    rows_c = np.flatnonzero(partner != NULL)

    def agree(at: slice) -> Bool:
        return _agree(server, partner[rows_c[at]].astype(np.int64), client, rows_c[at])

    partner[rows_c[~filled(len(rows_c), np.bool_, agree)]] = NULL
    for s, c in several:
        found_s, found_c = _among_several(server, s, client, c, fate_s, fate_c)
        partner[found_c] = found_s
    return partner


def _agree(server: Ops, s: I64, client: Ops, c: I64) -> Bool:
    """Do the arguments of the ops agree, as far as both captures show them? One truth value a pair of rows."""
    same = np.ones(len(s), dtype=np.bool_)
    for here, there, null in (
        (server.offset[s], client.offset[c], NULL),
        (server.size[s], client.size[c], NULL32),
        (server.fh[s], client.fh[c], NULL32),
    ):
        equal = here == there
        if not equal.all():
            equal |= (here == null) | (there == null)
            same &= equal
    kind_s, kind_c = server.kind[s], client.kind[c]
    if server.kinds == client.kinds and (kind_s == kind_c).all():
        return same
    a, b = (np.array([kind.op for kind in ops.kinds], dtype=np.int64) for ops in (server, client))
    a, b = a[kind_s], b[kind_c]
    # In NFSv4 and its callbacks 1 is a COMPOUND whose operations are unseen.
    compound = np.array([kind.program != NFS or kind.version >= 4 for kind in server.kinds], dtype=np.bool_)[kind_s]
    same &= (a == b) | (a == NULL) | (b == NULL) | (compound & ((a == 1) | (b == 1)))
    return same


def _among_several(server: Ops, s: I64, client: Ops, c: I64, fate_s: I8, fate_c: I8) -> tuple[I64, I64]:
    """One XID, several ops (XID reuse): those with equal arguments belong together, in order, if they are as many.

    Both sides are in call order, and a connection keeps the order of its calls.
    """
    if len(s) * len(c) > _TABLE_CELLS:
        fate_s[s], fate_c[c] = Miss.AMBIGUOUS, Miss.AMBIGUOUS
        return np.zeros(0, dtype=np.int64), np.zeros(0, dtype=np.int64)
    table = np.array([_agree(server, np.full(len(c), row), client, c) for row in s])
    found_s, found_c = [], []
    done_s, done_c = np.zeros(len(s), dtype=bool), np.zeros(len(c), dtype=bool)
    for at in range(len(s)):
        if done_s[at] or not table[at].any():
            continue
        candidates_c = table[at]
        while True:  # until neither side has an op that could belong to one of the other's
            candidates_s = table[:, candidates_c].any(axis=1)
            more = table[candidates_s].any(axis=0)
            if (more == candidates_c).all():
                break
            candidates_c = more
        even = candidates_s.sum() == candidates_c.sum() and table[np.ix_(candidates_s, candidates_c)].all()
        if even:
            found_s.append(s[candidates_s])
            found_c.append(c[candidates_c])
        else:
            fate_s[s[candidates_s]] = Miss.AMBIGUOUS
            fate_c[c[candidates_c]] = Miss.AMBIGUOUS
        done_s |= candidates_s
        done_c |= candidates_c
    empty = np.zeros(0, dtype=np.int64)
    return np.concatenate([empty, *found_s]), np.concatenate([empty, *found_c])


def _mark_outside(ops: Ops, rows: I64, fate: I8, to_other_ns: I64, other_range_ns: tuple[int, int]) -> None:
    """OUTSIDE_OVERLAP for those of `rows`, ops without a partner, that the other capture did not all run for."""
    began, ended = ops.t0[rows] + to_other_ns, ops.t3[rows] + to_other_ns
    fate[rows[(began < other_range_ns[0]) | (ended > other_range_ns[1])]] = Miss.OUTSIDE_OVERLAP
