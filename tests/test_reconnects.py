"""Ops whose call came again where a connection had ended: they waited for a new one, and the others did not."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from wire_tables import MS, Op, op, ops

from nfslat.model.details import Details, Tcp, no_details
from nfslat.model.protocol import NULL
from nfslat.model.tables import Loose, State
from nfslat.wire.reconnects import sent_on_a_new_connection

RETRANSMITTED, ORPHAN = State.RETRANSMITTED, State.NO_CALL
Again = tuple[int, int, bool, State]  # row of the op, connection that it came on, is a reply, state


def _details(reconnected: Sequence[int]) -> Details:
    """Four connections, of which some began anew between the same ports."""
    rows = [(conn, 0) for conn in range(4)] + [(conn, 1) for conn in reconnected]
    columns = {name: [0] * len(rows) for name in Tcp.columns()}
    columns |= {"conn": [conn for conn, _ in rows], "reconnect": [number for _, number in rows]}
    return replace(no_details(), tcp=Tcp.from_columns(columns))


def _late(rows: Sequence[Op], again: Sequence[Again], reconnected: Sequence[int] = ()) -> list[int]:
    """Rows of the ops that were sent on a new connection."""
    table = ops(*rows)
    columns = {
        "conn": [conn for _, conn, _, _ in again],
        "direction": [int(is_reply) for _, _, is_reply, _ in again],
        "is_reply": [int(is_reply) for _, _, is_reply, _ in again],
        "xid": [0] * len(again),
        "kind": [NULL] * len(again),
        "state": [state for _, _, _, state in again],
        "op": [row for row, _, _, _ in again],
        "first_frame": [100 + n for n in range(len(again))],
        "last_frame": [100 + n for n in range(len(again))],
        "first_ns": [1_000 * MS] * len(again),
        "last_ns": [1_000 * MS] * len(again),
    }
    loose = Loose.from_columns(columns, kinds=table.kinds, connections=table.connections)
    transmissions = np.ones(len(table), dtype=np.int16)
    for row, _, is_reply, _ in again:
        if row != NULL and not is_reply:
            transmissions[row] += 1
    found = sent_on_a_new_connection(replace(table, transmissions=transmissions), loose, _details(reconnected))
    assert (found.dtype, len(found)) == (np.bool_, len(table))
    return np.flatnonzero(found).tolist()


THREE = [op(0, 1, 1), op(1, 1_500, 2), op(2, 3, 3)]


def test_a_call_that_came_again_from_the_same_port() -> None:
    """NFSv3 connects anew from the port that it had: the second connection between the same ends tells."""
    assert _late(THREE, [(1, 0, False, RETRANSMITTED)], reconnected=[0]) == [1]


def test_a_call_that_came_again_from_another_port() -> None:
    """NFSv4.1 takes a new port: the call is on another connection than its op."""
    assert _late(THREE, [(1, 2, False, RETRANSMITTED)]) == [1]


def test_a_call_that_came_again_on_the_same_connection_waited_for_no_new_one() -> None:
    """The client's timer ran out; the connection stood."""
    assert _late(THREE, [(1, 0, False, RETRANSMITTED)]) == []
    assert _late(THREE, [(1, 0, False, RETRANSMITTED)], reconnected=[3]) == []


def test_what_is_no_call_sent_again_does_not_count() -> None:
    """Replies, copies, and messages of no op; and nothing at all."""
    again = [(1, 2, True, RETRANSMITTED), (1, 2, False, State.DUPLICATE_FRAME), (NULL, 2, False, RETRANSMITTED)]
    assert _late(THREE, again[:1]) == []
    assert _late(THREE, again[1:]) == []
    assert _late(THREE, [(NULL, 2, True, ORPHAN)]) == []
    assert _late(THREE, []) == []
    assert _late([], []) == []


@given(
    st.lists(st.integers(0, 3), min_size=1, max_size=10),
    st.lists(st.tuples(st.integers(0, 9), st.integers(0, 3), st.booleans(), st.sampled_from(list(State))), max_size=12),
    st.sets(st.integers(0, 3)),
)
def test_only_ops_that_were_sent_again_are_late(conns: list[int], again: list[Again], reconnected: set[int]) -> None:
    """Whatever came again where: each late op has a call that was sent again on a connection that is not its first."""
    again = [one for one in again if one[0] < len(conns)]
    late = _late([op(n, n + 1, n, conn=conn) for n, conn in enumerate(conns)], again, sorted(reconnected))
    expected = {
        row
        for row, conn, is_reply, state in again
        if state == RETRANSMITTED and not is_reply and (conn != conns[row] or conn in reconnected)
    }
    assert set(late) == expected
