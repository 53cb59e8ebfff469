"""What time is charged to in blocks, joined: what one block of all ops has, also of the slowest 1 %."""

from __future__ import annotations

import functools
import itertools
import operator
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from nfslat.decompose import PART_NAMES
from nfslat.model.causes import CAUSES
from nfslat.tally import charges
from nfslat.tally.charges import ChargeTally
from nfslat.wire.charges.analysis import Charged
from nfslat.wire.charges.claims import Charges
from nfslat.wire.charges.places import PLACES


class _Capture:
    """Matched ops with parts of up to 60 ns, some of which are charged."""

    def __init__(self, seed: int, ops: int) -> None:
        rng = np.random.default_rng(seed)
        self.parts_ns = rng.integers(0, 60, (len(PART_NAMES), ops))
        ends = rng.random((ops, len(PLACES), len(CAUSES))) < 0.01
        self.row, self.place, self.cause = (one.astype(np.int64) for one in np.nonzero(ends))
        self.ns = rng.integers(1, 20, len(self.row))

    def block(self, begin: int, end: int) -> Any:
        """As much of an `Analysis` as is looked at, of the ops in these rows."""
        parts_ns, mine = self.parts_ns[:, begin:end], (self.row >= begin) & (self.row < end)
        parts: Any = SimpleNamespace(matched=range(begin, end), all_ns=lambda at: tuple(parts_ns[:, at]))
        charged = Charged(
            rare=Charges(
                self.row[mine] - begin,
                self.place[mine].astype(np.int8),
                self.cause[mine].astype(np.int8),
                self.ns[mine],
            ),
            parts=parts,
            net_ns={name: parts_ns[PART_NAMES.index(name)] for name in ("call_net", "reply_net")},
            half_trips_ns=np.full(end - begin, 5),
            pauses=(),
            plateaus=(),
            delayed_acks={},
        )
        srt_ns = parts_ns.sum(axis=0)
        return SimpleNamespace(matched=range(begin, end), parts=parts, charges=charged, client_srt_ns=srt_ns)


@given(st.integers(0, 99), st.integers(1, 400), st.lists(st.integers(1, 399), max_size=3, unique=True))
def test_blocks_have_what_the_whole_has(seed: int, ops: int, cuts: list[int]) -> None:
    """To the last digit, wherever it is cut, and however blocks are joined; the slowest are those of all blocks."""
    capture, edges = _Capture(seed, ops), [0, *sorted(cut for cut in cuts if cut < ops), ops]
    blocks = [ChargeTally.of(capture.block(begin, end)) for begin, end in itertools.pairwise(edges)]
    whole = ChargeTally.of(capture.block(0, ops)).rows()
    assert functools.reduce(operator.add, blocks, ChargeTally.empty()).rows() == whole
    assert functools.reduce(lambda after, before: before + after, reversed(blocks)).rows() == whole
    assert whole is not None
    slowest = np.argsort(-capture.parts_ns.sum(axis=0), kind="stable")[: max(1, ops // 100)]
    for number, part in enumerate(PART_NAMES):
        rows = [row for row in whole if row.part == part]
        assert sum(row.total_ms for row in rows) == pytest.approx(capture.parts_ns[number].sum() / 1e6)
        assert sum(row.slowest_ms for row in rows) == pytest.approx(capture.parts_ns[number, slowest].mean() / 1e6)


def test_no_more_slow_ops_are_kept_than_there_is_room_for(monkeypatch: pytest.MonkeyPatch) -> None:
    """The mean is over the slowest of all that are kept."""
    monkeypatch.setattr(charges, "MOST_SLOW_OPS", 3)
    capture = _Capture(1, 1000)
    tally = ChargeTally.of(capture.block(0, 600), 3) + ChargeTally.of(capture.block(600, 1000), 3)
    rows = tally.rows()
    assert rows is not None
    slowest = np.sort(capture.parts_ns.sum(axis=0))[-3:].mean() / 1e6
    assert sum(row.slowest_ms for row in rows if row.part in PART_NAMES) == pytest.approx(slowest)


def test_what_is_not_known_of_a_block_is_not_known_of_all() -> None:
    """A block whose clocks fit nothing makes all of it unknown."""
    dark: Any = SimpleNamespace(charges=None)
    tally = ChargeTally.of(dark)
    assert (ChargeTally.of(_Capture(0, 9).block(0, 9)) + tally).rows() is None
    assert ChargeTally.empty().rows() == []
