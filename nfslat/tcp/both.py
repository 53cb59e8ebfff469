"""Two traces of the same traffic -> which conversation is which, where each packet got to, and how long it took.

Offload cuts packets up and puts them together, so what was lost is counted in bytes: those of which the receiver's
capture has fewer copies than the sender's. No clock is needed for that; which capture is at which end is told by causes
that come before their effects.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

import numpy as np
import numpy.typing as npt

from nfslat.clock import Clock
from nfslat.errors import InputError
from nfslat.tables import I64, Bool, Matched, Ops
from nfslat.tcp.packets import Kind, Packets, Trace
from nfslat.tcp.same import counts_from_syn, rows_of, same_conversations, same_packets, shift_of
from nfslat.theta import find_clock

_SAMPLE = 1 << 16  # packets each way that the clocks are told by


class Fate(StrEnum):
    """What became of a packet that one capture shows; the counts add up to its packets."""

    SAME = "in both"
    RECUT = "in other packets"  # all its bytes are, cut up or put together (offload)
    LOST = "lost"  # some of its bytes are there fewer times than they were sent
    NOT_CAPTURED = "not captured"  # some of its bytes are there not once, though they were acknowledged
    SURPLUS = "not at the sender"  # some of its bytes are there more often than they were sent; or doubled
    NO_PAYLOAD = "no payload, not there"  # ACKs: lost, or put together on the way
    OUTSIDE = "other not running"


@dataclass(frozen=True)
class Passage:
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


@dataclass(frozen=True)
class Pair:
    """A conversation at both ends; passages are in the order of the first trace's directions."""

    rows: tuple[int, int]  # among the conversations of either trace
    is_turned: bool  # the second trace saw the other endpoint first, so that its directions are exchanged
    passages: tuple[Passage, Passage]

    trips_ns: I64  # of packets of direction 0 and the next ones back: the time that both ways take, without any clock


@dataclass(frozen=True)
class Both:
    """Two traces and what they share."""

    traces: tuple[Trace, Trace]
    pairs: tuple[Pair, ...]
    theta: Theta | None  # None where packets went one way only


@dataclass(frozen=True)
class Theta:
    """The second trace's clock minus the first's; `samples_ns` are the instants, on the second's, that it rests on."""

    clock: Clock
    samples_ns: I64

    def on_first(self, second_ns: I64) -> I64:
        """Instants of the second trace's clock on the first's; about so where `clock` fits nothing."""
        rows = np.minimum(np.searchsorted(self.samples_ns, second_ns), len(self.samples_ns) - 1)
        return self.clock.on_client(rows, second_ns)[0]


def correlate(first: Trace, second: Trace) -> Both:
    """The traces' conversations, matched. Raises ``InputError`` where they share none."""
    traces = first, second
    found = [
        (rows, turned, [same_packets(traces, rows, turned, way) for way in (0, 1)])
        for rows, turned in same_conversations(first, second)
    ]
    found = [one for one in found if any(len(same[0]) for same in one[2])]
    if not found:
        raise InputError(
            f"{first.source.name} and {second.source.name} have no TCP conversation in common; "
            "were they taken at the same time, on one path?"
        )
    senders = _senders(traces, found)
    theta = _theta(traces, found, senders)
    ran = _running(traces, theta)
    pairs = []
    for (rows, turned, same), sender in zip(found, senders, strict=True):
        trips = np.abs(_round_trips_ns(traces, same))
        half_trip_ns = int(np.median(trips)) // 2 if len(trips) else 0
        ways = [
            _passage(traces, rows, same[way], (way, 1 - way if turned else way), (sender + way) % 2, ran, half_trip_ns)
            for way in (0, 1)
        ]
        pairs.append(Pair(rows, turned, (ways[0], ways[1]), trips))
    return Both(traces, tuple(pairs), theta)


_Found = tuple[tuple[int, int], bool, list[tuple[I64, I64]]]


def _senders(traces: Sequence[Trace], found: Sequence[_Found]) -> list[int]:
    """For each conversation which trace is at the sender's end of direction 0: there, and back, takes time."""
    told: list[int | None] = []
    hosts: Counter[tuple[str, int]] = Counter()
    for rows, _, same in found:
        trips = _round_trips_ns(traces, same)
        sender = None
        if len(trips):
            sender = int(np.median(trips) < 0)
            ends = traces[0].conversations[rows[0]].ends
            hosts[ends.source(0)[0], sender] += 1
            hosts[ends.source(1)[0], 1 - sender] += 1
        told.append(sender)
    return [
        one if one is not None else _at_host(hosts, traces[0].conversations[rows[0]].ends.source(0)[0])
        for one, (rows, _, _) in zip(told, found, strict=True)
    ]


