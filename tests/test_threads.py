"""Threads of a server out of the order of its replies: the bound, the number, each op's wait, on simulated queues."""

from __future__ import annotations

import heapq
from collections import defaultdict
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import rivals
from examples import examples
from grids import grid
from hypothesis import example, given, settings
from hypothesis import strategies as st
from queues import GETATTR, MS, US, S, Traffic, blocked, ops, simulate

from nfslat.inflight.jobs import find_jobs
from nfslat.inflight.server import ServerLoad, server_load
from nfslat.inflight.threads import FEWEST, find_threads, lower_bound
from nfslat.kernels.dispatch import Work, in_flight
from nfslat.model.details import no_details
from nfslat.model.protocol import NULL
from nfslat.model.tables import I16, I64, Loose, Ops, State
from nfslat.select import is_reverse

READS = {"READ": 1.0}
LAWS: dict[str, dict[str, Any]] = {
    "exponential": {"law": "exponential"},
    "lognormal": {"law": "lognormal", "sigma": 1.0},
    "regular": {"law": "lognormal", "sigma": 0.3},
    "constant": {"law": "constant", "cv": 0.02},
}


def _nothing_again(table: Ops) -> Loose:
    return Loose.from_columns({name: [] for name in Loose.columns()}, kinds=table.kinds, connections=table.connections)


def load_of(traffic: Traffic) -> ServerLoad:
    """What is found in the server's capture."""
    table = ops(traffic, "server")
    return server_load(table, _nothing_again(table), is_reverse(table))


def late_load_of(traffic: Traffic, **others: Any) -> ServerLoad:
    """The same, where TCP kept calls back."""
    table = ops(traffic, "server")
    details = replace(no_details(), blocked=blocked(traffic), **others)
    return server_load(table, _nothing_again(table), is_reverse(table), details=details)


def work_of(traffic: Traffic) -> Work:
    table = ops(traffic, "server")
    return find_jobs(table, _nothing_again(table), is_reverse(table)).work


def true_queue_ns(traffic: Traffic) -> I64:
    """Of the ops in the order of the server's table."""
    return np.asarray(traffic.queue_ns[ops(traffic, "server").xid])


def wrongly_booked(traffic: Traffic, found: ServerLoad) -> float:
    """How far the mean wait is off, as a share of the mean time in the server."""
    return float(abs(found.queue_ns.mean() - traffic.queue_ns.mean()) / traffic.server_ns.mean())


def work(*calls: tuple[int, int, int]) -> Work:
    """Calls of (stream, arrival, reply)."""
    stream, arrival, reply = np.array(sorted(calls, key=lambda call: call[1]), dtype=np.int64).reshape(-1, 3).T
    return Work.of(arrival.copy(), reply.copy(), stream.astype(np.int32))


# --- The bound --------------------------------------------------------------------------------------------------------


def bound_by_definition(made: Work) -> tuple[int, int]:
    """At each reply: it, and all calls that are unanswered then and came before an answered one of their stream."""
    calls = list(zip(made.stream.tolist(), made.reply_ns.tolist(), strict=True))
    seen: defaultdict[int, int] = defaultdict(int)
    for now in {reply for _, reply in calls}:
        inside = 1
        for row, (stream, reply) in enumerate(calls):
            later = calls[row + 1 :]
            inside += reply > now and any(other == stream and answered <= now for other, answered in later)
        seen[inside] += 1
    most = max(seen, default=0)
    return most, seen[most]


CALLS = st.lists(
    st.tuples(st.integers(0, 2), st.integers(0, 12), st.integers(0, 12)).map(
        lambda made: (made[0], made[1], made[1] + made[2])
    ),
    max_size=16,
)


@given(CALLS)
def test_the_bound_is_what_its_definition_says(calls: list[tuple[int, int, int]]) -> None:
    """Counted call by call at every reply, with ties, it is the same number, seen as often."""
    made = work(*calls)
    assert tuple(lower_bound(made)) == bound_by_definition(made)


