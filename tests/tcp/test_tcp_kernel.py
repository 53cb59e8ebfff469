"""What Linux kernels really send: pushes on all that offload will cut, repeats of what had arrived, lost SYNs.

The patterns are those of captures with two kernels and a forwarder between them; here they are written by hand.
"""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
from timeline import Timeline

from nfslat.model.causes import LIMITS, Cause, Limit, code
from nfslat.report.text_writer import write
from nfslat.tcp.limits import Limits
from nfslat.tcp.packets import ACK, PSH, SYN, Kind, Talk
from nfslat.tcp.sections.rounds import rounds_section
from nfslat.tcp.sections.sizes import throughput_section
from nfslat.tcp.sections.turns import turns_section, walk_section
from nfslat.tcp.sections.windows import windows_section
from nfslat.tcp.setup import setup
from nfslat.tcp.shared import Shared
from nfslat.tcp.sizes import sizes
from nfslat.tcp.throughput import throughput
from nfslat.tcp.turns import Shape, take, turns
from nfslat.tcp.waits import waits
from nfslat.tcp.walk import walk
from nfslat.wire.stalls import timers_ms

_MSS = 1460


def _talk(line: Timeline) -> Talk:
    return line.trace().talk(0)


def _open(line: Timeline, *, rtt_ms: float) -> Timeline:
    """The handshake at the client's end; the server's last packet has a window that is scaled."""
    line.add(0, ">", -1, 0, None, SYN)
    line.add(rtt_ms, "<", -1, 0, 0, SYN | ACK)
    line.add(rtt_ms + 0.01, ">", 0, 0, 0, ACK)
    line.ack(rtt_ms + 0.02, "<")
    return line


def _limits(shared: Shared) -> Limits:
    return waits(shared).limits[0]


def _ms(limits: Limits) -> dict[Limit, float]:
    return {one.limit: one.ms for one in limits.limits if one.ms}


def _text(section: object, *found: object) -> str:
    text = write(section(*found))  # type: ignore[operator]
    return " ".join(text.split())


def _bulk(*, rest: int = 0) -> Timeline:
    """Two segments each 2 ms, pushed, let go by the ACK of those 20 ms ago; with `rest` each of them ends in a runt."""
    line = Timeline()
    _open(line, rtt_ms=20)
    size = 2 * _MSS + rest
    for number in range(200):
        at = 30 + 2 * number
        if number >= 10:
            line.ack(at - 0.02, "<", ack=size * (number + 10))
        # The most is under way early: slow start ended, and the window shrank.
        for _ in range(20 if number == 1 else 1):
            line.send(at, ">", size, ack=0, flags=ACK | PSH)
    return line


def test_a_bulk_sender_that_pushes_each_packet_of_two_segments_is_not_its_application() -> None:
    """Linux sets PSH on all that offload will cut; full segments that ACKs let go are the congestion window's."""
    found = _ms(_limits(Shared(_talk(_bulk()))))
    assert found[Cause.APPLICATION] == pytest.approx(30)  # in front of the first data
    assert found[Cause.CONGESTION] > 0.9 * (398 - 20)


def test_an_application_whose_writes_end_is_still_one() -> None:
    """The same packets with a segment that is not full at the end of each: that was all there was."""
    found = _ms(_limits(Shared(_talk(_bulk(rest=100)))))
    assert found[Cause.APPLICATION] > 300


def test_full_segments_that_nothing_lets_go_are_paced() -> None:
    """Between two ACKs the sender goes on by itself, with data under way: its own pace (Linux fq, BBR)."""
    line = Timeline()
    _open(line, rtt_ms=50)
    for number in range(40):
        line.send(100 + number, ">", 2 * _MSS, ack=0, flags=ACK | PSH)
    assert _ms(_limits(Shared(_talk(line))))[Cause.PACE] == pytest.approx(39)


def test_at_the_receivers_end_flights_of_full_segments_are_parted_by_the_congestion_window() -> None:
    """All is acknowledged at once there, and the next flight comes a round trip later, with what queues."""
    line = Timeline()
    line.add(0, ">", -1, 0, None, SYN)
    line.add(0.01, "<", -1, 0, 0, SYN | ACK)
    line.add(20, ">", 0, 0, 0, ACK)
    for number in range(20):
        line.send(21 + 30 * number, ">", 2 * _MSS, ack=0, flags=ACK | PSH)
        line.ack(21.01 + 30 * number, "<")
    assert _ms(_limits(Shared(_talk(line))))[Cause.CONGESTION] == pytest.approx(19 * 30)


