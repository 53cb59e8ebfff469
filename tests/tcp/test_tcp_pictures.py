"""What graphs of TCP are drawn from: thinned points that hide no extreme, spikes, decays, waits, and their frames."""

from __future__ import annotations

import dataclasses
import io

import numpy as np
import pytest
from drawn import TOOL, report_of, wan
from hypothesis import given
from hypothesis import strategies as st
from timeline import MS, Timeline

from nfslat.model.causes import Cause
from nfslat.model.tables import I64
from nfslat.tcp import report
from nfslat.tcp.both import correlate
from nfslat.tcp.graphs import Pictures
from nfslat.tcp.model import Report
from nfslat.tcp.packets import Trace
from nfslat.tcp.thinned import STRETCHES, Points, thin


def _pictures(line: Timeline) -> Pictures:
    (one,) = report_of(line.trace()).details
    assert one.pictures is not None
    return one.pictures


@pytest.mark.parametrize("cut", [0, 1])
def test_two_captures_that_begin_at_different_times_have_one_axis(cut: int) -> None:
    """What a host sends is drawn when it sent it, whichever capture began later and whatever its clock says."""
    line = Timeline()
    line.handshake(0, rtt_ms=20)
    for turn in range(40):
        line.send(30 + 50 * turn, ">", 100)
        line.send(52 + 50 * turn, "<", 1000)
    traces = [line.trace(), _far(line.trace())]
    traces[cut] = _from(traces[cut], 17)
    first_ms = (traces[0].first_ns - line.trace().first_ns) / MS
    (one,) = report.make(traces, correlate(*traces), TOOL, stream=None, top=1, trace=None, drawn=1).details
    assert one.pictures is not None
    for way, sent_ms in zip(one.pictures.whole.ways, (30, 42), strict=True):
        at_ms = np.array(way.sent.low_at_ms) + first_ms
        assert len(at_ms) >= 30
        np.testing.assert_allclose((at_ms - sent_ms) % 50 % 50, 0, atol=1e-6)
        assert np.all(at_ms > 0)
        assert np.all(at_ms < 2100)


def _far(trace: Trace) -> Trace:
    """What the other host's capture shows, 10 ms away, whose clock is 5 s ahead."""
    p = trace.packets
    t_ns = p.t_ns + np.where(p.direction == 0, 10 * MS, -10 * MS) + 5000 * MS
    moved = dataclasses.replace(p, t_ns=t_ns).take(np.argsort(t_ns, kind="stable"))
    moved = dataclasses.replace(moved, frame=np.arange(1, len(p) + 1, dtype=np.int32))
    return dataclasses.replace(trace, packets=moved, first_ns=int(moved.t_ns[0]), last_ns=int(moved.t_ns[-1]))


def _from(trace: Trace, packet: int) -> Trace:
    """What a capture shows that began with a later packet."""
    packets = trace.packets.take(np.arange(packet, len(trace.packets)))
    places = np.arange(len(packets), dtype=np.int32)
    return dataclasses.replace(trace, packets=packets, places=places, first_ns=int(packets.t_ns[0]))


def _points(values: I64) -> Points:
    rows = np.arange(len(values))
    return Points(rows * MS, values, values, (rows + 1).astype(np.int32))


@given(st.integers(0, 1 << 32), st.integers(1, 6000))
def test_thinning_keeps_every_extreme_and_counts_every_point(seed: int, rows: int) -> None:
    """Of each stretch the least and the largest value stand, with their own times and frames; counts sum to all."""
    values = np.random.default_rng(seed).integers(0, 1000, rows)
    found = thin(_points(values), 0, 0, (rows - 1) * MS)
    assert sum(found.count) == found.points == rows
    assert len(found.count) <= 2 * STRETCHES
    edges = np.append(0, np.cumsum(found.count))
    for a, b, low, high, low_frame, high_frame, at in zip(
        edges, edges[1:], found.low, found.high, found.low_frame, found.high_frame, found.high_at_ms, strict=False
    ):
        part = values[a:b]
        assert (low, high) == (part.min(), part.max())
        assert values[low_frame - 1] == low
        assert values[high_frame - 1] == high
        assert at == high_frame - 1


def test_one_spike_in_a_hundred_thousand_packets_is_drawn() -> None:
    """The highest of its stretch is not averaged away; few points are all there."""
    values = np.full(100_000, 5)
    values[77_777] = 4000
    found = thin(_points(values), 0, 0, 99_999 * MS)
    assert max(found.high) == 4000
    assert found.high_frame[found.high.index(4000)] == 77_778
    assert found.stretch_ms is not None
    assert thin(_points(values[:900]), 0, 0, 899 * MS).stretch_ms is None


