"""Long columns block by block: the results are those of the whole column, whatever its length."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from wire_tables import READ, WRITE, op, ops

from nfslat.kernels.order import side_by_side
from nfslat.model import blocks as columns
from nfslat.model.blocks import each_block, filled, tally


@pytest.fixture(autouse=True)
def _short_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(columns, "_BLOCK", 3)


@pytest.mark.parametrize("rows", [0, 1, 3, 4, 6, 7, 20])
def test_blocks_are_the_column_in_order(rows: int) -> None:
    """Every row is in one block, blocks come in order, and a column filled by blocks is whole."""
    assert [row for block in each_block(rows, lambda at: list(range(rows))[at]) for row in block] == list(range(rows))
    assert filled(rows, np.int64, lambda at: np.arange(rows)[at] * 2).tolist() == [2 * row for row in range(rows)]


@given(st.lists(st.integers(0, 5), max_size=40), st.booleans())
def test_groups_side_by_side(groups: list[int], many: bool) -> None:
    """The order takes group after group and keeps the rows of each; a group without rows has an empty place."""
    made, count = np.array(groups, dtype=np.int32), 1000 if many else 6
    order, places = side_by_side(len(made), count, lambda at: made[at])
    assert order.tolist() == sorted(range(len(groups)), key=lambda row: groups[row])
    assert [made[order[place]].tolist() for place in places] == [[n] * groups.count(n) for n in range(count)]
    assert tally(len(made), count, lambda at: made[at]).tolist() == [groups.count(n) for n in range(count)]


@given(st.lists(st.tuples(st.integers(0, 3), st.integers(0, 1), st.sampled_from((READ, WRITE))), max_size=20))
def test_classes_count_the_ops_and_spread_back_to_them(made: list[tuple[int, int, int]]) -> None:
    """Each class is a connection, direction and kind that occur; what is said of it is said of each of its ops."""
    table = ops(*(op(n, n + 1, n, conn=conn, direction=way, op=what) for n, (conn, way, what) in enumerate(made)))
    classes = table.classes
    assert int(classes.count.sum()) == len(table)
    assert (classes.count > 0).all()
    assert (table.spread(classes.conn) == table.conn).all()
    assert (table.spread(classes.direction) == table.direction).all()
    assert (table.spread(classes.kind) == table.kind).all()
    assert (table.spread(classes.count) == [made.count(one) for one in made]).all()
