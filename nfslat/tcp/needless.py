"""One direction's packets -> those that were sent again although they had arrived: nothing was lost.

Three things prove it. The bytes had been acknowledged when the packet passed, and its sender cannot have heard of that
yet (else the ACK was lost); or their ACK passes sooner than the way to the receiver and back takes (RFC 3522, the Eifel
detection, by times); or the receiver says that bytes came twice (D-SACK, RFC 2883, used as RFC 3708 does). At the
receiver's own end each packet of bytes that were seen there is one, unless an ACK was lost.
"""

from __future__ import annotations

import numpy as np

from nfslat.model.protocol import NULL
from nfslat.model.tables import I64, Bool
from nfslat.tcp.floors import Floors
from nfslat.tcp.packets import Kind
from nfslat.tcp.stream import Stream
from nfslat.wire.stalls import RTO_MIN_NS

_AT_END_NS = 100_000  # to the receiver and back: the capture is at its end
_AT_ONCE_NS = 2_000_000  # a wake-up of a busy host
_JITTER_NS = 200_000  # of hosts whose ways are shorter: there a shorter time proves nothing
_SURE = 4  # an answer that comes sooner than the shortest way less a part of it is none


def needless(one: Stream, floors: Floors) -> I64:
    """Rows of `Talk.packets`, in order: those of which it is proven."""
    packets = one.packets
    at = np.flatnonzero(packets.kind[one.rows] == Kind.RETRANSMISSION)
    if not len(at):
        return at
    rows, t_ns = one.rows[at], packets.t_ns[one.rows[at]]
    ends = packets.seq[rows] + packets.size[rows]
    near, far = floors.near_ns(one.direction), floors.far_ns(one.direction)
    # When it was acknowledged, here; what nobody acknowledges is that at no time.
    acked_ns = np.append(packets.t_ns[one.said], np.iinfo(np.int64).max)[one.acked[at]]
    known = acked_ns <= t_ns
    # The sender had not heard of it; else that ACK was lost behind the capture, and this is what it cost.
    proven = known & (t_ns - acked_ns <= far + far // _SURE + _AT_ONCE_NS) & (far != NULL)
    if near != NULL:
        proven |= ~known & (acked_ns - t_ns < near - max(near // _SURE, _JITTER_NS))
    # At the receiver's end what was seen before has arrived before.
    if near != NULL and near <= _AT_END_NS < far:
        proven |= ~known
    told = np.flatnonzero(packets.is_dsack[one.said])
    if len(told):
        proven |= _told_of(one, told, t_ns, ends, max(near, 0))
    return np.asarray(rows[proven])


def _told_of(one: Stream, told: I64, t_ns: I64, ends: I64, near: int) -> Bool:
    """Which repeats D-SACKs tell of: each of one, the last one that can have come to the receiver by then.

    A capture keeps no blocks, only that there is one: below the acknowledged byte where it is the only one.
    """
    packets = one.packets
    out = np.zeros(len(t_ns), dtype=np.bool_)
    for row in one.said[told].tolist():  # as rare as what is sent again
        now = int(packets.t_ns[row])
        can = ~out & (t_ns <= now - near + near // _SURE) & (t_ns >= now - 2 * near - RTO_MIN_NS)
        if packets.sacks[row] == 1:
            can &= ends <= int(packets.ack[row])
        which = np.flatnonzero(can)
        if len(which):
            out[which[-1]] = True
    return out
