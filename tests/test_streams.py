"""TCP segments -> first and last frame of every record, held against the same worked out byte by byte."""

from __future__ import annotations

import itertools

from hypothesis import given
from hypothesis import strategies as st

from nfslat.decode.tshark.streams import Direction, Record

WRAP = 1 << 32
ISN = st.sampled_from((0, 1000, WRAP - 1, WRAP - 50, (1 << 31) - 20))
RECORDS = st.lists(st.integers(28, 90), min_size=1, max_size=8)  # bytes; the smallest reply is 28 with its mark


@st.composite
def cuts(draw: st.DrawFn, lengths: list[int]) -> list[tuple[int, int]]:
    """The stream of records cut into segments anywhere."""
    total = sum(lengths)
    inner = draw(st.sets(st.integers(1, total - 1), max_size=10))
    return list(itertools.pairwise(sorted({0, total} | inner)))


@st.composite
def shuffled(draw: st.DrawFn) -> tuple[list[int], list[tuple[int, int]]]:
    """(record lengths, segments in capture order): swapped neighbours, retransmissions, overlaps."""
    lengths = draw(RECORDS)
    segments = draw(cuts(lengths))
    for at in draw(st.sets(st.integers(0, len(segments)), max_size=3)):
        if at + 1 < len(segments):
            segments[at], segments[at + 1] = segments[at + 1], segments[at]
    for at in sorted(draw(st.lists(st.integers(1, len(segments)), max_size=4)), reverse=True):
        a, b = draw(st.sampled_from(segments[:at]))
        segments.insert(at, (max(0, a - draw(st.integers(0, 20))), b))  # again, perhaps with bytes in front
    return lengths, segments


def spans(lengths: list[int]) -> list[tuple[int, int]]:
    return list(itertools.pairwise(itertools.accumulate(lengths, initial=0)))


def oracle(lengths: list[int], segments: list[tuple[int, int]]) -> list[tuple[int, int]]:
    """First and last frame of each record, byte by byte: a byte is seen in the first frame that has it."""
    seen = [next(frame for frame, (a, b) in enumerate(segments, 1) if a <= at < b) for at in range(sum(lengths))]
    return [(seen[a], max(seen[a:b])) for a, b in spans(lengths)]


def reassembled(lengths: list[int], segments: list[tuple[int, int]], isn: int) -> list[Record]:
    """Drive a Direction as the decoder does on whole packets: a record shows in the frame that completes the stream
    up to its end (Wireshark reassembles in order)."""
    side, found = Direction(), []
    got, contiguous, shown = bytearray(sum(lengths)), 0, 0
    for frame, (a, b) in enumerate(segments, 1):
        here = side.segment(frame, frame * 1000, (isn + a) % WRAP, b - a, syn=False)
        got[a:b] = b"x" * (b - a)
        while contiguous < len(got) and got[contiguous]:
            contiguous += 1
        done = [span for span in spans(lengths)[shown:] if span[1] <= contiguous]
        if done:
            first = next(i for i, (x, y) in enumerate(segments, 1) if x <= done[0][0] < y)
            fragments = [(y - x, True) for x, y in done]
            found += side.records(here, fragments, reassembled=True, from_frame=first) or []
            shown += len(done)
    return found


@given(shuffled(), ISN)
def test_first_and_last_frame_of_every_record(stream: tuple[list[int], list[tuple[int, int]]], isn: int) -> None:
    """Any cuts, neighbours out of order, retransmissions, overlaps, sequence numbers that wrap: as byte by byte."""
    lengths, segments = stream
    if segments[0][0]:  # what comes before the first segment of a capture is not known to exist
        segments.insert(0, (0, 1))
    found = reassembled(lengths, segments, isn)
    assert [(r.first_frame, r.last_frame) for r in found] == oracle(lengths, segments)
    assert all((r.first_ns, r.last_ns) == (r.first_frame * 1000, r.last_frame * 1000) for r in found)
    assert [(r.start - isn, r.end - isn) for r in found] == spans(lengths)


def test_a_dissector_that_lost_the_boundaries_gives_no_times() -> None:
    """Three segments of 100 bytes: 700 bytes of records, said to be complete in the last one, cannot be in them."""
    side = Direction()
    for frame in (1, 2):
        side.segment(frame, frame, frame * 100, 100, syn=False)
    here = side.segment(3, 3, 300, 100, syn=False)
    assert side.records(here, [(350, True), (350, True)], reassembled=True, from_frame=1) is None