def _round_trips_ns(traces: Sequence[Trace], same: Sequence[tuple[I64, I64]]) -> I64:
    """Of each packet of direction 0 and the next one of direction 1: the way there and back; no clock is needed, and
    one that drifts or is set does little. Negative if the first trace is not at the sender's end of direction 0."""
    (a, b), (c, d) = same
    following = np.searchsorted(c, a)
    a, b, following = (one[following < len(c)] for one in (a, b, following))
    first, second = (trace.packets.t_ns for trace in traces)
    return np.asarray((second[b] - first[a]) - (second[d[following]] - first[c[following]]), dtype=np.int64)


def _at_host(hosts: Counter[tuple[str, int]], host: str) -> int:
    return int(hosts[host, 1] > hosts[host, 0])


def _theta(traces: Sequence[Trace], found: Sequence[_Found], senders: Sequence[int]) -> Theta | None:
    """theta of the second trace against the first: a packet from the first to the second and the next one back are
    what a call and its reply are to `find_clock`."""
    there: list[tuple[I64, I64]] = []
    back: list[tuple[I64, I64]] = []
    for (_, _, same), sender in zip(found, senders, strict=True):
        for way in (0, 1):
            (there if (sender + way) % 2 == 0 else back).append(same[way])
    one, two = (
        [np.concatenate([pair[side] for pair in ways]) if ways else np.zeros(0, np.int64) for side in (0, 1)]
        for ways in (there, back)
    )
    if not len(one[0]) or not len(two[0]):
        return None
    one, two = ([side[np.argsort(ways[0], kind="stable")] for side in ways] for ways in (one, two))
    step = -(-max(len(one[0]), len(two[0])) // _SAMPLE)
    at = np.arange(0, len(one[0]), step)
    behind = np.searchsorted(two[0], one[0][at])
    at, behind = at[behind < len(two[0])], behind[behind < len(two[0])]
    if not len(at):
        at, behind = np.zeros(1, np.int64), np.full(1, len(two[0]) - 1)
    first = _as_ops(traces[0].packets, one[0][at], two[0][behind])
    second = _as_ops(traces[1].packets, one[1][at], two[1][behind])
    every = np.arange(len(at), dtype=np.int32)
    return Theta(find_clock(second, first, Matched(every, every)), np.maximum.accumulate(second.t0))


def _as_ops(packets: Packets, calls: I64, replies: I64) -> Ops:
    columns: dict[str, npt.NDArray[Any]] = {name: np.zeros(len(calls), dtype=np.int64) for name in Ops.columns()}
    for rows, times, frames in ((calls, ("t0", "t1"), "call"), (replies, ("t2", "t3"), "reply")):
        columns |= dict.fromkeys(times, packets.t_ns[rows])
        columns |= dict.fromkeys((f"{frames}_first_frame", f"{frames}_last_frame"), packets.frame[rows])
    columns |= dict.fromkeys(("transmissions", "flags"), np.ones(len(calls), dtype=np.int64))
    return Ops.from_columns(columns)


def _running(traces: Sequence[Trace], theta: Theta | None) -> tuple[tuple[int, int], tuple[int, int]]:
    """From when to when the other capture ran, on the clock of each; always where the clocks are not known."""
    if theta is None:
        always = 0, 1 << 62
        return always, always
    ends = np.array([traces[1].first_ns, traces[1].last_ns], dtype=np.int64)
    second_on_first = theta.on_first(ends)
    shifts = ends - second_on_first
    firsts = traces[0].first_ns + int(shifts[0]), traces[0].last_ns + int(shifts[1])
    return (int(second_on_first[0]), int(second_on_first[1])), firsts


def _passage(
    traces: Sequence[Trace],
    pair: tuple[int, int],
    same: tuple[I64, I64],
    ways: tuple[int, int],
    sender: int,
    ran: Sequence[tuple[int, int]],
    half_trip_ns: int,
) -> Passage:
    packets = [trace.packets for trace in traces]
    rows = [rows_of(trace, row, way) for trace, row, way in zip(traces, pair, ways, strict=True)]
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
    return rows[again][~_any(~came, begin, end)]


def _any(mark: Bool, begin: I64, end: I64) -> Bool:
    """Is one of `mark` set between `begin` and `end`?"""
    sums = np.concatenate([[0], np.cumsum(mark)])
    return np.asarray(sums[np.minimum(end, len(mark))] > sums[np.minimum(begin, len(mark))])


def _acknowledged(trace: Trace, conversation: int, direction: int) -> int:
    """The highest position that packets of `direction` acknowledge; -1 without any."""
    acks = trace.packets.ack[rows_of(trace, conversation, direction)]
    return int(acks.max()) if len(acks) else -1
