"""When ops were called and what they took -> the instants at which the state of the hosts changes."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from queues import GETATTR, MS, US, S, Traffic, one_after_another, simulate

from nfslat.inflight.changes import MOST
from nfslat.inflight.segments import Calls, segments
from nfslat.model.tables import I16, I64

HEALTHY = {"READ": 400 * US, "WRITE": 1_500 * US, GETATTR: 40 * US}
MIXES = [{"READ": 1.0}, {"READ": 0.1, GETATTR: 0.9}, {"WRITE": 0.5, GETATTR: 0.5}, {GETATTR: 1.0}]
LAWS: list[dict[str, Any]] = [
    {"law": "exponential"}, {"law": "lognormal", "sigma": 1.0}, {"law": "lognormal", "sigma": 1.6}, {"law": "constant"},
]  # fmt: skip


def _calls(traffic: Traffic, kind: I16 | None = None) -> Calls:
    if kind is None:
        kind = np.unique(traffic.kind, return_inverse=True)[1].astype(np.int16)
    return Calls(traffic.sent_ns, kind, traffic.server_ns, traffic.client_ns - traffic.server_ns)


def _rows(traffic: Traffic, borders: list[int]) -> list[int]:
    return np.searchsorted(np.sort(traffic.sent_ns), borders).tolist()


def _after(traffic: Traffic, idle_ns: int) -> Traffic:
    """It begins so much later."""
    times = [name for name in vars(traffic) if name.endswith("_ns") and name != "service_ns"]
    return replace(traffic, **{name: getattr(traffic, name) + idle_ns for name in times})


@pytest.mark.parametrize("law", LAWS, ids=lambda law: "-".join(map(str, law.values())))
@pytest.mark.parametrize("idle_ns", [0, 3 * S])
def test_another_mix_bursts_and_idle_time_are_no_other_state(law: dict[str, Any], idle_ns: int) -> None:
    """A healthy server does what one application after the other asks: few callers or many, that think or not."""
    for seed in range(1, 5):
        rng = np.random.default_rng(seed)
        runs = [
            simulate(
                threads=64,
                workers=int(rng.integers(1, 24)),
                count=int(rng.integers(100, 900)),
                mix=MIXES[rng.integers(len(MIXES))],
                mean_ns=HEALTHY,
                think_ns=int(rng.choice([20 * US, MS, 20 * MS])),
                seed=10 * seed + at,
                **law,
            )
            for at in range(4)
        ]
        assert segments(_calls(one_after_another(runs[0], *(_after(run, idle_ns) for run in runs[1:])))) == []


@pytest.mark.parametrize("law", [LAWS[0], LAWS[3]], ids=lambda law: str(law["law"]))
@pytest.mark.parametrize("during", [100, 250])
def test_a_limit_in_a_mixed_load_is_dated_at_both_its_ends(law: dict[str, Any], during: int) -> None:
    """Sixteen callers of twelve operations, of none of which there are many: for a while the server has two threads,
    and answers fall to a tenth."""
    usual: dict[str, Any] = {
        "workers": 16,
        "mix": {"READ": 0.4, "WRITE": 0.3, GETATTR: 0.3},
        "mean_ns": {"READ": 10 * MS, "WRITE": 60 * MS, GETATTR: 200 * US},
        "think_ns": 5 * MS,
        **law,
    }
    for seed in range(1, 4):
        first, last = (simulate(**usual, threads=16, count=600, seed=seed + more) for more in (0, 20))
        traffic = one_after_another(first, simulate(**usual, threads=2, count=during, seed=seed + 10), last)
        base = np.unique(traffic.kind, return_inverse=True)[1] * 4
        kind = (base + np.random.default_rng(seed).integers(0, 4, len(base))).astype(np.int16)
        rows = _rows(traffic, segments(_calls(traffic, kind)))
        assert len(rows) == 2
        assert abs(rows[0] - 600) <= 40
        assert abs(rows[1] - 600 - during) <= 40


def test_an_operation_that_is_slow_by_itself_needs_no_other_to_say_so() -> None:
    """A disk that slows is no matter to GETATTRs, which are nine tenths of the calls and little of the time."""
    usual: dict[str, Any] = {"threads": 32, "workers": 8, "count": 3_000, "mix": {"READ": 0.1, GETATTR: 0.9}}
    slow = simulate(**usual, mean_ns={"READ": 20 * MS, GETATTR: 50 * US}, seed=2)
    traffic = one_after_another(simulate(**usual), slow)
    (row,) = _rows(traffic, segments(_calls(traffic)))
    assert abs(row - 3_000) <= 200


@pytest.mark.parametrize(("floors_ms", "begins"), [
    ((0.1, 8.0), [1_000]), ((8.0, 0.1), [1_000]), ((0.1, 8.0, 16.0), [1_000, 2_000]),
    ((0.1, 12.0, 0.1), [1_000, 2_000]),
    ((5.0, 6.0), []), ((0.2, 0.9), []), ((3.0,), []),
])  # fmt: skip
def test_a_path_that_gets_longer_under_a_load_that_varies_is_dated(
    floors_ms: tuple[float, ...], begins: list[int]
) -> None:
    """Calls wait in queues for many times as long as the way is; the shortest of a few of them moves with the path."""
    rng = np.random.default_rng(7)
    count = 1_000 * len(floors_ms)
    waits_ms = rng.exponential(6.0, count) * (rng.random(count) < 0.8)
    network_ns = ((np.repeat(floors_ms, 1_000) + waits_ms) * MS).astype(np.int64)
    server_ns = rng.exponential(20 * MS, count).astype(np.int64)
    begin_ns = np.arange(count, dtype=np.int64) * 10 * MS
    found = segments(Calls(begin_ns, np.zeros(count, dtype=np.int16), server_ns, network_ns))
    assert len(found) == len(begins)
    assert all(abs(at / (10 * MS) - begin) <= 20 for at, begin in zip(found, begins, strict=True))


@pytest.mark.parametrize("seed", range(4))
def test_a_queue_that_comes_and_goes_is_no_longer_path(seed: int) -> None:
    """For a third of the time most calls wait for 10 ms more on the network, and a few of each piece do not."""
    rng = np.random.default_rng(seed)
    count, waits = 3_000, np.zeros(3_000)
    waits[1_000:2_000] = rng.exponential(4.0, 1_000) * (rng.random(1_000) < 0.4)
    network_ns = ((1.0 + waits) * MS).astype(np.int64)
    begin_ns = np.arange(count, dtype=np.int64) * 10 * MS
    assert segments(Calls(begin_ns, np.zeros(count, dtype=np.int16), np.full(count, 20 * MS), network_ns)) == []


def test_a_few_calls_that_wait_long_once_are_no_phase() -> None:
    """Ten calls that wait for a host that stands still have much of the time: an event, which a finding dates."""
    first, last = (simulate(threads=32, workers=10, count=1_000, think_ns=MS, seed=seed) for seed in (1, 2))
    waits = simulate(threads=32, workers=10, count=10, mean_ns=dict.fromkeys(HEALTHY, 2 * S), law="constant", seed=3)
    assert segments(_calls(one_after_another(first, waits, last))) == []


def _columns(count: int) -> st.SearchStrategy[I64]:
    return st.lists(st.integers(0, 10**10), min_size=count, max_size=count).map(lambda times: np.array(times, np.int64))


@settings(max_examples=60)
@given(st.integers(0, 60).flatmap(lambda count: st.tuples(*[_columns(count)] * 4)), st.integers(1, 40))
def test_phases_are_few_and_each_begins_with_a_call(columns: tuple[I64, ...], often: int) -> None:
    """Whatever the times are, and in whatever order."""
    begin, kind, server, network = (np.tile(column, often) for column in columns)
    calls = Calls(begin, (kind % 5).astype(np.int16), server, network - server // 2)
    borders = segments(calls)
    assert borders == sorted(set(borders))
    assert len(borders) < MOST
    assert set(borders) <= set(begin.tolist())
    assert not len(begin) or int(begin.min()) not in borders


def test_of_many_ops_a_sample_votes() -> None:
    """The instants are those of all of them, to within what is left out of the sample."""
    many = simulate(threads=32, workers=16, count=2_000, law="constant")
    traffic = one_after_another(many, simulate(threads=2, workers=16, count=2_000, law="constant", seed=2))
    calls = _calls(traffic)
    tiled = Calls(*(np.repeat(column, 50) for column in calls))
    assert abs(segments(tiled)[0] - segments(calls)[0]) <= 40 * MS
