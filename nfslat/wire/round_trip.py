"""Two decoded sides, their matched ops and the clock -> the longest that the way can be, for each pair of hosts."""

from __future__ import annotations

from functools import partial

import numpy as np

from nfslat.clock.clock import Clock
from nfslat.host_pairs import HostPairs, has_several
from nfslat.model.blocks import tally, together
from nfslat.model.decoded import Decoded
from nfslat.model.tables import I32, I64, Matched, Ops


def half_trips_ns(
    server: Decoded, client: Decoded, matched: Matched, clock: Clock, pairs: HostPairs, *, is_alone: bool = True
) -> I64:
    """Of each pair, half of the room that causality leaves for theta, or of TCP's shortest round trip, whichever is
    shorter. Where a capture knows several, those that are near leave no room to those that are far: TCP alone counts.
    `is_alone`: these tables have all that the capture knows.

    The clock must fit.
    """
    least_ns = _least_rtts_ns(server, client, matched, pairs)
    if is_alone and not has_several(client.ops):
        low_ns, high_ns = clock.main.bounds_at(clock.main.t_ns)
        least_ns = np.minimum(least_ns, max(high_ns - low_ns, 0))
    return least_ns // 2


def _least_rtts_ns(server: Decoded, client: Decoded, matched: Matched, pairs: HostPairs) -> I64:
    """The shortest time from data to their ACK, as each end's capture shows it of what it sends.

    No clocks are needed for that, and it holds the way there and back, so that the distance is no longer. The
    handshake need not have been captured; and on a full path small messages meet the shortest queue.
    """
    least = np.full(len(pairs.pairs), np.iinfo(np.int64).max)
    for side, rows, is_reply, of_class in (
        (client, matched.client, 0, pairs.of_client),
        (server, matched.server, 1, pairs.of_server),
    ):
        if side.lost_ranges or side.interface_drops:
            continue  # what is seen of some data may be their second transmission, and the ACK that of the first
        ops, tcp = side.ops, side.details.tcp
        used = tally(len(rows), 2 * len(ops.connections), partial(_ways, ops, rows, is_reply))
        timed = (tcp.rtt_count > 0) & np.isin(tcp.conn * 2 + tcp.direction, np.flatnonzero(used))
        pair_of = np.zeros(len(ops.connections), dtype=np.int64)
        pair_of[ops.classes.conn] = of_class
        np.minimum.at(least, pair_of[tcp.conn[timed]], tcp.rtt_min_ns[timed])
    return least


def _ways(ops: Ops, rows: I32, is_reply: int, at: slice) -> I64:
    """Of a block of `rows`, on which way of which connection their calls go, or their replies."""
    mine = together(rows[at])
    return ops.conn[mine].astype(np.int64) * 2 + (ops.direction[mine] ^ is_reply)
