"""Payload that arrived, and messages that were late -> where the path carried all that it carries.

A path with a rate of its own (a slow link, a shaper) makes a queue when more is sent: messages are late by more than
the distance, and meanwhile what arrives comes at one rate, to the packet, and never at a higher one. Delay that changes
by itself (jitter, another host's traffic) leaves the arrivals as uneven as they were: of n packets in a window, give
or take the root of n.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from nfslat.charges.causes import Cause, code, place
from nfslat.charges.claims import Claims, Pair
from nfslat.charges.sending import Socket
from nfslat.constants import NULL32, op_name
from nfslat.decode.decoded import Decoded
from nfslat.details import Loads
from nfslat.tables import I64, Bool, Ops

_MS = 1_000_000
_LATE_NS = _MS  # beyond the distance: a queue
_PACKETS = 10  # in a window: Poisson's spread (10 % to 90 %) is then 8 packets, a shaper's is 1
_WINDOWS = 8
_SPREAD = 2.5  # packets, or ...
_SPREAD_SHARE = 0.08  # of the middle: headers are not counted, and messages do not end with full packets
_MOST = 1.15  # times the rate; a bucket's burst may pass faster, now and then
_BURSTS = 0.05  # of the windows
_JITTER = 0.25  # of the delay: what the queue does not explain of it
_HEADERS = 132  # bytes of a message without its data, about
_AT_RATE = 0.7  # of the rate, at least, in a queue that counts


@dataclass(frozen=True)
class Plateau:
    """One direction between two hosts that carried all it can."""

    way: str  # "call" or "reply"
    client: str  # address
    server: str
    bytes_per_s: float  # payload
    share: float  # of the time in which it carried any


class _Queues(NamedTuple):
    """Times with a queue, in order, apart from each other; receiver's clock."""

    begin_ns: I64
    end_ns: I64


def bandwidth_claims(
    pair: Pair,
    net_ns: dict[str, I64],
    sides: dict[str, Decoded],
    half_trip_ns: int,
    lost: dict[str, I64],
    socket: Socket,
) -> tuple[Claims, tuple[Plateau, ...]]:
    """`net_ns` and `lost` as in `hosts`; `socket` are the waits in the server's socket."""
    claims: list[Claims] = []
    plateaus: list[Plateau] = []
    for part, name in (("call_net", "server"), ("reply_net", "client")):
        late = np.setdiff1d(np.flatnonzero(net_ns[part] >= half_trip_ns + _LATE_NS), lost[part])
        if not len(late):
            continue
        receiver = sides[name]
        is_reply = part == "reply_net"
        ops = receiver.ops
        s, c = pair.matched.rows(late)
        rows = c if is_reply else s
        group_of_conn, names = _host_pairs(pair, name)
        conn = ops.conn[rows].astype(np.int64)
        loads = receiver.details.loads
        for group in np.unique(group_of_conn[conn]).tolist():
            chosen = np.flatnonzero(group_of_conn[conn] == group)
            arrived = ops.t3[rows[chosen]] if is_reply else ops.t1[rows[chosen]]
            begins = ops.t2[rows[chosen]] if is_reply else ops.t0[rows[chosen]]
            # From when the queue kept it: its last byte was so late; a message that came in many packets came through
            # the same queue from its first one on.
            from_ns = np.minimum(arrived - (net_ns[part][late[chosen]] - half_trip_ns), begins)
            queues = _union(from_ns, arrived)
            conns = np.flatnonzero(group_of_conn == group)
            way_of = _ways(receiver, conns, is_reply=is_reply)
            ours = np.isin(loads.conn.astype(np.int64) * 2 + loads.direction, way_of)
            payload = _payload_bytes(ops, rows[chosen], is_reply=is_reply)
            waits = _Waits(arrived - net_ns[part][late[chosen]], arrived, payload, half_trip_ns)
            found = _plateau(loads.take(ours), queues, packet_bytes(receiver, way_of), waits)
            if found is None:
                continue
            rate, at_rate, share = found
            queues = _Queues(queues.begin_ns[at_rate], queues.end_ns[at_rate])
            way = "reply" if is_reply else "call"
            plateaus.append(Plateau(way, names[group][0], names[group][1], rate * 1e9, share))
            if not is_reply:
                queues = _Queues(*(pair.near_on_client_ns(ns) for ns in queues))
            claims += _claims(pair, part, np.asarray(late[chosen]), queues, half_trip_ns, socket if is_reply else None)
    return Claims.joined(claims), tuple(plateaus)


