"""A conversation -> one direction of it: its packets with payload, and what its receiver said to them.

Every analysis begins with these. Rows are those of `Talk.packets`; `rows`, `said` and highest bytes only grow.
"""

from __future__ import annotations

import numpy as np

from nfslat.model.protocol import NULL
from nfslat.model.record import Record
from nfslat.model.tables import I64, Bool
from nfslat.tcp.packets import RST, SYN, Packets, Talk


class Stream(Record, eq=False):
    """What one side sent, one row a packet with payload; and its receiver's packets that acknowledge anything."""

    talk: Talk
    direction: int
    rows: I64  # with payload, keep-alives and probes of a closed window included
    high: I64  # behind the highest byte that was sent so far
    acked: I64  # place in `said` of the first that covers the packet, whenever that was said; len(said): none does
    heard: I64  # how many of `said` are in front of it
    said: I64  # of the other side, with an acknowledgement, and no RST
    covered: I64  # behind the highest byte that was acknowledged so far, at each of `said`
    ack: I64  # behind the byte that each of `said` acknowledges itself
    window: I64  # that it announces, as in the header
    is_syn: Bool
    # From what each of `said` counts its window, a DATA_ACK in a subflow of MPTCP; NULL there without one.
    counted: I64
    is_current: Bool  # none in front of it covers more of what the window counts from
    is_shut: Bool  # it announces no window

    def windows(self, shift: int) -> I64:
        """The windows in bytes; those in SYNs are not shifted."""
        return np.where(self.is_syn, self.window, self.window << shift)

    def edges(self, shift: int | None) -> I64:
        """Behind the last byte that the receiver lets the sender send, with each of `said`; NULL: not known."""
        if self.talk.level is None:
            edges = self.ack + self.windows(shift or 0)
            return np.where(self.is_syn, edges, NULL) if shift is None else edges
        # What the connection's window leaves, behind what went out by this subflow.
        room = self.talk.level.room(self.direction, self.said)
        sent = np.append(self.high, 0)[np.searchsorted(self.rows, self.said) - 1]
        return np.where(room == NULL, NULL, sent + room)

    @property
    def packets(self) -> Packets:
        """Of both directions."""
        return self.talk.packets


def stream(talk: Talk, direction: int) -> Stream:
    """What `talk` shows of `direction`."""
    packets = talk.packets
    mine = packets.direction == direction
    rows = np.flatnonzero(mine & (packets.size > 0))
    says = ~mine & (packets.ack != NULL) & (packets.flags & RST == 0)
    said = np.flatnonzero(says)
    ack = packets.ack[said]
    covered = np.maximum.accumulate(ack)
    ends = packets.seq[rows] + packets.size[rows]
    level = talk.level
    return Stream(
        talk=talk,
        direction=direction,
        rows=rows,
        high=np.maximum.accumulate(ends),
        acked=np.searchsorted(covered, ends),
        heard=np.cumsum(says)[rows],
        said=said,
        covered=covered,
        ack=ack,
        window=packets.window[said].astype(np.int64),
        is_syn=packets.flags[said] & SYN != 0,
        counted=ack if level is None else level.acked[said],
        is_current=ack == covered if level is None else level.is_current[said],
        is_shut=packets.window[said] == 0 if level is None else level.is_shut[said],
    )
