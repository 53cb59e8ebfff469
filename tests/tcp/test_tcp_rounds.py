"""Round trips: which packets give one, what a timer added to them, and packets that were held and let go together."""

from __future__ import annotations

import dataclasses
import json

import numpy as np
import pytest
from captures import SHARED
from hypothesis import given
from hypothesis import strategies as st
from timeline import Timeline

from nfslat.decode import native
from nfslat.decode.tools import Tools
from nfslat.report.text_writer import write
from nfslat.tcp.floors import Place
from nfslat.tcp.packets import ACK, SYN, Talk
from nfslat.tcp.reading import read_trace
from nfslat.tcp.rounds import Rounds
from nfslat.tcp.sections.rounds import rounds_section
from nfslat.tcp.shared import Shared
from nfslat.tcp.waits import Waits, waits
from nfslat.wire.batches import held

MS = 1_000_000
CORPUS = SHARED / "corpus"


def _handshake(line: Timeline, rtt_ms: float = 1) -> None:
    """At the client's end."""
    line.add(0, ">", -1, 0, None, SYN)
    line.add(rtt_ms, "<", -1, 0, 0, SYN | ACK)
    line.add(rtt_ms + 0.01, ">", 0, 0, 0, ACK)


def _of(line: Timeline, direction: int = 0) -> Rounds:
    return waits(Shared(line.trace().talk(0))).rounds[direction]


def _text(found: Waits) -> str:
    text = write(rounds_section(found))
    assert all(len(one) <= 80 for one in text.splitlines())
    return " ".join(text.split())


def test_a_round_trip_ends_with_the_first_ack_that_covers_the_data() -> None:
    """An ACK of less does not count, nor does a later one of more."""
    line = Timeline()
    _handshake(line)
    line.send(10, ">", 100)
    line.send(11, ">", 100)
    line.ack(14, "<", ack=100)
    line.ack(17, "<", ack=200)
    line.ack(30, "<", ack=200)
    trips = _of(line).trips
    assert trips is not None
    assert (trips.count, trips.min_ms, trips.p50_ms, trips.max_ms, trips.mean_ms) == (2, 4, 4, 6, 5)


def test_data_that_were_sent_again_give_no_round_trip() -> None:
    """Which of the two was acknowledged cannot be told (Karn); nor what waited behind them for the repair."""
    line = Timeline()
    _handshake(line)
    line.send(10, ">", 100)
    line.send(11, ">", 100)
    line.send(250, ">", 100, seq=0)
    line.ack(255, "<")
    line.send(300, ">", 100)
    line.ack(303, "<")
    found = _of(line)
    assert found.trips is not None
    assert (found.trips.count, found.trips.max_ms, found.repaired) == (1, 3, 3)


def test_an_ack_that_came_before_the_repeat_counts() -> None:
    """What was sent again for nothing had been acknowledged: that round trip is one."""
    line = Timeline()
    _handshake(line)
    line.send(10, ">", 100)
    line.send(11, ">", 100)
    line.ack(14, "<")
    line.send(20, ">", 100)
    line.ack(22, "<")
    line.send(23, ">", 100, seq=200)
    found = _of(line)
    assert found.trips is not None
    assert found.trips.count == 2


@given(st.lists(st.tuples(st.integers(1, 3000), st.floats(0.01, 5), st.booleans()), min_size=1, max_size=20))
def test_every_data_packet_has_a_sample_or_a_reason(sends: list[tuple[int, float, bool]]) -> None:
    """Samples, those repaired, and those never acknowledged sum to the data packets."""
    line, at = Timeline(), 10.0
    _handshake(line)
    for size, apart, answered in sends:
        line.send(at, ">", size)
        if size % 7 == 0:
            line.send(at + apart / 3, ">", size, seq=line.next[">"] - size)
        if answered:
            line.ack(at + apart / 2, "<")
        at += apart
    talk = line.trace().talk(0)
    found = Shared(talk).samples[0]
    data = int(np.count_nonzero((talk.packets.direction == 0) & (talk.packets.size > 0)))
    assert len(found.rtt_ns) + found.repaired + found.uncovered == data
    assert (found.rtt_ns >= 0).all()