@pytest.mark.parametrize(
    ("calls", "threads"),
    [
        ([], 0),
        ([(0, 0, 10)], 1),
        # In the order of the stream one thread is enough, however many wait.
        ([(0, 0, 10), (0, 1, 20), (0, 2, 30)], 1),
        # The last is answered first: two others were begun before it.
        ([(0, 0, 30), (0, 1, 20), (0, 2, 10)], 3),
        # Replies in one packet count as one after the other.
        ([(0, 0, 30), (0, 1, 30), (0, 2, 30)], 1),
        # Streams add up.
        ([(0, 0, 30), (0, 1, 10), (1, 2, 30), (1, 3, 10)], 3),
        # Two streams, each answered in its order: nothing shows more than one.
        ([(0, 0, 30), (1, 1, 10), (1, 2, 20)], 1),
    ],
)
def test_the_bound_by_pencil(calls: list[tuple[int, int, int]], threads: int) -> None:
    """Small cases that can be followed with a pencil."""
    assert lower_bound(work(*calls)).threads == threads


def test_connections_are_not_pooled() -> None:
    """A server takes connections in turn, so a call that overtakes those of another connection shows no thread: all
    calls taken for one stream would give 5 where one thread answers the busy and the quiet connection in turn."""
    busy = [(0, n, 10 + 20 * n) for n in range(6)]
    quiet = [(1, 6, 20)]
    assert lower_bound(work(*busy, *quiet)).threads == 1
    assert lower_bound(work(*((0, *times) for _, *times in busy + quiet))).threads == 6


@settings(max_examples=examples(60))
@given(
    st.fixed_dictionaries(
        {
            "threads": st.integers(1, 9),
            "workers": st.integers(1, 20),
            "connections": st.integers(1, 8),
            "slots": st.none() | st.integers(1, 5),
            "law": st.sampled_from(["exponential", "lognormal", "constant"]),
            "disks": st.none() | st.integers(1, 3),
            "rate_per_s": st.none() | st.floats(50, 5_000),
            "per_call": st.booleans(),
            "hidden_workers": st.integers(0, 3),
            "seed": st.integers(0, 1 << 32),
        }
    )
)
def test_no_server_has_fewer_threads_than_the_bound(chosen: dict[str, Any]) -> None:
    """Whatever is simulated, with clients that are not captured and with stamps in whole microseconds."""
    assert lower_bound(work_of(simulate(count=300, **chosen))).threads <= chosen["threads"]


@given(CALLS)
def test_in_flight_at_arrival_is_counted(calls: list[tuple[int, int, int]]) -> None:
    """Calls that came before, and it, less those that are answered; what is answered at that very time is."""
    made = work(*calls)
    times = list(zip(made.arrival_ns.tolist(), made.reply_ns.tolist(), strict=True))
    expected = [row + 1 - sum(reply <= came for _, reply in times) for row, (came, _) in enumerate(times)]
    assert in_flight(made).tolist() == expected


# --- The number, where threads are the limit --------------------------------------------------------------------------


@grid(threads=[1, 2, 3, 4, 8, 16, 32, 64, 128], connections=[1, 3, 8], law=LAWS)
def test_threads_that_are_too_few_are_counted(threads: int, connections: int, law: str) -> None:
    """Two workers a thread: the number is exact up to 16 and to 2 % above, the range holds it, and the mean wait is
    known to 2 % of the server's time."""
    workers = 2 * threads + 1
    traffic = simulate(
        threads=threads, workers=workers, connections=min(connections, workers), count=1_500, **LAWS[law]
    )
    found = load_of(traffic)
    t = found.threads
    assert t.limited
    assert t.estimate == pytest.approx(threads, abs=0 if threads <= 16 else 0.02 * threads)
    assert t.low is not None
    assert t.high is not None
    assert t.low <= threads <= t.high
    assert t.bound.threads <= threads
    assert wrongly_booked(traffic, found) < 0.02


@pytest.mark.parametrize(
    "load",
    [
        {"workers": 5, "count": 4_000},  # hardly more than threads
        {"workers": 16, "count": 600},
        {"workers": 40, "connections": 4, "count": 4_000},
        {"workers": 12, "connections": 4, "per_call": True},  # nconnect
        {"workers": 32, "slots": 6},  # held by the client, too
        {"rate_per_s": 2_100.0},  # calls at random, threads busy for 96 % of the time
        {"workers": 16, "think_ns": 5 * MS},
    ],
    ids=str,
)
def test_the_number_does_not_hang_on_the_load(load: dict[str, Any]) -> None:
    """Four threads are four for any load that makes calls wait."""
    traffic = simulate(threads=4, **load)
    found = load_of(traffic)
    assert (found.threads.estimate, found.threads.limited) == (4, True)
    assert wrongly_booked(traffic, found) < 0.01


