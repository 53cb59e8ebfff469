"""Network parts, and when a host's capture shows nothing -> claims of packets that were held and released together.

A host that does not run takes nothing and sends nothing; then all that had come to it is there at once. What holds
packets on the way leaves the host running: it goes on sending, if it has anything to send. So what piled up while the
receiver's capture was silent in both directions is charged to the host (or to its link), the rest to what held it.
A host whose path holds what it waits for falls silent as well, but later: it sends its last data again first, or what
its application still has. So where any of the pile was due well before the silence began, the path held all of it.

What a host did not take a capture on it does not show, but neither does it what it dropped. So the other capture is
asked as well: what it shows of that host meanwhile was sent, and the host ran. And it must show that its own host ran,
by what that sent meanwhile: where both are silent, and all of the pile had been sent well before, either may have
stopped, as the queue of a slow link is in the host that sends.

Where no op was on its way to it, its TCP still owes ACKs for what it had taken just before. Then the sender sends that
again and again, and all of it comes at once, too: delays that fall by one second a second.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from nfslat.model.causes import Cause, code
from nfslat.model.decoded import Decoded
from nfslat.model.details import TcpEvent
from nfslat.model.tables import I64
from nfslat.model.units import NS_PER_MS
from nfslat.wire.batches import held
from nfslat.wire.charges.claims import Claims, Pair, overlapping
from nfslat.wire.charges.places import place
from nfslat.wire.charges.silences import came_again

_SILENT_NS = 50 * NS_PER_MS  # of a host that others send to; more than a scheduler's time slices
_AT_ONCE = 20  # all that piled up is there within so small a part of the silence
_AT_ONCE_NS = 5 * NS_PER_MS
_PILE = 2  # messages or segments, sent at different moments; one alone may have been anywhere
_PACKETS = (TcpEvent.RETRANSMISSION, TcpEvent.DUPLICATE, TcpEvent.OUT_OF_ORDER)


class Pause(NamedTuple):
    """A host that did not run, as far as others can tell."""

    side: str  # "server" or "client"
    begin_ns: int  # client's clock: what came from then on was not taken
    end_ns: int
    frame: int  # of its own capture: the first message, or segment that was sent again, which it then took


class _Arrivals(NamedTuple):
    """Late messages and segments of one direction; client's clock."""

    sent_ns: I64
    came_ns: I64
    frame: I64  # of the receiver's capture

    @property
    def waits_ns(self) -> I64:
        """How long each was on its way."""
        return self.came_ns - self.sent_ns


def held_claims(
    pair: Pair,
    net_ns: dict[str, I64],
    sides: dict[str, Decoded],
    half_trips_ns: I64,
    lost: dict[str, I64],
    ways: dict[str, tuple[I64, I64]],
) -> tuple[Claims, tuple[Pause, ...]]:
    """`net_ns` has call_net and reply_net of all matched ops, `lost` the rows of those that waited for a loss there,
    `ways` (connection times 2, plus direction) the calls' and the replies' of each side."""
    claims: list[Claims] = []
    pauses: list[Pause] = []
    for part, name, sender in (("call_net", "server", "client"), ("reply_net", "client", "server")):
        is_reply = part == "reply_net"
        is_late = net_ns[part] - half_trips_ns >= _AT_ONCE_NS
        is_late[lost[part]] = False
        late = np.flatnonzero(is_late)
        edges = pair.edges_ns(late)
        sent, arrived = (edges[4], edges[5]) if is_reply else (edges[1], edges[2])
        again = came_again(sides[sender], ways[sender][is_reply], sides[name], ways[name][is_reply])
        again_sent, again_came = again.sent_ns, again.came_ns
        if is_reply:
            (again_sent,) = pair.near_on_client_ns(again_sent)
        else:
            (again_came,) = pair.near_on_client_ns(again_came)
        rows = pair.matched.rows(late)[is_reply]
        ops = sides[name].ops
        frames = (ops.reply_last_frame if is_reply else ops.call_last_frame)[rows].astype(np.int64)
        every = _Arrivals(
            np.concatenate([sent, again_sent]),
            np.concatenate([arrived, again_came]),
            np.concatenate([frames, again.frame]),
        )
        found: list[Pause] = []
        on_path = np.zeros(0, dtype=np.int64)
        if (every.waits_ns >= _SILENT_NS).any():
            silences = _Shown.of(pair, name, sides[name]).silences(every.came_ns, every.waits_ns)
            other = _Other.of(pair, sender, sides[sender], ways[sender])
            found, on_path = _stopped(name, silences, every, other, int(half_trips_ns.min()))
        pauses += found
        on_path = on_path[on_path < len(late)]
        claims.append(
            Claims.of(
                late[on_path],
                place(part),
                code(Cause.HELD),
                sent[on_path] + half_trips_ns[late[on_path]],
                arrived[on_path],
            )
        )
        begin, end = (np.array([getattr(one, at) for one in found], dtype=np.int64) for at in ("begin_ns", "end_ns"))
        # Those on the way at the end of a pause.
        at, which = _meeting(sent, arrived, end - 1, end)
        claims.append(Claims.of(late[at], place(part), code(Cause.HOST_PAUSE), begin[which], end[which]))
        if name == "server" and found:
            claims.append(_in_server(pair, begin, end))
        teeth = held(sent, arrived - sent)
        begin, end = (
            np.array([getattr(one, at) for one in teeth], dtype=np.int64) for at in ("begin_ns", "release_ns")
        )
        at, which = _meeting(sent, sent + 1, begin, end)
        claims.append(Claims.of(late[at], place(part), code(Cause.HELD), begin[which], end[which]))
    return Claims.joined(claims), tuple(pauses)