@pytest.mark.parametrize(("back_ms", "place"), [(0.01, Place.AT_A), (10, Place.BETWEEN), (200, Place.AT_B)])
def test_the_handshake_says_where_the_capture_was_taken(back_ms: float, place: Place) -> None:
    """The nearer end answers sooner."""
    line = Timeline()
    line.add(0, ">", -1, 0, None, SYN)
    line.add(10, "<", -1, 0, 0, SYN | ACK)
    line.add(10 + back_ms, ">", 0, 0, 0, ACK)
    talk = line.trace().talk(0)
    assert Shared(talk).floors.place is place


def test_an_answer_in_front_of_its_syn_says_nothing_of_the_path() -> None:
    """Both have one time, and stand in the file the other way round."""
    line = Timeline()
    line.add(10, "<", -1, 0, 0, SYN | ACK)
    line.add(10, ">", -1, 0, None, SYN)
    line.add(210, ">", 0, 0, 0, ACK)
    assert Shared(line.trace().talk(0)).floors.place is Place.UNKNOWN


def _delayed(count: int = 3, held_ms: float = 40) -> Timeline:
    """Write, write, read with Nagle: each second write waits for the ACK of the first."""
    line = Timeline()
    _handshake(line)
    at = 10.0
    for _ in range(count):
        line.send(at, ">", 100)
        line.ack(at + held_ms + 1, "<")
        line.send(at + held_ms + 1.05, ">", 50)
        line.send(at + held_ms + 3, "<", 500)
        at += 100 + held_ms
    return line


def test_delayed_acks_are_counted_with_their_cost_and_frames() -> None:
    """Three ACKs at 40 ms, all waited for: what they were held for, their share of the run, and the frames as proof."""
    line = _delayed()
    found = _of(line)
    (cluster,) = found.delayed
    acks = [frame for frame, packet in enumerate(line.in_order(), 1) if packet.way == "<" and not packet.size][1:]
    assert (cluster.timer_ms, cluster.count, cluster.waited_for) == (40, 3, 3)
    assert cluster.frames == cluster.waited_frames == tuple(acks)
    assert found.delayed_lost_ms == pytest.approx(3 * 40)
    assert found.delayed_share == pytest.approx(3 * 40 / found.total_ms)
    assert "Delayed ACKs cost 10.0.0.1:40000 120.0 ms" in _text(waits(Shared(line.trace().talk(0))))


def test_delayed_acks_that_nobody_waited_for_cost_nothing() -> None:
    """The client has nothing more to write: the ACK is late, and that is all."""
    line = Timeline()
    _handshake(line)
    for turn in range(3):
        line.send(10 + turn * 500, ">", 100)
        line.ack(10 + turn * 500 + 201, "<")
        line.send(10 + turn * 500 + 300, "<", 100)
    found = _of(line)
    (cluster,) = found.delayed
    assert (cluster.timer_ms, cluster.count, cluster.waited_for, cluster.lost_ms) == (200, 3, 0, 0)
    assert "at no cost" in _text(waits(Shared(line.trace().talk(0))))


def test_a_long_path_is_no_delayed_ack() -> None:
    """Where every round trip takes 40 ms an ACK after 40 ms is on time."""
    line = Timeline()
    _handshake(line, rtt_ms=40)
    for turn in range(5):
        line.send(100 + turn * 100, ">", 100)
        line.ack(100 + turn * 100 + 40.2, "<")
        line.send(100 + turn * 100 + 40.3, ">", 100)
        line.send(100 + turn * 100 + 85, "<", 100)
    assert not _of(line).delayed


def test_packets_that_were_held_fall_in_a_line() -> None:
    """Each millisecond a packet, all let go at 60 ms: round trips jump to 50 ms and fall by one a millisecond."""
    line = Timeline()
    _handshake(line)
    for number in range(100):
        line.send(10 + number, ">", 100)
        released = 60 + number * 0.01 if number < 50 else 10 + number + 1
        line.ack(released, "<", ack=100 * (number + 1))
    (episode,) = _of(line).held
    assert (episode.frame, episode.packets, round(episode.slope, 2)) == (4, 47, -0.99)
    assert episode.peak_ms == pytest.approx(49)
    assert "held back and released together once" in _text(waits(Shared(line.trace().talk(0))))