def _host_pairs(pair: Pair, name: str) -> tuple[I64, list[tuple[str, str]]]:
    """For each connection of a side the number of its two hosts, and the addresses of (client, server)."""
    ops = pair.client if name == "client" else pair.server
    calls = np.zeros(len(ops.connections), dtype=np.int64)
    calls[ops.classes.conn] = ops.classes.direction
    names: dict[tuple[str, str], int] = {}
    groups = []
    for ends, way in zip(ops.connections, calls.tolist(), strict=True):
        key = ends.source(way)[0], ends.destination(way)[0]
        groups.append(names.setdefault(key, len(names)))
    return np.array(groups, dtype=np.int64), list(names)


def _ways(receiver: Decoded, conns: I64, *, is_reply: bool) -> I64:
    """Connection times 2, plus the direction of the calls or the replies."""
    calls = np.zeros(len(receiver.ops.connections), dtype=np.int64)
    calls[receiver.ops.classes.conn] = receiver.ops.classes.direction
    return np.asarray(conns * 2 + (calls[conns] ^ is_reply), dtype=np.int64)


def packet_bytes(receiver: Decoded, ways: I64) -> float:
    """What passes at once: the payload of a large packet, as this capture shows it."""
    tcp = receiver.details.tcp
    ours = np.isin(tcp.conn * 2 + tcp.direction, ways)
    packets = int(tcp.data_packets[ours].sum())
    if not packets:
        return 0.0
    return float(min(int(tcp.largest_payload[ours].max()), 2 * int(tcp.bytes[ours].sum()) / packets))


def _union(begin: I64, end: I64) -> _Queues:
    order = np.argsort(begin, kind="stable")
    begin, latest = begin[order], np.maximum.accumulate(end[order])
    starts = np.ones(len(begin), dtype=np.bool_)
    starts[1:] = begin[1:] > latest[:-1]
    at = np.flatnonzero(starts)
    return _Queues(begin[at], latest[np.append(at[1:], len(begin)) - 1])


class _Waits(NamedTuple):
    """Late messages of a direction."""

    sent_ns: I64  # receiver's clock
    arrived_ns: I64
    payload: I64  # bytes, about
    half_trip_ns: int

    def jitter_ns(self, rate: float) -> float:
        """What the line behind the queue adds, now and then more and now and then less: how far messages are off what
        those in front of them take at `rate`; 0 where that explains too little of their delay to say so."""
        order = np.argsort(self.sent_ns, kind="stable")
        sent, size = self.sent_ns[order], self.payload[order]
        by_arrival = np.argsort(self.arrived_ns, kind="stable")
        gone = np.concatenate([[0], np.cumsum(self.payload[by_arrival])])
        ahead = np.cumsum(size) - gone[np.searchsorted(self.arrived_ns[by_arrival], sent, "right")]
        late = self.arrived_ns[order] - sent - self.half_trip_ns
        low, high = np.quantile(late - ahead / rate, [0.1, 0.9])
        return float(high - low) if high - low <= _JITTER * float(np.median(late)) else 0.0


def _payload_bytes(ops: Ops, rows: I64, *, is_reply: bool) -> I64:
    """Of replies to READs, or of WRITE calls, the data; of others next to nothing."""
    name = "READ" if is_reply else "WRITE"
    is_data = np.array([op_name(*kind[:2], kind.op) == name for kind in ops.kinds], dtype=np.bool_)[ops.kind[rows]]
    return np.where(is_data & (ops.size[rows] != NULL32), ops.size[rows].astype(np.int64), 0) + _HEADERS


