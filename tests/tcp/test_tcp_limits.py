"""What limited a sender: time that sums to the conversation, and the right name for it."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from timeline import Timeline

from nfslat.model.causes import LIMITS, Cause, Limit
from nfslat.report.text_writer import write
from nfslat.tcp.limits import Limits
from nfslat.tcp.packets import ACK, PSH, SYN
from nfslat.tcp.sections.windows import windows_section
from nfslat.tcp.shared import Shared
from nfslat.tcp.waits import waits

MS = 1_000_000


def _handshake(line: Timeline, rtt_ms: float) -> None:
    """At the client's end."""
    line.add(0, ">", -1, 0, None, SYN)
    line.add(rtt_ms, "<", -1, 0, 0, SYN | ACK)
    line.add(rtt_ms + 0.01, ">", 0, 0, 0, ACK)


def _of(line: Timeline) -> Limits:
    return waits(Shared(line.trace().talk(0))).limits[0]


def _ms(found: Limits) -> dict[Limit, float]:
    return {one.limit: round(one.ms, 3) for one in found.limits if one.ms}


def _bulk(segments: int, *, rounds: int = 5, window: int | None = None, rtt_ms: float = 30) -> Timeline:
    """So many segments, an ACK after a round trip for the first of them and then the rest, again and again."""
    line = Timeline(scale=0)
    line.windows["<"] = window or 0xFFFF
    _handshake(line, rtt_ms)
    at = 100.0
    for _ in range(rounds):
        begin = line.next[">"]
        for number in range(segments):
            line.send(at + number * 0.05, ">", 1460, flags=ACK)
        line.ack(at + rtt_ms, "<", ack=begin + 1460)
        line.ack(at + rtt_ms + 0.01, "<")
        at += rtt_ms + 0.1
    return line


def test_the_receivers_window_limits_who_fills_it() -> None:
    """A window of four segments is full four times for a round trip."""
    found = _of(_bulk(4, window=4 * 1460))
    assert found.most is Cause.RECEIVE_WINDOW
    row = next(one for one in found.limits if one.limit is Cause.RECEIVE_WINDOW)
    assert (row.waits, row.ms, row.longest_ms) == (4, pytest.approx(4 * 29.95), pytest.approx(29.95))


def test_the_congestion_window_limits_who_has_room_and_waits_for_acks() -> None:
    """The same with a window of 64 KB."""
    found = _of(_bulk(10))
    assert found.most is Cause.CONGESTION
    assert _ms(found)[Cause.CONGESTION] == pytest.approx(4 * 29.65)


def test_who_has_nothing_to_send_is_limited_by_its_application() -> None:
    """Request, answer, and half a second until the next request."""
    line = Timeline()
    _handshake(line, 1)
    for turn in range(4):
        line.send(10 + 500 * turn, ">", 100)
        line.send(12 + 500 * turn, "<", 100)
    found = _of(line)
    assert _ms(found) == {Cause.APPLICATION: 1512}
    assert found.most is None


def test_who_does_not_wait_goes_at_the_pace_of_host_and_path() -> None:
    """A full segment each 12 ms with the buffer never empty (no PSH), as a line of 1 Mbit/s takes them."""
    line = Timeline()
    _handshake(line, 100)
    for number in range(40):
        line.send(200 + 12 * number, ">", 1460, flags=ACK)
        if number > 9:
            line.ack(200 + 12 * number + 5, "<", ack=1460 * (number - 8))
    found = _of(line)
    assert found.most is Cause.PACE
    assert _ms(found)[Cause.PACE] == 39 * 12


def test_an_application_that_writes_a_little_each_time_is_no_pace() -> None:
    """The same times, but every write is over when its segment is sent (PSH)."""
    line = Timeline()
    _handshake(line, 100)
    for number in range(40):
        line.send(200 + 12 * number, ">", 1400, flags=ACK | PSH)
    assert Cause.PACE not in _ms(_of(line))


def test_timeouts_are_loss() -> None:
    """200 and 400 ms until the segment came through."""
    line = Timeline()
    _handshake(line, 1)
    line.burst(10, ">", 2920)
    line.send(210, ">", 1460, seq=0)
    line.send(610, ">", 1460, seq=0)
    line.ack(611, "<")
    found = _of(line)
    assert _ms(found)[Cause.LOSS] == pytest.approx(599.99)


