"""Segments of a connection: what the decoder gives of them, and what is made of them for each host."""

from __future__ import annotations

import itertools
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from nfslat.decode.engine import choose
from nfslat.kernels import heard
from nfslat.kernels.heard import Heard, Said
from nfslat.model.protocol import NULL, NULL32
from nfslat.model.segments import AGAIN, BACK, RST, SYN, TWICE, Segments, Wanted
from nfslat.tcp.packets import Kind
from nfslat.tcp.reading import read_trace

SAMPLES = Path(__file__).parents[2] / "samples"

ROW = st.tuples(
    st.integers(-50, 50),
    st.sampled_from((0, 0, 1, 30)),
    st.integers(-1, 90),
    st.sampled_from((0, 1, 2, 3, 2**31, 2**32 - 2, NULL32)),
    st.sampled_from((0, SYN, RST, AGAIN, TWICE)),
    st.booleans(),
)
ROWS = st.lists(ROW, max_size=30)


def segments(rows: list[tuple[int, int, int, int, int, bool]]) -> Segments:
    """Rows of (position, size, acknowledged position, stamp, marks, is it direction 1)."""
    return Segments.from_columns(
        {
            "frame": range(1, len(rows) + 1),
            "t_ns": range(100, 100 + len(rows)),
            **{name: [row[at] for row in rows] for at, name in enumerate(("seq", "size", "ack", "ts_val"))},
            "marks": [marks | BACK * back for *_, marks, back in rows],
        }
    )


def by_hand(rows: Segments, near: int) -> tuple[list[tuple[int, ...]], list[tuple[int, ...]]]:
    """What far sent, by its clock, and what near sent: written down."""
    far, sent = [], []
    tick, before = 0, None
    for row in range(len(rows)):
        marks, stamp = int(rows.marks[row]), int(rows.ts_val[row])
        t_ns, seq, size, ack = (int(getattr(rows, name)[row]) for name in ("t_ns", "seq", "size", "ack"))
        if marks & BACK == near:
            if size and not marks & RST:
                sent.append((t_ns, seq + size, marks & AGAIN > 0))
        elif stamp != NULL32 and not marks & (SYN | RST):
            step = (stamp - (stamp if before is None else before)) % 2**32
            tick, before = tick + (step - 2**32 if step >= 2**31 else step), stamp
            far.append((tick, row, t_ns, seq, size, ack, marks & TWICE > 0))
    far.sort()
    first = far[0][0] if far else 0
    acks = itertools.accumulate((one[5] for one in far), max, initial=0)
    next(acks)
    return [
        (t, tick - first, ack, seq, size, twice)
        for (tick, _, t, seq, size, _, twice), ack in zip(far, acks, strict=True)
    ], sent


def plain(found: tuple[Heard, Said, np.ndarray]) -> tuple[list[tuple[int, ...]], list[tuple[int, ...]], list[int]]:
    far, said, place = found
    columns = (far.t_ns, far.ticks, far.ack, far.seq, far.size, far.twice), (said.t_ns, said.end, said.again)
    one, two = (list(zip(*(column.tolist() for column in some), strict=True)) for some in columns)
    return one, two, place.tolist()


@given(ROWS, st.integers(0, 1))
def test_far_s_segments_go_by_its_clock(rows: list[tuple[int, int, int, int, int, bool]], near: int) -> None:
    """The kernel gives what is written down; and where each segment went."""
    table = segments(rows)
    far, said = by_hand(table, near)
    one, two, place = plain(heard.heard(table, near))
    assert (one, two) == (far, said)
    for row, at in enumerate(place):
        t_ns = one[at][0] if at >= 0 else two[-2 - at][0] if at < NULL else None
        assert t_ns in (None, table.t_ns[row])
    assert sum(at != NULL for at in place) == len(far) + len(said)


@pytest.mark.parametrize("dtype", [np.int32, np.int64])
@given(st.lists(st.integers(-20, 20)), st.lists(st.integers(-25, 25)))
def test_places_are_those_of_a_search(dtype: type, column: list[int], wanted: list[int]) -> None:
    """The compiled search gives what numpy's gives, in whatever order it is asked."""
    ascending, asked = np.sort(np.array(column, dtype=dtype)), np.array(wanted, dtype=dtype)
    assert heard.places(ascending, asked).tolist() == np.searchsorted(ascending, asked).tolist()


@pytest.mark.parametrize("name", ["packet-loss", "server-threads", "slow-network"])
@pytest.mark.parametrize("side", ["server", "client"])
def test_the_decoder_s_segments_are_those_of_transport(name: str, side: str, tmp_path: Path) -> None:
    """`nfslat transport` follows TCP by itself: it has the same segments, and the same positions, stamps and marks."""
    tools = lambda: pytest.fail("no tool of Wireshark is needed")  # noqa: E731
    engine = choose("native", tools, tmp_path, rereads=False, segments=Wanted.ALL)
    source = engine.open(str(SAMPLES / name / f"{side}.pcap.gz"))
    talks = engine.decode(source, lambda _: None)[1].segments
    trace = read_trace(source, tools, lambda _: None)
    of = trace.packets.conversation
    assert talks
    for talk in talks:
        packets = trace.packets.take(of == of[trace.packets.frame == talk.frame[0]][0])
        for column in ("frame", "t_ns", "size", "ts_val", "ack"):
            assert (getattr(talk, column) == getattr(packets, column)).all(), column
        carries = packets.size > 0
        assert (talk.seq == packets.seq)[carries].all()
        marks = packets.direction.view(np.uint8) | packets.flags & (SYN | RST)
        marks |= TWICE * packets.is_dsack.view(np.uint8)
        assert (talk.marks & ~np.uint8(AGAIN) == marks).all()
        again = np.isin(packets.kind, (Kind.RETRANSMISSION, Kind.KEEP_ALIVE, Kind.ZERO_WINDOW_PROBE))
        # Of the other host it does not matter, and there a hole may have been asked for.
        is_near = carries & (packets.direction == (side == "server"))
        assert ((talk.marks & AGAIN > 0) == again)[is_near].all()


def test_segments_come_only_where_they_are_asked_for(tmp_path: Path) -> None:
    """Two captures do not pay for them."""
    tools = lambda: pytest.fail("no tool of Wireshark is needed")  # noqa: E731
    engine = choose("native", tools, tmp_path, rereads=False)
    source = engine.open(str(SAMPLES / "packet-loss" / "client.pcap.gz"))
    assert engine.decode(source, lambda _: None)[1].segments == []
