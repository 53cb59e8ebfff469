"""A side, and its segments -> the other side, on the clock of the first, with its ops matched one to one."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np

from nfslat.clock.clock import Clock, Segment
from nfslat.clock.envelope import Lines, Points
from nfslat.kernels.memory import give_back
from nfslat.kernels.order import side_by_side
from nfslat.model.blocks import each_block, filled
from nfslat.model.protocol import NULL
from nfslat.model.record import Record
from nfslat.model.segments import BACK, Segments
from nfslat.model.tables import F64, I32, I64, Bool, Loose, Ops
from nfslat.peer.clock import FarClock, clocks
from nfslat.peer.datagrams import by_hosts, of_hosts, of_server, quickest_kind
from nfslat.peer.heard import Exchange, exchange
from nfslat.peer.inferred import Inferred, Stamps
from nfslat.peer.instants import Between, Peer, in_sequence
from nfslat.peer.path import RoundTrip, Waits, least_round_trip, slack_ns, waits
from nfslat.peer.vantage import Vantage, vantage

_FEW_SEGMENTS = 20  # of a connection: with fewer another one of the same hosts tells its round trip
_SURELY_NS = 100_000_000  # more than any error here
_MUCH_NS = 30_000_000  # a timer may have been taken for the round trip
_WIDEST = 2.0  # times what ops take, for the error of their mean; a verdict asks for less
_CONTRADICT = 0.05  # of the ops: bounds that leave nothing between them
_NO_FRAMES = np.zeros(0, dtype=np.int32)


class Found(NamedTuple):
    """The ops of the other host: the same rows, with its instants, on the clock of the capture. `known`: those that
    were inferred; of the others the instants mean nothing."""

    ops: Ops
    known: Bool
    inferred: Inferred
    frames: I32  # those of which it was asked when the other host sent them, ascending
    departed_ns: F64  # when that was; NaN: not known

    def left_ns(self, frames: I32) -> I64:
        """When the other host sent what came in these frames, on the clock of the capture; NULL: not known."""
        at = np.searchsorted(self.frames, frames)
        there = np.append(self.departed_ns, np.nan)[at]
        there[np.append(self.frames, NULL)[at] != frames] = np.nan
        return np.where(np.isfinite(there), np.rint(np.nan_to_num(there)), NULL).astype(np.int64)

    def there(self, loose: Loose) -> Loose:
        """The messages as the other host had or sent them: its own when they left, the others by the shortest way."""
        half = self.inferred.round_trip_ns // 2
        first, last = (
            np.where(left == NULL, near_ns + half, left)
            for left, near_ns in (
                (self.left_ns(loose.first_frame), loose.first_ns),
                (self.left_ns(loose.last_frame), loose.last_ns),
            )
        )
        return dataclasses.replace(loose, first_ns=first, last_ns=last)


def infer(
    ops: Ops, asked: Bool, talks: list[Segments], side: str | None = None, frames: I32 = _NO_FRAMES
) -> Found | str:
    """What is inferred of the ops in `asked`, or why nothing is.

    `talks` are the segments of each connection; they are taken out of it as they are read. `side`: where the capture
    was taken, where that is known. `frames`: of which it will be asked when the other host sent them (`Found.left_ns`).
    """
    every = np.flatnonzero(asked)
    tcp = np.array([ends.transport == "tcp" for ends in ops.connections], dtype=np.bool_)
    is_tcp = tcp[ops.conn[every]]
    rows, bare = every[is_tcp], every[~is_tcp]
    frames = np.sort(frames)
    wanted = (ops.call_last_frame[rows], ops.reply_first_frame[rows], frames)
    call, reply, others = (_Groups.of(of, len(talks)) for of in _talks_of(talks, wanted))
    place = _vantage(ops, rows, talks, call) if len(rows) and talks else by_hosts(ops, bare)
    if side is None and place.place == "between":
        return (
            "the packets do not say that it was taken at one of the two hosts: neither of them answers it at once, so "
            "that it is of a point between them"
        )
    near = side or ("client" if place.place == "loopback" else place.place)
    if near == "server" and len(bare):
        if not len(rows):
            return (
                "it is NFS over UDP, captured at the server, where no packet says when a client had a reply; a capture "
                "of a client tells more"
            )
        bare = bare[:0]
    peers = _peers(ops, rows, talks, call, reply, near)
    stamped = np.array([one in peers and peers[one].clock is not None for one in range(call.count)] + [False])
    give_back()  # the segments
    clocked = np.zeros(len(ops), dtype=np.bool_)
    clocked[rows] = stamped[call.talk] & stamped[reply.talk]
    found = _found(ops, (rows, bare), (call, reply, others), peers, place, near, clocked, frames)
    rows = np.flatnonzero(found.known)
    if not len(rows):
        return "no segment of the other host can be put on the clock of the capture"
    return _refused(ops, rows, found) or found


class _Groups(Record):
    """Frames by connection: the number of each in `talk`, or `count`, which is none; `order` has those of one side by
    side, where `spans` says."""

    talk: I32
    order: I32
    spans: list[slice]

    @classmethod
    def of(cls, talk: I32, count: int) -> _Groups:
        return cls(talk, *side_by_side(len(talk), count + 1, lambda at: talk[at]))

    @property
    def count(self) -> int:
        return len(self.spans) - 1

    def rows(self, one: int) -> I32:
        return self.order[self.spans[one]]

    def only(self, mask: Bool) -> _Groups:
        return _Groups.of(self.talk[mask], self.count)


def _talks_of(talks: list[Segments], wanted: Sequence[I32]) -> list[I32]:
    """The connection of each frame; `len(talks)`: of none."""
    last = max((int(one.frame.max()) for one in talks), default=0)
    of = np.full(last + 2, len(talks), dtype=np.int32)
    for number, one in enumerate(talks):
        of[one.frame] = number

    def talk(frames: I32) -> I32:
        return filled(len(frames), np.int32, lambda at: of[np.clip(frames[at], 0, last + 1)])

    return [talk(frames) for frames in wanted]


def calls_of(ops: Ops, rows: I64, talks: list[Segments]) -> Iterator[tuple[Segments, int]]:
    """Each conversation that has calls of the ops in `rows`, and the direction in which they are sent."""
    (of_calls,) = _talks_of(talks, (ops.call_last_frame[rows],))
    groups = _Groups.of(of_calls, len(talks))
    for number, talk in enumerate(talks):
        if len(own := groups.rows(number)):
            yield talk, _direction(talk, ops.call_last_frame[rows[own[0]]])


def _refused(ops: Ops, rows: I64, made: Found) -> str:
    """Why what was inferred is not to be relied on; empty where it is."""
    found = made.inferred
    if np.mean(found.low_ns[rows] > found.high_ns[rows]) > _CONTRADICT:
        return "what its packets say of the other host's clock contradicts what they say of the order of events"
    # At the client they take longer, whichever of the two it is.
    error_ns = found.mean_error_ns(rows)
    mean_ns = max(float((one.t3 - one.t0)[rows].mean()) for one in (ops, made.ops))
    if error_ns > _WIDEST * mean_ns:
        what = "clock is" if found.clocked[rows].any() else "times are"
        return (
            f"the other host's {what} known to within {error_ns / 1e6:.3g} ms only, and operations take "
            f"{mean_ns / 1e6:.3g} ms"
        )
    return ""


class _Made(NamedTuple):
    """Of the inferred ops: first and last instant of the other host (of its part of the op), and the two ends."""

    first: F64
    begin: Between
    end: Between
    last: F64
    doubt: F64

    def only(self, mask: Bool) -> _Made:
        return _Made(self.first[mask], self.begin.part(mask), self.end.part(mask), self.last[mask], self.doubt[mask])


def _vantage(ops: Ops, rows: I64, talks: list[Segments], call: _Groups) -> Vantage:
    """By the connection with most ops."""
    sizes = [span.stop - span.start for span in call.spans[:-1]]
    busiest = int(np.argmax(sizes))
    if not sizes[busiest]:
        return Vantage("between", np.nan, np.nan, np.nan, np.nan)
    one = rows[call.rows(busiest)[0]]
    ends = ops.connections[ops.conn[one]]
    return vantage(talks[busiest], _direction(talks[busiest], ops.call_last_frame[one]), (ends.addr_a, ends.addr_b))


def _direction(talk: Segments, frame: int) -> int:
    return int(talk.marks[np.searchsorted(talk.frame, frame)] & BACK)


class _Both(NamedTuple):
    """A conversation as it was captured, and far's clock in it."""

    exchange: Exchange
    clock: FarClock | None
    trip: RoundTrip
    waits: Waits | None  # without a clock
    is_alone: bool = False  # the capture has no other conversation with ops

    @property
    def tick_ns(self) -> int:
        return 0 if self.clock is None else self.clock.tick_ns


