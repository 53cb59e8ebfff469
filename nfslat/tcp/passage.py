"""A conversation in two traces, the same packets known -> what became of each direction's packets and bytes.

Offload cuts packets up and puts them together, so what was lost is counted in bytes: those of which the receiver's
capture has fewer copies than the sender's. No clock is needed for that but at the captures' ends.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from enum import StrEnum

import numpy as np

from nfslat.model.record import Record
from nfslat.model.tables import I64, Bool
from nfslat.tcp.packets import Kind, Packets
from nfslat.tcp.same import Indexed, counts_from_syn, shift_of


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
    needless: I64  # rows of the sender's `Packets` that were sent again although all of their bytes had arrived
    rows: tuple[I64, I64]  # rows of `Packets` in either trace, of the packets that are in both
    sent_ns: I64  # of these, each on the clock of its capture
    arrived_ns: I64


def passage(
    traces: Sequence[Indexed],
    pair: tuple[int, int],
    same: tuple[I64, I64],
    ways: tuple[int, int],
    sender: int,
    ran: Sequence[tuple[int, int]],
    half_trip_ns: int,
) -> Passage:
    """One direction, called `ways` in the two traces, of the conversations in rows `pair`.

    `same` are rows of its packets that are in both, `sender` which trace is at its sender's end, `ran` from when to
    when the other capture ran on the clock of each, `half_trip_ns` about how long the way takes.
    """
    packets = [trace.packets for trace in traces]
    rows = [trace.rows(row, way) for trace, row, way in zip(traces, pair, ways, strict=True)]
    # Positions of the second trace as those of the first. Where numbers are rewritten, both begin with the SYN.
    shift = 0 if counts_from_syn(traces, pair) else shift_of(traces, pair, ways)
    spans = [
        (one.seq[own] + moved, one.size[own].astype(np.int64))
        for one, own, moved in zip(packets, rows, (0, shift), strict=True)
    ]
    is_same = [np.isin(own, both, assume_unique=True) for own, both in zip(rows, same, strict=True)]
    acked = _acknowledged(traces[1 - sender], pair[1 - sender], 1 - ways[1 - sender]) + (shift if sender == 0 else 0)
    inside = []
    for side in (0, 1):
        t_ns = packets[side].t_ns[rows[side]]
        low, high = ran[side]
        # What is on its way when the other capture begins or ends may be in one of the two only; but what the
        # receiver's capture shows acknowledged arrived before it ended.
        early, late = (0, -2) if side == sender else (2, 0)
        ended = t_ns > high + late * half_trip_ns
        if side == sender:
            ended &= spans[side][0] + spans[side][1] > acked
        inside.append(((t_ns >= low + early * half_trip_ns) & ~ended) | is_same[side])
    edges, copies = _copies(
        [(at[own], size[own]) for (at, size), own in zip(spans, inside, strict=True)]
        + [(at[~own], size[~own]) for (at, size), own in zip(spans, inside, strict=True)]
    )
    sent, arrived = copies[sender], copies[1 - sender]
    # Of bytes in a packet at the edge it cannot be said how often they should be at the other end.
    sure = (copies[2] == 0) & (copies[3] == 0)
    width, ends = np.diff(edges), edges[1:]
    missed = sure & (sent > 0) & (arrived == 0) & (ends <= acked)
    # What was acknowledged did arrive, once at least.
    lost = np.where(sure, np.maximum(sent - arrived, 0) - missed, 0)
    surplus = np.where(sure, np.maximum(arrived - sent, 0), 0)
    fates: list[dict[Fate, int]] = []
    for side in (0, 1):
        at, size = spans[side]
        begin, end = np.searchsorted(edges, at), np.searchsorted(edges, at + size)
        marks = (lost > 0, missed) if side == sender else (surplus > 0, surplus > 0)
        one, other = (_any(mark, begin, end) for mark in marks)
        fate = np.select(
            [is_same[side], ~inside[side], size == 0, other, one],
            [0, 1, 2, 3, 4],
            5,
        )
        names = (
            *(Fate.SAME, Fate.OUTSIDE, Fate.NO_PAYLOAD),
            *((Fate.NOT_CAPTURED, Fate.LOST) if side == sender else (Fate.SURPLUS, Fate.SURPLUS)),
            Fate.RECUT,
        )
        counts: Counter[Fate] = Counter()
        for number, count in zip(names, np.bincount(fate, minlength=len(names)).tolist(), strict=True):
            counts[number] += count
        fates.append(dict(+counts))
    return Passage(
        sender=sender,
        fates=(fates[0], fates[1]),
        bytes=int(width[sent > 0].sum()),
        sent_bytes=int((width * sent).sum()),
        lost_bytes=int((width * lost).sum()),
        missed_bytes=int(width[missed].sum()),
        surplus_bytes=int((width * surplus).sum()),
        reordered=_reordered(packets[sender], packets[1 - sender], same[sender], same[1 - sender]),
        needless=_needless(
            packets[sender], rows[sender], inside[sender], (edges, sure & (arrived >= sent)), spans[sender]
        ),
        rows=same,
        sent_ns=packets[sender].t_ns[same[sender]],
        arrived_ns=packets[1 - sender].t_ns[same[1 - sender]],
    )


def _copies(spans: Sequence[tuple[I64, I64]]) -> tuple[I64, list[I64]]:
    """Positions at which the number of copies of the bytes behind them changes in any of the captures, and how many
    copies each capture has of the bytes up to the next one."""
    edges = np.unique(np.concatenate([np.concatenate([at, at + size]) for at, size in spans]))
    out = []
    for at, size in spans:
        change = np.zeros(len(edges) + 1, dtype=np.int64)
        np.add.at(change, np.searchsorted(edges, at), 1)
        np.add.at(change, np.searchsorted(edges, at + size), -1)
        out.append(np.cumsum(change)[: max(len(edges) - 1, 0)])
    return edges, out


def _reordered(sender: Packets, receiver: Packets, sent: I64, arrived: I64) -> int:
    """Packets that are in both, new where they left, and that filled a hole where they came."""
    in_order = np.isin(sender.kind[sent], (Kind.NEW, Kind.AHEAD))
    return int(np.count_nonzero(in_order & (receiver.kind[arrived] == Kind.OUT_OF_ORDER)))


def _needless(packets: Packets, rows: I64, inside: Bool, all_came: tuple[I64, Bool], spans: tuple[I64, I64]) -> I64:
    """The rows that were sent again, and of which each byte came as often as it was sent."""
    edges, came = all_came
    again = (packets.kind[rows] == Kind.RETRANSMISSION) & inside
    begin, end = (np.searchsorted(edges, at[again]) for at in (spans[0], spans[0] + spans[1]))
    return np.asarray(rows[again][~_any(~came, begin, end)], dtype=np.int64)


def _any(mark: Bool, begin: I64, end: I64) -> Bool:
    """Is one of `mark` set between `begin` and `end`?"""
    sums = np.concatenate([[0], np.cumsum(mark)])
    return np.asarray(sums[np.minimum(end, len(mark))] > sums[np.minimum(begin, len(mark))])


def _acknowledged(trace: Indexed, conversation: int, direction: int) -> int:
    """The highest position that packets of `direction` acknowledge; -1 without any."""
    acks = trace.packets.ack[trace.rows(conversation, direction)]
    return int(acks.max()) if len(acks) else -1
