"""What is in flight in blocks, joined: levels add up, and limits are of the block that has most of the time."""

from __future__ import annotations

from typing import Any

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from msgspec import structs

from nfslat.inflight.levels import Levels
from nfslat.tally.inflight import InFlightTally
from nfslat.tally.leading import Leading, Rows, added_rows

columns = st.lists(st.integers(0, 9), min_size=1, max_size=4).map(lambda some: np.array(some, dtype=np.int64))
rows: st.SearchStrategy[Rows[str]] = st.dictionaries(
    st.sampled_from("abc"),
    st.tuples(st.text("xyz", max_size=2), st.integers(1, 9)).map(lambda one: Leading(*one, one[1])),
)
sums = st.tuples(st.integers(0, 99).map(float), st.integers(0, 9))
tallies = st.builds(
    InFlightTally,
    st.fixed_dictionaries({name: st.builds(Levels, columns, columns) for name in ("server", "client")}),
    rows,
    st.dictionaries(st.sampled_from(["server", "waiting"]), sums),
    st.integers(0, 9),
    st.integers(0, 9),
    rows,
    rows,
    rows,
)


def _plain(tally: InFlightTally) -> Any:
    levels = {name: [column.tolist() for column in of] for name, of in tally.levels.items()}
    return {**structs.asdict(tally), "levels": levels}


@given(tallies, tallies, tallies)
def test_blocks_are_joined_in_any_grouping(a: InFlightTally, b: InFlightTally, c: InFlightTally) -> None:
    """(a + b) + c is a + (b + c), and nothing added changes no figure."""
    assert _plain((a + b) + c) == _plain(a + (b + c))
    assert _plain(a + InFlightTally.empty()) == _plain(a)


def test_a_row_is_of_the_block_in_which_it_counts_most() -> None:
    """However little it counts in each of many others; of two that count as much it is the first."""
    row: Rows[str] = {"a": Leading("most", 5, 5)}
    for _ in range(3):
        row = added_rows({"a": Leading("less", 4, 4)}, row)
    row = added_rows(row, {"a": Leading("as much", 5, 5)})
    assert row == {"a": Leading("most", 5, 22)}