def _peer(both: _Both, ops: Ops, rows: I64, near: str) -> Peer:
    """`rows`: the ops of the connection. They tell what messages wait where neither a clock nor ACKs do."""
    if both.clock is not None:
        return Peer.of(
            both.exchange, both.clock.departures(), both.trip, None, is_alone=both.is_alone and near == "client"
        )
    known = both.waits
    if known is None and near == "client":
        once = rows[ops.transmissions[rows] == 1]
        known = quickest_kind(ops.kind[once], ops.t1[once], ops.t2[once], both.trip.ns)
    return Peer.of(both.exchange, None, both.trip, known)


def _peers(ops: Ops, rows: I64, talks: list[Segments], call: _Groups, reply: _Groups, near: str) -> dict[int, _Both]:
    """Each conversation with ops, those of two hosts together. `talks` is empty then."""
    hosts: dict[tuple[str, str], dict[int, int]] = {}
    kinds = (call, ops.call_last_frame, near == "server"), (reply, ops.reply_first_frame, near == "client")
    for groups, frames, turned in kinds:
        for one in range(groups.count):
            if len(own := groups.rows(one)):
                row = rows[own[0]]
                sent = _direction(talks[one], frames[row])
                ends = ops.connections[ops.conn[row]]
                pair = (min(ends.addr_a, ends.addr_b), max(ends.addr_a, ends.addr_b))
                hosts.setdefault(pair, {}).setdefault(one, 1 - sent if turned else sent)
    direction = {one: near for conversations in hosts.values() for one, near in conversations.items()}
    exchanges = {}
    for one in reversed(range(len(talks))):
        talk = talks.pop()
        if one in direction:
            exchanges[one] = exchange(talk, direction[one])
    peers = {}
    for conversations in hosts.values():
        mine = [exchanges.pop(one) for one in conversations]
        trips = [least_round_trip(one) for one in mine]
        known = [trip.ns for trip in trips if np.isfinite(trip.ns)]
        shortest = min(known, default=np.nan)
        found = []
        for both, clock, trip in zip(mine, clocks(mine), trips, strict=True):
            few = len(both.said.end) < _FEW_SEGMENTS or not np.isfinite(trip.ns)
            shown = trip._replace(ns=shortest) if few else trip
            told = waits(both, shown.ns)
            if clock is not None and told is None:
                # So few say nothing of what the path adds; what was shortest may have waited, too.
                shown = shown._replace(is_bare=False)
            alone = len(direction) == 1
            found.append(_Both(both, clock, shown, None if clock is not None else told, alone))
        for one, made in zip(conversations, found, strict=True):
            peers[one] = made if made.clock or made.waits else _by_others(made, found)
    return peers


