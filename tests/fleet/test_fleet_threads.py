"""A server's threads over all its clients and by time: as the queue has it, whoever's ops they are."""

from __future__ import annotations

import pickle
from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime
from functools import cached_property
from itertools import pairwise

import numpy as np
import pytest
from examples import examples
from hypothesis import given, settings
from hypothesis import strategies as st
from queues import EPOCH_NS, GETATTR, MS, US, S, Traffic, one_after_another, ops, simulate

from nfslat.decode.capture import Source
from nfslat.decode.xid_gaps import missing_calls
from nfslat.figures.inflight import inflight_of_one
from nfslat.fleet.compare.windows import Windows, flying, plan
from nfslat.fleet.model import Phase
from nfslat.fleet.run.threads import ServerThreads, find_server_threads
from nfslat.fleet.sections.words import phase_line, span
from nfslat.inflight.all_clients import ServerWide, taken
from nfslat.inflight.analysis import OneSide, in_flight
from nfslat.inflight.levels import levels
from nfslat.inflight.server import ServerLoad, server_load
from nfslat.model.decoded import Decoded
from nfslat.model.protocol import NULL
from nfslat.model.tables import I64, Connection, Loose, Ops, State
from nfslat.pipeline import side_of
from nfslat.results import one_side
from nfslat.select import is_reverse

SERVER = "10.0.0.2"


def decoded(table: Ops, **facts: object) -> Decoded:
    """A capture that holds these ops, and nothing else."""
    loose = Loose.from_columns({name: [] for name in Loose.columns()}, kinds=table.kinds, connections=table.connections)
    whole = Decoded(
        packet_kinds={}, hidden=0, malformed=0, duplicate_packets=0, lost_ranges=0, lost_bytes=0, backward_times=0,
        tls_connections=0, first_ns=int(table.t0.min(initial=EPOCH_NS)), last_ns=int(table.t3.max(initial=EPOCH_NS)),
        cut_short=False, ops=table, loose=loose, engine="made",
    )  # fmt: skip
    return replace(whole, **facts)  # type: ignore[arg-type]


class Found:
    """What is found of a server, with a row for each of its ops."""

    def __init__(self, found: ServerThreads) -> None:
        self.seen, self.load = found.wide.seen, found.wide.load
        self.inflight, self.windows, self.phases = found.inflight, found.windows, found.phases

    def for_rows(self, rows: I64) -> ServerWide:
        """What concerns some ops, as a client's task gets it."""
        return ServerWide(self.seen, taken(self.load, rows))


def find_wide(whole: Decoded, windows: Windows, servers: Sequence[str] = ()) -> Found:
    return Found(find_server_threads(whole, windows, servers))


class Capture:
    """A server's capture, whole and apart by its clients: each connection is that of a client, in turn."""

    def __init__(self, traffic: Traffic, clients: int, servers: int = 1) -> None:
        table = ops(traffic, "server")
        ends = tuple(
            Connection("tcp", f"10.0.1.{at % clients}", 700 + at, f"10.0.0.{2 + at % servers}", 2049)
            for at in range(len(table.connections))
        )
        self.whole = decoded(replace(table, connections=ends))
        self.rows = [np.flatnonzero(table.conn % clients == at) for at in range(clients)]
        self.parts = [self._part(rows) for rows in self.rows]
        self.queue_ns: I64 = np.asarray(traffic.queue_ns[table.xid])  # the truth

    def _part(self, rows: I64) -> Decoded:
        table = self.whole.ops.take(rows)
        used = np.unique(table.conn)
        ends = tuple(self.whole.ops.connections[at] for at in used.tolist())
        return decoded(replace(table, conn=np.searchsorted(used, table.conn).astype(np.int32), connections=ends))

    @property
    def windows(self) -> Windows:
        return plan(self.whole.first_ns, self.whole.last_ns, len(self.whole.ops))

    @cached_property
    def plain(self) -> ServerLoad:
        return server_load(self.whole.ops, self.whole.loose, is_reverse(self.whole.ops))

    @cached_property
    def wide(self) -> Found:
        return find_wide(self.whole, self.windows)


