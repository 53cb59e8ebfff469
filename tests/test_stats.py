"""Durations -> histogram, percentiles, slowest ops."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from nfslat.model.tables import I64
from nfslat.tally.stats import histogram, slowest, summary_of

US, MS = 1000, 1_000_000
ANY = st.lists(st.integers(-(1 << 63), (1 << 63) - 1), max_size=30)
# Up to 104 days: a float holds each of these nanoseconds exactly.
EXACT = st.lists(st.integers(-(1 << 53), 1 << 53), min_size=1, max_size=200)


def ns(*values: int) -> I64:
    return np.array(values, dtype=np.int64)


def buckets(*values: int) -> list[tuple[int | None, str, int]]:
    return [(b.le_us, b.label, b.count) for b in histogram(ns(*values))]


# --- Histogram --------------------------------------------------------------------------------------------------------


def test_the_labels_of_the_2013_article() -> None:
    """Its readers know this axis; a duration on a bound is in the bucket that the bound names."""
    bounds = [128 * US << power for power in range(11)]
    known = ".1m .2m .5m 1m 2m 4m 8m 16m 33m 65m .1s".split()
    assert [label for _, label, _ in buckets(*bounds)] == known


def test_a_bucket_holds_what_is_above_the_bound_before_it() -> None:
    """1.024 ms is the last of "1m", a nanosecond more the first of "2m"."""
    assert buckets(1024 * US, 1024 * US + 1, 2048 * US) == [(1024, "1m", 1), (2048, "2m", 2)]


def test_empty_buckets_between_two_full_ones_are_shown() -> None:
    """0.5 ms and 4 ms: the gap between them is part of the picture, what lies outside is not."""
    assert buckets(500 * US, 4 * MS) == [(512, ".5m", 1), (1024, "1m", 0), (2048, "2m", 0), (4096, "4m", 1)]


def test_zero_and_negative_durations_have_a_bucket_of_their_own() -> None:
    """Equal times and reordered packets are counted, not thrown in with 1 us."""
    assert buckets(-5, 0, 1) == [(0, "<=0", 2), (1, "1u", 1)]


def test_ten_seconds_and_more_are_counted() -> None:
    """The 2013 script lost them; an hour is beyond the last bound."""
    assert [(label, count) for _, label, count in buckets(10 * 1000 * MS)] == [("16s", 1)]
    assert buckets(3600 * 1000 * MS) == [(None, "more", 1)]


@given(ANY)
def test_the_counts_sum_to_the_durations(durations: list[int]) -> None:
    """Any int64: none is lost, none counted twice."""
    assert sum(b.count for b in histogram(ns(*durations))) == len(durations)


@given(ANY)
def test_each_bucket_counts_what_lies_within_its_bounds(durations: list[int]) -> None:
    """Above the bound before it, up to and including its own; bounds rise; first and last bucket are not empty."""
    rows = histogram(ns(*durations))
    bounds = [float("inf") if b.le_us is None else b.le_us * US for b in rows]
    assert bounds == sorted(set(bounds))
    below = bounds[0] // 2 if bounds and bounds[0] > US else 0
    if rows and rows[0].le_us in (0, None):
        below = float("-inf") if rows[0].le_us == 0 else (1 << 30) * US
    for bucket, low, high in zip(rows, [below, *bounds], bounds, strict=False):
        assert bucket.count == sum(low < duration <= high for duration in durations)
    assert not rows or (rows[0].count and rows[-1].count)


# --- Summary ----------------------------------------------------------------------------------------------------------


def test_percentiles_are_nearest_rank() -> None:
    """1 to 100 ms: the 50th of 100 values is p50, the 95th is p95, the 99th p99."""
    made = summary_of(ns(*(i * MS for i in range(100, 0, -1))))
    assert (made.mean, made.p50, made.p95, made.p99, made.max) == (50.5, 50, 95, 99, 100)


def test_one_duration_is_all_its_percentiles() -> None:
    """One op of 7 ms."""
    made = summary_of(ns(7 * MS))
    assert (made.mean, made.p50, made.p95, made.p99, made.max) == (7, 7, 7, 7, 7)


def test_no_durations_have_no_summary() -> None:
    """A mean of nothing is not zero."""
    with pytest.raises(ValueError, match="no durations"):
        summary_of(ns())
    assert histogram(ns()) == []


@given(EXACT)
def test_percentiles_are_durations_that_were_measured(durations: list[int]) -> None:
    """No value between two ops is made up; they rise to the maximum, and at least their share lies at or below."""
    made = summary_of(ns(*durations))
    measured = {duration / MS for duration in durations}
    assert {made.p50, made.p95, made.p99, made.max} <= measured
    assert made.p50 <= made.p95 <= made.p99 <= made.max == max(measured)
    for share, value in ((50, made.p50), (95, made.p95), (99, made.p99)):
        assert sum(duration / MS <= value for duration in durations) * 100 >= share * len(durations)


@given(EXACT)
def test_the_mean_lies_between_the_extremes(durations: list[int]) -> None:
    """Up to the last digit of a float."""
    made = summary_of(ns(*durations))
    low, high = min(durations) / MS, max(durations) / MS
    slack = 1e-12 * max(abs(low), abs(high))
    assert low - slack <= made.mean <= high + slack


# --- Slowest ----------------------------------------------------------------------------------------------------------


def test_the_slowest_come_first_and_ties_in_row_order() -> None:
    """A third of six: rows 1 and 4 have the longest durations; one of one in a hundred."""
    assert slowest(ns(1, 9, 2, 3, 9, 4), 1 / 3).tolist() == [1, 4]
    assert slowest(ns(1, 9, 2)).tolist() == [1]


@given(EXACT, st.floats(0.001, 1))
def test_no_op_that_is_left_out_is_slower(durations: list[int], share: float) -> None:
    """Every row of the slowest is at least as slow as every other row, and none comes twice."""
    rows = slowest(ns(*durations), share).tolist()
    assert len(set(rows)) == len(rows) == max(1, int(len(durations) * share))
    rest = [duration for row, duration in enumerate(durations) if row not in rows]
    assert not rest or min(durations[row] for row in rows) >= max(rest)
