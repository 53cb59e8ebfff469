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

import dataclasses
import math
from collections.abc import Callable, Sequence
from functools import cache, cached_property

import numpy as np
import numpy.typing as npt

from nfslat.model.record import Record
from nfslat.model.tables import F64, I64

SLICES = 10  # the fewest of Schmeiser's: what waits together, such as one pause, is the likelier within one of them
CONFIDENCE = 0.95  # of what is printed, for one figure, as a reader expects it; what is called a change is stricter
LEAST_OPS = 5 * SLICES  # of one kind in one run: means of stretches with fewer than 5 ops are no means
# In which it must occur: what a run holds in one spell says nothing of the rest of it. In half of them Student's t has
# four degrees of freedom, and 99 % lie within 4.6 standard errors; in two of them, within 64.
_LEAST_SLICES = 5
_SMALLEST_P = 1e-12  # where bisection of an interval's p ends; Holm multiplies it by dozens at most
DRIFT = 2  # end to end over half to half: the middles of two halves lie half of the run apart


class Sample(Record, eq=False, dict=True):
    """Values of the ops of one kind in one run, any unit, and the stretch of the run in which each began."""

    values: F64
    slices: I64

    @classmethod
    def of(cls, values: npt.NDArray[np.integer | np.floating], slices: I64) -> Sample:
        """From integers or floats."""
        return cls(np.asarray(values, dtype=np.float64), slices)

    def __len__(self) -> int:
        """Values."""
        return len(self.values)

    @cached_property
    def mean(self) -> float:
        """Of all of them."""
        return float(self.values.mean())

    @cached_property
    def degrees(self) -> int:
        """Degrees of freedom: stretches in which there are any, less one."""
        return int(np.count_nonzero(np.bincount(self.slices, minlength=SLICES))) - 1

    @property
    def enough(self) -> bool:
        """Can anything be said of the mean?"""
        return len(self) >= LEAST_OPS and self.degrees >= _LEAST_SLICES - 1

    @cached_property
    def error(self) -> float:
        """Standard error of the mean."""
        return math.sqrt(variance([self], [1.0]))

    @cached_property
    def _sorted(self) -> tuple[F64, I64]:
        order = np.argsort(self.values, kind="stable")
        return self.values[order], self.slices[order]

    @cached_property
    def halves(self) -> tuple[Sample, Sample]:
        """What began in the first and in the second half of the run."""
        early = self.slices < SLICES // 2
        return Sample(self.values[early], self.slices[early]), Sample(self.values[~early], self.slices[~early])

    def percentile(self, share: float) -> float:
        """Nearest rank."""
        return float(self._sorted[0][max(math.ceil(share * len(self)) - 1, 0)])

    def share_error(self, share: float) -> float:
        """Standard error of the share of ops that are not above the percentile."""
        values, slices = self._sorted
        rows = len(values)
        below = int(np.searchsorted(values, self.percentile(share), side="right"))
        counts = np.bincount(slices, minlength=SLICES)
        over = np.bincount(slices[:below], minlength=SLICES) - below / rows * counts
        used = self.degrees + 1
        spread = used / max(used - 1, 1) * float(over @ over) / rows**2
        # What waits in queues is hardly ever steadier than chance; a smaller spread is luck.
        return math.sqrt(max(spread, share * (1 - share) / rows))

    def percentile_range(self, share: float, reach: float) -> tuple[float, float]:
        """Where the percentile may be if the share of ops below is off by `reach`; infinite where ops run out."""
        values, rows = self._sorted[0], len(self)
        low, high = math.ceil((share - reach) * rows) - 1, math.ceil((share + reach) * rows) - 1
        return (float(values[low]) if low >= 0 else -math.inf, float(values[high]) if high < rows else math.inf)


class Estimate(Record):
    """Of a difference, B less A; infinite bounds and p = 1 where too little is known."""

    difference: float
    low: float  # of the interval with confidence `CONFIDENCE`
    high: float
    p: float  # two-sided, of a difference of 0
    steady: bool = True  # it is more than what the runs do by themselves (`is_steady`)


