"""Latencies by load -> whether they grow, and from which load on: a level, a straight line, a level with a bend and one
with a soft bend are fitted and tested against each other.

A closed queue is level until what limits it is taken, and grows by a constant with each user behind that (asymptotic
bounds; Denning and Buzen, ACM Computing Surveys 10, 1978): a bend. Users who think meet by chance before, and the bend
is soft: ever closer to the same two lines on both sides of where they meet, as the tail of a queue is geometric. What
grows from the first user on is a line. The squared distances in standard errors are chi square if a shape is true.
Where errors are not known, how the runs scatter about the bend stands for them, and Student's t for the normal
distribution.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from nfslat.diff.statistics import CONFIDENCE, student_p, student_quantile
from nfslat.model.record import Record
from nfslat.model.tables import F64
from nfslat.series.model import Fit

CERTAIN = 0.01  # a shape that fits worse is refused
_CANDIDATES = 400  # places of the bend that are tried
_BENT = 3  # parameters of a bend
_SOFT = 4  # and of a soft one
# Of the load of the bend: how wide it may be. It is the wider, the fewer threads and the longer the pauses.
_NEAR_ZERO = 1e-9  # of the highest load: a bend there is none
_SOFTNESS = (0.02, 0.04, 0.06, 0.08, 0.1, 0.12, 0.16, 0.2, 0.25, 0.3, 0.4)


class Data(Record):
    """Of each load the mean, ms, and its standard error; None: errors are not known."""

    loads: F64
    ms: F64
    errors: F64 | None

    @classmethod
    def of(cls, points: Sequence[tuple[float, float, float | None]]) -> Data:
        """From (load, ms, error) in the order of loads; runs at one load are one, and differ by chance."""
        loads, ms, errors = [], [], []
        groups: dict[float, list[tuple[float, float | None]]] = {}
        for load, value, error in points:
            groups.setdefault(load, []).append((value, error))
        known = all(error is not None for _, _, error in points)
        for load, runs in groups.items():
            values = [value for value, _ in runs]
            loads.append(load)
            ms.append(math.fsum(values) / len(values))
            own = math.sqrt(math.fsum((error or 0.0) ** 2 for _, error in runs)) / len(runs)
            apart = float(np.std(values, ddof=1)) / math.sqrt(len(runs)) if len(runs) > 1 else 0.0
            errors.append(max(own, apart))
        return cls(np.array(loads), np.array(ms), np.array(errors) if known else None)

    def __len__(self) -> int:
        """Loads."""
        return len(self.loads)


class Shapes(Record):
    """The fits, and what follows."""

    level: Fit
    line: Fit
    bend: Fit
    soft: Fit
    best: Fit  # the bend, or the soft one where the interval has no place for a sharp one
    grows: bool  # a line upwards, or a bend, goes with it better than a level, certainly
    bends: bool  # a bend does better than a line, certainly
    slope: tuple[float, float]  # of the line, ms for each unit of load: 95 % interval; infinite where unknown
    bend_between: tuple[float, float]  # loads: 95 % interval
    base_ms: float  # of the bend: before it


def shapes(data: Data) -> Shapes | None:
    """None for fewer than three loads, through which anything goes."""
    n = len(data)
    if n < _BENT:
        return None
    weights = np.ones(n) if data.errors is None else 1 / np.maximum(data.errors, _least(data)) ** 2
    level = float((data.ms - weights @ data.ms / weights.sum()) ** 2 @ weights)
    straight = _lines(data.loads, data.ms, weights)
    line, slope = float(straight.chi2), float(straight.slope)
    tried = np.union1d(np.linspace(data.loads[0], data.loads[-1], _CANDIDATES)[:-1], data.loads[:-1])
    found = _lines(np.maximum(data.loads - tried[:, None], 0), data.ms, weights)
    squares = np.where(found.slope > 0, found.chi2, math.inf)
    best = int(np.argmin(squares))
    bend = float(squares[best]) if math.isfinite(squares[best]) else line
    free = n - _BENT
    # Without errors the scatter about the bend is that of chance; too few runs show none. With errors it may be more
    # than they are: no queue has a corner.
    scatter = bend / free if free else 0.0
    softened = _softened(data, tried, weights)
    softest = int(np.argmin(softened.chi2))
    soft = min(float(softened.chi2[softest]), bend)
    unit = scatter if free else math.inf
    if data.errors is not None:
        unit = max(min(scatter, soft / (free - 1) if free > 1 else scatter), 1.0)
    degrees = None if data.errors is not None else free
    spread = float(weights @ (data.loads - weights @ data.loads / weights.sum()) ** 2)
    reach = _quantile(degrees) * math.sqrt(unit / spread) if spread > 0 and math.isfinite(unit) else math.inf
    # How soft the bend is, is not known: the interval is over all that may be.
    least = np.minimum(squares, softened.chi2)
    between = tried[least <= soft + unit * _quantile(degrees) ** 2] if math.isfinite(unit) else tried
    if not len(between):
        between = tried
    end = float(data.loads[np.searchsorted(data.loads, between[-1], side="right")])
    at, base, per_load = float(tried[best]), float(found.base[best]), float(found.slope[best])

    def fit(shape: str, parameters: int, chi2: float, start: float | None, per: float | None) -> Fit:
        known = data.errors is not None
        left = max(n - parameters, 0)
        return Fit(shape, parameters, chi2 if known else None, left, chi2_p(chi2, left) if known else None, start, per)

    bends = math.isfinite(squares[best]) and _better(line, bend, unit, degrees)
    hard = fit("bend", _BENT, bend, at if math.isfinite(squares[best]) else None, per_load)
    rounded = hard
    if math.isfinite(softened.chi2[softest]):
        rounded = fit("soft", _SOFT, soft, float(tried[softest]), float(softened.slope[softest]))
    return Shapes(
        fit("level", 1, level, None, None),
        fit("line", 2, line, None, slope),
        hard,
        rounded,
        rounded if math.isfinite(unit) and bend - soft > unit * _quantile(degrees) ** 2 else hard,
        bends or (slope > 0 and _better(level, line, unit, degrees)),
        bends,
        (slope - reach, slope + reach),
        # In the last gap no run tells where it is.
        (float(between[0]), end if between[-1] > data.loads[-2] else float(between[-1])),
        base,
    )


def chi2_p(chi2: float, degrees: int) -> float:
    """How likely chi square is at least so large (Abramowitz and Stegun 26.4.4 and 26.4.5)."""
    if degrees < 1:
        return 1.0
    half = min(chi2, 2e3) / 2
    term = math.exp(-half)
    if degrees % 2 == 0:
        total = 0.0
        for step in range(degrees // 2):
            total += term
            term *= half / (step + 1)
        return min(total, 1.0)
    total = math.erfc(math.sqrt(half))
    term *= math.sqrt(half) / math.gamma(1.5)
    for step in range(degrees // 2):
        total += term
        term *= half / (step + 1.5)
    return min(total, 1.0)


def _least(data: Data) -> float:
    """Of the errors: a run without any scatter is not worth all the others."""
    return max(float(np.max(data.ms)) * 1e-4, 1e-6)


class _Lines(NamedTuple):
    """Each fitted with the least chi square."""

    chi2: F64
    base: F64
    slope: F64


def _lines(loads: F64, ms: F64, weights: F64) -> _Lines:
    """Straight lines through the same points by one kind of load or, in rows, by many."""
    every = weights.sum()
    middle, middle_ms = loads @ weights / every, float(ms @ weights / every)
    apart = loads - middle[..., None]
    slope = apart @ (weights * (ms - middle_ms)) / (apart**2 @ weights)
    chi2 = (ms - middle_ms - slope[..., None] * apart) ** 2 @ weights
    return _Lines(chi2, middle_ms - slope * middle, slope)


def _softened(data: Data, tried: F64, weights: F64) -> _Lines:
    """Of the soft bends whose lines meet at each of `tried` that of the least chi square; infinite where none grows."""
    found = []
    for share in _SOFTNESS:
        at = np.where(tried > _NEAR_ZERO * data.loads[-1], tried, data.loads[-1])[:, None]
        one = _lines(np.logaddexp(0.0, (data.loads - at) / (share * at)) * share * at, data.ms, weights)
        is_one = (one.slope > 0) & (tried > _NEAR_ZERO * data.loads[-1])
        found.append(one._replace(chi2=np.where(is_one, one.chi2, math.inf)))
    chi2 = np.stack([one.chi2 for one in found])
    least = np.argmin(chi2, axis=0), np.arange(len(tried))
    base, slope = (np.stack([getattr(one, name) for one in found])[least] for name in ("base", "slope"))
    return _Lines(chi2[least], base, slope)


def _quantile(degrees: int | None) -> float:
    if degrees is None:
        return 1.96
    return student_quantile(CONFIDENCE, degrees) if degrees else math.inf


def _better(simple: float, richer: float, unit: float, degrees: int | None) -> bool:
    """Does one parameter more do so much that chance alone hardly does it?"""
    gain = max(simple - richer, 0.0)
    if degrees is None:
        return chi2_p(gain, 1) < CERTAIN
    if not degrees or not math.isfinite(unit):
        return False
    return gain > 0 if not unit else student_p(math.sqrt(gain / unit), degrees) < CERTAIN
