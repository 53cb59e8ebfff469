"""Network parts, and when a host's capture shows nothing -> claims of packets that were held and released together.

A host that does not run takes nothing and sends nothing; then all that had come to it is there at once. What holds
packets on the way leaves the host running: it goes on sending, if it has anything to send. So what piled up while the
receiver's capture was silent in both directions is charged to the host (or to its link), the rest to what held it.

Where no op was on its way to it, its TCP still owes ACKs for what it had taken just before. Then the sender sends that
again and again, and all of it comes at once, too: delays that fall by one second a second.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from nfslat.charges.causes import Cause, code, place
from nfslat.charges.claims import Claims, Pair
from nfslat.charges.silences import came_again
from nfslat.decode.decoded import Decoded
from nfslat.details import TcpEvent
from nfslat.held import held
from nfslat.tables import I64

_MS = 1_000_000
_SILENT_NS = 50 * _MS  # of a host that others send to; more than a scheduler's time slices
_AT_ONCE = 20  # all that piled up is there within so small a part of the silence
_AT_ONCE_NS = 5 * _MS
_PILE = 2  # messages or segments, sent at different moments; one alone may have been anywhere
_PACKETS = (TcpEvent.RETRANSMISSION, TcpEvent.DUPLICATE, TcpEvent.OUT_OF_ORDER)


@dataclass(frozen=True)
class Pause:
    """A host that did not run, as far as others can tell."""

    side: str  # "server" or "client"
    begin_ns: int  # client's clock: what came from then on was not taken
    end_ns: int
    pile: int  # messages, and segments that were sent again, which it then had at once
    frame: int  # of its own capture: the first of them


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
    half_trip_ns: int,
    lost: dict[str, I64],
    ways: dict[str, tuple[I64, I64]],
) -> tuple[Claims, tuple[Pause, ...]]:
    """`net_ns` has call_net and reply_net of all matched ops, `lost` the rows of those that waited for a loss there,
    `ways` (connection times 2, plus direction) the calls' and the replies' of each side."""
    claims: list[Claims] = []
    pauses: list[Pause] = []
    for part, name, sender in (("call_net", "server", "client"), ("reply_net", "client", "server")):
        is_reply = part == "reply_net"
        beyond = net_ns[part] - half_trip_ns
        late = np.setdiff1d(np.flatnonzero(beyond >= _AT_ONCE_NS), lost[part])
        edges = pair.edges_ns(late)
        sent, arrived = (edges[4], edges[5]) if is_reply else (edges[1], edges[2])
        again = came_again(sides[sender], ways[sender][is_reply], sides[name], ways[name][is_reply])
        again_sent, again_came = again.sent_ns, again.came_ns
        if is_reply:
            again_sent = pair.near_on_client_ns(again_sent)
        else:
            again_came = pair.near_on_client_ns(again_came)
        rows = pair.matched.rows(late)[is_reply]
        ops = sides[name].ops
        frames = (ops.reply_last_frame if is_reply else ops.call_last_frame)[rows].astype(np.int64)
        every = _Arrivals(
            np.concatenate([sent, again_sent]),
            np.concatenate([arrived, again_came]),
            np.concatenate([frames, again.frame]),
        )
        found = _silences(pair, name, sides[name], every)
        pauses += found
        for one in found:
            hit = late[(sent < one.end_ns) & (arrived >= one.end_ns)]
            begin, end = (np.full(len(hit), at) for at in (one.begin_ns, one.end_ns))
            claims.append(Claims.of(hit, place(part), code(Cause.HOST_PAUSE), begin, end))
            if name == "server":
                claims.append(_in_server(pair, one))
        for tooth in held(sent, arrived - sent):
            hit = late[(sent >= tooth.begin_ns) & (sent < tooth.release_ns)]
            begin, end = (np.full(len(hit), at) for at in (tooth.begin_ns, tooth.release_ns))
            claims.append(Claims.of(hit, place(part), code(Cause.HELD), begin, end))
    return Claims.joined(claims), tuple(pauses)


def _in_server(pair: Pair, pause: Pause) -> Claims:
    """Ops that the server had in hand all the while."""
    s = pair.matched.server
    long = np.flatnonzero(pair.server.t2[s] - pair.server.t1[s] >= _SILENT_NS // 2)
    edges = pair.edges_ns(long)
    row = long[(edges[2] <= pause.begin_ns) & (edges[3] >= pause.end_ns)]
    begin, end = (np.full(len(row), at) for at in (pause.begin_ns, pause.end_ns))
    return Claims.of(row, place("server"), code(Cause.HOST_PAUSE), begin, end)


def _silences(pair: Pair, name: str, receiver: Decoded, late: _Arrivals) -> list[Pause]:
    """Times in which the receiver's capture shows nothing at all, while something was on the way to it, which it shows
    all at once at the end."""
    waits, sent, came = late.waits_ns, late.sent_ns, late.came_ns
    done = waits < _SILENT_NS
    if done.all():
        return []
    shown = _Shown.of(pair, name, receiver)
    found: list[Pause] = []
    for row in np.argsort(-waits, kind="stable").tolist():
        if waits[row] < _SILENT_NS:
            break
        if done[row]:
            continue
        done[row] = True
        # The silence that ends where this one arrived, or a little before: what piled up comes one by one.
        edges = shown.silence_before(int(came[row]), max(_AT_ONCE_NS, int(waits[row]) // _AT_ONCE))
        if edges is None:
            continue
        begin, end = edges
        soon = end + max(_AT_ONCE_NS, (end - begin) // _AT_ONCE)
        pile = (sent < end) & (came >= end) & (came <= soon) & (came - np.maximum(sent, begin) >= _AT_ONCE_NS)
        done |= pile
        if len(np.unique(sent[pile])) >= _PILE:
            first = np.flatnonzero(pile)[np.argmin(came[pile])]
            found.append(Pause(name, begin, end, int(np.count_nonzero(pile)), int(late.frame[first])))
    return found


@dataclass(frozen=True)
class _Shown:
    """When a capture shows anything, on the client's clock, in order."""

    instants: I64  # beginnings and ends of all messages, and segments that were sent again or came late
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
            seen, busy = pair.near_on_client_ns(seen), pair.near_on_client_ns(busy)
        return cls(np.sort(seen), busy, loads.stretch_ns)

    def silence_before(self, t_ns: int, slack_ns: int) -> tuple[int, int] | None:
        """The longest time without anything that ends at `t_ns`, or up to `slack_ns` before; None: none is long."""
        at = int(np.searchsorted(self.instants, t_ns, "right")) - 1
        first = int(np.searchsorted(self.instants, t_ns - slack_ns, "left"))
        before = max(first - 1, 0)
        gaps = np.diff(self.instants[before : at + 1])
        if not len(gaps) or gaps.max() < _SILENT_NS:
            return None
        behind = before + int(np.argmax(gaps)) + 1
        begin, end = int(self.instants[behind - 1]), int(self.instants[behind])
        # A message that takes long to arrive is no silence: its bytes go by.
        inside = np.searchsorted(self.busy, [begin, end - self.stretch_ns])
        return None if inside[1] > inside[0] else (begin, end)
