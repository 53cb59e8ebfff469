"""Ops of two sides, without regard to connections -> pairs of connections that share ops which can be no others."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from nfslat.kernels.join import JoinSide, join
from nfslat.match.candidates import agree, numbered, pairs_of_keys
from nfslat.model.protocol import NULL
from nfslat.model.tables import I64, Bool, Ops

# Of the ops of one of two connections, so many have to be the other's, too. XIDs start at random: strangers share
# practically none.
SHARED_OPS = 0.5
_SELDOM = 0.05  # so many of the XIDs that two connections share may be of different ops where they are one all the same
_ENOUGH = 1 << 20  # pairs of ops with one XID that are looked at: the rarest XIDs tell most
_DENSE = 1 << 22  # numbers with a cell for each

# Do (connections of the server, connections of the client) look like one by other signs, pair by pair?
Alike = Callable[[I64, I64], Bool]


class Shared(NamedTuple):
    """Pairs of connections that share XIDs, one row each."""

    server: I64
    client: I64
    ops: I64  # that can be no others: how many, at the side that has more of them
    part: npt.NDArray[np.float64]  # of all ops of the one or the other connection, where that is more
    part_between: npt.NDArray[np.float64]  # of those from the first to the last shared one; 0 where `part` is enough
    telling: I64  # of them, those that are unlike the next one; 0 as before
    against: I64  # XIDs that both have, for ops that cannot be the same


class _Sharing(NamedTuple):
    """Rows with one XID, program and version, by pairs."""

    server: I64
    client: I64
    key: I64  # which XID, of those that a side has several times; NULL where both have it once
    agree: Bool
    left_out: tuple[I64, I64]  # rows with an XID so frequent that it was not looked at


def find_shared(server: Ops, s: I64, client: Ops, c: I64, alike: Alike) -> Shared:
    """What connections share of the ops in rows `s` of the server and `c` of the client, both ascending.

    An op counts where its XID, program, version and visible arguments are found in one connection of each side only,
    or in one pair only of those that are `alike`, or of those that have next to no XID for different ops.
    """
    found = _sharing(server, s, client, c)
    clients = max(len(client.connections), 1)
    pairs, pair = _numbered(server.conn[found.server].astype(np.int64) * clients + client.conn[found.client])
    conns = np.divmod(pairs, clients)
    sure, against = _without_rival(found, pair, conns, alike)
    one, two, pair = found.server[sure], found.client[sure], pair[sure]
    counts, parts = [], []
    for ops, left_out, conn, rows in (
        (server, found.left_out[0], conns[0], one),
        (client, found.left_out[1], conns[1], two),
    ):
        # An op that counts does so for one pair, but may be several times in it.
        count = np.bincount(pair[np.unique(rows, return_index=True)[1]], minlength=len(pairs))
        size = sizes(ops) - np.bincount(ops.conn[left_out], minlength=len(ops.connections))
        counts.append(count)
        parts.append(count / np.maximum(size[conn], 1))
    part = np.maximum(*parts)
    part_between, telling = np.zeros(len(pairs)), np.zeros(len(pairs), dtype=np.int64)
    at = np.flatnonzero((part < SHARED_OPS)[pair])
    if len(at):
        at = at[np.lexsort((two[at], pair[at]))]
        one, two, pair = one[at], two[at], pair[at]
        unlike = (pair[1:] == pair[:-1]) & ~agree(server, one[:-1], client, two[1:])
        telling = np.bincount(pair[1:][unlike], minlength=len(pairs))
        between = _ops_between(server, conns[0], pair, one), _ops_between(client, conns[1], pair, two)
        part_between = np.maximum(*(count / np.maximum(ops, 1) for count, ops in zip(counts, between, strict=True)))
        part_between[part >= SHARED_OPS] = 0
    return Shared(*conns, np.maximum(*counts), part, part_between, telling, against)


def sizes(ops: Ops) -> I64:
    """How many ops each connection has."""
    out = np.zeros(len(ops.connections), dtype=np.int64)
    np.add.at(out, ops.classes.conn, ops.classes.count)
    return out


def _sharing(server: Ops, s: I64, client: Ops, c: I64) -> _Sharing:
    numbers = numbered(server, client, lambda kind: (kind.program, kind.version))
    one_place = [np.zeros(len(ops.connections), dtype=np.int32) for ops in (server, client)]
    of_server, of_client = (
        JoinSide(ops.conn[rows], ops.kind[rows], ops.xid[rows], place, number)
        for ops, rows, place, number in zip((server, client), (s, c), one_place, numbers, strict=True)
    )
    partner, several = join(of_server, of_client, 1 + max(int(number.max(initial=0)) for number in numbers))
    alone = np.flatnonzero(partner != NULL)
    i, j, looked_at = pairs_of_keys(several, most=_ENOUGH)
    one = np.concatenate([s[partner[alone]], s[several.server[i]]])
    two = np.concatenate([c[alone], c[several.client[j]]])
    key = np.concatenate([np.full(len(alone), NULL), several.server_key[i]])
    left_out = s[several.server[~looked_at[several.server_key]]], c[several.client[~looked_at[several.client_key]]]
    return _Sharing(one, two, key, agree(server, one, client, two), left_out)


def _without_rival(found: _Sharing, pair: I64, conns: tuple[I64, I64], alike: Alike) -> tuple[Bool, I64]:
    """Which of the rows can be the same op in no other pair of connections? And `Shared.against` of each pair."""
    once = found.key == NULL
    pairs = len(conns[0])
    against = np.bincount(pair[once & ~found.agree], minlength=pairs)
    in_favour = np.bincount(pair[once & found.agree], minlength=pairs)
    sure = once & found.agree
    # The others by XID and pair of connections.
    both, which = np.unique(found.key[~once] * pairs + pair[~once], return_inverse=True)
    agrees = np.bincount(which[found.agree[~once]], minlength=len(both)) > 0
    key, of_pair = np.divmod(both, max(pairs, 1))
    against += np.bincount(of_pair[~agrees], minlength=pairs)
    in_favour += np.bincount(of_pair[agrees], minlength=pairs)
    alone = np.zeros(len(both), dtype=np.bool_)
    for may in (np.ones(pairs, dtype=np.bool_), alike(*conns), against <= _SELDOM * (against + in_favour)):
        at = np.flatnonzero(agrees & may[of_pair])
        once_at_both = np.ones(len(at), dtype=np.bool_)
        for conn in conns:
            wide = int(conn.max(initial=0)) + 1
            _, ends, counts = np.unique(key[at] * wide + conn[of_pair[at]], return_inverse=True, return_counts=True)
            once_at_both &= counts[ends] == 1
        alone[at[once_at_both]] = True
    sure[~once] = found.agree[~once] & alone[which]
    return sure, against


def _numbered(codes: I64) -> tuple[I64, I64]:
    """Each code once, ascending; and which of them each is."""
    most = int(codes.max(initial=0)) + 1
    if most > _DENSE:
        found, which = np.unique(codes, return_inverse=True)
        return found, which
    used = np.bincount(codes, minlength=most) > 0
    return np.flatnonzero(used), (np.cumsum(used) - 1)[codes]


def _ops_between(ops: Ops, conn: I64, pair: I64, rows: I64) -> I64:
    """How many ops the connection of each pair has from the first to the last of its `rows`; 0 where it has none."""
    first, last = np.full(len(conn), len(ops)), np.full(len(conn), NULL)
    np.minimum.at(first, pair, rows)
    np.maximum.at(last, pair, rows)
    asked = np.zeros(len(ops.connections), dtype=np.bool_)
    asked[conn[last != NULL]] = True
    those = np.flatnonzero(asked[ops.conn])
    places = np.sort(ops.conn[those].astype(np.int64) << 32 | those)
    ends = np.searchsorted(places, conn << 32 | np.maximum(last, 0), side="right")
    return np.where(last == NULL, 0, ends - np.searchsorted(places, conn << 32 | first))
