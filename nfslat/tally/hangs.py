"""Connections that hang, of one capture or of two that are compared."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from functools import cached_property
from typing import Self

import numpy as np

from nfslat.answer import model
from nfslat.model.decoded import Decoded
from nfslat.model.details import Awaits, Cut, Hangs
from nfslat.model.protocol import NULL
from nfslat.model.record import Record
from nfslat.model.tables import I32, Connection, endpoint, hosts
from nfslat.model.units import iso, to_ms
from nfslat.results import Correlation, Side
from nfslat.select import Filters
from nfslat.wire.arrivals import Arrival, AtOneEnd, arrival
from nfslat.wire.hanging import hanging, to_server, unanswered, until
from nfslat.wire.transport import knows_tcp

MOST_HANGS = 10_000  # that are listed
_CUT = {
    Cut.NOTHING: "nothing",
    Cut.OWN_RESET: "own-reset",
    Cut.RESET: "reset",
    Cut.NEXT_CONNECTION: "next-connection",
}


class HangTally(Record):
    """What hangs, what still does first and the longest first; None where an engine does not say what TCP did."""

    hangs: Sequence[model.Hang] | None = ()

    @classmethod
    def empty(cls) -> Self:
        """The tally of no block at all."""
        return cls()

    @classmethod
    def of(cls, c: Side | Correlation, filters: Filters) -> Self:
        """What hangs in one capture, or in two; of a connection that both show each end's are taken from its own."""
        if isinstance(c, Side):
            own = _End.of("capture", c)
            if not knows_tcp(own.side):
                return cls(None)
            rows = [row for row in own.rows if own.is_asked_for(row, filters, own.side.first_ns, 0)]
            return cls(_listed(own.hang(row, None) for row in rows))
        server, client = _End.of("server", c.server), _End.of("client", c.client)
        if not (knows_tcp(server.side) and knows_tcp(client.side)):
            return cls(None)
        links = c.matching.links
        # About: tries are far from each other.
        ahead_ns = c.clock.segments[-1].theta_ns if c.clock.fits else c.clock.rough_ns
        return cls(
            _listed(
                own.hang(row, came)
                for own, other, of_both, ahead in (
                    (server, client, (links.server, links.client), -ahead_ns),
                    (client, server, (links.client, links.server), ahead_ns),
                )
                for row, came in _of_end(own, other, of_both, ahead)
                if own.is_asked_for(row, filters, client.side.first_ns, ahead if own is server else 0)
            )
        )

    def __add__(self, later: Self) -> Self:
        """This one, and a later block's."""
        if self.hangs is None or later.hangs is None:
            return type(self)(None)
        return type(self)(_listed([*self.hangs, *later.hangs]))

    def rows(self) -> list[model.Hang] | None:
        """A row for each that is listed."""
        return None if self.hangs is None else list(self.hangs)


def _listed(hangs: Iterable[model.Hang]) -> tuple[model.Hang, ...]:
    return tuple(sorted(hangs, key=lambda hang: (hang.cut != "nothing", -hang.ms))[:MOST_HANGS])


def _of_end(own: _End, other: _End, links: tuple[I32, I32], ahead_ns: int) -> Iterator[tuple[int, Arrival | None]]:
    """Rows of `Hangs`, and what of their tries came to the other end, whose clock is ahead by so much."""
    compared = {_hosts(own.connections[row]) for row in np.flatnonzero(links[0] != NULL).tolist()}
    shown = hosts(other.connections)
    for row in own.rows:
        conn = int(own.hangs.conn[row])
        is_linked = links[0][conn] != NULL
        ends = _hosts(own.connections[conn])
        if own.waiter(row) == own.name if is_linked else ends in compared or ends <= shown:
            way = _way(own, other, row, links) if is_linked else None
            is_known = way is not None if is_linked else ends <= shown
            yield row, arrival(own.at, row, other.at, way, ahead_ns) if is_known else None


