"""Network parts, and when a host's capture shows nothing -> claims of packets that were held and released together.

A host that does not run takes nothing and sends nothing; then all that had come to it is there at once. What holds
packets on the way leaves the host running: it goes on sending, if it has anything to send. So what piled up while the
receiver's capture was silent in both directions is charged to the host (or to its link), the rest to what held it.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from nfslat.charges.causes import Cause, code, place
from nfslat.charges.claims import Claims, Pair
from nfslat.decode.decoded import Decoded
from nfslat.held import held
from nfslat.tables import I64

_MS = 1_000_000
_SILENT_NS = 50 * _MS  # of a host that others send to; more than a scheduler's time slices
_AT_ONCE = 20  # all that piled up is there within so small a part of the silence
_AT_ONCE_NS = 5 * _MS
_PILE = 2  # messages, sent at different moments; one alone may have been anywhere


@dataclass(frozen=True)
class Pause:
    """A host that did not run, as far as others can tell."""

    side: str  # "server" or "client"
    begin_ns: int  # client's clock: what came from then on was not taken
    end_ns: int
    messages: int  # that piled up


def held_claims(
    pair: Pair, net_ns: dict[str, I64], server: Decoded, client: Decoded, half_trip_ns: int, lost: dict[str, I64]
) -> tuple[Claims, tuple[Pause, ...]]:
    """`net_ns` has call_net and reply_net of all matched ops, `lost` the rows of those that waited for a loss there."""
    claims: list[Claims] = []
    pauses: list[Pause] = []
    for part, name, receiver in (("call_net", "server", server), ("reply_net", "client", client)):
        beyond = net_ns[part] - half_trip_ns
        late = np.setdiff1d(np.flatnonzero(beyond >= _AT_ONCE_NS), lost[part])
        if not len(late):
            continue
        edges = pair.edges_ns(late)
        sent, arrived = (edges[1], edges[2]) if part == "call_net" else (edges[4], edges[5])
        found = _silences(pair, name, receiver, part, late, sent, arrived)
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


def _silences(pair: Pair, name: str, receiver: Decoded, part: str, late: I64, sent: I64, arrived: I64) -> list[Pause]:
    """Times in which the receiver's capture shows no message at all, while some were on the way to it, which it shows
    all at once at the end."""
    waits = arrived - sent
    longest = np.argsort(-waits, kind="stable")
    done = np.zeros(len(late), dtype=np.bool_)
    instants: I64 | None = None
    found: list[Pause] = []
    for row in longest.tolist():
        if waits[row] < _SILENT_NS:
            break
        if done[row]:
            continue
        if instants is None:
            instants = _instants(pair, name, receiver)
        # The silence that ends where this message arrived, or a little before: what piled up comes one by one.
        at = int(np.searchsorted(instants, arrived[row], "right")) - 1
        first = int(np.searchsorted(instants, arrived[row] - max(_AT_ONCE_NS, int(waits[row]) // _AT_ONCE), "left"))
        gaps = np.diff(instants[max(first - 1, 0) : at + 1])
        done[row] = True
        if not len(gaps) or gaps.max() < _SILENT_NS:
            continue
        behind = max(first - 1, 0) + int(np.argmax(gaps)) + 1
        begin, end = int(instants[behind - 1]), int(instants[behind])
        soon = end + max(_AT_ONCE_NS, (end - begin) // _AT_ONCE)
        pile = (sent < end) & (arrived >= end) & (arrived <= soon) & (arrived - np.maximum(sent, begin) >= _AT_ONCE_NS)
        done |= pile
        if len(np.unique(sent[pile])) >= _PILE:
            found.append(Pause(name, begin, end, int(np.count_nonzero(pile))))
    return found


def _instants(pair: Pair, name: str, receiver: Decoded) -> I64:
    """When the receiver's capture shows the beginning or the end of any message, in order, on the client's clock."""
    ops = receiver.ops
    if name == "client":
        seen = [ops.t0, ops.t1, ops.t2, ops.t3, receiver.loose.first_ns, receiver.loose.last_ns]
        return np.sort(np.concatenate(seen))
    every = np.arange(len(pair.matched), dtype=np.int64)
    s, _ = pair.matched.rows(every)
    times = pair.on_client_ns(every, ops.t0[s], ops.t1[s], ops.t2[s], ops.t3[s])
    return np.sort(np.concatenate(times))
