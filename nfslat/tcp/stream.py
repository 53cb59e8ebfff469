"""A conversation -> one direction of it: its packets with payload, and what its receiver said to them.

Every analysis begins with these. Rows are those of `Talk.packets`; `rows`, `said` and highest bytes only grow.
"""

from __future__ import annotations

from functools import cached_property

import numpy as np

from nfslat.kernels.compiled import native
from nfslat.model.protocol import NULL
from nfslat.model.record import Record
from nfslat.model.tables import I64, Bool
from nfslat.tcp.packets import SYN, Packets, Talk


class Stream(Record, eq=False, dict=True):
    """What one side sent, one row a packet with payload; and its receiver's packets that acknowledge anything."""

    talk: Talk
    direction: int
    rows: I64  # with payload, keep-alives and probes of a closed window included
    high: I64  # behind the highest byte that was sent so far
    acked: I64  # place in `said` of the first that covers the packet, whenever that was said; len(said): none does
    heard: I64  # how many of `said` are in front of it
    said: I64  # of the other side, with an acknowledgement, and no RST
    covered: I64  # behind the highest byte that was acknowledged so far, at each of `said`

    @cached_property
    def ack(self) -> I64:
        """Behind the byte that each of `said` acknowledges itself."""
        return self.packets.ack[self.said]

    @cached_property
    def window(self) -> I64:
        """The window that each of `said` announces, as in the header."""
        return self.packets.window[self.said].astype(np.int64)

    @cached_property
    def is_syn(self) -> Bool:
        """Which of `said` are SYNs."""
        return np.asarray(self.packets.flags[self.said] & SYN != 0)

    @property
    def counted(self) -> I64:
        """From what each of `said` counts its window, a DATA_ACK in a subflow of MPTCP; NULL there without one."""
        return self.ack if self.talk.level is None else self.talk.level.acked[self.said]

    @property
    def is_current(self) -> Bool:
        """Which of `said` have none in front of them that covers more of what the window counts from."""
        return self.ack == self.covered if self.talk.level is None else self.talk.level.is_current[self.said]

    @property
    def is_shut(self) -> Bool:
        """Which of `said` announce no window."""
        return self.window == 0 if self.talk.level is None else self.talk.level.is_shut[self.said]

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
    return Stream(talk, direction, *native.stream(talk.packets, direction))
