"""How many ops are in flight, when a level looks like a limit, and what Little's law makes of a throughput."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from reference_kernels import in_flight_by_hand

from nfslat.answer.model import Level
from nfslat.inflight.levels import Levels, hidden_share, in_order, knee, levels, levels_of, unseen
from nfslat.inflight.little import little_ms
from nfslat.kernels.levels import turnarounds_ns, windows_of
from nfslat.model.tables import I64, State
from nfslat.tally.inflight import levels_rows


def _top(*spans: tuple[int, int]) -> tuple[int, float] | None:
    found = levels(*np.array(spans, dtype=np.int64).reshape(-1, 2).T)
    return None if found.top is None else (found.top, round(found.share(found.top) or 0.0, 3))


def test_two_slots_that_are_always_taken() -> None:
    """Each call leaves the moment a reply frees its slot: two in flight from 0 to 40, one until 50."""
    assert _top((0, 10), (0, 20), (10, 30), (20, 40), (30, 50)) == (2, 0.8)


def test_a_level_that_is_passed_for_a_moment_is_not_the_top() -> None:
    """Three in flight for 1 of 100 ms: the top is two."""
    assert _top((0, 100), (0, 100), (50, 51)) == (2, 0.99)


def _knee(starts: I64, ends: I64) -> int | None:
    events = in_order(starts, ends)
    return knee(events, levels_of(events))


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


def _levels(*spans: tuple[int, int]) -> Levels:
    return levels(np.array([a for a, _ in spans], dtype=np.int64), np.array([b for _, b in spans], dtype=np.int64))


def test_time_and_ops_at_each_level_by_pencil() -> None:
    """Two ops from 0 and 10, idle from 30 to 50, one more until 60: 20 idle, 30 with one, 10 with two in flight."""
    found = _levels((0, 20), (10, 30), (50, 60))
    assert found.time_ns.tolist() == [20, 30, 10]
    assert found.ended.tolist() == [0, 2, 1]
    assert (found.max, found.ops, found.busy_ns, found.mean, found.top) == (2, 3, 40, 1.25, 2)
    assert found.share(1) == 0.75
    assert levels_rows(found) == [Level(1, 0.75, pytest.approx(2 / 30e-9)), Level(2, 0.25, pytest.approx(1 / 10e-9))]


def test_replies_that_come_together_count_at_the_level_before_them() -> None:
    """Three replies in one packet end three ops that were in flight together, not one at each level."""
    assert _levels((0, 10), (0, 10), (0, 10)).ended.tolist() == [0, 0, 0, 3]


def test_no_ops_and_ops_without_length() -> None:
    """Without any time in flight there is no mean and no top, and nothing fails."""
    for found in (_levels(), _levels((5, 5)), _levels((9, 4))):
        assert (found.max, found.mean, found.top, found.busy_ns) == (0, None, None, 0)
        assert found.share(1) is None
    assert _knee(np.empty(0, dtype=np.int64), np.empty(0, dtype=np.int64)) is None


_SPANS = st.lists(st.tuples(st.integers(0, 60), st.integers(0, 30)), min_size=1, max_size=40)


@given(_SPANS, st.integers(0, 2**60))
def test_levels_equal_a_count_ns_by_ns(made: list[tuple[int, int]], epoch: int) -> None:
    """For any spans, at any date, time at each level, the maximum and the level of each end are what counting gives."""
    spans = [(start, start + length) for start, length in made]
    found = _levels(*((epoch + a, epoch + b) for a, b in spans))
    first, last = min(a for a, _ in spans), max(b for _, b in spans)
    counted = [sum(a <= ns < b for a, b in spans) for ns in range(first, last)]
    assert found.time_ns.sum() == last - first
    assert {k: n for k, n in enumerate(found.time_ns.tolist()) if n} == {k: counted.count(k) for k in set(counted)}
    assert found.max == max(counted, default=0)
    before = [sum(a < end <= b for a, b in spans) for _, end in spans]
    assert {k: n for k, n in enumerate(found.ended.tolist()) if n} == {k: before.count(k) for k in set(before)}
    assert found.ops == len(spans)


def test_many_ops_are_counted_across_blocks() -> None:
    """Half a million ops with equal times at every turn give the sums that a plain cumulative sum gives."""
    rng = np.random.default_rng(5)
    starts = rng.integers(0, 400_000, 500_000) * 10
    ends = starts + rng.integers(0, 40, 500_000) * 10
    found = levels(starts, ends)
    change = np.bincount(starts // 10, minlength=400_100) - np.bincount(ends // 10, minlength=400_100)
    counted = np.cumsum(change)[starts.min() // 10 : ends.max() // 10]
    assert found.time_ns.tolist() == (10 * np.bincount(counted)).tolist()
    before = np.searchsorted(np.sort(starts), ends, "left") - np.searchsorted(np.sort(ends), ends, "left")
    assert found.ended.tolist() == np.bincount(np.maximum(before, 0), minlength=len(found.ended)).tolist()


def _server(threads: int, clients: list[int]) -> tuple[np.ndarray, np.ndarray]:
    """A server that works on `threads` ops at once, 1 ms each; for 200 ms each so many clients ask again at once."""
    starts: list[int] = []
    ends: list[int] = []
    t = 0
    for asking in clients:
        free = [t] * threads
        mine = [t] * asking
        for _ in range(200 * min(threads, asking)):
            worker, client = free.index(min(free)), mine.index(min(mine))
            done = max(free[worker], mine[client]) + 1_000_000
            starts.append(mine[client])
            ends.append(done)
            free[worker] = mine[client] = done
        t = max(ends)
    return np.array(starts), np.array(ends)


def test_the_knee_is_where_more_in_flight_wait_longer_only() -> None:
    """A server that works on 4 ops at once answers no more of them with 8 or 16 in flight: the knee is at 4."""
    assert _knee(*_server(4, [1, 2, 4, 8, 16])) == 4


def test_no_knee_where_throughput_grows_or_the_level_never_changes() -> None:
    """With threads for all, or the same number in flight all the time, no knee is to be seen."""
    assert _knee(*_server(16, [1, 2, 4, 8, 16])) is None
    assert _knee(*_server(4, [16])) is None


def test_a_capture_that_is_nearly_idle_has_no_knee() -> None:
    """Two hundred short ops in an hour are looked at without as many windows as there are microseconds."""
    starts = np.arange(200, dtype=np.int64) * 18_000_000_000
    assert _knee(starts, starts + 10) is None


def test_the_share_of_hidden_ops_counts_each_op_once() -> None:
    """A call without reply is half an op, and the header that was not captured is its other half."""
    states = {State.PAIRED: 160, State.NO_REPLY: 15, State.NO_CALL: 5, State.HEADER_NOT_CAPTURED: 12}
    assert hidden_share(states) == 0.2
    assert hidden_share({State.PAIRED: 160, State.HEADER_NOT_CAPTURED: 80}) == pytest.approx(1 / 3)
    assert hidden_share({State.PAIRED: 10}) == 0.0
    # By the gaps in the XIDs two calls are missing, whose replies are there, and eight more.
    assert hidden_share({State.PAIRED: 20, State.NO_CALL: 2}, missing=10) == 0.5
    assert hidden_share({}) == 0.0
    assert hidden_share({State.NO_CALL: 3}) == 1.0


def test_of_many_in_flight_some_are_hidden_at_once() -> None:
    """With 10 % of the ops hidden, of 16 in flight 1.6 are on average, and hardly ever more than 4."""
    assert (unseen(16, 0.1), unseen(16, 0.0)) == (4, 0)


def test_littles_law_for_the_application() -> None:
    """32 sessions at 500 ops a second wait 64 ms each."""
    assert little_ms(32, 500.0) == 64.0


@pytest.mark.parametrize(("sessions", "throughput"), [(0, 1.0), (-1, 1.0), (1, 0.0), (1, -2.0), (1, float("nan"))])
def test_little_wants_positive_numbers(sessions: int, throughput: float) -> None:
    """No sessions, or no throughput, give no latency."""
    with pytest.raises(ValueError, match="must be positive"):
        little_ms(sessions, throughput)


@given(st.lists(st.tuples(st.integers(0, 60), st.integers(-3, 40)), max_size=40), st.integers(0, 4), st.integers(0, 9))
def test_the_compiled_loops_give_what_is_written_down(spans: list[tuple[int, int]], low: int, more: int) -> None:
    """Time and ends of each level, waits from a reply to the next call, and ends, time and area of windows."""
    starts = np.array([start for start, _ in spans], dtype=np.int64)
    events = in_order(starts, starts + np.array([length for _, length in spans], dtype=np.int64))
    levels, waits, windows = in_flight_by_hand(events, low, low + more, 7, 9)
    found = levels_of(events)
    assert (found.time_ns.tolist(), found.ended.tolist()) == levels
    assert turnarounds_ns(events, low, low + more).tolist() == waits
    assert [column.tolist() for column in windows_of(events, 7, 9)] == windows
