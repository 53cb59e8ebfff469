"""Payload that arrived, and messages that were late -> where the path carried all that it carries.

A path with a rate of its own (a slow link, a shaper) makes a queue when more is sent: messages are late by more than
the distance, and meanwhile what arrives comes at one rate, to the packet, and never at a higher one. Delay that changes
by itself (jitter, another host's traffic) leaves the arrivals as uneven as they were: of n packets in a window, give
or take the root of n.

Where too few messages are seen to tell (a short snaplen hides most of large ones), TCP tells of the queue: its data are
acknowledged much later than the distance takes, on average. Then all that arrived is looked at.

A path may be shared (`shared`): then what two hosts send comes as others leave room for it, and only the sum comes at
one rate. Streams that know nothing of each other vary together as much as their variances add up to; those that share
a full path vary by much less, for each has what the others leave. Or there is more room whenever nothing is late. What
goes to other receivers only the sender's capture has: in one queue all comes out in the order in which it went in, so
what was sent up to each message grows by the path's rate from one message's arrival to the next one's, though not from
sending to sending, as it does where each message is late by itself.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from nfslat.model.causes import Cause, code
from nfslat.model.decoded import Decoded
from nfslat.model.details import Tcp
from nfslat.model.tables import F64, I8, I32, I64, Bool
from nfslat.model.units import NS_PER_MS
from nfslat.wire.charges.claims import Claims, Pair, of_each
from nfslat.wire.charges.late import Late
from nfslat.wire.charges.places import place
from nfslat.wire.charges.sending import Socket
from nfslat.wire.charges.shared import Carried, came, left, payload_bytes

# Choices, but where a line says else: each says what it parts from what.
_LATE_NS = NS_PER_MS  # beyond the distance: a queue; less is interrupt coalescing, and a scheduler's tick at 1000 Hz
_PACKETS = 10  # in a window: of random arrivals (Poisson) 6 to 14 come in the middle 80 %, of a shaper's 9 to 11
_WIDER = (1, 2, 4)  # times that: what passes at once may be larger than its estimate; random arrivals fail all the more
# ... where several share it: a host that captures late by some ms blurs the ends of windows, more so of few packets.
_WIDER_SHARED = (*_WIDER, 8, 16)
_WINDOWS = 8  # of random arrivals so many keep within the spread below once in a hundred times
_SPREAD = 2.5  # packets: one that each end of a window cuts, and half of one for what ends a message; or ...
# ... of the middle. Headers are not counted: 66 bytes (Ethernet, IPv4, TCP with time stamps) are 4 % of a full packet
# and 12 % of one of 500 bytes, and windows differ by how many of each they have.
_SPREAD_SHARE = 0.08
_MOST = 1.15  # times the rate: twice that spread; a bucket's burst (tc-tbf(8)) passes faster, now and then, ...
_BURSTS = 0.05  # ... in so many of the windows: it fills while the path is idle, so bursts come first and are rare
_QUEUE_NS = 10 * NS_PER_MS  # on average, and twice the distance: more than a busy host's ACKs are late
_NOT_FEW = 0.25  # of the messages: more than a hiccup of a host touches
_EVEN = 0.15  # of the rate: the middle 80 % of windows whose ends are messages, to the headers and to a large message
_TOGETHER = 0.6  # of the deviation that streams would have which know nothing of each other
_ROOM = 0.8  # of the rate: in nine of ten windows in which nothing is late no more is carried
_GAP = 4  # stretches between two late messages, in which there was a queue, too
_WORTH = 0.05  # of what is carried: a stream with less fills nothing
_AT_RATE = 0.7  # of the rate, at least, in a queue that counts; at a half and less it waits for something else


class Sharer(NamedTuple):
    """What else a full direction carried."""

    name: str  # of RPC the address of the other host, of another stream sender and receiver with their ports
    share: float  # of what was carried while it was full


class Plateau(NamedTuple):
    """One direction between two hosts that carried all it can."""

    way: str  # "call" or "reply"
    client: str  # address
    server: str
    bytes_per_s: float  # payload, of all that share it
    share: float  # of the time in which it carried any
    sharers: tuple[Sharer, ...] = ()  # beside the RPC of these two hosts, the largest first


class _Queues(NamedTuple):
    """Times with a queue, in order, apart from each other; receiver's clock."""

    begin_ns: I64
    end_ns: I64


