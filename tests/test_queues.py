"""The simulator that other tests trust: what it says of queues is held against theory and against its own rules."""

from __future__ import annotations

from math import factorial
from typing import Any

import numpy as np
import pytest
from examples import examples
from hypothesis import given, settings
from hypothesis import strategies as st
from queues import EPOCH_NS, GETATTR, KINDS, MS, US, S, Traffic, matched, ops, simulate

from nfslat.model.tables import I64

READS = {"READ": 1.0}


def most_at_once(begins: I64, ends: I64) -> int:
    """An op that ends when another one begins is not at once with it."""
    times = np.concatenate((ends, begins))
    steps = np.repeat([-1, 1], len(begins))
    return int(np.cumsum(steps[np.lexsort((steps, times))]).max(initial=0))


settings_of_a_server: st.SearchStrategy[dict[str, Any]] = st.fixed_dictionaries(
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
        "order": st.sampled_from(["turns", "leaving", "oldest"]),
        "one_at_a_time": st.none() | st.just("WRITE"),
        "seed": st.integers(0, 1 << 32),
    }
)


@settings(deadline=None, max_examples=examples(60))
@given(settings_of_a_server)
def test_the_rules_hold_whatever_is_simulated(chosen: dict[str, Any]) -> None:
    """Causes come before effects, threads, slots and disks are never exceeded, and calls of a connection keep their
    order up to the thread."""
    traffic = simulate(count=300, **chosen)
    times = [traffic.issued_ns, traffic.sent_ns, traffic.arrival_ns, traffic.start_ns, traffic.reply_ns]
    for earlier, later in zip(times, [*times[1:], traffic.received_ns], strict=True):
        assert (earlier <= later).all()
    assert most_at_once(traffic.start_ns, traffic.reply_ns) <= chosen["threads"]
    assert (np.diff(traffic.sent_ns) >= 0).all()
    for way in range(chosen["connections"]):
        of_way = traffic.take(traffic.conn == way)
        assert (np.diff(of_way.arrival_ns) >= 0).all()
        assert (np.diff(of_way.start_ns) >= 0).all()
        if chosen["slots"]:
            assert most_at_once(of_way.sent_ns, of_way.received_ns) <= chosen["slots"]
    if not chosen["rate_per_s"]:
        assert most_at_once(traffic.issued_ns, traffic.received_ns) <= chosen["workers"]
    assert len(traffic.conn) == 300 or chosen["hidden_workers"]


@settings(deadline=None, max_examples=examples(20))
@given(settings_of_a_server)
def test_the_same_seed_makes_the_same_traffic(chosen: dict[str, Any]) -> None:
    """Column by column, so that a test that fails fails again."""
    one, two = (simulate(count=200, **chosen) for _ in range(2))
    assert all((column == getattr(two, name)).all() for name, column in vars(one).items())


@pytest.mark.parametrize("threads", [1, 2, 8])
def test_waits_for_a_thread_are_those_of_queueing_theory(threads: int) -> None:
    """Calls at random and exponential service are the queue M/M/c, whose mean wait Erlang's formula gives: here with
    threads that are busy for 70 % of the time."""
    busy = 0.7
    rate_per_s = busy * threads / 2e-3
    traffic = simulate(threads=threads, count=60_000, rate_per_s=rate_per_s, mix=READS)
    load = busy * threads
    full = load**threads / factorial(threads) / (1 - busy)
    waits = full / (sum(load**k / factorial(k) for k in range(threads)) + full)
    expected_ns = waits * 2 * MS / (threads * (1 - busy))
    assert traffic.queue_ns.mean() == pytest.approx(expected_ns, rel=0.1)


def test_busy_threads_set_the_pace() -> None:
    """Many synchronous workers on few threads: throughput is threads over service time, and latency is by Little's law
    workers over throughput."""
    traffic = simulate(threads=3, workers=30, law="constant", mix=READS)
    per_s = len(traffic.conn) / (traffic.received_ns.max() - traffic.sent_ns.min()) * S
    assert per_s == pytest.approx(3 / 2e-3, rel=0.01)
    assert traffic.client_ns.mean() == pytest.approx(30 / per_s * S, rel=0.02)


