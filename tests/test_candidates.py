"""Ops that share an XID: the pairs that are looked at, and which of them must belong together."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from nfslat.kernels.join import Several
from nfslat.match import candidates
from nfslat.match.candidates import in_order, pairs_of_keys, pairs_within


@pytest.fixture(autouse=True)
def _short_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(candidates, "_CELLS", 3)


@given(st.lists(st.tuples(st.integers(0, 9), st.integers(0, 9)).map(sorted), max_size=8))
def test_each_number_with_each_of_its_range(ranges: list[list[int]]) -> None:
    """All pairs that are kept come out, in order, in however many blocks; ranges may be empty or long."""
    begin, end = np.array(ranges, dtype=np.int64).reshape(-1, 2).T
    one, two = pairs_within(begin, end, lambda one, two: (one + two) % 3 != 0)
    wanted = [(i, at) for i, (first, last) in enumerate(ranges) for at in range(first, last) if (i + at) % 3]
    assert list(zip(one.tolist(), two.tolist(), strict=True)) == wanted


def _several(counts: list[tuple[int, int]]) -> Several:
    """Keys that the server has so often and the client so often; rows are numbered through."""
    keys = [np.repeat(np.arange(len(counts)), [count[side] for count in counts]) for side in (0, 1)]
    return Several(np.arange(len(keys[0])), keys[0], np.arange(len(keys[1])), keys[1])


@given(st.lists(st.tuples(st.integers(1, 4), st.integers(1, 4)), max_size=6), st.integers(0, 40))
def test_pairs_of_a_key_and_of_the_rarest_keys_first(counts: list[tuple[int, int]], most: int) -> None:
    """Only rows of one key are paired; where there are too many pairs those of the rarest keys are looked at."""
    several = _several(counts)
    i, j, looked_at = pairs_of_keys(several, most=most)
    cells = [one * two for one, two in counts]
    left = most
    for key in sorted(range(len(counts)), key=lambda key: cells[key]):
        left -= cells[key]
        assert looked_at[key] == (left >= 0)
    wanted = [
        (a, b)
        for a, b in product(range(len(several.server)), range(len(several.client)))
        if several.server_key[a] == several.client_key[b] and looked_at[several.server_key[a]]
    ]
    assert list(zip(i.tolist(), j.tolist(), strict=True)) == wanted


def _by_hand(may: set[tuple[int, int]]) -> set[tuple[int, int]]:
    """What belongs together, written down: whatever hangs together is looked at by itself."""
    found, left = set(), set(may)
    while left:
        part = {left.pop()}
        while more := {pair for pair in left if any(pair[0] == a or pair[1] == b for a, b in part)}:
            part |= more
            left -= more
        ones, twos = sorted({a for a, _ in part}), sorted({b for _, b in part})
        if len(ones) == len(twos) and len(part) == len(ones) * len(twos):
            found |= set(zip(ones, twos, strict=True))
    return found


@given(st.sets(st.tuples(st.integers(0, 5), st.integers(0, 5)), max_size=20))
def test_what_could_all_belong_to_each_other_does_so_in_order(may: set[tuple[int, int]]) -> None:
    """Where each of n could be each of n others and nothing else, the first is the first's; anything else is left."""
    pairs = np.array(sorted(may), dtype=np.int64).reshape(-1, 2)
    found = in_order(pairs[:, 0], pairs[:, 1], 6, 6)
    assert set(zip(found.one.tolist(), found.two.tolist(), strict=True)) == _by_hand(may)
    assert len(found.one) == len(_by_hand(may))
    for group in set(found.group.tolist()):
        rows = np.flatnonzero(found.group == group)
        assert rows.tolist() == list(range(rows[0], rows[-1] + 1)), "rows of a group stand together"
        assert (np.diff(found.one[rows]) > 0).all()
