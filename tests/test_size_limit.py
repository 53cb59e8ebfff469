"""Segments of one connection in two captures, by hand -> whether size decides which of them are lost."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from wire_tables import op, ops

from nfslat.model.segments import AGAIN, BACK, Segments
from nfslat.model.tables import Matched
from nfslat.wire.size_limit import SizeLimit, _came, size_limits, size_limits_of_one

FULL, SMALL = 1448, 1084
Packet = tuple[int, int, bool]  # position, bytes of payload, does it arrive
USUAL = [(at * FULL, FULL, True) for at in range(1, 30)]


def _table(rows: Sequence[tuple[int, int, int, int, int]]) -> Segments:
    """Rows of (frame, position, bytes, TSval, marks)."""
    columns = dict(zip(("frame", "seq", "size", "ts_val", "marks"), zip(*rows, strict=True), strict=True))
    return Segments.from_columns({**columns, "t_ns": [row[0] * 1_000_000 for row in rows], "ack": [0] * len(rows)})


def _limits(packets: Sequence[Packet], *, ahead: int = 5000, way: str = "reply") -> tuple[SizeLimit, ...]:
    """A host sends these packets; the other's capture begins so many bytes earlier in that direction."""
    sender = BACK if way == "reply" else 0
    sent = [(1, 0, 100, 1, 0), (2, 0, 100, 1, BACK)]
    seen = set()
    for frame, (seq, size, _) in enumerate(packets, start=3):
        sent.append((frame, seq, size, frame, sender | (AGAIN if (seq, size) in seen else 0)))
        seen.add((seq, size))
    came = [row for row, packet in zip(sent[2:], packets, strict=True) if packet[2]]
    arrived = [(1, ahead * (way == "call"), 100, 1, 0), (2, ahead * (way == "reply"), 100, 1, BACK)]
    arrived += [(frame, seq + ahead, size, stamp, marks & BACK) for frame, seq, size, stamp, marks in came]
    frames = {"call_first_frame": np.array([1], np.int32), "reply_first_frame": np.array([2], np.int32)}
    both = replace(ops(op(1, 2, 1)), **frames)
    matched = Matched.from_columns({"server": [0], "client": [0]})
    talks = [_table(sent)], [_table(arrived)]
    return size_limits(both, both, matched, talks if way == "reply" else talks[::-1])


def _hole(*, large_passes: bool = False, tries: int = 5) -> list[Packet]:
    """Five full segments and a small one; a few ACKs; the first is sent again and again."""
    base = 40 * FULL
    burst = [(base + at * FULL, FULL, False) for at in range(5)]
    end = base + 5 * FULL + SMALL
    packets = [*burst, (base + 5 * FULL, SMALL, True)]
    for _ in range(tries):
        packets += [(base, FULL, False), (end, 0, True)]
    packets.append((base + FULL, FULL, False))
    if large_passes:
        packets.insert(8, (base + 2 * FULL, FULL, True))
    passed = {seq for seq, _, came in packets if came}
    filled = [(seq, size, True) for seq, size, _ in burst if seq not in passed]
    return [*USUAL, *packets, *filled, *[(at * FULL, FULL, True) for at in range(60, 120)]]


def test_where_all_large_ones_vanish_and_all_small_ones_pass_the_size_is_found() -> None:
    """How many of each, and between which sizes of packets the limit lies, with the headers."""
    (limit,) = _limits(_hole())
    assert (limit.way, limit.lost, limit.passed) == ("reply", 11, 6)
    assert (limit.passed_to, limit.lost_from) == (SMALL + 52, FULL + 52)
    assert limit.lost_bytes == 11 * FULL
    assert limit.chance < 0.001


def test_calls_vanish_by_size_as_replies_do() -> None:
    """WRITEs of a client, whose capture is the sender's."""
    (limit,) = _limits(_hole(), way="call")
    assert (limit.way, limit.lost, limit.passed) == ("call", 11, 6)


def test_offload_shows_several_segments_as_one() -> None:
    """A packet of six segments of which the last one arrives, and each of them where it is sent again by itself."""
    at, end = 40 * FULL, 45 * FULL + SMALL
    usual = [(2 + row, row * FULL, FULL, 2 + row, BACK) for row in range(1, 30)]
    lost = [(100, at, 5 * FULL + SMALL, 100, BACK)]
    for frame in range(101, 111, 2):
        lost += [(frame, at, FULL, frame, BACK | AGAIN), (frame + 1, end, 0, frame + 1, BACK)]
    ends = [(120, at, FULL, 120, BACK | AGAIN), (121, end, FULL, 121, BACK)]
    tail = (100, 45 * FULL, SMALL, 100, BACK)
    arrived = [*usual, tail, *[row for row in lost if not row[2]], *ends]
    opened = [(1, 0, 100, 1, 0), (2, 0, 100, 1, BACK)]
    frames = {"call_first_frame": np.array([1], np.int32), "reply_first_frame": np.array([2], np.int32)}
    both = replace(ops(op(1, 2, 1)), **frames)
    matched = Matched.from_columns({"server": [0], "client": [0]})
    talks = [_table([*opened, *usual, *lost, *ends])], [_table([*opened, *arrived])]
    (limit,) = size_limits(both, both, matched, talks)
    assert (limit.lost, limit.passed, limit.passed_to) == (10, 5, SMALL + 52)