def test_points_whose_times_run_backwards_are_put_in_order() -> None:
    """Captures of several queues have such."""
    t_ns = np.array([3, 1, 2]) * MS
    found = thin(Points(t_ns, t_ns, t_ns, np.array([1, 2, 3], dtype=np.int32)), 0, 0, 3 * MS)
    assert found.low_frame == (2, 3, 1)


def test_data_behind_one_delayed_ack_fall_by_a_straight_line() -> None:
    """Four packets 2 ms apart wait for one ACK that is held for 40 ms: 48 ms, and 6 ms less for the last; the ACK and
    the first packet are named."""
    line = wan()
    way = _pictures(line).whole.ways[0]
    assert (way.late_count, len(way.late), way.scale) == (6, 6, 7)
    for late in way.late:
        assert (late.timer_ms, late.packets, late.is_waited_for) == (40, 4, True)
        assert late.ms == pytest.approx(48)
        assert late.ms - late.last_ms == pytest.approx(late.last_at_ms - late.at_ms) == pytest.approx(6)
    packets = line.trace().packets
    first = way.late[0]
    assert packets.size[first.data_frame - 1] == 1448
    assert packets.size[first.frame - 1] == 0
    assert (packets.t_ns[first.frame - 1] - packets.t_ns[first.data_frame - 1]) / MS == pytest.approx(48)


def test_waits_are_those_of_the_split_with_their_frames() -> None:
    """Each time a sender waited for a delayed ACK or a retransmission is marked, and they sum to what the report says
    that these cost; the frames are those of the data around it."""
    line = wan(again=3)
    found = report_of(line.trace()).details[0]
    assert found.pictures is not None
    way = found.pictures.whole.ways[0]
    limits = {one.limit: one for one in found.waits.limits[0].limits}
    for cause in (Cause.DELAYED_ACK, Cause.LOSS):
        waits = [wait for wait in way.waited if wait.cause is cause]
        assert waits
        assert sum(wait.ms for wait in waits) == pytest.approx(limits[cause].ms)
    assert [one.kind for one in way.again] == ["retransmission"] * 3
    packets = line.trace().packets
    for wait in way.waited:
        assert wait.frame is not None
        assert wait.before_frame is not None
        assert packets.size[wait.frame - 1] > 0
        ends = (packets.t_ns[wait.frame - 1] - packets.t_ns[0]) / MS
        # What an ACK takes in transit is charged apart from what it was held for: both end in the same silence.
        assert wait.at_ms + wait.ms <= ends + 1e-6
        if wait.cause is not Cause.CONGESTION:
            assert wait.at_ms + wait.ms == pytest.approx(ends)


def test_the_longest_wait_is_shown_from_near() -> None:
    """With as much time in front of it and behind; a conversation of few packets needs none."""
    found = _pictures(wan(again=1))
    assert found.close is not None
    way = found.whole.ways[0]
    longest = max(way.waited, key=lambda wait: wait.ms)
    assert longest.cause is Cause.LOSS
    assert found.close.from_ms == pytest.approx(max(longest.at_ms - longest.ms, 0))
    assert found.close.to_ms == pytest.approx(longest.at_ms + 2 * longest.ms)
    assert 0 < found.close.ways[0].sent.points < way.sent.points
    assert _pictures(wan(3)).close is None


def test_an_answer_that_takes_its_time_is_no_spike() -> None:
    """An ACK that comes with data holds the application's time; one without is the path's."""
    line = Timeline()
    line.handshake(0)
    for turn in range(30):
        line.send(10 + 100 * turn, ">", 100)
        line.send(11 + 100 * turn if turn != 20 else 60 + 100 * turn, "<", 100)
    assert _pictures(line).whole.ways[0].spike_count == 0
    line.send(4000, ">", 100)
    line.ack(4020, "<")
    way = _pictures(line).whole.ways[0]
    assert (way.spike_count, way.spikes[0].ms) == (1, 20)


def test_rates_hold_every_byte() -> None:
    """The parts of the time sum to the payload, whatever they are."""
    line = wan(again=2)
    graphs = _pictures(line).whole
    sent = sum(one.size for one in line.lines)
    assert sum(graphs.ways[0].mbit_s) * graphs.part_ms * 1e3 / 8 == pytest.approx(sent)


def test_pictures_are_made_where_they_are_asked_for_and_read_back() -> None:
    """A report without graphs has none of it, and with them it is the same after JSON."""
    assert report_of(wan().trace(), drawn=0).details[0].pictures is None
    made = report_of(wan().trace())
    out = io.StringIO()
    made.write_json(out)
    assert Report.from_json(out.getvalue()) == made
