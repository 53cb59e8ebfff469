"""Estimates -> what they are worth: certain after all that was looked at, relevant, and not explained by the load."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Protocol, TypeVar

from msgspec import structs

from nfslat.diff.model import Change, Load, Row
from nfslat.diff.statistics import Estimate, holm
from nfslat.model.record import Record

T = TypeVar("T", Change, Change | None)

# How often two equal runs may differ in any figure that is looked at. A diff is made again and again: 1 in 20 is too
# often.
CERTAIN = 0.01
# By choice: what no application would notice. 50 us is a wake-up, or an adapter that collects interrupts, which one
# change of a setting far from NFS adds or spares.
RELEVANT, RELEVANT_MS = 0.02, 0.05
# Share of a run that the other has nothing of: said first. What is rarer (mounting, a stray COMMIT) comes and goes.
_MISSING = 0.05


def change(a: float, b: float, estimate: Estimate | None, *, is_ms: bool = True) -> Change:
    """As it stands alone; `adjusted` knows the others."""
    difference = b - a
    relevant = abs(difference) >= RELEVANT * abs(a) and (abs(difference) >= RELEVANT_MS or not is_ms)
    if estimate is None:
        return Change(a, b, difference, None, None, None, True, False, relevant)
    certain = estimate.p < CERTAIN and estimate.steady
    return Change(a, b, difference, estimate.low, estimate.high, estimate.p, estimate.steady, certain, relevant)


def widened(one: Change, error_ms: float) -> Change:
    """With an error that is no chance, and so is in each of its ops: the interval is wider by it at both ends."""
    if not error_ms or one.low is None or one.high is None:
        return one
    low, high = one.low - error_ms, one.high + error_ms
    steady = one.steady and not low <= 0 <= high
    return structs.replace(one, low=low, high=high, steady=steady, certain=one.certain and steady)


class Doubt(Record):
    """How far means may be off for what is inferred of the host that a run did not capture, both runs together, ms."""

    client: float = 0.0
    server: float = 0.0
    network: float = 0.0

    @classmethod
    def of(cls, inferred: Sequence[tuple[str, float]]) -> Doubt:
        """By the host of each run, and the error. What is not the one host's is the network's, whichever that is."""
        client, server = (math.fsum(ms for host, ms in inferred if host == side) for side in ("client", "server"))
        return cls(client, server, client + server)

    def on(self, layer: str) -> float:
        """Of a part of a layer: what the client adds to an op is measured, or counts as network."""
        return self.server if layer == "server" else self.network if layer == "network" else 0.0


class Worth(Protocol):
    """A change as it was found -> as it is after all of its family were looked at."""

    def __call__(self, one: T, /) -> T: ...


def all_looked_at(*families: Sequence[Change | None]) -> Worth:
    """Figures that could speak for a change are one family; those that explain it are another."""
    worth: dict[int, Change] = {}
    for family in families:
        tested = [(one, one.p) for one in family if one is not None and one.p is not None]
        for (one, _), p in zip(tested, holm([p for _, p in tested]), strict=True):
            worth[id(one)] = structs.replace(one, p=p, certain=p < CERTAIN and one.steady)

    def seen(one: T, /) -> T:
        return worth.get(id(one), one)

    return seen


def evidence(row: Row) -> list[Change]:
    """Of its mean, median and 99th percentile those that changed for certain, in the mean's direction."""
    if row.mean is None:
        return []
    up = row.mean.difference > 0
    figures = [one for one in (row.mean, row.p50, row.p99) if one is not None]
    return [one for one in figures if one.certain and (one.difference > 0) == up]


def said_of(one: Change) -> str:
    """What it is worth, in a cell of a table."""
    if not one.difference:
        return "the same"
    if one.p is None:
        return "no interval"
    if one.certain:
        return "certain" if one.relevant else "not relevant"
    return "not significant" if one.steady else "normal variation"


def in_a_sentence(one: Change) -> str:
    """The same behind "is"."""
    said = said_of(one)
    return f"within {said}" if said == "normal variation" else said


def held_back(one: Change | None) -> str | None:
    """Why a figure that alone looks like a change is none: "drift", or "chance" after all that was looked at.

    None where it is one, where its own interval holds 0, and where it would not matter.
    """
    if one is None or one.low is None or one.high is None or one.certain or not one.relevant:
        return None
    if one.low <= 0 <= one.high:
        return None
    return "chance" if one.steady else "drift"


def verdict_of(row: Row, load: Load) -> str:
    """In a word; see `model.Row`."""
    if row.mean is None:
        return "only in A" if row.count_a else "only in B"
    if row.mean.p is None:
        return "too few ops"
    certain = evidence(row)
    if not certain:
        return "no evidence"
    relevant = [one for one in certain if one.relevant]
    if not relevant:
        return "not relevant"
    slower = relevant[0].difference > 0
    if not by_load(load, slower=slower):
        return "slower" if slower else "faster"
    # Calls that meet more others wait longer. So what changed has to have changed among equals, too.
    same = row.same_in_flight
    if same is not None and same.certain and same.relevant and (same.difference > 0) == slower:
        return "slower" if slower else "faster"
    return "load"


def by_load(load: Load, *, slower: bool) -> bool:
    """Are more calls in flight where ops got slower (or fewer and faster), and does the throughput not contradict?

    More in flight and yet less done: no load makes that of a system that is as it was. Where the intervals of both are
    not known, as in reports, only more in flight and more done is the load: at a constant rate a slow system, too,
    has more in flight.
    """
    level, rate = load.in_flight, load.ops_per_s
    if level is None or rate is None or not level.relevant or (level.difference > 0) != slower:
        return False
    if level.p is None:
        return rate.relevant and (rate.difference > 0) == slower
    if level.p >= CERTAIN:
        return False
    return not (rate.certain and rate.relevant and (rate.difference < 0) == slower)


def other_load(labels: Sequence[str], of_a: Sequence[int], of_b: Sequence[int]) -> list[str]:
    """Kinds of ops that one run has a lot of and the other none."""
    all_a, all_b = max(sum(of_a), 1), max(sum(of_b), 1)
    said = []
    for label, n, m in zip(labels, of_a, of_b, strict=True):
        if not m and n / all_a >= _MISSING:
            said.append(f"{label} is {n / all_a * 100:.0f} % of the ops of A and not in B")
        if not n and m / all_b >= _MISSING:
            said.append(f"{label} is {m / all_b * 100:.0f} % of the ops of B and not in A")
    return said