def bandwidth_claims(
    pair: Pair,
    net_ns: dict[str, I64],
    sides: dict[str, Decoded],
    half_trips_ns: I64,
    lost: dict[str, I64],
    socket: Socket,
) -> tuple[Claims, tuple[Plateau, ...]]:
    """`net_ns` and `lost` as in `hosts`; `socket` are the waits in the server's socket."""
    claims: list[Claims] = []
    plateaus: list[Plateau] = []
    for part, name in (("call_net", "server"), ("reply_net", "client")):
        is_late = net_ns[part] - half_trips_ns >= _LATE_NS
        is_late[lost[part]] = False
        late = np.flatnonzero(is_late)
        if not len(late):
            continue
        receiver = sides[name]
        is_reply = part == "reply_net"
        ops, loads, tcp = receiver.ops, receiver.details.loads, receiver.details.tcp
        group_of_conn, names, calls = _host_pairs(pair, name)
        row_of = pair.matched.rows(slice(None))[is_reply]
        loads_of = _by_group(group_of_conn, calls ^ is_reply, loads.conn, loads.direction)
        tcp_of = _by_group(group_of_conn, calls ^ is_reply, tcp.conn, tcp.direction)
        socket_of = dict(of_each(group_of_conn[ops.conn[row_of[socket.row]]])) if is_reply else {}
        for group, chosen in of_each(group_of_conn[ops.conn[row_of[late]]]):
            if group not in loads_of or group not in tcp_of:
                continue
            at = late[chosen]
            half_trip_ns = int(half_trips_ns[at].min())  # the same for all, unless an address stands for several hosts
            rows = row_of[at]
            begins, arrived = (ops.t2[rows], ops.t3[rows]) if is_reply else (ops.t0[rows], ops.t1[rows])
            # From when the queue kept it: its last byte was so late; a message that came in many packets came through
            # the same queue from its first one on.
            from_ns = np.minimum(arrived - (net_ns[part][at] - half_trip_ns), begins)
            queues = _union(from_ns, arrived)
            payload = payload_bytes(ops, rows, is_reply=is_reply)
            waits = Late(arrived - net_ns[part][at], arrived, payload, half_trip_ns)
            packet = packet_bytes(tcp.take(tcp_of[group]))
            mine = loads.take(loads_of[group])
            arrivals = Carried(np.zeros(len(mine), dtype=np.int64), mine.begin_ns, mine.bytes, mine.stretch_ns)
            plateau = _plateau(arrivals, queues, packet, waits)
            if plateau is None and _is_always_late(
                pair, part, sides, at, net_ns[part][at] - half_trip_ns, half_trip_ns
            ):
                queues = _busy(arrivals)
                plateau = _plateau(arrivals, queues, packet, waits)
            if plateau is None:
                queues = _joined(_union(from_ns, arrived), _GAP * loads.stretch_ns)
                trips = _trips(pair, np.flatnonzero(group_of_conn[ops.conn[row_of]] == group), is_reply=is_reply)
                plateau, arrivals = _shared(
                    arrivals, names[group], sides, (queues, packet, trips, at), is_reply=is_reply
                )
            if plateau is None:
                continue
            rate, at_rate, share = plateau
            queues = _Queues(queues.begin_ns[at_rate], queues.end_ns[at_rate])
            sharers = _sharers(arrivals, queues)
            plateaus.append(Plateau("reply" if is_reply else "call", *names[group], rate * 1e9, share, sharers))
            if not is_reply:
                queues = _Queues(*(pair.near_on_client_ns(ns)[0] for ns in queues))
            claims += _claims(pair, part, at, queues, half_trip_ns)
            if group in socket_of:
                claims.append(_in_socket(pair, socket.take(socket_of[group]), queues))
    return Claims.joined(claims), tuple(plateaus)


