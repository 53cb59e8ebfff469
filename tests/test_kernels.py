"""Inner loops, against numpy and against what is written down."""

from __future__ import annotations

from collections import defaultdict

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from nfslat.inflight.entropy import RESOLUTION_NS, RULED_OUT, Scores
from nfslat.kernels import join as kernels
from nfslat.kernels.compiled import native
from nfslat.kernels.dispatch import Order, Work, starts
from nfslat.kernels.exact import added, exact_sum, exact_sums
from nfslat.kernels.join import JoinSide, Several
from nfslat.kernels.levels import in_order
from nfslat.kernels.order import argsort, ranks, side_by_side
from nfslat.model.protocol import NULL
from nfslat.model.tables import I32

PLACE = np.array([4, 0, NULL, 2], dtype=np.int32)  # of four connections; the third is at one side only
NUMBER = np.array([0, 1, 0], dtype=np.int32)  # the first and the third kind are of one program
PLACES = 6
# Few XIDs, so that they come again; near each other, far apart, and at both ends.
OP = st.tuples(st.integers(0, 3), st.integers(0, 2), st.sampled_from((0, 1, 2, 3, 0x01000000, 0x02000000, 0xFFFFFFFF)))
OPS = st.lists(OP, max_size=30)
Joined = tuple[list[int], list[tuple[list[int], list[int]]]]


def side(ops: list[tuple[int, int, int]]) -> JoinSide:
    conn, kind, xid = np.array(ops, dtype=np.int64).reshape(-1, 3).T
    return JoinSide(conn.astype(np.int32), kind.astype(np.int16), xid.astype(np.uint32), PLACE, NUMBER)


def plain(found: tuple[I32, Several]) -> Joined:
    partner, several = found
    rows: dict[int, tuple[list[int], list[int]]] = {}
    for number, (side_rows, keys) in enumerate(zip(several[::2], several[1::2], strict=True)):
        for row, key in zip(side_rows.tolist(), keys.tolist(), strict=True):
            rows.setdefault(key, ([], []))[number].append(row)
    assert list(rows) == list(range(len(rows))), "keys are numbered from 0, and stand in that order"
    return partner.tolist(), list(rows.values())


def by_hand(server: list[tuple[int, int, int]], client: list[tuple[int, int, int]]) -> Joined:
    """What a join is, written down."""
    rows: dict[tuple[int, int], tuple[list[int], list[int]]] = defaultdict(lambda: ([], []))
    for number, ops in enumerate((server, client)):
        for row, (conn, kind, xid) in enumerate(ops):
            if PLACE[conn] != NULL:
                rows[int(PLACE[conn] + NUMBER[kind]), xid][number].append(row)
    partner, several = [NULL] * len(client), []
    for s, c in rows.values():
        if len(s) == len(c) == 1:
            partner[c[0]] = s[0]
        elif s and c:
            several.append((s, c))
    return partner, several


@given(OPS, OPS)
def test_a_join_is_what_it_says(server: list[tuple[int, int, int]], client: list[tuple[int, int, int]]) -> None:
    """Rows that are alone with their key are partners, rows that share one come together, and nothing else does."""
    assert plain(kernels.join(side(server), side(client), PLACES)) == by_hand(server, client)


@pytest.mark.parametrize("stretch", [1, 1_000_003, 1 << 40])
@pytest.mark.parametrize("rows", [0, 1, 30, 5000])
def test_rows_in_order_as_numpy_has_them(rows: int, stretch: int) -> None:
    """Equal numbers keep their order; few numbers, many, and some that are too far apart to be sorted by digits."""
    values = np.random.default_rng(rows).integers(-1000, 1000, rows) * stretch
    assert argsort(values).tolist() == np.argsort(values, kind="stable").tolist()
    assert argsort(np.sort(values)).tolist() == list(range(rows))


@given(st.lists(st.integers(-(1 << 62), 1 << 62) | st.integers(-9, 9), min_size=1), st.data())
def test_a_rank_is_what_sorting_puts_there(few: list[int], data: st.DataObject) -> None:
    """Of few numbers and many, alike and far apart, in any order."""
    times = data.draw(st.sampled_from((1, 100)))
    values = np.array(few * times, dtype=np.int64)
    places = data.draw(st.lists(st.integers(0, len(values) - 1), min_size=1, max_size=4))
    assert ranks(values, places) == [sorted(values.tolist())[place] for place in places]


