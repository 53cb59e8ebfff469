"""What pictures are drawn from: aggregates that sum to the figures of the report, whatever the captures are."""

from __future__ import annotations

import dataclasses
import json
import subprocess
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from captures import SHARED, Decoder, needs_captures
from hypothesis import given
from hypothesis import strategies as st
from scenario import FOLDER, MS, Scenario
from valid import Validator

import nfslat
from nfslat import pipeline
from nfslat.answer import model
from nfslat.answer.json import plain
from nfslat.answer.model import Report
from nfslat.answer.pictures import Pictures
from nfslat.api import Options
from nfslat.decode.capture import File, Source
from nfslat.decode.engine import choose
from nfslat.decode.tools import Tools
from nfslat.evidence.known import Known
from nfslat.figures.op_columns import CHARGED
from nfslat.figures.op_view import Sent, SideView
from nfslat.figures.pictures.all import pictures_of
from nfslat.figures.pictures.bins import CLASSES, LE_NS, MOST_BINS, Bins, classes_of
from nfslat.figures.pictures.events import bursts
from nfslat.figures.pictures.flying import flying, limit_of_client
from nfslat.figures.pictures.path import spread
from nfslat.figures.pictures.pieces import pieces_of
from nfslat.figures.pictures.tallies import MEASURES, Tallies
from nfslat.figures.wireshark import of_side
from nfslat.model.causes import LOSSES
from nfslat.model.details import TcpEvent
from nfslat.model.tables import I64
from nfslat.packets import show
from nfslat.results import Analysis, Correlation
from nfslat.select import Filters
from nfslat.tally.stats import summary_of

TOOL = model.Tool("", "", "", "nfslat")
_MOST_BYTES = 300_000


# ---- bins and classes ----


@given(st.lists(st.one_of(st.integers(-(2**62), 2**62), st.sampled_from(LE_NS.tolist()).flatmap(
    lambda bound: st.integers(bound - 2, bound + 2)))))  # fmt: skip
def test_a_duration_is_in_the_first_class_whose_bound_it_does_not_exceed(durations: list[int]) -> None:
    """The bounds are exact to the nanosecond; what is smaller is in the first class, what is larger in the last one."""
    got = classes_of(np.array(durations, dtype=np.int64)).tolist()
    assert got == [next((at for at, bound in enumerate(LE_NS) if ns <= bound), CLASSES - 1) for ns in durations]


def test_classes_go_from_a_microsecond_to_100_s() -> None:
    """Ten of them make a power of ten."""
    assert (LE_NS[0], LE_NS[10], LE_NS[-1]) == (1_000, 10_000, 100_000_000_000)
    assert CLASSES == 81


