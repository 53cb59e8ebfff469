"""What TCP sent again and lost, and how many ops that touched, by direction of each connection.

A block knows of what was sent again in it, whose copies may arrive in the next one: so what was lost is counted of the
sums. Which bytes both captures have, and what the network doubled, is of all packets so far: the latest block knows.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Self

import numpy as np

from nfslat.answer import model
from nfslat.match.connections import Links
from nfslat.model.record import Record
from nfslat.model.tables import Connection, endpoint
from nfslat.results import Correlation
from nfslat.wire.transport import Amount, Caveat, Delivery, Way, deliveries, hit, missing_segments

Key = tuple[str, str, Way]  # ends in the order of their texts, and the direction


class Direction(Record):
    """Sums of one direction of a connection."""

    conn: int  # of the client's, as its decoder numbers them
    ends: tuple[str, str]  # client and server; in any order unless `is_caller_known`
    is_caller_known: bool  # is there a matched op, whose call tells?
    bytes: int
    sent_again: Amount
    arrived_again: Amount
    arrived_late: Amount
    segment_size: int | None
    doubled: int
    ops_hit: int
    caveats: frozenset[Caveat]

    def __add__(self, later: Self) -> Direction:
        """This one, and the same direction in a later block, whose counters are of all packets so far: what is told by
        them, as where events were dropped, replaces the sums."""
        sums = [
            now if Caveat.EVENTS_DROPPED in later.caveats else _sum(before, now)
            for before, now in zip(self._amounts, later._amounts, strict=True)
        ]
        return Direction(
            conn=self.conn,
            ends=later.ends if later.is_caller_known or not self.is_caller_known else self.ends,
            is_caller_known=self.is_caller_known or later.is_caller_known,
            bytes=max(self.bytes, later.bytes),
            sent_again=sums[0],
            arrived_again=sums[1],
            arrived_late=sums[2],
            segment_size=max(self.segment_size or 0, later.segment_size or 0) or None,
            doubled=later.doubled,
            ops_hit=self.ops_hit + later.ops_hit,
            caveats=self.caveats - {Caveat.PARTIAL} | later.caveats,
        )

    @property
    def _amounts(self) -> tuple[Amount, Amount, Amount]:
        return self.sent_again, self.arrived_again, self.arrived_late


class TransportTally(Record):
    """Directions of the TCP connections that both captures show; None where an engine does not say what TCP did."""

    directions: Mapping[Key, Direction] | None = {}

    @classmethod
    def empty(cls) -> Self:
        """The tally of no block at all."""
        return cls()

    @classmethod
    def of(cls, c: Correlation) -> Self:
        """The connections of a block; those that are several on the other side are left out."""
        server, client = c.server.decoded, c.client.decoded
        delivered = deliveries(server, client, _one_to_one(c.matching.links))
        hits = hit(server, client, c.matched)
        if delivered is None or hits is None:
            return cls(None)
        conns = len(client.ops.connections)
        conn = client.ops.conn[c.matched.client]
        touched = {
            way: np.bincount(conn[mask], minlength=conns)
            for way, mask in ((Way.CALL, hits.call), (Way.REPLY, hits.reply))
        }
        # The caller's end of a connection is where its calls come from.
        caller = np.full(conns, -1)
        caller[conn] = client.ops.direction[c.matched.client]
        rows = [
            _direction(
                one,
                client.ops.connections[one.client_conn],
                int(caller[one.client_conn]),
                int(touched[one.way][one.client_conn]),
            )
            for one in delivered
        ]
        return cls({(min(row.ends), max(row.ends), one.way): row for row, one in zip(rows, delivered, strict=True)})

    def __add__(self, later: Self) -> Self:
        """This one, and a later block's."""
        if self.directions is None or later.directions is None:
            return type(self)(None)
        both = dict(self.directions)
        for key, direction in later.directions.items():
            both[key] = both[key] + direction if key in both else direction
        return type(self)(both)

    def rows(self) -> list[model.Transport] | None:
        """A row for each direction, in the order of the client's connections."""
        if self.directions is None:
            return None
        order = sorted(self.directions.items(), key=lambda item: (item[1].conn, item[0][2]))
        return [_row(direction, way) for (_, _, way), direction in order]


def _one_to_one(links: Links) -> dict[int, int]:
    """Server connection -> client connection, of the links that join one of each."""
    of_server, of_client = (
        [np.flatnonzero(side == link) for link in range(links.count)] for side in (links.server, links.client)
    )
    return {int(s[0]): int(c[0]) for s, c in zip(of_server, of_client, strict=True) if len(s) == len(c) == 1}


def _direction(delivery: Delivery, ends: Connection, caller: int, ops_hit: int) -> Direction:
    way = max(caller, 0)
    return Direction(
        conn=delivery.client_conn,
        ends=(endpoint(*ends.source(way)), endpoint(*ends.destination(way))),
        is_caller_known=caller >= 0,
        bytes=delivery.bytes,
        sent_again=delivery.sent_again,
        arrived_again=delivery.arrived_again,
        arrived_late=delivery.arrived_late,
        segment_size=delivery.segment_size,
        doubled=delivery.doubled,
        ops_hit=ops_hit,
        caveats=delivery.caveats,
    )


def _sum(amount: Amount, more: Amount) -> Amount:
    """Segments are not known of the sum where they are not of one of the two."""
    known = None if amount.segments is None or more.segments is None else amount.segments + more.segments
    return Amount(amount.packets + more.packets, known, amount.bytes + more.bytes)


def _row(of: Direction, way: Way) -> model.Transport:
    segments = missing_segments(of.sent_again, of.arrived_again, of.segment_size)
    return model.Transport(
        client=of.ends[0],
        server=of.ends[1],
        way=way.value,
        bytes=of.bytes,
        sent_again=model.TcpAmount(*of.sent_again),
        arrived_again=model.TcpAmount(*of.arrived_again),
        arrived_late=model.TcpAmount(*of.arrived_late),
        lost_bytes=max(of.sent_again.bytes - of.arrived_again.bytes, 0),
        lost_segments=None if segments is None else max(segments, 0),
        doubled=of.doubled,
        ops_hit=of.ops_hit,
        caveats=sorted(caveat.value for caveat in of.caveats),
    )
