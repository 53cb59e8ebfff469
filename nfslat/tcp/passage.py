"""A conversation in two traces, the same packets known -> what became of each direction's packets and bytes.

Offload cuts packets up and puts them together, so what was lost is counted in bytes: those of which the receiver's
capture has fewer copies than the sender's. No clock is needed for that but at the captures' ends.
"""

from __future__ import annotations

from collections import Counter
from enum import StrEnum

from nfslat.kernels.compiled import native
from nfslat.model.record import Record
from nfslat.model.tables import I64
from nfslat.tcp.same import Traces, counts_from_syn, shift_of

Ran = tuple[tuple[int, int], tuple[int, int]]


class Fate(StrEnum):
    """What became of a packet that one capture shows; the counts add up to its packets."""

    SAME = "in both"
    RECUT = "in other packets"  # all its bytes are, cut up or put together (offload)
    LOST = "lost"  # some of its bytes are there fewer times than they were sent
    NOT_CAPTURED = "not captured"  # some of its bytes are there not once, though they were acknowledged
    SURPLUS = "not at the sender"  # some of its bytes are there more often than they were sent; or doubled
    NO_PAYLOAD = "ACK not there"  # it has no payload: lost, or joined with others on the way
    OUTSIDE = "at the edge"


class Passage(Record):
    """One direction of a conversation, at both ends."""

    sender: int  # 0 or 1: which trace is at its sender's end
    fates: tuple[dict[Fate, int], dict[Fate, int]]  # packets of the first trace, and of the second
    bytes: int  # positions that the sender's capture shows
    sent_bytes: int  # the same, as often as it shows them
    lost_bytes: int
    missed_bytes: int  # acknowledged, and not in the receiver's capture
    surplus_bytes: int  # more often at the receiver than at the sender
    reordered: int  # packets that left in order and came behind later ones
    needless: I64  # rows of the sender's packets that were sent again although all of their bytes had arrived
    sent_ns: I64  # of the packets that are in both, each on the clock of its capture
    arrived_ns: I64


def passage(
    traces: Traces,
    pair: tuple[int, int],
    same: tuple[I64, I64],
    ways: tuple[int, int],
    sender: int,
    ran: Ran,
    half_trip_ns: int,
) -> Passage:
    """One direction, called `ways` in the two traces, of the conversations in rows `pair`.

    `same` are rows of its packets that are in both, `sender` which trace is at its sender's end, `ran` from when to
    when the other capture ran on the clock of each, `half_trip_ns` about how long the way takes.
    """
    packets = traces[0].of(pair[0]), traces[1].of(pair[1])
    # Positions of the second trace as those of the first. Where numbers are rewritten, both begin with the SYN.
    shift = 0 if counts_from_syn(traces, pair) else shift_of(traces, pair, ways)
    counts, sums, needless = native.passage(packets, ways, same, ran, shift, sender, half_trip_ns)
    fates: list[dict[Fate, int]] = []
    for side in (0, 1):
        counted: Counter[Fate] = Counter()
        worse = (Fate.NOT_CAPTURED, Fate.LOST) if side == sender else (Fate.SURPLUS, Fate.SURPLUS)
        for fate, count in zip(
            (Fate.SAME, Fate.OUTSIDE, Fate.NO_PAYLOAD, *worse, Fate.RECUT), counts[side], strict=True
        ):
            counted[fate] += count
        fates.append(dict(+counted))
    size, sent, lost, missed, surplus, reordered = sums
    return Passage(
        sender=sender,
        fates=(fates[0], fates[1]),
        bytes=size,
        sent_bytes=sent,
        lost_bytes=lost,
        missed_bytes=missed,
        surplus_bytes=surplus,
        reordered=reordered,
        needless=needless,
        sent_ns=packets[sender].t_ns[same[sender]],
        arrived_ns=packets[1 - sender].t_ns[same[1 - sender]],
    )