def ns(text: str) -> int:
    return round(datetime.fromisoformat(text).timestamp() * 1e6) * US


def same_load(one: ServerLoad, other: ServerLoad) -> bool:
    """All of it, row by row."""
    columns = ("queue_ns", "queue_with_least_ns", "queue_with_most_ns")
    threads = (
        *("calls", "bound", "most_in_flight", "estimate", "low", "high", "limited", "waiting_share", "cannot"),
        "instead",
    )
    jobs = ("server", "servers", "held", "unseen", "unseen_first")
    return (
        all(np.array_equal(getattr(one, name), getattr(other, name)) for name in columns)
        and all(getattr(one.threads, name) == getattr(other.threads, name) for name in threads)
        and all(getattr(one.jobs, name) == getattr(other.jobs, name) for name in jobs)
        and one.witnesses == other.witnesses
    )


@pytest.fixture(scope="module")
def doubled() -> Capture:
    """Twelve clients of a server with 8 threads; in the second half twice as many callers."""
    return Capture(
        one_after_another(
            simulate(threads=8, count=20_000, workers=12, think_ns=2 * MS, connections=12),
            simulate(threads=8, count=20_000, workers=24, think_ns=2 * MS, connections=12, seed=2),
        ),
        12,
    )


# --- By time ----------------------------------------------------------------------------------------------------------


def phase_queue_ms(capture: Capture, phase: Phase) -> float:
    """The truth of its calls."""
    t1 = capture.whole.ops.t1
    here = (t1 >= ns(phase.begin)) & (t1 < ns(phase.end))
    return float(capture.queue_ns[here].mean() / MS)


def test_a_load_that_doubles_makes_two_phases(doubled: Capture) -> None:
    """In the second the threads are the limit, from the window on in which it began, with the waits that there were."""
    found = doubled.wide
    before, after = found.phases
    assert (before.limited, before.threads) == (False, None)
    assert (after.limited, after.threads) == (True, 8)
    changed_ns = int(doubled.whole.ops.t1[20_000])
    assert abs(ns(after.begin) - changed_ns) <= doubled.windows.step_ns
    assert after.queue_ms == pytest.approx(phase_queue_ms(doubled, after), rel=0.1)
    assert before.queue_ms is not None
    assert before.queue_ms < 0.05
    assert (found.inflight.threads_estimate, found.inflight.limited) == (8, True)


def test_where_one_number_explains_all_windows_nothing_is_changed(doubled: Capture) -> None:
    """Each op's wait, and all that is said of the whole, is what the capture gives that nobody took apart."""
    assert same_load(doubled.wide.load, doubled.plain)


def test_threads_that_are_taken_away_meanwhile_are_found() -> None:
    """One number for all the time misses it; by phases each call's wait is right."""
    many = simulate(threads=32, count=30_000, workers=24, connections=12)
    capture = Capture(
        one_after_another(many, simulate(threads=4, count=15_000, workers=24, connections=12, seed=2)), 12
    )
    found = capture.wide
    before, after = found.phases
    assert (before.limited, after.limited, after.threads) == (False, True, 4)
    assert abs(ns(after.begin) - int(capture.whole.ops.t1[30_000])) <= capture.windows.step_ns
    second = np.arange(len(capture.queue_ns)) >= 30_000
    assert found.load.queue_ns[second].mean() == pytest.approx(capture.queue_ns[second].mean(), rel=0.1)
    assert found.load.queue_ns[~second].mean() < 0.02 * MS
    assert capture.plain.queue_ns[second].mean() < 0.8 * capture.queue_ns[second].mean()
    assert (found.inflight.threads_estimate, found.inflight.limited) == (4, True)
    assert found.inflight.threads_lower_bound <= 4


