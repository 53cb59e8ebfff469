"""Two decoded sides, their matched ops and the clock -> the longest that the way from host to host can be."""

from __future__ import annotations

from functools import partial

import numpy as np

from nfslat.clock.clock import Clock
from nfslat.model.blocks import tally
from nfslat.model.decoded import Decoded
from nfslat.model.tables import I32, I64, Matched, Ops


def half_trip_ns(server: Decoded, client: Decoded, matched: Matched, clock: Clock) -> int:
    """Half of the room that causality leaves for theta, or of TCP's shortest round trip, whichever is shorter.

    The clock must fit.
    """
    low_ns, high_ns = clock.main.bounds_at(clock.main.t_ns)
    return min(max(high_ns - low_ns, 0), _least_rtt_ns(server, client, matched)) // 2


def _least_rtt_ns(server: Decoded, client: Decoded, matched: Matched) -> int:
    """The shortest time from data to their ACK, as each end's capture shows it of what it sends.

    No clocks are needed for that, and it holds the way there and back, so that the distance is no longer. The
    handshake need not have been captured; and on a full path small messages meet the shortest queue.
    """
    least: list[int] = []
    for side, rows, is_reply in ((client, matched.client, 0), (server, matched.server, 1)):
        if side.lost_ranges or side.interface_drops:
            continue  # what is seen of some data may be their second transmission, and the ACK that of the first
        ops, tcp = side.ops, side.details.tcp
        used = tally(len(rows), 2 * len(ops.connections), partial(_ways, ops, rows, is_reply))
        timed = (tcp.rtt_count > 0) & np.isin(tcp.conn * 2 + tcp.direction, np.flatnonzero(used))
        least += tcp.rtt_min_ns[timed].tolist()
    return min(least, default=np.iinfo(np.int64).max)


def _ways(ops: Ops, rows: I32, is_reply: int, at: slice) -> I64:
    """Of a block of `rows`, on which way of which connection their calls go, or their replies."""
    return ops.conn[rows[at]].astype(np.int64) * 2 + (ops.direction[rows[at]] ^ is_reply)
