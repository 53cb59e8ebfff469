"""Durations in int64 nanoseconds -> the figures of one population: mean, percentiles, power-of-two histogram."""

from __future__ import annotations

import numpy as np

from nfslat.report.model import Bucket, Summary
from nfslat.tables import I64

_NS_PER_MS = 1e6

# The labels of the 2013 article, which its readers know: milliseconds up to 65m, then seconds, one leading digit.
_LABELS = tuple(
    "1u 2u 4u 8u 16u 32u 64u .1m .2m .5m 1m 2m 4m 8m 16m 33m 65m .1s .2s .5s 1s 2s 4s 8s 16s 33s 67s "
    "134s 268s 536s 1073s".split()
)


def summary(durations_ns: I64) -> Summary:
    """Mean, p50, p95, p99 and maximum in ms; percentiles are nearest-rank, so each is a duration that was measured.

    Raises ``ValueError`` for an empty population.
    """
    if not len(durations_ns):
        raise ValueError("no durations, no summary")
    p50, p95, p99 = np.percentile(durations_ns, (50, 95, 99), method="inverted_cdf")
    return Summary(
        mean=float(durations_ns.mean() / _NS_PER_MS),
        p50=float(p50 / _NS_PER_MS),
        p95=float(p95 / _NS_PER_MS),
        p99=float(p99 / _NS_PER_MS),
        max=float(durations_ns.max() / _NS_PER_MS),
    )


def histogram(durations_ns: I64) -> list[Bucket]:
    """Power-of-two buckets of microseconds, from the first to the last that holds an op; the counts sum to the ops.

    A bucket counts the durations up to and including its bound and above the one before. Durations of zero and below
    (equal timestamps, reordered packets) have a bucket of their own with bound 0.
    """
    if not len(durations_ns):
        return []
    bounds_us = [0, *(1 << power for power in range(len(_LABELS)))]
    at = np.searchsorted(np.array(bounds_us) * 1000, durations_ns, side="left")
    counts = np.bincount(at, minlength=len(bounds_us) + 1)
    rows = [
        *(Bucket(le_us, label, 0) for le_us, label in zip(bounds_us, ["<=0", *_LABELS], strict=True)),
        Bucket(None, "more", 0),
    ]
    used = np.flatnonzero(counts)
    return [Bucket(rows[i].le_us, rows[i].label, int(counts[i])) for i in range(int(used[0]), int(used[-1]) + 1)]


def slowest(durations_ns: I64, share: float = 0.01) -> I64:
    """Row numbers of the slowest `share` (at least one row), slowest first; ties in row order."""
    rows = max(1, int(len(durations_ns) * share))
    return np.argsort(-durations_ns, kind="stable")[:rows].astype(np.int64)