def _is_always_late(
    pair: Pair, part: str, sides: dict[str, Decoded], late: I64, late_ns: I64, half_trip_ns: int
) -> bool:
    """Do the data of these late ops' connections stand in a queue on average, by TCP's own round trips?

    An ACK may be late by its receiver, so messages must be late as well: not just a few of them, and by half as much.
    """
    is_reply = part == "reply_net"
    side, ops = (sides["server"], pair.server) if is_reply else (sides["client"], pair.client)
    rows = pair.matched.rows(late)[0 if is_reply else 1]
    ways = np.unique(ops.conn[rows].astype(np.int64) * 2 + (ops.direction[rows] ^ is_reply))
    tcp = side.details.tcp
    ours = np.isin(tcp.conn * 2 + tcp.direction, ways) & (tcp.rtt_count > 0)
    count = int(tcp.rtt_count[ours].sum())
    if not count:
        return False
    queue_ns = int(tcp.rtt_sum_ns[ours].sum()) // count - 2 * half_trip_ns
    if queue_ns < max(_QUEUE_NS, 2 * half_trip_ns) or float(late_ns.mean()) < queue_ns / 2:
        return False
    every = pair.matched.rows(slice(None))[0 if is_reply else 1]
    return len(late) >= _NOT_FEW * int(np.count_nonzero(np.isin(ops.conn[every], np.unique(ops.conn[rows]))))


def _busy(loads: Carried) -> _Queues:
    """Stretches with payload, those that follow each other as one."""
    begin = np.unique(loads.begin_ns)
    return _union(begin, begin + loads.stretch_ns)


def _host_pairs(pair: Pair, name: str) -> tuple[I64, list[tuple[str, str]], I64]:
    """For each connection of a side the number of its two hosts, and the addresses of (client, server); and the
    direction of its calls."""
    ops = pair.client if name == "client" else pair.server
    calls = np.zeros(len(ops.connections), dtype=np.int64)
    calls[ops.classes.conn] = ops.classes.direction
    names: dict[tuple[str, str], int] = {}
    groups = []
    for ends, way in zip(ops.connections, calls.tolist(), strict=True):
        key = ends.source(way)[0], ends.destination(way)[0]
        groups.append(names.setdefault(key, len(names)))
    return np.array(groups, dtype=np.int64), list(names), calls


def _by_group(group_of_conn: I64, wanted: I64, conn: I32 | I64, direction: I8 | I64) -> dict[int, I64]:
    """Rows of a table of connections and directions, those of the wanted direction, by the hosts."""
    ours = np.flatnonzero(wanted[conn] == direction)
    return {group: ours[rows] for group, rows in of_each(group_of_conn[conn[ours]])}


def packet_bytes(tcp: Tcp) -> float:
    """What passes at once: the payload of a large packet, as these directions show it.

    Where packets were merged (GRO) a byte's own packet is larger than the mean one, with the others as large as an MSS.
    """
    packets, total = int(tcp.data_packets.sum()), int(tcp.bytes.sum())
    if not packets:
        return 0.0
    largest = int(tcp.largest_payload.max())
    merged, mss = int(tcp.super_packets.sum()), int(tcp.mss.max())
    whole = min((packets - merged) * max(mss, 0), total)
    of_bytes = ((total - whole) ** 2 / merged + whole * mss) / total if merged and mss > 0 else 0.0
    return float(min(largest, max(2 * total / packets, of_bytes)))


