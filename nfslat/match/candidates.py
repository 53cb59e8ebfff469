"""Ops of two sides that share an XID: which of them may be the same op, and which must be."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from nfslat.kernels.join import Several
from nfslat.model.protocol import NFS, NULL, NULL32
from nfslat.model.tables import I32, I64, Bool, Kind, Ops

_CELLS = 1 << 20  # pairs that are looked at together
# Of one XID, and of all: where XIDs come again as often as this, they say little about any op.
_MOST_OF_KEY, MOST = 1_000_000, 1 << 24
_MIX = np.uint64(0x9E3779B97F4A7C15)  # 2^64 by the golden ratio: multiples of it look random (Knuth)


def numbered(server: Ops, client: Ops, key: Callable[[Kind], tuple[int, ...]]) -> tuple[I32, I32]:
    """A number for each kind of the two sides, equal where `key` is."""
    numbers: dict[tuple[int, ...], int] = {}
    server_numbers, client_numbers = (
        np.array([numbers.setdefault(key(kind), len(numbers)) for kind in ops.kinds], dtype=np.int32)
        for ops in (server, client)
    )
    return server_numbers, client_numbers


def agree(server: Ops, s: I64, client: Ops, c: I64) -> Bool:
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


def pairs_of_keys(
    several: Several, keep: Callable[[I64, I64], Bool] | None = None, *, most: int = MOST
) -> tuple[I64, I64, Bool]:
    """Positions in the two columns of `several` that share a key and that `keep` (which gets positions) keeps.

    The last result says of each key whether it was looked at: the rarest keys are, up to `most` pairs.
    """
    keys = int(several.server_key[-1]) + 1 if len(several.server_key) else 0
    begin = np.searchsorted(several.client_key, np.arange(keys + 1))
    cells = np.bincount(several.server_key, minlength=keys) * np.diff(begin)
    rare_first = np.argsort(cells, kind="stable")
    looked_at = np.zeros(keys, dtype=np.bool_)
    looked_at[rare_first] = (np.cumsum(cells[rare_first]) <= most) & (cells[rare_first] <= _MOST_OF_KEY)
    first = begin[several.server_key]
    end = np.where(looked_at[several.server_key], begin[several.server_key + 1], first)
    return *pairs_within(first, end, keep), looked_at


def pairs_within(begin: I64, end: I64, keep: Callable[[I64, I64], Bool] | None = None) -> tuple[I64, I64]:
    """Each number i with each from `begin[i]` to below `end[i]` that `keep` keeps: two columns, in order."""
    times = end - begin
    upto = np.cumsum(times)
    ones, twos = [], []
    at = 0
    while at < len(times):
        done = int(upto[at - 1]) if at else 0
        until = max(int(np.searchsorted(upto, done + _CELLS, side="right")), at + 1)
        block = times[at:until]
        one = np.repeat(np.arange(at, until), block)
        two = np.arange(len(one)) + np.repeat(begin[at:until] - (upto[at:until] - block - done), block)
        kept = keep(one, two) if keep else slice(None)
        ones.append(one[kept])
        twos.append(two[kept])
        at = until
    none = np.zeros(0, dtype=np.int64)
    return np.concatenate([none, *ones]), np.concatenate([none, *twos])


class Together(NamedTuple):
    """Numbers that belong together, row by row; those of a group could be exchanged, but for their order."""

    one: I64
    two: I64
    group: I64  # rows of a group stand together


def in_order(one: I64, two: I64, ones: int, twos: int) -> Together:
    """Which belong together of those that may, by the pairs (`one`, `two`): numbers below `ones`, and below `twos`.

    Those that could all belong to each other and to nothing else, and are as many on both sides, do so in their order.
    """
    degree_1, degree_2 = np.bincount(one, minlength=ones), np.bincount(two, minlength=twos)
    # All of one's could-be partners have the same could-be partners, and the other way round: told by a sum over them.
    prints_1, prints_2 = _prints(one, two, ones), _prints(two, one, twos)
    even_1, even_2 = np.ones(ones, dtype=np.bool_), np.ones(twos, dtype=np.bool_)
    even_1[one[prints_2[two] != prints_2[_any(one, two, ones)[one]]]] = False
    even_2[two[prints_1[one] != prints_1[_any(two, one, twos)[two]]]] = False
    fits = degree_1[one] == degree_2[two]
    even_1[one[~fits | ~even_2[two]]] = False
    even_2[two[~fits | ~even_1[one]]] = False
    found_1, found_2 = np.flatnonzero(even_1 & (degree_1 > 0)), np.flatnonzero(even_2 & (degree_2 > 0))
    # The first could-be partner names the group; in each, both sides go by their order.
    first = np.full(ones, twos, dtype=np.int64)
    np.minimum.at(first, one, two)
    group_2 = np.full(twos, NULL, dtype=np.int64)
    group_2[two] = first[one]
    found_1 = found_1[np.argsort(first[found_1], kind="stable")]
    found_2 = found_2[np.argsort(group_2[found_2], kind="stable")]
    return Together(found_1, found_2, first[found_1])


def _prints(one: I64, two: I64, ones: int) -> I64:
    """For each number a figure that is the same for those with the same partners, and hardly for others."""
    mixed = (two.astype(np.uint64) + np.uint64(1)) * _MIX
    mixed = (mixed ^ mixed >> np.uint64(31)) * _MIX
    out = np.zeros(ones, dtype=np.uint64)
    np.add.at(out, one, mixed ^ mixed >> np.uint64(29))
    return out.view(np.int64)


def _any(one: I64, two: I64, ones: int) -> I64:
    """One of the partners of each number."""
    out = np.zeros(ones, dtype=np.int64)
    out[one] = two
    return out
