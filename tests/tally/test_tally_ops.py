"""Sums of operations: parts of the rows, however they are cut, give what the whole gives, to the last digit."""

from __future__ import annotations

import pickle
from collections.abc import Sequence
from functools import reduce
from operator import add
from typing import Any

import numpy as np
import pytest
from captures import SAMPLES
from hypothesis import given
from hypothesis import strategies as st

import nfslat
from nfslat.model.protocol import NULL
from nfslat.model.tables import I64
from nfslat.results import Analysis
from nfslat.tally import durations
from nfslat.tally.columns import NOT_TOLD, OpColumns
from nfslat.tally.durations import SIDES
from nfslat.tally.keys import Grouping, by_operation
from nfslat.tally.ops import EVERYTHING, MOVED, OpFigures, OpSums
from nfslat.tally.sketch import RELATIVE_ERROR

ALL = (*EVERYTHING, MOVED)
_SIDES = ("client", "server", "network")


def figures(row: OpFigures) -> tuple[Any, ...]:
    """All that is told of a group."""
    return (
        row.count,
        row.bytes,
        dict(row.sums),
        row.parts,
        row.queue_ms,
        row.one_way_error_ms,
        [row.mean_ms(side) for side in _SIDES],
        [row.summary(side) for side in _SIDES],
    )


def told(sums: OpSums) -> dict[Any, tuple[Any, ...]]:
    """The same by group, of those that have ops."""
    return {row.label: figures(row) for row in sums.rows() if row.count}


# ---- Real captures ----


@pytest.fixture(scope="module", params=["packet-loss", "server-threads", "session-slots"])
def analysis(request: pytest.FixtureRequest) -> Analysis:
    folder = next(path.parent for path in SAMPLES if path.parent.name == request.param)
    return nfslat.correlate(str(folder / "server.pcap.gz"), str(folder / "client.pcap.gz")).correlation


def _of_rows(c: Analysis, rows: I64) -> OpSums:
    key = by_operation(c.client.ops.kinds, c.kind[rows])
    return OpSums.of(OpColumns.of(c, rows), key, ALL, SIDES)


@given(st.data())
def test_parts_of_a_capture_give_the_figures_of_the_whole(analysis: Analysis, data: st.DataObject) -> None:
    """Each op in any of some parts, which are joined in any order: counts, means, percentiles, parts, errors, waits."""
    c = analysis
    seed, parts = data.draw(st.integers(0, 1 << 30)), data.draw(st.integers(1, 6))
    rng = np.random.default_rng(seed)
    part = rng.integers(0, parts, len(c.matched))
    joined = reduce(add, [_of_rows(c, np.flatnonzero(part == at)) for at in rng.permutation(parts)], OpSums.empty())
    whole = OpSums.of(OpColumns.of(c), by_operation(c.client.ops.kinds, c.kind), ALL, SIDES)
    assert told(joined) == told(whole)
    assert told(joined.total()) == told(whole.total())


# ---- Made operations ----

_DURATION = st.integers(-(1 << 20), 1 << 40) | st.integers(-(1 << 61), 1 << 62)
_OP = st.tuples(
    st.sampled_from("abcd"),  # group
    _DURATION,  # client
    st.integers(0, 1 << 30),  # server
    st.sampled_from([NULL, NOT_TOLD, 0, 7, 1 << 33]),  # wait for a thread
    st.sampled_from([NULL, 0, 4096]),  # size
    st.integers(0, 3),  # sent again
)
Op = tuple[str, int, int, int, int, int]


def sums_of(ops: Sequence[Op]) -> OpSums:
    """The sums of made ops, by their group."""
    labels = sorted({op[0] for op in ops})
    group = np.array([labels.index(op[0]) for op in ops], dtype=np.int64)
    client, server, wait, size, again = np.array([op[1:] for op in ops], dtype=np.int64).reshape(-1, 5).T
    columns = OpColumns(
        len(ops),
        server_ns=server.__getitem__,
        client_ns=client.__getitem__,
        wait_ns=wait.__getitem__,
        parts_ns=lambda at: [client[at]] * 5,
        resent_ns=lambda at: [server[at], wait[at]],
        sizes=size.__getitem__,
        again=again.__getitem__,
    )
    return OpSums.of(columns, Grouping(group, labels), ALL, SIDES)


@given(st.lists(_OP, max_size=60))
def test_sums_are_those_of_pythons_integers(ops: list[Op]) -> None:
    """However large; and a wait that is not known is none of 0."""
    for row in sums_of(ops).rows():
        own = [op for op in ops if op[0] == row.label]
        assert row.count == len(own)
        assert row.sums["client_ns"] == sum(op[1] for op in own)
        assert row.sums["server_ns"] == sum(op[2] for op in own)
        assert row.sums["negative"] == sum(op[1] < op[2] for op in own)
        waits = [op[3] for op in own if op[3] >= 0]
        assert (row.sums["waits"], row.sums["wait_ns"]) == (len(waits), sum(waits))
        assert row.sums["told"] == sum(op[3] != NOT_TOLD for op in own)
        assert row.sums["bytes"] == sum(op[4] for op in own if op[4] != NULL)
        assert (row.sums["without_size"], row.sums["again"]) == (
            sum(op[4] == NULL for op in own),
            sum(op[5] for op in own),
        )


