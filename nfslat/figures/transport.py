"""A `Correlation` -> the rows of the report on what TCP sent again and lost, and which ops that touched."""

from __future__ import annotations

import numpy as np

from nfslat.answer import model
from nfslat.match.connections import Links
from nfslat.model.tables import Connection, endpoint
from nfslat.results import Correlation
from nfslat.wire.transport import Amount, Delivery, Way, deliveries, hit


def transport_rows(c: Correlation) -> list[model.Transport] | None:
    """One row a direction of each TCP connection that both captures show, in the order of the client's connections;
    None where an engine does not say what TCP did. Connections that are several on the other side are left out."""
    server, client = c.server.decoded, c.client.decoded
    found = deliveries(server, client, _one_to_one(c.matching.links))
    hits = hit(server, client, c.matched)
    if found is None or hits is None:
        return None
    conns = len(client.ops.connections)
    conn = client.ops.conn[c.matched.client]
    touched = {
        way: np.bincount(conn[mask], minlength=conns) for way, mask in ((Way.CALL, hits.call), (Way.REPLY, hits.reply))
    }
    # The caller's end of a connection is where its calls come from.
    caller = np.zeros(conns, dtype=np.int64)
    caller[conn] = client.ops.direction[c.matched.client]
    return [
        _row(
            one,
            client.ops.connections[one.client_conn],
            int(caller[one.client_conn]),
            int(touched[one.way][one.client_conn]),
        )
        for one in sorted(found, key=lambda one: (one.client_conn, one.way))
    ]


def _one_to_one(links: Links) -> dict[int, int]:
    """Server connection -> client connection, of the links that join one of each."""
    of_server, of_client = (
        [np.flatnonzero(side == link) for link in range(links.count)] for side in (links.server, links.client)
    )
    return {int(s[0]): int(c[0]) for s, c in zip(of_server, of_client, strict=True) if len(s) == len(c) == 1}


def _row(one: Delivery, ends: Connection, way: int, ops_hit: int) -> model.Transport:
    return model.Transport(
        client=endpoint(*ends.source(way)),
        server=endpoint(*ends.destination(way)),
        way=one.way.value,
        bytes=one.bytes,
        sent_again=_amount(one.sent_again),
        arrived_again=_amount(one.arrived_again),
        arrived_late=_amount(one.arrived_late),
        lost_bytes=one.lost_bytes,
        lost_segments=one.lost_segments,
        doubled=one.doubled,
        ops_hit=ops_hit,
        caveats=sorted(caveat.value for caveat in one.caveats),
    )


def _amount(one: Amount) -> model.TcpAmount:
    return model.TcpAmount(one.packets, one.segments, one.bytes)
