"""A capture in parts: each op, message and TCP connection is in one of them, with what is known of it."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from queues import simulate
from several_hosts import Talk, at_servers

from nfslat import api
from nfslat.decode.parts import Parts
from nfslat.model.decoded import Decoded
from nfslat.model.tables import I64
from nfslat.results import Side

_TALKS = 5


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Decoded:
    """Of five clients of a server."""
    loads = (simulate(threads=4, workers=3, count=120, seed=seed) for seed in range(_TALKS))
    talks = [Talk(f"10.1.0.{20 + at}", "10.1.0.1", load) for at, load in enumerate(loads)]
    report = api.inspect(at_servers(tmp_path_factory.mktemp("parts") / "s.pcap", *talks))
    found = report.tables
    return (found if isinstance(found, Side) else found.server).decoded


@given(of_conn=st.lists(st.integers(-1, 2), min_size=_TALKS, max_size=_TALKS))
def test_parts_are_the_whole(whole: Decoded, of_conn: list[int]) -> None:
    """Whichever connections are of which part: rows are those of the whole in its order, what leads to an op or a
    connection leads to the same one, and what is of no part is in none."""
    numbers = np.array(of_conn, dtype=np.int64)
    parts = Parts(whole, numbers[whole.ops.conn], numbers, 3)
    seen = []
    for number in range(3):
        part, rows, conns = parts.part(number)
        seen += rows.tolist()
        assert conns.tolist() == np.flatnonzero(numbers == number).tolist()
        assert part.ops.connections == tuple(whole.ops.connections[conn] for conn in conns.tolist())
        for name in ("xid", "t0", "t3", "call_first_frame"):
            assert (getattr(part.ops, name) == getattr(whole.ops, name)[rows]).all()
        assert (conns[part.ops.conn] == whole.ops.conn[rows]).all()
        assert (parts.new_row[rows] == np.arange(len(rows))).all()
        tcp = whole.details.tcp.take(numbers[whole.details.tcp.conn] == number)
        assert (conns[part.details.tcp.conn] == tcp.conn).all()
        assert (part.details.tcp.packets == tcp.packets).all()
        files = whole.details.files
        kept = files.take(numbers[whole.ops.conn[files.op]] == number)
        assert (rows[part.details.files.op] == kept.op).all()
    assert sorted(seen) == np.flatnonzero(numbers[whole.ops.conn] >= 0).tolist()


def _every(decoded: Decoded) -> I64:
    return np.zeros(len(decoded.ops), dtype=np.int64)


def test_one_part_is_the_whole(whole: Decoded) -> None:
    """With all in one part nothing is another row than before, and as many messages are in each state."""
    part = Parts(whole, _every(whole), np.zeros(_TALKS, dtype=np.int64), 1).part(0)
    assert part.rows.tolist() == list(range(len(whole.ops)))
    assert part.decoded.states == whole.states
    assert (part.decoded.details.loads.bytes == whole.details.loads.bytes).all()
