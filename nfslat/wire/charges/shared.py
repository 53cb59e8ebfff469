"""What else went in a direction, of other hosts' RPC and of streams without any -> what the two hosts' own RPC shared.

A receiver's capture has all that came to it. What its sender sent elsewhere is in that one's capture alone: it came out
of a queue that both were in as late as what the pair sent at that time.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple

import numpy as np

from nfslat.model.decoded import Decoded
from nfslat.model.tables import I64, Bool
from nfslat.wire.charges.claims import Pair, of_each

_Way = tuple[tuple[str, int], tuple[str, int]]  # address and port of who sends and of who receives


class Carried(NamedTuple):
    """Payload of several streams, a row a stream and stretch of time, in time order; receiver's clock."""

    stream: I64  # row of `names`
    begin_ns: I64  # a multiple of `stretch_ns`
    bytes: I64
    stretch_ns: int
    names: tuple[str, ...] = ("",)  # "": of the pair's own RPC

    @classmethod
    def joined(cls, several: Iterable[Carried]) -> Carried:
        """All of them, in stretches as long as the longest; streams of one name are one."""
        parts = list(several)
        stretch_ns = max(part.stretch_ns for part in parts)
        number = {name: at for at, name in enumerate(dict.fromkeys(name for part in parts for name in part.names))}
        rows = [np.array([number[name] for name in part.names], dtype=np.int64)[part.stream] for part in parts]
        begin_ns = np.concatenate([part.begin_ns for part in parts])
        begin_ns -= begin_ns % stretch_ns
        sent = np.concatenate([part.bytes for part in parts])
        order = np.argsort(begin_ns, kind="stable")
        return cls(np.concatenate(rows), begin_ns, sent, stretch_ns, tuple(number)).take(order)

    def take(self, rows: I64 | Bool) -> Carried:
        """Those in `rows`."""
        return self._replace(stream=self.stream[rows], begin_ns=self.begin_ns[rows], bytes=self.bytes[rows])


def with_others(
    own: Carried, pair: Pair, hosts: tuple[str, str], sides: dict[str, Decoded], *, is_reply: bool
) -> Iterator[Carried]:
    """What the RPC of a pair of `hosts` (client, server) carried one way, as the receiver's capture names them: with all
    that came to the receiver, then with all that left the sender as well, each where there is any."""
    (by, to), (sender, receiver) = hosts, (sides["client"], sides["server"])
    if is_reply:
        (by, to), (sender, receiver) = (to, by), (receiver, sender)
    came = [one for one in _streams(receiver, to) if one.to == to and not (one.is_rpc and one.by == by)]
    if came:
        own = Carried.joined([own, *(one.carried for one in came)])
        yield own
    known = {one.way for one in came}
    left = [one for one in _streams(sender, by) if one.by == by and one.way not in known]
    left = [one for one in left if not (one.is_rpc and one.to == to)]
    if left:
        yield Carried.joined([own, _moved(pair, Carried.joined(one.carried for one in left), is_reply=is_reply)])


class _Stream(NamedTuple):
    way: _Way
    is_rpc: bool
    carried: Carried

    @property
    def by(self) -> str:
        return self.way[0][0]

    @property
    def to(self) -> str:
        return self.way[1][0]


def _streams(side: Decoded, host: str) -> Iterator[_Stream]:
    """What a capture has of each stream from or to a host. RPC is named by the other host, all else by both ends."""
    loads, others, ends = side.details.loads, side.details.others, side.ops.connections
    rpc = {(one.source(way), one.destination(way)) for one in ends for way in (0, 1)}
    for number, rows in of_each(loads.conn.astype(np.int64) * 2 + loads.direction):
        one, direction = ends[number // 2], number % 2
        way = one.source(direction), one.destination(direction)
        if host in (way[0][0], way[1][0]):
            name = way[0][0] if way[1][0] == host else way[1][0]
            yield _Stream(way, True, _carried(name, loads.begin_ns[rows], loads.bytes[rows], loads.stretch_ns))
    for number, rows in of_each(others.stream.astype(np.int64)):
        one = others.streams[number]
        way = (one.sender, one.sender_port), (one.receiver, one.receiver_port)
        if host in (one.sender, one.receiver) and way not in rpc:
            name = " to ".join(f"{address}:{port}" for address, port in way)
            yield _Stream(way, False, _carried(name, others.begin_ns[rows], others.bytes[rows], others.stretch_ns))


def _carried(name: str, begin_ns: I64, sent: I64, stretch_ns: int) -> Carried:
    return Carried(np.zeros(len(sent), dtype=np.int64), begin_ns, sent, stretch_ns, (name,))


def _moved(pair: Pair, left: Carried, *, is_reply: bool) -> Carried:
    """What left the sender, when it came out of the queue: as late as the pair's messages that left next to it."""
    s, c = pair.matched.rows(slice(None))
    if is_reply:
        sent_ns, came_ns = pair.server.t3[s], pair.client.t3[c]
    else:
        sent_ns, came_ns = pair.client.t1[c], pair.server.t1[s]
    order = np.argsort(sent_ns, kind="stable")
    late_ns = (came_ns - sent_ns)[order]
    at = np.searchsorted(sent_ns[order], left.begin_ns + left.stretch_ns // 2)
    begin_ns = left.begin_ns + late_ns[np.minimum(at, len(order) - 1)] + left.stretch_ns // 2
    moved = left._replace(begin_ns=begin_ns - begin_ns % left.stretch_ns)
    return moved.take(np.argsort(moved.begin_ns, kind="stable"))
