"""Ops of the captures that are known of and not shown -> means with them, for the verdict."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from nfslat.findings.layers import Layers
from nfslat.findings.unseen import WithUnseen
from nfslat.model.tables import I64
from nfslat.model.units import to_ms
from nfslat.results import Analysis
from nfslat.tally.unseen import UnseenTally

_MOST_OF = 0.9  # of the ops of a capture: then the others may be of these, too


def with_unseen(c: Analysis, mean: Layers, rows: I64) -> WithUnseen | None:
    """`mean`, over the matched ops `rows`, with the ops that the captures do not show, and those that only one does;
    None where they show all that they know of.

    The ops that are not shown are of the population as far as nothing else is known of them.
    """
    if all(known is None for known in c.unseen.values()):
        return None
    tallies = {name: UnseenTally.of(c, name) for name in ("server", "client")}
    return reckoned(tallies, mean, len(rows), of_all=len(rows) >= _MOST_OF * len(c.matched))


def reckoned(tallies: Mapping[str, UnseenTally], mean: Layers, count: int, *, of_all: bool = True) -> WithUnseen:
    """The same of `count` ops; `of_all`: the others may be of these, too."""
    seen_ms = mean.server_ms + mean.network_ms
    wire = _Means.of(tallies["client"], count, seen_ms, of_all=of_all)
    server = _Means.of(tallies["server"], count, mean.server_ms, of_all=of_all)
    if mean.client_ms is not None and wire.bounds_ms[0] <= mean.total_ms:
        # The application waited for the hidden ops as well, and for each at least as long as the wire took.
        wire = wire._replace(bounds_ms=(wire.bounds_ms[0], min(wire.bounds_ms[1], mean.total_ms)))
    ops = max(wire.ops, server.ops)
    # What is not shown was on the network for 0 ms or more.
    most_ms = wire.bounds_ms[1] - mean.network_ms * count / ops
    server_ms = (min(server.bounds_ms[0], most_ms), min(server.bounds_ms[1], most_ms))
    share_of_time = [max(1 - count * seen_ms / (wire.ops * ms), 0.0) if ms > 0 else 0.0 for ms in wire.bounds_ms]
    return WithUnseen(
        ops - count, 1 - count / ops, (share_of_time[0], share_of_time[1]), mean, wire.bounds_ms, server_ms
    )


class _Means(NamedTuple):
    """Of all ops of a side: how many, and their mean SRT, at least and at most."""

    ops: int
    bounds_ms: tuple[float, float]

    @classmethod
    def of(cls, tally: UnseenTally, count: int, seen_ms: float, *, of_all: bool) -> _Means:
        """`count` and `seen_ms` are of those that both captures show."""
        others_ms, others = float(to_ms(tally.others_ns)), tally.others
        low_ms = high_ms = 0.0
        if (unseen := tally.sums) is not None:
            low_ms, high_ms, others = float(to_ms(unseen.low_ns)), float(to_ms(unseen.high_ns)), others + unseen.ops
        every, all_ms = max(count + others, 1), count * seen_ms
        if of_all:
            return cls(every, ((all_ms + others_ms + low_ms) / every, (all_ms + others_ms + high_ms) / every))
        return cls(every, (all_ms / every, (all_ms + others_ms + high_ms) / max(count, 1)))
