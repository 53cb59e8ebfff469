"""What-if: the replay of what was captured is held against simulated servers that really have the other numbers."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from grids import grid
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from queues import GETATTR, MS, US, S, Traffic, simulate

from nfslat.errors import InputError, UsageError
from nfslat.inflight import replay
from nfslat.inflight.play import Load, Order, Played, play
from nfslat.inflight.replay import Replay, WhatIf
from nfslat.model.tables import I64

LAWS = ["exponential", "lognormal", "constant"]


def load_of(traffic: Traffic) -> Load:
    """What a capture and the right number of threads give: stamps in us, one client, slots of each connection."""
    rows = len(traffic.conn)
    sent, received, at_server = (
        column // US * US for column in (traffic.sent_ns, traffic.received_ns, traffic.server_ns)
    )
    return Load(
        conn=traffic.conn.copy(),
        client=np.zeros(rows, dtype=np.int64),
        slot_table=traffic.conn.copy(),
        sent_ns=sent,
        received_ns=received,
        network_ns=received - sent - at_server,
        service_ns=traffic.service_ns.copy(),
        is_ours=np.ones(rows, dtype=bool),
        op=np.arange(rows),
    )


def what_if(load: Load, **numbers: int | None) -> WhatIf:
    return Replay(load).what_if(**numbers)  # type: ignore[arg-type]


def p99(durations_ns: I64) -> float:
    return float(np.quantile(durations_ns, 0.99))


def per_s(traffic: Traffic) -> float:
    return len(traffic.conn) / float(traffic.received_ns.max() - traffic.issued_ns.min()) * S


@grid(law=LAWS, threads=[8, 16], connections=[1, 4])
def test_more_threads_do_what_was_predicted(law: str, threads: int, connections: int) -> None:
    """From traffic with 2 threads: mean, slowest 1 % and throughput of a server that has 8 or 16 of them, other random
    numbers."""
    busy: dict[str, Any] = {"law": law, "workers": 32, "connections": connections}
    traffic = simulate(threads=2, count=10_000, **busy)
    truth = simulate(threads=threads, seed=2, count=20_000, **busy)
    found = what_if(load_of(traffic), threads_now=2, slots_now=None, threads=threads)
    assert found.error == pytest.approx(0, abs=0.01)
    assert found.captured.mean_ns == pytest.approx(traffic.client_ns.mean(), rel=0.03)
    assert found.after.client.mean_ns == pytest.approx(truth.client_ns.mean(), rel=0.04)
    assert found.after.client.p99_ns == pytest.approx(p99(truth.client_ns), rel=0.1)
    assert found.after.ops_per_s == pytest.approx(per_s(truth), rel=0.04)
    assert (found.before.limit, found.after.limit) == ("threads", "threads")
    assert found.after.threads_busy == pytest.approx(1, abs=0.02)


@pytest.mark.parametrize("law", LAWS)
def test_where_threads_were_the_limit_the_callers_are_next(law: str) -> None:
    """64 threads for 32 workers: an op takes what its service takes, and hardly a thread is needed any more."""
    traffic = simulate(threads=2, workers=32, law=law)
    found = what_if(load_of(traffic), threads_now=2, slots_now=None, threads=64)
    assert found.after.limit == "load"
    assert found.after.thread_wait_ns == 0
    assert found.after.threads_busy is not None
    assert found.after.threads_busy < 0.5
    assert found.after.client.mean_ns == pytest.approx(traffic.service_ns.mean() + 120 * US, rel=0.02)


@pytest.mark.parametrize("think_ns", [1 * MS, 5 * MS])
def test_workers_that_think_go_on_thinking(think_ns: int) -> None:
    """With pauses between ops the faster server is asked more often, but not for ever more."""
    busy: dict[str, Any] = {"workers": 32, "think_ns": think_ns}
    truth = simulate(threads=8, seed=2, count=20_000, **busy)
    found = what_if(load_of(simulate(threads=2, **busy)), threads_now=2, slots_now=None, threads=8)
    assert found.after.client.mean_ns == pytest.approx(truth.client_ns.mean(), rel=0.1)
    assert found.after.ops_per_s == pytest.approx(per_s(truth), rel=0.04)


@pytest.mark.parametrize("law", LAWS)
def test_fewer_threads_are_predicted_too(law: str) -> None:
    """From 16 threads to 4."""
    truth = simulate(threads=4, workers=32, law=law, seed=2, count=20_000)
    found = what_if(load_of(simulate(threads=16, workers=32, law=law)), threads_now=16, slots_now=None, threads=4)
    assert found.after.client.mean_ns == pytest.approx(truth.client_ns.mean(), rel=0.05)
    assert found.after.client.p99_ns == pytest.approx(p99(truth.client_ns), rel=0.15)


@grid(law=LAWS, threads=[None, 8], connections=[1, 4])
def test_more_slots_do_what_was_predicted(law: str, threads: int | None, connections: int) -> None:
    """From 2 slots a connection to 16, the number of requests known: the SRT gets longer where threads are the next
    limit, the application's time shorter all the same."""
    busy: dict[str, Any] = {"law": law, "workers": 48, "connections": connections, "per_call": True}
    busy["threads"] = threads or 200
    traffic = simulate(slots=2, count=10_000, **busy)
    truth = simulate(slots=16, seed=2, count=20_000, **busy)
    found = what_if(load_of(traffic), threads_now=threads, slots_now=2, slots=16, sessions=48)
    assert found.error == pytest.approx(0, abs=0.02)
    assert found.before.application is not None
    assert found.before.application.mean_ns == pytest.approx(traffic.application_ns.mean(), rel=0.08)
    assert found.after.application is not None
    assert found.after.application.mean_ns == pytest.approx(truth.application_ns.mean(), rel=0.06)
    assert found.after.client.mean_ns == pytest.approx(truth.client_ns.mean(), rel=0.08)
    assert found.after.ops_per_s == pytest.approx(per_s(truth), rel=0.06)
    assert found.before.limit == "slots"
    next_one = "slots" if connections == 1 else "threads" if threads else "load"
    assert found.after.limit == next_one


