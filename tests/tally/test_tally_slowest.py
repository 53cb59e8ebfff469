"""The slowest operations: those of all, however the operations come."""

from __future__ import annotations

from functools import reduce
from operator import add
from types import SimpleNamespace
from typing import Any

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from nfslat.model.tables import I64, Matched
from nfslat.tally.slowest import CLIENT, ORDER, STRETCH, Slowest


def _analysis(srt_ns: I64) -> Any:
    """As much of an `Analysis` as the slowest are taken from."""
    rows = np.arange(len(srt_ns), dtype=np.int32)
    load = SimpleNamespace(tells=True, queue_ns=srt_ns // 4)
    return SimpleNamespace(
        matched=Matched(rows, rows),
        client=SimpleNamespace(ops=SimpleNamespace(kinds=())),
        client_srt_ns=srt_ns,
        server_srt_ns=srt_ns // 2,
        inflight=SimpleNamespace(load=load),
        clock=SimpleNamespace(fits=False),
        retrans_waits_ns=None,
        parts=SimpleNamespace(all_ns=lambda at: (srt_ns[at] // 8,) * 5),
    )


def _of(part: list[int] | I64, number: int = 0, most: int = 40, *, is_even: bool = False) -> Slowest:
    ns = np.array(part, dtype=np.int64)
    return Slowest.empty(most, is_even=is_even).with_ops(_analysis(ns), np.full(len(ns), number))


_PARTS = st.lists(st.lists(st.integers(1, 10_000), max_size=400), min_size=1, max_size=6)


@given(_PARTS)
def test_the_slowest_are_those_of_all(parts: list[list[int]]) -> None:
    """However the ops come: the slowest 1 %, one at least, each with its stretch, in the order of a whole capture."""
    kept = Slowest.empty(40)
    for number, part in enumerate(parts):
        kept = kept.with_ops(_analysis(np.array(part, dtype=np.int64)), np.full(len(part), number))
    every = np.array([value for part in parts for value in part], dtype=np.int64)
    stretch = np.repeat(np.arange(len(parts)), [len(part) for part in parts])
    count = max(int(len(every) * 0.01), min(len(every), 1))
    slowest = np.argsort(-every, kind="stable")[:count]
    found = kept.columns()
    assert found[CLIENT].tolist() == every[slowest].tolist()
    assert found[STRETCH].tolist() == stretch[found[ORDER]].tolist()
    assert every[found[ORDER]].tolist() == found[CLIENT].tolist()


@given(_PARTS, st.integers(0, 6))
def test_parts_may_be_joined_in_steps(parts: list[list[int]], cut: int) -> None:
    """In their order, the slowest are those of ops that came one part after another."""
    some = [_of(part, number) for number, part in enumerate(parts)]
    whole = _of([value for part in parts for value in part])
    first, second = (reduce(add, few, Slowest.empty(40)) for few in (some[:cut], some[cut:]))
    joined = first + second
    rows = [CLIENT, ORDER]
    assert joined.columns()[rows].tolist() == whole.columns()[rows].tolist()
    assert joined.ops == whole.ops


def test_of_very_many_an_even_sample_is_kept() -> None:
    """More than 1 % of which fits: the slowest of every second op, fourth ..., and no more rows than are allowed."""
    kept, rng = Slowest.empty(20), np.random.default_rng(7)
    every = rng.lognormal(10, 1, 20_000).astype(np.int64)
    for part in np.array_split(every, 40):
        kept = kept.with_ops(_analysis(part), np.zeros(len(part), dtype=np.int64))
    found = kept.columns()[CLIENT]
    assert 10 <= len(found) <= 20
    assert kept.ops == 200
    assert (found >= np.quantile(every, 0.985)).all()


def test_even_samples_that_are_joined_are_an_even_sample() -> None:
    """As thin as the thinnest of them, from which the slowest of all are taken."""
    rng = np.random.default_rng(3)
    every = rng.lognormal(10, 1, 9_000).astype(np.int64)
    few, many = _of(every[:1_001], most=1 << 12, is_even=True), _of(every[1_001:], most=1 << 12, is_even=True)
    assert (few.each, many.each) == (1, 2)
    both = few + many
    assert both.each == 2
    assert both.ops == 90
    assert both.columns().shape[1] == 45
    assert (both.columns()[CLIENT] >= np.quantile(every, 0.985)).all()


def test_what_was_sent_again_is_not_known_of_all_where_it_is_not_of_some() -> None:
    """Nor is the mean wait for it 0."""
    assert _of([1, 2, 3]).row(None).parts_ms.call_retrans_wait is None