def _by_others(one: _Both, of_hosts: list[_Both]) -> _Both:
    """A connection without a clock and with few bare ACKs: other ones of the hosts may tell of the path. Else what it
    shows of the shortest round trip, be it by the handshake, may have waited."""
    longest = max((other.waits for other in of_hosts if other.waits), key=lambda known: known.most_ns, default=None)
    is_bare = any(other.trip.is_bare and (other.clock or other.waits) for other in of_hosts)
    shortest = min(other.trip.ns for other in of_hosts)
    return one._replace(waits=longest, trip=RoundTrip(shortest if is_bare else one.trip.ns, is_bare))


class _Told(NamedTuple):
    """What all connections say together."""

    slack_ns: tuple[float, float]
    tick_ns: int
    round_trip_ns: float

    @classmethod
    def of(cls, peers: dict[int, _Both]) -> _Told:
        every = [peers[one] for one in sorted(peers)]
        slack = [slack_ns(len(one.exchange.heard), one.tick_ns, one.trip) for one in every]
        early, short = (max((one[at] for one in slack), default=0.0) for at in (0, 1))
        trips = [one.trip.ns for one in every if np.isfinite(one.trip.ns)]
        return cls((early, short), max((one.tick_ns for one in every), default=0), min(trips, default=np.nan))


