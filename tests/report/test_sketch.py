"""Durations -> sketches: errors of percentiles, exact figures, merging."""

from __future__ import annotations

import pickle

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from nfslat.kernels.order import ranked
from nfslat.model.tables import I64
from nfslat.tally.sketch import RELATIVE_ERROR, Sketch
from nfslat.tally.stats import summary_of

ANY = st.integers(-(1 << 63), (1 << 63) - 1)
DURATION = st.one_of(st.integers(-1000, 1000), st.integers(1, 1 << 40), st.integers((1 << 53) - 9, 1 << 56), ANY)
SOME = st.lists(DURATION, min_size=1, max_size=80)


def ns(values: list[int]) -> I64:
    return np.array(values, dtype=np.int64)


@given(SOME, st.integers(1, 100))
def test_a_percentile_is_off_by_no_more_than_is_promised(values: list[int], percent: int) -> None:
    """Against the nearest rank, which is a duration that was measured; what is not above 0 counts as 0."""
    exact = max(ranked(ns(values), percent), 0)
    found = Sketch.of(ns(values)).quantile(percent)
    assert abs(max(found, 0) - exact) <= RELATIVE_ERROR * exact


@given(st.lists(st.integers(1, 255), min_size=1), st.integers(1, 100))
def test_short_durations_have_bins_of_their_own(values: list[int], percent: int) -> None:
    """Below 256 ns nothing is rounded."""
    assert Sketch.of(ns(values)).quantile(percent) == ranked(ns(values), percent)


@given(SOME)
def test_count_sum_least_and_most_are_exact(values: list[int]) -> None:
    """Any int64, also where their sum is none."""
    made = Sketch.of(ns(values))
    assert (made.count, made.sum_ns, made.min_ns, made.max_ns) == (len(values), sum(values), min(values), max(values))


@given(st.lists(st.lists(DURATION, max_size=20), max_size=6), st.randoms())
def test_a_merged_sketch_is_the_sketch_of_all(parts: list[list[int]], chance: object) -> None:
    """However the durations are parted, and in whatever order and grouping the parts are merged."""
    whole = Sketch.of(ns([value for part in parts for value in part]))
    sketches = [Sketch.of(ns(part)) for part in parts]
    assert Sketch.merge(sketches) == whole
    chance.shuffle(sketches)  # type: ignore[attr-defined]
    half = len(sketches) // 2
    assert Sketch.merge([Sketch.merge(sketches[:half]), Sketch.merge(sketches[half:])]) == whole


def test_the_figures_of_a_population() -> None:
    """Mean and maximum are those of the durations; percentiles within the error."""
    durations = np.random.default_rng(1).lognormal(14, 1, 50_000).astype(np.int64)
    exact, made = summary_of(durations), Sketch.of(durations).summary()
    assert made.mean == pytest.approx(exact.mean, rel=1e-12)
    assert made.max == exact.max
    for name in ("p50", "p95", "p99"):
        assert getattr(made, name) == pytest.approx(getattr(exact, name), rel=RELATIVE_ERROR)


def test_no_durations() -> None:
    """Nothing is a sketch, too, and has no percentiles."""
    nothing = Sketch.of(ns([]))
    assert nothing.count == 0
    assert Sketch.merge([]) == nothing == Sketch.merge([nothing, nothing])
    with pytest.raises(ValueError, match="no durations"):
        nothing.summary()


def test_other_durations_make_another_sketch() -> None:
    """Equality looks at bins, and nothing else is equal to a sketch."""
    assert Sketch.of(ns([1, 2])) != Sketch.of(ns([1, 3]))
    assert Sketch.of(ns([1, 2, 2, 3])) != Sketch.of(ns([1, 1, 3, 3]))
    assert Sketch.of(ns([1])) != 1


def test_a_sketch_is_small_and_survives_the_way_between_processes() -> None:
    """A few bytes a bin, whatever the number of durations."""
    durations = np.random.default_rng(2).lognormal(14, 1.5, 200_000).astype(np.int64)
    sent = pickle.dumps(Sketch.of(durations))
    assert len(sent) < 10_000
    assert pickle.loads(sent) == Sketch.of(durations)  # noqa: S301 - what was written here
