"""Ops of two runs -> what changed, kind by kind and at the same mix, and whether the load explains it."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import cached_property

import numpy as np
from msgspec import structs

from nfslat.diff import judge
from nfslat.diff.kinds import kinds, size_label
from nfslat.diff.model import Change, Load, Mix, Part, Row
from nfslat.diff.parts import Column, columns, layers
from nfslat.diff.runs import Ns, Ops, Single, Summaries
from nfslat.diff.statistics import SLICES, Means, difference, percentile_difference
from nfslat.model.record import Record
from nfslat.model.tables import F64, I64
from nfslat.model.units import NS_PER_MS, NS_PER_S, to_ms

# Up to so many in flight each number is compared with itself; above that in steps of an eighth, as far apart as 16 and
# 18: at one server each call that is met adds its time, so within a step the wait differs by no more than that.
_FINE = 16
_ALONE = np.ones(1)


class Compared(Record):
    """What two runs tell."""

    load: Load
    mix: Mix
    rows: list[Row]
    layers: list[Part]  # the parts of each added up
    parts: list[Part]
    causes: list[Part]


class Pair:
    """Two runs, none of them empty, and the kinds of work in them."""

    def __init__(self, a: Ops, b: Ops) -> None:
        self.runs = (a, b)
        self.kinds = kinds(a, b)
        self.doubt = judge.Doubt.of([(one.inferred, to_ms(one.inferred_error_ns)) for one in self.runs])

    @cached_property
    def means(self) -> dict[str, list[Means]]:
        """Of the response time by kind, ms: of the client, the server, and the network."""
        of_run = list(zip(self.runs, self.kinds.of, strict=True))
        return {
            side: [one.means_ms(side, kind, len(self.kinds.names)) for one, kind in of_run]
            for side in ("client", "server", "network")
        }

    def change(self, side: str, at: Sequence[int]) -> Change:
        """Of the mean of some kinds at the same mix."""
        return change(self.means[side], at, self.kinds.weights(at), getattr(self.doubt, side))

    def percentile(self, side: str, at: Sequence[int], share: float) -> tuple[Change, bool] | None:
        """Of some kinds together, and whether that rests on enough ops; None where it is not known."""
        a, b = self.runs
        rows = [np.flatnonzero(np.isin(kind, at)) for kind in self.kinds.of]
        if isinstance(a, Single) and isinstance(b, Single):
            x, y = a.sample_ms(side, rows[0]), b.sample_ms(side, rows[1])
            estimate = percentile_difference(x, y, share)
            of_share, enough = [one.percentile(share) for one in (x, y)], estimate is not None
        elif isinstance(a, Summaries) and isinstance(b, Summaries) and len(at) == 1:
            of_row = [one.of_side[side][own[0]] for one, own in zip((a, b), rows, strict=True)]
            of_share, estimate = [getattr(one, f"p{round(share * 100)}") for one in of_row], None
            enough = min(int(counts[at[0]]) for counts in self.kinds.counts) * (1 - share) >= SLICES
        else:
            return None
        return judge.widened(judge.change(of_share[0], of_share[1], estimate), getattr(self.doubt, side)), enough


class _Parts:
    """What parts of the response time, and causes, of two runs come to, by kind."""

    def __init__(self, pair: Pair, at: Sequence[int], *, all_moved: bool) -> None:
        """Of a report `at` are the kinds that are looked at, for what is known of each decides."""
        self._pair, (a, b), self._of = pair, pair.runs, list(pair.kinds.of)
        if isinstance(a, Summaries) and isinstance(b, Summaries):
            rows = [np.flatnonzero(np.isin(kind, at)) for kind in self._of]
            a, b = (one.take(own, all_moved=all_moved) for one, own in zip((a, b), rows, strict=True))
            self._of = [kind[own] for kind, own in zip(self._of, rows, strict=True)]
        self._runs = (a, b)
        self.columns = columns(a, b)
        self._means = [self._by_kind(one.values) for one in self.columns]

    def _by_kind(self, values: Sequence[Ns]) -> list[Means]:
        kinds = len(self._pair.kinds.names)
        of_run = zip(self._runs, values, self._of, strict=True)
        return [one.means(ns, kind, kinds).in_units(NS_PER_MS) for one, ns, kind in of_run]

    def at(self, at: Sequence[int]) -> list[Part]:
        """Of some kinds; intervals hold what clocks leave open, and what is inferred."""
        return [self._part(*of, at) for of in zip(self.columns, self._means, strict=True)]

    def layers(self, at: Sequence[int]) -> list[Part]:
        """Of some kinds."""
        return [self._part(one, self._by_kind(one.values), at) for one in layers(self.columns)]

    def causes(self, at: Sequence[int]) -> list[Part]:
        """Those of which either run has any."""
        a, b = (one.causes for one in self._runs)
        found = [Column(name, "network", 0, [a[name], b[name]]) for name in a if name in b]
        parts = [self._part(one, self._by_kind(one.values), at) for one in found if any(of.any() for of in one.values)]
        # The distance is one minimum of the whole run, which hardly varies from stretch to stretch, and on a full path
        # says when it was not full: a difference of two of them has no interval.
        return [
            structs.replace(one, change=judge.change(one.change.a, one.change.b, None))
            if one.name == "distance"
            else one
            for one in parts
        ]

    def _part(self, one: Column, of: Sequence[Means], at: Sequence[int]) -> Part:
        return Part(one.name, one.layer, one.depth, change(of, at, self._pair.kinds.weights(at), one.error_ms))


def compare(a: Ops, b: Ops) -> Compared:
    """All of it; neither run may be empty."""
    pair = Pair(a, b)
    both = pair.kinds.both
    load, mix = _load(pair), _mix(pair, both)
    whole = _Parts(pair, both, all_moved=True)
    rows = [_row(pair, kind, whole) for kind in range(len(pair.kinds.names))]
    explained = (whole.layers(both), whole.at(both), whole.causes(both)) if both else ([], [], [])
    worth = judge.all_looked_at(
        [*(one for row in rows for one in (row.mean, row.p50, row.p99)), mix.same_mix],
        [
            *(one for row in rows for one in (row.server, row.network)),
            *(part.change for parts in explained for part in parts),
        ],
    )
    rows = [
        structs.replace(
            row,
            mean=worth(row.mean),
            p50=worth(row.p50),
            p99=worth(row.p99),
            server=worth(row.server),
            network=worth(row.network),
        )
        for row in rows
    ]
    layers, parts, causes = (
        [structs.replace(part, change=worth(part.change)) for part in parts] for parts in explained
    )
    mix = structs.replace(mix, same_mix=worth(mix.same_mix))
    rows = [_judged(row, pair, kind, load) for kind, row in enumerate(rows)]
    return Compared(load, mix, rows, layers, parts, causes)


def change(
    of: Sequence[Means], at: Sequence[int], weights: F64, error_ms: float = 0.0, *, is_ms: bool = True
) -> Change:
    """Of weighted sums of means; without an interval where the ops are too few."""
    a, b = (one.take(at) for one in of)
    estimate = difference(a, b, weights) if a.enough and b.enough else None
    found = judge.change(float(weights @ a.mean), float(weights @ b.mean), estimate, is_ms=is_ms)
    return judge.widened(found, error_ms)


def _load(pair: Pair) -> Load:
    loads = [one.load for one in pair.runs]
    alike = float(np.minimum(*pair.kinds.shares).sum())
    differs = judge.other_load(pair.kinds.labels, *(counts.tolist() for counts in pair.kinds.counts))
    known = [one for one in loads if one is not None]
    if len(known) < len(loads):
        return Load(None, None, alike, differs)
    between, in_flight = (change(of, [0], _ALONE, is_ms=False) for of in zip(*known, strict=True))
    rates = [NS_PER_S / one if one > 0 else 0.0 for one in (between.a, between.b)]
    # The interval of a rate is that of the time between two ops, turned over.
    bounds = None
    if between.low is not None and all(rates):
        reach = (between.high or 0.0) - between.difference
        low, high = (rates[0] ** -1 * NS_PER_S + between.difference + sign * reach for sign in (1, -1))
        bounds = (NS_PER_S / low - rates[0], NS_PER_S / high - rates[0]) if high > 0 else None
    per_s = structs.replace(
        between,
        a=rates[0],
        b=rates[1],
        difference=rates[1] - rates[0],
        low=bounds[0] if bounds else None,
        high=bounds[1] if bounds else None,
    )
    return Load(per_s, in_flight, alike, differs)


def _mix(pair: Pair, both: Sequence[int]) -> Mix:
    """The change of the mean of a kind counts with the mean of its two shares, and the rest is the mix (Kitagawa, JASA
    50, 1955)."""
    of_a, of_b = pair.means["client"]
    shares = pair.kinds.shares
    within = float(((of_b.mean - of_a.mean) * sum(shares) / 2)[both].sum())
    alike = [np.zeros(len(kind), dtype=np.int64) for kind in pair.kinds.of]
    whole = [one.means_ms("client", kind, 1) for one, kind in zip(pair.runs, alike, strict=True)]
    same = None
    if isinstance(pair.runs[0], Single):
        raw = change(whole, [0], _ALONE, pair.doubt.client)
        same = pair.change("client", both) if both and all(one.enough for one in whole) else None
    else:
        raw = judge.change(float(whole[0].mean[0]), float(whole[1].mean[0]), None)
        same = pair.change("client", both) if both else None
    return Mix(raw, within, raw.difference - within, same, *(float(one[both].sum()) for one in shares))


def _row(pair: Pair, kind: int, whole: _Parts) -> Row:
    op, bits = pair.kinds.names[kind]
    count_a, count_b = (int(of[kind]) for of in pair.kinds.counts)
    size_bytes = None if bits < 0 else 1 << bits
    row = Row(op, size_label(bits), size_bytes, count_a, count_b, None, None, None, None, None, None, None, [], "")
    if not (count_a and count_b):
        return row
    p50, p99 = (pair.percentile("client", [kind], share) for share in (0.50, 0.99))
    parts = whole if isinstance(pair.runs[0], Single) else _Parts(pair, [kind], all_moved=False)
    return structs.replace(
        row,
        mean=pair.change("client", [kind]),
        p50=p50 and p50[0],
        p99=p99[0] if p99 is not None and p99[1] else None,
        server=pair.change("server", [kind]),
        network=pair.change("network", [kind]),
        parts=parts.at([kind]),
    )


def _judged(row: Row, pair: Pair, kind: int, load: Load) -> Row:
    a, b = pair.runs
    if judge.evidence(row) and isinstance(a, Single) and isinstance(b, Single):
        same, share = _same_in_flight(a, b, *(np.flatnonzero(of == kind) for of in pair.kinds.of))
        same = None if same is None else judge.widened(same, pair.doubt.client)
        row = structs.replace(row, same_in_flight=same, in_flight_share=share)
    return structs.replace(row, verdict=judge.verdict_of(row, load))


def _same_in_flight(a: Single, b: Single, of_a: I64, of_b: I64) -> tuple[Change | None, float]:
    """Difference of the means of ops that met as many others, over all such numbers; and the share of ops so compared.

    Numbers with few ops in one of the runs weigh little (Cochran, Biometrics 10, 1954).
    """
    met = [_step(one.in_flight[rows]) for one, rows in ((a, of_a), (b, of_b))]
    steps = int(max(met[0].max(), met[1].max())) + 1
    n, m = (np.bincount(one, minlength=steps) for one in met)
    common = np.flatnonzero((n > 1) & (m > 1)).tolist()
    if not common:
        return None, 0.0
    weights = (n * m / np.maximum(n + m, 1))[common]
    means = [
        Means.of(one.client_ns[rows], one.slices[rows], level, steps).in_units(NS_PER_MS)
        for one, rows, level in ((a, of_a, met[0]), (b, of_b, met[1]))
    ]
    share = float((n + m)[common].sum() / (len(of_a) + len(of_b)))
    return change(means, common, weights / weights.sum()), share


def _step(level: I64) -> I64:
    coarse = _FINE + np.floor(np.log(np.maximum(level, _FINE) / _FINE) / math.log(9 / 8)).astype(np.int64)
    return np.where(level <= _FINE, level, coarse + 1)