@pytest.mark.parametrize("seed", range(1, 7))
@pytest.mark.parametrize("workers", [8, 16])
def test_a_few_calls_that_met_no_queue_rule_nothing_out(workers: int, seed: int) -> None:
    """Four threads whose only unqueued calls happened to take long: the number is not raised by the median of three."""
    found = load_of(simulate(threads=4, workers=workers, count=4_000, mix=READS, seed=seed))
    assert found.threads.estimate == 4


def test_a_disk_that_begins_slowly_hides_no_threads() -> None:
    """8 threads, 10 ms each, 64 calls always open; the first 8 take 16 to 30 ms: by those there would be more."""
    rng = np.random.default_rng(1)
    free, waiting, calls = [0] * 8, [(S, row) for row in range(64)], [(0, MS)]
    for number in range(3_000):
        arrival, _ = heapq.heappop(waiting)
        start = max(heapq.heappop(free), arrival)
        usual = 20 * US if rng.random() < 0.06 else int(rng.normal(10, 0.15) * MS)  # some are in memory
        took = (16 + 2 * number) * MS if number < 8 else usual
        heapq.heappush(free, start + took)
        calls.append((arrival, start + took))
        heapq.heappush(waiting, (start + took + int(rng.uniform(50, 150)) * US, number))
    calls.sort()
    made = Work.of(
        *(np.array(column, dtype=np.int64) for column in zip(*calls, strict=True)), np.zeros(3_001, np.int32)
    )
    kind = (np.arange(3_001) == 0).astype(np.int16)  # what came before was something else
    found = find_threads(made, kind)
    assert (found.estimate, found.low, found.high) == (8, 8, 8)


@pytest.mark.parametrize("seed", [1, pytest.param(2, marks=pytest.mark.long)])
def test_of_many_connections_a_long_piece_is_looked_at(seed: int) -> None:
    """100 clients and more calls than a search looks at: where a queue stands before the first of these, whose turn it
    is is learnt within them, and 8 threads are 8, not 9 or 10 by what went wrong until then."""
    found = load_of(simulate(threads=8, connections=100, workers=200, count=80_000, think_ns=20 * MS, seed=seed))
    assert found.threads.estimate == 8
    assert found.threads.forced_share < 0.001


@pytest.mark.parametrize(("threads", "connections"), [(1, 1), (2, 2), (4, 3), (16, 8)])
def test_each_ops_wait_is_found(threads: int, connections: int) -> None:
    """With the right number the wait of nearly every op is right to 2 us, which is what stamps allow."""
    traffic = simulate(threads=threads, workers=3 * threads, connections=connections, count=3_000)
    found = load_of(traffic)
    assert found.threads.estimate == threads
    assert np.mean(np.abs(found.queue_ns - true_queue_ns(traffic)) <= 2 * US) > 0.95


def test_other_clients_in_the_servers_capture_are_no_trouble() -> None:
    """The queue of one client is made by the other: both are in the capture, and the threads are those of both."""
    traffic = simulate(threads=3, workers=20, connections=2)
    assert load_of(traffic).threads.estimate == 3


@settings(max_examples=examples(40))
@given(
    st.integers(1, 6),
    st.integers(1, 20),
    st.integers(1, 5),
    st.sampled_from(["exponential", "lognormal", "constant"]),
    st.none() | st.integers(1, 3),
    st.integers(0, 1 << 32),
)
def test_queue_and_work_are_the_time_in_the_server(
    threads: int, workers: int, connections: int, law: str, disks: int | None, seed: int
) -> None:
    """Whatever is found, no op waits for less than nothing or longer than it is in the server; fewer threads make
    longer waits; without an estimate nothing waits."""
    traffic = simulate(
        threads=threads, workers=workers, connections=connections, law=law, disks=disks, seed=seed, count=400
    )
    table = ops(traffic, "server")
    found = load_of(traffic)
    t = found.threads
    for queue_ns in (found.queue_ns, found.queue_with_least_ns, found.queue_with_most_ns):
        assert (queue_ns >= 0).all()
        assert (queue_ns <= table.t2 - table.t1).all()
    assert (t.estimate is not None) == t.limited == found.queue_ns.any()
    if t.limited:
        assert t.cannot == ""
        assert t.estimate is not None
        assert t.low is not None
        assert t.high is not None
        assert t.bound.threads <= t.low <= t.estimate <= t.high < t.most_in_flight
        assert found.queue_with_most_ns.mean() <= found.queue_ns.mean() <= found.queue_with_least_ns.mean()
    assert 0 <= t.forced_share <= 1
    assert 0 <= t.waiting_share <= 1