def test_a_window_that_is_full_when_the_silence_begins_is_the_receivers_however_late_the_data_come() -> None:
    """At the receiver's end the way of the ACK varies, so what let the sender go is not sure; its room is."""
    line = Timeline(scale=0)
    line.windows["<"] = 4 * _MSS
    line.add(0, ">", -1, 0, None, SYN)
    line.add(0.01, "<", -1, 0, 0, SYN | ACK)
    line.add(20, ">", 0, 0, 0, ACK)
    for number in range(20):
        line.burst(21 + 35 * number, ">", 4 * _MSS)
        line.ack(21.2 + 35 * number, "<")
    found = _limits(Shared(_talk(line)))
    assert found.most is Cause.RECEIVE_WINDOW


def test_a_write_does_not_end_where_a_full_packet_is_pushed() -> None:
    """5,000 bytes are two full segments, pushed, and the rest."""
    line = Timeline()
    line.handshake(0)
    for number in range(20):
        line.send(10 + 10 * number, ">", 2 * _MSS, ack=0, flags=ACK | PSH)
        line.send(10.01 + 10 * number, ">", 5000 - 2 * _MSS, ack=0, flags=ACK | PSH)
    way = sizes(Shared(_talk(line))).ways[0]
    assert [(mode.bytes, mode.count) for mode in way.burst_modes] == [(5000, 20)]


def test_a_path_that_takes_less_than_the_syns_agreed_on_makes_smaller_full_segments() -> None:
    """1,388 of 1,460 bytes, with more behind them: full ones, and not the ends of small writes."""
    line = Timeline()
    _open(line, rtt_ms=10)
    for number in range(20):
        line.send(20 + number, ">", 1388, ack=0, flags=ACK)
    line.send(40, ">", 500, ack=0)
    way = sizes(Shared(_talk(line))).ways[0]
    assert (way.mss, way.mss_source) == (1388, "sizes")


def _repeated(*, dsack: bool) -> Timeline:
    """A tail-loss probe; the receiver says that it had the bytes, or it had not."""
    line = Timeline()
    _open(line, rtt_ms=10)
    line.send(20, ">", 100)
    line.ack(30, "<")
    line.send(40, ">", 100)
    line.send(62, ">", 100, seq=100)
    line.ack(73, "<", ack=200, sack=((100, 200),) if dsack else ())
    line.send(80, ">", 100)
    line.ack(90, "<")
    return line


@pytest.mark.parametrize("dsack", [True, False])
def test_what_a_dsack_tells_of_was_sent_for_nothing(dsack: bool) -> None:
    """RFC 2883: the bytes came twice, so nothing was lost, and the cost has a name of its own."""
    shared = Shared(_talk(_repeated(dsack=dsack)))
    found = _limits(shared)
    assert _ms(found)[Cause.SPURIOUS if dsack else Cause.LOSS] == 22
    assert found.needless == int(dsack)
    assert ("sent 1 packet again that had arrived" in _text(windows_section, waits(shared))) == dsack


def test_the_other_capture_can_tell_that_a_repeat_was_for_nothing() -> None:
    """Rows that it shows are taken as they are."""
    talk = _talk(_repeated(dsack=False))
    rows = np.flatnonzero(talk.packets.kind == Kind.RETRANSMISSION)
    assert _limits(Shared(talk, needless=rows)).needless == 1
    assert _limits(Shared(talk)).needless == 0


def test_an_ack_that_comes_sooner_than_the_way_takes_is_for_the_first_copy() -> None:
    """4 ms behind the repeat, where there and back takes 10: the original was late, and had arrived."""
    line = Timeline()
    _open(line, rtt_ms=10)
    line.send(20, ">", 100)
    line.send(50, ">", 100, seq=0)
    line.ack(54, "<")
    assert _limits(Shared(_talk(line))).needless == 1


def test_a_repeat_long_after_its_ack_passed_is_what_a_lost_ack_costs() -> None:
    """At the receiver's end: the sender would have heard of it by then, so it is no needless repeat but a loss."""
    line = Timeline()
    line.add(0, ">", -1, 0, None, SYN)
    line.add(0.01, "<", -1, 0, 0, SYN | ACK)
    line.add(20, ">", 0, 0, 0, ACK)
    line.send(30, ">", 100)
    line.ack(30.01, "<")
    line.send(270, ">", 100, seq=0)
    line.ack(270.01, "<", ack=100)
    found = _limits(Shared(_talk(line)))
    assert found.needless == 0
    assert Cause.LOSS in _ms(found)