def test_threads_and_slots_can_change_together() -> None:
    """2 slots and 2 threads to 16 and 16."""
    truth = simulate(threads=16, slots=16, workers=32, seed=2, count=20_000)
    traffic = simulate(threads=2, slots=4, workers=32)
    found = what_if(load_of(traffic), threads_now=2, slots_now=4, threads=16, slots=16, sessions=32)
    assert found.after.application is not None
    assert found.after.application.mean_ns == pytest.approx(truth.application_ns.mean(), rel=0.04)
    assert found.after.client.mean_ns == pytest.approx(truth.client_ns.mean(), rel=0.04)
    assert (found.after.threads, found.after.slots) == (16, 16)


def test_fewer_slots_need_no_number_of_sessions() -> None:
    """Where slots were no limit, all requests were on the wire."""
    truth = simulate(threads=64, slots=4, workers=32, seed=2, count=20_000)
    found = what_if(load_of(simulate(threads=64, workers=32)), threads_now=None, slots_now=None, slots=4)
    assert found.after.application is not None
    assert found.after.application.mean_ns == pytest.approx(truth.application_ns.mean(), rel=0.04)
    assert (found.before.limit, found.after.limit) == ("load", "slots")


def test_more_slots_without_the_number_of_sessions_are_refused() -> None:
    """What waits for a slot is not on the wire; the message says what to give."""
    load = load_of(simulate(threads=64, slots=2, workers=32, count=500))
    with pytest.raises(UsageError, match="--sessions N, or the application's latency with --app-ms"):
        what_if(load, threads_now=None, slots_now=2, slots=16)
    found = what_if(load, threads_now=None, slots_now=2, slots=1)
    assert found.after.application is None


def test_other_clients_take_threads_and_are_not_measured() -> None:
    """The same traffic, half of its connections called another client's: figures are ours, and the threads as busy."""
    traffic = simulate(threads=2, workers=32, connections=4)
    whole = load_of(traffic)
    theirs = whole.conn >= 2
    load = replace(
        whole,
        is_ours=~theirs,
        client=np.where(theirs, whole.conn, 0),
        slot_table=np.where(theirs, -1, whole.conn),
        sent_ns=np.where(theirs, traffic.arrival_ns, whole.sent_ns),
        received_ns=np.where(theirs, traffic.reply_ns, whole.received_ns),
        network_ns=np.where(theirs, 0, whole.network_ns),
    )
    truth = simulate(threads=8, workers=32, connections=4, seed=2, count=20_000)
    found = what_if(load, threads_now=2, slots_now=None, threads=8)
    assert found.before.ops <= (~theirs).sum()
    assert found.before.threads_busy == pytest.approx(1, abs=0.01)
    assert found.after.client.mean_ns == pytest.approx(truth.client_ns.mean(), rel=0.04)
    assert found.after.ops_per_s == pytest.approx(per_s(truth) / 2, rel=0.06)