def test_three_numbers_make_three_phases() -> None:
    """Few, many, some: the many are no limit."""
    capture = Capture(
        one_after_another(
            *(
                simulate(threads=threads, count=count, workers=30, connections=12, seed=threads)
                for threads, count in ((4, 8_000), (32, 30_000), (8, 15_000))
            )
        ),
        12,
    )
    assert [(one.limited, one.threads) for one in capture.wide.phases] == [(True, 4), (False, None), (True, 8)]


def test_a_short_limit_is_found_and_has_an_end() -> None:
    """Threads are enough but for a tenth of the calls: from when to when, how many, and how long those wait."""
    quiet = [simulate(threads=8, count=30_000, workers=7, connections=12, seed=seed) for seed in (1, 3)]
    busy = simulate(threads=8, count=6_000, workers=40, connections=12, seed=2)
    capture = Capture(one_after_another(quiet[0], busy, quiet[1]), 12)
    found = capture.wide
    assert [one.limited for one in found.phases] == [False, True, False]
    assert found.phases[1].threads == 8
    assert found.phases[1].queue_ms == pytest.approx(phase_queue_ms(capture, found.phases[1]), rel=0.15)


def test_a_server_with_enough_threads_has_one_phase() -> None:
    """Calls that come in bursts and are worked on together are not taken for a queue."""
    capture = Capture(simulate(threads=64, count=12_000, workers=32, connections=12), 12)
    found = capture.wide
    assert [(one.limited, one.threads) for one in found.phases] == [(False, None)]
    assert not any(one.limited for one in found.windows)
    assert (found.load.queue_ns == 0).all()


_DEEP, _SHORT = 25, 70  # ms of thinking between two calls, and the queues that follow


@pytest.mark.parametrize(
    ("connections", "think_ms"),
    [
        (20, _SHORT),
        (100, _DEEP),
        *(
            pytest.param(*one, marks=pytest.mark.long)
            for one in ((20, _DEEP), (50, _DEEP), (50, _SHORT), (100, _SHORT))
        ),
    ],
)
def test_a_server_that_loses_threads_is_found_over_any_number_of_connections(connections: int, think_ms: int) -> None:
    """From 64 threads to 10: since when, how many, how long calls wait, and none before; whose turn it is among a
    hundred connections takes more calls than a window has. The number is that of the limited time, and not a range
    from there to what other times allow."""
    load = {"workers": 400, "think_ns": think_ms * MS, "connections": connections}
    parts = [simulate(threads=64, count=80_000, seed=7, **load), simulate(threads=10, count=40_000, seed=8, **load)]
    capture = Capture(one_after_another(*parts), connections)
    found = capture.wide
    before, after = found.phases
    assert (before.limited, before.threads, before.cannot) == (False, None, None)
    assert after.limited
    assert after.threads in (10, 11)
    assert abs(ns(after.begin) - int(capture.whole.ops.t1[80_000])) <= capture.windows.step_ns
    assert after.queue_ms == pytest.approx(phase_queue_ms(capture, after), rel=0.05)
    assert before.queue_ms is not None
    assert before.queue_ms < 0.02
    assert found.inflight.threads_estimate == after.threads
    assert found.inflight.threads_range == after.threads_range
    assert found.inflight.threads_range is not None
    assert found.inflight.threads_range[1] <= 20


def test_two_limits_are_two_phases() -> None:
    """12 threads and then 8, which one number cannot explain: each has its own, and the waits that there were."""
    load = {"workers": 400, "think_ns": 70 * MS, "connections": 50, "count": 40_000}
    capture = Capture(one_after_another(*(simulate(threads=n, seed=n, **load) for n in (12, 8))), 50)
    phases = capture.wide.phases
    assert [one.threads for one in phases] == [12, 8]
    for one in phases:
        assert one.queue_ms == pytest.approx(phase_queue_ms(capture, one), rel=0.1)