def _union(begin: I64, end: I64) -> _Queues:
    order = np.argsort(begin, kind="stable")
    begin, latest = begin[order], np.maximum.accumulate(end[order])
    starts = np.ones(len(begin), dtype=np.bool_)
    starts[1:] = begin[1:] > latest[:-1]
    at = np.flatnonzero(starts)
    return _Queues(begin[at], latest[np.append(at[1:], len(begin)) - 1])


def _joined(queues: _Queues, gap_ns: int) -> _Queues:
    """Those with no more than that between them as one: nobody asked whether there was a queue meanwhile."""
    apart = queues.begin_ns[1:] - queues.end_ns[:-1] > gap_ns
    return _Queues(queues.begin_ns[np.append(True, apart)], queues.end_ns[np.append(apart, True)])


def _sums(arrivals: Carried, queues: _Queues) -> F64:
    """Bytes of each stream while there was a queue."""
    middle = arrivals.begin_ns + arrivals.stretch_ns // 2
    at = np.searchsorted(queues.begin_ns, middle, "right") - 1
    inside = (at >= 0) & (middle < np.append(queues.end_ns, 0)[at])
    sums = np.bincount(arrivals.stream[inside], weights=arrivals.bytes[inside], minlength=len(arrivals.names))
    return sums.astype(np.float64)


def _sharers(arrivals: Carried, queues: _Queues) -> tuple[Sharer, ...]:
    """What there is beside the pair's own RPC, if it is worth a word."""
    sums = _sums(arrivals, queues)
    shares = (sums / max(sums.sum(), 1)).tolist()
    known = [(arrivals.names[at], shares[at]) for at in np.argsort(-sums, kind="stable").tolist()]
    return tuple(Sharer(name, share) for name, share in known if name and share >= _WORTH)


_Found = tuple[float, Bool, float]  # bytes a ns, which of the queues went at that rate, share of the busy time


def _shared(
    own: Carried,
    hosts: tuple[str, str],
    sides: dict[str, Decoded],
    known: tuple[_Queues, float, _Trips, I64],
    *,
    is_reply: bool,
) -> tuple[_Found | None, Carried]:
    """The rate of what `hosts` (client, server) share with others, and all that came out of the queue."""
    queues, packet, trips, late = known
    by, to = hosts[:: -1 if is_reply else 1]
    sender, receiver = (sides[name] for name in (("server", "client") if is_reply else ("client", "server")))
    every = came(own, by, to, receiver)
    if every is not None and (plateau := _plateau(every, queues, packet)) is not None:
        return plateau, every
    sent = left(by, to, sender, is_reply=is_reply)
    if sent is None or (plateau := _line(sent[0], trips, late, queues)) is None:
        return None, own
    # That line has nothing of messages that the capture does not show.
    out = trips.out(sent[1])
    _, at_rate, share = plateau
    queues = _Queues(queues.begin_ns[at_rate], queues.end_ns[at_rate])
    rate = float(_sums(out, queues).sum()) / max(int((queues.end_ns - queues.begin_ns).sum()), 1)
    return (rate, at_rate, share), out


