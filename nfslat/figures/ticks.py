"""An `Analysis` of stamps that tick slowly -> how well its means are known."""

from __future__ import annotations

import math

import numpy as np

from nfslat.clock.tick import FINE, mean_error_ns
from nfslat.findings.coarse import Ticks
from nfslat.model.thresholds import Threshold
from nfslat.model.units import to_ms
from nfslat.results import Analysis


def ticks_of(c: Analysis) -> Ticks | None:
    """None where stamps bear more than means. Of one capture the error of the path adds to that of its own mean."""
    if not c.coarse_ns:
        return None
    ops = len(c.matched)
    server = mean_error_ns(c.ticks.get("server", FINE), c.server_srt_ns, c.server.ops.t0[c.matched.server])
    client = mean_error_ns(c.ticks.get("client", FINE), c.client_srt_ns, c.client.ops.t0[c.matched.client])
    network = math.hypot(server, client)
    apart = math.hypot(2 * server, client)  # what the network adds is the client's less the server's
    if c.inferred is not None:
        near, network = network, float(c.inferred.doubt_ns[c.matched.client].mean())
        far = math.hypot(near, network)
        server, client = (far, near) if c.inferred.side == "server" else (near, far)
        apart = math.hypot(near, 2 * network if c.inferred.side == "server" else network)
    client_ms, server_ms, network_ms, apart_ms = (float(to_ms(ns)) for ns in (client, server, network, apart))
    is_alone = c.inferred is not None
    return Ticks(to_ms(c.coarse_ns), ops, client_ms, server_ms, network_ms, apart_ms, is_alone)


def objective_error_ms(c: Analysis, asked: Threshold) -> float:
    """By so much a figure may be off where the client's stamps tick slowly: any duration by a tick; -1: by nothing."""
    tick = c.ticks.get("client" if c.inferred is None else c.inferred.near, FINE)
    if not tick.ns:
        return -1.0
    if asked.figure != "mean":
        return to_ms(tick.ns)
    rows = np.arange(len(c.matched)) if asked.op == "all" else c.rows_of({asked.op})
    begins_ns = c.client.ops.t0[c.matched.client[rows]]
    return to_ms(mean_error_ns(tick, c.client_srt_ns[rows], begins_ns))
