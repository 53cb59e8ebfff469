"""Matched ops + clock -> the five parts, and SRT definitions."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from wire_tables import MS, Op, ops

from nfslat.clock.theta import find_clock
from nfslat.decompose import PART_NAMES, SRT_DEFINITIONS, ConstantOffset, Parts, srt_ns
from nfslat.model.tables import I64, Matched, Ops

# A third of the range, so that no difference of two of them leaves int64.
INSTANT = st.integers(-(1 << 61), 1 << 61)


def table(instants: list[tuple[int, ...]]) -> Ops:
    """Ops with these instants, in ns, in this order."""
    base = ops(*(Op((row, row, row, row), row) for row in range(len(instants))))
    columns = {name: getattr(base, name) for name in Ops.columns()}
    at = np.array(instants, dtype=np.int64).reshape(-1, 4)
    return Ops.from_columns(
        columns | {f"t{i}": at[:, i].copy() for i in range(4)}, kinds=base.kinds, connections=base.connections
    )


def all_of(rows: int) -> Matched:
    return Matched(np.arange(rows, dtype=np.int32), np.arange(rows, dtype=np.int32))


def parts_ms(parts: Parts) -> list[float]:
    return [int(parts.ns(name)[0]) / MS for name in PART_NAMES]


def test_the_five_parts_of_one_op() -> None:
    """Client: 0, 1 | 20, 22. Server, its clock 1000 ahead: 1003, 1005 | 1015, 1016. So the call's last byte needs 4
    on the way, the server 10, the reply's last byte 6."""
    server, client = ops(Op((1003, 1005, 1015, 1016), 7)), ops(Op((0, 1, 20, 22), 7))
    parts = Parts(server, client, all_of(1), ConstantOffset(1000 * MS))
    assert parts_ms(parts) == [1, 4, 10, 1, 6]
    assert sum(parts_ms(parts)) == 22


def test_a_negative_part_is_kept() -> None:
    """With theta 10 too large the call arrives before it was sent; the sum does not change."""
    server, client = ops(Op((1003, 1005, 1015, 1016), 7)), ops(Op((0, 1, 20, 22), 7))
    assert parts_ms(Parts(server, client, all_of(1), ConstantOffset(1010 * MS))) == [1, -6, 10, 1, 16]


def test_parts_follow_the_rows_of_the_match() -> None:
    """The rows of the two sides need not be in the same order."""
    server, client = ops(Op((1, 1, 2, 2), 8), Op((3, 3, 9, 9), 7)), ops(Op((0, 0, 10, 10), 7), Op((0.5, 0.5, 4, 4), 8))
    parts = Parts(
        server, client, Matched(np.array([1, 0], dtype=np.int32), np.array([0, 1], dtype=np.int32)), ConstantOffset(0)
    )
    assert (parts.ns("server") // MS).tolist() == [6, 1]


@given(st.lists(st.tuples(*[INSTANT] * 8), min_size=1, max_size=5), st.integers(-(1 << 60), 1 << 60))
def test_the_parts_sum_to_the_client_srt_whatever_theta_is(instants: list[tuple[int, ...]], theta_ns: int) -> None:
    """Exactly, in integer nanoseconds, for any instants."""
    server, client = table([row[:4] for row in instants]), table([row[4:] for row in instants])
    parts = Parts(server, client, all_of(len(instants)), ConstantOffset(theta_ns))
    total: I64 = sum((parts.ns(name) for name in PART_NAMES), start=np.zeros(len(instants), dtype=np.int64))
    assert (total == client.t3 - client.t0).all()
    assert (total == srt_ns(client, "nfslat", "client")).all()
    assert (parts.ns("server") == srt_ns(server, "nfslat", "server")).all()


@given(st.lists(st.tuples(*[INSTANT] * 8), min_size=1, max_size=5), INSTANT, INSTANT)
def test_theta_moves_time_from_one_direction_to_the_other(instants: list[tuple[int, ...]], a: int, b: int) -> None:
    """Both network parts together, and the other three, are the same for any theta."""
    server, client = table([row[:4] for row in instants]), table([row[4:] for row in instants])
    one, two = (Parts(server, client, all_of(len(instants)), ConstantOffset(theta // 2)) for theta in (a, b))
    assert (one.ns("call_net") + one.ns("reply_net") == two.ns("call_net") + two.ns("reply_net")).all()
    assert all((one.ns(name) == two.ns(name)).all() for name in ("call_send", "server", "reply_send"))


# --- SRT --------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("definition", "side", "ms"),
    [("nfslat", "client", 12), ("nfslat", "server", 6), ("tshark", "client", 10), ("first", "server", 8)],
)
def test_srt_definitions(definition: str, side: str, ms: int) -> None:
    """Call in 0 to 2, reply in 8 to 12. nfslat: 0 to 12 at the client, 2 to 8 at the server. first: 0 to 8. tshark
    shows both where they are complete: 2 to 12."""
    one = ops(Op((0, 2, 8, 12), 7))
    assert srt_ns(one, definition, side).tolist() == [ms * MS]
    assert definition in SRT_DEFINITIONS


# --- Theta ------------------------------------------------------------------------------------------------------------


def test_theta_lies_between_the_fastest_call_and_the_fastest_reply() -> None:
    """Server 100 ahead. Op 1: call 3 on the way, reply 9. Op 2: call 8, reply 2. So theta is 98 to 103, and 100.5 is
    wrong by at most 2.5."""
    client = ops(Op((0, 0, 20, 20), 1), Op((30, 30, 50, 50), 2))
    server = ops(Op((103, 103, 111, 111), 1), Op((138, 138, 148, 148), 2))
    (segment,) = find_clock(server, client, all_of(2)).segments
    low, high = segment.lines.a_range(0)
    assert ((segment.y0_ns + low) / MS, (segment.y0_ns + high) / MS, segment.theta_ns / MS) == (98, 103, 100.5)


_GAP = st.integers(0, 10**9)


@given(st.lists(st.tuples(*[_GAP] * 8), min_size=1, max_size=8), st.integers(-(1 << 60), 1 << 60))
def test_causal_timelines_hold_the_true_theta(gaps: list[tuple[int, ...]], theta_ns: int) -> None:
    """Calls arrive after they were sent, replies too: the bounds hold the true theta, and no part is negative with it.
    Gaps: start, call sending, way there, serving, reply sending, way back, and how far first bytes run ahead."""
    client, server = [], []
    for start, call_send, there, serve, reply_send, back, early_call, early_reply in gaps:
        c0 = start
        c1 = c0 + call_send
        s1 = c1 + there
        s2 = s1 + serve
        s3 = s2 + reply_send
        c3 = s3 + back
        client.append((c0, c1, c3 - min(early_reply, c3 - s2), c3))
        server.append(tuple(t + theta_ns for t in (s1 - min(early_call, s1 - c0), s1, s2, s3)))
    one, two, every = table(server), table(client), all_of(len(gaps))
    (segment,) = find_clock(one, two, every).segments
    for t_ns in (segment.begin_ns, segment.t_ns, segment.end_ns):
        low, high = segment.bounds_at(t_ns)
        assert low <= theta_ns <= high
        assert low <= segment.theta_at(t_ns) <= high
    parts = Parts(one, two, every, ConstantOffset(theta_ns))
    assert all((parts.ns(name) >= 0).all() for name in PART_NAMES)
