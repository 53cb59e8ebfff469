"""Ops of the server's capture + ops of the client's -> matched ops, and a reason for each op that has no partner.

No clock is needed: connections are matched by their addresses and ports, or by the XIDs that they share, and ops in
them by XID, program, version and, where both captures show them, operation, handle, offset and count (docs/method.md).
"""

from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from nfslat.constants import NFS, NULL
from nfslat.overlap import offset_at, offsets
from nfslat.tables import I64, Bool, Matched, Miss, Ops, Unmatched

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
    fate_s = np.full(len(server), Miss.NOT_CAPTURED_AT_CLIENT, dtype=np.int8)
    fate_c = np.full(len(client), Miss.NOT_CAPTURED_AT_SERVER, dtype=np.int8)
    pair_of_server = np.full(len(server.connections), NULL, dtype=np.int64)
    pair_of_client = np.full(len(client.connections), NULL, dtype=np.int64)
    for number, (s, c) in enumerate(sorted(connections.items())):
        pair_of_server[s], pair_of_client[c] = number, number
    link_s, link_c = pair_of_server[server.conn], pair_of_client[client.conn]
    fate_s[link_s == NULL] = fate_c[link_c == NULL] = Miss.CONNECTION_UNMATCHED

    rows_s, rows_c = _pairs(server, client, link_s, link_c, fate_s, fate_c)
    order = np.lexsort((rows_s, client.t0[rows_c]))
    rows_s, rows_c = rows_s[order], rows_c[order]
    fate_s[rows_s] = fate_c[rows_c] = Miss.MATCHED
    matched = Matched(rows_s, rows_c)

    if len(rows_s):
        offset = offsets(server, client, matched)
        _mark_outside(server, fate_s, -offset_at(server.t0, server.t0[rows_s], offset), client_range_ns)
        _mark_outside(client, fate_c, offset_at(client.t0, client.t0[rows_c], offset), server_range_ns)
    return Matching(matched, Unmatched(fate_s, fate_c), connections)


def _connections(server: Ops, client: Ops) -> dict[int, int]:
    """Server connection row -> client connection row."""
    client_rows = {connection.key: row for row, connection in enumerate(client.connections)}
    found = {
        row: client_rows[connection.key]
        for row, connection in enumerate(server.connections)
        if connection.key in client_rows
    }
    rest_s = _signatures(server, set(found))
    rest_c = _signatures(client, set(found.values()))
    owners: dict[tuple[int, ...], list[int]] = defaultdict(list)
    for row, signature in rest_c.items():
        for item in signature:
            owners[item].append(row)
    shared: Counter[tuple[int, int]] = Counter()
    for row, signature in rest_s.items():
        for item in signature:
            for other in owners.get(item, ()):
                shared[row, other] += 1
    best_s: Counter[int] = Counter()
    best_c: Counter[int] = Counter()
    for (row, other), count in shared.items():
        best_s[row], best_c[other] = max(best_s[row], count), max(best_c[other], count)
    by_end: Counter[tuple[int, int]] = Counter()  # how many candidates of an end are as good as its best
    for (row, other), count in shared.items():
        by_end[0, row] += count == best_s[row]
        by_end[1, other] += count == best_c[other]
    for (row, other), count in shared.items():
        enough = count >= SHARED_OPS * min(len(rest_s[row]), len(rest_c[other]))
        best = best_s[row] == best_c[other] == count
        if enough and best and by_end[0, row] == by_end[1, other] == 1:
            found[row] = other
    return found


def _signatures(ops: Ops, taken: set[int]) -> dict[int, set[tuple[int, ...]]]:
    """What identifies the ops of each connection that is not `taken`."""
    out: dict[int, set[tuple[int, ...]]] = defaultdict(set)
    rows = np.flatnonzero(~np.isin(ops.conn, list(taken)))
    for conn, *key in zip(
        *(column[rows].tolist() for column in (ops.conn, ops.xid, ops.program, ops.version, ops.op)), strict=True
    ):
        out[conn].add(tuple(key))
    return out


def _pairs(
    server: Ops, client: Ops, link_s: I64, link_c: I64, fate_s: npt.NDArray[np.int8], fate_c: npt.NDArray[np.int8]
) -> tuple[I64, I64]:
    """Rows that belong together; marks AMBIGUOUS ones in the fates."""
    rows_s: I64 = np.flatnonzero(link_s != NULL)
    rows_c: I64 = np.flatnonzero(link_c != NULL)
    row = np.concatenate([rows_s, rows_c])
    if not len(row):
        return row, row
    is_client = np.repeat([0, 1], [len(rows_s), len(rows_c)])
    keys = [
        np.concatenate([of_server[rows_s], of_client[rows_c]]).astype(np.int64)
        for of_server, of_client in (
            (server.version, client.version),
            (server.program, client.program),
            (server.xid, client.xid),
            (link_s, link_c),
        )
    ]
    order = np.lexsort((row, is_client, *keys))
    changes = np.any([key[order][1:] != key[order][:-1] for key in keys], axis=0)
    starts = np.concatenate([[0], np.flatnonzero(changes) + 1])
    sizes = np.diff(np.append(starts, len(order)))
    of_client = np.add.reduceat(is_client[order], starts)

    single = starts[(sizes == 2) & (of_client == 1)]
    s, c = row[order[single]], row[order[single + 1]]
    agree = _agree(server, s, client, c)
    found_s, found_c = [s[agree]], [c[agree]]
    for at in np.flatnonzero((sizes > 2) & (of_client > 0) & (of_client < sizes)):
        here = row[order[starts[at] : starts[at] + sizes[at]]]
        several_s, several_c = here[: sizes[at] - of_client[at]], here[sizes[at] - of_client[at] :]
        s, c = _among_several(server, several_s, client, several_c, fate_s, fate_c)
        found_s.append(s)
        found_c.append(c)
    return np.concatenate(found_s), np.concatenate(found_c)


def _agree(server: Ops, s: I64, client: Ops, c: I64) -> Bool:
    """Do the arguments of the ops agree, as far as both captures show them? One truth value a pair of rows."""
    a, b = server.op[s], client.op[c]
    # In NFSv4 and its callbacks 1 is a COMPOUND whose operations are unseen.
    compound = (server.program[s] != NFS) | (server.version[s] >= 4)
    same = (a == b) | (a == NULL) | (b == NULL) | (compound & ((a == 1) | (b == 1)))
    for of_server, of_client in ((server.offset, client.offset), (server.size, client.size), (server.fh, client.fh)):
        here, there = of_server[s], of_client[c]
        same &= (here == there) | (here == NULL) | (there == NULL)
    return np.asarray(same, dtype=np.bool_)


def _among_several(
    server: Ops, s: I64, client: Ops, c: I64, fate_s: npt.NDArray[np.int8], fate_c: npt.NDArray[np.int8]
) -> tuple[I64, I64]:
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


def _mark_outside(ops: Ops, fate: npt.NDArray[np.int8], to_other_ns: I64, other_range_ns: tuple[int, int]) -> None:
    """OUTSIDE_OVERLAP for the ops without a partner that the other capture was not running for, all or in part."""
    began, ended = ops.t0 + to_other_ns, ops.t3 + to_other_ns
    outside = (began < other_range_ns[0]) | (ended > other_range_ns[1])
    fate[outside & (fate != Miss.MATCHED)] = Miss.OUTSIDE_OVERLAP