@given(st.integers(0, 2**62), st.integers(0, 2**60))
def test_bins_have_a_round_width_and_hold_both_ends(begin: int, span: int) -> None:
    """1, 2 or 5 times a power of ten, in ms; at most 120, and no more than the time asked for needs."""
    bins = Bins.over(begin, begin + span)
    assert str(bins.width_ns // MS).rstrip("0") in ("1", "2", "5")
    assert bins.width_ns % MS == 0
    assert 1 <= bins.count <= MOST_BINS
    assert bins.of(np.array([begin, begin + span])).tolist() == [0, bins.count - 1]


# ---- in flight, and amounts over time ----


@given(st.lists(st.tuples(st.integers(0, 70), st.integers(-3, 30)), max_size=12), st.integers(0, 30))
def test_in_flight_equals_a_count_instant_by_instant(made: list[tuple[int, int]], begin: int) -> None:
    """Mean and most of each bin are those of all its nanoseconds; ops begin and end within the bins or outside."""
    bins = Bins(begin, 7, 5)
    starts = np.array([a for a, _ in made], dtype=np.int64)
    ends = np.array([a + length for a, length in made], dtype=np.int64)
    found = flying(starts, ends, bins, None)
    levels = [sum(a <= ns < a + length for a, length in made) for ns in range(begin, begin + 35)]
    for at in range(5):
        of_bin = levels[7 * at : 7 * at + 7]
        assert found.max[at] == max(of_bin)
        assert found.mean[at] == pytest.approx(sum(of_bin) / 7)


@given(st.lists(st.tuples(st.integers(-20, 60), st.integers(1, 40), st.integers(0, 1000)), max_size=9))
def test_what_is_spread_over_bins_stays_as_much(made: list[tuple[int, int, int]]) -> None:
    """Each stretch that has time in the bins brings all its bytes; one outside of them none."""
    begin, length, amount = np.array(made, dtype=np.int64).reshape(-1, 3).T
    out = spread(begin, begin + length, amount, Bins(0, 7, 5))
    inside = [n for a, long, n in made if a < 35 and a + long > 0]
    assert out.sum() == pytest.approx(sum(inside))


def test_a_stretch_brings_to_each_bin_its_share_by_pencil() -> None:
    """12 bytes from 6 to 18: a sixth of the time is in the first bin, five in the second, six in the third."""
    begin, end, amount = np.array([[6], [18], [12]], dtype=np.int64)
    out = spread(begin, end, amount, Bins(0, 7, 3))
    assert out.tolist() == [1.0, 7.0, 4.0]


# ---- counts ----

_SRT = st.integers(-2_000, 10**12)
_ROWS = st.lists(st.tuples(st.integers(0, 10**10), _SRT, _SRT, st.integers(0, 2)), min_size=1, max_size=40)


def _tables(rows: list[tuple[int, int, int, int]]) -> tuple[Any, I64]:
    t0, client, server, kind = (np.array(column, dtype=np.int64) for column in zip(*rows, strict=True))
    return SimpleNamespace(
        client_srt_ns=client,
        server_srt_ns=server,
        matched=SimpleNamespace(client=np.arange(len(rows), dtype=np.int32)),
        client=SimpleNamespace(ops=SimpleNamespace(t0=t0)),
        kind=kind.astype(np.int16),
    ), t0


@given(_ROWS)
def test_counts_sum_to_the_ops_and_means_to_their_time(rows: list[tuple[int, int, int, int]]) -> None:
    """By time and by operation, for each measure; 99th percentiles are those of the report for the ops of the bin."""
    c, t0 = _tables(rows)
    bins = Bins.over(int(t0.min()), int(t0.max()))
    tallies = Tallies.of(c, bins, np.array([0, 1, 0], dtype=np.int16), 2)
    assert tallies.heat.sum(axis=(1, 2)).tolist() == [len(rows)] * 3
    assert (tallies.heat.sum(axis=2) == tallies.ops).all()
    assert (tallies.heat.sum(axis=1) == tallies.by_op.sum(axis=1)).all()
    ones = [row for row in rows if row[3] == 1]
    assert tallies.by_op[:, 1].sum(axis=1).tolist() == [len(ones)] * 3
    network = c.client_srt_ns - c.server_srt_ns
    for number, durations in enumerate((c.client_srt_ns, c.server_srt_ns, network)):
        assert tallies.total_ns[number].sum() == durations.sum()
    for at, (mean, p99) in enumerate(zip(tallies.means_ms("client"), tallies.p99_ms, strict=True)):
        of_bin = c.client_srt_ns[bins.of(t0) == at]
        assert (mean is None) == (p99 is None) == (not len(of_bin))
        if len(of_bin):
            want = summary_of(of_bin)
            assert mean == pytest.approx(want.mean)
            assert p99 == want.p99


@given(_ROWS)
def test_what_is_left_of_the_classes_holds_all_ops(rows: list[tuple[int, int, int, int]]) -> None:
    """Cells and distributions are about the classes in use, and lose nothing to those that are left out."""
    c, t0 = _tables(rows)
    tallies = Tallies.of(c, Bins.over(int(t0.min()), int(t0.max())), np.array([0, 1, 2], dtype=np.int16), 3)
    kept = len(tallies.classes.le_ms)
    for name in MEASURES:
        cells = getattr(tallies.heat_cells, name)
        assert sum(ops for _, _, ops in cells) == len(rows)
        assert all(0 <= latency < kept and ops > 0 for _, latency, ops in cells)
    used = sorted({kind for *_, kind in rows})
    names = [("NFS", str(at), "3") for at in range(3)]
    whole = Tallies(tallies.heat, tallies.by_op[:, used], tallies.total_ns, tallies.p99_ns)
    for one in whole.distributions([names[at] for at in used]):
        assert one.first + len(one.client) <= kept
        assert sum(one.client) == sum(one.server) == sum(one.network) == one.ops
        assert max(one.client[0], one.server[0], one.network[0]) > 0


# ---- real captures ----

Drawn = tuple[Analysis, model.Report, Pictures]
_LAB = (
    *("a_v3_baseline", "b_v3_nfsd_threads2", "c_v3_slots2", "d3_v3_loss1", "f_v41_session_slots2", "f_v3_nconnect4"),
    *("g_clock_drift5000ppm", "g_clock_step3s", "h_v42_metadata", "i_v41_callback_recall", "j_v3_partial_overlap"),
    "n_v3_nfsd_restart",
)
_FOUND: dict[str, Drawn] = {}


def _drawn(found: Correlation) -> Drawn:
    c = pipeline.analyse(found)
    report = pipeline.report(c, TOOL, Filters(), Known())
    assert report.inflight is not None
    pictures = pictures_of(c, report.inflight)
    assert pictures is not None
    return c, report, pictures


@pytest.fixture
def lab(decoder: Decoder) -> Callable[[str], Drawn]:
    """A pair of the lab, its report and its pictures."""

    def get(scenario: str) -> Drawn:
        if scenario not in _FOUND:
            _FOUND[scenario] = _drawn(decoder.pair(scenario))
        return _FOUND[scenario]

    return get


_BY_DAY = ("d3_v3_loss1", "f_v41_session_slots2", "g_clock_step3s", "j_v3_partial_overlap", "n_v3_nfsd_restart")
on_the_lab = pytest.mark.parametrize(
    "scenario",
    [pytest.param(one, marks=[needs_captures, *([] if one in _BY_DAY else [pytest.mark.long])]) for one in _LAB],
)


@on_the_lab
def test_counts_and_means_are_those_of_the_report(lab: Callable[[str], Drawn], scenario: str) -> None:
    """Ops by time, by latency and by operation sum to the matched ops; means by time, weighted, are the report's."""
    _, report, pictures = lab(scenario)
    time, matched = pictures.over_time, report.matched
    assert matched is not None
    assert matched.total is not None
    assert sum(time.ops) == matched.ops
    rows = [matched.total, *matched.by_op]
    assert [(one.program, one.op, one.version, one.ops) for one in pictures.distributions] == [
        (row.program, row.op, row.version, row.count) for row in rows
    ]
    for one in pictures.distributions:
        assert sum(one.client) == sum(one.server) == sum(one.network) == one.ops
    for name in MEASURES:
        by_time = [0] * time.bins
        for at, _, ops in getattr(time.heat, name):
            by_time[at] += ops
        assert by_time == time.ops
        means = getattr(time, f"{name}_ms")
        assert [mean is None for mean in means] == [ops == 0 for ops in time.ops]
        mean = sum(ms * ops for ms, ops in zip(means, time.ops, strict=True) if ops) / matched.ops
        assert mean == pytest.approx(getattr(matched.total, f"{name}_ms").mean, rel=1e-9, abs=1e-9)


@on_the_lab
def test_percentiles_lie_in_the_class_that_counts_say(lab: Callable[[str], Drawn], scenario: str) -> None:
    """Counting up a distribution leads to the class in which the report's median, 99th percentile and maximum are."""
    _, report, pictures = lab(scenario)
    assert report.matched is not None
    for one, row in zip(pictures.distributions, [report.matched.total, *report.matched.by_op], strict=True):
        assert row is not None
        for name in MEASURES:
            counts, figures = np.cumsum(getattr(one, name)), getattr(row, f"{name}_ms")
            for share, ms in ((50, figures.p50), (99, figures.p99), (100, figures.max)):
                at = one.first + int(np.searchsorted(counts, -(-one.ops * share // 100)))
                assert ms <= pictures.classes.le_ms[at]
                assert at == 0 or ms > pictures.classes.le_ms[at - 1]


@on_the_lab
def test_in_flight_is_that_of_the_report(lab: Callable[[str], Drawn], scenario: str) -> None:
    """The most at once, and the time of all ops, are what the levels say, as far as they lie within the bins."""
    c, report, pictures = lab(scenario)
    assert report.inflight is not None
    for name in ("server", "client"):
        drawn, found = getattr(pictures.over_time, name), getattr(report.inflight, name)
        levels = getattr(c.inflight, name).levels
        area_ns = sum(drawn.mean) * pictures.over_time.bin_ms * MS
        assert max(drawn.max) <= found.max
        if levels.ops == len(c.matched) and len(c.clock.segments) == 1:
            assert max(drawn.max) == found.max
            assert area_ns == pytest.approx(levels.area_ns, rel=0.006 if c.clock.drifts else 1e-9)
        assert (drawn.limit is None) == (drawn.limit_of is None)


@pytest.mark.parametrize(
    ("scenario", "side", "limit"),
    [
        pytest.param("b_v3_nfsd_threads2", "server", (2, "threads"), marks=needs_captures),
        pytest.param("c_v3_slots2", "client", (2, "slots"), marks=needs_captures),
        pytest.param("f_v41_session_slots2", "client", (2, "session slots"), marks=needs_captures),
        pytest.param("a_v3_baseline", "server", (None, None), marks=needs_captures),
    ],
)
def test_the_line_of_the_limit_is_what_the_lab_had_set(
    lab: Callable[[str], Drawn], scenario: str, side: str, limit: tuple[int | None, str | None]
) -> None:
    """Threads at the server, slots at the client; where nothing held the ops there is no line."""
    drawn = getattr(lab(scenario)[2].over_time, side)
    assert (drawn.limit, drawn.limit_of) == limit


@needs_captures
def test_a_limit_that_half_of_the_ops_share_is_no_line(lab: Callable[[str], Drawn]) -> None:
    """What is drawn is of all ops of the client, so slots of one of its two mounts do not bound it."""
    found = lab("c_v3_slots2")[1].inflight
    assert found is not None
    assert limit_of_client(found) == (2, "slots")
    mounts = [*found.client.mounts, *found.client.mounts]
    other = model.InFlight(
        found.server,
        dataclasses.replace(found.client, mounts=mounts),
        found.sessions,
        found.caps,
        found.hidden_share,
    )
    assert limit_of_client(other) is None


@on_the_lab
def test_data_and_losses_over_time_sum_to_what_was_counted(lab: Callable[[str], Drawn], scenario: str) -> None:
    """Bytes are those of the stretches in the bins, losses those of the CSV; no more was sent again than counted."""
    c, report, pictures = lab(scenario)
    time = pictures.over_time
    assert time.call is not None
    assert time.reply is not None
    assert report.transport is not None
    if c.charges is not None:
        lost_ns = int(c.charges.ns_of(LOSSES, slice(None)).sum())
        assert sum([*time.call.lost_ms, *time.reply.lost_ms]) * MS == pytest.approx(lost_ns, abs=1)
    for name, way, side in (("call", time.call, c.client), ("reply", time.reply, c.server)):
        loads, events = side.decoded.details.loads, side.decoded.details.events
        assert None not in way.mb_per_s
        drawn = sum(mb for mb in way.mb_per_s if mb is not None) * time.bin_ms * 1e3
        ops = side.ops
        calls = np.zeros((len(ops.connections), 2), dtype=np.bool_)
        rows = getattr(c.matched, "client" if name == "call" else "server")
        calls[ops.conn[rows], ops.direction[rows] ^ (name == "reply")] = True
        of_way = calls[loads.conn, loads.direction]
        assert drawn <= loads.bytes[of_way].sum() * (1 + 1e-9)
        if len(c.clock.segments) == 1 and scenario != "j_v3_partial_overlap":
            assert drawn >= 0.9 * loads.bytes[of_way].sum()  # the rest went before the first op, or behind the last
        again = calls[events.conn, events.direction] & (events.kind == TcpEvent.RETRANSMISSION)
        assert sum(way.sent_again) <= np.count_nonzero(again)
        assert sum(way.sent_again) <= sum(row.sent_again.packets for row in report.transport if row.way == name)


@needs_captures
def test_a_lossy_path_shows_in_both_directions(lab: Callable[[str], Drawn]) -> None:
    """All packets that the report counts as sent again are in a bin."""
    _, report, pictures = lab("d3_v3_loss1")
    assert report.transport is not None
    for name in ("call", "reply"):
        way = getattr(pictures.over_time, name)
        assert sum(way.sent_again) == sum(row.sent_again.packets for row in report.transport if row.way == name) > 50
        assert sum(way.lost_ms) > 100


@on_the_lab
def test_the_envelope_holds_the_estimate(lab: Callable[[str], Drawn], scenario: str) -> None:
    """No op contradicts theta as it is at its time, drifting or stepping; only bins with ops say something."""
    c, report, pictures = lab(scenario)
    assert report.clock is not None
    assert not report.clock.contradicting
    points = pictures.envelope
    assert [point.at_s for point in points] == sorted(point.at_s for point in points)
    assert len(points) <= MOST_BINS + len(c.clock.segments)
    with_ops = {
        round(point.at_s * 1e3 / pictures.over_time.bin_ms - 0.5) for point in points if point.least_ms is not None
    }
    assert with_ops <= {at for at, ops in enumerate(pictures.over_time.ops) if ops}
    for point in points:
        assert point.theta_ms is not None
        assert point.bound_ms is not None
        assert point.bound_ms[0] <= point.theta_ms <= point.bound_ms[1]
        assert (point.least_ms is None) == (point.most_ms is None)
        if point.least_ms is not None and point.most_ms is not None:
            assert point.least_ms <= point.theta_ms + 1e-6
            assert point.theta_ms <= point.most_ms + 1e-6


@needs_captures
def test_the_estimate_follows_a_step(lab: Callable[[str], Drawn]) -> None:
    """In front of the step theta is what it was, behind it that and the jump."""
    _, report, pictures = lab("g_clock_step3s")
    assert report.clock is not None
    (step,) = report.clock.steps
    estimates = [point.theta_ms for point in pictures.envelope if point.theta_ms is not None]
    assert estimates[-1] - estimates[0] == pytest.approx(step.ms)
    assert len({round(one) for one in estimates}) == 2


# ---- what happened, and one capture by itself ----


@needs_captures
def test_a_host_that_stood_still_is_an_event(lab: Callable[[str], Drawn]) -> None:
    """The client was stopped once, for 1.2 s: that is on the axis, whose host it was, and when."""
    _, _, pictures = lab("j_v3_client_stall")
    (pause,) = (one for one in pictures.over_time.events if one.what == "pause")
    assert pause.side == "client"
    assert 1_000 < pause.ms < 1_400
    assert 0 < pause.at_s < pictures.over_time.bins * pictures.over_time.bin_ms / 1e3


@on_the_lab
def test_events_are_those_that_were_made(lab: Callable[[str], Drawn], scenario: str) -> None:
    """Hosts that were stopped and servers that were started anew show; where nobody did that there are none."""
    _, _, pictures = lab(scenario)
    found = [one.what for one in pictures.over_time.events if one.what != "loss"]
    assert found == {"j_v3_client_stall": ["pause"], "n_v3_nfsd_restart": ["no-connection"]}.get(scenario, [])


def test_a_burst_of_losses_stands_out_and_a_steady_loss_does_not() -> None:
    """Neighbouring bins are one burst, its cost is theirs; what is small beside it is left out, and so are losses all
    the time."""
    bins = Bins(1_000 * MS, 10 * MS, 20)
    quiet = [0.0] * 20
    burst = quiet.copy()
    burst[3:6], burst[15] = [100.0, 0.0, 50.0], 1.0
    (one,) = bursts("client", burst, bins)
    assert (one.what, one.side, one.at_s, one.ms, one.cost_ms) == ("loss", "client", 0.03, 30.0, 150.0)
    assert list(bursts("server", [5.0] * 20, bins)) == []
    assert list(bursts("server", quiet, bins)) == []


@needs_captures
@pytest.mark.parametrize("side", ["server", "client"])
def test_one_capture_has_its_latency_over_time(side: str) -> None:
    """Counts sum to the ops of its table, means to its mean; a report of two has none of it."""
    folder = SHARED / "lab" / "a_v3_baseline"
    (found,) = nfslat.inspect(folder / f"{side}.pcap.gz").correlation.measured.values()
    report = nfslat.Report(found, Options()).figures
    alone = report.alone
    assert alone is not None
    assert report.pictures is None
    rows = report.raw["capture"]
    assert sum(alone.ops) == sum(n for *_, n in alone.heat) == sum(row.count for row in rows)
    whole = sum(row.count * row.srt_ms.mean for row in rows)
    assert sum(n * (mean or 0.0) for n, mean in zip(alone.ops, alone.srt_ms, strict=True)) == pytest.approx(whole)
    assert len(alone.ops) == len(alone.flying.mean) == alone.bins <= MOST_BINS
    assert max(alone.flying.max) == report.inflight.server.max if report.inflight else False


# ---- the slowest ops ----


@on_the_lab
def test_the_slowest_ops_are_those_that_show_shows(lab: Callable[[str], Drawn], scenario: str) -> None:
    """The same ops in the same order; their parts make the client SRT, and so do the timelines."""
    c, _, pictures = lab(scenario)
    rows = show.slowest_ops(c, 20)
    ops, client = c.client.ops, c.matched.client
    assert [one.xid for one in pictures.slowest] == [f"0x{ops.xid[client[row]]:08x}" for row in rows]
    assert rows == np.argsort(-c.client_srt_ns, kind="stable")[:20].tolist()
    for row, one in zip(rows, pictures.slowest, strict=True):
        assert one.client_ms == c.client_srt_ns[row] / MS
        assert one.server_ms + one.network_ms == pytest.approx(one.client_ms)
        parts = [ms for ms in one.parts_ms.values() if ms is not None]
        assert len(parts) == 5
        assert sum(parts) == pytest.approx(one.client_ms)
        times = [event.at_ms for event in one.timeline]
        assert times == sorted(times)
        at_client = [event.at_ms for event in one.timeline if event.side == "client"]
        assert (at_client[0], max(at_client)) == (0, one.client_ms)
        assert {event.side for event in one.timeline} == set(one.wireshark) == {"client", "server"}
        assert 0 <= one.at_s <= pictures.over_time.bins * pictures.over_time.bin_ms / 1e3


@on_the_lab
def test_charges_of_an_op_are_those_of_its_row_in_the_csv(lab: Callable[[str], Drawn], scenario: str) -> None:
    """Cause by cause, put together as the columns of the CSV are."""
    c, _, pictures = lab(scenario)
    assert c.charges is not None
    for row, one in zip(show.slowest_ops(c, 20), pictures.slowest, strict=True):
        for causes in CHARGED.values():
            want = int(c.charges.ns_of(causes, slice(row, row + 1))[0])
            assert sum(ms for cause, ms in one.charges_ms.items() if cause in causes) == pytest.approx(want / MS)
        assert all(one.charges_ms.values())


@on_the_lab
def test_the_pieces_of_an_op_sum_to_it(lab: Callable[[str], Drawn], scenario: str) -> None:
    """The largest first, each cause as much as it is charged with, the wait for a thread among them."""
    _, _, pictures = lab(scenario)
    for one in pictures.slowest:
        each = [piece.ms for piece in one.pieces]
        assert each == sorted(each, reverse=True)
        assert sum(each) == pytest.approx(one.client_ms, abs=1e-6)
        for cause, ms in one.charges_ms.items():
            assert sum(piece.ms for piece in one.pieces if piece.cause == cause) == pytest.approx(ms)
        waited = sum(piece.ms for piece in one.pieces if piece.cause == "queue")
        assert waited <= (one.queue_ms or 0.0) + 1e-6


@needs_captures
def test_an_op_without_a_connection_did_not_work_in_a_thread(lab: Callable[[str], Drawn]) -> None:
    """Calls that were under way when the server was started anew waited for the next connection: nearly all of their
    three seconds, though the server's capture shows them for as long."""
    _, _, pictures = lab("n_v3_nfsd_restart")
    for one in pictures.slowest[:3]:
        assert one.pieces[0].cause == "no connection"
        assert 3_000 < one.pieces[0].ms <= one.client_ms


@needs_captures
def test_an_op_that_waited_for_a_thread_says_so_first(lab: Callable[[str], Drawn]) -> None:
    """With two threads nearly all of the slowest op's time is that wait, not the distance that TCP can tell of."""
    _, _, pictures = lab("b_v3_nfsd_threads2")
    for one in pictures.slowest:
        assert (one.pieces[0].part, one.pieces[0].cause) == ("server", "queue")
        assert one.pieces[0].ms > 0.7 * one.client_ms


def test_pieces_by_pencil() -> None:
    """What is charged to a part comes off it; the queue and the thread share what is left of the server's."""
    parts, charged = (1 * MS, 5 * MS, 90 * MS, 0, 4 * MS), {("call_net", "rto"): 3 * MS, ("server", "rto"): 10 * MS}
    found = pieces_of(parts, charged, 70 * MS, split=True)
    assert [(one.part, one.cause, one.ms) for one in found] == [
        ("server", "queue", 70.0),
        ("server", "rto", 10.0),
        ("server", "in thread", 10.0),
        ("reply_net", "unexplained", 4.0),
        ("call_net", "rto", 3.0),
        ("call_net", "unexplained", 2.0),
        ("call_send", "unexplained", 1.0),
    ]
    anew = pieces_of(parts, {}, 70 * MS, split=True, unconnected_ns=85 * MS)
    assert [(one.cause, one.ms) for one in anew if one.part == "server"] == [("no connection", 85.0), ("queue", 5.0)]
    blind = pieces_of((0, -7 * MS, 90 * MS, 0, 9 * MS), {}, None, split=False)
    assert [(one.part, one.cause, one.ms) for one in blind] == [
        ("server", "unexplained", 90.0),
        ("network", "unexplained", 2.0),
    ]


@needs_captures
def test_segments_that_were_sent_again_stand_in_the_timeline(lab: Callable[[str], Drawn]) -> None:
    """As many as the decoder saw, at the side that saw them, with the frame that the filter names."""
    c, _, pictures = lab("d3_v3_loss1")
    seen = 0
    for row, one in zip(show.slowest_ops(c, 20), pictures.slowest, strict=True):
        for name, side in (("client", c.client), ("server", c.server)):
            resent = side.decoded.details.resent
            of_op = resent.take(resent.op == getattr(c.matched, name)[row])
            again = [event for event in one.timeline if event.side == name and ", bytes " in event.what]
            assert sorted(event.frame for event in again) == sorted(of_op.frame.tolist())
            seen += len(again)
    assert seen > 0


@pytest.mark.parametrize("scenario", [pytest.param("read_1m", marks=pytest.mark.long), "segment_lost"])
def test_the_filters_find_all_packets_of_an_op(tmp_path: Path, tools: Tools, scenario: str) -> None:
    """tshark takes them as they are; they select each frame of the timeline, and all in between that belong to it."""
    paths = dict(zip(("server", "client"), _scenario(scenario).write(tmp_path), strict=True))
    c, _, pictures = _of_paths((paths["server"], paths["client"]), tools, tmp_path, "native")
    one = pictures.slowest[0]
    for side, text in one.wireshark.items():
        command = [tools.tshark, "-r", str(paths[side]), "-Y", text, "-T", "fields", "-e", "frame.number"]
        done = subprocess.run(command, capture_output=True, text=True, check=True, env=tools.environment)
        shown = set(map(int, done.stdout.split()))
        assert {event.frame for event in one.timeline if event.side == side} <= shown
        if len(c.matched) == 1:
            assert len(shown) == getattr(c, side).decoded.details.tcp.data_packets.sum()


def test_in_a_set_of_files_each_has_its_own_filter() -> None:
    """Frames are those of the file; a message that goes on in the next one is in both."""
    files = [File(f"{name}.pcap", Path(name), "pcap", None, 10, 0, 1, cut_short=False) for name in "ab"]
    call, reply = Sent(8, 10, 10, 0, 1), Sent(11, 14, 14, 2, 3)
    side = SideView(Source("set", tuple(files)), call, reply, (), 1, 0, ("10.0.0.2", 700), ("10.0.0.1", 2049), "tcp")
    assert of_side(side, "client", [12]) == {
        "client, a.pcap": "frame.number in {8, 10} || (frame.number in {8..10} && tcp.srcport == 700)",
        "client, b.pcap": "frame.number in {1, 2, 4} || (frame.number in {1..4} && tcp.dstport == 700)",
    }


# ---- what is unusual ----


def _made(tmp_path: Path, tools: Tools, timeline: str, *, engine: str = "native", **settings: Any) -> Drawn:
    paths = Scenario({"timeline": timeline, **settings}).write(tmp_path)
    return _of_paths(paths, tools, tmp_path, engine)


def _scenario(name: str) -> Scenario:
    return Scenario.load(FOLDER / f"{name}.toml")


def _of_paths(paths: tuple[Path, Path], tools: Tools, scratch: Path, engine: str) -> Drawn:
    chosen = choose(engine, lambda: tools, scratch, rereads=False)
    server, client = (chosen.open(str(path)) for path in paths)
    found = pipeline.correlate(
        server, client, chosen, filters=Filters(), srt="nfslat", may_swap=True, progress=lambda _: None
    )
    return _drawn(found)


_ONE = "0 > 1.5 READ 7 0 8192\n5.5 < 7 reply 7\n"


def test_one_op_makes_pictures(tmp_path: Path, tools: Tools) -> None:
    """Seven bins of a millisecond: the op is in flight in all at the client, and for four of them at the server."""
    _, _, pictures = _made(tmp_path, tools, _ONE)
    time = pictures.over_time
    assert (time.bin_ms, time.bins, time.ops) == (1.0, 8, [1, *[0] * 7])
    assert time.client.mean == [1.0] * 7 + [0.0]
    assert time.server.mean == pytest.approx([0, 0.5, 1, 1, 1, 0.5, 0, 0])
    assert time.server.max == [0, 1, 1, 1, 1, 1, 0, 0]
    (one,) = pictures.slowest
    assert (one.client_ms, one.server_ms, one.network_ms, one.bytes, one.offset) == (7.0, 4.0, 3.0, 8192, 0)
    assert one.parts_ms == pytest.approx(
        {"call_send": 0, "call_net": 1.5, "server": 4, "reply_send": 0, "reply_net": 1.5}
    )


def test_ops_of_one_instant_share_a_bin(tmp_path: Path, tools: Tools) -> None:
    """Two calls that left in the same nanosecond, with their replies."""
    lines = "0 > 0 READ 7 0 8192\n0 > 0 READ 8 0 8192\n0 < 0 reply 7\n0 < 0 reply 8\n"
    _, report, pictures = _made(tmp_path, tools, lines, server={"offset_ms": 5})
    time = pictures.over_time
    assert (time.bin_ms, time.bins, time.ops) == (1.0, 1, [2])
    assert time.client.max == [0]
    assert time.client_ms == [0.0]
    assert pictures.classes.le_ms == [0.001]
    assert [one.client for one in pictures.distributions] == [[2], [2]]
    json.dumps(plain(report), allow_nan=False)


def test_datagrams_have_no_way(tmp_path: Path, tools: Tools) -> None:
    """Nothing counts what UDP sends, so that nothing is said of it; all else is there."""
    _, _, pictures = _made(tmp_path, tools, _ONE, udp=True)
    assert (pictures.over_time.call, pictures.over_time.reply) == (None, None)
    assert pictures.over_time.ops[0] == 1
    assert all("port" not in text for text in pictures.slowest[0].wireshark.values())


def test_tshark_draws_what_it_knows(tmp_path: Path, tools: Tools) -> None:
    """Without tables of TCP there is no way and no charge; counts and means are there, and the schema is kept."""
    *_, pictures = _made(tmp_path, tools, _ONE, engine="tshark")
    assert (pictures.over_time.call, pictures.over_time.reply) == (None, None)
    (one,) = pictures.slowest
    assert (one.charges_ms, one.uid, one.client_ms) == ({}, None, 7.0)
    _valid(pictures)


def test_clocks_that_nothing_explains_leave_out_what_rests_on_them(tmp_path: Path, tools: Tools) -> None:
    """No theta, no one-way part and no bound; what the ops say is there, and so are response times."""
    paths = _scenario("clock_unknown").write(tmp_path)
    _, report, pictures = _of_paths(paths, tools, tmp_path, "native")
    assert report.clock is not None
    assert not report.clock.fits
    assert all(point.theta_ms is None and point.bound_ms is None for point in pictures.envelope)
    assert any(point.least_ms is not None for point in pictures.envelope)
    for one in pictures.slowest:
        assert one.parts_ms["call_net"] is one.parts_ms["reply_net"] is None
        assert one.parts_ms["server"] is not None


def test_paths_and_their_absence_are_shown(tmp_path: Path, tools: Tools) -> None:
    """The path of an op's file, where it is known."""
    c, report, _ = _made(tmp_path, tools, _ONE + "10 > 11 READ 8 0 8192\n12 < 13 reply 8\n")
    assert report.inflight is not None
    paths: Any = SimpleNamespace(of_op=np.array([-1, 0], dtype=np.int32), texts=("/export/a",), partial=(False,))
    pictures = pictures_of(c, report.inflight, slowest=5, paths=lambda _: paths)
    assert pictures is not None
    assert [one.path for one in pictures.slowest] == [None, "/export/a"]
    assert pictures_of(c, report.inflight, slowest=0).slowest == []  # type: ignore[union-attr]


def _valid(pictures: Pictures) -> str:
    Validator({"$ref": "#/$defs/Pictures", "$defs": Report.json_schema()["$defs"]}).validate(plain(pictures))
    return _json(pictures)


def _json(pictures: Pictures) -> str:
    return json.dumps(plain(pictures), allow_nan=False, separators=(",", ":"))


@on_the_lab
def test_the_json_is_small_and_valid(lab: Callable[[str], Drawn], scenario: str) -> None:
    """Whatever the captures hold; and it is the same each time."""
    c, report, pictures = lab(scenario)
    text = _valid(pictures)
    assert len(text) < _MOST_BYTES
    assert report.inflight is not None
    assert _json(pictures_of(c, report.inflight)) == text  # type: ignore[arg-type]
