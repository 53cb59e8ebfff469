"""Ops + ops -> matched ops: scenarios from both sides, then the sums and the truth for any. Times are milliseconds."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest
from examples import examples
from hypothesis import given, settings
from hypothesis import strategies as st
from wire_tables import CONNECTIONS, GETATTR, MS, WRITE, Op, op, ops, truths

from nfslat.match.match import Matching, match
from nfslat.match.overlap import Longer, nearest, where_longer
from nfslat.model.protocol import NULL
from nfslat.model.tables import Connection, Miss

ALWAYS = (-(1 << 62), 1 << 62)  # both captures ran the whole time
HOUR_MS = 3_600_000

OK, OUT, NOT_S, NOT_C = Miss.MATCHED, Miss.OUTSIDE_OVERLAP, Miss.NOT_CAPTURED_AT_SERVER, Miss.NOT_CAPTURED_AT_CLIENT
ALONE, AMBIGUOUS = Miss.CONNECTION_UNMATCHED, Miss.AMBIGUOUS


def run(
    server: list[Op],
    client: list[Op],
    *,
    server_ends: tuple[Connection, ...] = CONNECTIONS,
    client_ends: tuple[Connection, ...] = CONNECTIONS,
    server_ms: tuple[float, float] | list[tuple[float, float]] | None = None,
    client_ms: tuple[float, float] | list[tuple[float, float]] | None = None,
) -> Matching:
    """Match two lists of ops; the ranges are those of the captures (or of their files), each on its own clock."""
    s_range, c_range = (
        ALWAYS if ms is None else np.rint(np.array(ms) * MS).astype(np.int64).tolist() for ms in (server_ms, client_ms)
    )
    s, c = ops(*server, connections=server_ends), ops(*client, connections=client_ends)
    found = match(s, c, s_range, c_range)
    for fate, rows in ((found.unmatched.server, found.matched.server), (found.unmatched.client, found.matched.client)):
        assert sorted(np.flatnonzero(fate == OK).tolist()) == sorted(rows.tolist()), "matched + missed = processed"
    return found


def pairs(found: Matching) -> list[tuple[int, int]]:
    return list(zip(found.matched.server.tolist(), found.matched.client.tolist(), strict=True))


def fates(found: Matching) -> tuple[list[int], list[int]]:
    return found.unmatched.server.tolist(), found.unmatched.client.tolist()


# --- One connection ---------------------------------------------------------------------------------------------------


def test_the_same_four_tuple_and_xid() -> None:
    """Two ops, two pairs; clocks an hour apart do not matter."""
    client = [op(0, 5, 7), op(1, 6, 8)]
    server = [op(HOUR_MS + 1, HOUR_MS + 4, 7), op(HOUR_MS + 2, HOUR_MS + 5, 8)]
    assert pairs(run(server, client)) == [(0, 0), (1, 1)]


def test_calls_that_arrive_in_another_order() -> None:
    """UDP, or two connections: the server's rows are in the order of arrival."""
    found = run([op(1, 4, 8), op(2, 3, 7)], [op(0, 5, 7), op(1, 6, 8)])
    assert pairs(found) == [(1, 0), (0, 1)]


def test_an_op_that_one_capture_dropped() -> None:
    """8 is missing at the server, 9 at the client: each is said of the other side."""
    found = run([op(1, 4, 7), op(21, 24, 9)], [op(0, 5, 7), op(10, 15, 8)])
    assert fates(found) == ([OK, NOT_C], [OK, NOT_S])


def test_one_xid_for_two_things_is_no_match() -> None:
    """XID 7 is a GETATTR at one side and a WRITE at the other: one of each was not captured."""
    found = run([op(1, 4, 7, op=GETATTR)], [op(0, 5, 7, op=WRITE)])
    assert fates(found) == ([NOT_C], [NOT_S])


@pytest.mark.parametrize("unseen", ["offset", "size", "fh"])
def test_arguments_that_one_side_could_not_see(unseen: str) -> None:
    """A short snaplen at the server: what is null there speaks against nothing."""
    client = op(0, 5, 7, offset=4096)
    assert pairs(run([op(1, 4, 7, offset=4096).but(**{unseen: NULL})], [client])) == [(0, 0)]


def test_a_compound_whose_operations_one_side_could_not_see() -> None:
    """Operation 1 is a COMPOUND of which nothing more is known (krb5p, snaplen): it may be the READ."""
    v4 = {"version": 4, "offset": NULL, "size": NULL, "fh": NULL}
    assert pairs(run([op(1, 4, 7, op=1, **v4)], [op(0, 5, 7, op=25, **v4)])) == [(0, 0)]


# --- XIDs that are used again -----------------------------------------------------------------------------------------