def _plateau(loads: Carried, queues: _Queues, packet: float, waits: Late | None = None) -> _Found | None:
    """None where what arrived shows no rate. Without `waits` it is shared: messages are late by what others sent."""
    if not len(loads.bytes) or packet <= 0:
        return None
    stretch = loads.stretch_ns
    at, first_rows = np.unique(loads.begin_ns // stretch, return_index=True)
    # Bytes in front of each stretch that has any: captures may have years without.
    sums = np.concatenate([[0], np.cumsum(np.add.reduceat(loads.bytes, first_rows))])

    def until(number: I64) -> I64:
        """Bytes in all stretches in front of this one."""
        return np.asarray(sums[np.searchsorted(at, number)])

    # Whole stretches in which there is a queue all the time.
    begin = np.clip(-(-queues.begin_ns // stretch), at[0], at[-1] + 1)
    end = np.clip(queues.end_ns // stretch, at[0], at[-1] + 1)
    whole = end > begin
    if not whole.any():
        return None
    moved_bytes = until(end) - until(begin)
    typical = float(moved_bytes[whole].sum() / (end - begin)[whole].sum())
    if typical <= 0:
        return None
    least = max(1, int(np.ceil(_PACKETS * packet / typical)))
    if waits is not None and waits.is_constant(typical / stretch):
        return None
    jitter = 0.0 if waits is None else 2 * waits.jitter_ns(typical / stretch) * typical / stretch
    for width in (least * wider for wider in (_WIDER_SHARED if waits is None else _WIDER)):
        counts = np.where(whole, (end - begin) // width, 0)
        starts = np.repeat(begin, counts) + width * _counted(counts)
        inside = until(starts + width) - until(starts)
        if len(inside) < _WINDOWS:
            return None
        low, middle, high = np.quantile(inside, [0.1, 0.5, 0.9])
        if high - low > max(_SPREAD * packet, _SPREAD_SHARE * middle) + jitter:
            continue
        every = np.unique((at - at[0]) // width)
        every = at[0] + every[every < (at[-1] + 1 - at[0]) // width] * width
        busy = until(every + width) - until(every)
        if np.count_nonzero(busy > _MOST * middle + packet + jitter) > _BURSTS * len(busy):
            return None
        free = busy[np.searchsorted(end, every, "right") >= np.searchsorted(begin, every + width)]
        if waits is not None or _is_shared(loads, starts, width) or _has_room(free, middle):
            break
    else:
        return None
    rate = float(middle) / (width * stretch)
    # A queue that is shorter than a stretch has no rate of its own: it goes with the others.
    own = np.full(len(queues.begin_ns), rate)
    own[whole] = moved_bytes[whole] / ((end - begin)[whole] * stretch)
    length = queues.end_ns - queues.begin_ns
    at_rate = own * length >= _AT_RATE * rate * length - 2 * packet
    share = float((end - begin)[whole & at_rate].sum() / len(at))
    return rate, at_rate, min(share, 1.0)


def _has_room(free: I64, full: float) -> bool:
    """Is less carried in the windows in which nothing is late?"""
    return len(free) >= _WINDOWS and float(np.quantile(free, 0.9)) <= _ROOM * full


class _Trips(NamedTuple):
    """Messages of a pair of hosts, in the order in which they were sent."""

    row: I64  # matched ops
    sent_ns: I64  # sender's clock
    came_ns: I64  # receiver's

    def out(self, sent: Carried) -> Carried:
        """What went into one queue with these messages, by when it came out."""
        return sent._replace(begin_ns=np.interp(sent.begin_ns, self.sent_ns, self.in_order_ns).astype(np.int64))

    @property
    def in_order_ns(self) -> I64:
        """When each came at the latest, out of a queue that keeps their order."""
        return np.maximum.accumulate(self.came_ns)


def _trips(pair: Pair, rows: I64, *, is_reply: bool) -> _Trips:
    s, c = pair.matched.rows(rows)
    if is_reply:
        sent_ns, came_ns = pair.server.t3[s], pair.client.t3[c]
    else:
        sent_ns, came_ns = pair.client.t1[c], pair.server.t1[s]
    order = np.argsort(sent_ns, kind="stable")
    return _Trips(rows[order], sent_ns[order], came_ns[order])


def _line(sent: Carried, trips: _Trips, late: I64, queues: _Queues) -> _Found | None:
    """As `_plateau`, of what left the sender and goes through one queue with these messages."""
    upto = np.cumsum(sent.bytes)[np.searchsorted(sent.begin_ns, trips.sent_ns, "right") - 1].astype(np.int64)
    came_ns = trips.in_order_ns
    is_late = np.isin(trips.row, late)
    on_time = np.concatenate([[0], np.cumsum(~is_late)])
    largest = float(sent.bytes.max())
    for width in (largest * wider for wider in _WIDER_SHARED):
        edge = np.unique(np.searchsorted(upto, np.arange(upto[0], upto[-1], width)))
        begin, end = edge[:-1], edge[1:]
        all_late = on_time[end + 1] == on_time[begin]
        moved, took_ns, sent_ns = (np.diff(values[edge]) for values in (upto, came_ns, trips.sent_ns))
        if np.count_nonzero(all_late) < _WINDOWS:
            return None
        rates = moved[all_late] / np.maximum(took_ns[all_late], 1)
        low, middle, high = np.quantile(rates, [0.1, 0.5, 0.9])
        entered = np.quantile(moved[all_late] / np.maximum(sent_ns[all_late], 1), [0.1, 0.9])
        if high - low <= _EVEN * middle and high - low <= _TOGETHER * (entered[1] - entered[0]):
            break
    else:
        return None
    of_others = (moved / np.maximum(sent_ns, 1))[~all_late]
    if np.count_nonzero(of_others > _MOST * middle) > _BURSTS * len(edge):
        return None
    length = queues.end_ns - queues.begin_ns
    moved = np.diff(np.interp(np.stack([queues.begin_ns, queues.end_ns]), came_ns, upto), axis=0)[0]
    at_rate = moved >= _AT_RATE * middle * length - 2 * largest
    busy_ns = float(upto[-1] - upto[0]) / middle
    return float(middle), at_rate, min(float(length[at_rate].sum() / busy_ns), 1.0)


def _is_shared(loads: Carried, starts: I64, width: int) -> bool:
    """Do these streams make room for each other, in windows of so many stretches?"""
    at = loads.begin_ns // loads.stretch_ns
    window = np.searchsorted(starts, at, "right") - 1
    inside = (window >= 0) & (at < starts[window] + width)
    cells = np.bincount(
        window[inside] * len(loads.names) + loads.stream[inside],
        weights=loads.bytes[inside],
        minlength=len(starts) * len(loads.names),
    ).reshape(len(starts), -1)
    return bool(cells.sum(axis=1).std() <= _TOGETHER * np.sqrt(cells.var(axis=0).sum()))


def _claims(pair: Pair, part: str, late: I64, queues: _Queues, half_trip_ns: int) -> list[Claims]:
    """On the way, but for the distance, and while it was sent, of late ops."""
    edges = pair.edges_ns(late)
    net, send = ((1, 2), (0, 1)) if part == "call_net" else ((4, 5), (3, 4))
    out = []
    for name, (a, b), less_ns in ((part, net, half_trip_ns), (part.replace("net", "send"), send, 0)):
        row, begin, end = _cut(late, edges[a] + less_ns, edges[b], queues)
        out.append(Claims.of(row, place(name), code(Cause.BANDWIDTH), begin, end))
    return out


def _in_socket(pair: Pair, socket: Socket, queues: _Queues) -> Claims:
    """What waited in the server's socket meanwhile."""
    begin, end = pair.on_client_ns(socket.row, socket.begin_ns, socket.end_ns)
    row, begin, end = _cut(socket.row, begin, end, queues)
    return Claims.of(row, place("server"), code(Cause.BANDWIDTH), begin, end)


def _cut(row: I64, begin: I64, end: I64, queues: _Queues) -> tuple[I64, I64, I64]:
    """What each interval has in common with the queues."""
    first = np.searchsorted(queues.end_ns, begin, "right")
    counts = np.maximum(np.searchsorted(queues.begin_ns, end, "left") - first, 0)
    at = np.repeat(np.arange(len(row)), counts)
    which = np.repeat(first, counts) + _counted(counts)
    return row[at], np.maximum(begin[at], queues.begin_ns[which]), np.minimum(end[at], queues.end_ns[which])


def _counted(counts: I64) -> I64:
    """0, 1, ... for each of these counts, one behind the other."""
    return np.arange(int(counts.sum())) - np.repeat(np.cumsum(counts) - counts, counts)