def _plateau(loads: Loads, queues: _Queues, packet: float, waits: _Waits) -> tuple[float, Bool, float] | None:
    """Bytes a ns, which of the queues went at that rate, and the share of the busy time that they make; None where
    what arrived shows no rate."""
    if not len(loads) or packet <= 0:
        return None
    stretch = loads.stretch_ns
    first = int(loads.begin_ns[0]) // stretch
    at = loads.begin_ns // stretch - first
    per_stretch = np.zeros(int(at.max()) + 1, dtype=np.int64)
    np.add.at(per_stretch, at, loads.bytes)
    sums = np.concatenate([[0], np.cumsum(per_stretch)])
    # Whole stretches in which there is a queue all the time.
    begin = np.clip(-(-queues.begin_ns // stretch) - first, 0, len(per_stretch))
    end = np.clip(queues.end_ns // stretch - first, 0, len(per_stretch))
    whole = end > begin
    if not whole.any():
        return None
    typical = float((sums[end[whole]] - sums[begin[whole]]).sum() / (end - begin)[whole].sum())
    if typical <= 0:
        return None
    width = max(1, int(np.ceil(_PACKETS * packet / typical)))
    windows = [
        sums[a + width : b + 1 : width] - sums[a : b + 1 - width : width]
        for a, b in zip(begin[whole].tolist(), end[whole].tolist(), strict=True)
        if b - a >= width
    ]
    inside = np.concatenate(windows) if windows else np.zeros(0, dtype=np.int64)
    if len(inside) < _WINDOWS:
        return None
    low, middle, high = np.quantile(inside, [0.1, 0.5, 0.9])
    moved = 2 * waits.jitter_ns(typical / stretch) * typical / stretch
    if high - low > max(_SPREAD * packet, _SPREAD_SHARE * middle) + moved:
        return None
    every = sums[width::width] - sums[:-width:width]
    busy = every[every > 0]
    if np.count_nonzero(busy > _MOST * middle + packet + moved) > _BURSTS * len(busy):
        return None
    rate = float(middle) / (width * stretch)
    # A queue that is shorter than a stretch has no rate of its own: it goes with the others.
    own = np.full(len(queues.begin_ns), rate)
    own[whole] = (sums[end] - sums[begin])[whole] / ((end - begin)[whole] * stretch)
    at_rate = (
        own * (queues.end_ns - queues.begin_ns) >= _AT_RATE * rate * (queues.end_ns - queues.begin_ns) - 2 * packet
    )
    share = float((end - begin)[whole & at_rate].sum() / max(np.count_nonzero(per_stretch), 1))
    return rate, at_rate, min(share, 1.0)


def _claims(
    pair: Pair, part: str, late: I64, queues: _Queues, half_trip_ns: int, socket: Socket | None
) -> list[Claims]:
    """On the way, but for the distance, and while it was sent, of late ops; and in the server's socket, of any."""
    edges = pair.edges_ns(late)
    net, send = ((1, 2), (0, 1)) if part == "call_net" else ((4, 5), (3, 4))
    out = []
    for name, (a, b), less_ns in ((part, net, half_trip_ns), (part.replace("net", "send"), send, 0)):
        row, begin, end = _cut(late, edges[a] + less_ns, edges[b], queues)
        out.append(Claims.of(row, place(name), code(Cause.BANDWIDTH), begin, end))
    if socket is not None and len(socket.row):
        begin, end = pair.on_client_ns(socket.row, socket.begin_ns, socket.end_ns)
        row, begin, end = _cut(socket.row, begin, end, queues)
        out.append(Claims.of(row, place("server"), code(Cause.BANDWIDTH), begin, end))
    return out


def _cut(row: I64, begin: I64, end: I64, queues: _Queues) -> tuple[I64, I64, I64]:
    """What each interval has in common with the queues."""
    first = np.searchsorted(queues.end_ns, begin, "right")
    behind = np.maximum(np.searchsorted(queues.begin_ns, end, "left"), first)
    counts = behind - first
    at = np.repeat(np.arange(len(row)), counts)
    which = np.arange(len(at)) - np.repeat(np.cumsum(counts) - counts, counts) + np.repeat(first, counts)
    return row[at], np.maximum(begin[at], queues.begin_ns[which]), np.minimum(end[at], queues.end_ns[which])
