"""Sizes of segments, what the application wrote at a time, units that spill over, and runts."""

from __future__ import annotations

import dataclasses

import pytest
from examples import examples
from hypothesis import given, settings
from hypothesis import strategies as st
from timeline import Timeline

from nfslat.report.text_writer import write
from nfslat.tcp.packets import ACK, PSH
from nfslat.tcp.sections.sizes import sizes_section
from nfslat.tcp.shared import Shared
from nfslat.tcp.sizes import Sizes, WaySizes, sizes


def _sizes(line: Timeline) -> Sizes:
    return sizes(Shared(line.trace().talk(0)))


def _from_client(line: Timeline) -> WaySizes:
    return _sizes(line).ways[0]


def _page(found: Sizes) -> str:
    text = write(sizes_section(found))
    assert all(len(one) <= 80 for one in text.splitlines())
    return " ".join(text.split())


def _write(line: Timeline, ms: float, size: int) -> float:
    """One write as a Linux sender cuts it: full segments, the push on the last one."""
    while size > line.mss:
        line.send(ms, ">", line.mss, flags=ACK)
        size -= line.mss
        ms += 0.01
    line.send(ms, ">", size, flags=ACK | PSH)
    return ms + 0.01


def test_the_write_size_is_found_behind_the_segments() -> None:
    """Bursts up to a push or a short segment are summed; 8156 bytes are an 8 KB buffer less 36 of headers."""
    line = Timeline()
    line.handshake(0)
    for turn in range(10):
        at = _write(line, 10 + 10 * turn, 8156)
        line.send(at + 2, "<", 20)
    found = _from_client(line)
    assert [(mode.bytes, mode.count) for mode in found.burst_modes] == [(8156, 10)]
    assert {mode.bytes: mode.count for mode in found.modes} == {1460: 50, 856: 10}
    assert [(one.bytes, one.buffer_bytes, one.headers_bytes) for one in found.near] == [(8156, 8192, 36)]
    assert (found.mss, found.mss_source, found.segments, found.super_packets) == (1460, "syn", 60, 0)
    assert found.runts is not None
    assert found.runts.count == 0
    assert "8,156 bytes are a buffer of 8,192 less 36 of headers: on SQL*Net, an SDU of 8,192." in _page(_sizes(line))


def test_offload_is_counted_as_the_segments_that_it_stands_for() -> None:
    """A packet larger than the MSS is a super packet; writes are the same with and without."""
    line = Timeline()
    line.handshake(0)
    for turn in range(5):
        line.send(10 * turn + 10, ">", 8156)
        line.send(10 * turn + 12, "<", 20)
    found = _from_client(line)
    assert (found.data_packets, found.super_packets, found.super_segments, found.segments) == (5, 5, 30, 30)
    assert [(mode.bytes, mode.count) for mode in found.burst_modes] == [(8156, 5)]


@pytest.mark.parametrize("is_offloaded", [False, True])
def test_a_unit_that_spills_over_64_kb_is_told_to_be_smaller(is_offloaded: bool) -> None:
    """64294 followed by 1302: a unit of 65596 bytes, 60 more than 65536, whose rest waits for an ACK each time."""
    line = Timeline()
    line.handshake(0)
    at = 10.0
    for _ in range(8):
        if is_offloaded:
            line.send(at, ">", 64294)
        else:
            at = _write(line, at, 64294)
        line.ack(at + 40, "<")
        line.send(at + 40.1, ">", 1302)
        line.ack(at + 41, "<")
        at += 60
    found = _from_client(line)
    (spill,) = found.spills
    assert (spill.unit_bytes, spill.piece_bytes, spill.rest_bytes, spill.count) == (65596, 64294, 1302, 8)
    assert (spill.limit_bytes, spill.use_at_most_bytes, spill.waited_for_ack) == (65536, 64294, 8)
    assert spill.waited_ms == pytest.approx(8 * 40.1, abs=0.2)
    text = _page(_sizes(line))
    assert "Units of 65,596 bytes are sent in two, 8 times: 64,294, then 1,302." in text
    assert "They are 60 bytes larger than 65,536." in text
    assert "Use at most 64,294 bytes, headers included" in text


def test_a_rest_that_follows_full_segments_at_once_is_no_spill() -> None:
    """TCP cuts every unit into full segments and a rest; nothing waits, so there is nothing to tell."""
    line = Timeline()
    line.handshake(0)
    for turn in range(8):
        line.send(10 + 10 * turn, ">", 7300)
        line.send(10.01 + 10 * turn, ">", 908)
        line.send(15 + 10 * turn, "<", 20)
    assert _from_client(line).spills == ()


