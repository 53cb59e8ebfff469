"""Intervals and p values hold for ops that are slow together, and find what is there."""

from __future__ import annotations

import dataclasses
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from runs_by_hand import run, single, wandering

from nfslat.diff import compare
from nfslat.diff.statistics import (
    SLICES,
    Means,
    Sample,
    difference,
    holm,
    is_steady,
    percentile_difference,
    student_p,
    student_quantile,
)

_OPS = 1500
_STRETCHES = np.arange(_OPS) * SLICES // _OPS


@pytest.mark.parametrize(
    ("degrees", "quantile"), [(1, 12.706), (2, 4.303), (3, 3.182), (4, 2.776), (9, 2.262), (30, 2.042)]
)
def test_students_t_is_that_of_the_tables(degrees: int, quantile: float) -> None:
    """95 % quantiles for odd and even degrees of freedom, and p is their inverse."""
    assert student_quantile(0.95, degrees) == pytest.approx(quantile, abs=0.001)
    assert student_p(-quantile, degrees) == pytest.approx(0.05, abs=1e-4)


def test_holm_by_hand() -> None:
    """The smallest p counts as often as there are, the next once less, and none is below one before it."""
    assert holm([0.01, 0.04, 0.03]) == pytest.approx([0.03, 0.06, 0.06])
    assert holm([]) == []
    assert holm([0.9, 0.8]) == [1.0, 1.0]


def test_equal_runs_rarely_differ() -> None:
    """In 200 pairs of runs without a change, whose ops wander, 5 % tests reject about 5 %, a naive one far more."""
    of_a, of_b = (wandering(np.random.default_rng(seed), _OPS, 0.9, 200) for seed in (1, 2))
    rejected = {"mean": 0, "median": 0, "p99": 0, "naive": 0}
    for x, y in zip(of_a, of_b, strict=True):
        a, b = Sample.of(x, _STRETCHES), Sample.of(y, _STRETCHES)
        means = [Means.of(one, _STRETCHES, np.zeros(_OPS, dtype=np.int64), 1) for one in (x, y)]
        estimate = difference(*means, np.ones(1))
        rejected["mean"] += estimate is not None and estimate.p < 0.05
        for name, share in (("median", 0.5), ("p99", 0.99)):
            found = percentile_difference(a, b, share)
            rejected[name] += found is not None and found.p < 0.05
        z = (y.mean() - x.mean()) / math.hypot(x.std(), y.std()) * math.sqrt(_OPS)
        rejected["naive"] += math.erfc(abs(z) / math.sqrt(2)) < 0.05
    assert rejected["naive"] > 60
    assert all(rejected[name] <= 16 for name in ("mean", "median", "p99"))  # 10 expected; more than 16 in 3 of 100


def test_a_diff_of_equal_runs_finds_nothing() -> None:
    """Two operations, all figures and parts, 60 pairs without a change: hardly one is called slower or faster."""
    op = (np.arange(_OPS) % 3 == 0).astype(np.int64)
    wrong = 0
    for x, y in zip(*(wandering(np.random.default_rng(seed), _OPS, 0.8, 60) for seed in (3, 4)), strict=True):
        a, b = (single(2.0 * one, names=("READ", "WRITE"), op=op) for one in (x, y))
        wrong += any(row.verdict not in ("no evidence", "not relevant") for row in compare.compare(a, b).rows)
    assert wrong <= 2


def test_a_change_of_a_fifth_is_found() -> None:
    """20 % on the mean of 6,000 ops that wander are found nearly always, with an interval around them."""
    found, held = 0, 0
    of_a, of_b = (wandering(np.random.default_rng(seed), 6000, 0.5, 20) for seed in (5, 6))
    expected = float(np.exp(0.125))  # mean of the log-normal factors
    for x, y in zip(of_a, of_b, strict=True):
        row = compare.compare(single(2.0 * x), single(2.4 * y)).rows[0]
        assert row.mean is not None
        assert row.mean.low is not None
        assert row.mean.high is not None
        found += row.verdict == "slower"
        held += row.mean.low <= 0.4 * expected <= row.mean.high
    assert found >= 18
    assert held >= 17