def test_an_xid_used_again_for_something_else() -> None:
    """Offsets tell the two apart, even when the other side has them in another order."""
    client = [op(0, 5, 7, offset=0), op(10, 15, 7, offset=4096)]
    server = [op(1, 4, 7, offset=4096), op(11, 14, 7, offset=0)]
    assert pairs(run(server, client)) == [(1, 0), (0, 1)]


def test_an_xid_used_again_for_the_same() -> None:
    """Nothing tells the two apart but their order, and both sides have both."""
    found = run([op(1, 4, 7), op(61, 64, 7)], [op(0, 5, 7), op(60, 65, 7)])
    assert pairs(found) == [(0, 0), (1, 1)]


def test_an_xid_used_again_for_the_same_and_seen_once_at_the_other_side() -> None:
    """Which of the two it is nobody can tell: AMBIGUOUS, never a guess."""
    assert fates(run([op(1, 4, 7)], [op(0, 5, 7), op(60, 65, 7)])) == ([AMBIGUOUS], [AMBIGUOUS, AMBIGUOUS])


def test_unseen_arguments_leave_two_candidates() -> None:
    """The server shows no offset and has one of the two: AMBIGUOUS. With both of them, but offsets swapped, too."""
    client = [op(0, 5, 7, offset=0), op(10, 15, 7, offset=4096)]
    assert fates(run([op(1, 4, 7, offset=NULL)], client)) == ([AMBIGUOUS], [AMBIGUOUS, AMBIGUOUS])


def test_a_candidate_that_agrees_with_a_third_op_is_not_taken() -> None:
    """READ of 0 twice and of 4096 once at the client. The server saw one READ of 0 and one without offset, which may
    be any of the two that are left, and is the last one here: a pair by order would be wrong."""
    client = [op(0, 5, 7, offset=0, truth=1), op(20, 25, 7, offset=0, truth=2), op(40, 45, 7, offset=4096, truth=3)]
    server = [op(1, 4, 7, offset=0, truth=1), op(41, 44, 7, offset=NULL, truth=3)]
    found = run(server, client)
    for s, c in pairs(found):
        assert truths(*server)[s] == truths(*client)[c]
    assert found.unmatched.client.tolist()[1] == AMBIGUOUS


def test_everything_that_is_in_doubt_is_called_ambiguous() -> None:
    """The op without offset may be either one at the client: no side of the doubt is called not captured."""
    client = [op(0, 5, 7, offset=0), op(10, 15, 7, offset=4096)]
    server = [op(1, 4, 7, offset=0), op(11, 14, 7, offset=NULL)]
    said = {fate for side in fates(run(server, client)) for fate in side}
    assert said <= {OK, AMBIGUOUS}


def test_an_order_with_other_distances_is_none() -> None:
    """Three of the same, a second and a minute apart; the server lacks the first and the client the last. They are as
    many, but not as far from each other: nothing is matched by an order that cannot be."""
    client = [op(0, 5, 7), op(1000, 1005, 7)]
    server = [op(1001, 1004, 7), op(60_001, 60_004, 7)]
    assert fates(run(server, client)) == ([AMBIGUOUS] * 2, [AMBIGUOUS] * 2)


def test_ops_in_order_that_nothing_else_tells_apart_are_named() -> None:
    """Equal ops are matched in their order, and it is said which: a clock should not rest on them alone."""
    found = run([op(1, 4, 7), op(61, 64, 7), op(70, 74, 8)], [op(0, 5, 7), op(60, 65, 7), op(69, 75, 8)])
    assert pairs(found) == [(0, 0), (1, 1), (2, 2)]
    assert found.by_order.tolist() == [0, 1]


@pytest.mark.parametrize("at_client", [True, False], ids=["client", "server"])
@pytest.mark.parametrize("offset", [0, 4096], ids=["the_same", "something_else"])
def test_an_op_that_is_put_together_of_two(at_client: bool, offset: int) -> None:
    """One capture lost the reply of the first op and the call of the second one with its XID, so that the rest looks
    like one that took a minute. The other has both, and no op can have taken longer than until its XID came again."""
    both = [op(0, 5, 7), op(60_000, 60_005, 7, offset=offset)]
    long = [op(0, 60_005, 7)]
    found = run(both, long) if at_client else run(long, both)
    assert len(found.matched) == 0


# --- Several connections ----------------------------------------------------------------------------------------------

_BEHIND_NAT = tuple(Connection("tcp", "192.0.2.1", 40_000 + port, "10.0.0.2", 2049) for port in range(4))


def test_through_nat_connections_are_told_by_their_xids() -> None:
    """Addresses and ports are rewritten on the way; each connection has XIDs of its own."""
    client = [op(i, i + 5, 100 * (i % 2) + i, conn=i % 2) for i in range(10)]
    server = [row.but(conn=1 - row.conn) for row in client]
    found = run(server, client, server_ends=_BEHIND_NAT)
    assert found.links.server.tolist() == [0, 1, NULL, NULL]
    assert found.links.client.tolist() == [1, 0, NULL, NULL]
    assert pairs(found) == [(i, i) for i in range(10)]


