"""Durations -> a histogram that can be merged with others: `Sketch`, from which percentiles of all are read.

A bin for every 1/128 of a power of two: 2^7 linear steps from 2^e to 2^(e+1). Below 2^8 ns each integer has a bin of
its own. Above, the bin of a duration of d ns, 2^e <= d < 2^(e+1), is 2^(e-7) wide, and `quantile` answers its middle:
that is off by at most half of the width, 2^(e-8), which is at most d * 2^-8. So the relative error of a percentile
against the nearest rank of the durations themselves is at most `RELATIVE_ERROR` = 2^-8. What is zero or below has one
bin, which stands for 0. Count, sum, least and most are exact.

Bins are counted, so that merging adds integers: the order and the grouping do not matter, and the merged sketch of any
parts is the sketch of the whole.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Self

import numpy as np
import numpy.typing as npt

from nfslat.answer.figures import Summary
from nfslat.kernels.exact import exact_sum
from nfslat.model.blocks import each_block, rank
from nfslat.model.record import Record
from nfslat.model.tables import I64
from nfslat.model.units import to_ms
from nfslat.tally.stats import PERCENTILES

_STEP_BITS = 7
RELATIVE_ERROR = 2.0 ** -(_STEP_BITS + 1)
_STEPS = 1 << _STEP_BITS
_MANTISSA_BITS, _EXPONENT_OF_ONE = 52, 1023  # of a float64
_BINS = 63 * _STEPS + 1  # bin 0 is for what is zero or below; an int64 has 63 bits
_EXACT = 1 << 53  # below, a float64 holds each integer
_ROUNDED_BITS = 63 - 53


class Sketch(Record, eq=False):
    """How many durations are in each bin; only bins that hold any are kept, ascending."""

    keys: npt.NDArray[np.uint16]
    counts: npt.NDArray[Any]  # of the narrowest unsigned type
    sum_ns: int
    min_ns: int  # 0 where there are none, as `max_ns`
    max_ns: int

    def __eq__(self, other: object) -> bool:
        """The same durations, as far as sketches tell."""
        if not isinstance(other, Sketch):
            return NotImplemented
        exact = (self.sum_ns, self.min_ns, self.max_ns) == (other.sum_ns, other.min_ns, other.max_ns)
        return exact and np.array_equal(self.keys, other.keys) and np.array_equal(self.counts, other.counts)

    __hash__ = None  # type: ignore[assignment]

    @property
    def count(self) -> int:
        """Durations in it."""
        return int(self.counts.sum(dtype=np.int64))

    @classmethod
    def of(cls, durations_ns: I64) -> Self:
        """Of these durations, in any order."""
        rows = len(durations_ns)
        if not rows:
            return cls._made(np.zeros(_BINS, dtype=np.int64), 0, 0, 0)
        least, most = int(durations_ns.min()), int(durations_ns.max())
        exact = most < _EXACT
        blocks = each_block(rows, lambda at: np.bincount(_keys(durations_ns[at], least, exact=exact), minlength=_BINS))
        bins = blocks[0] if len(blocks) == 1 else np.sum(blocks, axis=0)
        return cls._made(bins, exact_sum(durations_ns), least, most)

    @classmethod
    def merge(cls, sketches: Iterable[Self]) -> Self:
        """Of all durations of `sketches`."""
        parts = [one for one in sketches if len(one.keys)]
        if not parts:
            return cls.of(np.zeros(0, dtype=np.int64))
        bins = np.zeros(_BINS, dtype=np.int64)
        for one in parts:
            bins[one.keys] += one.counts.astype(np.int64)
        sum_ns = sum(one.sum_ns for one in parts)
        return cls._made(bins, sum_ns, min(one.min_ns for one in parts), max(one.max_ns for one in parts))

    @classmethod
    def _made(cls, bins: I64, sum_ns: int, min_ns: int, max_ns: int) -> Self:
        used = np.flatnonzero(bins)
        counts = bins[used]
        narrow = np.min_scalar_type(int(counts.max(initial=0)))
        return cls(used.astype(np.uint16), counts.astype(narrow), sum_ns, min_ns, max_ns)

    def quantile(self, percent: int) -> int:
        """The percentile (1 to 100, nearest rank) in ns, off by at most `RELATIVE_ERROR`; 0 where it is not above 0.

        Raises ``ValueError`` where there are no durations.
        """
        if not len(self.keys):
            raise ValueError("no durations, no percentile")
        at = rank(self.count, percent)
        ends = np.cumsum(self.counts, dtype=np.int64)
        key = int(self.keys[np.searchsorted(ends, at, side="right")])
        # Least and most are exact, so that what is cut off at them comes nearer.
        return min(max(_middle_ns(key), self.min_ns), self.max_ns)

    def summary(self) -> Summary:
        """Mean and maximum, which are exact, and percentiles. Raises ``ValueError`` where there are no durations."""
        p50, p95, p99, most = (to_ms(ns) for ns in self.percentiles())
        return Summary(mean=to_ms(self.sum_ns / self.count), p50=p50, p95=p95, p99=p99, max=most)

    def percentiles(self) -> list[int]:
        """As `nfslat.tally.stats.percentiles`, the longest exactly."""
        return [*(self.quantile(percent) for percent in PERCENTILES), self.max_ns]


def _keys(durations_ns: I64, least: int, *, exact: bool) -> npt.NDArray[np.int64]:
    """The bin of each duration: exponent and first bits of the mantissa of a float64, which stand side by side."""
    if not exact:
        # Rounded up, a duration could get into the next bin: the bits that do not matter are cut off.
        durations_ns = np.where(durations_ns < _EXACT, durations_ns, durations_ns & -(1 << _ROUNDED_BITS))
    if least > 0:
        bits = durations_ns.astype(np.float64).view(np.int64)
        bits >>= _MANTISSA_BITS - _STEP_BITS
        bits -= _EXPONENT_OF_ONE * _STEPS - 1
        return bits
    bits = np.maximum(durations_ns, 0).astype(np.float64).view(np.int64)
    bits >>= _MANTISSA_BITS - _STEP_BITS
    bits -= _EXPONENT_OF_ONE * _STEPS - 1
    return np.maximum(bits, 0)


def _middle_ns(key: int) -> int:
    if key == 0:
        return 0
    exponent, step = divmod(key - 1, _STEPS)
    if exponent < _STEP_BITS + 1:
        return ((_STEPS + step) << exponent) >> _STEP_BITS
    shift = exponent - _STEP_BITS
    return ((_STEPS + step) << shift) + (1 << (shift - 1))
