"""An `Analysis` -> times in which no request could leave its client, and what they may have made: facts."""

from __future__ import annotations

import numpy as np

from nfslat.findings.facts import KeptAbove
from nfslat.model.causes import Cause, code
from nfslat.model.protocol import NULL
from nfslat.model.tables import I64, Bool
from nfslat.model.units import to_ms, utc
from nfslat.results import Analysis
from nfslat.wire.above import Stops, Why, kept_above
from nfslat.wire.charges.silences import silences
from nfslat.wire.connecting import Connecting, Fate, There, connecting, ways_to_servers
from nfslat.wire.reconnects import sent_on_a_new_connection, without_connection

_SILENT = {
    Why.WINDOW: (Cause.ZERO_WINDOW, Cause.RECEIVE_WINDOW),
    # Behind these alone nothing else goes out: what a fast retransmit takes is one round trip, in which data go on.
    Why.LOSS: (Cause.RTO, Cause.TAIL_LOSS_PROBE),
}


def sessions_open(c: Analysis, rows: I64, busy: float) -> float | None:
    """Requests that the application has open on average from the first to the last of the matched ops in `rows`.

    `busy` is that number over the time in which any op is in flight (`nfslat.evidence.known.rate_per_s`). Nothing in
    flight is just what times look like in which requests are kept above the wire.
    """
    ops, mine = c.client.ops, c.matched.client[rows]
    span_ns = int(ops.t3[mine].max() - ops.t0[mine].min()) if len(rows) else 0
    return busy * c.inflight.client.levels.busy_ns / span_ns if span_ns else None


def sent_anew(c: Analysis) -> Bool:
    """Mask of the matched ops whose call was sent on a new connection, when the one before had ended: also where no
    capture shows that it was, and their answer came on a connection that is younger than they are."""
    decoded = c.sender.decoded
    ops, tcp = decoded.ops, c.client.decoded.details.tcp
    anew = sent_on_a_new_connection(ops, decoded.loose, decoded.details)
    conns, _, stood = without_connection(ops, decoded.loose, tcp, c.sender.forward)
    for conn, stands_ns in zip(conns.tolist(), stood.tolist(), strict=True):
        anew |= (ops.conn == conn) & (ops.t0 < stands_ns) & (ops.t3 >= stands_ns)
    return anew[c.matched.client if c.sender is c.client else c.matched.server]


def times_kept_above(c: Analysis, rows: I64, sessions: float | None, opened: Connecting) -> dict[str, KeptAbove]:
    """By what kept requests in the client (`Why`); means are over the matched ops in `rows`.

    `sessions` is `sessions_open`; None where that is not known. `opened` is `connecting_of`.
    """
    side = c.client
    calls = side.forward
    details = side.decoded.details
    sender = c.sender
    conn, since, until = without_connection(sender.ops, sender.decoded.loose, details.tcp, sender.forward)
    of_it = until > side.decoded.first_ns  # of a stretch what was over before it is another one's
    stops = [Stops(Why.NO_CONNECTION, conn[of_it], since[of_it], until[of_it])]
    stops.append(Stops(Why.CONNECTING, opened.conn, opened.since_ns, opened.until_ns))
    if c.charges is not None:
        pauses = [(one.begin_ns, one.end_ns) for one in c.charges.pauses if one.side == "client"]
        begin, end = np.array(pauses, dtype=np.int64).reshape(-1, 2).T.copy()
        stops.append(Stops(Why.HOST_PAUSE, np.full(len(pauses), NULL, dtype=np.int64), begin, end))
        stops += _silent(c, calls)
    found = {}
    for why, kept in kept_above(side.ops, calls, stops, sessions).items():
        long = kept.end_ns - kept.begin_ns
        at = int(np.argmax(long))
        found[why.value] = KeptAbove(
            count=len(long),
            total_ms=to_ms(int(long.sum())),
            longest_ms=to_ms(int(long[at])),
            at=utc(int(kept.begin_ns[at]), digits=3),
            above_wire_ms=to_ms(int(kept.waits_ns.sum()) / max(len(rows), 1)),
        )
    return found


def connecting_of(c: Analysis) -> Connecting:
    """Connections whose first SYN was not answered. A capture of the server alone shows only what it did not answer."""
    client, server = c.client.decoded, c.server.decoded
    there = None
    if c.inferred is None:
        links = c.matching.links.server, c.matching.links.client
        there = There(server.details.tcp, links, c.clock.ahead_at_end_ns, server.last_ns)
    tcp = client.details.tcp
    to_server = ways_to_servers(client.ops, tcp, client.ops.ways(c.client.forward))
    opened = connecting(tcp, to_server, there, client.last_ns)
    if c.inferred is not None and c.inferred.near == "server":
        return opened._replace(fate=np.where(opened.fate == Fate.UNKNOWN, Fate.IN_SERVER, opened.fate))
    return opened


def _silent(c: Analysis, calls: Bool) -> list[Stops]:
    """Pauses of the client's TCP, with data to send, that the server's window made, or data that were lost."""
    found = silences(c.client.decoded, c.server.decoded)
    of_calls = np.isin(found.way, c.client.ops.ways(calls)) & (found.pauses.begin_ns != NULL)
    stops = []
    for why, causes in _SILENT.items():
        pauses = found.pauses.take(of_calls & np.isin(found.cause, [code(one) for one in causes]))
        stops.append(Stops(why, pauses.conn.astype(np.int64), pauses.begin_ns, pauses.end_ns))
    return stops