def variance(samples: Sequence[Sample], weights: Sequence[float]) -> float:
    """Of the weighted sum of the means of `samples`, all of one run: kinds that wait in one queue move together."""
    moved = np.zeros(SLICES)
    alone = 0.0
    used = np.zeros(SLICES, dtype=np.bool_)
    for one, weight in zip(samples, weights, strict=True):
        rest = one.values - one.mean
        moved += weight / len(one) * np.bincount(one.slices, rest, SLICES)
        alone += (weight / len(one)) ** 2 * float(rest @ rest)
        used |= np.bincount(one.slices, minlength=SLICES) > 0
    count = int(np.count_nonzero(used))
    return max(count / max(count - 1, 1) * float(moved @ moved), alone)


def mean_difference(a: Sequence[Sample], b: Sequence[Sample], weights: Sequence[float]) -> Estimate:
    """Of weighted sums of means; `a` and `b` hold the same kinds in the same order."""
    difference = math.fsum(w * (y.mean - x.mean) for x, y, w in zip(a, b, weights, strict=True))
    error = math.sqrt(variance(a, weights) + variance(b, weights))
    degrees = min(_degrees(a), _degrees(b))
    halves = [
        [
            math.fsum(
                w * (half.mean if len(half) else one.mean)
                for one, w in zip(side, weights, strict=True)
                for half in [one.halves[late]]
            )
            for late in (0, 1)
        ]
        for side in (a, b)
    ]
    wholes = [math.fsum(w * one.mean for one, w in zip(side, weights, strict=True)) for side in (a, b)]
    return dataclasses.replace(from_error(difference, error, degrees), steady=is_steady(wholes, halves))


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


def _degrees(samples: Sequence[Sample]) -> int:
    used = np.zeros(SLICES, dtype=np.int64)
    for one in samples:
        used += np.bincount(one.slices, minlength=SLICES)
    return int(np.count_nonzero(used)) - 1


def from_error(difference: float, error: float, degrees: int) -> Estimate:
    """From a standard error with so many degrees of freedom."""
    if degrees < 1:
        return Estimate(difference, -math.inf, math.inf, 1.0)
    reach = student_quantile(CONFIDENCE, degrees) * error
    if error == 0:
        return Estimate(difference, difference, difference, 1.0 if difference == 0 else 0.0)
    return Estimate(difference, difference - reach, difference + reach, student_p(difference / error, degrees))


def percentile_difference(a: Sample, b: Sample, share: float) -> Estimate | None:
    """None where the slowest ops are too few to say where the percentile ends."""
    degrees = min(a.degrees, b.degrees)
    difference = b.percentile(share) - a.percentile(share)

    if degrees < 1 or not all(len(half) for one in (a, b) for half in one.halves):
        return None
    errors = a.share_error(share), b.share_error(share)
    x, y = a.percentile(share), b.percentile(share)

    def bounds(t: float) -> tuple[float, float]:
        (al, ah), (bl, bh) = a.percentile_range(share, t * errors[0]), b.percentile_range(share, t * errors[1])
        return difference - math.hypot(y - bl, ah - x), difference + math.hypot(bh - y, x - al)

    low, high = bounds(student_quantile(CONFIDENCE, degrees))
    if not (math.isfinite(low) and math.isfinite(high)):
        return None
    halves = [[half.percentile(share) for half in one.halves] for one in (a, b)]
    return Estimate(difference, low, high, _least_p(bounds, degrees), is_steady([x, y], halves))


def _least_p(bounds: Callable[[float], tuple[float, float]], degrees: int) -> float:
    """The smallest p at which the interval of that many standard errors leaves 0 out, by bisection of their number."""

    def excludes(t: float) -> bool:
        low, high = bounds(t)
        return low > 0 or high < 0

    if not excludes(0.0):
        return 1.0
    low, high = 0.0, student_quantile(1 - _SMALLEST_P, degrees)  # excluded at `low`, not at `high`
    if excludes(high):
        return _SMALLEST_P
    for _ in range(40):
        middle = (low + high) / 2
        if excludes(middle):
            low = middle
        else:
            high = middle
    return student_p(low, degrees)


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
    low, high = 0.0, 1.0
    while student_p(high, degrees) > 1 - confidence and high < 1e12:
        high *= 2
    for _ in range(60):
        middle = (low + high) / 2
        if student_p(middle, degrees) > 1 - confidence:
            low = middle
        else:
            high = middle
    return high