# --- Several connections, whose order is not known --------------------------------------------------------------------


@grid(law=["regular", "lognormal"], threads=[2, 3, 4, 6, 8], connections=[2, 4, 8])
def test_writes_that_wait_for_a_lock_in_their_threads(law: str, threads: int, connections: int) -> None:
    """READs of 20 ms and WRITEs that go one at a time, as behind the lock of a file: with connections that are often
    empty the number is exact, and it is sure."""
    traffic = simulate(
        threads=threads, workers=24, connections=connections, per_call=True, count=600, one_at_a_time="WRITE",
        mean_ns={"READ": 20 * MS, "WRITE": 20 * MS, GETATTR: 50 * US}, seed=connections, **LAWS[law],
    )  # fmt: skip
    found = load_of(traffic).threads
    assert (found.estimate, found.low, found.high) == (threads,) * 3


@grid(order=["leaving", "oldest"], threads=[2, 3, 4, 6], connections=[2, 4, 8], law=LAWS)
def test_the_range_holds_for_servers_that_take_calls_in_another_order(
    order: str, threads: int, connections: int, law: str
) -> None:
    """Not every server is knfsd. Where connections without calls lose their turn, or the oldest call of all is taken,
    the number may be off, and the range says so."""
    traffic = simulate(
        threads=threads, workers=2 * threads + 1, connections=connections, per_call=True, count=800, order=order,
        seed=threads, **LAWS[law],
    )  # fmt: skip
    found = load_of(traffic).threads
    assert found.limited
    assert found.low is not None
    assert found.high is not None
    assert found.low <= threads <= found.high
    assert found.bound.threads <= threads


@pytest.mark.parametrize("connections", [1, 2, 4])
@pytest.mark.parametrize("threads", [2, 3, 6])
def test_calls_that_the_capture_cut_off_are_counted_by_their_replies(threads: int, connections: int) -> None:
    """A snaplen hides calls behind others in a segment, here one in five: with the replies and their XIDs the number is
    right; without the calls threads would seem to be somewhere else."""
    traffic = simulate(threads=threads, workers=24, connections=connections, per_call=True, count=1_500, seed=threads)
    table = ops(traffic, "server")
    xid = np.empty(len(table), dtype=np.uint32)
    for one in range(connections):  # counted up by connection
        xid[table.conn == one] = 1000 * one + np.arange(np.count_nonzero(table.conn == one))
    table = replace(table, xid=xid)
    cut = np.random.default_rng(5).random(len(table)) < 0.2
    rows = np.flatnonzero(cut)
    columns = {name: np.zeros(len(rows), dtype=np.int64) for name in Loose.columns()}
    columns |= {"conn": table.conn[rows], "xid": xid[rows], "first_ns": table.t2[rows], "last_ns": table.t3[rows]}
    columns |= {"is_reply": np.ones(len(rows)), "direction": np.ones(len(rows)), "op": np.full(len(rows), NULL)}
    columns |= {"kind": np.full(len(rows), NULL), "state": np.full(len(rows), State.NO_CALL)}
    columns["first_frame"] = columns["last_frame"] = table.reply_first_frame[rows]
    loose = Loose.from_columns(columns, kinds=table.kinds, connections=table.connections)
    seen = table.take(np.flatnonzero(~cut))
    found = server_load(seen, loose, is_reverse(seen), hidden=(0.2, 0.2))
    assert found.jobs.unseen == len(rows)
    assert (found.threads.estimate, found.threads.low, found.threads.high) == (threads,) * 3
    assert (found.queue_ns != NULL).all()


