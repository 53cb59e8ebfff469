"""Ops of the captures that are known of and not shown -> means with them, for the verdict."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from nfslat.findings.layers import Layers
from nfslat.findings.unseen import WithUnseen
from nfslat.model.tables import I64, Miss
from nfslat.model.units import to_ms
from nfslat.results import Analysis

_MOST_OF = 0.9  # of the ops of a capture: then the others may be of these, too


def with_unseen(c: Analysis, mean: Layers, rows: I64) -> WithUnseen | None:
    """`mean`, over the matched ops `rows`, with the ops that the captures do not show, and those that only one does;
    None where they show all that they know of.

    The ops that are not shown are of the population as far as nothing else is known of them.
    """
    if all(one is None for one in c.unseen.values()):
        return None
    of_all = len(rows) >= _MOST_OF * len(c.matched)
    seen_ms = mean.server_ms + mean.network_ms
    wire = _Means.of(c, "client", len(rows), seen_ms, of_all=of_all)
    server = _Means.of(c, "server", len(rows), mean.server_ms, of_all=of_all)
    ops = max(wire.ops, server.ops)
    # What is not shown was on the network for 0 ms or more.
    most_ms = wire.bounds_ms[1] - mean.network_ms * len(rows) / ops
    server_ms = (min(server.bounds_ms[0], most_ms), min(server.bounds_ms[1], most_ms))
    share_of_time = [max(1 - len(rows) * seen_ms / (wire.ops * one), 0.0) if one > 0 else 0.0 for one in wire.bounds_ms]
    return WithUnseen(
        ops - len(rows), 1 - len(rows) / ops, (share_of_time[0], share_of_time[1]), mean, wire.bounds_ms, server_ms
    )


class _Means(NamedTuple):
    """Of all ops of a side: how many, and their mean SRT, at least and at most."""

    ops: int
    bounds_ms: tuple[float, float]

    @classmethod
    def of(cls, c: Analysis, name: str, count: int, seen_ms: float, *, of_all: bool) -> _Means:
        """`count` and `seen_ms` are of those that both captures show."""
        side, unseen = (c.client, c.unseen[name]) if name == "client" else (c.server, c.unseen[name])
        miss = Miss.NOT_CAPTURED_AT_SERVER if name == "client" else Miss.NOT_CAPTURED_AT_CLIENT
        at = np.flatnonzero(c.compared(name) & (c.missed(name) == miss))
        ops = side.ops
        spans = ops.t3[at] - ops.t0[at] if name == "client" else ops.t2[at] - ops.t1[at]
        others_ms, others = float(to_ms(spans.sum())) if len(at) else 0.0, len(at)
        low_ms = high_ms = 0.0
        if unseen is not None:
            low_ms, high_ms, others = float(to_ms(unseen.low_ns)), float(to_ms(unseen.high_ns)), others + unseen.ops
        every, all_ms = max(count + others, 1), count * seen_ms
        if of_all:
            return cls(every, ((all_ms + others_ms + low_ms) / every, (all_ms + others_ms + high_ms) / every))
        return cls(every, (all_ms / every, (all_ms + others_ms + high_ms) / max(count, 1)))