class _End(Record, eq=False, dict=True):
    """One capture, and what hangs in it."""

    name: str
    side: Decoded
    ran_ns: tuple[int, int]

    @classmethod
    def of(cls, name: str, side: Side) -> _End:
        """What was decoded may be of some hosts alone: then the files say how long the capture is."""
        d = side.decoded
        files = () if d.directions is not None else side.source.files
        begins, ends = [file.first_ns for file in files], [file.last_ns for file in files]
        return cls(name, d, (min([d.first_ns, *begins]), max([d.last_ns, *ends])))

    @property
    def hangs(self) -> Hangs:
        return self.side.details.hangs

    @property
    def connections(self) -> tuple[Connection, ...]:
        return self.side.ops.connections

    @cached_property
    def rows(self) -> list[int]:
        return hanging(self.side, self.ran_ns[1])

    @cached_property
    def at(self) -> AtOneEnd:
        return AtOneEnd(self.side, self.ran_ns)

    @cached_property
    def to_server(self) -> list[int]:
        ways: list[int] = to_server(self.side).tolist()
        return ways

    def waiter(self, row: int) -> str:
        """Whose end waits."""
        is_client = self.hangs.direction[row] == self.to_server[self.hangs.conn[row]]
        return "client" if is_client else "server"

    def until_ns(self, row: int) -> int:
        """When the wait ended, or the capture."""
        return until(self.side, row, self.ran_ns[1])

    def is_asked_for(self, row: int, filters: Filters, first_ns: int, to_client_ns: int) -> bool:
        """Do the filters leave it? Their times are the client's, whose capture begins at `first_ns`."""
        conn = int(self.hangs.conn[row])
        client, server = (
            self.connections[conn].source(way) for way in (self.to_server[conn], 1 - self.to_server[conn])
        )
        begin_ns, end_ns = int(self.hangs.since_ns[row]) + to_client_ns, self.until_ns(row) + to_client_ns
        return (
            (not filters.clients or client[0] in filters.clients)
            and (not filters.servers or server[0] in filters.servers)
            and (not filters.ports or server[1] in filters.ports)
            and (filters.start is None or end_ns >= filters.start.on_clock(first_ns))
            and (filters.end is None or begin_ns < filters.end.on_clock(first_ns))
        )

    def hang(self, row: int, came: Arrival | None) -> model.Hang:
        """The row of the report."""
        hangs = self.hangs
        ends, way = self.connections[hangs.conn[row]], int(hangs.direction[row])
        since_ns, heard_ns = int(hangs.since_ns[row]), int(hangs.heard_ns[row])
        return model.Hang(
            capture=self.name,
            awaits="window" if hangs.awaits[row] == Awaits.WINDOW else "ack",
            side=self.waiter(row),
            waiter=endpoint(*ends.source(way)),
            other=endpoint(*ends.destination(way)),
            since=iso(since_ns),
            ms=to_ms(max(self.until_ns(row) - since_ns, 0)),
            tries=int(hangs.tries[row]),
            last_try_ms=to_ms(max(int(hangs.last_ns[row]) - since_ns, 0)),
            frame=int(hangs.frame[row]),
            bytes=int(hangs.bytes[row]),
            heard=None if heard_ns == NULL else iso(heard_ns),
            cut=_CUT[Cut(hangs.cut[row])],
            calls=unanswered(self.side, row, self.until_ns(row)),
            compared=None if came is None else came.tries,
            arrived=None if came is None else came.arrived,
            acked=None if came is None else came.acked,
        )


def _hosts(ends: Connection) -> frozenset[str]:
    return frozenset((ends.addr_a, ends.addr_b))


def _way(own: _End, other: _End, row: int, links: tuple[I32, I32]) -> tuple[int, int] | None:
    """Connection and direction in the other capture; None where its link joins several."""
    conn, direction = int(own.hangs.conn[row]), int(own.hangs.direction[row])
    here, there = (np.flatnonzero(side == links[0][conn]) for side in links)
    if len(here) != 1 or len(there) != 1:
        return None
    to = int(there[0])
    ends, ends_there = own.connections[conn], other.connections[to]
    if ends.key == ends_there.key:
        return to, direction if ends.source(0) == ends_there.source(0) else 1 - direction
    return to, other.to_server[to] if own.waiter(row) == "client" else 1 - other.to_server[to]
