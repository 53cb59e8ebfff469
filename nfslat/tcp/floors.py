"""A conversation -> its round trips, the shortest ones to either end, and what they say of where it was captured."""

from __future__ import annotations

from enum import StrEnum

import numpy as np

from nfslat.kernels.compiled import native
from nfslat.model.protocol import NULL
from nfslat.model.record import Record
from nfslat.model.tables import I64
from nfslat.tcp.packets import ACK, SYN, Talk
from nfslat.tcp.stream import Stream

_BESIDE = 2  # an end is where the capture was taken if the way to the other one is so many times as long


class Place(StrEnum):
    """Where a capture was taken."""

    AT_A = "at a"
    AT_B = "at b"
    BETWEEN = "between"
    BOTH_ENDS = "at both ends"  # two of them: each direction is judged where its sender is
    UNKNOWN = "unknown"


class Floors(Record):
    """Shortest round trips in ns, NULL where nothing shows one."""

    to_b_ns: int  # from the capture to endpoint b and back: what a sends, to the ACK that covers it
    to_a_ns: int

    def near_ns(self, direction: int) -> int:
        """From the capture to the receiver of `direction` and back."""
        return self.to_a_ns if direction else self.to_b_ns

    def far_ns(self, direction: int) -> int:
        """From the capture to the sender of `direction` and back."""
        return self.near_ns(1 - direction)

    def shift_ns(self, direction: int) -> int:
        """How much later the sender of `direction` hears what passes the capture, and is heard there; 0 at its end."""
        near, far = self.near_ns(direction), self.far_ns(direction)
        return 0 if far == NULL or (near != NULL and near > _BESIDE * far) else far

    @property
    def whole_ns(self) -> int:
        """From end to end and back; of what is known, NULL where nothing is."""
        known = [ns for ns in (self.to_a_ns, self.to_b_ns) if ns != NULL]
        return sum(known) if known else NULL

    @property
    def place(self) -> Place:
        """The end that is much nearer is where the capture was taken."""
        a, b = self.to_a_ns, self.to_b_ns
        if NULL in (a, b):
            return Place.UNKNOWN
        if b > _BESIDE * a:
            return Place.AT_A
        return Place.AT_B if a > _BESIDE * b else Place.BETWEEN


class Samples(Record, eq=False):
    """Round trips of one direction: a row for each data packet and the ACK that covers it first, in order of sending.

    Left out are packets of which a byte was sent twice (P. Karn and C. Partridge, 1987; RFC 6298 section 3), and those
    whose ACK covers such bytes, or bytes that came late, beside them: that ACK waited for the repair.
    """

    sent: I64  # row of `Talk.packets`
    covered: I64  # row of the ACK
    rtt_ns: I64
    repaired: int  # data packets that were left out for it
    uncovered: int  # whose ACK is not in the capture, or has a time in front of theirs


def samples(one: Stream) -> Samples:
    """All round trips of what one side sends, as seen where the capture was taken."""
    return Samples(*native.samples(one))


def floors(talk: Talk, there: Samples, back: Samples) -> Floors:
    """The least of all round trips of directions 0 and 1, and of the handshake's."""
    packets = talk.packets
    handshake = [NULL, NULL]
    syns = np.flatnonzero(packets.flags & SYN)
    opens = packets.flags[syns[:1]] & ACK == 0  # of one time the answer may stand in front of what it answers
    if len(syns) == 2 and opens.all() and packets.direction[syns].tolist() == [0, 1]:
        handshake[0] = int(packets.t_ns[syns[1]] - packets.t_ns[syns[0]])
        later = packets.direction[syns[1] + 1 :] == 0
        later &= packets.flags[syns[1] + 1 :] & ACK != 0
        if later.any():
            handshake[1] = int(packets.t_ns[syns[1] + 1 + int(np.argmax(later))] - packets.t_ns[syns[1]])
    return Floors(_least(there.rtt_ns, handshake[0]), _least(back.rtt_ns, handshake[1]))


def _least(rtt_ns: I64, handshake_ns: int) -> int:
    known = [int(rtt_ns.min())] if len(rtt_ns) else []
    known += [handshake_ns] if handshake_ns != NULL else []
    return max(min(known), 0) if known else NULL
