"""What is said of each pair of hosts -> a row for each, and causes and verdict that say of whom they are."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from nfslat.answer import model
from nfslat.clock.clock import Clock
from nfslat.figures.findings import Judged
from nfslat.figures.phases import with_others
from nfslat.findings.diagnosis import Diagnosis
from nfslat.findings.facts import MATTERS
from nfslat.findings.put_off import PUT_OFF_CODES
from nfslat.findings.rank import ranked
from nfslat.findings.words import lowered, percent
from nfslat.host_pairs import HostPair, HostPairs
from nfslat.model.tables import I64
from nfslat.model.units import to_ms
from nfslat.results import Analysis

FEW = 100  # ops of a pair, of which nothing is said by themselves
MOST = 32  # pairs that are looked at by themselves, those with most time
_NEARLY_ALL = 0.9  # of the time: what is said of the pairs is said of all


class PairTold(NamedTuple):
    """What the findings say of the ops of one pair of hosts."""

    pair: HostPair
    row: model.HostPair
    causes: list[Diagnosis]
    verdict: model.Verdict
    judged: Judged | None = None  # what they rest on
    clock: Clock | None = None  # of the two

    @property
    def words(self) -> str:
        """Of whom it is."""
        return self.pair.words

    @property
    def explained(self) -> float:
        """Of all response times, what its leading cause explains; of a limit whose share is not known, a part of it."""
        if self.verdict.outcome != "fault":
            return 0.0
        share = self.verdict.share if self.verdict.share is not None else 1.0
        return max(min(share, 1.0), 0.0) * self.row.time_share


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


def ways_between(pair: HostPair, transport: Sequence[model.Transport]) -> list[model.Transport]:
    """Of connections between the two."""
    return [row for row in transport if (_address(row.client), _address(row.server)) == (pair.client, pair.server)]


def _address(endpoint: str) -> str:
    return endpoint.rpartition(":")[0].strip("[]")


def limited(row: model.HostPair, inflight: model.InFlight) -> model.HostPair:
    """The row with threads for which calls wait, and slots that are likely to hold them."""
    server, client = inflight.server, inflight.client
    return dataclasses.replace(
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
    return dataclasses.replace(
        limited(row, inflight),
        theta_ms=None if known is None else to_ms(known.theta_ns + moved_ns),
        theta_bound_ms=None if known is None else (to_ms(low + moved_ns), to_ms(high + moved_ns)),
        outcome=verdict.outcome,
        layer=verdict.layer,
        largest_layer=verdict.largest_layer,
        cause=verdict.cause,
        text=verdict.text,
    )


def leading_pair(pairs: Sequence[PairTold], whole: model.Verdict | None) -> PairTold | None:
    """The pair whose fault explains most of all response times, if that matters; where none has one, the pair with most
    of the time. With the causes of others that matter, too."""
    if not pairs or whole is None or whole.cause in PUT_OFF_CODES:
        return None
    if whole.objectives and whole.outcome == "no-fault":
        return None  # what is met is met, whatever a pair took
    if sum(one.row.time_share for one in pairs) < _NEARLY_ALL:
        return None
    most = max(pairs, key=lambda one: (one.explained >= MATTERS, one.explained, one.row.time_share))
    if most.explained < MATTERS:
        most = max(pairs, key=lambda one: one.row.time_share)
    who = most.words
    text = f"{who[0].upper()}{who[1:]} ({percent(most.row.time_share)} of the time): {lowered(most.verdict.text)}"
    causes = [dataclasses.replace(one, text=f"{who} {lowered(one.text)}") for one in most.causes]
    verdict = dataclasses.replace(most.verdict, text=text, objectives=whole.objectives)
    others, verdict = with_others(pairs, most, verdict, "all response times")
    return most._replace(causes=ranked([*causes, *others], most.row.client_ms), verdict=verdict)