@pytest.mark.parametrize(("order", "seen"), [("turns", 1_500), ("leaving", 2_000), ("oldest", 2_727)])
def test_threads_take_connections_in_turn(order: str, seen: int) -> None:
    """Ten workers on one connection get one call in, not ten, for each call of the one worker on another; two where a
    connection without calls loses its turn, for its next call is still on its way when a thread gets free."""
    traffic = simulate(
        threads=1, workers=10, hidden_workers=1, law="constant", mix=READS, count=3_000, order=order, think_ns=US
    )
    assert len(traffic.conn) == pytest.approx(seen, rel=0.02)


def test_a_lock_holds_threads() -> None:
    """WRITEs one at a time: each holds a thread while it waits for those before it, and READs go on without it."""
    traffic = simulate(threads=64, workers=32, one_at_a_time="WRITE")
    writes = traffic.kind == "WRITE"
    assert (np.diff(np.sort(traffic.reply_ns[writes])) > 0).all()
    assert traffic.queue_ns.max() == 0
    assert traffic.service_ns[writes].mean() > 10 * traffic.service_ns[~writes].mean()


def test_a_full_disk_does_not_slow_what_does_not_need_it() -> None:
    """Storage with two requests at once behind 64 threads: reads wait in their threads, GETATTR is fast."""
    traffic = simulate(threads=64, workers=32, disks=2)
    small = traffic.kind == GETATTR
    assert traffic.service_ns[small].mean() < 100 * US
    assert traffic.service_ns[~small].mean() > 10 * MS
    assert traffic.queue_ns.max() == 0


def test_other_clients_are_felt_and_not_seen() -> None:
    """Ops of a hidden client take threads; they are in no column."""
    seen = simulate(threads=1, workers=1, mix=READS, count=1000)
    disturbed = simulate(threads=1, workers=1, mix=READS, count=1000, hidden_workers=1)
    assert len(seen.conn) == 1000
    assert len(disturbed.conn) == pytest.approx(500, abs=20)
    assert disturbed.queue_ns.mean() > 5 * seen.queue_ns.mean()
    assert set(disturbed.conn.tolist()) == {0}


def test_tables_of_both_sides_hold_the_same_ops() -> None:
    """Rows are in the order of the calls, stamps are whole microseconds, and `matched` names partners."""
    traffic = simulate(threads=2, workers=8, connections=3, count=500)
    server, client = ops(traffic, "server"), ops(traffic, "client")
    pairs = matched(traffic)
    assert (server.xid[pairs.server] == client.xid[pairs.client]).all()
    assert (pairs.client == np.arange(500)).all()
    for table, begin, end in (
        (server, traffic.arrival_ns, traffic.reply_ns),
        (client, traffic.sent_ns, traffic.received_ns),
    ):
        assert (np.diff(table.call_first_frame) > 0).all()
        assert (np.diff(table.t0) >= 0).all()
        assert (table.t1 == EPOCH_NS + begin[table.xid] // US * US).all()
        assert (table.t2 == EPOCH_NS + end[table.xid] // US * US).all()
        assert (table.conn == traffic.conn[table.xid]).all()
        names = {number: name for name, number in KINDS.items()}
        assert [names[int(op)] for op in table.op] == traffic.kind[table.xid].tolist()


def test_a_law_that_is_unknown_is_refused() -> None:
    """A slip in a test is not taken for a law."""
    with pytest.raises(ValueError, match="no such law"):
        simulate(threads=1, law="normal")


def test_part_of_the_traffic_can_be_taken() -> None:
    """All columns keep together."""
    traffic = simulate(threads=1, count=100)
    part = traffic.take(slice(10, 20))
    assert isinstance(part, Traffic)
    assert (part.client_ns == traffic.client_ns[10:20]).all()
