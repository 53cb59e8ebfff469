"""Windows: scale, sizes, closed, small, full and shrunk ones, and what was in flight."""

from __future__ import annotations

import dataclasses

import pytest
from hypothesis import given
from hypothesis import strategies as st
from timeline import Timeline

from nfslat.report.text_writer import write
from nfslat.tcp.packets import ACK, SYN
from nfslat.tcp.sections.windows import windows_section
from nfslat.tcp.shared import Shared
from nfslat.tcp.waits import waits
from nfslat.tcp.windows import Windows, windows


def _of(line: Timeline, direction: int = 0) -> Windows:
    return windows(Shared(line.trace().talk(0)), direction)


def _text(line: Timeline) -> str:
    text = write(windows_section(waits(Shared(line.trace().talk(0)))))
    assert all(len(one) <= 80 for one in text.splitlines())
    return " ".join(text.split())


def test_the_scale_of_the_handshake_is_shown_as_ss_does_and_as_a_factor() -> None:
    """A shift of 7 multiplies by 128; windows in SYNs are not scaled and do not count."""
    line = Timeline(scale=7)
    line.windows["<"] = 500
    line.handshake(0)
    line.send(10, ">", 1460)
    line.ack(11, "<")
    found = _of(line)
    assert (found.scale, found.factor, found.window_min_bytes, found.window_max_bytes) == (7, 128, 64_000, 64_000)
    assert "window scale 7 (factor 128)" in _text(line)


def test_a_window_without_handshake_has_a_least_scale_and_is_not_known() -> None:
    """60,000 bytes are in flight into a window that says 4,000: the shift is 4 at the least."""
    line = Timeline()
    line.windows["<"] = 4_000
    line.send(0, ">", 100)
    line.ack(1, "<")
    line.burst(2, ">", 60_000)
    line.ack(10, "<")
    found = _of(line)
    assert (found.scale, found.factor, found.scale_at_least) == (None, None, 4)
    assert found.window_max_bytes == 64_000
    assert (found.full, found.below_segment, found.shrunk) == (0, 0, 0)
    assert "at least 4 (factor 16)" in _text(line)


@given(st.integers(0, 14), st.integers(1, 65_535))
def test_the_least_scale_is_never_above_the_true_one(scale: int, window: int) -> None:
    """A sender that keeps to the window shows no more than the window."""
    line = Timeline()
    line.windows["<"] = window
    line.send(0, ">", 1)
    line.ack(1, "<")
    line.send(2, ">", min(window << scale, 1 << 22))
    line.ack(3, "<")
    assert _of(line).scale_at_least <= scale


def test_bytes_in_flight_are_those_that_were_sent_and_not_acknowledged() -> None:
    """Three segments, an ACK for two, one more: three, then two in flight."""
    line = Timeline()
    line.handshake(0)
    line.burst(10, ">", 3000)
    line.ack(12, "<", ack=2920)
    line.send(13, ">", 1000)
    found = _of(line)
    assert (found.in_flight_max_bytes, found.in_flight_p95_bytes) == (3000, 3000)
    assert found.over_time[-1].in_flight_bytes == 1080


def test_a_closed_window_is_an_episode_with_its_probes_and_what_opened_it() -> None:
    """From the packet that closes it to the one that opens it."""
    line = Timeline(scale=0)
    line.windows["<"] = 1460
    line.handshake(0)
    line.send(10, ">", 1460)
    closing = line.ack(11, "<", window=0)
    line.send(211, ">", 1)
    line.next[">"] -= 1
    line.ack(212, "<", ack=1460)
    opening = line.ack(911, "<", ack=1460, window=1460)
    line.send(912, ">", 1460)
    frames = line.in_order()
    found = _of(line)
    (zero,) = found.zero_windows
    assert (zero.frame, zero.opened_frame) == (frames.index(closing) + 1, frames.index(opening) + 1)
    assert (zero.ms, zero.probes, zero.opened_by) == (900, 1, "window update")
    assert (found.zero_count, found.zero_ms) == (1, 900)
    assert "closed its window once, 900.0 ms in all" in _text(line)


def test_a_window_that_does_not_open_lasts_to_the_end() -> None:
    """Nothing opened it: that is said."""
    line = Timeline(scale=0)
    line.handshake(0)
    line.send(10, ">", 100)
    line.ack(11, "<", window=0)
    line.send(500, "<", 100)
    (zero,) = _of(line).zero_windows
    assert (zero.ms, zero.opened_by, zero.opened_frame) == (489, None, None)