def test_clients_of_a_server_take_their_figures_from_one_play(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each number of threads is played once, whoever asks, and the means of all clients are together that of all."""
    plays = []
    monkeypatch.setattr(replay, "play", lambda *numbers: plays.append(numbers[2:]) or play(*numbers))
    load = load_of(simulate(threads=2, workers=32, connections=4))
    one_play = Replay(load)
    numbers: dict[str, Any] = {"threads_now": 2, "slots_now": None, "threads": 8}
    whole = one_play.what_if(**numbers)
    parts = [one_play.what_if(np.flatnonzero(load.conn == conn), **numbers) for conn in range(4)]
    assert plays == [(2, None, None), (8, None, None)]
    for of_whole, of_parts in (
        (whole.before, [part.before for part in parts]),
        (whole.after, [part.after for part in parts]),
    ):
        assert sum(part.ops for part in of_parts) == of_whole.ops
        mean_ns = sum(part.client.mean_ns * part.ops for part in of_parts) / of_whole.ops
        assert mean_ns == pytest.approx(of_whole.client.mean_ns)


def test_hidden_load_shows_in_the_error_of_the_replay() -> None:
    """Ops that no capture holds make the threads slower than the replay believes; then it says so."""
    traffic = simulate(threads=2, workers=8, hidden_workers=16, hidden_connections=4)
    load = load_of(traffic)
    found = what_if(load, threads_now=2, slots_now=None, threads=8)
    assert found.error < -0.3
    assert "do not rely on it" in found.warning
    assert f"{found.error:+.0%}" in found.warning


def test_storage_that_is_full_is_what_the_warning_is_about() -> None:
    """One disk behind two threads: four times the threads only move the wait, and the replay is far too hopeful."""
    busy: dict[str, Any] = {"workers": 32, "disks": 2}
    truth = simulate(threads=8, seed=2, **busy)
    found = what_if(load_of(simulate(threads=2, **busy)), threads_now=2, slots_now=None, threads=8)
    assert found.after.client.mean_ns < 0.5 * truth.client_ns.mean()
    assert "Storage that has more to do at once may take longer" in found.warning


def test_only_the_busiest_ops_of_a_long_capture_are_played(monkeypatch: pytest.MonkeyPatch) -> None:
    """The limit is named, and the ops in a row that took the least time are chosen."""
    slow, fast = simulate(threads=1, workers=1, count=300), simulate(threads=8, workers=8, count=300, seed=2)
    later = int(slow.received_ns.max())
    names = [name for name in vars(slow) if name.endswith("_ns") and name != "service_ns"]
    fast = replace(fast, **{name: getattr(fast, name) + later for name in names})
    joined = Traffic(**{name: np.concatenate((column, getattr(fast, name))) for name, column in vars(slow).items()})
    monkeypatch.setattr(replay, "MOST_OPS", 200)
    found = what_if(load_of(joined), threads_now=None, slots_now=None, threads=2)
    assert (found.ops, found.ops_given) == (200, 600)
    assert "the busiest 200 ops in a row of 600" in found.warning
    assert found.before.ops_per_s == pytest.approx(per_s(fast), rel=0.2)


@pytest.mark.parametrize("wrong", [{"threads": 0}, {"slots": -1}, {"sessions": 0}])
def test_numbers_below_one_are_refused(wrong: dict[str, int]) -> None:
    """Zero threads answer nothing."""
    with pytest.raises(UsageError, match="give 1 or more"):
        what_if(load_of(simulate(threads=1, count=50)), threads_now=1, slots_now=None, **wrong)


def test_without_ops_there_is_nothing_to_replay() -> None:
    """No op at all, or none of ours."""
    load = load_of(simulate(threads=1, count=50))
    for empty in (
        load.take(slice(0)),
        replace(load, is_ours=np.zeros(50, dtype=bool)),
    ):
        with pytest.raises(InputError, match="no op to replay"):
            what_if(empty, threads_now=1, slots_now=None, threads=2)


@pytest.mark.parametrize(
    ("workers", "law"),
    [
        # By day each number of workers and each law once or twice.
        pytest.param(workers, law, marks=() if row == column % 3 else pytest.mark.long)
        for row, workers in enumerate((1, 4, 30))
        for column, law in enumerate(LAWS)
    ],
)
def test_on_one_connection_more_threads_never_make_it_slower(law: str, workers: int) -> None:
    """One to nine threads, one after the other: the mean falls or stays."""
    load = load_of(simulate(threads=2, workers=workers, law=law, count=2_000))
    means = [
        what_if(load, threads_now=2, slots_now=None, threads=threads).after.client.mean_ns for threads in range(1, 10)
    ]
    assert all(more <= 1.01 * less for less, more in pairwise(means))


@pytest.mark.parametrize("threads", [1, 2, 5])
@pytest.mark.parametrize("connections", [1, 3])
def test_the_same_numbers_give_what_was_captured(threads: int, connections: int) -> None:
    """With nothing changed before and after are one, and close to the capture."""
    traffic = simulate(threads=threads, connections=connections)
    found = what_if(load_of(traffic), threads_now=threads, slots_now=None)
    assert found.before == found.after
    assert found.error == pytest.approx(0, abs=0.02)
    assert found.before.client.p99_ns == pytest.approx(found.captured.p99_ns, rel=0.1)


@pytest.mark.parametrize("connections", [1, 3])
def test_calls_at_random_are_replayed_less_well(connections: int) -> None:
    """They did not wait for replies, while the replay lets them. At 70 % of what the threads can do it is somewhat too
    short; with threads enough that is of no matter."""
    open_loop: dict[str, Any] = {"rate_per_s": 800, "connections": connections}
    load = load_of(simulate(threads=2, count=10_000, **open_loop))
    truth = simulate(threads=8, seed=2, count=20_000, **open_loop)
    found = what_if(load, threads_now=2, slots_now=None, threads=8)
    assert found.error == pytest.approx(0, abs=0.15)
    assert found.after.client.mean_ns == pytest.approx(truth.client_ns.mean(), rel=0.05)
    assert found.after.ops_per_s == pytest.approx(800, rel=0.15)


def test_the_ops_in_a_row_with_the_most_of_ours_are_played(monkeypatch: pytest.MonkeyPatch) -> None:
    """A burst of another client's ops is not what is asked about, however much busier it is."""
    load = load_of(simulate(threads=8, workers=8, count=600))
    burst = replace(
        load,
        client=load.client + 1,
        conn=load.conn + 100,
        slot_table=np.full(len(load), -1),
        sent_ns=load.sent_ns[0] + (load.sent_ns - load.sent_ns[0]) // 100,
        network_ns=np.zeros(len(load), dtype=np.int64),
        is_ours=np.zeros(len(load), dtype=bool),
    )
    later = int(load.received_ns.max()) + S
    burst = replace(burst, sent_ns=burst.sent_ns - later, received_ns=burst.sent_ns - later + US)
    load = Load.from_columns(
        {name: np.concatenate((getattr(burst, name), column)) for name, column in vars(load).items()}
    )
    monkeypatch.setattr(replay, "MOST_OPS", 300)
    found = what_if(load, threads_now=8, slots_now=None, threads=16)
    assert (found.ops, found.ops_given, found.others) == (300, 600, 0)
    assert found.before.ops > 250
    assert "op only" not in found.warning
    assert "the busiest 300 ops in a row of 1,200." in found.warning
    monkeypatch.setattr(replay, "MOST_OPS", 900)
    found = what_if(load, threads_now=8, slots_now=None, threads=16)
    assert "the busiest 900 ops in a row of 1,200 (600 of them in both captures)" in found.warning


@pytest.mark.parametrize(("count", "said"), [(1, "over 1 op only"), (40, "ops only"), (400, "")])
def test_figures_over_few_ops_are_told(count: int, said: str) -> None:
    """A mean over fewer than 100 ops comes with a warning, which says over how many it is."""
    found = what_if(load_of(simulate(threads=2, workers=4, count=count)), threads_now=2, slots_now=None, threads=4)
    assert said in found.warning
    assert ("only" in found.warning) == bool(said)
    assert found.before.ops <= count


instants = st.integers(0, 5_000)
rows = st.tuples(
    st.integers(0, 3), st.integers(0, 2), st.integers(-1, 2), instants, instants, st.integers(-5, 500), instants
)


@settings(deadline=None)
@given(
    st.lists(st.tuples(rows, st.booleans()), min_size=1, max_size=60),
    st.none() | st.integers(1, 4),
    st.none() | st.integers(1, 4),
    st.none() | st.integers(1, 8),
)
def test_every_op_is_played_once_whatever_is_given(
    drawn: list[tuple[tuple[int, ...], bool]], threads: int | None, slots: int | None, sessions: int | None
) -> None:
    """Replies before calls, times below zero, clients that share connections: all ops are answered, causes come before
    effects, and neither threads nor slots are exceeded."""
    columns = np.array([row for row, _ in drawn], dtype=np.int64).T
    ours = np.array([is_ours for _, is_ours in drawn])
    load = Load(*(np.ascontiguousarray(column) for column in columns), is_ours=ours, op=np.arange(len(ours)))  # type: ignore[misc]
    if ours.any():
        found = what_if(load, threads_now=threads, slots_now=slots, threads=3, sessions=sessions)
        assert (found.ops, found.ops_given, found.others) == (ours.sum(), ours.sum(), (~ours).sum())
        assert 0 < found.after.ops <= ours.sum()
        assert found.after.client.mean_ns >= 0
    load = replay._in_order(load)
    order = Order.of(load)
    set_off = sorted([op for op in order.after_reply + order.after_call if op >= 0] + order.first)
    assert set_off == list(range(len(load)))
    if not ours.any():
        return
    played = play(load, order, threads, slots, sessions)
    times = [played.issued, played.sent, played.arrived, played.started, played.replied, played.received]
    for earlier, later in pairwise(times):
        assert (earlier <= later).all()
    assert (played.replied - played.started == load.service_ns).all()
    steps = [(played.started, played.replied, threads)]
    for table in range(3):
        mine = load.slot_table == table
        steps.append((played.sent[mine], played.received[mine], slots))
    for begins, ends, most in steps:
        times_of = np.concatenate((ends, begins))
        step = np.repeat([-1, 1], len(begins))
        some = np.tile(ends > begins, 2)
        at_once = np.cumsum(step[some][np.lexsort((step[some], times_of[some]))]).max(initial=0)
        assert most is None or at_once <= most


callers = st.tuples(st.integers(0, 3), st.booleans(), instants, st.integers(1, 500))


@settings(deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(drawn=st.lists(callers, min_size=1, max_size=80), awhile=st.integers(1, 30))
def test_clients_release_none_but_their_own_calls(
    monkeypatch: pytest.MonkeyPatch, drawn: list[tuple[int, bool, int, int]], awhile: int
) -> None:
    """What sets off the calls of many clients is what sets off those of each client alone."""
    monkeypatch.setattr("nfslat.inflight.play._AWHILE", awhile)
    client, ours, sent, took = (np.array(column) for column in zip(*drawn, strict=True))
    load = Load(client, client, client, sent, sent + took, np.zeros_like(sent), took, ours, sent)
    together = Order.of(load)
    for caller in set(zip(client.tolist(), ours.tolist(), strict=True)):
        mine = np.flatnonzero((client == caller[0]) & (ours == caller[1]))
        alone = Order.of(load.take(mine))
        for name in ("after_reply", "after_call"):
            of_mine = [getattr(together, name)[op] for op in mine]
            assert of_mine == [-1 if op < 0 else mine[op] for op in getattr(alone, name)]
        assert [together.gap_ns[op] for op in mine] == alone.gap_ns
        assert set(mine[alone.first]) == set(together.first) & set(mine.tolist())


@given(
    st.lists(st.tuples(st.booleans(), st.integers(-1, 4), instants, instants), min_size=1, max_size=50),
    st.integers(0, 6_000),
    st.integers(1, 4),
)
def test_the_slot_table_that_is_used_most_is_told(
    drawn: list[tuple[bool, int, int, int]], end: int, slots: int
) -> None:
    """The largest share over the tables of our ops, each for itself."""
    ours, tables, sent, took = (np.array(column) for column in zip(*drawn, strict=True))
    ours[0] = True
    load = Load(tables, tables, tables, sent, sent + took, sent, took, ours, sent)
    played = Played(sent, sent, sent, sent, sent + took, sent + took)
    shares = []
    for table in set(tables[ours].tolist()):
        mine = zip(sent[ours & (tables == table)].tolist(), took[ours & (tables == table)].tolist(), strict=True)
        shares.append(sum(max(min(begin + ns, end) - begin, 0) for begin, ns in mine) / (slots * max(end, 1)))
    assert replay._busiest_table(load, played, end, slots) == pytest.approx(max(shares))
    assert replay._busiest_table(load, played, end, None) is None


def test_small_ops_wait_as_long_as_large_ones_for_a_thread() -> None:
    """GETATTR behind two threads is as slow as READ, and with enough threads it is not: the replay shows both."""
    traffic = simulate(threads=2, workers=32)
    small = traffic.kind == GETATTR
    load = load_of(traffic)
    order = Order.of(load)
    before, after = (play(load, order, threads, None, None) for threads in (2, 64))
    assert (before.received - before.sent)[small].mean() > 10 * MS
    assert (after.received - after.sent)[small].mean() < 300 * US
