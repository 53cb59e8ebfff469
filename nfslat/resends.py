"""Matched ops, and what each side sent again -> how long each call and reply waited until what arrived was sent.

Only what the receiver needed counts: bytes that were sent again although the first ones arrived (the receiver's capture
has them twice) cost nothing. TCP retransmissions are known by the native engine only, RPC's by both.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from nfslat.constants import NULL
from nfslat.decode.decoded import Decoded
from nfslat.decompose import ClientClock
from nfslat.details import Again
from nfslat.tables import I32, I64, Matched, State


class Waits(NamedTuple):
    """Matched ops, ascending, that waited, and how long, int64 ns; all others did not."""

    row: I64
    ns: I64


def retrans_waits_ns(
    server: Decoded, client: Decoded, matched: Matched, clock: ClientClock
) -> tuple[Waits, Waits] | None:
    """Within call_net, and within reply_net, the wait of each matched op to be sent again.

    From the last byte's first transmission to the last one that can have completed the message; None where a capture
    does not show what TCP sent again.
    """
    if not (len(server.details.tcp) and len(client.details.tcp)):
        return None
    of_server, of_client = _places(matched.server, len(server.ops)), _places(matched.client, len(client.ops))
    waits = []
    for sender, places, receiver, receiver_places, is_reply in (
        (client, of_client, server, of_server, 0),
        (server, of_server, client, of_client, 1),
    ):
        rows, times = _sent_again(sender, places, is_reply)
        twice, _ = _sent_again(receiver, receiver_places, is_reply)
        hit, at, sent = np.unique(rows, return_inverse=True, return_counts=True)
        arrived = np.searchsorted(np.sort(twice), hit, "right") - np.searchsorted(np.sort(twice), hit, "left")
        s, c = matched.rows(hit)
        if is_reply:
            begin, times = clock.on_client(c, server.ops.t3[s])[0], clock.on_client(c[at], times)[0]
            end = client.ops.t3[c]
        else:
            begin, end = client.ops.t1[c], clock.on_client(c, server.ops.t1[s])[0]
        counts = (sent > arrived)[at] & (times > begin[at]) & (times <= end[at])
        last = begin.copy()
        np.maximum.at(last, at[counts], times[counts])
        waits.append(Waits(hit[last > begin], (last - begin)[last > begin]))
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