# --- No limit ---------------------------------------------------------------------------------------------------------


@grid(of=[(1, 1), (8, 6), (16, 13), (16, 16), (64, 16), (64, 51)], connections=[1, 2, 8], law=LAWS)
def test_enough_threads_are_no_limit(of: tuple[int, int], connections: int, law: str) -> None:
    """No more synchronous workers than threads: nothing ever waits, and no number is said to be the limit."""
    threads, workers = of
    found = load_of(
        simulate(threads=threads, workers=workers, connections=min(connections, workers), count=600, **LAWS[law])
    )
    assert not found.threads.limited
    assert found.threads.estimate is None
    assert not found.queue_ns.any()


@pytest.mark.parametrize("law", LAWS)
@pytest.mark.parametrize(("threads", "connections"), [(8, 2), (32, 8), (128, 1)])
def test_threads_that_are_half_idle_are_no_limit(threads: int, connections: int, law: str) -> None:
    """Calls at random that keep half of the threads busy: the few that meet a queue are not worth a finding."""
    rate_per_s = 0.5 * threads * S / (1.8 * MS)
    found = load_of(simulate(threads=threads, rate_per_s=rate_per_s, connections=connections, **LAWS[law]))
    assert not found.threads.limited


def test_few_threads_are_felt_though_half_idle() -> None:
    """Four threads that are busy for half of the time make calls at random wait for 8 % of their time: that is said."""
    traffic = simulate(threads=4, rate_per_s=0.5 * 4 * S / (1.8 * MS))
    found = load_of(traffic)
    assert found.threads.estimate == 4
    assert found.queue_ns.mean() == pytest.approx(traffic.queue_ns.mean(), rel=0.05)
    assert 0.05 < found.queue_ns.mean() / traffic.server_ns.mean() < 0.15


@pytest.mark.parametrize("connections", [1, 4])
@pytest.mark.parametrize(("disks", "workers"), [(1, 16), (2, 32), (4, 24)])
def test_slow_storage_is_not_taken_for_few_threads(disks: int, workers: int, connections: int) -> None:
    """64 threads that wait for a disk: GETATTRs overtake, so the threads are seen not to be the limit."""
    found = load_of(simulate(threads=64, workers=workers, disks=disks, connections=connections))
    assert not found.threads.limited
    assert found.witnesses == 0


def test_a_disk_that_only_reads_looks_like_threads() -> None:
    """Nothing but READs, served first come, first served by two disks: on the wire this is a server with two threads.
    There is no witness for threads, so the finding is likely at most."""
    found = load_of(simulate(threads=64, workers=24, disks=2, mix=READS))
    assert (found.threads.estimate, found.threads.limited) == (2, True)
    assert found.witnesses == 0


def test_quick_writes_are_no_witnesses() -> None:
    """READs and WRITEs that wait for the same disks: those that take little time there waited for the disk, too."""
    found = load_of(simulate(threads=64, workers=32, disks=4, mix={"READ": 0.7, "WRITE": 0.3}))
    assert found.threads.estimate == 4
    assert found.witnesses == 0


def test_light_calls_that_wait_as_long_are_witnesses() -> None:
    """GETATTRs that need no disk wait for a thread like the READs: what all wait for is in front of the threads."""
    traffic = simulate(threads=2, workers=24, mean_ns={"READ": 10 * MS, "WRITE": 10 * MS, GETATTR: 50 * US})
    found = load_of(traffic)
    small = int(np.count_nonzero(traffic.kind == GETATTR))
    assert 0.8 * small <= found.witnesses <= np.count_nonzero(traffic.kind != "READ")


def test_short_work_has_no_witnesses() -> None:
    """A processor that works on calls of 1 ms one after another lets GETATTRs wait, too: they prove no thread."""
    traffic = rivals.simulate(
        {"READ": [("cpu", 1.0)], GETATTR: [("cpu", 0.05)]}, {"cpu": rivals.line(1)}, threads=64, workers=16
    )
    found = load_of(traffic)
    assert found.threads.estimate == 1
    assert found.witnesses == 0


# --- What cannot be told ----------------------------------------------------------------------------------------------