def test_a_packet_with_an_older_timestamp_was_overtaken() -> None:
    """What is sent again has a new timestamp (RFC 7323); an older one is the packet itself, late."""
    line = Timeline()
    _open(line, rtt_ms=0.5)
    line.send(10, ">", 100, ack=0)
    line.send(11, ">", 100, ack=0, seq=200)
    line.ack(11.01, "<", ack=100, sack=((200, 300),))
    line.ack(11.02, "<", ack=100, sack=((200, 300),))
    line.send(12, ">", 100, ack=0, seq=100)
    talk = _talk(line)
    last = int(np.flatnonzero(talk.packets.kind == Kind.OUT_OF_ORDER)[0])
    stamps = np.arange(len(talk.packets), dtype=np.uint32)
    stamps[last] = 4  # sent between the two others
    told = dataclasses.replace(talk, packets=dataclasses.replace(talk.packets, ts_val=stamps))
    assert Shared(told).silences[0].causes[-1] == code(Cause.OVERTAKEN)
    assert Shared(talk).silences[0].causes[-1] != code(Cause.OVERTAKEN)


def _held(*held_ms: float) -> Timeline:
    """A small write that waits for the ACK of the one before, by the path or by a timer."""
    line = Timeline()
    _open(line, rtt_ms=1)
    for number, ms in enumerate(held_ms):
        at = 10 + 500 * number
        line.send(at, ">", 100, ack=0)
        line.ack(at + ms + 1, "<", ack=line.next[">"])
        line.send(at + ms + 1.1, ">", 50, ack=0)
        line.ack(at + ms + 2.2, "<", ack=line.next[">"])
    return line


@pytest.mark.parametrize(("held_ms", "waits_"), [((150,), 0), ((150, 151, 152), 3), ((41,), 1)])
def test_one_late_ack_at_no_timers_time_was_not_delayed_by_one(held_ms: tuple[float, ...], waits_: int) -> None:
    """The path, or a host, held it; again and again the same time is a timer, though it has no name."""
    found = waits(Shared(_talk(_held(*held_ms))))
    assert found.limits[0].limits[LIMITS.index(Cause.DELAYED_ACK)].waits == waits_
    assert found.rounds[0].delayed_count == waits_


def test_one_receiver_has_one_timer() -> None:
    """41 to 52 ms are Linux's, by their median, and what they cost is what they were held."""
    found = waits(Shared(_talk(_held(41, 43, 46, 48, 52)))).rounds[0]
    (cluster,) = found.delayed
    assert (cluster.timer_ms, cluster.waited_for) == (40, 5)
    assert found.delayed_lost_ms == pytest.approx(41 + 43 + 46 + 48 + 52)


def test_timers_far_apart_are_two() -> None:
    """Times are told apart where they jump, in any order; none are no times at all."""
    timer, members = timers_ms(np.array([200, 41, 203, 42], dtype=np.int64) * 1_000_000)
    assert (timer.tolist(), members.tolist()) == ([200, 40, 200, 40], [2, 2, 2, 2])
    assert not len(timers_ms(np.zeros(0, dtype=np.int64))[0])


def _lost_syns() -> Timeline:
    line = Timeline()
    for at in (0, 1000):
        line.add(at, ">", -1, 0, None, SYN)
    line.handshake(3000, rtt_ms=10)
    line.send(3020, ">", 100)
    line.ack(3030, "<")
    return line


def test_lost_syns_are_told_and_charged() -> None:
    """Three SYNs, three seconds: loss, as for any other packet; the rest of the set-up is not."""
    shared = Shared(_talk(_lost_syns()))
    found = waits(shared)
    assert found.setup is not None
    assert (found.setup.syns, found.setup.syn_acks, found.setup.ms, found.setup.waited_ms) == (3, 1, 3010, 3000)
    assert found.setup.frames == (1, 2, 3)
    assert _ms(found.limits[0])[Cause.LOSS] == 3000
    assert Cause.LOSS not in _ms(found.limits[1])
    assert sum(_ms(found.limits[0]).values()) == pytest.approx(found.limits[0].total_ms)
    assert "It took 3.01 s: 10.0.0.1:40000 sent 3 SYNs (frames 1, 2, 3)" in _text(rounds_section, found)


