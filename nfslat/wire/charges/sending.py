"""Pauses of a sender, and large messages -> claims on the sending of messages, and on their wait in its socket.

A message's first byte is on the sender's wire when TCP lets it go, not when it was ready. The reply that had to wait
looks as if the server had worked on it: what was in front of it on the connection is taken from the server's time. It
is an upper bound, for no packet says when a reply was ready.
"""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

import numpy as np

from nfslat.model.causes import LOSSES, Cause, code
from nfslat.model.details import Tcp
from nfslat.model.protocol import NULL, NULL32, op_name
from nfslat.model.tables import I64, Bool, Ops
from nfslat.model.units import NS_PER_MS
from nfslat.wire.charges.claims import WAITS, Claims, Pair, Stretches, exclusive, of_each, overlapping
from nfslat.wire.charges.places import BEFORE, place
from nfslat.wire.charges.silences import NOTHING, Silences

_LONG_NS = NS_PER_MS  # to be sent; what is sent sooner costs those behind it nothing that matters
_AT_ONCE_NS = 20_000  # between two messages that wait for each other; a server's next reply may follow as fast
_PACE = 10  # and a tenth of what the one in front took; where its packets can be told, ...
_ACKED = 2  # packets, as far apart as its own: an ACK comes for every other one (RFC 5681 section 4.2)

# What lets a message wait in its sender's socket. A silent application sends nothing because it has nothing.
_OF_TCP = [
    code(one)
    for one in (
        Cause.RTO, Cause.TAIL_LOSS_PROBE, Cause.FAST_RETRANSMIT, Cause.LOSS, Cause.ZERO_WINDOW, Cause.RECEIVE_WINDOW,
        Cause.DELAYED_ACK, Cause.UNKNOWN_WINDOW, Cause.CONGESTION_WINDOW,
    )
]  # fmt: skip


class Socket(NamedTuple):
    """Replies that may have waited in the server's socket: matched ops, connection, and from when to when."""

    row: I64
    way: I64
    begin_ns: I64  # server's clock
    end_ns: I64

    def take(self, rows: I64) -> Socket:
        """Those in `rows`."""
        return Socket(*(column[rows] for column in self))


def sending_claims(pair: Pair, client: Silences, server: Silences) -> Claims:
    """Pauses between the first and the last byte of a message, at its sender."""
    claims = []
    for part, silences, side in (("call_send", client, "client"), ("reply_send", server, "server")):
        costs = silences.only((silences.cause != NOTHING) & (silences.pauses.begin_ns != NULL))
        if not len(costs.way):
            continue
        ops = pair.client if side == "client" else pair.server
        begin, end = (ops.t0, ops.t1) if side == "client" else (ops.t2, ops.t3)
        places = pair.places_of(side)
        rows = np.flatnonzero((end > begin) & (places >= 0))
        way = ops.conn[rows].astype(np.int64) * 2 + (ops.direction[rows] ^ (side == "server"))
        p = costs.pauses
        at, which = overlapping(way, begin[rows], end[rows], costs.way, p.begin_ns, p.end_ns)
        row, times = places[rows[at]], [p.begin_ns[which], p.end_ns[which]]
        if side == "server":
            times = pair.on_client_ns(row, *times)
        claims.append(Claims.of(row, place(part), costs.cause[which], *times))
    return Claims.joined(claims)


def before_claims(pair: Pair, client: Silences) -> Claims:
    """Pauses of TCP that ended with a call's first byte: it may have waited for them, in front of the wire."""
    costs = client.only(np.isin(client.cause, _OF_TCP) & (client.pauses.begin_ns != NULL))
    if not len(costs.way):
        return Claims.joined([])
    ops, places = pair.client, pair.places_of("client")
    rows = np.flatnonzero((places >= 0) & np.isin(ops.t0, costs.pauses.end_ns))
    way = ops.conn[rows].astype(np.int64) * 2 + ops.direction[rows]
    at, which = _same(way, ops.t0[rows], costs.way, costs.pauses.end_ns)
    return Claims.of(
        places[rows[at]], place(BEFORE), costs.cause[which], costs.pauses.begin_ns[which], costs.pauses.end_ns[which]
    )


