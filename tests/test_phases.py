"""Hosts that change in mid-capture -> the moment, and what is said of the time before and after it."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from queue_captures import write_captures
from queues import GETATTR, MS, S, Traffic, one_after_another, ops, simulate

from nfslat import api, pipeline
from nfslat.evidence.known import Known
from nfslat.inflight.changes import MOST, changes
from nfslat.inflight.server import ServerLoad, in_phase, led_by_whole, server_load
from nfslat.inflight.threads import Bound, Threads
from nfslat.model.protocol import NULL
from nfslat.model.tables import Loose
from nfslat.select import is_reverse

SHARED = Path(__file__).resolve().parents[2] / "shared"
HALF = SHARED / "lab2" / "half_threads"
PART = SHARED / "broken" / "parts"
MIXED = SHARED / "lab3" / "t16_2_16_meta_full"
LAWS: list[dict[str, Any]] = [{"law": "exponential"}, {"law": "lognormal", "sigma": 1.0}, {"law": "constant"}]


def _changes(traffic: Traffic) -> list[int]:
    order = np.argsort(traffic.sent_ns, kind="stable")
    server_ns = traffic.server_ns[order]
    return changes([server_ns, traffic.client_ns[order] - server_ns])


@pytest.mark.parametrize("law", LAWS, ids=lambda law: str(law["law"]))
@pytest.mark.parametrize("workers", [2, 8, 40])
def test_a_load_that_goes_on_as_it_began_has_no_phases(workers: int, law: dict[str, Any]) -> None:
    """Whatever the law of the work, and whether calls wait or not."""
    for seed in range(1, 4):
        assert _changes(simulate(threads=4, workers=workers, count=3_000, seed=seed, **law)) == []


@pytest.mark.parametrize("law", LAWS, ids=lambda law: str(law["law"]))
@pytest.mark.parametrize(
    "then",
    [
        {"threads": 2},
        {"mean_ns": {"READ": 12 * MS, "WRITE": 12 * MS, GETATTR: 50_000}},
        {"network_ns": 8 * MS},
    ],
    ids=["fewer threads", "a slower disk", "a longer way"],
)
def test_a_cause_that_begins_in_mid_capture_is_dated(then: dict[str, Any], law: dict[str, Any]) -> None:
    """Threads that are taken away, a disk that slows, a delay: there is one change, and it is where it was made."""
    usual: dict[str, Any] = {"threads": 32, "workers": 16, "count": 2_000, **law}
    first, second = simulate(**usual), simulate(**usual | then, seed=2)
    found = _changes(one_after_another(first, second))
    assert len(found) == 1
    assert abs(found[0] - len(first.conn)) <= 20


@pytest.mark.parametrize("before", [600, 1_400, 2_600, 3_400])
def test_a_change_is_dated_wherever_it_is(before: int) -> None:
    """Early or late in the capture, and not towards its middle."""
    first = simulate(threads=32, workers=8, count=before, law="exponential", think_ns=4 * MS)
    second = simulate(threads=32, workers=8, count=4_000 - before, law="exponential", network_ns=16 * MS, seed=2)
    found = _changes(one_after_another(first, second))
    assert len(found) == 1
    assert abs(found[0] - len(first.conn)) <= 20


@pytest.mark.parametrize("share", [0.15, 0.3, 0.45])
@pytest.mark.parametrize("begins", [0.25, 0.4])
def test_a_cause_that_ends_again_is_dated_at_both_its_ends(begins: float, share: float) -> None:
    """Threads that are taken away for a while: as it was before, it is after that."""
    usual: dict[str, Any] = {"threads": 32, "workers": 16, "law": "exponential"}
    count = 6_000
    before, during = int(begins * count), int(share * count)
    first, last = simulate(**usual, count=before), simulate(**usual, count=count - before - during, seed=3)
    found = _changes(one_after_another(first, simulate(**usual | {"threads": 2}, count=during, seed=2), last))
    assert len(found) == 2
    assert abs(found[0] - before) <= 40
    assert abs(found[1] - before - during) <= 40


@pytest.mark.parametrize("during", [300, 500])
def test_a_spell_with_few_ops_and_most_of_the_time_is_dated(during: int) -> None:
    """Who waits for slow replies sends few calls: a path that is 60 ms longer for 5 or 8 % of the ops has most of
    the time."""
    usual: dict[str, Any] = {"threads": 32, "workers": 8, "law": "exponential", "think_ns": 4 * MS}
    first, last = simulate(**usual, count=2_500), simulate(**usual, count=3_000, seed=3)
    slow = simulate(**usual | {"network_ns": 60 * MS}, count=during, seed=2)
    found = _changes(one_after_another(first, slow, last))
    assert len(found) == 2
    assert abs(found[0] - 2_500) <= 20
    assert abs(found[1] - 2_500 - during) <= 20


@given(st.lists(st.integers(0, 10**10), min_size=1, max_size=2_000), st.integers(1, 50))
def test_phases_are_few_and_in_order(times: list[int], often: int) -> None:
    """Whatever the times are, rows are inside, ascending, and no more than a reader can take."""
    column = np.repeat(np.array(times, dtype=np.int64), often)[:5_000]
    found = changes([column, column[::-1].copy()])
    assert found == sorted(set(found))
    assert all(0 < row < len(column) for row in found)
    assert len(found) < MOST


def test_the_time_that_is_asked_for_is_all_that_threads_are_told_by() -> None:
    """Where only the time after the change is asked for, more threads that were seen before it count for nothing."""
    usual: dict[str, Any] = {"workers": 24, "mean_ns": {"READ": 10 * MS, "WRITE": 10 * MS, GETATTR: 50_000}}
    first = simulate(threads=32, count=2_000, **usual)
    traffic = one_after_another(first, simulate(threads=2, count=2_000, seed=2, **usual))
    table = ops(traffic, "server")
    nothing: dict[str, list[int]] = {name: [] for name in Loose.columns()}
    loose = Loose.from_columns(nothing, kinds=table.kinds, connections=table.connections)
    begin = int(table.t1[np.searchsorted(table.t1, table.t1[0] + first.received_ns.max())])
    whole = server_load(table, loose, is_reverse(table))
    part = server_load(table, loose, is_reverse(table), span_ns=(begin, begin + 3_600 * S))
    assert whole.threads.bound.threads > 2
    assert (part.threads.estimate, part.threads.bound.threads) == (2, 2)
    assert (part.queue_ns[table.t2 < begin] == NULL).all()


def _through_a_queue(traffic: Traffic, busy: float) -> Traffic:
    """The replies pass a link that is `busy` for so much of the time, one after the other."""
    order = np.argsort(traffic.reply_ns, kind="stable")
    takes_ns = int(busy * np.diff(traffic.reply_ns[order]).mean())
    free_ns, received_ns = 0, traffic.received_ns.copy()
    for row in order.tolist():
        free_ns = max(free_ns, int(traffic.reply_ns[row])) + takes_ns
        received_ns[row] = free_ns
    return replace(traffic, received_ns=received_ns)


def test_a_path_that_gets_longer_is_distance_and_a_queue_on_it_is_not(tmp_path: Path) -> None:
    """Each way 16 ms from the middle on: that phase has that distance, though the clocks know of a shorter one. Replies
    that queue on the way for as long are no distance."""
    usual: dict[str, Any] = {"threads": 32, "workers": 8, "count": 1_500, "law": "exponential"}
    first, far = simulate(**usual, think_ns=4 * MS), simulate(**usual, network_ns=16 * MS, seed=2)
    queue = _through_a_queue(simulate(**usual, think_ns=4 * MS, seed=2), 0.97)
    found, causes = {}, {}
    for name, second in (("far", far), ("queue", queue)):
        (tmp_path / name).mkdir()
        alone = api.correlate(*write_captures(one_after_another(first, second), tmp_path / name))
        found[name] = alone.summary.phases[-1]
        assert alone.summary.phases[0].cause != "net-delay"
        row = next(one for one in alone.summary.matched.by_op if one.op == "READ")  # type: ignore[union-attr]
        # The application's mean is of both phases, and that of the second one is found all the same.
        with_app = api.Report(
            alone.correlation, api.Options(known=Known(app_ms={"READ": 1.1 * row.client_ms.mean}))
        ).summary
        causes[name] = with_app.verdict.cause if with_app.verdict is not None else None
    # Eight workers that call as soon as they are answered look like eight slots, and those lead.
    assert (found["far"].cause, found["far"].largest_layer) in (("net-delay", "network"), ("client-slots", "network"))
    assert found["far"].network_ms == pytest.approx(32, abs=1)
    assert found["queue"].largest_layer == "network"
    assert found["queue"].cause != "net-delay"
    assert causes["far"] in ("net-delay", "client-slots")
    assert causes["queue"] != "net-delay"


@pytest.mark.parametrize("early_s", [0.8, 0.0])
def test_a_stretch_that_begins_before_a_path_got_longer_has_not_its_distance(early_s: float, tmp_path: Path) -> None:
    """That every op pays it is not said where many of the first ones did not; a stretch that begins there has it."""
    usual: dict[str, Any] = {"threads": 32, "workers": 8, "count": 1_500, "law": "exponential"}
    first, far = simulate(**usual, think_ns=4 * MS), simulate(**usual, network_ns=16 * MS, seed=2)
    both = one_after_another(first, far)
    pair = api.correlate(*write_captures(both, tmp_path)).correlation
    began = pair.client.ops.t0.min() + both.sent_ns[len(first.conn) :].min() - both.sent_ns.min()
    found = pipeline.within(pipeline.analyse(pair), int(began - early_s * S), None).charges
    assert found is not None
    assert (2 * found.half_trip_ns > 30 * MS) == (not early_s)


@pytest.mark.skipif(not HALF.is_dir(), reason="no ../shared/lab2")
def test_threads_that_are_taken_away_are_named_with_their_time() -> None:
    """A real server went from 32 threads to 2 in the sixth second: the verdict dates it and counts them."""
    report = api.correlate(HALF / "server.pcap.gz", HALF / "client.pcap.gz").summary
    assert report.verdict is not None
    assert report.verdict.cause == "server-threads"
    assert report.verdict.text.startswith("From 2026-11-22 14:04:18.")
    assert [one.threads_estimate for one in report.phases] == [None, 2]
    assert [one.layer for one in report.phases] == ["server", "server"]
    assert sum(one.ops for one in report.phases) == report.matched.ops  # type: ignore[union-attr]
    assert sum(one.time_share for one in report.phases) == pytest.approx(1.0)


def test_the_cause_of_another_phase_is_named_too(tmp_path: Path) -> None:
    """3 threads under 20 workers on a disk of 20 ms, then 32: the disk has most of the time, and the calls that waited
    for a thread before are told, with their part of all the time."""
    usual: dict[str, Any] = {"workers": 20, "law": "lognormal", "sigma": 0.3, "mean_ns": {"READ": 20 * MS}}
    usual |= {"mix": {"READ": 1.0}, "think_ns": 2 * MS}
    few, many = simulate(threads=3, count=600, **usual), simulate(threads=32, count=6_000, **usual, seed=2)
    alone = api.correlate(*write_captures(one_after_another(few, many), tmp_path))
    found = alone.summary
    assert found.verdict is not None
    assert (found.verdict.outcome, found.verdict.cause, found.verdict.also) == (
        "fault", "server-storage", ["server-threads"],
    )  # fmt: skip
    assert "Until " in found.verdict.text
    threads = next(one for one in found.findings if one.code == "server-threads")
    assert threads.text.startswith("until ")
    first = found.phases[0]
    assert threads.share == pytest.approx(0.85 * first.time_share, rel=0.15)
    assert "share_slowest" not in threads.evidence or threads.evidence["share_slowest"] is None
    # Who says that there are 3 is right of that stretch; who says 32 denies none of it, for there were that many later.
    for there, confidence in ((3, "certain"), (32, threads.confidence)):
        told = api.Report(alone.correlation, api.Options(known=Known(threads=there))).summary
        assert [phase.threads_estimate for phase in told.phases] == [phase.threads_estimate for phase in found.phases]
        assert {one.confidence for one in told.findings if one.code == "server-threads"} == {confidence}


def test_calls_that_more_threads_left_behind_do_not_hide_the_few_that_are_left(tmp_path: Path) -> None:
    """16 threads, then 2, then 16, on one connection: what was begun before the change is answered late in it."""
    usual: dict[str, Any] = {"workers": 16, "law": "constant", "cv": 0.2, "mean_ns": {"READ": 20 * MS}}
    usual |= {"mix": {"READ": 1.0}, "think_ns": 2 * MS}
    states = [(16, 1_500, 1), (2, 200, 2), (16, 1_500, 3)]
    many, few, again = (simulate(threads=threads, count=count, seed=seed, **usual) for threads, count, seed in states)
    found = api.correlate(*write_captures(one_after_another(one_after_another(many, few), again), tmp_path)).summary
    assert [phase.threads_estimate for phase in found.phases] == [None, 2, None]


@pytest.mark.parametrize("disks", [None, 2])
def test_what_many_threads_did_before_says_nothing_of_the_few_that_are_left(tmp_path: Path, disks: int | None) -> None:
    """32 threads, on any number of disks, and then 2 on slow ones: the whole fits no number of threads of those that
    are as many as were at work at once. The second phase, in which there are fewer, fits 2."""
    slow = {"READ": 20 * MS, "WRITE": 20 * MS, GETATTR: 50_000}
    first = simulate(threads=32, workers=20, count=700, think_ns=40 * MS, disks=disks)
    second = simulate(threads=2, workers=20, count=350, mean_ns=slow, law="lognormal", sigma=0.5, seed=2)
    report = api.correlate(*write_captures(one_after_another(first, second), tmp_path)).summary
    assert report.inflight is not None
    assert report.inflight.server.instead
    assert report.verdict is not None
    assert (report.verdict.cause, report.phases[-1].threads_estimate) == ("server-threads", 2)


@pytest.mark.skipif(not PART.is_dir(), reason="no ../shared/broken/parts")
def test_a_limit_for_a_part_of_the_time_is_a_fault_of_all_of_it() -> None:
    """64 threads, of which 3 are left for 0.4 of 1.3 s: more that work at once before and after refute no limit of 3
    then, and its share is of all the time."""
    pair = (PART / f"threads3_for_a_part.{side}.pcap.gz" for side in ("server", "client"))
    report = api.correlate(*pair).summary
    assert report.verdict is not None
    assert (report.verdict.outcome, report.verdict.cause) == ("fault", "server-threads")
    assert [one.threads_estimate for one in report.phases] == [None, 3, None]
    assert report.verdict.text.startswith("From 2026-09-21 14:13:20.926 UTC to 2026-09-21 14:13:21.274 UTC ")
    assert 0.25 <= (report.verdict.share or 0.0) <= 0.4
    threads = next(one for one in report.findings if one.code == "server-threads")
    assert threads.share == report.verdict.share
    assert "a limit of 3 at once" in threads.text


@pytest.mark.skipif(not MIXED.is_dir(), reason="no ../shared/lab3")
def test_a_mixed_stretch_in_which_a_limit_ends_is_split_there() -> None:
    """A real server of 16 threads had 2 for five seconds of a load of metadata: the stretch is dated, and calls wait
    for 2 there, although more show themselves at its edges, where those that were gone have calls."""
    report = api.correlate(MIXED / "server.pcap.gz", MIXED / "client.pcap.gz").summary
    assert [one.begin[11:19] for one in report.phases[1:]] == ["03:49:59", "03:50:04"]
    slow = report.phases[1]
    assert slow.client_ms > 5 * max(report.phases[0].client_ms, report.phases[2].client_ms)
    assert (slow.cause, slow.threads_estimate) == ("server-threads", 2)
    assert report.verdict is not None
    assert "works on 2 at a time" in report.verdict.text


def _load(limit: int | None, bound: int, *, calls: int = 1_000, cannot: str = "", instead: str = "") -> ServerLoad:
    times = np.zeros(0, dtype=np.int64)
    threads = Threads(
        calls=calls, bound=Bound(bound, 9), most_in_flight=16, estimate=limit, low=limit or bound, high=limit,
        limited=limit is not None, forced_share=0.0, waiting_share=0.0, start_ns=times, low_start_ns=times,
        high_start_ns=times, cannot=cannot, instead=instead,
    )  # fmt: skip
    jobs: Any = None
    return ServerLoad(jobs, threads, times, times, times, 0)


def test_what_refutes_a_limit_does_so_where_it_was_found() -> None:
    """Of fewer threads than work at once in another phase the whole says nothing; of as many it does, for more calls
    tell there."""
    whole = _load(None, 15, calls=5_000, instead="they share a disk")
    assert in_phase(whole, _load(3, 3)).threads.estimate == 3
    refuted = in_phase(whole, _load(15, 15)).threads
    assert (refuted.limited, refuted.instead) == (False, "they share a disk")
    assert in_phase(_load(None, 15, calls=5_000), _load(15, 15)).threads.limited


def test_a_pool_of_threads_belongs_to_a_server() -> None:
    """What all calls tell holds for a phase whose own cannot; not where those show more threads, or say that none
    waits, or where another phase has another limit."""
    whole, silent = _load(4, 4).threads, _load(None, 2, cannot="only 40 calls").threads
    more, none_waits = _load(None, 5, cannot="only 40 calls").threads, _load(None, 2).threads
    assert led_by_whole(whole, [silent, more, none_waits, whole]) == [0]
    assert led_by_whole(whole, [silent, _load(2, 2).threads]) == []
    assert led_by_whole(none_waits, [silent]) == []
