"""A `Correlation` of several hosts -> what of it passes between two of them, with nothing else in its sides."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from typing import NamedTuple

import numpy as np
from msgspec import structs

from nfslat.clock.clock import Clock
from nfslat.decode.parts import Part, Parts
from nfslat.figures.whatif import load_of, whole_of
from nfslat.host_pairs import HostPairs, ends_of, is_at
from nfslat.inflight.shared import ServerShare, SharedServer
from nfslat.kernels.order import side_by_side
from nfslat.match.match import Matching
from nfslat.model.protocol import NULL
from nfslat.model.tables import I64, Connection, Matched, Ops
from nfslat.peer.inferred import Inferred
from nfslat.results import Analysis, Side, one_side


class PairSides(NamedTuple):
    """Tables of one pair of hosts. Rows are counted anew; `rows` and `conns` are those of the whole, at the server."""

    server: Side
    client: Side
    matching: Matching
    matched: Matched
    clock: Clock  # that of the whole
    inferred: Inferred | None
    missing: Mapping[str, I64]
    rows: I64
    conns: I64


class SplitSides:
    """All tables of both sides, ordered by pair once."""

    def __init__(self, c: Analysis, pairs: HostPairs) -> None:
        """Of all pairs."""
        self._c, count = c, len(pairs.pairs)
        self._server, self._client = (
            Parts(side.decoded, side.ops.spread(of_class), _of_connections(side.ops, of_class), count)
            for side, of_class in ((c.server, pairs.of_server), (c.client, pairs.of_client))
        )
        self._matched = self._grouped(c.matched, count)
        every = c.matching.matched
        self._every = self._matched if every is c.matched else self._grouped(every, count)

    def _grouped(self, matched: Matched, count: int) -> tuple[Matched, list[slice]]:
        """Matched ops in their parts' row numbers, side by side by pair, and where those of each are."""
        number = self._client.of_op[matched.client]
        number = np.where((number == NULL) | (number != self._server.of_op[matched.server]), count, number)
        order, spans = side_by_side(len(matched), count + 1, lambda at: number[at])
        new_rows = (
            part.new_row[rows[order]].astype(np.int32)
            for part, rows in ((self._server, matched.server), (self._client, matched.client))
        )
        return Matched(*new_rows), spans

    def pair(self, number: int) -> PairSides:
        """One of the pairs."""
        c, parts = self._c, (self._server.part(number), self._client.part(number))
        matched, every = (rows.take(spans[number]) for rows, spans in (self._matched, self._every))
        of_server, of_client = parts
        ends = (of_server.rows, of_client.rows), (of_server.conns, of_client.conns)
        return PairSides(
            _side(c.server, of_server),
            _side(c.client, of_client),
            c.matching.of_part(every, *ends, self._client.new_row),
            matched,
            c.clock.of_rows(of_client.rows),
            None if c.inferred is None else c.inferred.take(of_client.rows),
            {name: c.missing_calls[name][part.conns] for name, part in zip(("server", "client"), parts, strict=True)},
            of_server.rows,
            of_server.conns,
        )


class SplitServers:
    """What each of the servers did for all its clients, those included of whom nothing is compared."""

    def __init__(self, c: Analysis) -> None:
        """A server that is the only one `c` knows already."""
        self._c, self._hosts = c, c.inflight.hosts
        self._number = {address: at for at, host in enumerate(self._hosts) for address in host}
        self._known: dict[int, ServerShare] = {}  # what `c` holds of each

    @cached_property
    def _parts(self) -> Parts:
        ops = self._c.server.ops
        of_class = np.array([self._number.get(server, NULL) for _, server in ends_of(ops)], dtype=np.int64)
        return Parts(self._c.server.decoded, ops.spread(of_class), _of_connections(ops, of_class), len(self._hosts))

    def _whole(self, number: int) -> ServerShare:
        c, host = self._c, self._hosts[number]
        if len(self._hosts) == 1:
            return whole_of(c)
        part = self._parts.part(number)
        side = one_side(_side(c.server, part), c.missing_calls["server"][part.conns])
        compared = side.compared & side.ops.spread(is_at(side.ops, host))
        rows = np.where(self._parts.of_op == number, self._parts.new_row, NULL)
        conns = np.full(len(c.server.ops.connections), NULL)
        conns[part.conns] = np.arange(len(part.conns))
        at = np.flatnonzero(rows[c.matched.server] != NULL)
        server = SharedServer(side._replace(compared=compared, servers=(host,)))
        return ServerShare(server, rows, conns, lambda: load_of(c, self._known[number], at))

    def share(self, address: str, rows: I64, conns: I64) -> ServerShare:
        """Of the client whose ops and connections at the server are these."""
        number = self._number[address]
        if number not in self._known:
            self._known[number] = self._whole(number)
        whole = self._known[number]
        return whole._replace(rows=whole.rows[rows], conns=whole.conns[conns])


def _side(side: Side, part: Part) -> Side:
    return structs.replace(side, decoded=part.decoded, reasons=side.reasons[part.rows])


def _of_connections(ops: Ops, of_class: I64) -> I64:
    """The part of each connection; one that has no op goes with others of its hosts."""
    out = np.full(len(ops.connections), NULL, dtype=np.int64)
    known = np.flatnonzero(of_class != NULL)[::-1]  # the pair with most ops last, so that it stays
    by_number = known[np.argsort(-of_class[known], kind="stable")]
    out[ops.classes.conn[by_number]] = of_class[by_number]
    by_hosts = {_hosts(ops.connections[conn]): int(out[conn]) for conn in np.flatnonzero(out != NULL).tolist()}
    for conn in np.flatnonzero(out == NULL).tolist():
        out[conn] = by_hosts.get(_hosts(ops.connections[conn]), NULL)
    return out


def _hosts(ends: Connection) -> frozenset[str]:
    return frozenset((ends.addr_a, ends.addr_b))