@given(st.lists(st.integers(28, 300), min_size=1, max_size=8), st.integers(20, 120), ISN)
def test_on_cut_packets_records_at_the_beginning_of_segments(lengths: list[int], mss: int, isn: int) -> None:
    """Every record in segments of its own: shown where it begins, last frame in the segment that ends it."""
    segments = [(at, min(at + mss, b)) for a, b in spans(lengths) for at in range(a, b, mss)]
    side, found, hidden = Direction(), [], 0
    starts = {a: b - a for a, b in spans(lengths)}
    for frame, (a, b) in enumerate(segments, 1):
        before = side.high
        here = side.segment(frame, frame * 1000, (isn + a) % WRAP, b - a, syn=False)
        if a in starts:
            found += side.records(here, [(starts[a], True)], reassembled=False, from_frame=0)
        hidden += side.hidden(here, is_new=here.end > before)
    assert [(r.first_frame, r.last_frame) for r in found] == oracle(lengths, segments)
    assert hidden == 0


@given(RECORDS.flatmap(lambda lengths: st.tuples(st.just(lengths), cuts(lengths))), ISN)
def test_on_cut_packets_a_hidden_record_is_counted_where_the_boundary_is_known(
    stream: tuple[list[int], list[tuple[int, int]]], isn: int
) -> None:
    """A record that begins inside a segment cannot be seen: it counts once if the record before it was seen, and the
    ones behind it do not count until the next one that begins with a segment."""
    lengths, segments = stream
    side, hidden, found = Direction(), 0, []
    starts = {a: b - a for a, b in spans(lengths)}
    beginnings = {a for a, _ in segments}
    for frame, (a, b) in enumerate(segments, 1):
        before = side.high
        here = side.segment(frame, frame * 1000, (isn + a) % WRAP, b - a, syn=False)
        if a in starts:
            found += side.records(here, [(starts[a], True)], reassembled=False, from_frame=0)
        hidden += side.hidden(here, is_new=here.end > before)
    seen = [a in beginnings for a in starts]
    assert hidden == sum(before and not this for before, this in itertools.pairwise(seen))
    want = [span for span, visible in zip(oracle(lengths, segments), seen, strict=True) if visible]
    assert [(r.first_frame, r.last_frame) for r in found] == want


@given(st.lists(st.integers(1, 60), min_size=2, max_size=6))
def test_a_record_of_several_fragments_is_one(pieces: list[int]) -> None:
    """Only the last fragment ends a record; its length is that of all of them with their marks."""
    side = Direction()
    fragments = [(4 + size, at == len(pieces) - 1) for at, size in enumerate(pieces)]
    here = side.segment(1, 1000, 5, sum(size for size, _ in fragments), syn=False)
    (found,) = side.records(here, fragments, reassembled=True, from_frame=0)
    assert (found.start, found.end) == (here.start, here.end)


def test_records_behind_one_that_was_not_shown_stay_where_they_are() -> None:
    """Record 2 of three was not recognised: record 3 begins in its own frame, not in that of record 2."""
    side = Direction()
    for frame, (start, shown) in enumerate(((0, True), (100, False), (300, True)), 1):
        here = side.segment(frame, frame * 1000, start, 100 if frame != 2 else 200, syn=False)
        if shown:
            found = side.records(here, [(100, True)], reassembled=True, from_frame=0)
    assert [(r.start, r.first_frame, r.last_frame) for r in found] == [(300, 3, 3)]


def test_a_hole_is_waited_for_until_the_receiver_acknowledges_it() -> None:
    """Bytes 40 to 60 were never captured: with the ACK the record ends with the last segment that was seen."""
    side = Direction()
    here = side.segment(1, 1000, 0, 40, syn=False)
    (record,) = side.records(here, [(100, True)], reassembled=False, from_frame=0)
    side.segment(2, 2000, 60, 40, syn=False)
    side.acknowledged(40)
    assert record.missing
    side.acknowledged(100)
    assert not record.missing
    assert record.last_frame == 2


def test_a_new_connection_on_the_same_ports_starts_afresh() -> None:
    """After a SYN the stream begins behind its sequence number, whatever came before."""
    side = Direction()
    side.records(side.segment(1, 1000, 0, 50, syn=False), [(100, True)], reassembled=False, from_frame=0)
    side.segment(2, 2000, 70_000, 0, syn=True)
    here = side.segment(3, 3000, 70_001, 40, syn=False)
    (record,) = side.records(here, [(40, True)], reassembled=True, from_frame=0)
    assert (record.start, record.first_frame, record.last_frame) == (70_001, 3, 3)


def test_a_packet_is_a_copy_of_one_just_before_with_all_the_same_numbers() -> None:
    """Another IP identification, sequence number, acknowledgement or length: another packet."""
    side = Direction()
    keys = [("0x07", 1, 2, 3), ("0x08", 1, 2, 3), ("0x07", 2, 2, 3), ("0x07", 1, 3, 3), ("0x07", 1, 2, 4)]
    assert [side.is_copy(key) for key in keys + keys] == [False] * 5 + [True] * 5
    for seq in range(100, 1000):
        side.is_copy(("0x07", seq, 2, 3))
    assert not side.is_copy(keys[0]), "identifications come round again"