def test_too_few_calls_say_so() -> None:
    """Fewer than 60 calls tell nothing."""
    found = load_of(simulate(threads=2, workers=16, count=FEWEST - 1))
    assert (found.threads.estimate, found.threads.limited) == (None, False)
    assert found.threads.cannot == "only 59 calls: too few to tell"


def test_regular_work_on_many_connections_says_that_it_cannot_be_told() -> None:
    """Nearly constant service, saturated from start to end, each call on its own connection: a wait looks like work."""
    found = load_of(
        simulate(threads=16, workers=32, connections=8, law="constant", cv=0.02, mix=READS, count=4_000, think_ns=US)
    )
    assert found.threads.estimate is None or found.threads.estimate == 16
    assert found.threads.limited or "too regular" in found.threads.cannot


@pytest.mark.parametrize("hidden", [4, 24, 100])
def test_clients_that_are_not_captured_hide_a_part_of_the_wait(hidden: int) -> None:
    """A limitation: threads that work for clients that the capture does not show are not there, so fewer threads and
    more work are seen. The bound still holds, and the wait is not made longer than it is."""
    traffic = simulate(threads=8, workers=24, hidden_workers=hidden)
    found = load_of(traffic)
    assert found.threads.bound.threads <= 8
    assert found.threads.estimate is None or found.threads.estimate <= 8
    assert found.queue_ns.mean() <= 1.05 * traffic.queue_ns.mean()


# --- Whatever comes ---------------------------------------------------------------------------------------------------


def _anything(seed: int) -> tuple[Work, I16]:
    """Calls that no server makes: at any time, for any time, with times that coincide, of operations at random."""
    rng = np.random.default_rng(seed)
    count, apart_ns = int(rng.integers(FEWEST, 200)), 10 ** int(rng.integers(0, 7))
    arrival = np.sort(rng.integers(0, 1_000, count)) * apart_ns
    took = rng.integers(0, int(rng.integers(2, 400)), count) * apart_ns
    stream = rng.integers(0, int(rng.integers(1, 6)), count).astype(np.int32)
    return Work.of(arrival, arrival + took, stream), rng.integers(0, int(rng.integers(1, 5)), count).astype(np.int16)


@settings(max_examples=examples(50))
@given(st.integers(0, 1 << 32))
@example(17)  # the operation that takes most of the time never meets a queue
@example(467)  # calls that come when others are answered
def test_there_is_an_answer_to_anything(seed: int) -> None:
    """Work that is no server's ends in a number with its range or in none, never in an error or a warning."""
    made, kind = _anything(seed)
    found = find_threads(made, kind)
    assert found.bound.threads <= found.most_in_flight
    assert found.limited == (found.estimate is not None)
    if found.estimate is not None:
        assert found.low is not None
        assert found.high is not None
        assert found.bound.threads <= found.low <= found.estimate <= found.high


@pytest.mark.parametrize("connections", [1, 4])
@pytest.mark.parametrize(
    ("threads", "workers", "law"), [(4, 32, "exponential"), (8, 32, "lognormal"), (12, 64, "constant")]
)
def test_a_capture_that_begins_in_the_middle_of_the_load(
    threads: int, workers: int, law: str, connections: int
) -> None:
    """Calls that came before it are in flight unseen, and whose turn it is is not known: the number is right anyway."""
    traffic = simulate(
        threads=threads, workers=workers, count=3000, seed=40, law=law, connections=connections, per_call=True,
        mean_ns={"READ": 20 * MS, "WRITE": 20 * MS, GETATTR: 50 * US},
    )  # fmt: skip
    begin, end = np.quantile(traffic.arrival_ns, (0.3, 0.9))
    seen = traffic.take((traffic.arrival_ns >= begin) & (traffic.reply_ns <= end))
    found = load_of(seen)
    assert (found.threads.estimate, found.threads.limited) == (threads, True)


# --- Calls that TCP kept back -----------------------------------------------------------------------------------------

LATE = [
    {"loss": 0.02},
    {"loss": 0.05, "again_ns": 1 * MS},  # overtaken, as on a path with several ways
    {"loss": 0.01, "again_ns": 200 * MS},  # a timer
    {"loss": 0.02, "connections": 2},
]


