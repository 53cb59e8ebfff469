"""Another mix, other sizes, more in flight: what the load did is not taken for what the systems did."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from runs_by_hand import MS, single, wandering

from nfslat.answer.figures import Summary
from nfslat.diff import compare, verdict
from nfslat.diff.kinds import kinds, size_label
from nfslat.diff.runs import Single
from nfslat.diff.statistics import F64, most_variance


@given(st.lists(st.tuples(st.booleans(), st.integers(1, 10**9)), min_size=2, max_size=40), st.integers(1, 39))
def test_within_and_mix_sum_to_the_difference(rows: list[tuple[bool, int]], at: int) -> None:
    """Whatever two kinds take, and where one run ends and the other begins: kinds weigh the mean of their shares, and
    what that leaves of the difference is the mix."""

    def made(of: list[tuple[bool, int]]) -> Single:
        kind, ns = np.array(of).T
        return single(ns / MS, 0.0, names=("GETATTR", "ACCESS"), op=kind)

    a, b = made(rows[: min(at, len(rows) - 1)]), made(rows[min(at, len(rows) - 1) :])
    mix = compare.compare(a, b).mix
    assert mix.within_ms + mix.mix_ms == pytest.approx(mix.raw.difference)
    within = 0.0
    for kind in (0, 1):
        own = [one.client_ns[one.op == kind] for one in (a, b)]
        if all(map(len, own)):
            share = sum(len(ns) / len(one) for ns, one in zip(own, (a, b), strict=True)) / 2
            within += share * float(own[1].mean() - own[0].mean()) / MS
    assert mix.within_ms == pytest.approx(within, abs=1e-9)


def test_another_mix_is_not_slower() -> None:
    """Twice as many slow WRITEs raise the mean of all ops; at the same mix nothing changed."""
    rng = np.random.default_rng(1)

    def mixed(every: int) -> Single:
        op = (np.arange(4000) % every == 0).astype(np.int64)
        return single(np.where(op, 20.0, 2.0) * wandering(rng, 4000)[0], names=("READ", "WRITE"), op=op)

    found = compare.compare(mixed(4), mixed(2))
    assert found.mix.raw.difference > 4
    assert abs(found.mix.within_ms) < 0.5
    assert found.mix.mix_ms == pytest.approx(found.mix.raw.difference, abs=0.5)
    assert {row.verdict for row in found.rows} == {"no evidence"}
    assert verdict.verdict(found, [], "slices").change == "none"


def test_sizes_are_kinds_of_their_own() -> None:
    """READs of 8 KB and of 1 MB are compared with their like; powers of two end a class."""
    sizes = np.array([1, 4096, 4097, 8192, 8193, 1 << 20, -1])
    a = single(np.ones(7), size_bytes=sizes)
    found = kinds(a, a)
    assert {size_label(bits) for _, bits in found.names} == {"1 B", "4 KB", "8 KB", "16 KB", "1 MB", None}
    assert found.counts[0].tolist() == found.counts[1].tolist()
    assert sum(found.counts[0]) == 7


def test_sizes_that_one_run_does_not_show_are_not_compared() -> None:
    """Where a short snaplen hid the sizes of one run, its READs are compared with all READs of the other."""
    one, other = single(np.ones(100)), single(np.ones(100), size_bytes=-1)
    assert kinds(one, other).names == [("READ", -1)]


def _saturated(rng: np.random.Generator, workers: int, service_ms: float, rows: int = 3000) -> Single:
    """One server thread, and so many workers that each call again when they are answered."""
    service: F64 = service_ms * np.exp(0.3 * rng.standard_normal(rows))
    ends = np.cumsum(service)
    begins = np.concatenate((np.zeros(workers), ends[:-workers]))
    begin_ns, end_ns = ((instants * MS).astype(np.int64) for instants in (begins, ends))
    one = single((end_ns - begin_ns) / MS, 0.0)
    parts = {**one.parts, "server": end_ns - begin_ns}
    return dataclasses.replace(one, begin_ns=begin_ns, client_ns=end_ns - begin_ns, parts=parts)


def test_more_in_flight_is_the_load() -> None:
    """Twice the workers on a server that is as it was wait twice as long: the load explains it, and is named."""
    rng = np.random.default_rng(2)
    found = compare.compare(_saturated(rng, 8, 5.0), _saturated(rng, 16, 5.0))
    assert [row.verdict for row in found.rows] == ["load"]
    said = verdict.verdict(found, [], "slices")
    assert said.change == "load"
    assert "-> 16.0 calls in flight" in said.text


def test_a_slow_server_is_no_load() -> None:
    """With as many workers, or with twice as many that get less done, a server of twice the service time is slower."""
    rng = np.random.default_rng(3)
    for workers in (8, 16):
        found = compare.compare(_saturated(rng, 8, 5.0), _saturated(rng, workers, 10.0))
        assert [row.verdict for row in found.rows] == ["slower"]


def test_a_slow_server_under_a_constant_rate_is_no_load() -> None:
    """At a constant rate a slower server has more in flight, which is its effect: among equals it is slower, too."""
    rng = np.random.default_rng(4)
    a, b = (single(level * wandering(rng, 6000, 0.3)[0], gap_ms=4.0) for level in (6.0, 9.0))
    found = compare.compare(a, b)
    assert found.load.in_flight is not None
    assert found.load.in_flight.p is not None
    assert found.load.in_flight.p < 0.01
    assert found.rows[0].verdict == "slower"


def test_calls_in_flight_by_hand() -> None:
    """A call counts itself and those before it that are not answered; one answered at that instant is."""
    one = single(np.array([2.5, 0.5, 0.5, 0.1]), 0.0, gap_ms=1.0)
    assert one.in_flight.tolist() == [1, 2, 2, 1]
    assert int(one.busy_ns.sum()) == round(2.6 * MS)


def test_the_part_that_moved_is_named() -> None:
    """2 ms more on the network are found there, and nowhere else."""
    rng = np.random.default_rng(5)
    a, b = (single(2.0 * wandering(rng, 4000)[0], trip, queue_ms=np.full(4000, 0.25)) for trip in (0.5, 2.5))
    found = compare.compare(a, b)
    parts = {part.name: part.change for part in found.parts}
    assert list(parts) == ["call_send", "network", "queue", "in_thread", "reply_send"]
    assert sum(one.difference for one in parts.values()) == pytest.approx(found.rows[0].mean.difference)  # type: ignore[union-attr]
    assert parts["network"].difference == pytest.approx(2.0)
    assert [name for name, one in parts.items() if one.certain] == ["network"]
    said = verdict.verdict(found, [], "slices")
    assert said.change == "slower"
    assert said.layer == "network"
    assert "The network adds 2.00 ms of it" in said.text


@given(st.lists(st.floats(0.01, 1e4), min_size=2, max_size=300))
def test_the_most_variance_is_never_too_small(values: list[float]) -> None:
    """What a summary allows for is at least the variance of the durations that it is of."""
    ordered = np.sort(values)
    p50, p95, p99 = (float(ordered[-(-len(ordered) * percent // 100) - 1]) for percent in (50, 95, 99))
    summary = Summary(float(ordered.mean()), p50, p95, p99, float(ordered[-1]))
    assert most_variance(summary) >= float(ordered.var()) * (1 - 1e-6) - 1e-9
