"""What is said of each pair of hosts -> a row for each, and causes and verdict that say of whom they are."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from msgspec import structs

from nfslat.answer import model
from nfslat.findings.parts import SHARE_OF_NEARLY_ALL
from nfslat.host_pairs import HostPair, HostPairs
from nfslat.model.tables import I64
from nfslat.model.units import to_ms
from nfslat.results import Analysis

FEW = 100  # ops of a pair, of which nothing is said by themselves
MOST = 32  # pairs that are looked at by themselves, those with most time
_TIMES_AS_SLOW = 2.0  # as all ops: a pair that stands out, however little of the time it has


def numbers_of(c: Analysis, pairs: HostPairs) -> I64:
    """The pair of each matched op."""
    return c.client.ops.spread(pairs.of_client)[c.matched.client]


def plain_rows(c: Analysis, pairs: Sequence[HostPair], numbers: I64) -> list[model.HostPair]:
    """Of each pair, in their order; nothing is said of it."""
    count = len(pairs)
    ops = np.bincount(numbers, minlength=count)
    client, server = (np.bincount(numbers, ns, minlength=count) for ns in (c.client_srt_ns, c.server_srt_ns))
    whole_ns = max(float(c.client_srt_ns.sum()), 1.0)
    return [
        model.HostPair(
            client=one.client,
            server=one.server,
            ops=int(ops[at]),
            time_share=float(client[at]) / whole_ns,
            client_ms=to_ms(float(client[at]) / int(ops[at])),
            server_ms=to_ms(float(server[at]) / int(ops[at])),
            network_ms=to_ms(float(client[at] - server[at]) / int(ops[at])),
            theta_ms=None,
            theta_bound_ms=None,
            threads_estimate=None,
            slots=None,
            outcome=None,
            layer=None,
            largest_layer=None,
            cause=None,
            text=None,
        )
        for at, one in enumerate(pairs)
    ]


def looked_at(rows: Sequence[model.HostPair]) -> list[int]:
    """Which of `plain_rows` are looked at by themselves, those with most time first. Where so many have not nearly all
    of the time, no pair leads, and of those that have little of it the slow ones are."""
    order = sorted(range(len(rows)), key=lambda at: -rows[at].time_share)[:MOST]
    ops = sum(row.ops for row in rows)
    if sum(rows[at].time_share for at in order) < SHARE_OF_NEARLY_ALL:
        least = 1 / MOST
        order = [at for at in order if rows[at].time_share >= min(least, _TIMES_AS_SLOW * rows[at].ops / ops)]
    return [at for at in order if rows[at].ops >= FEW]


def ways_by_hosts(transport: Sequence[model.Transport]) -> dict[tuple[str, str], list[model.Transport]]:
    """Rows of the connections of each pair, by the addresses of its client and its server."""
    ways: dict[tuple[str, str], list[model.Transport]] = {}
    for row in transport:
        ways.setdefault((_address(row.client), _address(row.server)), []).append(row)
    return ways


def _address(endpoint: str) -> str:
    return endpoint.rpartition(":")[0].strip("[]")


def limited(row: model.HostPair, inflight: model.InFlight) -> model.HostPair:
    """The row with threads for which calls wait, and slots that are likely to hold them."""
    server, client = inflight.server, inflight.client
    return structs.replace(
        row,
        threads_estimate=server.threads_estimate if server.limited else None,
        slots=client.slots_estimate if client.limited else None,
    )


def told_row(
    row: model.HostPair, pair: HostPair, one: Analysis, inflight: model.InFlight, verdict: model.Verdict
) -> model.HostPair:
    """The row with what is said of the pair; `one` is its analysis."""
    known = one.clock.main if one.clock.fits else None
    low, high = (0, 0) if known is None else known.bounds_at(known.t_ns)
    moved_ns = one.moved_ns.get("server", {}).get(pair.there, 0) - one.moved_ns.get("client", {}).get(pair.client, 0)
    return structs.replace(
        limited(row, inflight),
        theta_ms=None if known is None else to_ms(known.theta_ns + moved_ns),
        theta_bound_ms=None if known is None else (to_ms(low + moved_ns), to_ms(high + moved_ns)),
        outcome=verdict.outcome,
        layer=verdict.layer,
        largest_layer=verdict.largest_layer,
        cause=verdict.cause,
        text=verdict.text,
    )
