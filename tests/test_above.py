"""Times in which no request could leave a client -> the most that requests can have waited for them above the wire."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from wire_tables import MS, op, ops

from nfslat.model.protocol import NULL
from nfslat.model.tables import Ops
from nfslat.wire.above import Kept, Stops, Why, kept_above

Time = tuple[int, int, int]  # connection (NULL: all), from and until, ms


def _stops(why: Why, *times: Time) -> Stops:
    conn, begin, end = np.array(times, dtype=np.int64).reshape(-1, 3).T.copy()
    return Stops(why, conn, begin * MS, end * MS)


def _kept(table: Ops, *stops: Stops, sessions: float | None = None) -> dict[Why, Kept]:
    return kept_above(table, np.ones(len(table), dtype=np.bool_), stops, sessions)


def _ms(kept: dict[Why, Kept]) -> dict[Why, float]:
    return {why: int(one.waits_ns.sum()) / MS for why, one in kept.items()}


def _times(one: Kept) -> list[tuple[int, int]]:
    return list(zip((one.begin_ns // MS).tolist(), (one.end_ns // MS).tolist(), strict=True))


def _ops(*rows: tuple[int, int, int]) -> Ops:
    """Connection, first and last instant, ms."""
    table = ops(*(op(xid, begin, 1) for xid, (_, begin, _) in enumerate(rows)))
    begin, end = (np.array([row[n] for row in rows], dtype=np.int64) * MS for n in (1, 2))
    conn = np.array([row[0] for row in rows], dtype=np.int32)
    return replace(table, conn=conn, t0=begin, t1=begin, t2=end, t3=end)


def test_what_piled_up_leaves_at_once() -> None:
    """One op at a time before, and five right behind it: five may have waited all the while; a host that stood still
    asked for nothing, and what it then sends had not been there."""
    rows = [(0, 0, 10), *[(0, 200, 210)] * 5]
    table = _ops(*rows)
    assert _ms(_kept(table, _stops(Why.NO_CONNECTION, (0, 100, 200)))) == {Why.NO_CONNECTION: 500}
    assert _ms(_kept(table, _stops(Why.WINDOW, (0, 100, 200)))) == {Why.WINDOW: 500}
    assert _ms(_kept(table, _stops(Why.HOST_PAUSE, (NULL, 100, 200)))) == {Why.HOST_PAUSE: 100}


def test_what_is_on_the_wire_waits_there() -> None:
    """Four ops before, of which one is on the wire for all of it and one for a tenth: their SRT has that."""
    table = _ops((0, 0, 250), (0, 0, 110), (0, 0, 90), (0, 0, 90))
    assert _ms(_kept(table, _stops(Why.WINDOW, (0, 100, 200)))) == {Why.WINDOW: 400 - 100 - 10}


def test_the_application_may_have_more_open_than_was_ever_on_the_wire() -> None:
    """Where its own figures say so; but for a host that stood still, and each mount has its part by its ops."""
    table = _ops((0, 0, 10), (0, 90, 95), (0, 300, 310), (0, 400, 410))
    assert _ms(_kept(table, _stops(Why.WINDOW, (0, 100, 200)), sessions=3.5)) == {Why.WINDOW: 350}
    assert _ms(_kept(table, _stops(Why.HOST_PAUSE, (NULL, 100, 200)), sessions=3.5)) == {Why.HOST_PAUSE: 100}


def test_each_moment_counts_once() -> None:
    """Of times that meet the first of `Why` has what is common to both; of one kind they are one."""
    table = _ops(*[(0, 0, 10)] * 2, *[(0, 1000, 1010)] * 2)
    kept = _kept(
        table,
        _stops(Why.WINDOW, (0, 100, 300), (0, 250, 400), (0, 400, 420), (0, 500, 500)),
        _stops(Why.NO_CONNECTION, (0, 200, 260)),
        sessions=2,
    )
    assert _times(kept[Why.NO_CONNECTION]) == [(200, 260)]
    assert _times(kept[Why.WINDOW]) == [(100, 200), (260, 420)]
    assert _ms(kept) == {Why.NO_CONNECTION: 120, Why.WINDOW: 520}


def test_nothing_that_concerns_the_calls() -> None:
    """No times, no calls, a connection without calls: nothing."""
    table = _ops((0, 0, 10))
    assert _kept(table) == {}
    assert _kept(table, _stops(Why.WINDOW)) == {}
    assert _kept(table, _stops(Why.WINDOW, (1, 5, 9))) == {}
    nobody = np.zeros(len(table), dtype=np.bool_)
    assert kept_above(table, nobody, [_stops(Why.HOST_PAUSE, (NULL, 5, 9))], 3.0) == {}


_begins = st.integers(0, 300)
_rows = st.lists(st.tuples(st.just(0), _begins, st.integers(1, 100)), min_size=1, max_size=12)
_some = st.lists(st.tuples(st.just(0), _begins, st.integers(1, 60)), max_size=5)


@given(_rows, _some, _some, st.none() | st.integers(0, 9))
def test_as_one_counts_it_by_hand(rows: list[Time], shut: list[Time], cut: list[Time], sessions: int | None) -> None:
    """Millisecond by millisecond: who has it, how many ops are on the wire in it, and how many there were near by."""
    table = _ops(*((conn, begin, begin + long) for conn, begin, long in rows))
    kinds = {Why.NO_CONNECTION: cut, Why.WINDOW: shut}
    stops = [_stops(why, *((c, b, b + long) for c, b, long in times)) for why, times in kinds.items()]
    kept = _kept(table, *stops, sessions=sessions)
    covered = {why: {ms for _, b, long in times for ms in range(b, b + long)} for why, times in kinds.items()}
    covered[Why.WINDOW] -= covered[Why.NO_CONNECTION]
    spans = [(begin, begin + long) for _, begin, long in rows]
    for why, moments in covered.items():
        found = kept.get(why)
        assert (found is None) == (not moments)
        if found is None:
            continue
        times = _times(found)
        assert sorted(ms for b, e in times for ms in range(b, e)) == sorted(moments)
        for (b, e), waits in zip(times, found.waits_ns.tolist(), strict=True):
            near = [b - (e - b), *(begin for begin, _ in spans if b - (e - b) <= begin <= e + (e - b))]
            most = max(sum(begin <= t < end for begin, end in spans) for t in near)
            most = max(most, sessions or 0)
            on_wire = sum(max(min(end, e) - max(begin, b), 0) for begin, end in spans)
            assert waits == pytest.approx(max(most * (e - b) - on_wire, 0) * MS)
