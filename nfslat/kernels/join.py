"""Ops of two sides, by connection and XID -> which rows of both share a key: the join behind matching."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from nfslat.kernels.compiled import native
from nfslat.model.tables import I16, I32, I64, U32


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
    partner, rows, sizes = native.join(server, client, places)
    span = np.repeat(np.arange(len(sizes)), sizes)  # the server's and the client's rows of each key in turn
    of_client = span % 2 == 1
    rows, key = rows.astype(np.int64), span // 2
    return partner, Several(rows[~of_client], key[~of_client], rows[of_client], key[of_client])