def _same(key: I64, value: I64, asked_key: I64, asked_value: I64) -> tuple[I64, I64]:
    """Rows of two tables, in pairs, that have both numbers in common."""
    known: dict[tuple[int, int], int] = {}
    for row, pair_of in enumerate(zip(asked_key.tolist(), asked_value.tolist(), strict=True)):
        known[pair_of] = row
    found = [known.get(pair_of, -1) for pair_of in zip(key.tolist(), value.tolist(), strict=True)]
    which = np.array(found, dtype=np.int64)
    return np.flatnonzero(which >= 0), which[which >= 0]


class InFront(NamedTuple):
    """What the server's sockets were busy with, or kept from sending by, while replies waited in them (an `Ahead`)."""

    stretches: dict[int, Stretches]  # by cause, of each way (connection times 2, plus direction); client's clock
    way: I64  # of each matched op; -1 where its reply did not wait

    def spent_ns(self, cause: int, rows: I64, begin_ns: I64, end_ns: I64) -> I64:
        """See `Ahead`."""
        if cause not in self.stretches:
            return np.zeros(len(rows), dtype=np.int64)
        return self.stretches[cause].within_ns(self.way[rows], begin_ns, end_ns)


def socket_claims(pair: Pair, server: Silences, tcp: Tcp) -> tuple[Claims, Socket, InFront]:
    """Waits in front of a reply's first byte: for pauses of TCP, and for the sending of other replies in front of it.

    And all waits of the kind, which other causes may explain better. `tcp` is that of the server's side.
    """
    ops = pair.server
    long = ops.t3 - ops.t2 >= _LONG_NS
    costs = server.only(np.isin(server.cause, _OF_TCP) & (server.pauses.begin_ns != NULL))
    nothing = np.zeros(0, dtype=np.int64)
    none = Claims.joined([]), Socket(nothing, nothing, nothing, nothing), InFront({}, nothing)
    if not (long.any() or len(costs.way)):
        return none
    way_of_all = ops.conn.astype(np.int64) * 2 + (1 - ops.direction)
    concerned = np.unique(np.concatenate([way_of_all[long], costs.way]))
    rows = np.flatnonzero(np.isin(way_of_all, concerned))
    if not len(rows):
        return none
    rows = rows[np.argsort(ops.t2[rows], kind="stable")]
    rows = rows[np.argsort(way_of_all[rows], kind="stable")]
    costs = _released(costs, ops.t2[rows], ops.t3[rows], way_of_all[rows], tcp)
    waits = _waits(ops, rows, way_of_all[rows], costs, tcp)
    places = pair.places_of("server")[waits.row]
    known = places >= 0
    waits = Socket(places[known], *(column[known] for column in waits[1:]))
    of_long = rows[long[rows]]
    begin, end = pair.near_on_client_ns(
        np.concatenate([costs.pauses.begin_ns, ops.t2[of_long]]), np.concatenate([costs.pauses.end_ns, ops.t3[of_long]])
    )
    head = np.full(len(of_long), code(Cause.HEAD_OF_LINE), dtype=np.int8)
    key, cause = np.concatenate([costs.way, way_of_all[of_long]]), np.concatenate([costs.cause, head])
    way = np.full(len(pair.matched), -1, dtype=np.int64)
    way[waits.row] = waits.way
    times = pair.on_client_ns(waits.row, waits.begin_ns, waits.end_ns)
    return (
        Claims.of(waits.row, place("server"), WAITS, *times),
        waits,
        InFront(exclusive(key, cause, begin, end), way),
    )


