"""Inner loops that are slow in numpy: compiled ones where nfslat._native is built, else twins that give the same."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from nfslat.columns import each_block, filled
from nfslat.constants import NULL
from nfslat.tables import I16, I32, I64, U32, Bool

try:
    from nfslat import _native
except ImportError:
    compiled = None
else:
    compiled = getattr(_native, "join", None)

U64 = npt.NDArray[np.uint64]
_XID_BITS, _SIDE_BIT = 32, np.uint64(1)


class JoinSide(NamedTuple):
    """What the ops of one side are joined by: their connection, kind and XID, and two small tables.

    `place` says for each connection where its keys begin, NULL where the other side does not have it; `number` what
    each kind adds to that.
    """

    conn: I32
    kind: I16
    xid: U32
    place: I32
    number: I32


def join(server: JoinSide, client: JoinSide, places: int) -> tuple[I32, list[tuple[I64, I64]]]:
    """Join the ops of two sides by (place + number, XID); `places` is above all of the former.

    The first result holds for each row of the client the row of the server with the same key, where each side has one
    row with it, else NULL. The second are the rows (server's, client's) of each key that both sides have and one of
    them has several times, ascending; keys are in the order of their first row at the server.
    """
    if compiled is None:
        return join_by_numpy(server, client, places)
    partner, several, sizes = compiled(server, client, places)
    rows = np.split(several.astype(np.int64), np.cumsum(sizes)[:-1]) if len(sizes) else []
    return partner, list(zip(rows[::2], rows[1::2], strict=True))


def join_by_numpy(server: JoinSide, client: JoinSide, places: int) -> tuple[I32, list[tuple[I64, I64]]]:
    """`join` without the compiled kernel."""
    keys, rows = _sorted(server, client, places)
    # Keys end with a bit for the side: neighbours that differ in no other bit belong together.
    pairs = max(len(keys) - 1, 0)
    same = filled(pairs, np.bool_, lambda at: keys[1:][at] ^ keys[:-1][at] <= _SIDE_BIT)
    twins = filled(pairs, np.bool_, lambda at: keys[1:][at] ^ keys[:-1][at] == _SIDE_BIT)
    twins[1:] &= ~same[:-1]
    twins[:-1] &= ~same[1:]
    partner = np.full(len(client.xid), NULL, dtype=np.int32)

    def pair(block: slice) -> None:
        at = np.flatnonzero(twins[block]) + block.start
        partner[rows[at + 1]] = rows[at]

    each_block(pairs, pair)
    return partner, _groups(keys, rows, same & ~twins)


def _sorted(server: JoinSide, client: JoinSide, places: int) -> tuple[U64, I32]:
    """(place and number, XID, a last bit: 1 for the client) of all rows that have a place, in order; and the rows."""
    servers, clients = len(server.xid), len(client.xid)
    keys = np.empty(servers + clients, dtype=np.uint64)
    bits = max(servers, clients).bit_length()
    with_rows = places.bit_length() + _XID_BITS + 1 + bits < 64
    for side, last, out in ((server, 0, keys[:servers]), (client, 1, keys[servers:])):
        begin = np.where(side.place == NULL, places, side.place).astype(np.int64)

        def fill(at: slice, side: JoinSide = side, last: int = last, out: U64 = out, begin: I64 = begin) -> None:
            key = np.minimum(begin[side.conn[at]] + side.number[side.kind[at]], places) << _XID_BITS | side.xid[at]
            key = key << 1 | last
            out[at] = key << bits | np.arange(at.start, at.stop) if with_rows else key

        each_block(len(side.xid), fill)
    if with_rows:
        # One sort of plain numbers is several times faster than one that carries rows along.
        keys.sort()
        rows = filled(len(keys), np.int32, lambda at: keys[at] & np.uint64((1 << bits) - 1))
        keys >>= np.uint64(bits)
    else:
        order = np.argsort(keys, kind="stable")
        keys = keys[order]
        rows = np.where(order < servers, order, order - servers).astype(np.int32)
    end = int(np.searchsorted(keys, np.uint64(places << _XID_BITS + 1)))
    return keys[:end], rows[:end]


def _groups(keys: U64, rows: I32, same: Bool) -> list[tuple[I64, I64]]:
    """Rows of each side in each run of `same` neighbours, where both have some."""
    first = np.flatnonzero(same)
    begins = np.flatnonzero(np.diff(first, prepend=-2) > 1)
    ends = np.append(begins, len(first))[1:] - 1
    found = []
    for begin, end in zip(first[begins].tolist(), first[ends].tolist(), strict=True):
        here = rows[begin : end + 2].astype(np.int64)
        of_client = (keys[begin : end + 2] & _SIDE_BIT).astype(np.bool_)
        if of_client.any() and not of_client.all():
            found.append((here[~of_client], here[of_client]))
    return sorted(found, key=lambda rows: int(rows[0][0]))
