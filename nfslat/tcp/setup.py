"""A conversation -> how long its handshake took, and what was sent again for it.

A SYN that is lost costs a second on Linux, then two, four ... (RFC 6298 section 2.1, TCP_TIMEOUT_INIT).
"""

from __future__ import annotations

import numpy as np

from nfslat.model.record import Record
from nfslat.model.tables import I64
from nfslat.model.units import to_ms
from nfslat.tcp.packets import ACK, RST, SYN, Packets, Talk


class Setup(Record):
    """The handshake, as far as it was captured."""

    opener: int  # the direction of the first SYN
    syns: int  # without ACK, from the opener
    syn_acks: int
    ms: float | None  # from the first SYN to the opener's first ACK; None: it did not come
    waited_ms: float  # from the first SYN to the last one: until it was sent again
    frames: tuple[int, ...]  # of the SYNs

    @property
    def is_repeated(self) -> bool:
        """Was any of it sent again?"""
        return self.syns > 1 or self.syn_acks > 1


def setup(talk: Talk) -> Setup | None:
    """None where no SYN was captured."""
    packets = talk.packets
    syns = _syns(packets)
    if not len(syns):
        return None
    opener = int(packets.direction[syns[0]])
    flags = packets.flags
    answers = np.flatnonzero((flags & (SYN | ACK) == SYN | ACK) & (packets.direction != opener))
    acks = np.flatnonzero((flags & (SYN | ACK | RST) == ACK) & (packets.direction == opener))
    acks = acks[acks > syns[-1]]
    t_ns = packets.t_ns
    return Setup(
        opener=opener,
        syns=len(syns),
        syn_acks=len(answers),
        ms=to_ms(int(t_ns[acks[0]] - t_ns[syns[0]])) if len(acks) and len(answers) else None,
        waited_ms=to_ms(max(int(t_ns[syns[-1]] - t_ns[syns[0]]), 0)),
        frames=tuple(packets.frame[syns].tolist()[:8]),
    )


def resent_until_ns(talk: Talk, direction: int) -> int | None:
    """When the opener sent its SYN for the last time, where `direction` is its, and it did so more than once."""
    syns = _syns(talk.packets)
    if len(syns) < 2 or int(talk.packets.direction[syns[0]]) != direction:
        return None
    return int(talk.packets.t_ns[syns[-1]])


def _syns(packets: Packets) -> I64:
    """Rows of the SYNs of who sent the first one; a SYN of the other side is an answer, or opens at once, too."""
    rows = np.flatnonzero(packets.flags & (SYN | ACK) == SYN)
    return np.asarray(rows[packets.direction[rows] == packets.direction[rows[:1]].sum()])
