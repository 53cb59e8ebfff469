"""Servers whose threads never run out, and some whose threads do -> no number is made up for the first."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import queues
from grids import grid
from hypothesis import given
from hypothesis import strategies as st
from queues import GETATTR, Traffic, ops
from rivals import commits, line, shared, simulate

from nfslat.inflight import fit, weights
from nfslat.inflight.ranks import rank_correlation
from nfslat.inflight.server import ServerLoad, server_load
from nfslat.inflight.threads import Threads
from nfslat.model.tables import Loose
from nfslat.select import is_reverse

_FREELY = shared(float("inf"))
_READS = {"READ": [("cpu", 0.1), ("disk", 3.0)], GETATTR: [("cpu", 0.05)]}
_MOSTLY_READS = {"READ": 0.95, GETATTR: 0.05}
# What a disk with a timer has done is answered at the next tick, by one processor one call after another.
_TICKS = {"READ": [("cpu", 0.06), ("disk", 12.0), ("cpu", 0.06)], GETATTR: [("cpu", 0.06)]}
_TIMER: dict[str, Any] = {"law": "constant", "tick_ms": 10.0, "ticking": "disk"}


def load_of(traffic: Traffic, there: int | None = None) -> ServerLoad:
    """What is said of this server, which has so many threads, as somebody says."""
    table = ops(traffic, "server")
    nothing: dict[str, list[int]] = {name: [] for name in Loose.columns()}
    loose = Loose.from_columns(nothing, kinds=table.kinds, connections=table.connections)
    return server_load(table, loose, is_reverse(table), there=there)


def threads_of(traffic: Traffic) -> Threads:
    """Of its threads."""
    return load_of(traffic).threads


# Ways, stations, and how the load comes; 64 threads, and never a call that waits for one.
IDLE: dict[str, tuple[dict[str, Any], dict[str, Any], dict[str, Any]]] = {
    "one processor, shared": ({"READ": [("cpu", 1.0)], GETATTR: [("cpu", 0.1)]}, {"cpu": shared(1)}, {"workers": 16}),
    "four processors": ({"READ": [("cpu", 1.0)], GETATTR: [("cpu", 0.1)]}, {"cpu": shared(4)}, {"workers": 20}),
    "a page cache and a disk": (
        {"READ": [("cpu", 0.1), ("disk", 0.01)]},
        {"cpu": line(1), "disk": line(1)},
        {"workers": 12, "think_ms": 3.0, "rare": {"disk": (0.1, 8.0)}},
    ),
    "three disks": (_READS, {"cpu": line(1), "disk": line(3)}, {"workers": 20, "connections": 8}),
    "three disks, bursts": (_READS, {"cpu": line(1), "disk": line(3)}, {"workers": 20, "think_ms": 10.0}),
    "a disk with a timer": (_TICKS, {"cpu": line(1), "disk": _FREELY}, {"workers": 32} | _TIMER),
    "eight disks with a timer": (_TICKS, {"cpu": line(1), "disk": line(8)}, {"workers": 32} | _TIMER),
    "one processor, and a disk with a timer": (
        {"READ": [("disk", 4.0), ("cpu", 1.0)], GETATTR: [("cpu", 0.1)]},
        {"cpu": shared(1), "disk": _FREELY},
        {"workers": 32} | _TIMER,
    ),
    "a journal": (
        {"WRITE": [("cpu", 0.1), ("journal", 4.0)]}, {"cpu": line(1), "journal": commits()}, {"workers": 20},
    ),
    "bursts": (
        {"READ": [("cpu", 0.3), ("wait", 0.5)], GETATTR: [("cpu", 0.1)]},
        {"cpu": line(1), "wait": _FREELY},
        {"workers": 12, "think_ms": 5.0, "together": True},
    ),
    "a stalled host": (
        {"READ": [("cpu", 0.2), ("wait", 1.0)], GETATTR: [("cpu", 0.05)]},
        {"cpu": line(1), "wait": _FREELY},
        {"workers": 8, "think_ms": 3.0, "stall_every_ms": 400, "stall_ms": 100},
    ),
}  # fmt: skip


@pytest.mark.parametrize(
    ("name", "seed"),
    [
        pytest.param(name, seed, marks=() if seed == 1 + number % 3 else pytest.mark.long)
        for number, name in enumerate(IDLE)
        for seed in (1, 2, 3)
    ],
)
def test_what_is_not_for_want_of_threads_gets_no_number(name: str, seed: int) -> None:
    """Processors, disks, a journal, bursts and stalls make calls wait although a thread is idle each time: no number of
    threads is said, and where calls wait as if for some, what speaks against that."""
    ways, stations, load = IDLE[name]
    shares = {other: _MOSTLY_READS.get(other, 1.0) for other in ways}
    traffic = simulate(ways, stations, threads=64, shares=shares, seed=seed, **load)
    assert traffic.queue_ns.max() == 0
    found = threads_of(traffic)
    assert (found.estimate, found.limited) == (None, False)


@grid(threads=[1, 2, 4], law=["exponential", "lognormal", "constant"], connections=[1, 8])
def test_threads_that_are_the_limit_are_counted_all_the_same(threads: int, law: str, connections: int) -> None:
    """With disks enough behind them, and with half as many disks, the number is exact."""
    for stations in ({"cpu": shared(4), "disk": _FREELY}, {"cpu": shared(4), "disk": line(max(threads // 2, 1))}):
        made = simulate(
            _READS, stations, threads=threads, workers=20, shares=_MOSTLY_READS, connections=connections, law=law
        )
        found = threads_of(made)
        assert (found.estimate, found.low, found.high, found.instead) == (threads, threads, threads, "")


@pytest.mark.parametrize("threads", [2, 4])
def test_threads_in_lockstep_are_counted_by_their_groups(threads: int) -> None:
    """A disk whose timer ticks answers all threads at one moment, and they take the next calls together: one thread
    with work of no time and of all the time in turn would be as regular."""
    made = simulate(
        {"READ": [("disk", 15.0)]}, {"disk": _FREELY}, threads=threads, workers=20, law="constant", tick_ms=20.0
    )
    assert threads_of(made).estimate == threads


@pytest.mark.parametrize(
    ("threads", "workers_each", "think_ms"),
    [
        # By day each number once, each load with one or two.
        pytest.param(threads, *asked, marks=() if (row + column) % 3 == 0 else pytest.mark.long)
        for row, threads in enumerate((1, 2, 4, 8, 16))
        for column, asked in enumerate(((6, 0.5), (6, 15.0), (2, 0.5)))
    ],
)
def test_threads_are_counted_though_the_first_of_those_that_answer_together_takes_longest(
    threads: int, workers_each: int, think_ms: float
) -> None:
    """At each tick of a disk's timer threads answer one after another, and take the next calls while fewer and fewer
    wait; those are done at one tick, too. So work surely goes with how many wait, by a hundredth, and that is nothing
    against threads: their number is exact, and so is the mean wait for one."""
    stations = {"cpu": line(1), "disk": _FREELY}
    asked = {"workers": threads * workers_each, "think_ms": think_ms}
    made = simulate(_TICKS, stations, threads=threads, shares=_MOSTLY_READS, count=2_500, **asked, **_TIMER)
    load = load_of(made)
    found = load.threads
    assert (found.estimate, found.low, found.instead) == (threads, threads, "")
    assert load.queue_ns.mean() == pytest.approx(made.queue_ns.mean(), rel=0.02)


def test_threads_that_somebody_says_there_are_are_tried() -> None:
    """Where packets allow several numbers it is that one; where they tell another, or show more at work, or no queue at
    all, it changes nothing."""
    usual: dict[str, Any] = {"connections": 4, "count": 400, "think_ns": 10_000_000, "seed": 5}
    vague, idle = (
        queues.simulate(threads=threads, workers=12, mix={"READ": 0.95, GETATTR: 0.05}, **usual) for threads in (4, 64)
    )
    for made, there, range_ in ((vague, None, (4, 6)), (vague, 4, (4, 4)), (vague, 8, (4, 6)), (vague, 1, (4, 6))):
        found = load_of(made, there).threads
        assert (found.low, found.high, found.limited) == (*range_, True)
    for there in (None, 4, 8, 12, 64):
        assert not load_of(idle, there).threads.limited


def test_what_fits_no_pool_of_threads_is_said() -> None:
    """GETATTRs that pass by READs which wait for three disks say that the wait is behind the threads."""
    made = queues.simulate(threads=16, disks=3, workers=8, connections=8, mix={"READ": 0.97, GETATTR: 0.03}, seed=2)
    found = threads_of(made)
    assert found.estimate is None
    assert "need no data do not wait" in found.instead


@given(
    st.lists(st.tuples(st.integers(0, 5), st.integers(0, 10**9)), max_size=300),
    st.integers(1, 10**6),
)
def test_a_rank_correlation_is_one_of_ranks(pairs: list[tuple[int, int]], scale: int) -> None:
    """It lies between -1 and 1, changes its sign with one of the two, and not with their scale."""
    x, y = np.array(pairs, dtype=np.int64).reshape(-1, 2).T
    found, error = rank_correlation(x, y)
    assert -1.0 - 1e-9 <= found <= 1.0 + 1e-9
    assert error >= 0
    assert rank_correlation(x, -y)[0] == pytest.approx(-found)
    assert rank_correlation(x * scale + 7, y)[0] == pytest.approx(found)


@pytest.mark.parametrize("threads", [2, 4])
def test_threads_in_lockstep_are_told_though_light_calls_are_late_too(threads: int) -> None:
    """A timer that answers all calls delays those without data as well: what a pool leaves besides outweighs that."""
    made = simulate(
        {"READ": [("cpu", 0.1), ("wait", 4.0)], GETATTR: [("cpu", 0.05)]}, {"cpu": shared(4), "wait": _FREELY},
        threads=threads, workers=20, think_ms=3.0, shares={"READ": 0.9, GETATTR: 0.1}, tick_ms=10.0, seed=11,
    )  # fmt: skip
    found = threads_of(made)
    assert (found.estimate, found.limited) == (threads, True)
    assert found.probability >= fit.LIKELY


@pytest.mark.parametrize("threads", [2, 4])
def test_a_client_that_hogs_is_no_sign_against_a_common_pool(threads: int) -> None:
    """Connections take turns, so calls of the one with most callers wait longest, and all wait for the same threads."""
    made = simulate(
        {"READ": [("cpu", 0.1), ("wait", 4.0)], GETATTR: [("cpu", 0.05)]}, {"cpu": shared(4), "wait": _FREELY},
        threads=threads, workers=20, connections=5, hog=0.6, turns=True, shares={"READ": 0.9, GETATTR: 0.1},
    )  # fmt: skip
    found = threads_of(made)
    assert (found.estimate, found.limited) == (threads, True)
    waits_ms = [made.queue_ns[made.conn == conn].mean() for conn in (0, 1)]
    assert waits_ms[0] > 1.5 * waits_ms[1]


def test_one_thread_under_metadata_is_told() -> None:
    """Calls of 2.8 ms each, some lighter, that are answered strictly one after another: the server works on one."""
    ways = {name: [("wait", 2.8)] for name in ("CREATE", "REMOVE", "RENAME")} | {GETATTR: [("cpu", 0.2)]}
    made = simulate(ways, {"cpu": shared(4), "wait": _FREELY}, threads=1, workers=8, think_ms=3.0)
    assert (threads_of(made).estimate, threads_of(made).limited) == (1, True)


@pytest.mark.parametrize(("threads", "connections"), [(1, 1), (1, 4), (16, 4)])
def test_one_thread_is_told_by_the_order_of_quick_answers(threads: int, connections: int) -> None:
    """A third of a millisecond a call, and none of a connection is answered before an earlier one: whose turn it is
    among connections is a guess, and no sign against it. 16 threads under the same load are none."""
    ways = {"CREATE": [("cpu", 0.1), ("wait", 0.3)], GETATTR: [("cpu", 0.1)]}
    made = simulate(
        ways, {"cpu": shared(4), "wait": _FREELY}, threads=threads, workers=8, think_ms=1.0, connections=connections,
    )  # fmt: skip
    told = threads_of(made)
    assert (told.estimate, told.limited) == ((1, True) if threads == 1 else (None, False))


@pytest.mark.parametrize("threads", [1, 4])
def test_a_disk_that_gets_slow_does_not_hide_threads(threads: int) -> None:
    """From the middle on work takes six times as long; without threads to wait for nothing is told either way."""
    asked: dict[str, Any] = {"workers": 20, "slower": 6.0, "shares": {"READ": 0.9, GETATTR: 0.1}}
    ways = {"READ": [("cpu", 0.1), ("wait", 4.0)], GETATTR: [("cpu", 0.05)]}
    few, many = (
        threads_of(simulate(ways, {"cpu": shared(4), "wait": _FREELY}, threads=count, **asked))
        for count in (threads, 64)
    )
    assert (few.estimate, few.limited) == (threads, True)
    assert not many.limited


def test_what_the_marks_say_is_added_up() -> None:
    """A mark says more against a pool the farther its figure is on the wrong side, and nothing beyond its knots."""
    for mark in fit.MARKS:
        weight = weights.WEIGHTS[mark.name]
        says = [fit.log_odds(mark.name, figure) for figure in (-1e9, *weight.knots, 1e9)]
        assert mark.sign == 0 or (np.diff(says) * mark.sign >= 0).all()
        assert fit.log_odds(mark.name, None) == weight.unseen
    unseen = dict.fromkeys(weights.WEIGHTS)
    odds = np.exp(weights.INTERCEPT + sum(weight.unseen for weight in weights.WEIGHTS.values()))
    assert fit.probability(unseen) == pytest.approx(odds / (1 + odds))