@pytest.mark.parametrize("threads", [1, 2, 4])
@pytest.mark.parametrize("late", LATE, ids=["lost", "overtaken", "timer", "two connections"])
def test_calls_count_from_when_the_server_could_read_them(threads: int, late: dict[str, Any]) -> None:
    """Calls that were lost and sent again, and those behind them, are in the stream where they were sent: the number of
    threads is exact, and the wait. By the order of the packets threads are seen that do not exist."""
    made = simulate(threads=threads, workers=16, seed=threads, **late)
    found = late_load_of(made)
    assert found.threads.bound.threads <= threads
    assert (found.threads.estimate, found.threads.low, found.threads.high) == (threads,) * 3
    assert wrongly_booked(made, found) <= 0.02
    assert load_of(made).threads.bound.threads > threads


@given(st.integers(1, 6), st.integers(1, 3), st.floats(0.01, 0.3), st.integers(50 * US, 20 * MS), st.integers(0, 1000))
@settings(max_examples=examples(60), deadline=None)
def test_the_bound_holds_whatever_comes_late(
    threads: int, connections: int, loss: float, again_ns: int, seed: int
) -> None:
    """No loss, and no order of the packets, shows more threads than there are."""
    made = simulate(
        threads=threads, workers=12, count=400, connections=connections, loss=loss, again_ns=again_ns, seed=seed
    )
    assert late_load_of(made).threads.bound.threads <= threads


def test_the_wait_behind_a_hole_is_none_for_a_thread() -> None:
    """What TCP kept from the server is not counted as a queue in front of its threads."""
    made = simulate(threads=2, workers=8, loss=0.05, again_ns=50 * MS, seed=3)
    queue = late_load_of(made).queue_ns
    table = ops(made, "server")
    kept = (made.arrival_ns - made.seen_ns)[table.xid]
    assert (queue + kept <= table.t2 - table.t1 + 2 * US).all()


def test_where_not_all_that_was_kept_back_is_known_nothing_is_said() -> None:
    """More such calls than the decoder remembers: neither a number nor a bound above one thread."""
    found = late_load_of(simulate(threads=2, loss=0.02), blocked_dropped=1).threads
    assert (found.estimate, found.limited, found.low) == (None, False, 1)
    assert found.bound.threads == 1
    assert "when TCP delivered each" in found.cannot


# --- Replies that stand in the server's socket ------------------------------------------------------------------------


def _beside(traffic: Traffic, share: float) -> ServerLoad:
    """Of each op's time in the server so much may have been its reply's, in the socket."""
    table = ops(traffic, "server")
    in_socket_ns = ((table.t2 - table.t1) * share).astype(np.int64)
    return server_load(table, _nothing_again(table), is_reverse(table), in_socket_ns=in_socket_ns)


def test_replies_in_the_socket_hide_the_threads() -> None:
    """Where much of the time is that of replies that were ready, their order tells nothing of waits for threads."""
    found = _beside(simulate(threads=2), 0.5)
    assert found.threads.cannot.startswith("for 50 % of the time until their first byte replies")
    assert (found.threads.limited, found.threads.estimate) == (False, None)
    assert found.threads.bound.threads == 2
    assert not found.queue_ns.any()


def test_a_little_of_the_socket_is_taken_off_the_wait() -> None:
    """No wait for a thread is longer than what the socket leaves of the time in the server; without any it is whole."""
    made = simulate(threads=2)
    table = ops(made, "server")
    found, whole = _beside(made, 0.2), load_of(made)
    assert (found.threads.estimate, whole.threads.estimate) == (2, 2)
    server_ns = table.t2 - table.t1
    assert (found.queue_ns == np.minimum(whole.queue_ns, server_ns - (server_ns * 0.2).astype(np.int64))).all()


def test_sockets_that_are_late_by_different_times_are_not_added_up() -> None:
    """The bound is that of one connection: answers of another one may have been ready at any moment before."""
    made = simulate(threads=4, workers=16, connections=4, seed=2)
    of_each = [lower_bound(work_of(made.take(made.conn == one))).threads for one in range(4)]
    assert lower_bound(work_of(made)).threads > max(of_each)
    assert _beside(made, 0.5).threads.bound.threads == max(of_each)
