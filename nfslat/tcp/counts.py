"""A conversation's packets -> how many of each kind a direction has; the kinds of payload add up to its packets."""

from __future__ import annotations

import numpy as np

from nfslat.model.record import Record
from nfslat.tcp.packets import FIN, RST, SYN, AckKind, Kind, Talk


class Counts(Record):
    """Of one direction, as its capture shows it; a packet that was captured twice counts once."""

    packets: int
    data_packets: int  # with payload: the sum of the next six
    new: int
    ahead: int  # new, with a hole in front
    retransmissions: int
    out_of_order: int
    keep_alives: int
    zero_window_probes: int
    bytes: int  # of payload, retransmissions included
    new_bytes: int  # from the first to the highest position
    duplicate_acks: int  # that this direction's sender sent; so the next ones
    window_updates: int
    zero_windows: int  # packets that announce a closed window
    syns: int
    fins: int
    resets: int
    copies: int  # packets captured twice
    uncaptured_bytes: int  # acknowledged, and not in the capture


def counts(talk: Talk, direction: int) -> Counts:
    """Of the packets of `direction`."""
    p = talk.packets
    way = talk.conversation.ways[direction]
    own = np.flatnonzero(p.direction == direction)
    kinds = np.bincount(p.kind[own], minlength=len(Kind))
    said = np.bincount(p.ack_kind[own], minlength=len(AckKind))
    flags, size = p.flags[own], p.size[own]
    data = own[size > 0]
    begins = p.seq[data]
    ends = begins + p.size[data]
    return Counts(
        packets=len(own),
        data_packets=len(data),
        new=int(kinds[Kind.NEW]),
        ahead=int(kinds[Kind.AHEAD]),
        retransmissions=int(kinds[Kind.RETRANSMISSION]),
        out_of_order=int(kinds[Kind.OUT_OF_ORDER]),
        keep_alives=int(kinds[Kind.KEEP_ALIVE]),
        zero_window_probes=int(kinds[Kind.ZERO_WINDOW_PROBE]),
        bytes=int(size.sum()),
        new_bytes=int(ends.max() - max(int(begins.min()), 0)) if len(ends) else 0,
        duplicate_acks=int(said[AckKind.DUPLICATE]),
        window_updates=int(said[AckKind.WINDOW_UPDATE]),
        zero_windows=int(np.count_nonzero((p.window[own] == 0) & (flags & (SYN | FIN | RST) == 0))),
        syns=int(np.count_nonzero(flags & SYN)),
        fins=int(np.count_nonzero(flags & FIN)),
        resets=int(np.count_nonzero(flags & RST)),
        copies=way.copies,
        uncaptured_bytes=way.lost_bytes,
    )