def _of_one(packets: Sequence[Packet], *, near: str = "server", heard: bool = True) -> tuple[SizeLimit, ...]:
    """The capture of the sender alone: a call of the other end before each of its ACKs, sent again where that ACK is
    lost; in the end all is acknowledged, if it is `heard`."""
    sender, rows, called = BACK if near == "server" else 0, [], 100
    rows = [(1, 0, 100, 1, 0, 0), (2, 0, 100, 1, BACK, 100)]
    seen: set[tuple[int, int]] = set()
    for seq, size, came in packets:
        if not size:
            rows.append((len(rows) + 1, called, 104, 0, sender ^ BACK, 0))
            called += 104
        mark = AGAIN if size and (seq, size) in seen else 0
        rows.append((len(rows) + 1, seq, size, len(rows), sender | mark, called))
        seen.add((seq, size))
        if not size and not came:
            rows.append((len(rows) + 1, called - 104, 104, 0, sender ^ BACK | AGAIN, 0))
    end = max(seq + size for seq, size, _ in packets)
    rows.append((len(rows) + 1, called, 0, 0, sender ^ BACK, end if heard else 0))
    columns = dict(zip(("frame", "seq", "size", "ts_val", "marks", "ack"), zip(*rows, strict=True), strict=True))
    talk = Segments.from_columns({**columns, "t_ns": [row[0] * 1_000_000 for row in rows]})
    frames = {"call_first_frame": np.array([1], np.int32), "reply_first_frame": np.array([2], np.int32)}
    return size_limits_of_one(replace(ops(op(1, 2, 1)), **frames), near, [talk], np.zeros(0, np.int32))


@pytest.mark.parametrize("near", ["server", "client"])
def test_the_sender_alone_shows_a_limit_by_what_it_sends_again(near: str) -> None:
    """What is sent again was lost, the last time excepted; small ones pass, for nobody sends them again; and ACKs do,
    for what they acknowledge is not sent again."""
    (limit,) = _of_one(_hole(), near=near)
    assert (limit.way, limit.lost, limit.passed) == ("reply" if near == "server" else "call", 11, 6)
    assert (limit.passed_to, limit.lost_from) == (SMALL + 52, FULL + 52)


def test_without_an_answer_and_where_acks_are_lost_the_sender_shows_no_limit() -> None:
    """A path that is interrupted loses ACKs as well, and their data come again."""
    silent = [(seq, size, came and size > 0) for seq, size, came in _hole()]
    assert _of_one(silent) == ()
    assert _of_one(_hole(), heard=False) == ()


KEYS = st.lists(st.tuples(*[st.integers(0, 2)] * 4), max_size=20)


@given(KEYS, KEYS)
def test_as_many_came_as_arrived(sent: list[tuple[int, ...]], arrived: list[tuple[int, ...]]) -> None:
    """Of packets that are alike no more came than arrived or were sent, and these are the last."""
    came = _came(*(np.array(rows, dtype=np.int64).reshape(-1, 4) for rows in (sent, arrived)))
    for key in {*sent}:
        of_key = [bool(came[row]) for row in range(len(sent)) if sent[row] == key]
        assert sum(of_key) == min(len(of_key), arrived.count(key))
        assert of_key == sorted(of_key)


@pytest.mark.parametrize(
    "packets",
    [
        _hole(large_passes=True),  # loss that lets a large one pass in between
        _hole(tries=1),  # too few turns
        # A burst of full segments is lost, with no small one between, each sent again once.
        [*USUAL, *[(at * FULL, FULL, False) for at in range(40, 60)],
         *[(at * FULL, FULL, True) for at in range(40, 120)]],
        # At random, where most are of full size.
        [*USUAL, *[(at * FULL, FULL if at % 6 else SMALL, at % 5 != 0) for at in range(40, 90)],
         *[(at * FULL, FULL, True) for at in range(40, 120) if at % 5 == 0]],
        # Small ones are lost as well, as on a path that is interrupted.
        [*USUAL, *[(40 * FULL, FULL if at % 2 else SMALL, False) for at in range(12)],
         *[(at * FULL, FULL, True) for at in range(40, 200)]],
        USUAL,
    ],
)  # fmt: skip
def test_other_loss_has_no_size(packets: list[Packet]) -> None:
    """None of these is a limit of the path, by two captures or by the sender's."""
    assert _limits(packets) == _of_one(packets) == ()


def test_a_capture_that_lacks_packets_shows_no_limit() -> None:
    """Where much else that was sent is not in the other capture, nothing is said of what is not."""
    lacking = [(at * FULL, FULL, at % 3 != 0) for at in range(200, 300)]
    assert _limits([*_hole(), *lacking, (301 * FULL, FULL, True)]) == ()