@given(st.lists(st.lists(_OP, max_size=20), max_size=6), st.integers(0, 6))
def test_joining_may_be_done_in_any_order_and_in_steps(parts: list[list[Op]], cut: int) -> None:
    """Associative and commutative, and nothing joined changes nothing."""
    whole = told(sums_of([op for part in parts for op in part]))
    some = [sums_of(part) for part in parts]
    first, second = (reduce(add, few, OpSums.empty()) for few in (some[:cut], some[cut:]))
    assert told(first + second) == told(second + first) == whole
    assert told(reduce(add, reversed(some), OpSums.empty())) == whole


@given(st.lists(st.lists(_OP, max_size=20), max_size=6), st.integers(0, 6))
def test_past_the_bound_joining_may_be_done_in_steps_too(parts: list[list[Op]], cut: int) -> None:
    """Percentiles of many ops are those of a sketch, however the parts were joined; sums stay exact."""
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(durations, "MOST_EXACT", 10)
        some = [sums_of(part) for part in parts]
        first, second = (reduce(add, few, OpSums.empty()) for few in (some[:cut], some[cut:]))
        joined = reduce(add, some, OpSums.empty())
        assert told(first + second) == told(second + first) == told(joined)
        whole = told(sums_of([op for part in parts for op in part]))
        for label, (*sums, made_of_sides) in told(joined).items():
            *exact_sums, exact_of_sides = whole[label]
            assert sums == exact_sums
            for made, exact in zip(made_of_sides, exact_of_sides, strict=True):
                assert made.max == exact.max
                if exact.p50 > 0:
                    assert made.p50 == pytest.approx(exact.p50, rel=RELATIVE_ERROR)


@given(st.lists(st.lists(_OP, max_size=20), max_size=4))
def test_coarser_groups_are_sums_of_finer_ones(parts: list[list[Op]]) -> None:
    """Also of groups that do not stand side by side."""
    ops = [op for part in parts for op in part]
    joined = reduce(add, [sums_of(part) for part in parts], OpSums.empty())
    coarse = joined.by(lambda label: "odd" if label in "ac" else "even")
    wanted = sums_of([("odd" if op[0] in "ac" else "even", *op[1:]) for op in ops])
    assert told(coarse) == told(wanted)


def test_a_mean_wait_needs_nearly_all_ops_to_be_told_of() -> None:
    """One in twenty may be of a load of the server that does not tell; one that has no wait of its own is no hole."""
    known: Op = ("a", 10, 5, 4, 0, 0)
    has_none, dark = (*known[:3], NULL, 0, 0), (*known[:3], NOT_TOLD, 0, 0)
    (row,) = sums_of([known] * 2 + [has_none] * 17 + [dark]).rows()
    assert row.queue_ms == pytest.approx(4e-6)
    (row,) = sums_of([known] * 2 + [has_none] * 16 + [dark] * 2).rows()
    assert row.queue_ms is None
    (row,) = sums_of([has_none] * 3).rows()
    assert row.queue_ms is None


def test_what_is_not_known_of_some_ops_is_not_known_of_all() -> None:
    """Waits to be sent again, and how far one-way times may be off."""
    ops = sums_of([("a", 10, 5, 4, 0, 0)])
    ns = np.array([9])
    dark = OpSums.of(
        OpColumns(1, ns.__getitem__, ns.__getitem__), Grouping(np.zeros(1, dtype=np.int64), ["a"]), ALL, SIDES
    )
    (before,), (after,) = ops.rows(), (ops + dark).rows()
    assert before.parts.call_retrans_wait == 5e-6
    assert after.parts.call_retrans_wait is None
    assert before.one_way_error_ms is None


def test_sums_of_other_measures_do_not_join() -> None:
    """A mean over both would be of neither."""
    with pytest.raises(ValueError, match="do not add up"):
        sums_of([("a", 1, 1, 0, 0, 0)]) + OpSums.of(OpColumns(0, np.zeros(0).__getitem__), Grouping(None, ["a"]))


def test_many_ops_take_little_memory_as_sketches() -> None:
    """They go from a worker to the process that compares all clients."""
    rng = np.random.default_rng(2)
    ops = [("a", int(ns), int(ns) // 2, 0, 0, 0) for ns in rng.lognormal(14, 1.5, 20_000)]
    made = sums_of(ops).as_sketches()
    assert len(pickle.dumps(made)) < 30_000
    assert told(pickle.loads(pickle.dumps(made))) == told(made)  # noqa: S301 - what was written here


def test_parts_past_the_bound_are_not_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    """What became a sketch frees the memory of its rows; groups with few ops stay exact."""
    monkeypatch.setattr(durations, "MOST_EXACT", 100)
    block = sums_of([*[("a", 10, 5, 4, 0, 0)] * 90, *[("b", 20, 5, 4, 0, 0)] * 9])
    joined = block + block
    assert joined.durations is not None
    assert list(joined.durations.sketches) == [joined.labels.index("a")]
    assert sum(len(part.columns["client"]) for part in joined.durations.parts) == 18