def test_what_few_calls_cannot_tell_is_not_said() -> None:
    """Forty calls show no limit, and do not show that there is none."""
    capture = Capture(simulate(threads=4, count=40, workers=16), 1)
    (phase,) = capture.wide.phases
    assert phase.cannot == capture.wide.inflight.cannot == "only 40 calls: too few to tell"
    assert "cannot be told" in phase_line(phase, None)
    assert "not limited" not in phase_line(phase, None)


def test_a_short_phase_has_a_length() -> None:
    """What begins and ends within a second is printed with fractions of it."""
    begin, end = "2026-02-03T10:00:05.120000+00:00", "2026-02-03T10:00:05.940000+00:00"
    assert span(begin, end, begin) == "10:00:05.1 to 10:00:05.9"
    assert span(begin, "2026-02-03T10:07:05.940000+00:00", begin) == "10:00:05 to 10:07:05"


def test_nothing_is_said_by_windows_where_the_capture_has_holes(doubled: Capture) -> None:
    """What makes the whole untold makes its windows and phases untold."""
    whole = replace(doubled.whole, repeats={State.NO_REPLY: len(doubled.whole.ops)})
    found = find_wide(whole, doubled.windows)
    assert found.inflight.cannot is not None
    assert found.seen.hidden == pytest.approx(0.5)
    assert {(one.limited, one.queue_ms, one.threads_estimate) for one in found.windows} == {(False, None, None)}
    assert [(one.limited, one.queue_ms) for one in found.phases] == [(False, None)]


def one_side_of(decoded: Decoded) -> OneSide:
    """All of it selected."""
    return one_side(side_of(Source("made", ()), decoded), missing_calls(decoded))


# --- For one client ---------------------------------------------------------------------------------------------------


def test_one_client_alone_is_what_its_capture_says() -> None:
    """Its report's figures of the server are the plain ones."""
    capture = Capture(simulate(threads=4, count=15_000, workers=16), 1)
    found = capture.wide
    assert same_load(found.load, capture.plain)
    side, of_side = side_of(Source("made", ()), capture.whole), one_side_of(capture.whole)
    plain = inflight_of_one(side, in_flight(of_side, of_side)).server
    assert found.inflight == plain
    assert inflight_of_one(side, in_flight(of_side, of_side, found.for_rows(capture.rows[0]))).server == plain


def test_each_part_has_the_rows_of_its_ops(doubled: Capture) -> None:
    """By the order of the whole; several parts together have theirs in the order of the calls."""
    found = doubled.wide
    for rows in doubled.rows:
        assert np.array_equal(found.for_rows(rows).load.queue_ns, found.load.queue_ns[rows])
    rows = np.sort(np.concatenate((doubled.rows[5], doubled.rows[2])))
    several = found.for_rows(rows)
    assert np.array_equal(several.load.queue_ns, found.load.queue_ns[rows])
    assert np.array_equal(several.load.queue_with_most_ns, found.load.queue_with_most_ns[rows])
    assert len(found.for_rows(rows[:0]).load.queue_ns) == 0


def test_clients_with_little_to_do_wait_for_the_threads_of_all() -> None:
    """By its own calls alone, one at a time, nothing can be seen of that."""
    capture = Capture(simulate(threads=4, count=10_000, workers=20, connections=20), 20)
    for at in (0, 7, 19):
        side = one_side_of(capture.parts[at])
        alone = in_flight(side, side)
        assert (alone.load.threads.limited, alone.server.levels.max) == (False, 1)
        found = in_flight(side, side, capture.wide.for_rows(capture.rows[at]))
        assert (found.load.threads.estimate, found.server.levels.max) == (4, 20)
        assert found.load.queue_ns.mean() == pytest.approx(capture.queue_ns[capture.rows[at]].mean(), rel=0.1)
        assert np.array_equal(found.client.levels.time_ns, alone.client.levels.time_ns)