def _waits(ops: Ops, rows: I64, way: I64, costs: Silences, tcp: Tcp) -> Socket:
    """Of the server's ops in `rows`, by way and first byte of the reply, those that follow right behind another reply,
    or behind a pause of TCP; from the first one of such a row, or from the call's arrival."""
    t1, t2, t3 = ops.t1[rows], ops.t2[rows], ops.t3[rows]
    first_of_way = np.ones(len(rows), dtype=np.bool_)
    first_of_way[1:] = way[1:] != way[:-1]
    ahead, gap = np.zeros(len(rows), dtype=np.int64), np.zeros(len(rows), dtype=np.int64)
    ahead[1:], gap[1:] = t3[:-1] - t2[:-1], t2[1:] - t3[:-1]
    pace = np.zeros(len(rows), dtype=np.int64)
    pace[1:] = _pace_ns(ops, rows, way, tcp)[:-1]
    follows = (gap <= np.maximum(_AT_ONCE_NS, np.maximum(ahead // _PACE, _ACKED * pace))) & ~first_of_way
    led, pause = _led_by_pause(way, t2, costs)
    follows |= led & ~first_of_way
    # A row of messages begins with one that follows none; where a pause leads it, with the pause.
    begins = np.where(led, _recovery_begins_ns(costs)[pause], t2) if len(costs.way) else t2
    at = np.maximum.accumulate(np.where(~follows, np.arange(len(rows)), 0))
    begin = np.maximum(begins[at], t1)
    waits = (t2 - begin >= _LONG_NS) & (follows | led)
    return Socket(rows[waits], way[waits], begin[waits], t2[waits])


def _released(costs: Silences, t2: I64, t3: I64, way: I64, tcp: Tcp) -> Silences:
    """A recovery ends with what was sent again; its ACK, a round trip later, releases what TCP had kept back meanwhile.

    So it is taken to last until the first new message behind it begins, where that comes within two round trips. Of
    replies in rows by way and first byte.
    """
    pauses = costs.pauses
    lost = np.flatnonzero(np.isin(costs.cause, [code(one) for one in LOSSES]))
    end_ns = pauses.end_ns.copy()
    trips = {
        key: 2 * total // count
        for key, total, count in zip(
            (tcp.conn * 2 + tcp.direction).tolist(), tcp.rtt_sum_ns.tolist(), tcp.rtt_count.tolist(), strict=True
        )
        if count > 0
    }
    for one, of_way in of_each(costs.way[lost]):
        a, b = np.searchsorted(way, [one, one + 1]).tolist()
        if b == a or one not in trips:
            continue
        begins, latest = t2[a:b], np.maximum.accumulate(t3[a:b])
        ends = end_ns[lost[of_way]]
        after = np.searchsorted(begins, ends)
        first = np.minimum(after, b - a - 1)
        # Nothing of a message went out in between: the one in front of it had been sent when the recovery ended.
        idle = (after == 0) | (latest[np.maximum(after - 1, 0)] <= ends)
        soon = (after < b - a) & idle & (begins[first] - ends <= trips[one])
        end_ns[lost[of_way[soon]]] = begins[first[soon]]
    return Silences(replace(pauses, end_ns=end_ns), costs.way, costs.cause)


def _recovery_begins_ns(costs: Silences) -> I64:
    """When each pause began, or the first of those that it follows in a recovery: one begins with the very packet that
    ended the one in front, or while that still lasted."""
    pauses = costs.pauses
    order = np.lexsort((pauses.begin_ns, costs.way))
    way, begin, end = costs.way[order], pauses.begin_ns[order], pauses.end_ns[order]
    lost = np.isin(costs.cause[order], [code(one) for one in LOSSES])
    follows = np.zeros(len(order), dtype=np.bool_)
    follows[1:] = lost[:-1] & (way[1:] == way[:-1]) & (begin[1:] <= end[:-1])
    out = begin.copy()
    out[order] = begin[np.maximum.accumulate(np.where(follows, 0, np.arange(len(order))))]
    return out


def _pace_ns(ops: Ops, rows: I64, way: I64, tcp: Tcp) -> I64:
    """How far apart the packets of each reply were on average; 0 where that cannot be told."""
    packets, size = np.zeros(int(way.max()) + 1), np.zeros(int(way.max()) + 1)
    ours = tcp.conn * 2 + tcp.direction
    known = ours <= way.max()
    np.add.at(packets, ours[known], tcp.data_packets[known])
    np.add.at(size, ours[known], tcp.bytes[known])
    is_read = np.array([op_name(*kind[:2], kind.op) == "READ" for kind in ops.kinds], dtype=np.bool_)[ops.kind[rows]]
    asked = np.where(is_read & (ops.size[rows] != NULL32), ops.size[rows], 0)
    of_message = asked * packets[way] / np.maximum(size[way], 1)
    took = ops.t3[rows] - ops.t2[rows]
    return np.where(of_message >= 2, took / np.maximum(of_message - 1, 1), 0).astype(np.int64)


def _led_by_pause(way: I64, t2: I64, costs: Silences) -> tuple[Bool, I64]:
    """Which first bytes end a pause, and which one."""
    led, which = np.zeros(len(way), dtype=np.bool_), np.zeros(len(way), dtype=np.int64)
    candidates = np.flatnonzero(np.isin(t2, costs.pauses.end_ns))
    at, pause = _same(way[candidates], t2[candidates], costs.way, costs.pauses.end_ns)
    led[candidates[at]] = True
    which[candidates[at]] = pause
    return led, which