class _Columns:
    """Of each op what is known of the other host, taken in as it is found."""

    def __init__(self, ops: Ops, near: str, told: _Told) -> None:
        self._ops, self._near = ops, near
        early, short = told.slack_ns
        self._less, self._more = (early, short) if near == "client" else (short, early)
        self._late = short if short >= _MUCH_NS else 0
        self.known = np.zeros(len(ops), dtype=np.bool_)
        self.instants = {name: getattr(ops, name).copy() for name in ("t0", "t1", "t2", "t3")}
        self.low, self.high, self.doubt = (np.zeros(len(ops), dtype=np.int64) for _ in range(3))

    def take(self, rows: I64, ends: Sequence[Between], doubt: F64) -> None:
        """Of the ops in `rows`; `doubt`: see `_Made`."""
        each_block(len(rows), lambda at: self._take(rows[at], [one.part(at) for one in ends], doubt[at]))

    def _take(self, rows: I64, ends: Sequence[Between], doubt: F64) -> None:
        of_other = _of_server if self._near == "client" else _of_client
        made = of_other(self._ops, rows, doubt, *ends)
        sure = np.isfinite(made.begin.at) & np.isfinite(made.end.at) & np.isfinite(made.doubt)
        sure &= np.isfinite(made.begin.low) & np.isfinite(made.end.high)
        sure &= _is_possible(self._ops, rows, made, self._near)
        if not sure.all():
            rows, made = rows[sure], made.only(sure)
        self.known[rows] = True
        first, begin, end, last = made.first, made.begin, made.end, made.last
        instants = (first, begin.at, end.at, last) if self._near == "client" else (begin.at, first, last, end.at)
        for column, values in zip(self.instants.values(), instants, strict=True):
            column[rows] = np.rint(values).astype(np.int64)
        self.low[rows] = np.maximum(np.rint(end.low - begin.high - self._less), 0).astype(np.int64)
        self.high[rows] = np.rint(end.high - begin.low + self._more).astype(np.int64)
        self.doubt[rows] = np.rint(made.doubt + self._late).astype(np.int64)


def _found(
    ops: Ops,
    asked_for: tuple[I64, I64],
    groups: tuple[_Groups, _Groups, _Groups],
    peers: dict[int, _Both],
    place: Vantage,
    near: str,
    clocked: Bool,
    others: I32,
) -> Found:
    """Connection by connection, taken out of `peers`, what each op's own one says on the clock of the capture: half of
    the round trip in front of what comes back to it. That half is not known, and nothing that is between two instants
    of the other host rests on it. `asked_for`: ops over TCP, and over UDP."""
    (rows, bare), (call, reply, of_others) = asked_for, groups
    asked: list[tuple[_Groups, I32, I64 | None]]  # where, in which frame, and when near sent it; None: far did
    if near == "client":
        asked = [
            (call, ops.call_last_frame, ops.t1),
            (reply, ops.reply_first_frame, None),
            (reply, ops.reply_last_frame, None),
        ]
    else:
        asked = [
            (call, ops.call_first_frame, None),
            (call, ops.call_last_frame, None),
            (reply, ops.reply_last_frame, ops.t3),
        ]
    told = _Told.of(peers)
    columns = _Columns(ops, near, told)
    departed = np.full(len(others), np.nan)
    called, acked = (np.full(len(ops) if near == "server" else 0, NULL) for _ in range(2))
    is_torn = call.talk != reply.talk  # its reply came by another connection
    torn = np.flatnonzero(is_torn)
    of_torn, doubt_of_torn = [Between.unknown(len(torn)) for _ in asked], np.full(len(torn), np.nan)
    for one in sorted(peers):
        both = peers.pop(one)
        own = [groups.rows(one) for groups, *_ in asked]
        peer = _peer(both, ops, rows[own[0]], near)
        half = peer.round_trip_ns / 2
        frames = [column[rows[at]] for at, (_, column, _) in zip(own, asked, strict=True)]
        said, doubts = [], []
        for at, these, (*_, sent_ns) in zip(own, frames, asked, strict=True):
            one_said, doubt = (peer.sent(these), None) if sent_ns is None else peer.received(these, sent_ns[rows[at]])
            said.append(one_said.moved(-half))
            doubts.append(doubt)
        inside = [~is_torn[at] for at in own]
        ends = in_sequence(said, frames)
        for at, whole, found, doubt, mask in zip(own, of_torn, ends, doubts, inside, strict=True):
            if not mask.all():
                row = np.searchsorted(torn, at[~mask])
                whole.low[row], whole.at[row], whole.high[row] = found.low[~mask], found.at[~mask], found.high[~mask]
                if doubt is not None:
                    doubt_of_torn[row] = doubt[~mask]
        whole_rows = rows[own[0][inside[0]]]
        (sure,) = (doubt[mask] for doubt, mask in zip(doubts, inside, strict=True) if doubt is not None)
        columns.take(whole_rows, [found.part(mask) for found, mask in zip(ends, inside, strict=True)], sure)
        if near == "server":
            called[whole_rows] = peer.stamp_of_call(ops.call_first_frame[whole_rows])
            acked[whole_rows] = peer.stamp_of_ack(ops.reply_last_frame[whole_rows])
        departed[of_others.rows(one)] = peer.left(others[of_others.rows(one)]) - half
    if near == "client":
        # Nobody saw whether the server had a call whose connection was lost: with the reply's, at the latest.
        again = ops.transmissions[rows[torn]] > 1
        sent_ns, half_ns = ops.t1[rows[torn[again]]].astype(np.float64), told.round_trip_ns / 2
        of_torn[0].low[again], of_torn[0].high[again] = sent_ns + half_ns, np.inf
        of_torn[0].at[again] = np.fmax(of_torn[0].at[again], sent_ns + half_ns)
        doubt_of_torn[again] = 0.0
    columns.take(rows[torn], of_torn, doubt_of_torn)
    trip_ns = told.round_trip_ns
    for pair in of_hosts(ops, bare):
        ends, doubt, least_ns = of_server(ops, pair)
        columns.take(pair, ends, doubt)
        trip_ns = np.fmin(trip_ns, least_ns)
    stamps = None
    if near == "server":
        called[~columns.known] = acked[~columns.known] = NULL
        stamps = Stamps(called, acked, told.tick_ns)
    return Found(
        dataclasses.replace(ops, **columns.instants),
        columns.known,
        Inferred(
            "server" if near == "client" else "client",
            place,
            columns.low,
            columns.high,
            columns.doubt,
            stamps,
            told.tick_ns,
            round(float(np.nan_to_num(trip_ns))),
            clocked,
        ),
        others,
        departed,
    )