def test_a_window_that_shrinks_is_found() -> None:
    """The right edge goes back by 3,000 bytes, which a receiver should not do; less room after data is no shrinking."""
    line = Timeline(scale=0)
    line.windows["<"] = 10_000
    line.handshake(0)
    line.send(10, ">", 1000)
    line.ack(11, "<", window=9000)
    line.send(20, ">", 1000)
    back = line.ack(21, "<", window=5000)
    found = _of(line)
    assert (found.shrunk, found.shrunk_most_bytes) == (1, 3000)
    assert found.shrunk_frames == (line.in_order().index(back) + 1,)
    assert "shrank the window it had offered once, up to 3,000 bytes" in _text(line)


def test_a_scaled_window_that_is_rounded_down_did_not_shrink() -> None:
    """In units of 128 bytes the edge may seem to go back by less than one of them."""
    line = Timeline(scale=7)
    line.windows["<"] = 500
    line.handshake(0)
    line.send(10, ">", 100)
    line.ack(11, "<", window=499)
    assert _of(line).shrunk == 0


def test_small_and_full_windows_are_counted() -> None:
    """Below one segment, below two, and data that fill what the receiver takes."""
    line = Timeline(scale=0)
    line.windows["<"] = 3000
    line.handshake(0)
    line.burst(10, ">", 3000)
    line.ack(12, "<", window=2000)
    line.send(13, ">", 1460)
    line.ack(14, "<", window=540)
    found = _of(line)
    assert (found.below_segment, found.below_two_segments) == (1, 2)
    assert (found.full, found.full_frames) == (2, (6, 8))


def test_windows_in_the_other_direction_are_not_mixed_in() -> None:
    """Each receiver has windows of its own."""
    line = Timeline(scale=0)
    line.windows |= {">": 1111, "<": 2222}
    line.handshake(0)
    line.send(10, ">", 100)
    line.send(11, "<", 100)
    talk = line.trace().talk(0)
    assert [windows(Shared(talk), way).window_typical_bytes for way in (0, 1)] == [2222, 1111]
    assert [windows(Shared(talk), way).receiver for way in (0, 1)] == ["10.0.0.2:1521", "10.0.0.1:40000"]


def test_a_direction_without_packets_has_no_window() -> None:
    """One side only was captured."""
    line = Timeline()
    line.add(0, ">", 0, 100, None, ACK)
    found = _of(line)
    assert (found.window_max_bytes, found.in_flight_max_bytes, found.scale_at_least) == (None, 100, 0)
    assert _of(line, 1).in_flight_max_bytes is None


def test_a_handshake_alone_announces_nothing() -> None:
    """The windows of SYNs are the first few bytes only."""
    line = Timeline()
    line.add(0, ">", -1, 0, None, SYN)
    line.add(1, "<", -1, 0, 0, SYN | ACK)
    assert _of(line).window_max_bytes is None


@given(
    st.lists(
        st.tuples(st.sampled_from("><"), st.integers(0, 3000), st.integers(0, 0xFFFF), st.floats(0, 400)),
        min_size=1,
        max_size=30,
    )
)
def test_any_conversation_has_figures_that_fit_together(packets: list[tuple[str, int, int, float]]) -> None:
    """Whatever is sent: counts do not exceed each other, and every line of text fits."""
    line, at = Timeline(scale=2), 0.0
    for way, size, window, apart in packets:
        at += apart
        line.windows[way] = window
        if size > 1500:
            line.send(at, way, size)
        else:
            line.ack(at, way)
    _text(line)
    for direction in (0, 1):
        found = _of(line, direction)
        assert found.below_segment <= found.below_two_segments
        assert found.zero_count == len(found.zero_windows)
        assert all(zero.ms >= 0 for zero in found.zero_windows)
        assert (found.window_min_bytes or 0) <= (found.window_typical_bytes or 0) <= (found.window_max_bytes or 0)
        assert dataclasses.asdict(found)["direction"] == direction


@pytest.mark.parametrize("scale", [None, 0])
def test_without_the_option_windows_are_not_scaled(scale: int | None) -> None:
    """A SYN without the option means a shift of 0, which is known."""
    line = Timeline(scale=scale)
    line.handshake(0)
    line.send(1, ">", 10)
    assert _of(line).scale == 0
