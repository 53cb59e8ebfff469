"""Durations of two runs -> differences of means and percentiles, with intervals that hold although ops wait in queues.

Ops that meet in a queue are slow together, so each is not evidence of its own, and a t test that takes them for that
finds changes where there are none. Here a run is cut into `SLICES` stretches of equally many ops, one after the other,
and only what differs from stretch to stretch counts as chance: batch means (Schmeiser, Operations Research 30, 1982: 10
to 30 are enough) in the form of a ratio, for an operation is not in each stretch equally often (Cochran, Sampling
Techniques, 1977, chapter 6). Student's t with the degrees of freedom of the side that has fewer stretches holds
where their variances differ, too: a pause in one stretch is one event, however many ops it held (Ibragimov and Mueller,
Review of Economics and Statistics 98, 2016). Percentiles: the share of ops below is a mean, its interval is
carried over to the durations (Woodruff, JASA 47, 1952), and those of two runs are joined as Zou and Donner do
(Statistics in Medicine 27, 2008). Many comparisons: Holm (Scandinavian Journal of Statistics 6, 1979).
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from functools import cache, cached_property

import numpy as np
import numpy.typing as npt

from nfslat.answer.figures import Summary
from nfslat.model.record import Record
from nfslat.model.tables import F64, I64

SLICES = 10  # the fewest of Schmeiser's: what waits together, such as one pause, is the likelier within one of them
CONFIDENCE = 0.95  # of what is printed, for one figure, as a reader expects it; what is called a change is stricter
LEAST_OPS = 5 * SLICES  # of one kind in one run: means of stretches with fewer than 5 ops are no means
# In which it must occur: what a run holds in one spell says nothing of the rest of it. In half of them Student's t has
# four degrees of freedom, and 99 % lie within 4.6 standard errors; in two of them, within 64.
LEAST_SLICES = 5
_SMALLEST_P = 1e-12  # where bisection of an interval's p ends; Holm multiplies it by dozens at most
DRIFT = 2  # end to end over half to half: the middles of two halves lie half of the run apart


class Means(Record, eq=False):
    """Figures of one run that are a sum over another (ms over ops, bits over seconds), by kind and stretch.

    `over` is by how much each sum exceeds what the mean makes it; None: nothing is known of how the figure varies.
    """

    mean: F64  # of each kind
    per: F64  # number of values, or what else a sum is divided by
    over: F64 | None
    alone: F64  # of each kind: variance of its sum if single values know nothing of each other
    halves: F64  # of each kind: in the first and in the second half of the run; the mean where there is nothing in it

    @classmethod
    def of(cls, values: npt.NDArray[np.integer | np.floating], slices: I64, kind: I64, kinds: int) -> Means:
        """Of single values, with the stretch and the kind of each."""
        counts = np.maximum(np.bincount(kind, minlength=kinds), 1)
        mean = np.bincount(kind, values, kinds) / counts
        rest, cell = values - mean[kind], kind * SLICES + slices
        per, total, over = (
            np.bincount(cell, of, kinds * SLICES).reshape(kinds, SLICES).astype(np.float64)
            for of in (None, values, rest)
        )
        alone = np.bincount(kind, rest * rest, kinds).astype(np.float64)
        return cls(mean, per, over, alone, _halves(mean, per, total))

    @classmethod
    def of_sums(cls, total: Sequence[float], per: Sequence[float], squares: float, *, counted: bool) -> Means:
        """Of one kind, with the squares of its single values; they are `counted` where `per` is their number."""
        whole = math.fsum(per)
        mean = np.array([math.fsum(total) / whole if whole else 0.0])
        sums, of = np.array([total], dtype=np.float64), np.array([per], dtype=np.float64)
        return cls(mean, of, sums - mean * of, squares - counted * mean**2 * whole, _halves(mean, of, sums))

    @classmethod
    def about(cls, mean: F64, counts: F64, error: F64 | None) -> Means:
        """Of summaries with standard errors, which all go the same way: kinds that wait in one queue move together."""
        even = np.tile([1.0, -1.0], SLICES // 2) * math.sqrt(SLICES - 1) / SLICES  # whose variance is 1
        over = None if error is None else np.outer(error * counts, even)
        per = np.outer(counts, np.full(SLICES, 1 / SLICES))
        return cls(mean, per, over, np.zeros(len(mean)), np.stack([mean, mean], axis=1))

    def in_units(self, of: float) -> Means:
        """In a unit that is so many of this one."""
        over = None if self.over is None else self.over / of
        return Means(self.mean / of, self.per, over, self.alone / of**2, self.halves / of)

    def take(self, kinds: Sequence[int]) -> Means:
        """Some kinds."""
        at = list(kinds)
        over = None if self.over is None else self.over[at]
        return Means(self.mean[at], self.per[at], over, self.alone[at], self.halves[at])

    @property
    def degrees(self) -> int:
        """Degrees of freedom: stretches in which there is anything, less one."""
        return int(np.count_nonzero(self.per.sum(axis=0))) - 1

    @property
    def enough(self) -> bool:
        """Can anything be said of the mean?"""
        return float(self.per.sum()) >= LEAST_OPS and self.degrees >= LEAST_SLICES - 1

    def variance(self, weights: F64) -> float:
        """Of the weighted sum of the means: kinds that wait in one queue move together."""
        share = weights / self.per.sum(axis=1)
        moved = np.zeros(SLICES) if self.over is None else share @ self.over
        factor = (self.degrees + 1) / max(self.degrees, 1)
        return max(factor * float(moved @ moved), float(share**2 @ self.alone), 0.0)


def _halves(mean: F64, per: F64, total: F64) -> F64:
    counts, sums = (of.reshape(-1, 2, SLICES // 2).sum(axis=2) for of in (per, total))
    return np.asarray(np.divide(sums, counts, out=np.stack([mean, mean], axis=1), where=counts > 0))


class Sample(Record, eq=False, dict=True):
    """Values of some ops of one run, any unit, in ascending order, and the stretch of the run in which each began."""

    values: F64
    slices: I64

    @classmethod
    def of(cls, values: npt.NDArray[np.integer | np.floating], slices: I64) -> Sample:
        """From integers or floats."""
        order = np.argsort(values, kind="stable")
        return cls(np.asarray(values, dtype=np.float64)[order], slices[order])

    def __len__(self) -> int:
        """Values."""
        return len(self.values)

    @cached_property
    def halves(self) -> tuple[Sample, Sample]:
        """What began in the first and in the second half of the run."""
        early = self.slices < SLICES // 2
        return Sample(self.values[early], self.slices[early]), Sample(self.values[~early], self.slices[~early])

    def percentile(self, share: float) -> float:
        """Nearest rank."""
        return float(self.values[max(math.ceil(share * len(self)) - 1, 0)])

    def below(self, value: float) -> Means:
        """Share of the ops that are not above it."""
        return Means.of((self.values <= value).astype(np.int64), self.slices, np.zeros(len(self), dtype=np.int64), 1)

    def percentile_range(self, share: float, reach: float) -> tuple[float, float]:
        """Where the percentile may be if the share of ops below is off by `reach`; infinite where ops run out."""
        rows = len(self)
        low, high = math.ceil((share - reach) * rows) - 1, math.ceil((share + reach) * rows) - 1
        return (
            float(self.values[low]) if low >= 0 else -math.inf,
            float(self.values[high]) if high < rows else math.inf,
        )


class Estimate(Record):
    """How sure a difference is, B less A."""

    low: float  # of the interval with confidence `CONFIDENCE`
    high: float
    p: float  # two-sided, of a difference of 0
    steady: bool  # it is more than what the runs do by themselves (`is_steady`)


def difference(a: Means, b: Means, weights: F64) -> Estimate | None:
    """Of weighted sums of means of the same kinds; None where too little is known of how they vary."""
    degrees = min(a.degrees, b.degrees)
    if a.over is None or b.over is None or degrees < 1:
        return None
    wholes = [float(weights @ one.mean) for one in (a, b)]
    between, error = wholes[1] - wholes[0], math.sqrt(a.variance(weights) + b.variance(weights))
    reach = student_quantile(CONFIDENCE, degrees) * error
    p = student_p(between / error, degrees) if error else float(not between)
    steady = is_steady(wholes, [(weights @ one.halves).tolist() for one in (a, b)])
    return Estimate(between - reach, between + reach, p, steady)


def is_steady(wholes: Sequence[float], halves: Sequence[Sequence[float]]) -> bool:
    """Do two runs differ by more than they drift? `halves` holds figures of the first and second half of each run.

    What a run does while it is watched it may have done before, and may go on to do: a level that rises all the time
    differs between any two runs. So the factor between the runs has to be larger than those by which they would have
    changed from end to end, had they gone on as from half to half. What one run has nothing of, and the other in both
    halves, is more by any factor. Where else a figure is not positive, amounts stand for factors.
    """
    of_run = [[whole, *half] for whole, half in zip(wholes, halves, strict=True)]
    if any(not any(one) and min(other) > 0 for one, other in (of_run, of_run[::-1])):
        return True
    values = [*wholes, *halves[0], *halves[1]]
    scale = [math.log(one) for one in values] if min(values) > 0 else values
    return abs(scale[1] - scale[0]) > DRIFT * (abs(scale[3] - scale[2]) + abs(scale[5] - scale[4]))


def summary_error(of: Summary) -> float:
    """Of the mean, as if no more than `SLICES` of the ops were independent: a report does not say how many are."""
    return math.sqrt(most_variance(of) / SLICES)


def most_variance(of: Summary) -> float:
    """The largest that durations, none below 0, with this mean, p50, p95, p99 and maximum can have, ms squared.

    Between two percentiles x squared is at most (l + u) x - l u, so the sum of squares is largest where the ranges
    above hold as much of the sum as they can.
    """
    knots = [(0.0, min(0.0, of.mean, of.p50)), (0.50, of.p50), (0.95, of.p95), (0.99, of.p99), (1.0, of.max)]
    spans = [(q - p, low, max(high, low)) for (p, low), (q, high) in itertools.pairwise(knots)]
    spare = of.mean - math.fsum(share * low for share, low, _ in spans)
    squares = math.fsum(share * low * low for share, low, _ in spans)
    for share, low, high in reversed(spans):
        more = min(max(spare, 0.0), share * (high - low))
        squares += more * (low + high)
        spare -= more
    return max(squares - of.mean**2, 0.0)


def percentile_difference(a: Sample, b: Sample, share: float) -> Estimate | None:
    """None where the ops are too few, or the slowest of them, to say where the percentile ends."""
    x, y = a.percentile(share), b.percentile(share)
    below = a.below(x), b.below(y)
    degrees = min(one.degrees for one in below)
    if not all(one.enough for one in below) or not all(len(half) for one in (a, b) for half in one.halves):
        return None
    # What waits in queues is hardly ever steadier than chance; a smaller spread is luck.
    errors = [
        math.sqrt(max(of.variance(np.ones(1)), share * (1 - share) / len(one)))
        for one, of in zip((a, b), below, strict=True)
    ]

    def bounds(t: float) -> tuple[float, float]:
        (al, ah), (bl, bh) = a.percentile_range(share, t * errors[0]), b.percentile_range(share, t * errors[1])
        return y - x - math.hypot(y - bl, ah - x), y - x + math.hypot(bh - y, x - al)

    low, high = bounds(student_quantile(CONFIDENCE, degrees))
    if not (math.isfinite(low) and math.isfinite(high)):
        return None
    halves = [[half.percentile(share) for half in one.halves] for one in (a, b)]
    return Estimate(low, high, _least_p(bounds, degrees), is_steady([x, y], halves))


def _least_p(bounds: Callable[[float], tuple[float, float]], degrees: int) -> float:
    """The smallest p at which the interval of that many standard errors leaves 0 out, by bisection of their number."""

    def excludes(t: float) -> bool:
        low, high = bounds(t)
        return low > 0 or high < 0

    if not excludes(0.0):
        return 1.0
    most = student_quantile(1 - _SMALLEST_P, degrees)
    return _SMALLEST_P if excludes(most) else student_p(_last(excludes, most), degrees)


def _last(holds: Callable[[float], bool], most: float) -> float:
    """The largest number for which it holds, by bisection: it does for 0, and not for `most`."""
    low, high = 0.0, most
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (middle, high) if holds(middle) else (low, middle)
    return low


def holm(ps: Sequence[float]) -> list[float]:
    """Each p as it is when all of them were looked at."""
    order = sorted(range(len(ps)), key=lambda i: ps[i])
    out, worst = [1.0] * len(ps), 0.0
    for place, i in enumerate(order):
        worst = max(worst, min((len(ps) - place) * ps[i], 1.0))
        out[i] = worst
    return out


def student_p(t: float, degrees: int) -> float:
    """Two-sided: how likely Student's t is at least so far from 0 (Abramowitz and Stegun 26.7.3 and 26.7.4)."""
    angle = math.atan2(abs(t), math.sqrt(degrees))
    sine, cosine = math.sin(angle), math.cos(angle)
    odd = degrees % 2
    term, total = (cosine if odd else 1.0), 0.0
    for step in range(degrees // 2):
        total += term
        term *= cosine * cosine * (2 * step + 1 + odd) / (2 * step + 2 + odd)
    inside = 2 / math.pi * (angle + sine * total) if odd else sine * total
    return min(max(1.0 - inside, 0.0), 1.0)


@cache  # a diff asks for the same few
def student_quantile(confidence: float, degrees: int) -> float:
    """What |t| does not exceed with `confidence`."""
    most = 1.0
    while student_p(most, degrees) > 1 - confidence and most < 1e12:
        most *= 2
    return _last(lambda t: student_p(t, degrees) > 1 - confidence, most)