def test_one_pause_is_one_event() -> None:
    """Forty ops that a pause held for a second each do not make a run slower: it happened once."""
    rng = np.random.default_rng(7)
    calm, paused = (2.0 * wandering(rng, 2000)[0] for _ in range(2))
    paused[700:740] += 1000.0
    row = compare.compare(single(calm), single(paused)).rows[0]
    assert row.mean is not None
    assert row.mean.difference > 15
    assert row.verdict == "no evidence"


def test_a_run_that_drifts_is_no_level() -> None:
    """The halves of a run whose response time decays all the while do not show a change."""
    decaying = 20.0 * np.exp(-np.linspace(0, 3, 4000)) * wandering(np.random.default_rng(8), 4000, 0.3)[0] + 1.0
    found = compare.compare(single(decaying[:2000]), single(decaying[2000:])).rows[0]
    assert found.mean is not None
    assert found.mean.p is not None
    assert found.mean.p < 0.005
    assert found.verdict == "no evidence"


def test_what_is_certain_and_tiny_is_not_relevant() -> None:
    """A change of 1 % on 40,000 steady ops is certain, and is not called slower."""
    rng = np.random.default_rng(9)
    a, b = (single(level * (1 + 0.05 * rng.standard_normal(40_000))) for level in (20.0, 20.2))
    row = compare.compare(a, b).rows[0]
    assert row.mean is not None
    assert row.mean.certain
    assert row.verdict == "not relevant"


def test_few_ops_tell_nothing() -> None:
    """With 49 ops in one of the runs there is no interval, and that is said; p99 needs more."""
    rng = np.random.default_rng(10)
    many, few = single(2.0 * wandering(rng, 400)[0]), single(20.0 * wandering(rng, 49)[0])
    assert compare.compare(many, few).rows[0].verdict == "too few ops"
    row = compare.compare(many, single(20.0 * wandering(rng, 300)[0])).rows[0]
    assert row.verdict == "slower"
    assert row.p99 is None


def test_a_kind_in_one_spell_tells_nothing() -> None:
    """200 ops of a kind that come one after the other are one spell of the run, however many they are."""
    op = np.zeros(4000, dtype=np.int64)
    op[100:300] = 1
    rng = np.random.default_rng(11)
    runs = [single(level * wandering(rng, 4000)[0], names=("READ", "SETATTR"), op=op) for level in (1.0, 3.0)]
    found = {row.op: row.verdict for row in compare.compare(*runs).rows}
    assert found == {"READ": "slower", "SETATTR": "too few ops"}


@given(st.lists(st.floats(0.001, 1e6), min_size=6, max_size=6))
def test_a_continued_trend_is_never_a_change(values: list[float]) -> None:
    """Where both runs move by as much as they differ, or more, the difference is theirs anyway."""
    first, second = sorted(values[:2])
    assert not is_steady([first, second], [[first, second], [first, second]])


def test_only_what_is_certain_leads() -> None:
    """A run compared with itself changes by nothing, in any figure."""
    one = run(single(2.0 * wandering(np.random.default_rng(12), 800)[0]))
    assert one.single is not None
    found = compare.compare(one.single, one.single)
    assert [row.verdict for row in found.rows] == ["no evidence"]
    assert found.mix.raw.difference == found.mix.within_ms == found.mix.mix_ms == 0


@pytest.mark.parametrize(("error_ms", "certain"), [(0.0, True), (0.2, True), (2.0, False)])
def test_an_error_that_is_no_chance_is_in_the_interval(error_ms: float, certain: bool) -> None:
    """Of one capture the server's mean is known to within so much, and both runs' errors add up: what is less than they
    are is no change of the server or the network, however many ops say so; the client's times are measured."""
    rng = np.random.default_rng(7)
    before, after = (
        dataclasses.replace(
            single(rng.exponential(0.2, 3000) + 1 + more), inferred="server", inferred_error_ns=error_ms * 1e6 / 2
        )
        for more in (0.0, 1.0)
    )
    found = compare.compare(before, after)
    layers = {one.layer: one.change for one in found.layers}
    assert layers["server"].certain == certain
    assert layers["server"].high - layers["server"].low > 2 * error_ms
    assert found.mix.same_mix.certain