def _of_server(ops: Ops, rows: I64, doubt: F64, begin: Between, end: Between, last: Between) -> _Made:
    begin = begin._replace(at=np.fmin(begin.at, end.at), high=np.fmin(begin.high, end.high))
    first = begin.at - (ops.t1[rows] - ops.t0[rows])
    return _Made(first, begin, end, np.fmax(last.at, end.at), doubt)


def _of_client(ops: Ops, rows: I64, doubt: F64, begin: Between, sent: Between, end: Between) -> _Made:
    end = end._replace(at=np.fmax(end.at, begin.at))
    # `first` is the call's last byte here, `last` the reply's first one.
    last = np.fmax(end.at - (ops.t3[rows] - ops.t2[rows]), np.fmax(sent.at, begin.at))
    return _Made(np.fmax(sent.at, begin.at), begin, end, np.fmin(last, end.at), doubt)


def _is_possible(ops: Ops, rows: I64, made: _Made, near: str) -> Bool:
    """Not where the clock of the capture was set meanwhile: one host's times lie within the other's."""
    begin, end = (ops.t0, ops.t3) if near == "client" else (ops.t1, ops.t2)
    outside = (made.begin.at - begin[rows], end[rows] - made.end.at)
    sign = 1 if near == "client" else -1
    forward = ops.t3[rows] >= ops.t0[rows]
    return np.asarray((sign * outside[0] > -_SURELY_NS) & (sign * outside[1] > -_SURELY_NS) & forward)


def clock_of(found: Found) -> Clock:
    """All instants are on one clock already; where the other host's are between those of the capture is known to within
    half of the round trip."""
    ops, half = found.ops, found.inferred.round_trip_ns / 2
    begin, end = int(ops.t0[0]), int(ops.t3.max())
    ends = (Points(np.zeros(1), np.array([far])) for far in (half, -half))
    lines = Lines(np.zeros(1), np.array([-half]), np.array([half]), 0.0, *ends)
    segment = Segment(0, begin, end, (begin + end) // 2, 0, 0.0, lines, begin, 0)
    nobody = np.zeros(0, dtype=np.int64)
    return Clock((segment,), (), 0, 2 * int(found.known.sum()), 0, nobody, 0, (0, len(ops)))
