"""A matching, held against a clock: what cannot be the same op is told by time. Times are milliseconds."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest
from examples import examples
from hypothesis import given, settings
from hypothesis import strategies as st
from wire_tables import MS, Op, op, ops, truths

from nfslat.match.match import Matching, match
from nfslat.match.settle import settle
from nfslat.model.protocol import NULL
from nfslat.model.tables import I64, Bool, Miss

ALWAYS = (-(1 << 62), 1 << 62)
AHEAD_MS = 3_600_000  # the server's clock
OK, OUT, NOT_S, NOT_C = Miss.MATCHED, Miss.OUTSIDE_OVERLAP, Miss.NOT_CAPTURED_AT_SERVER, Miss.NOT_CAPTURED_AT_CLIENT
AMBIGUOUS = Miss.AMBIGUOUS


class Ahead:
    """The server's clock is ahead by an hour, give or take an error; `unsure` are rows for which that does not hold."""

    def __init__(self, error_ms: float | None = 0.1, unsure: tuple[int, ...] = ()) -> None:
        self.error_ns = None if error_ms is None else round(error_ms * MS)
        self.unsure = unsure

    def is_sure(self, rows: I64) -> Bool:
        return ~np.isin(rows, self.unsure)

    def on_client_ns(self, rows: I64, t_ns: I64) -> I64:
        assert len(rows) == len(t_ns)
        return t_ns - AHEAD_MS * MS


def at_server(row: Op, late_ms: float = 1) -> Op:
    """The same op as the server sees it, its clock an hour ahead."""
    t0, _, _, t3 = row.at_ms
    begins, ends = AHEAD_MS + t0 + late_ms, AHEAD_MS + t3 - late_ms
    return row.but(at_ms=(begins, begins, ends, ends))


def run(
    server: list[Op],
    client: list[Op],
    error_ms: float | None = 0.1,
    *,
    client_ms: tuple[float, float] | None = None,
    unsure: tuple[int, ...] = (),
) -> tuple[Matching, Matching]:
    """Before and after the clock. The client's capture ran during `client_ms`, the server's always."""
    s, c = ops(*server), ops(*client)
    ran = ALWAYS if client_ms is None else (round(client_ms[0] * MS), round(client_ms[1] * MS))
    before = match(s, c, ALWAYS, ran)
    after = settle(s, c, before, Ahead(error_ms, unsure))
    for fate, rows in ((after.unmatched.server, after.matched.server), (after.unmatched.client, after.matched.client)):
        assert sorted(np.flatnonzero(fate == OK).tolist()) == sorted(rows.tolist()), "matched + missed = processed"
    return before, after


def pairs(found: Matching) -> list[tuple[int, int]]:
    return list(zip(found.matched.server.tolist(), found.matched.client.tolist(), strict=True))


def fates(found: Matching) -> tuple[list[int], list[int]]:
    return found.unmatched.server.tolist(), found.unmatched.client.tolist()


def test_a_pair_of_different_times_is_none() -> None:
    """XID 7 asked for the same twice, and each capture lacks another one of the two: what came out is undone."""
    client = [op(0, 5, 7), op(10, 15, 8)]
    before, after = run([at_server(op(60_000, 60_005, 7)), at_server(client[1])], client)
    assert len(before.matched) == 2
    assert pairs(after) == [(0, 1)]
    assert fates(after) == ([OK, NOT_C], [NOT_S, OK])


def test_what_is_undone_may_be_outside_of_the_other_capture() -> None:
    """The client's capture had ended when the server saw that op: it was not lost, it was not looked for."""
    client = [op(0, 5, 7), op(10, 15, 8)]
    server = [at_server(op(60_000, 60_005, 7)), at_server(client[1])]
    assert fates(run(server, client, client_ms=(0, 1000))[1]) == ([OK, OUT], [NOT_S, OK])


def test_an_order_that_does_not_hold() -> None:
    """Three of the same; the server lacks the first, the client the last: as many on both sides, and as far from each
    other, so that only a clock can tell that the first of one is the second of the other."""
    rows = [op(0, 5, 7), op(60_000, 60_005, 7), op(120_000, 120_005, 7)]
    other = [op(10, 15, 8), op(130_000, 130_005, 9)]
    server = [at_server(row) for row in (*rows[1:], *other)]
    before, after = run(server, [*rows[:2], *other])
    assert before.by_order.tolist() == [0, 2]
    assert pairs(after) == [(0, 1), (1, 2), (3, 3)]
    assert fates(after) == ([OK, OK, NOT_C, OK], [NOT_S, OK, OK, OK])
    assert len(after.by_order) == 0


def test_several_candidates_of_which_one_was_under_way() -> None:
    """The server saw one of three equal requests: it is the one whose time it is, and the others were not captured."""
    client = [op(0, 5, 7), op(60, 65, 7), op(120, 125, 7)]
    before, after = run([at_server(client[1])], client)
    assert set(fates(before)[1]) == {AMBIGUOUS}
    assert fates(after) == ([OK], [NOT_S, OK, NOT_S])