def _meeting(begin: I64, end: I64, asked_begin: I64, asked_end: I64) -> tuple[I64, I64]:
    """`overlapping` of intervals that all have the same key."""
    keys = (np.zeros(len(some), dtype=np.int64) for some in (begin, asked_begin))
    return overlapping(next(keys), begin, end, next(keys), asked_begin, asked_end)


def _in_server(pair: Pair, begin: I64, end: I64) -> Claims:
    """Ops that the server had in hand all the while from one of `begin` to its `end`."""
    s = pair.matched.server
    long = np.flatnonzero(pair.server.t2[s] - pair.server.t1[s] >= _SILENT_NS // 2)
    edges = pair.edges_ns(long)
    at, which = _meeting(edges[2], edges[3], begin, begin + 1)
    whole = edges[3][at] >= end[which]
    at, which = at[whole], which[whole]
    return Claims.of(long[at], place("server"), code(Cause.HOST_PAUSE), begin[which], end[which])


class _Other(NamedTuple):
    """What the other capture shows meanwhile; client's clock, in order."""

    there_ns: I64  # when each stretch begins in which its own host sent payload
    back_ns: I64  # and in which payload came from the host that may have stopped
    arrived_ns: I64  # when each message came that both captures show: that host's own says when it was sent
    stretch_ns: int

    @classmethod
    def of(cls, pair: Pair, name: str, side: Decoded, ways: tuple[I64, I64]) -> _Other:
        """Of the capture of `side`, named `name`; `ways` its calls' and its replies'."""
        is_server = name == "server"
        loads = side.details.loads
        way_of = loads.conn.astype(np.int64) * 2 + loads.direction
        calls, replies = (np.unique(loads.begin_ns[np.isin(way_of, way)]) for way in ways)
        if is_server:
            calls, replies = (np.sort(pair.near_on_client_ns(ns)[0]) for ns in (calls, replies))
            rows = pair.matched.server
            (arrived,) = pair.on_client_ns(np.arange(len(rows)), pair.server.t1[rows])
            return cls(replies, calls, np.sort(arrived), loads.stretch_ns)
        return cls(calls, replies, np.sort(pair.client.t3[pair.matched.client]), loads.stretch_ns)

    def shows_that_it_ran(self, begin: int, end: int) -> bool:
        """Did the silent host send anything? What it had sent before may still be on its way for a while."""
        first, behind = np.searchsorted(self.arrived_ns, [begin, end]).tolist()
        since = int(self.arrived_ns[behind - 1]) if behind > first else begin
        return self._any(self.back_ns, since + _AT_ONCE_NS, end)

    def sent(self, begin: int, end: int) -> bool:
        """Did its own host send anything, but for its answers to what the other one had sent before?"""
        return self._any(self.there_ns, begin + _AT_ONCE_NS, end)

    def _any(self, begins_ns: I64, begin: int, end: int) -> bool:
        first, behind = np.searchsorted(begins_ns, [begin, end - self.stretch_ns + 1]).tolist()
        return bool(behind > first)


def _stopped(
    name: str, silences: list[tuple[int, int]], late: _Arrivals, other: _Other, half_trip_ns: int
) -> tuple[list[Pause], I64]:
    """Those of the receiver's silences in which something was on the way to it, which it shows all at once at the end;
    and the rows of `late` that came so as well, but had been held on the way."""
    waits, sent, came = late.waits_ns, late.sent_ns, late.came_ns
    by_arrival = np.argsort(came, kind="stable")
    arrivals = came[by_arrival]
    found: list[Pause] = []
    on_path = [np.zeros(0, dtype=np.int64)]
    for begin, end in silences:
        soon = end + max(_AT_ONCE_NS, (end - begin) // _AT_ONCE)
        near = by_arrival[slice(*np.searchsorted(arrivals, [end, soon + 1]).tolist())]
        pile = near[(sent[near] < end) & (came[near] - np.maximum(sent[near], begin) >= _AT_ONCE_NS)]
        if len(np.unique(sent[pile])) < _PILE:
            continue
        # What came just before the silence tells how long the way was then, queues and all.
        before = by_arrival[slice(*np.searchsorted(arrivals, [begin - _AT_ONCE_NS, begin + 1]).tolist())]
        way_ns = max(int(waits[before].max(initial=0)), half_trip_ns)
        if int(sent[pile].min()) + way_ns < begin - _AT_ONCE_NS:
            on_path.append(pile)
            continue
        is_either = int(sent[pile].max()) + half_trip_ns < begin - _AT_ONCE_NS and not other.sent(begin, end)
        if not (is_either or other.shows_that_it_ran(begin, end)):
            found.append(Pause(name, begin, end, int(late.frame[pile[0]])))
    return found, np.unique(np.concatenate(on_path))


class _Shown(NamedTuple):
    """When a capture shows nothing, on the client's clock, in order."""

    begin_ns: I64  # of all long times without a message's beginning or end, or a segment sent again or come late
    end_ns: I64
    busy: I64  # stretches with payload, when each begins ...
    stretch_ns: int  # ... and how long it is

    @classmethod
    def of(cls, pair: Pair, name: str, side: Decoded) -> _Shown:
        """Of the capture of `side`, named `name`."""
        ops, loose, events, loads = side.ops, side.loose, side.details.events, side.details.loads
        packets = events.t_ns[np.isin(events.kind, _PACKETS)]
        seen = np.concatenate([ops.t0, ops.t1, ops.t2, ops.t3, loose.first_ns, loose.last_ns, packets])
        busy = np.unique(loads.begin_ns)
        if name == "server":
            (seen,), (busy,) = pair.near_on_client_ns(seen), pair.near_on_client_ns(busy)
        seen = np.sort(seen)
        long = np.flatnonzero(np.diff(seen) >= _SILENT_NS)
        return cls(seen[long], seen[long + 1], np.sort(busy), loads.stretch_ns)

    def silences(self, came_ns: I64, waits_ns: I64) -> list[tuple[int, int]]:
        """The longest one before each of what came after a long wait, or a little before: what piled up comes one by
        one. Each silence once."""
        long = waits_ns >= _SILENT_NS
        came, slack = came_ns[long], np.maximum(_AT_ONCE_NS, waits_ns[long] // _AT_ONCE)
        first = np.searchsorted(self.end_ns, came - slack, "left")
        behind = np.searchsorted(self.end_ns, came, "right")
        some = behind > first
        length = self.end_ns - self.begin_ns
        ranges = np.unique(np.stack([first[some], behind[some]]), axis=1).T.tolist()
        at = np.unique(np.array([a + int(np.argmax(length[a:b])) for a, b in ranges], dtype=np.int64))
        # A message that takes long to arrive is no silence: its bytes go by.
        inside = np.searchsorted(self.busy, np.stack([self.begin_ns[at], self.end_ns[at] - self.stretch_ns]))
        at = at[inside[1] <= inside[0]]
        return list(zip(self.begin_ns[at].tolist(), self.end_ns[at].tolist(), strict=True))