def test_a_silence_in_front_of_missing_packets_is_not_known() -> None:
    """The capture missed what was sent meanwhile: no wait is made of it."""
    line = Timeline()
    _handshake(line, 1)
    line.send(10, ">", 100)
    missed = line.send(30, ">", 100)
    line.ack(51, "<")
    line.send(51.1, ">", 100)
    found = waits(Shared(line.trace(without=[missed]).talk(0))).limits[0]
    assert _ms(found)[Cause.UNKNOWN] == pytest.approx(41.1)


def test_delayed_acks_have_a_row_of_their_own() -> None:
    """Write, write with Nagle: 201 ms each, of which one is the way there and back."""
    line = Timeline()
    _handshake(line, 1)
    line.send(10, ">", 100)
    line.ack(211, "<")
    line.send(211.1, ">", 50)
    line.send(213, "<", 10)
    assert _ms(_of(line))[Cause.DELAYED_ACK] == pytest.approx(200)


def test_at_the_receivers_end_a_full_window_is_told_all_the_same() -> None:
    """There the ACKs leave first, and the data come a round trip later: the sender's view is put together again."""
    line = Timeline(scale=0)
    line.windows["<"] = 4 * 1460
    line.add(0, ">", -1, 0, None, SYN)
    line.add(0.01, "<", -1, 0, 0, SYN | ACK)
    line.add(30, ">", 0, 0, 0, ACK)
    at = 100.0
    for _ in range(5):
        for number in range(4):
            line.send(at + number * 0.05, ">", 1460, flags=ACK)
            line.ack(at + number * 0.05 + 0.01, "<")
        at += 30.1
    found = _of(line)
    assert found.most is Cause.RECEIVE_WINDOW
    assert _ms(found)[Cause.RECEIVE_WINDOW] == pytest.approx(4 * 29.95)


_PACKET = st.tuples(
    st.sampled_from("><"),
    st.sampled_from([0, 0, 1, 100, 1460, 9000]),
    st.integers(-3000, 0),
    st.sampled_from([0, 100, 0xFFFF]),
    st.floats(-5, 300),
    st.booleans(),
)


@given(st.lists(_PACKET, min_size=1, max_size=40), st.booleans())
def test_the_parts_sum_to_the_conversation_exactly(
    packets: list[tuple[str, int, int, int, float, bool]], handshake: bool
) -> None:
    """Whatever goes by, times that run backwards included: int64 ns, in all and in the bins."""
    line, at = Timeline(scale=1), 50.0
    if handshake:
        line.handshake(0, rtt_ms=30)
    for way, size, back, window, apart, pushed in packets:
        at = max(at + apart, 1)
        line.windows[way] = window
        seq = max(line.next[way] + back, 0) if back % 3 == 0 else None
        if size:
            line.send(at, way, size, seq=seq, flags=ACK | (PSH if pushed else 0))
        else:
            line.ack(at, way)
    talk = line.trace().talk(0)
    shared = Shared(talk)
    total = int(talk.packets.t_ns.max() - talk.packets.t_ns.min())
    for direction in (0, 1):
        parts = shared.splits[direction]
        assert int(parts.sums_ns().sum()) == total
        assert (np.diff(parts.edges_ns) >= 0).all()
        found = waits(shared).limits[direction]
        bins = np.array(found.bins).reshape(-1, len(LIMITS)).sum(axis=0)
        assert bins == pytest.approx([one.ms for one in found.limits])


def test_the_answer_comes_first_and_the_table_adds_up() -> None:
    """A sentence a person can repeat, and a column that sums to the conversation."""
    text = write(windows_section(waits(Shared(_bulk(4, window=4 * 1460).trace().talk(0)))))
    lines = text.splitlines()
    assert lines[1].startswith("10.0.0.1:40000: the receiver's window limited the sender for 99.")
    begin = next(number for number, line in enumerate(lines) if line.startswith("limited by")) + 2
    end = next(number for number, line in enumerate(lines) if line.startswith("the conversation"))
    cells = [float(line.removesuffix(" %").split()[-2]) for line in lines[begin:end]]
    assert sum(cells) == pytest.approx(float(lines[end].split()[-1]))