def test_held_works_for_one_way_delays_on_two_clocks() -> None:
    """A constant that is wrong in all delays does not matter, nor does the order of rows."""
    sent = np.arange(0, 4_000 * MS, 2 * MS)
    delay = np.full(len(sent), -7_000 * MS)
    late = (sent >= 1_000 * MS) & (sent < 2_200 * MS)
    delay[late] += 2_200 * MS - sent[late]
    (episode,) = held(sent[::-1], delay[::-1])
    assert (episode.begin_ns, episode.release_ns) == (1_000 * MS, 2_200 * MS)
    assert (episode.peak_ms, round(episode.slope, 3)) == (1200, -1)


@pytest.mark.parametrize(
    "above_ms",
    [
        np.zeros(500),
        np.minimum(np.arange(500) % 100, 30.0),  # a queue fills slowly
        np.where(np.arange(500) == 250, 80.0, 0.0),  # one packet is late
        np.where(np.arange(500) % 100 < 20, 80.0, 0.0),  # the path is longer for a while
        np.random.default_rng(7).exponential(10, 500),
    ],
    ids=["even", "queue", "one", "longer", "noise"],
)
def test_other_delays_are_not_taken_for_held_packets(above_ms: np.ndarray) -> None:
    """Only a jump and a straight fall by as much as time goes on is one."""
    sent = np.arange(500) * MS
    assert held(sent, (above_ms * MS).astype(np.int64) + MS) == ()


def test_one_ack_for_all_that_was_sent_meanwhile_is_not_held_packets() -> None:
    """A delayed ACK covers ten small writes of 40 ms: a line, but no host stood still."""
    line = Timeline()
    _handshake(line)
    for number in range(10):
        line.send(10 + number * 4, ">", 10)
    line.ack(51, "<")
    assert not _of(line).held


def test_a_conversation_without_data_has_nothing_to_say() -> None:
    """A handshake alone, and nothing else."""
    line = Timeline()
    _handshake(line)
    found = waits(Shared(line.trace().talk(0)))
    assert found.rounds[0].trips is None
    assert _text(found) == ""


def test_what_is_found_goes_to_json_as_it_is() -> None:
    """Plain numbers and words all through."""
    found = waits(Shared(_delayed().trace().talk(0)))
    assert json.loads(json.dumps(dataclasses.asdict(found)))["place"] == "at a"


def _no_tools() -> Tools:
    raise AssertionError


@pytest.mark.skipif(not CORPUS.exists(), reason="no captures at ../shared: 2 real traces left out")
@pytest.mark.parametrize(
    ("name", "conversation", "direction", "frames", "waited", "share"),
    [
        ("cisco-system-traffic-generator-trex-core__Oracle.pcap", 0, 1, (65, 276, 279, 286), 0, 0.0),
        ("Zious11-wirerust__nfs_bad_stalls.cap", 2, 1, (224, 400, 497, 627, 762, 891, 1022, 1160), 49, 0.91),
    ],
)
def test_real_delayed_acks(
    name: str, conversation: int, direction: int, frames: tuple[int, ...], waited: int, share: float
) -> None:
    """Four of 200 ms that cost nothing, and 49 of 40 ms that were nine tenths of the run."""
    source = native.open_source(str(CORPUS / name), _no_tools, CORPUS, rereads=False)
    found = _rounds(read_trace(source, _no_tools, lambda _: None).talk(conversation), direction)
    assert found.delayed[0].frames == frames
    assert sum(cluster.waited_for for cluster in found.delayed) == waited
    assert found.delayed_share == pytest.approx(share, abs=0.01)


def _rounds(talk: Talk, direction: int) -> Rounds:
    return waits(Shared(talk)).rounds[direction]
