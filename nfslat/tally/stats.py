"""Durations in int64 nanoseconds -> the figures of one population: mean, percentiles, power-of-two histogram."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np
from msgspec import structs

from nfslat.answer.model import Bucket, Summary
from nfslat.kernels.compiled import native
from nfslat.kernels.order import ranks
from nfslat.model.blocks import rank
from nfslat.model.tables import I32, I64
from nfslat.model.units import to_ms

PERCENTILES = (50, 95, 99)

# The labels of the 2013 article, which its readers know: milliseconds up to 65m, then seconds, one leading digit.
_LABELS = tuple(
    "1u 2u 4u 8u 16u 32u 64u .1m .2m .5m 1m 2m 4m 8m 16m 33m 65m .1s .2s .5s 1s 2s 4s 8s 16s 33s 67s "
    "134s 268s 536s 1073s".split()
)
_BUCKETS = (
    Bucket(0, "<=0", 0),
    *(Bucket(1 << power, label, 0) for power, label in enumerate(_LABELS)),
    Bucket(None, "more", 0),
)


def summary_of(durations_ns: I32 | I64) -> Summary:
    """Mean, p50, p95, p99 and maximum in ms; percentiles are nearest-rank, so each is a duration that was measured.

    Raises ``ValueError`` for an empty population.
    """
    if not len(durations_ns):
        raise ValueError("no durations, no summary")
    p50, p95, p99, most = percentiles(durations_ns)
    return Summary(
        mean=float(to_ms(durations_ns.mean())), p50=to_ms(p50), p95=to_ms(p95), p99=to_ms(p99), max=to_ms(most)
    )


def percentiles(durations_ns: I32 | I64) -> list[int]:
    """`PERCENTILES`, and the longest, each as it was measured. Raises ``ValueError`` where there are none."""
    rows = len(durations_ns)
    if not rows:
        raise ValueError("no durations, no percentiles")
    return ranks(durations_ns, [*(rank(rows, percent) for percent in PERCENTILES), rows - 1])


def histogram(durations_ns: I32 | I64) -> list[Bucket]:
    """Power-of-two buckets of microseconds, from the first to the last that holds an op; the counts sum to the ops.

    A bucket counts the durations up to and including its bound and above the one before. Durations of zero and below
    (equal timestamps, reordered packets) have a bucket of their own with bound 0.
    """
    if not len(durations_ns):
        return []
    return _filled(native.histogram(np.ascontiguousarray(durations_ns, dtype=np.int64), len(_BUCKETS)))


def added(some: Iterable[Sequence[Bucket]]) -> list[Bucket]:
    """The histogram of all durations that have these histograms."""
    places = {one.le_us: at for at, one in enumerate(_BUCKETS)}
    counts = [0] * len(_BUCKETS)
    for buckets in some:
        for one in buckets:
            counts[places[one.le_us]] += one.count
    return _filled(counts)


def _filled(counts: Sequence[int]) -> list[Bucket]:
    used = [at for at, count in enumerate(counts) if count]
    if not used:
        return []
    return [structs.replace(_BUCKETS[at], count=counts[at]) for at in range(used[0], used[-1] + 1)]


def slowest(durations_ns: I64, share: float = 0.01) -> I64:
    """Row numbers of the slowest `share` (at least one row), slowest first; ties in row order."""
    return longest(durations_ns, max(1, int(len(durations_ns) * share)))


def longest(durations_ns: I64, rows: int) -> I64:
    """Row numbers of the `rows` longest durations, or of all where there are fewer, in the same order."""
    rows = min(rows, len(durations_ns))
    if not rows:
        return np.zeros(0, dtype=np.int64)
    (least,) = ranks(durations_ns, [len(durations_ns) - rows])
    among = np.flatnonzero(durations_ns >= least)
    return among[np.argsort(-durations_ns[among], kind="stable")[:rows]]
