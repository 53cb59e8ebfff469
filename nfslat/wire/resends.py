"""Matched ops, and what each side sent again -> how long each call and reply waited until what arrived was sent.

Only what the receiver needed counts: bytes that were sent again although the first ones arrived (the receiver's capture
has them twice) cost nothing. TCP retransmissions are known by the native engine only, RPC's by both.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from nfslat.decompose import ClientClock
from nfslat.model.decoded import Decoded
from nfslat.model.details import Again, TcpEvent
from nfslat.model.protocol import NULL
from nfslat.model.tables import I32, I64, Bool, Matched, State
from nfslat.wire.charges.silences import segments_of

_NUMBERS = 1 << 32  # of TCP's sequence


class Waits(NamedTuple):
    """Matched ops, ascending, that waited, and how long, int64 ns; all others did not."""

    row: I64
    ns: I64
    again_ns: I64  # when what arrived was sent, sender's clock
    by_rpc: Bool  # by RPC, in a message of its own; else by TCP


def retrans_waits_ns(
    server: Decoded, client: Decoded, matched: Matched, clock: ClientClock
) -> tuple[Waits, Waits] | None:
    """Within call_net, and within reply_net, the wait of each matched op to be sent again.

    From the last byte's first transmission to the last one that can have completed the message; None where a capture
    does not show what TCP sent again.
    """
    if not all(len(side.details.tcp) or _is_udp(side) for side in (server, client)):
        return None
    of_server, of_client = _places(matched.server, len(server.ops)), _places(matched.client, len(client.ops))
    waits = []
    for sender, places, receiver, receiver_places, is_reply in (
        (client, of_client, server, of_server, 0),
        (server, of_server, client, of_client, 1),
    ):
        rows, sent_ns, by_rpc = _sent_again(sender, places, is_reply)
        if is_reply:
            more, more_ns = _sent_long_after(server, client, receiver_places, matched, rows)
            rows, sent_ns = np.concatenate([rows, more]), np.concatenate([sent_ns, more_ns])
            by_rpc = np.concatenate([by_rpc, np.zeros(len(more), dtype=np.bool_)])
        if not len(rows):
            waits.append(Waits(rows, sent_ns, sent_ns, by_rpc))
            continue
        twice, *_ = _sent_again(receiver, receiver_places, is_reply)
        hit, at, sent = np.unique(rows, return_inverse=True, return_counts=True)
        arrived = np.searchsorted(np.sort(twice), hit, "right") - np.searchsorted(np.sort(twice), hit, "left")
        s, c = matched.rows(hit)
        if is_reply:
            begin, times = clock.on_client(c, server.ops.t3[s])[0], clock.on_client(c[at], sent_ns)[0]
            end = client.ops.t3[c]
        else:
            begin, times, end = client.ops.t1[c], sent_ns, clock.on_client(c, server.ops.t1[s])[0]
        counts = (sent > arrived)[at] & (times > begin[at]) & (times <= end[at])
        last = begin.copy()
        np.maximum.at(last, at[counts], times[counts])
        # Of what was sent at that moment, which is one segment or message, the row says when that was at its sender.
        which = np.full(len(hit), NULL)
        is_last = np.flatnonzero(counts & (times == last[at]))
        which[at[is_last]] = is_last
        waits_at = last > begin
        which = which[waits_at]
        waits.append(Waits(hit[waits_at], (last - begin)[waits_at], sent_ns[which], by_rpc[which]))
    return waits[0], waits[1]


def _sent_long_after(server: Decoded, client: Decoded, places: I32, matched: Matched, known: I64) -> tuple[I64, I64]:
    """The places of replies, but for those in `known`, of which bytes came late that the server had sent again, and
    when it had. A window hands on its ops some seconds after its end, so that only the connection tells what is sent
    again later; `places` are of the client's ops."""
    resent = client.details.resent
    late = resent.take((resent.is_reply == 1) & (resent.kind == Again.LATE))
    row = places[late.op].astype(np.int64)
    asked = (row != NULL) & ~np.isin(row, known)
    late, row = late.take(asked), row[asked]
    again = segments_of(server, TcpEvent.RETRANSMISSION)
    if not len(row) or not len(again.way):
        return row[:0], row[:0]
    came, ops = segments_of(client, TcpEvent.OUT_OF_ORDER), client.ops
    number_of = dict(zip(zip(came.way.tolist(), came.t_ns.tolist(), strict=True), came.number.tolist(), strict=True))
    way = ops.conn[late.op].astype(np.int64) * 2 + 1 - ops.direction[late.op]
    number = np.array([number_of.get(key, NULL) for key in zip(way.tolist(), late.t_ns.tolist(), strict=True)])
    ops, at = server.ops, matched.server[row]
    way = ops.conn[at].astype(np.int64) * 2 + 1 - ops.direction[at]
    order = np.lexsort((again.t_ns, again.number, again.way))
    begins = (again.way * _NUMBERS + again.number)[order]
    sent = np.maximum(np.searchsorted(begins, way * _NUMBERS + number, side="right") - 1, 0)
    begun = way * _NUMBERS + number - begins[sent]
    is_it = (number != NULL) & (begun >= 0) & (begun < again.bytes[order][sent])
    return row[is_it], again.t_ns[order][sent[is_it]]


def _is_udp(side: Decoded) -> bool:
    """Is there nothing that TCP could send again?"""
    return all(ends.transport == "udp" for ends in side.ops.connections)


def _places(rows: I32, count: int) -> I32:
    """For each of `count` ops its place in `rows`; NULL where it has none."""
    places = np.full(count, NULL, dtype=np.int32)
    places[rows] = np.arange(len(rows), dtype=np.int32)
    return places


def _sent_again(side: Decoded, places: I32, is_reply: int) -> tuple[I64, I64, Bool]:
    """(place of the op, time, by RPC) of each segment, and each message, that a side shows once more."""
    resent, loose = side.details.resent, side.loose
    by_tcp = (resent.is_reply == is_reply) & (resent.kind == Again.REPEATED)
    by_rpc = (loose.is_reply == is_reply) & (loose.state == State.RETRANSMITTED) & (loose.op != NULL)
    rows = places[np.concatenate([resent.op[by_tcp], loose.op[by_rpc]])].astype(np.int64)
    times = np.concatenate([resent.t_ns[by_tcp], loose.last_ns[by_rpc]])
    rpc = np.arange(len(rows)) >= np.count_nonzero(by_tcp)
    return rows[rows != NULL], times[rows != NULL], rpc[rows != NULL]