def test_through_nat_equal_xids_are_not_guessed_at() -> None:
    """Two connections with the same XIDs and arguments cannot be told apart behind a NAT."""
    client = [op(i, i + 5, i // 2, conn=i % 2) for i in range(10)]
    found = run(client, client, server_ends=_BEHIND_NAT)
    assert set(fates(found)[0]) == set(fates(found)[1]) == {ALONE}


def test_strangers_that_share_an_xid_by_chance_are_no_pair() -> None:
    """One XID of ten in common, other addresses: CONNECTION_UNMATCHED on both sides."""
    client = [op(i, i + 5, i) for i in range(10)]
    server = [op(i, i + 3, 9 + i) for i in range(10)]
    assert fates(run(server, client, server_ends=_BEHIND_NAT)) == ([ALONE] * 10, [ALONE] * 10)


def test_a_connection_that_one_capture_does_not_have() -> None:
    """Other clients of the server: their ops are no misses of the client's capture."""
    server = [op(1, 4, 7), op(2, 9, 8, conn=1)]
    assert fates(run(server, [op(0, 5, 7)], client_ends=CONNECTIONS[:1])) == ([OK, ALONE], [OK])


def test_equal_xids_on_two_connections() -> None:
    """nconnect: XID 7 on both, each matched on its own."""
    client = [op(0, 5, 7), op(1, 6, 7, conn=1)]
    assert pairs(run([op(1, 4, 7, conn=1), op(2, 3, 7)], client)) == [(1, 0), (0, 1)]


def test_the_same_connection_seen_from_its_other_end_first() -> None:
    """The server's capture begins with a packet of the server: its table names the ends the other way round."""
    turned = tuple(Connection("tcp", c.addr_b, c.port_b, c.addr_a, c.port_a) for c in CONNECTIONS)
    assert pairs(run([op(1, 4, 7)], [op(0, 5, 7)], server_ends=turned)) == [(0, 0)]


# --- Captures that do not overlap -------------------------------------------------------------------------------------


def test_ops_from_before_and_after_the_other_capture() -> None:
    """The client ran from 0 to 100, the server from 30 to 70 of that time, with its clock 5 hours ahead."""
    ahead = 5 * HOUR_MS
    client = [op(t, t + 2, t) for t in (10, 29, 40, 50, 60, 69, 90)]
    server = [op(ahead + t + 0.5, ahead + t + 1.5, t) for t in (40, 60)]
    found = run(server, client, client_ms=(0, 100), server_ms=(ahead + 30, ahead + 70))
    assert fates(found) == ([OK, OK], [OUT, OUT, OK, NOT_S, OK, OUT, OUT])


def test_a_server_s_op_that_the_client_s_capture_was_too_late_for() -> None:
    """The other way round, with the server's clock behind."""
    behind = -2 * HOUR_MS
    server = [op(behind + t + 0.5, behind + t + 1.5, t) for t in (10, 40, 50)]
    found = run(server, [op(40, 42, 40)], client_ms=(30, 70), server_ms=(behind, behind + 100))
    assert fates(found) == ([OUT, OK, NOT_C], [OK])


def test_a_file_of_a_rotated_set_that_is_missing() -> None:
    """The server's files go from 0 to 30 and from 60 to 100: what happened in between is in no file, so it was not
    dropped. An op that began in the first file and was answered in the gap is partly outside, too."""
    client = [op(t, t + 2, t) for t in (10, 20, 29, 40, 50, 70, 80)]
    server = [op(t + 0.5, t + 1.5, t) for t in (10, 70)]
    found = run(server, client, server_ms=[(60, 100), (0, 30)])
    assert fates(found) == ([OK, OK], [OK, NOT_S, OUT, OUT, OUT, OK, NOT_S])


def test_files_of_a_set_that_overlap() -> None:
    """A short file lies within a long one: what is in the long one behind it was captured."""
    found = run([op(10.5, 11.5, 1)], [op(10, 12, 1), op(50, 52, 2)], server_ms=[(0, 100), (5, 20)])
    assert fates(found) == ([OK], [OK, NOT_S])


def test_an_op_whose_reply_was_still_under_way_when_the_other_capture_ended() -> None:
    """Replies take 20 ms to the client. Its capture ended when the server had sent one that was not there yet."""
    found = run([op(1, 4, 1), op(81, 84, 2)], [op(0, 24, 1)], client_ms=(0, 100))
    assert fates(found) == ([OK, OUT], [OK])


def test_offsets_are_taken_from_the_nearest_op() -> None:
    """Ops at 10 and 110 are matched: of those without a partner each goes by the nearer one of the two."""
    made = ops(*(op(t, t + 1, t) for t in (0, 10, 50, 70, 110, 200)))
    assert nearest(made, np.array([0, 2, 3, 5]), np.array([1, 4], dtype=np.int32)).tolist() == [0, 0, 1, 1]


def test_the_order_shows_in_the_durations() -> None:
    """The side with the shorter durations is the server; equal ones, and few that differ, tell nothing."""
    near, far = ops(*[op(i, i + 5, i) for i in range(9)]), ops(*[op(i, i + 4, i) for i in range(9)])
    some = ops(*[op(i, i + (4 if i < 4 else 5), i) for i in range(9)])
    matched = match(far, near, ALWAYS, ALWAYS).matched
    assert where_longer(far, near, matched) is Longer.AT_CLIENT
    assert where_longer(near, far, matched) is Longer.AT_SERVER
    assert where_longer(near, near, matched) is Longer.UNCLEAR
    assert where_longer(some, near, matched) is Longer.UNCLEAR


# --- For any ops ------------------------------------------------------------------------------------------------------

_ANY = st.builds(
    op,
    st.integers(0, 1000),
    st.integers(1001, 2000),
    st.integers(1, 3),
    conn=st.integers(0, 1),
    op=st.sampled_from((GETATTR, WRITE, 1)),
    offset=st.sampled_from((0, 4096, NULL)),
    fh=st.sampled_from((1, NULL)),
)


@given(st.lists(_ANY, max_size=12), st.lists(_ANY, max_size=12), st.booleans())
def test_matched_and_missed_are_all_and_no_op_is_matched_twice(server: list[Op], client: list[Op], nat: bool) -> None:
    """Whatever the two sides hold: each op has one fate, each pair agrees in XID and connection."""
    found = run(server, client, server_ends=_BEHIND_NAT if nat else CONNECTIONS)
    s, c = found.matched.server, found.matched.client
    assert len(set(s.tolist())) == len(set(c.tolist())) == len(s)
    one, two = ops(*server), ops(*client)
    assert (one.xid[s] == two.xid[c]).all()
    assert (found.links.server[one.conn[s]] == found.links.client[two.conn[c]]).all()
    for fate, total in zip(fates(found), (len(server), len(client)), strict=True):
        assert sum(Counter(fate).values()) == total


@st.composite
def twins(draw: st.DrawFn, *, reuse: bool) -> tuple[list[Op], list[Op]]:
    """The same ops as both sides see them, each with its truth. `reuse`: XIDs come again with the same arguments."""
    xids = st.integers(1, 2 if reuse else 10_000)
    size = {"min_size": 1, "max_size": 14}
    made = draw(st.lists(xids, **size) if reuse else st.lists(xids, **size, unique=True))
    server, client = [], []
    for number, xid in enumerate(made):
        row = op(
            10 * number,
            10 * number + 8,
            xid,
            conn=0 if reuse else draw(st.integers(0, 1)),
            offset=draw(st.sampled_from((0, 4096))),
            truth=number,
        )
        client.append(row.but(offset=draw(st.sampled_from((row.offset, row.offset, NULL)))))
        seen = draw(st.sampled_from((row.offset, row.offset, NULL)))
        arrives, answered = HOUR_MS + 10 * number + 1, HOUR_MS + 10 * number + 7
        server.append(row.but(offset=seen, at_ms=(arrives, arrives, answered, answered)))
    return server, client


def assert_true(server: list[Op], client: list[Op], found: Matching) -> None:
    s, c = truths(*server)[found.matched.server], truths(*client)[found.matched.client]
    assert s.tolist() == c.tolist()


@settings(max_examples=examples(400))  # wrong matches need three ops of one XID, the right ones hidden
@given(twins(reuse=True), st.booleans(), st.data())
def test_ops_dropped_at_one_side_make_no_wrong_match(
    both: tuple[list[Op], list[Op]], at_server: bool, data: st.DataObject
) -> None:
    """XIDs are used again and again, arguments are hidden here and there: what is matched is the same op."""
    server, client = both
    side = server if at_server else client
    kept = data.draw(st.lists(st.sampled_from(side), unique_by=lambda row: row.truth))
    server, client = (kept, client) if at_server else (server, kept)
    assert_true(server, client, run(server, client))


@given(twins(reuse=False), st.data())
def test_with_xids_of_their_own_exactly_the_common_ops_are_matched(
    both: tuple[list[Op], list[Op]], data: st.DataObject
) -> None:
    """Any ops dropped at both sides: the rest is matched, all of it and rightly."""
    server, client = ([row for row in side if data.draw(st.booleans())] for side in both)
    found = run(server, client)
    assert_true(server, client, found)
    assert len(found.matched) == len({row.truth for row in server} & {row.truth for row in client})