def test_what_speaks_against_threads_does_so_for_a_fleet() -> None:
    """Three disks under 16 threads: calls that need no data pass by, and the wide way sees that like the plain one."""
    load = {"threads": 16, "disks": 3, "workers": 8, "connections": 8, "mix": {"READ": 0.97, GETATTR: 0.03}}
    capture = Capture(simulate(**load, seed=2), 1)  # type: ignore[arg-type]
    assert "need no data do not wait" in capture.plain.threads.instead
    assert same_load(capture.wide.load, capture.plain)


@pytest.mark.parametrize("share", [0.1, 0.6])
def test_replies_in_the_servers_socket_are_kept_apart_as_ever(share: float) -> None:
    """With one client the wide way gives what the plain one does: a limit on each op's wait, or no answer at all."""
    capture = Capture(simulate(threads=4, count=6_000, workers=16), 1)
    one = capture.whole
    in_socket_ns = ((one.ops.t2 - one.ops.t1) * share).astype(np.int64)
    side = one_side_of(one)._replace(in_socket_ns=in_socket_ns)
    plain, wide = in_flight(side, side).load, in_flight(side, side, capture.wide.for_rows(capture.rows[0])).load
    assert same_load(plain, wide)
    assert bool(plain.threads.cannot) == (share > 0.25)
    assert not np.array_equal(plain.queue_ns, capture.plain.queue_ns)


def test_rows_of_other_ops_are_refused(doubled: Capture) -> None:
    """What is known of one client is not taken for another."""
    found = doubled.wide
    side = one_side_of(doubled.parts[3])
    with pytest.raises(ValueError, match="not of these"):
        in_flight(side, side, found.for_rows(np.concatenate((doubled.rows[0], doubled.rows[3]))))


def test_it_goes_from_one_process_to_another(doubled: Capture) -> None:
    """Pickled and back it is the same; a column that stands for three takes the room of one."""
    one = doubled.wide.for_rows(doubled.rows[1])
    back = pickle.loads(pickle.dumps(one))  # noqa: S301  (our own)
    assert same_load(back.load, one.load)
    assert np.array_equal(back.seen.levels.time_ns, one.seen.levels.time_ns)
    capture = Capture(simulate(threads=64, count=3_000, workers=8, connections=2), 2)
    free = capture.wide.for_rows(capture.rows[0])
    assert free.load.queue_with_least_ns is free.load.queue_ns


def test_addresses_of_one_server_share_its_threads() -> None:
    """Where they are known to be of one, calls to either wait for the same threads; else one of them is looked at."""
    capture = Capture(simulate(threads=6, count=12_000, workers=24, connections=8), 4, servers=2)
    assert (capture.wide.load.queue_ns == NULL).any()
    found = find_wide(capture.whole, capture.windows, ["10.0.0.2", "10.0.0.3"])
    assert found.inflight.threads_estimate == 6
    assert (found.inflight.server, found.inflight.servers) == (SERVER, 1)
    assert found.load.queue_ns.mean() == pytest.approx(capture.queue_ns.mean(), rel=0.05)
    other = find_wide(capture.whole, capture.windows, ["10.0.0.3"])
    assert other.seen.levels.ops == int((capture.whole.ops.conn % 2 == 1).sum())


# --- Windows ----------------------------------------------------------------------------------------------------------


@given(st.integers(0, 10**9), st.integers(0, 10**6), st.integers(0, 10**8))
def test_windows_are_few_round_and_full(begin_ns: int, span_ms: int, count: int) -> None:
    """Up to 60, some thousand ops in each on average, and they reach from the beginning to the end but for a half."""
    windows = plan(begin_ns, begin_ns + span_ms * MS, count)
    assert 1 <= windows.count <= 60
    assert windows.count == 1 or count / windows.count >= 3_000
    assert windows.begin_ns == begin_ns
    if windows.count > 1:
        assert abs(windows.count * windows.step_ns - span_ms * MS) <= windows.step_ns / 2
        step_ms = windows.step_ns // MS
        assert step_ms >= 10
        assert 10 ** len(str(step_ms)) % step_ms == 0 or 86_400_000 % step_ms == 0 or step_ms % 86_400_000 == 0