def test_candidates_within_the_error_stay_ambiguous() -> None:
    """The clock is known to ten milliseconds, the two candidates are five apart: nobody can tell."""
    client = [op(0, 2, 7), op(5, 7, 7)]
    assert fates(run([at_server(client[0], 0.1)], client, error_ms=10)[1]) == ([AMBIGUOUS], [AMBIGUOUS, AMBIGUOUS])


def test_arguments_still_count() -> None:
    """The clock does not tell the two apart, their offsets do."""
    client = [op(0, 2, 7, offset=0), op(5, 7, 7, offset=4096)]
    assert pairs(run([at_server(client[1], 0.1)], client, error_ms=10)[1]) == [(0, 1)]


@pytest.mark.parametrize("at_client", [True, False], ids=["client", "server"])
def test_the_call_of_one_op_with_the_reply_of_another(at_client: bool) -> None:
    """One capture lost the first one's reply and the second one's call, and made one long op of the rest. The other
    capture shows that there were two: that op has no partner."""
    rows = [op(0, 5, 7), op(60, 65, 7, offset=4096)]
    more = [op(10, 12, 8)]
    long = [op(0, 65, 7), *more]
    server, client = (rows + more, long) if at_client else (long, rows + more)
    before, after = run([at_server(row) for row in server], client)
    for found in (before, after):
        assert len(found.matched) == 1
    assert AMBIGUOUS in fates(after)[1 if at_client else 0]


def test_a_late_stamp_is_no_reason() -> None:
    """XIDs are not used again; one op's packets got their times late at the server: it stays matched."""
    client = [op(10 * i, 10 * i + 2, i) for i in range(20)]
    server = [at_server(row) for row in client[1:]] + [at_server(op(50, 52, 0))]
    before, after = run(server, client)
    assert after is before
    assert len(after.matched) == 20


def test_an_op_that_was_under_way_when_a_clock_was_set() -> None:
    """Nobody knows what time it was for that op: a pair stays, and what has several candidates stays ambiguous."""
    client = [op(0, 5, 7), op(60, 65, 8), op(120, 125, 8)]
    server = [at_server(op(60_000, 60_005, 7)), at_server(client[1])]
    after = run(server, client, unsure=(0, 1))[1]
    assert pairs(after) == [(1, 0)]
    assert fates(after)[0] == [AMBIGUOUS, OK]


def test_nothing_is_known_of_the_clocks() -> None:
    """No clock: the matching is what it was."""
    before, after = run([at_server(op(60_000, 60_005, 7))], [op(0, 5, 7)], error_ms=None)
    assert after is before


def test_very_many_at_once_are_not_told_apart() -> None:
    """More candidates than can be told apart in the time of one op: they are ambiguous, all of them."""
    client = [op(i, i + 0.5, 7) for i in range(200)]
    after = run([at_server(op(0, 199.5, 7)), at_server(op(300, 301, 8))], [*client, op(300, 301, 8)])[1]
    assert fates(after)[0] == [AMBIGUOUS, OK]
    assert OK not in fates(after)[1][:-1]


@st.composite
def twins(draw: st.DrawFn) -> tuple[list[Op], list[Op]]:
    """Ops of three XIDs, used one after the other; each side lacks some, and shows some without arguments."""
    server, client = [], []
    for number in range(draw(st.integers(1, 14))):
        took = draw(st.integers(3, 8))
        row = op(200 * number, 200 * number + took, draw(st.integers(1, 3)), truth=number)
        row = row.but(offset=draw(st.sampled_from((0, 4096))))
        for rows, seen in ((client, row), (server, at_server(row, draw(st.sampled_from((0, 0.5, 1)))))):
            if draw(st.booleans()):
                rows.append(seen.but(offset=draw(st.sampled_from((row.offset, NULL)))))
    return server, client


@settings(max_examples=examples(400))
@given(twins(), st.sampled_from((0, 0.1, 0.9)))
def test_with_a_clock_exactly_the_common_ops_are_matched(both: tuple[list[Op], list[Op]], error_ms: float) -> None:
    """Any ops dropped at both sides, arguments hidden, XIDs used again soon: all that both have is matched, and
    rightly; each other op has a reason."""
    server, client = both
    after = run(server, client, error_ms)[1]
    s, c = truths(*server)[after.matched.server], truths(*client)[after.matched.client]
    assert s.tolist() == c.tolist()
    assert set(c.tolist()) == {row.truth for row in server} & {row.truth for row in client}
    for fate, total in zip(fates(after), (len(server), len(client)), strict=True):
        assert sum(Counter(fate).values()) == total


@given(twins(), st.sampled_from((0.1, 50, 500)))
def test_no_error_of_the_clock_makes_a_wrong_pair(both: tuple[list[Op], list[Op]], error_ms: float) -> None:
    """However large the error is that the clock admits: what is matched is the same op where a side has all ops."""
    server, client = both
    everything = [row.but(at_ms=tuple(t - AHEAD_MS for t in row.at_ms)) for row in server] + [
        row for row in client if row.truth not in {other.truth for other in server}
    ]
    after = run(server, everything, error_ms)[1]
    s, c = truths(*server)[after.matched.server], truths(*everything)[after.matched.client]
    assert s.tolist() == c.tolist()
