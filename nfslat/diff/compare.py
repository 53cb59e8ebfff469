"""Single ops of two runs -> what changed, kind by kind and at the same mix, and whether the load explains it."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence

import numpy as np

from nfslat.diff import judge
from nfslat.diff.kinds import Kinds, decompose, kinds, size_label
from nfslat.diff.model import Change, Load, Mix, Part, Row
from nfslat.diff.parts import AtMix, Column, columns, of_means
from nfslat.diff.runs import Single
from nfslat.diff.statistics import Sample, percentile_difference
from nfslat.model.record import Record
from nfslat.model.tables import I64
from nfslat.model.units import NS_PER_S

# Up to so many in flight each number is compared with itself; above that in steps of an eighth, as far apart as 16 and
# 18: at one server each call that is met adds its time, so within a step the wait differs by no more than that.
_FINE = 16


class Compared(Record):
    """What two runs with single ops tell."""

    load: Load
    mix: Mix
    rows: list[Row]
    layers: list[Part]  # the parts of each added up
    parts: list[Part]
    causes: list[Part]


def compare(a: Single, b: Single) -> Compared:
    """All of it; neither run may be empty."""
    found = kinds(a, b)
    both = [kind for kind, (n, m) in enumerate(zip(*found.counts, strict=True)) if n and m]
    load = _load(a, b, found)
    doubt = judge.Doubt.of([(one.inferred, one.inferred_error_ns / 1e6) for one in (a, b)])
    mix = _mix(a, b, found, both, doubt)
    of = columns(a, b)
    rows = [_row(a, b, found, kind, of, doubt) for kind in range(len(found.names))]
    layers, parts, causes = [], [], []
    if both:
        same = AtMix(a, b, found, both, _weights(found, both))
        layers, parts, causes = same.layers(of), same.parts(of), same.causes()
    rows, mix, layers, parts, causes = judge.all_looked_at(rows, mix, layers, parts, causes)
    rows = [_judged(row, a, b, found, kind, load, doubt) for kind, row in enumerate(rows)]
    return Compared(load, mix, rows, layers, parts, causes)


def _load(a: Single, b: Single, found: Kinds) -> Load:
    gaps = [Sample.of(one.busy_ns, one.slices) for one in (a, b)]
    between = of_means(gaps[:1], gaps[1:], [1.0], is_ms=False)
    rates = [NS_PER_S / one.mean if one.mean > 0 else 0.0 for one in gaps]
    # The interval of a rate is that of the time between two ops, turned over.
    bounds = None
    if between.low is not None and all(rates):
        reach = (between.high or 0.0) - between.difference
        low, high = (rates[0] ** -1 * NS_PER_S + between.difference + sign * reach for sign in (1, -1))
        bounds = (NS_PER_S / low - rates[0], NS_PER_S / high - rates[0]) if high > 0 else None
    per_s = dataclasses.replace(
        between,
        a=rates[0],
        b=rates[1],
        difference=rates[1] - rates[0],
        low=bounds[0] if bounds else None,
        high=bounds[1] if bounds else None,
    )
    levels = [Sample.of(one.in_flight, one.slices) for one in (a, b)]
    in_flight = of_means(levels[:1], levels[1:], [1.0], is_ms=False)
    shares = [np.array(counts) / sum(counts) for counts in found.counts]
    return Load(per_s, in_flight, float(np.minimum(*shares).sum()), judge.other_load(found.labels, *found.counts))


def _weights(found: Kinds, both: Sequence[int]) -> list[float]:
    """Mean share of each kind that both runs have; they sum to 1."""
    of_a, of_b = found.counts
    shares = [of_a[kind] / sum(of_a) + of_b[kind] / sum(of_b) for kind in both]
    return [share / math.fsum(shares) for share in shares]


def _mix(a: Single, b: Single, found: Kinds, both: Sequence[int], doubt: judge.Doubt) -> Mix:
    of_a, of_b = found.counts
    sums = [
        [int(one.client_ns[getattr(found, side) == kind].sum()) for kind in range(len(found.names))]
        for side, one in (("a", a), ("b", b))
    ]
    within, _ = decompose(of_a, sums[0], of_b, sums[1])
    whole = [one.sample(one.client_ns, slice(None)) for one in (a, b)]
    same = None
    if both and min(len(one) for one in (a, b)) >= _least(whole):
        samples = [
            [one.sample(one.client_ns, found.rows(side, kind)) for kind in both] for side, one in (("a", a), ("b", b))
        ]
        same = judge.widened(of_means(samples[0], samples[1], _weights(found, both)), doubt.client)
    raw = judge.widened(of_means(whole[:1], whole[1:], [1.0]), doubt.client)
    covered = [sum(counts[kind] for kind in both) / sum(counts) for counts in (of_a, of_b)]
    return Mix(raw, float(within / 10**6), raw.difference - float(within / 10**6), same, covered[0], covered[1])


def _least(whole: Sequence[Sample]) -> int:
    return 0 if all(one.enough for one in whole) else max(map(len, whole)) + 1


def _row(a: Single, b: Single, found: Kinds, kind: int, of: Sequence[Column], doubt: judge.Doubt) -> Row:
    op, bits = found.names[kind]
    rows = found.rows("a", kind), found.rows("b", kind)
    size_bytes = None if bits < 0 else 1 << bits
    row = Row(
        op, size_label(bits), size_bytes, len(rows[0]), len(rows[1]), None, None, None, None, None, None, None, [], ""
    )
    if not (len(rows[0]) and len(rows[1])):
        return row
    client = [one.sample(one.client_ns, at) for one, at in zip((a, b), rows, strict=True)]
    server = [one.sample(one.parts["server"], at) for one, at in zip((a, b), rows, strict=True)]
    network = [one.sample(one.client_ns - one.parts["server"], at) for one, at in zip((a, b), rows, strict=True)]
    enough = all(one.enough for one in client)
    return dataclasses.replace(
        row,
        mean=judge.widened(of_means(client[:1], client[1:], [1.0]), doubt.client),
        p50=_percentile(client, 0.50, enough, doubt.client),
        p99=_percentile(client, 0.99, enough, doubt.client),
        server=judge.widened(of_means(server[:1], server[1:], [1.0]), doubt.server),
        network=judge.widened(of_means(network[:1], network[1:], [1.0]), doubt.network),
        parts=AtMix(a, b, found, [kind], [1.0]).parts(of),
    )


def _percentile(client: Sequence[Sample], share: float, enough: bool, error_ms: float) -> Change | None:
    estimate = percentile_difference(client[0], client[1], share) if enough else None
    if estimate is None and share > 0.5:
        return None
    found = judge.change(client[0].percentile(share), client[1].percentile(share), estimate)
    return judge.widened(found, error_ms)


def _judged(row: Row, a: Single, b: Single, found: Kinds, kind: int, load: Load, doubt: judge.Doubt) -> Row:
    if judge.evidence(row):
        same, share = _same_in_flight(a, b, found.rows("a", kind), found.rows("b", kind))
        same = None if same is None else judge.widened(same, doubt.client)
        row = dataclasses.replace(row, same_in_flight=same, in_flight_share=share)
    return dataclasses.replace(row, verdict=judge.verdict_of(row, load))


def _same_in_flight(a: Single, b: Single, of_a: I64, of_b: I64) -> tuple[Change | None, float]:
    """Difference of the means of ops that met as many others, over all such numbers; and the share of ops so compared.

    Numbers with few ops in one of the runs weigh little (Cochran, Biometrics 10, 1954).
    """
    met = [_step(one.in_flight[rows]) for one, rows in ((a, of_a), (b, of_b))]
    counts = [np.bincount(one, minlength=int(max(met[0].max(), met[1].max())) + 1) for one in met]
    common = np.flatnonzero((counts[0] > 1) & (counts[1] > 1))
    if not len(common):
        return None, 0.0
    n, m = counts[0][common], counts[1][common]
    weights = n * m / (n + m)
    weights = weights / weights.sum()
    samples = [
        [one.sample(one.client_ns, rows[level == step]) for step in common.tolist()]
        for one, rows, level in ((a, of_a, met[0]), (b, of_b, met[1]))
    ]
    share = float((n.sum() + m.sum()) / (len(of_a) + len(of_b)))
    return of_means(samples[0], samples[1], weights.tolist()), share


def _step(level: I64) -> I64:
    coarse = _FINE + np.floor(np.log(np.maximum(level, _FINE) / _FINE) / math.log(9 / 8)).astype(np.int64)
    return np.where(level <= _FINE, level, coarse + 1)