def test_a_day_of_many_ops_has_windows_of_half_an_hour() -> None:
    """And ten seconds have some of a fifth of a second."""
    assert plan(0, 86_400 * S, 10**9) == Windows(0, 1800 * S, 48)
    assert plan(0, 10 * S, 2_000_000) == Windows(0, S // 5, 50)
    assert plan(7, 7 + S, 2_000) == Windows(7, S, 1)
    assert plan(7, 7, 0).count == 1


TIMES = st.lists(st.tuples(st.integers(-20, 120), st.integers(0, 60)), min_size=0, max_size=25)


@settings(max_examples=examples(300))
@given(TIMES, st.integers(1, 40), st.integers(1, 6))
def test_what_flies_in_windows_sums_to_what_flies(times: list[tuple[int, int]], step: int, count: int) -> None:
    """Counted nanosecond by nanosecond it is the same, and over all windows it is what the levels say."""
    starts = np.array([start for start, _ in times], dtype=np.int64)
    ends = np.array([start + length for start, length in times], dtype=np.int64)
    windows = Windows(0, step, count)
    found = flying(np.sort(starts), np.sort(ends), windows)
    area, busy, most = (np.zeros(count, dtype=np.int64) for _ in range(3))
    for now in range(-20, 181):
        at = min(max(now // step, 0), count - 1)
        level = int(((starts <= now) & (ends > now)).sum())
        area[at] += level
        busy[at] += level > 0
        most[at] = max(most[at], level)
    assert found.area_ns.tolist() == area.tolist()
    assert found.busy_ns.tolist() == busy.tolist()
    assert found.most.tolist() == most.tolist()
    whole = levels(starts, ends)
    assert found.area_ns.sum() == whole.area_ns
    assert found.busy_ns.sum() == whole.busy_ns
    assert found.most.max(initial=0) == whole.max


def test_windows_of_a_report_sum_to_the_whole(doubled: Capture) -> None:
    """Ops exactly, times in the server and waits within rounding; the levels' maximum is that of a window."""
    found = doubled.wide
    assert sum(one.ops for one in found.windows) == sum(one.ops for one in found.phases) == len(doubled.whole.ops)
    for name in ("server_ms", "queue_ms"):
        of_windows = sum(getattr(one, name) * one.ops for one in found.windows) / len(doubled.whole.ops)
        of_phases = sum(getattr(one, name) * one.ops for one in found.phases) / len(doubled.whole.ops)
        assert of_windows == pytest.approx(of_phases)
    assert found.inflight.queue_ms == pytest.approx(float(found.load.queue_ns.mean() / MS))
    assert found.inflight.service_ms == pytest.approx(
        float((doubled.whole.ops.t2 - doubled.whole.ops.t1 - found.load.queue_ns).mean() / MS)
    )
    assert max(one.in_flight_max for one in found.windows) == found.inflight.max
    assert all(one.end == other.begin for one, other in pairwise(found.windows))
    lasted_s = sum(one.ops / one.ops_per_s for one in found.windows)
    assert lasted_s * S == pytest.approx(ns(found.windows[-1].end) - ns(found.windows[0].begin), rel=1e-6)


def test_a_server_without_a_call_is_no_error() -> None:
    """One window, nothing in it."""
    empty = decoded(ops(simulate(threads=1, count=10), "server").take(slice(0, 0)))
    found = find_wide(empty, plan(EPOCH_NS, EPOCH_NS + S, 0))
    assert [(one.ops, one.in_flight_max, one.server_ms) for one in found.windows] == [(0, 0, None)]
    assert [one.limited for one in found.phases] == [False]
