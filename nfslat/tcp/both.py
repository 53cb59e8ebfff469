"""Two traces of the same traffic -> which conversation is which, how their clocks differ, which is at which end.

Which capture is at which end is told by causes that come before their effects; the clocks by the packets both ways.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from nfslat.clock.clock import Clock
from nfslat.clock.theta import find_clock
from nfslat.errors import InputError
from nfslat.model.record import Record
from nfslat.model.tables import I64, Matched, Ops
from nfslat.tcp.packets import Packets, Trace
from nfslat.tcp.passage import Passage, Ran, passage
from nfslat.tcp.same import Traces, same_conversations, same_packets

_SAMPLE = 1 << 16  # packets each way that the clocks are told by
_TELLING = 512  # conversations that tell of clocks and ends


class Pair:
    """A conversation at both ends; what is not asked for is not worked out. Directions are those of the first trace."""

    def __init__(self, traces: Traces, rows: tuple[int, int], *, is_turned: bool) -> None:
        self.rows = rows  # among the conversations of either trace
        self.is_turned = (
            is_turned  # the second trace saw the other endpoint first, so that its directions are exchanged
        )
        self.sender = 0  # which trace is at the sender's end of direction 0
        self.ran: Ran = ((0, 1 << 62), (0, 1 << 62))  # from when to when the other capture ran, on the clock of each
        self._traces = traces

    @cached_property
    def same(self) -> tuple[tuple[I64, I64], tuple[I64, I64]]:
        """For each direction, rows of the conversation in either trace, of the packets that are in both."""
        return (
            same_packets(self._traces, self.rows, self.is_turned, 0),
            same_packets(self._traces, self.rows, self.is_turned, 1),
        )

    @cached_property
    def trips_ns(self) -> I64:
        """Of each packet of direction 0 and the next one of direction 1: the way there and back; no clock is needed,
        and one that drifts or is set does little. Negative if the first trace is not where direction 0 comes from."""
        (a, b), (c, d) = self.same
        following = np.searchsorted(c, a)
        a, b, following = (one[following < len(c)] for one in (a, b, following))
        first, second = (trace.of(row).t_ns for trace, row in zip(self._traces, self.rows, strict=True))
        return np.asarray((second[b] - first[a]) - (second[d[following]] - first[c[following]]), dtype=np.int64)

    @cached_property
    def passages(self) -> tuple[Passage, Passage]:
        """What became of the packets of each direction."""
        half_trip_ns = int(np.median(np.abs(self.trips_ns))) // 2 if len(self.trips_ns) else 0
        there, back = (
            passage(
                self._traces,
                self.rows,
                self.same[way],
                (way, 1 - way if self.is_turned else way),
                (self.sender + way) % 2,
                self.ran,
                half_trip_ns,
            )
            for way in (0, 1)
        )
        return there, back


class Both(Record):
    """Two traces and what they share."""

    traces: tuple[Trace, Trace]
    pairs: tuple[Pair, ...]
    theta: Theta | None  # None where packets went one way only


class Theta(Record):
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
    pairs = [Pair(traces, rows, is_turned=turned) for rows, turned in same_conversations(traces)]
    # The clocks, and whose end is whose, are told by those with most packets; thousands would tell no more.
    packets = np.diff(first.begins)
    pairs.sort(key=lambda pair: -packets[pair.rows[0]])
    largest = [pair for pair in pairs[:_TELLING] if any(len(rows) for rows, _ in pair.same)]
    if not largest:
        raise InputError(
            f"{first.source.name} and {second.source.name} have no TCP conversation in common; "
            "were they taken at the same time, on one path?"
        )
    pairs = largest + pairs[_TELLING:]
    hosts: Counter[tuple[str, int]] = Counter()
    for pair in largest:
        if len(pair.trips_ns):
            pair.sender = int(np.median(pair.trips_ns) < 0)
            ends = first.conversations[pair.rows[0]].ends
            hosts[ends.source(0)[0], pair.sender] += 1
            hosts[ends.source(1)[0], 1 - pair.sender] += 1
    told = {id(pair) for pair in largest if len(pair.trips_ns)}
    for pair in pairs:
        if id(pair) not in told:
            pair.sender = _at_host(hosts, first.conversations[pair.rows[0]].ends.source(0)[0])
    theta = _theta(traces, largest)
    ran = _running(traces, theta)
    for pair in pairs:
        pair.ran = ran
    return Both(traces, tuple(sorted(pairs, key=lambda pair: pair.rows)), theta)


def _at_host(hosts: Counter[tuple[str, int]], host: str) -> int:
    return int(hosts[host, 1] > hosts[host, 0])


def _theta(traces: Sequence[Trace], pairs: Sequence[Pair]) -> Theta | None:
    """theta of the second trace against the first: a packet from the first to the second and the next one back are
    what a call and its reply are to `find_clock`."""
    there: list[tuple[I64, I64]] = []
    back: list[tuple[I64, I64]] = []
    for pair in pairs:
        for way in (0, 1):
            rows = [
                same + trace.begins[row] for same, trace, row in zip(pair.same[way], traces, pair.rows, strict=True)
            ]
            (there if (pair.sender + way) % 2 == 0 else back).append((rows[0], rows[1]))
    one, two = (
        [np.concatenate([pair[side] for pair in ways]) if ways else np.zeros(0, np.int64) for side in (0, 1)]
        for ways in (there, back)
    )
    if not len(one[0]) or not len(two[0]):
        return None
    # In the order of the first capture.
    places = traces[0].places
    one, two = ([side[np.argsort(places[ways[0]], kind="stable")] for side in ways] for ways in (one, two))
    step = -(-max(len(one[0]), len(two[0])) // _SAMPLE)
    at = np.arange(0, len(one[0]), step)
    behind = np.searchsorted(places[two[0]], places[one[0][at]])
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


def _running(traces: Sequence[Trace], theta: Theta | None) -> Ran:
    """From when to when the other capture ran, on the clock of each; always where the clocks are not known."""
    if theta is None:
        always = 0, 1 << 62
        return always, always
    ends = np.array([traces[1].first_ns, traces[1].last_ns], dtype=np.int64)
    second_on_first = theta.on_first(ends)
    shifts = ends - second_on_first
    firsts = traces[0].first_ns + int(shifts[0]), traces[0].last_ns + int(shifts[1])
    return (int(second_on_first[0]), int(second_on_first[1])), firsts
