"""TCP sequence numbers of connections at two capture points -> could they be the same bytes?

A NAT box leaves sequence numbers as they are, a proxy does not: equal ranges say much, different ones little.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from nfslat.model.blocks import distinct, filled
from nfslat.model.details import Tcp
from nfslat.model.protocol import NULL
from nfslat.model.tables import I64, Bool, Matched, Ops

_NUMBERS = 1 << 32
# Where the ranges of strangers meet more often than this, they tell nothing.
_BY_ACCIDENT = 0.01


class Ranges(NamedTuple):
    """What the TCP connections of a side have sent: one row each, reconnects too, in order of `conn`."""

    conn: I64
    first: tuple[I64, I64]  # of the calls' direction and of the replies'
    span: tuple[I64, I64]

    @classmethod
    def of(cls, ops: Ops, tcp: Tcp) -> Ranges:
        """Those whose both directions are known. Which end is seen first, and is a connection's direction 0, may be
        another at the other side; which end calls is not."""
        calls = np.zeros((len(ops.connections), 2), dtype=np.int64)
        np.add.at(calls, (ops.classes.conn, ops.classes.direction), ops.classes.count)
        rows = np.flatnonzero((tcp.conn >= 0) & (tcp.conn < len(calls)) & (tcp.first_seq != NULL))
        of_replies = tcp.direction[rows] != calls.argmax(axis=1)[tcp.conn[rows]]
        rows = rows[np.lexsort((of_replies, tcp.reconnect[rows], tcp.conn[rows]))]
        one, other = rows[:-1], rows[1:]
        both = (tcp.conn[one] == tcp.conn[other]) & (tcp.reconnect[one] == tcp.reconnect[other])
        ways = one[both], other[both]
        first, span = (tuple(column[way] for way in ways) for column in (tcp.first_seq, tcp.seq_span))
        return cls(tcp.conn[ways[0]], (first[0], first[1]), (span[0], span[1]))


def compare(server: Ranges, client: Ranges, s: I64, c: I64, rivals: int) -> tuple[Bool, Bool]:
    """For each pair of connections: do the ranges of both directions meet, where that is no accident? And: are they
    known at both sides, and do not meet at all?

    `rivals` is how many connections there are that each could be taken for.
    """
    begin_s, begin_c = np.searchsorted(server.conn, s), np.searchsorted(client.conn, c)
    count_s = np.searchsorted(server.conn, s, side="right") - begin_s
    count_c = np.searchsorted(client.conn, c, side="right") - begin_c
    times = count_s * count_c
    pair = np.repeat(np.arange(len(s)), times)
    nth = np.arange(len(pair)) - np.repeat(np.cumsum(times) - times, times)
    one = begin_s[pair] + nth // np.maximum(count_c[pair], 1)
    two = begin_c[pair] + nth % np.maximum(count_c[pair], 1)
    meet = np.ones(len(pair), dtype=np.bool_)
    by_accident = np.ones(len(pair))
    for way in (0, 1):
        ahead = (client.first[way][two] - server.first[way][one]) % _NUMBERS
        span_s, span_c = np.maximum(server.span[way][one], 1), np.maximum(client.span[way][two], 1)
        meet &= (ahead < span_s) | ((_NUMBERS - ahead) % _NUMBERS < span_c)
        # Whoever sees a connection from its first byte on sees the same number.
        by_accident *= np.where(ahead == 0, 1, np.minimum(span_s + span_c, _NUMBERS)) / _NUMBERS
    same, apart = np.zeros(len(s), dtype=np.bool_), times > 0
    same[pair[meet & (by_accident * max(rivals, 1) <= _BY_ACCIDENT)]] = True
    apart[pair[meet]] = False
    return same, apart


def apart(server: tuple[Ops, Tcp], client: tuple[Ops, Tcp], matched: Matched) -> tuple[list[tuple[int, int]], int]:
    """Pairs of connections (the server's, the client's) that share matched ops and no sequence number, so that TCP ends
    between the two hosts; and of how many pairs that is known."""
    width = len(client[0].connections)

    def pair(at: slice) -> I64:
        of_server, of_client = matched.rows(at)
        return server[0].conn[of_server].astype(np.int64) * width + client[0].conn[of_client]

    pairs = distinct(filled(len(matched), np.int64, pair), len(server[0].connections) * width)
    s, c = np.divmod(pairs, max(width, 1))
    ranges = Ranges.of(*server), Ranges.of(*client)
    known = np.isin(s, ranges[0].conn) & np.isin(c, ranges[1].conn)
    found = known & compare(*ranges, s, c, 1)[1]
    return list(zip(s[found].tolist(), c[found].tolist(), strict=True)), int(np.count_nonzero(known))
