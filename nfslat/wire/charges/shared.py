"""What else went in a direction, of other hosts' RPC and of streams without any -> what two hosts' own RPC shared.

A receiver's capture has all that came to it. What its sender sent elsewhere is in that one's capture alone; but where
all goes through one queue, what it had sent up to one of the pair's messages has come out when that message comes.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple

import numpy as np

from nfslat.model.decoded import Decoded
from nfslat.model.protocol import NULL32, op_name
from nfslat.model.tables import I64, Bool, Ops
from nfslat.wire.charges.claims import of_each

_HEADERS = 132  # bytes of an NFSv3 READ's reply without the data (RFC 5531, RFC 1813); others have about as many
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


def came(own: Carried, by: str, to: str, receiver: Decoded) -> Carried | None:
    """All that came to the host `to`, by its capture, with the RPC that came `by` another; None where that is all."""
    came = [talk for talk in _streams(receiver, to) if talk.way[1][0] == to]
    more = [talk.carried for talk in came if not (talk.is_rpc and talk.way[0][0] == by)]
    return Carried.joined([own, *more]) if more else None


def left(by: str, to: str, sender: Decoded, *, is_reply: bool) -> tuple[Carried, Carried] | None:
    """What left the host `by`, by its capture: messages and other streams at their own instants; and all that was
    carried, of messages that the capture does not show as well. The RPC to the host `to` has no name. None where it
    sent nothing else."""
    ops = sender.ops
    ends = [(conn.source(way)[0], conn.destination(way)[0]) for conn in ops.connections for way in (0, 1)]
    names = dict.fromkeys(["", *(other for source, other in ends if source == by and other != to)])
    number = {name: at for at, name in enumerate(names)} | {to: 0}
    of_way = np.array([number.get(other, -1) if source == by else -1 for source, other in ends], dtype=np.int64)
    stream = of_way[ops.conn.astype(np.int64) * 2 + (ops.direction ^ is_reply)]
    rows = np.flatnonzero(stream >= 0)
    sent_ns = (ops.t3 if is_reply else ops.t1)[rows]
    parts = [Carried(stream[rows], sent_ns, payload_bytes(ops, rows, is_reply=is_reply), 1, tuple(names))]
    carried = []
    for talk in _streams(sender, by):
        if talk.way[0][0] != by:
            continue
        is_own = talk.is_rpc and talk.way[1][0] == to
        carried.append(talk.carried._replace(names=("",)) if is_own else talk.carried)
        if not talk.is_rpc:
            half_ns = talk.carried.stretch_ns // 2
            parts.append(talk.carried._replace(begin_ns=talk.carried.begin_ns + half_ns, stretch_ns=1))
    messages = Carried.joined(parts)
    return (messages, Carried.joined(carried)) if len(messages.names) > 1 else None


def payload_bytes(ops: Ops, rows: I64, *, is_reply: bool) -> I64:
    """Of replies to READs, or of WRITE calls, the data; of others next to nothing."""
    name = "READ" if is_reply else "WRITE"
    is_data = np.array([op_name(*kind[:2], kind.op) == name for kind in ops.kinds], dtype=np.bool_)[ops.kind[rows]]
    return np.where(is_data & (ops.size[rows] != NULL32), ops.size[rows].astype(np.int64), 0) + _HEADERS


class _Stream(NamedTuple):
    way: _Way
    is_rpc: bool
    carried: Carried


def _streams(side: Decoded, host: str) -> Iterator[_Stream]:
    """What a capture has of each stream from or to a host. RPC is named by the other host, all else by both ends."""
    loads, others, ends = side.details.loads, side.details.others, side.ops.connections
    rpc = {(conn.source(way), conn.destination(way)) for conn in ends for way in (0, 1)}
    for number, rows in of_each(loads.conn.astype(np.int64) * 2 + loads.direction):
        conn, direction = ends[number // 2], number % 2
        way = conn.source(direction), conn.destination(direction)
        if host in (way[0][0], way[1][0]):
            name = way[0][0] if way[1][0] == host else way[1][0]
            yield _Stream(way, True, _carried(name, loads.begin_ns[rows], loads.bytes[rows], loads.stretch_ns))
    for number, rows in of_each(others.stream.astype(np.int64)):
        stream = others.streams[number]
        way = (stream.sender, stream.sender_port), (stream.receiver, stream.receiver_port)
        if host in (stream.sender, stream.receiver) and way not in rpc:
            name = " to ".join(f"{address}:{port}" for address, port in way)
            yield _Stream(way, False, _carried(name, others.begin_ns[rows], others.bytes[rows], others.stretch_ns))


def _carried(name: str, begin_ns: I64, sent: I64, stretch_ns: int) -> Carried:
    return Carried(np.zeros(len(sent), dtype=np.int64), begin_ns, sent, stretch_ns, (name,))