def test_runts_are_small_segments_with_more_behind_them() -> None:
    """The last segment of a turn is none; those that were queued, and those that waited for an ACK, are counted."""
    line = Timeline()
    line.handshake(0)
    at = 10.0
    for _ in range(4):
        line.send(at, ">", 100)
        line.send(at + 0.1, ">", 100)
        line.ack(at + 40, "<")
        line.send(at + 40.1, ">", 200)
        line.send(at + 45, "<", 10)
        at += 100
    runts = _from_client(line).runts
    assert runts is not None
    assert (runts.count, runts.bytes, runts.queued, runts.waited) == (8, 800, 4, 4)
    assert runts.share == pytest.approx(8 / 12)
    assert runts.spare_segments == 7
    assert runts.waited_ms == pytest.approx(4 * (39.9 - 0.2))


def test_without_a_syn_the_sizes_tell_what_a_full_segment_is() -> None:
    """Known where packets are multiples of a usual size; else what depends on it is left open."""
    line = Timeline(mss=1448)
    for turn in range(10):
        at = line.burst(10 * turn, ">", 2 * 1448 + 100)
        line.send(at + 1, "<", 20)
    ways = _sizes(line).ways
    assert (ways[0].mss, ways[0].mss_source) == (1448, "sizes")
    assert (ways[1].mss, ways[1].runts, ways[1].segments, ways[1].super_packets) == (None, None, None, None)


def test_timestamps_take_twelve_bytes_of_each_segment() -> None:
    """With the option on both SYNs a segment of an MSS of 1460 carries 1448 bytes."""
    line = Timeline()
    line.handshake(0)
    line.send(10, ">", 1448)
    talk = line.trace().talk(0)
    there, back = (dataclasses.replace(way, timestamps=True) for way in talk.conversation.ways)
    talk = dataclasses.replace(talk, conversation=dataclasses.replace(talk.conversation, ways=(there, back)))
    assert sizes(Shared(talk)).ways[0].mss == 1448


def test_sizes_and_throughput_go_together_where_they_do() -> None:
    """A rank correlation over intervals that is sure; none where all packets have one size."""
    rising, even = Timeline(), Timeline()
    for line in (rising, even):
        line.handshake(0)
    for step in range(40):
        for packet in range(6):
            rising.send(10 + step * 10 + packet, ">", 100 + 30 * step)
            even.send(10 + step * 10 + packet, ">", 500)
    found = _from_client(rising).correlation
    assert found is not None
    assert found.rho > 0.95
    assert found.is_sure
    assert "Intervals with larger packets carry more" in _page(_sizes(rising))
    assert _from_client(even).correlation is None


def test_nothing_is_said_of_a_direction_without_payload() -> None:
    """No bytes, no rows, no crash."""
    line = Timeline()
    line.handshake(0)
    found = _sizes(line)
    assert _page(found) == ""
    assert (found.ways[0].distribution, found.ways[0].modes, found.ways[0].bursts) == ((), (), 0)


@settings(max_examples=examples(60), deadline=None)
@given(
    st.lists(
        st.tuples(
            st.sampled_from("><"),
            st.integers(0, 70_000),
            st.sampled_from([0.01, 1.0, 50.0]),
            st.sampled_from([0, 0, 0, 500, -300]),
        ),
        min_size=1,
        max_size=40,
    )
)
def test_the_distribution_adds_up_and_writes_hold_each_byte_once(events: list[tuple[str, int, float, int]]) -> None:
    """Buckets sum to packets and bytes; what is sent twice, late or with holes breaks nothing."""
    line = Timeline()
    line.handshake(0)
    at = 10.0
    for way, size, pause, shift in events:
        at += pause
        if size:
            line.send(at, way, size, seq=max(0, line.next[way] + shift))
        else:
            line.ack(at, way)
    talk = line.trace().talk(0)
    found = sizes(Shared(talk))
    for direction, one in enumerate(found.ways):
        mine = talk.packets.direction == direction
        assert sum(part.packets for part in one.distribution) == one.data_packets
        assert sum(part.bytes for part in one.distribution) == one.bytes
        assert one.data_packets + one.left_out == int((mine & (talk.packets.size > 0)).sum())
    _page(found)
