"""A side, and its segments -> the other side, on the clock of the first, with its ops matched one to one."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from nfslat.clock.clock import Clock, Segment
from nfslat.clock.envelope import Lines, Points
from nfslat.decode.segments import Segments
from nfslat.model.blocks import side_by_side
from nfslat.model.protocol import NULL, NULL32
from nfslat.model.tables import F64, I32, I64, Bool, Ops
from nfslat.peer.clock import departures
from nfslat.peer.heard import exchange
from nfslat.peer.inferred import Inferred
from nfslat.peer.instants import Between, Peer, least_round_trip
from nfslat.peer.vantage import Vantage, vantage

_FEW_SEGMENTS = 20  # of a connection: with fewer another one of the same hosts tells its round trip
_SURELY_NS = 100_000_000  # more than any error here
_MUCH_NS = 30_000_000  # a timer may have been taken for the round trip
_MOSTLY = 0.5  # of the ops
_WIDEST = 2.0  # times what ops take, for the error of their mean; a verdict asks for less
_CONTRADICT = 0.05  # of the ops: bounds that leave nothing between them
_NO_STAMPS = "its packets have no TCP time stamps (RFC 7323), which hold the other host's clock"


@dataclass(frozen=True)
class Index:
    """Segments by frame, and by conversation."""

    segments: Segments
    order: I32
    spans: list[slice]

    @classmethod
    def of(cls, segments: Segments) -> Index:
        count = int(segments.conversation.max(initial=-1)) + 1
        return cls(segments, *side_by_side(len(segments), count, lambda at: segments.conversation[at]))

    @property
    def count(self) -> int:
        return len(self.spans)

    def rows_of(self, frames: I32) -> I64:
        """NULL: it is none of them. Frames are in order, but for what was fitted in at the seam of two files."""
        at = np.minimum(np.searchsorted(self.segments.frame, frames), len(self.segments) - 1)
        return np.where(self.segments.frame[at] == frames, at, NULL)

    def conversation_of(self, frames: I32) -> I64:
        """`count`: of none."""
        rows = self.rows_of(frames)
        return np.where(rows == NULL, -1, self.segments.conversation[rows]).astype(np.int64)

    def part(self, conversation: int) -> Segments:
        return self.segments.take(self.order[self.spans[conversation]])


@dataclass(frozen=True)
class Found:
    """The ops of the other host: the same rows, with its instants, on the clock of the capture. `known`: those that
    were inferred; of the others the instants mean nothing."""

    ops: Ops
    known: Bool
    inferred: Inferred
    peers: dict[int, Peer]  # by conversation
    index: Index

    def left_ns(self, frames: I32) -> I64:
        """When the other host sent what came in these frames, on the clock of the capture; NULL: not known."""
        out = np.full(len(frames), np.nan)
        conversation = self.index.conversation_of(frames)
        for one in np.unique(conversation).tolist():
            if one in self.peers:
                own, peer = np.flatnonzero(conversation == one), self.peers[one]
                out[own] = peer.left(frames[own]) - peer.round_trip_ns / 2
        return np.where(np.isfinite(out), np.rint(np.nan_to_num(out)), NULL).astype(np.int64)


def infer(ops: Ops, asked: Bool, segments: Segments, side: str | None = None) -> Found | str:
    """What is inferred of the ops in `asked`, or why nothing is. `side`: where the capture was taken, where known."""
    rows = np.flatnonzero(asked)
    tcp = np.array([ends.transport == "tcp" for ends in ops.connections], dtype=np.bool_)
    rows = rows[tcp[ops.conn[rows]]] if len(tcp) else rows
    if not len(rows) or not len(segments):
        return "no op went over TCP, and UDP has no clock of the other host in its packets"
    index = Index.of(segments)
    if np.mean(segments.ts_val == NULL32) > _MOSTLY:
        return _NO_STAMPS
    call, reply = index.conversation_of(ops.call_last_frame[rows]), index.conversation_of(ops.reply_first_frame[rows])
    place = _vantage(ops, rows, index, call)
    if side is None and place.place == "between":
        return (
            "the packets do not say that it was taken at one of the two hosts: neither of them answers it at once, so "
            "that it is of a point between them"
        )
    near = side or ("client" if place.place == "loopback" else place.place)
    peers = dict(_peers(ops, rows, index, call, reply, near))
    stamped = np.array([one in peers and peers[one].departures is not None for one in range(index.count)] + [False])
    usable = stamped[call] & stamped[reply]
    if np.mean(usable) < _MOSTLY:
        return _NO_STAMPS
    rows, call, reply = rows[usable], call[usable], reply[usable]
    made = _of_server(ops, rows, call, reply, peers) if near == "client" else _of_client(ops, rows, call, reply, peers)
    known = np.isfinite(made.begin.at) & np.isfinite(made.end.at) & np.isfinite(made.doubt)
    known &= _is_possible(ops, rows, made, near)
    # Nobody saw when the other host had a call whose connection was lost.
    known &= (call == reply) | (ops.transmissions[rows] == 1)
    if not known.any():
        return "no segment of the other host can be put on the clock of the capture"
    rest = made.only(known), peers, place, near, int(np.count_nonzero(~usable))
    found = _found(ops, rows[known], index, *rest)
    return _refused(ops, rows[known], found.inferred) or found


def _refused(ops: Ops, rows: I64, found: Inferred) -> str:
    """Why what was inferred is not to be relied on; empty where it is."""
    if np.mean(found.low_ns[rows] > found.high_ns[rows]) > _CONTRADICT:
        return "what its packets say of the other host's clock contradicts what they say of the order of events"
    error_ns, mean_ns = found.mean_error_ns(rows), float((ops.t3 - ops.t0)[rows].mean())
    if error_ns > _WIDEST * mean_ns:
        return (
            f"the other host's clock is known to within {error_ns / 1e6:.3g} ms only, and operations take "
            f"{mean_ns / 1e6:.3g} ms"
        )
    return ""


@dataclass(frozen=True)
class _Made:
    """Of the inferred ops: first and last instant of the other host (of its part of the op), and the two ends."""

    first: F64
    begin: Between
    end: Between
    last: F64
    doubt: F64

    def only(self, mask: Bool) -> _Made:
        begin, end = (Between(one.low[mask], one.at[mask], one.high[mask]) for one in (self.begin, self.end))
        return _Made(self.first[mask], begin, end, self.last[mask], self.doubt[mask])


def _vantage(ops: Ops, rows: I64, index: Index, call: I64) -> Vantage:
    """By the connection with most ops."""
    known = np.flatnonzero(call >= 0)
    if not len(known):
        return Vantage("between", np.nan, np.nan, np.nan, np.nan)
    busiest = int(np.bincount(call[known]).argmax())
    one = rows[known[np.argmax(call[known] == busiest)]]
    direction = int(index.segments.direction[index.rows_of(ops.call_last_frame[one : one + 1])[0]])
    ends = ops.connections[ops.conn[one]]
    return vantage(index.part(busiest), direction, (ends.addr_a, ends.addr_b))


def _peers(ops: Ops, rows: I64, index: Index, call: I64, reply: I64, near: str) -> Iterator[tuple[int, Peer]]:
    """Each conversation with ops, those of two hosts together."""
    hosts: dict[tuple[str, str], dict[int, int]] = {}
    kinds = (call, ops.call_last_frame, near == "server"), (reply, ops.reply_first_frame, near == "client")
    for conversation, frames, turned in kinds:
        some, first = np.unique(conversation, return_index=True)
        for one, at in zip(some.tolist(), first.tolist(), strict=True):
            if one >= 0:
                row = rows[at]
                sent = int(index.segments.direction[index.rows_of(frames[row : row + 1])[0]])
                ends = ops.connections[ops.conn[row]]
                pair = (min(ends.addr_a, ends.addr_b), max(ends.addr_a, ends.addr_b))
                hosts.setdefault(pair, {}).setdefault(one, 1 - sent if turned else sent)
    for conversations in hosts.values():
        exchanges = [exchange(index.part(one), direction) for one, direction in conversations.items()]
        trips = [least_round_trip(one).ns for one in exchanges]
        shortest = float(np.nanmin(trips)) if np.isfinite(trips).any() else np.nan
        for one, found, left, trip in zip(conversations, exchanges, departures(exchanges), trips, strict=True):
            few = len(found.said.t_ns) < _FEW_SEGMENTS or not np.isfinite(trip)
            yield one, Peer.of(found, left, shortest if few else trip)


def _joined(
    rows: I64, conversation: I64, peers: dict[int, Peer], frames: I32, near_ns: I64, *, received: bool = False
) -> Between:
    """What each op's own connection says, on the clock of the capture: half of the round trip in front of what comes
    back to it. That half is not known, and nothing that is between two instants of the other host rests on it."""
    out = Between(*(np.full(len(rows), np.nan) for _ in range(3)))
    for one in np.unique(conversation[conversation >= 0]).tolist():
        own, peer = np.flatnonzero(conversation == one), peers[one]
        asked = frames[rows[own]]
        said = peer.received(asked, near_ns[rows[own]]) if received else peer.sent(asked)
        said = said.moved(-peer.round_trip_ns / 2)
        said = said.in_order(asked, near_ns[rows[own]])
        out.low[own], out.at[own], out.high[own] = said.low, said.at, said.high
    return out


def _of_server(ops: Ops, rows: I64, call: I64, reply: I64, peers: dict[int, Peer]) -> _Made:
    begin = _joined(rows, call, peers, ops.call_last_frame, ops.t1, received=True)
    end = _joined(rows, reply, peers, ops.reply_first_frame, ops.t2)
    last = _joined(rows, reply, peers, ops.reply_last_frame, ops.t3)
    doubt = begin.at - begin.low
    begin = Between(begin.low, np.fmin(begin.at, end.at), np.fmin(begin.high, end.high))
    first = begin.at - (ops.t1 - ops.t0)[rows]
    return _Made(first, begin, end, np.fmax(last.at, end.at), doubt)


def _of_client(ops: Ops, rows: I64, call: I64, reply: I64, peers: dict[int, Peer]) -> _Made:
    begin = _joined(rows, call, peers, ops.call_first_frame, ops.t0)
    end = _joined(rows, reply, peers, ops.reply_last_frame, ops.t3, received=True)
    sent = _joined(rows, call, peers, ops.call_last_frame, ops.t1)
    doubt = end.at - end.low
    end = Between(end.low, np.fmax(end.at, begin.at), end.high)
    # `first` is the call's last byte here, `last` the reply's first one.
    last = np.fmax(end.at - (ops.t3 - ops.t2)[rows], np.fmax(sent.at, begin.at))
    return _Made(np.fmax(sent.at, begin.at), begin, end, np.fmin(last, end.at), doubt)


def _is_possible(ops: Ops, rows: I64, made: _Made, near: str) -> Bool:
    """Not where the clock was set while the op was under way: the server's times lie within the client's."""
    """Not where the clock of the capture was set meanwhile: one host's times lie within the other's."""
    begin, end = (ops.t0, ops.t3) if near == "client" else (ops.t1, ops.t2)
    outside = (made.begin.at - begin[rows], end[rows] - made.end.at)
    sign = 1 if near == "client" else -1
    return np.asarray((sign * outside[0] > -_SURELY_NS) & (sign * outside[1] > -_SURELY_NS) & (ops.t3 >= ops.t0)[rows])


def _found(
    ops: Ops, rows: I64, index: Index, made: _Made, peers: dict[int, Peer], place: Vantage, near: str, unstamped: int
) -> Found:
    known = np.zeros(len(ops), dtype=np.bool_)
    known[rows] = True
    instants = (
        {"t0": made.first, "t1": made.begin.at, "t2": made.end.at, "t3": made.last}
        if near == "client"
        else {"t0": made.begin.at, "t1": made.first, "t2": made.last, "t3": made.end.at}
    )
    columns = {name: getattr(ops, name).copy() for name in instants}
    for name, values in instants.items():
        columns[name][rows] = np.rint(values).astype(np.int64)
    low, high, doubt = (np.zeros(len(ops), dtype=np.int64) for _ in range(3))
    early, short = (max(one.slack_ns[at] for one in peers.values()) for at in (0, 1))
    less, more = (early, short) if near == "client" else (short, early)
    low[rows] = np.maximum(np.rint(made.end.low - made.begin.high - less), 0).astype(np.int64)
    high[rows] = np.rint(made.end.high - made.begin.low + more).astype(np.int64)
    doubt[rows] = np.rint(made.doubt + (short if short >= _MUCH_NS else 0)).astype(np.int64)
    ticks = [one.departures.tick_ns for one in peers.values() if one.departures is not None]
    trip = min(one.round_trip_ns for one in peers.values() if np.isfinite(one.round_trip_ns))
    return Found(
        dataclasses.replace(ops, **columns),
        known,
        Inferred(
            "server" if near == "client" else "client", place, low, high, doubt, max(ticks), round(trip), unstamped
        ),
        peers,
        index,
    )


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
