"""Matched ops, and what each side sent again -> how long each call and reply waited until what arrived was sent.

Only what the receiver needed counts: bytes that were sent again although the first ones arrived (the receiver's capture
has them twice) cost nothing. TCP retransmissions are known by the native engine only, RPC's by both.
"""

from __future__ import annotations

import numpy as np

from nfslat.constants import NULL
from nfslat.decode.decoded import Decoded
from nfslat.decompose import ClientClock
from nfslat.details import Again
from nfslat.tables import I32, I64, Matched, State


def retrans_waits_ns(server: Decoded, client: Decoded, matched: Matched, clock: ClientClock) -> tuple[I64, I64] | None:
    """For each matched op the part of call_net, and the part of reply_net, in which it waited to be sent again.

    From the last byte's first transmission to the last one that can have completed the message, int64 ns, 0 where
    nothing was sent again; None where a capture does not show what TCP sent again.
    """
    if not (len(server.details.tcp) and len(client.details.tcp)):
        return None
    rows_c = matched.client.astype(np.int64)
    s1, s3 = clock.on_client(rows_c, server.ops.t1[matched.server], server.ops.t3[matched.server])
    c1, c3 = client.ops.t1[matched.client], client.ops.t3[matched.client]
    of_server, of_client = _places(matched.server, len(server.ops)), _places(matched.client, len(client.ops))
    waits = []
    for sender, places, receiver, receiver_places, is_reply, begin, end in (
        (client, of_client, server, of_server, 0, c1, s1),
        (server, of_server, client, of_client, 1, s3, c3),
    ):
        rows, times = _sent_again(sender, places, is_reply)
        if is_reply and len(rows):
            (times,) = clock.on_client(rows_c[rows], times)
        sent = np.bincount(rows, minlength=len(matched))
        twice, _ = _sent_again(receiver, receiver_places, is_reply)
        needed = sent > np.bincount(twice, minlength=len(matched))
        counts = needed[rows] & (times > begin[rows]) & (times <= end[rows])
        last = begin.copy()
        np.maximum.at(last, rows[counts], times[counts])
        waits.append(last - begin)
    return waits[0], waits[1]


def _places(rows: I32, count: int) -> I32:
    """For each of `count` ops its place in `rows`; NULL where it has none."""
    places = np.full(count, NULL, dtype=np.int32)
    places[rows] = np.arange(len(rows), dtype=np.int32)
    return places


def _sent_again(side: Decoded, places: I32, is_reply: int) -> tuple[I64, I64]:
    """(place of the op, time) of each segment, and each message, that a side shows once more."""
    resent, loose = side.details.resent, side.loose
    by_tcp = (resent.is_reply == is_reply) & (resent.kind == Again.REPEATED)
    by_rpc = (loose.is_reply == is_reply) & (loose.state == State.RETRANSMITTED) & (loose.op != NULL)
    rows = places[np.concatenate([resent.op[by_tcp], loose.op[by_rpc]])].astype(np.int64)
    times = np.concatenate([resent.t_ns[by_tcp], loose.last_ns[by_rpc]])
    return rows[rows != NULL], times[rows != NULL]