def test_a_set_up_without_an_answer_has_no_time_and_none_is_none() -> None:
    """SYNs alone; and a capture that began later."""
    line = Timeline()
    for at in (0, 1000):
        line.add(at, ">", -1, 0, None, SYN)
    found = setup(_talk(line))
    assert found is not None
    assert (found.syns, found.ms, found.is_repeated) == (2, None, True)
    later = Timeline()
    later.send(0, ">", 100)
    assert setup(_talk(later)) is None


def test_one_direction_alone_tells_no_limits() -> None:
    """A mirror of one direction: no percentages, but that it cannot be told."""
    line = Timeline()
    for number in range(20):
        line.send(10 * number, ">", _MSS, ack=0)
    found = waits(Shared(_talk(line)))
    assert found.one_sided == "10.0.0.1:40000"
    assert _ms(found.limits[0]) == {Cause.UNKNOWN: 190}
    assert "cannot be told" in _text(windows_section, found)


def test_a_lone_syn_leaves_no_question_open() -> None:
    """Nothing was sent, so nothing is said of it."""
    line = Timeline()
    line.add(0, ">", -1, 0, None, SYN)
    assert waits(Shared(_talk(line))).one_sided is None


def test_where_one_turn_takes_most_of_the_time_it_is_the_one_that_is_shown() -> None:
    """Forty turns, one of 2 s: a median of the slow ones would show nothing of it."""
    line = Timeline()
    line.handshake(0)
    at = 10.0
    for number in range(40):
        line.send(at, ">", 100)
        at += 2000 if number == 17 else 10
        line.send(at, "<", 100)
        at += 5
    talk = _talk(line)
    found = walk(talk, take(Shared(talk)))
    assert found is not None
    assert (found.turn, found.chosen_by) == (18, "longest")
    assert found.share == pytest.approx(2000 / 2390)
    assert "The longest turn: number 18, 83.7 % of the time in turns" in _text(walk_section, found)


def test_time_that_runs_back_makes_no_turns() -> None:
    """How long they took is not known, and that is said, in place of negative durations."""
    line = Timeline()
    line.handshake(0)
    for number in range(20):
        line.send(10 * number + 10, ">", 100)
        line.send(10 * number + 15, "<", 100)
    talk = _talk(line)
    back = talk.packets.t_ns[::-1].copy()
    shared = Shared(dataclasses.replace(talk, packets=dataclasses.replace(talk.packets, t_ns=back)))
    found = turns(shared.talk, take(shared))
    assert (found.shape, found.count) == (Shape.NO_TIME, 0)
    assert found.conversation_ms >= 0
    assert "time runs back" in _text(turns_section, found)
    assert all(one.trips is None or one.trips.min_ms >= 0 for one in waits(shared).rounds)


def test_at_the_server_the_time_until_the_next_request_has_the_way_in_it() -> None:
    """20 ms there and back: the row says so, and how much of it that is at the least."""
    line = Timeline()
    line.add(0, ">", -1, 0, None, SYN)
    line.add(0.01, "<", -1, 0, 0, SYN | ACK)
    line.add(20, ">", 0, 0, 0, ACK)
    for number in range(10):
        line.send(30 + 20.1 * number, ">", 100)
        line.send(30.05 + 20.1 * number, "<", 100)
    shared = Shared(_talk(line))
    found = turns(shared.talk, take(shared))
    assert found.asker_round_trip_ms == pytest.approx(19.99)
    text = _text(turns_section, found)
    assert "asker, and the path to it" in text
    assert "179.9 ms at the least is that way" in text


def _policed() -> Timeline:
    """12 Mbit/s, of which one packet in ten is lost and sent again."""
    line = Timeline()
    _open(line, rtt_ms=3)
    end = 0
    for number in range(1500):
        at = 20 + number
        line.send(at, ">", _MSS, ack=0, flags=ACK)
        if number % 10 == 9:
            line.send(at + 0.5, ">", _MSS, ack=0, seq=end - 5 * _MSS, flags=ACK)
        end += _MSS
        line.add(at + 0.4, "<", 0, 0, max(end - 10 * _MSS, 0), ACK)
    return line


def test_loss_at_a_rate_that_stays_may_be_a_policer() -> None:
    """Its bucket lets short bursts pass, so what these carried is not what the path carries."""
    found = throughput(Shared(_talk(_policed())))
    policer = found.ways[0].policer
    assert policer is not None
    assert policer.mbit_s == pytest.approx(_MSS * 8e-3, rel=0.05)
    assert policer.lost_share == pytest.approx(1 / 11, abs=0.02)
    assert "a policer of about 11.7 Mbit/s?" in _text(throughput_section, found)
