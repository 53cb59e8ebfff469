"""Keys of two sides -> the rows that have a key to themselves on both sides, and the groups of rows that share one."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from nfslat.columns import filled
from nfslat.constants import NULL
from nfslat.tables import I32, I64, Bool

U64 = npt.NDArray[np.uint64]


def join(server: U64, client: U64, no_key: int) -> tuple[I32, list[tuple[I64, I64]]]:
    """Join two columns of keys; rows with `no_key`, which is above all keys, take no part.

    The first result holds for each row of `client` the row of `server` with the same key, where each side has one row
    with it, else -1. The second are the rows (server's, client's) of each key that both sides have and one of them has
    several times, ascending.
    """
    keys, rows = _sorted(server, client, no_key)
    # Keys end with a bit for the side: neighbours that differ in no other bit belong together.
    pairs = max(len(keys) - 1, 0)
    same = filled(pairs, np.bool_, lambda at: keys[1:][at] ^ keys[:-1][at] <= np.uint64(1))
    twins = filled(pairs, np.bool_, lambda at: keys[1:][at] ^ keys[:-1][at] == np.uint64(1))
    twins[1:] &= ~same[:-1]
    twins[:-1] &= ~same[1:]
    at = np.flatnonzero(twins)
    partner = np.full(len(client), NULL, dtype=np.int32)
    partner[rows[at + 1]] = rows[at]
    return partner, _groups(keys, rows, same & ~twins)


def _sorted(server: U64, client: U64, no_key: int) -> tuple[U64, I32]:
    """(key and a last bit, 1 for the client; row) of all rows that have a key, in order."""
    rows = [np.arange(len(side), dtype=np.uint64) for side in (server, client)]
    bits = max(len(server), len(client)).bit_length()
    keys = np.concatenate([server, client])
    keys <<= np.uint64(1)
    keys[len(server) :] |= np.uint64(1)
    if no_key.bit_length() + 1 + bits > 64:
        order = np.argsort(keys, kind="stable")
        keys = keys[order]
        found = np.concatenate(rows).astype(np.int32)[order]
    else:
        # One sort of plain numbers is several times faster than one that carries rows along.
        keys <<= np.uint64(bits)
        keys |= np.concatenate(rows)
        keys.sort()
        found = filled(len(keys), np.int32, lambda at: keys[at] & np.uint64((1 << bits) - 1))
        keys >>= np.uint64(bits)
    end = int(np.searchsorted(keys, np.uint64(no_key << 1)))
    return keys[:end], found[:end]


def _groups(keys: U64, rows: I32, same: Bool) -> list[tuple[I64, I64]]:
    """Rows of each side in each run of `same` neighbours, where both have some."""
    first = np.flatnonzero(same)
    begins = np.flatnonzero(np.diff(first, prepend=-2) > 1)
    ends = np.append(begins, len(first))[1:] - 1
    found = []
    for begin, end in zip(first[begins].tolist(), first[ends].tolist(), strict=True):
        here = rows[begin : end + 2].astype(np.int64)
        of_client = (keys[begin : end + 2] & np.uint64(1)).astype(np.bool_)
        if of_client.any() and not of_client.all():
            found.append((here[~of_client], here[of_client]))
    return found
