"""Instants of the server's clock -> the client's, on which all pictures stand."""

from __future__ import annotations

import numpy as np

from nfslat.clock.clock import ServerTimes
from nfslat.model.tables import I64, Bool
from nfslat.results import Correlation


def ops_on_client(c: Correlation, chosen: Bool) -> tuple[I64, I64]:
    """Of the server's ops that `chosen` masks: when the call had come, and the reply began, on the client's clock."""
    ops, clock = c.server.ops, c.clock
    rows = None if chosen.all() else np.flatnonzero(chosen)
    instants = (ops.t1, ops.t2) if rows is None else (ops.t1[rows], ops.t2[rows])
    if not clock.fits:
        return instants[0] - clock.rough_ns, instants[1] - clock.rough_ns
    times = ServerTimes(clock, c.matching.matched, len(ops), len(c.client.ops))
    rows = np.arange(len(ops)) if rows is None and len(clock.segments) > 1 else rows
    nothing = np.zeros(0, dtype=np.int64)
    first, last = (times.on_client_ns(nothing if rows is None else rows, ns) for ns in instants)
    return first, last


def on_client(c: Correlation, server_ns: I64) -> I64:
    """Any instants, by the clock as it was at the matched op next to each."""
    if not c.clock.fits:
        return server_ns - c.clock.rough_ns
    if len(c.clock.segments) == 1:
        return c.clock.segments[0].on_client(server_ns)
    known = c.server.ops.t1[c.matched.server]
    order = np.argsort(known, kind="stable")
    near = np.minimum(np.searchsorted(known[order], server_ns), len(order) - 1)
    return c.clock.on_client(c.matched.client[order[near]].astype(np.int64), server_ns)[0]
