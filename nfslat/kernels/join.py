"""Ops of two sides, by connection and XID -> which rows of both share a key: the join behind matching."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from nfslat.kernels import compiled
from nfslat.model.blocks import each_block, filled
from nfslat.model.protocol import NULL
from nfslat.model.tables import I16, I32, I64, U32, Bool

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


class Several(NamedTuple):
    """Rows of keys that both sides have and one of them has several times, and the number of each row's key.

    Keys are numbered in the order of their first row at the server; the rows of each stand together, ascending.
    """

    server: I64
    server_key: I64
    client: I64
    client_key: I64


def join(server: JoinSide, client: JoinSide, places: int) -> tuple[I32, Several]:
    """Join the ops of two sides by (place + number, XID); `places` is above all of the former.

    The first result holds for each row of the client the row of the server with the same key, where each side has one
    row with it, else NULL.
    """
    if compiled.native is None:
        return join_by_numpy(server, client, places)
    partner, rows, sizes = compiled.native.join(server, client, places)
    span = np.repeat(np.arange(len(sizes)), sizes)  # the server's and the client's rows of each key in turn
    of_client = span % 2 == 1
    rows, key = rows.astype(np.int64), span // 2
    return partner, Several(rows[~of_client], key[~of_client], rows[of_client], key[of_client])


def join_by_numpy(server: JoinSide, client: JoinSide, places: int) -> tuple[I32, Several]:
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
    return partner, _several(keys, rows, same & ~twins)


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


def _several(keys: U64, rows: I32, same: Bool) -> Several:
    """The rows in runs of `same` neighbours, where both sides have some."""
    first = np.flatnonzero(same)
    at = np.union1d(first, first + 1)
    here, of_client = rows[at].astype(np.int64), (keys[at] & _SIDE_BIT).astype(np.bool_)
    begins = np.ones(len(at), dtype=np.bool_)
    begins[1:] = keys[at[1:]] ^ keys[at[:-1]] > _SIDE_BIT
    run = np.cumsum(begins) - 1
    runs = int(begins.sum())
    has_both = np.bincount(run[~of_client], minlength=runs) * np.bincount(run[of_client], minlength=runs) > 0
    # The server's rows come first in a run.
    first_row = np.where(has_both, here[begins], np.iinfo(np.int64).max)
    number = np.empty(runs, dtype=np.int64)
    number[np.argsort(first_row, kind="stable")] = np.arange(runs)
    order = np.argsort(number[run], kind="stable")
    order = order[has_both[run[order]]]
    here, key, of_client = here[order], number[run[order]], of_client[order]
    return Several(here[~of_client], key[~of_client], here[of_client], key[of_client])
