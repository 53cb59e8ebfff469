"""How many ops are in flight, and when a level looks like a limit."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from wire_tables import op, ops

from nfslat.inflight.levels import flat_top


def _top(*spans: tuple[int, int], conn: int = 0) -> tuple[int, float] | None:
    made = ops(*(op(start, end, xid, conn=conn) for xid, (start, end) in enumerate(spans, 1)))
    top = flat_top(made, np.arange(len(made)))
    return None if top is None else (top.level, round(top.share, 3))


def test_two_slots_that_are_always_taken() -> None:
    """Each call leaves the moment a reply frees its slot: two in flight from 0 to 40, one until 50."""
    assert _top((0, 10), (0, 20), (10, 30), (20, 40), (30, 50)) == (2, 0.8)


def test_a_level_that_is_passed_for_a_moment_is_not_the_top() -> None:
    """Three in flight for 1 of 100 ms: the top is two."""
    assert _top((0, 100), (0, 100), (50, 51)) == (2, 0.99)


def test_the_busiest_connection_counts_by_itself() -> None:
    """Slots belong to a connection: two connections with one op each at a time are no two in flight."""
    made = ops(op(0, 10, 1), op(10, 20, 2), op(0, 20, 3, conn=1))
    top = flat_top(made, np.arange(len(made)))
    assert top is not None
    assert (top.level, top.ops) == (1, 2)


def test_nothing_in_flight() -> None:
    """No ops, or ops that take no time, have no level."""
    assert _top() is None
    assert _top((5, 5)) is None


@given(st.lists(st.tuples(st.integers(0, 60), st.integers(1, 30)), min_size=1, max_size=12))
def test_level_and_share_equal_a_count_millisecond_by_millisecond(made: list[tuple[int, int]]) -> None:
    """For any spans the share at the top is what counting every millisecond gives."""
    spans = [(start, start + length) for start, length in made]
    levels = [sum(a <= ms < b for a, b in spans) for ms in range(100)]
    busy = sum(level > 0 for level in levels)
    want = next(n for n in range(1, 13) if sum(level > n for level in levels) <= 0.02 * busy)
    got = _top(*spans)
    assert got is not None
    assert got[0] == want
    assert got[1] == pytest.approx(levels.count(want) / busy, abs=0.001)
