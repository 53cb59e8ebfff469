"""When a call must have been taken by a thread: the compiled loop and one that is written down."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from queues import simulate
from reference_kernels import most_at_once_by_hand, starts_by_hand

from nfslat.kernels import dispatch
from nfslat.kernels.dispatch import Order, Work
from nfslat.model.protocol import NULL
from nfslat.model.tables import I64

Call = tuple[int, int, int]  # stream, arrival, reply

Starts = Callable[[Work, int], I64]


@pytest.fixture(params=[starts_by_hand, dispatch.starts], ids=["by hand", "compiled"])
def starts(request: pytest.FixtureRequest) -> Starts:
    """Either loop."""
    chosen: Starts = request.param
    return chosen


def work_of(calls: list[Call]) -> Work:
    """Calls in any order; those of one time keep theirs."""
    stream, arrival, reply = np.array(sorted(calls, key=lambda call: call[1]), dtype=np.int64).reshape(-1, 3).T
    return Work.of(arrival.copy(), reply.copy(), stream.astype(np.int32))


TURNS = (Order.TURNS_BY_START, Order.TURNS_BY_ANSWER, Order.LEAVING)


# Few times, so that they coincide; a call takes no time at all, or any; streams that are not used in between.
CALLS = st.lists(
    st.tuples(st.sampled_from((0, 1, 2, 5)), st.integers(0, 12), st.integers(0, 12)).map(
        lambda made: (made[0], made[1], made[1] + made[2])
    ),
    max_size=24,
)


@given(CALLS, st.integers(1, 6), st.sampled_from(TURNS))
def test_the_compiled_loop_gives_what_is_written_down(calls: list[Call], threads: int, order: Order) -> None:
    """Whatever the streams, with ties and calls that take no time, both give the same starts."""
    work = work_of(calls)
    assert dispatch.starts(work, threads, order).tolist() == starts_by_hand(work, threads, order).tolist()


@pytest.mark.parametrize("order", TURNS)
@pytest.mark.parametrize("threads", [1, 3, 4, 5, 1000])
def test_the_compiled_loop_gives_what_is_written_down_on_a_load(threads: int, order: Order) -> None:
    """On thousands of calls of eight connections too, with the right number of threads and with wrong ones."""
    traffic = simulate(threads=4, workers=24, connections=8, count=3_000)
    order = np.argsort(traffic.arrival_ns, kind="stable")
    columns = (traffic.arrival_ns, traffic.reply_ns, traffic.conn.astype(np.int32))
    work = Work.of(*(column[order] for column in columns))
    assert (dispatch.starts(work, threads, order) == starts_by_hand(work, threads, order)).all()


@given(CALLS)
def test_the_compiled_bound_gives_what_is_written_down(calls: list[Call]) -> None:
    """Whatever the streams, both find as many calls in threads at once, at as many instants."""
    work = work_of(calls)
    assert dispatch.most_at_once(work) == most_at_once_by_hand(work)


# --- By pencil --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("calls", "threads", "taken"),
    [
        ([], 1, []),
        ([(0, 5, 9)], 1, [5]),
        # One thread works through a stream; with two the second call is taken at once; with three all are.
        ([(0, 0, 10), (0, 1, 20), (0, 2, 30)], 1, [0, 10, 20]),
        ([(0, 0, 10), (0, 1, 20), (0, 2, 30)], 2, [0, 1, 10]),
        ([(0, 0, 10), (0, 1, 20), (0, 2, 30)], 3, [0, 1, 2]),
        # A thread that is idle takes a call when it comes; one that gets free at that very time, too.
        ([(0, 0, 10), (0, 50, 60), (1, 60, 70)], 1, [0, 50, 60]),
        # Streams take turns: at 10 the one call of the second is next, though the first has two that came before it.
        # Its reply shows that it was so: what the first was given at 10 it gets at 20.
        ([(0, 0, 10), (0, 1, 30), (0, 2, 40), (1, 3, 20)], 1, [0, 20, 30, NULL]),
        ([(0, 0, 10), (0, 1, 20), (0, 2, 40), (1, 3, 30)], 1, [0, 10, 30, 20]),
        # A stream keeps its turn though nothing is left when its call is taken: what comes until then is taken in it.
        ([(0, 0, 10), (1, 1, 30), (1, 2, 40), (0, 5, 20)], 1, [0, 20, 30, 10]),
        # Where its turn comes while a thread is idle it has none any more, and stands behind the other.
        ([(0, 0, 1), (1, 2, 10), (1, 3, 20), (0, 5, 30)], 1, [0, 2, 10, 20]),
        # A reply out of turn: its call and the one before it had threads that the model did not give them.
        ([(0, 0, 30), (0, 1, 20), (0, 2, 10), (0, 3, 40)], 1, [0, NULL, NULL, 30]),
        # Calls that take no time.
        ([(0, 5, 5), (0, 5, 5)], 1, [5, 5]),
    ],
)
def test_starts_by_pencil(starts: Starts, calls: list[Call], threads: int, taken: list[int]) -> None:
    """Small cases that can be followed with a pencil."""
    assert starts(work_of(calls), threads).tolist() == taken


def test_a_connection_without_calls_may_leave_the_line_at_once() -> None:
    """Then a call that comes on it stands behind those of other connections that came while it had none."""
    work = work_of([(0, 0, 10), (1, 1, 20), (1, 2, 40), (0, 5, 30)])
    assert dispatch.starts(work, 1, Order.LEAVING).tolist() == [0, 10, 30, 20]
    assert dispatch.starts(work, 1, Order.TURNS_BY_START).tolist() != [0, 10, 30, 20]


@pytest.mark.parametrize(
    ("order", "taken"),
    [
        (Order.TURNS_BY_START, [0, 15, NULL]),  # the second, which was taken last, has waited until then
        (Order.TURNS_BY_ANSWER, [15, 1, NULL]),  # the first, which is answered last
        (Order.OLDEST_FIRST, [0, 1, NULL]),  # none: there is only one connection, and it had one thread more
    ],
)
def test_what_had_no_thread_yet_is_a_guess(order: Order, taken: list[int]) -> None:
    """Two calls of two streams are taken, and that of a third one is answered: one of the two was not there yet."""
    assert dispatch.starts(work_of([(0, 0, 40), (1, 1, 30), (2, 2, 15)]), 2, order).tolist() == taken


@given(CALLS, st.integers(1, 6))
def test_oldest_first_is_one_stream(calls: list[Call], threads: int) -> None:
    """Calls that are taken as they come, whatever their connection, are those of one connection."""
    work = work_of(calls)
    as_one = work_of([(0, *times) for _, *times in calls])
    assert (dispatch.starts(work, threads, Order.OLDEST_FIRST) == dispatch.starts(as_one, threads)).all()


@given(CALLS, st.integers(1, 6))
def test_starts_keep_the_rules(calls: list[Call], threads: int) -> None:
    """No call is taken before it comes or after it is answered, streams keep their order, and enough threads leave
    nothing to wait for."""
    work = work_of(calls)
    start = dispatch.starts(work, threads)
    known = start != NULL
    assert (start >= work.arrival_ns)[known].all()
    assert (start <= work.reply_ns)[known].all()
    for stream in set(work.stream.tolist()):
        mine = start[known & (work.stream == stream)]
        assert (np.diff(mine) >= 0).all()
    assert (dispatch.starts(work, max(len(calls), 1)) == work.arrival_ns).all()


@given(CALLS)
def test_calls_are_taken_at_arrivals_and_replies(calls: list[Call]) -> None:
    """One thread takes a call when one comes or when it has answered one, and at no other time."""
    work = work_of(calls)
    start = dispatch.starts(work, 1)
    events = {*work.arrival_ns.tolist(), *work.reply_ns.tolist()}
    assert all(when in events for when in start[start != NULL].tolist())


@pytest.mark.parametrize(("threads", "connections"), [(1, 1), (2, 1), (4, 3), (16, 8)])
def test_with_the_right_number_of_threads_the_starts_are_those_of_the_server(threads: int, connections: int) -> None:
    """The simulated server is made like knfsd: the replay finds each call's start to the nanosecond."""
    traffic = simulate(threads=threads, workers=3 * threads + 1, connections=connections, count=2_000)
    order = np.argsort(traffic.arrival_ns, kind="stable")
    columns = (traffic.arrival_ns, traffic.reply_ns, traffic.conn.astype(np.int32))
    work = Work.of(*(column[order] for column in columns))
    assert (dispatch.starts(work, threads) == traffic.start_ns[order]).all()


def test_a_part_of_the_work_is_work() -> None:
    """Its replies are put in order anew."""
    part = work_of([(0, 0, 30), (0, 1, 20), (1, 2, 10), (0, 3, 5)]).part(slice(1, 3))
    assert (part.arrival_ns.tolist(), part.reply_ns.tolist(), part.by_reply.tolist()) == ([1, 2], [20, 10], [1, 0])
