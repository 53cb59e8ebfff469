"""Instants -> equal bins of time, and durations -> classes of latency: few, whatever the captures are."""

from __future__ import annotations

import itertools

import numpy as np

from nfslat.model.record import Record
from nfslat.model.tables import I64
from nfslat.model.units import NS_PER_MS

MOST_BINS = 120
_STEPS = (1, 2, 5)

PER_DECADE = 10
_LEAST_NS, _DECADES = 1_000, 8  # up to 100 s
_SUB_BITS = 49  # of a float64's 52 bits of mantissa: buckets by the rest are 1/8 wide, and no two bounds are so close
_BUCKETS = 64 << (52 - _SUB_BITS)  # for exponents 0 to 63
_ONE = int(np.float64(1).view(np.int64)) >> _SUB_BITS

LE_NS: I64 = np.array(
    [round(_LEAST_NS * 10 ** (at / PER_DECADE)) for at in range(PER_DECADE * _DECADES + 1)], dtype=np.int64
)
CLASSES = len(LE_NS)
_PADDED = np.append(LE_NS, np.iinfo(np.int64).max)
_FIRST = np.searchsorted(
    LE_NS, ((np.arange(_BUCKETS, dtype=np.int64) + _ONE) << _SUB_BITS).view(np.float64), side="left"
)


class Bins(Record):
    """`count` bins of `width_ns` each from `begin_ns` on, client's clock."""

    begin_ns: int
    width_ns: int
    count: int

    @classmethod
    def over(cls, begin_ns: int, end_ns: int) -> Bins:
        """At most `MOST_BINS` of a round width (1, 2 or 5 times a power of ten, in ms) that hold both instants."""
        for power in itertools.count():
            for step in _STEPS:
                width_ns = step * 10**power * NS_PER_MS
                count = (end_ns - begin_ns) // width_ns + 1
                if count <= MOST_BINS:
                    return cls(begin_ns, width_ns, count)
        raise AssertionError("widths grow without end")

    @property
    def edges_ns(self) -> I64:
        """Where the bins begin, and where the last one ends."""
        return self.begin_ns + self.width_ns * np.arange(self.count + 1, dtype=np.int64)

    def of(self, t_ns: I64) -> I64:
        """The bin of each instant; beyond the bins below 0, or from `count` on."""
        out: I64 = (t_ns - self.begin_ns) // self.width_ns
        return out


def classes_of(durations_ns: I64) -> I64:
    """For each duration the first class whose bound (`LE_NS`) it does not exceed; the last one for longer ones.

    As ``np.searchsorted`` has it, several times as fast: the leading bits of a float64 say all but the last step.
    """
    bits = np.maximum(durations_ns, 1).astype(np.float64).view(np.int64)
    first = _FIRST[(bits >> _SUB_BITS) - _ONE]
    return np.asarray(np.minimum(first + (durations_ns > _PADDED[first]), CLASSES - 1))