@given(st.lists(st.tuples(st.integers(0, 1 << 40) | st.integers(0, 9), st.integers(-9, 9)), max_size=60), st.data())
def test_loops_over_columns_give_what_numpy_gives(few: list[tuple[int, int]], data: st.DataObject) -> None:
    """Events in order, groups side by side, and how far neighbours are apart: to the last bit."""
    made = few * data.draw(st.sampled_from((1, 30)))
    starts = np.array([start for start, _ in made], dtype=np.int64)
    ends = starts + np.array([more for _, more in made], dtype=np.int64)
    begin = starts.min(initial=np.iinfo(np.int64).max)
    events = in_order(starts, ends)
    assert events.starts.tolist() == np.sort(starts - begin).tolist()
    assert events.ends.tolist() == np.sort(np.maximum(starts, ends) - begin).tolist()

    count, groups = data.draw(st.sampled_from((7, 40_000))), (starts % 7).astype(np.int32)
    order, spans = side_by_side(len(groups), count, lambda at: groups[at])
    assert order.tolist() == np.argsort(groups, kind="stable").tolist()
    assert [span.stop - span.start for span in spans] == np.bincount(groups, minlength=count).tolist()

    near, rows = max(int(len(starts) ** 0.5), 2), np.argsort(starts, kind="stable")
    at, ordered = np.arange(len(rows)), starts[rows].astype(np.float64)
    if len(starts) < 8:
        assert not native.log_spacings(starts, 2.0).any()
    else:
        below, above = np.maximum(at - near, 0), np.minimum(at + near, len(rows) - 1)
        apart = np.maximum(ordered[above] - ordered[below], 2.0) * len(rows) / (above - below)
        assert native.log_spacings(starts, 2.0)[rows].tolist() == pytest.approx(np.log(apart).tolist(), rel=1e-15)


@given(st.lists(st.tuples(st.integers(0, 3), st.integers(-(1 << 63), (1 << 63) - 1) | st.integers(-9, 9))))
def test_sums_are_exact(rows: list[tuple[int, int]]) -> None:
    """However large they are, of each group and of all; and a part and the rest add up to the whole."""
    groups, values = (np.array([row[at] for row in rows], dtype=np.int64) for at in (0, 1))
    by_hand = [sum(value for group, value in rows if group == one) for one in range(4)]
    assert exact_sums(groups, values, 4).tolist() == by_hand
    assert exact_sum(values) == sum(by_hand)
    cut = len(rows) // 2
    parts = [exact_sums(groups[at], values[at], 4) for at in (slice(cut), slice(cut, None))]
    assert added(*parts).tolist() == by_hand
    few, odd = (values % 1000).astype(np.int32), values % 2 == 1
    assert exact_sums(groups, few, 4).tolist() == exact_sums(groups, few.astype(np.int64), 4).tolist()
    assert exact_sums(groups, odd, 4).tolist() == np.bincount(groups[odd], minlength=4).tolist()


CALL = st.tuples(st.integers(0, 50), st.integers(0, 900), st.integers(0, 2), st.integers(0, 1))  # times in us


@given(st.lists(CALL, min_size=30, max_size=90), st.integers(1, 12), st.sampled_from(list(Order)))
def test_how_regular_the_work_is(calls: list[tuple[int, int, int, int]], threads: int, order: Order) -> None:
    """The log density of what each call takes in a thread, by operation, with so much for each that has none; and
    nothing where too many have none."""
    after, took, stream, kind = np.array(calls, dtype=np.int64).T
    arrival = np.cumsum(after) * 1000
    work = Work.of(arrival, arrival + took * 1000, stream.astype(np.int32))
    score = Scores([(work, kind.astype(np.int16))], order, one_stream=False)
    start = starts(work, threads, order)
    forced, block = start == NULL, np.arange(len(calls)) * 24 // len(calls)
    count = np.bincount(block, minlength=24)
    share = np.bincount(block, forced, 24) / count
    if np.median(share) > 0.03:
        assert score(threads) == RULED_OUT
        return
    nats = np.zeros(len(calls))
    for one in range(2):
        rows, there = kind == one, (kind == one) & ~forced
        unqueued = native.log_spacings(took[rows] * 1000, RESOLUTION_NS).mean() if rows.any() else 0.0
        few = np.count_nonzero(there) < 8
        nats[there] = unqueued if few else native.log_spacings((work.reply_ns - start)[there], RESOLUTION_NS)
        nats[rows & forced] = unqueued + 7
    score(threads)
    assert score.known[threads].tolist() == pytest.approx((np.bincount(block, nats, 24) / count).tolist())
