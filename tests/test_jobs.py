"""What a server's threads had to do: which calls count as work, when each came, and in which stream."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from wire_tables import CONNECTIONS, GETATTR, MS, Op, op, ops

from nfslat.inflight.jobs import Jobs, find_jobs
from nfslat.model.details import Blocked
from nfslat.model.protocol import MOUNT, NFS, NFSACL, NLM, NULL
from nfslat.model.tables import Connection, Loose, Ops, State
from nfslat.select import is_reverse

LOCK_OP = 12  # NFSv4 (RFC 7530)
CALLBACK = 0x40000000  # a program that the client chose
COME_AGAIN = 10_008  # NFS3ERR_JUKEBOX, NFS4ERR_DELAY


@dataclass(frozen=True)
class Again:
    """A message of op `row` that came once more; ms."""

    row: int
    at_ms: float
    is_reply: bool
    state: State = State.RETRANSMITTED


def loose(table: Ops, *rows: Again) -> Loose:
    columns = {
        "conn": [int(table.conn[row.row]) for row in rows],
        "direction": [int(row.is_reply) for row in rows],
        "is_reply": [int(row.is_reply) for row in rows],
        "xid": [int(table.xid[row.row]) for row in rows],
        "kind": [NULL for _ in rows],
        "state": [row.state for row in rows],
        "op": [row.row for row in rows],
        "first_frame": [1000 + n for n in range(len(rows))],
        "last_frame": [1000 + n for n in range(len(rows))],
        "first_ns": [round(row.at_ms * MS) for row in rows],
        "last_ns": [round(row.at_ms * MS) for row in rows],
    }
    return Loose.from_columns(columns, kinds=table.kinds, connections=table.connections)


def jobs_of(*rows: Op, again: tuple[Again, ...] = (), **others: Any) -> Jobs:
    table = ops(*rows, **others)
    return find_jobs(table, loose(table, *again), is_reverse(table))


def spans(found: Jobs) -> list[tuple[int, float, float]]:
    """(row of the op, arrival, reply) of each job, ms."""
    columns = (found.op, found.work.arrival_ns / MS, found.work.reply_ns / MS)
    return [(int(row), float(came), float(went)) for row, came, went in zip(*columns, strict=True)]


# --- Which calls are work ---------------------------------------------------------------------------------------------


def test_calls_are_work_from_their_last_byte_to_the_replys_first() -> None:
    """A WRITE that takes long to arrive, or a READ that takes long to send, keeps no thread meanwhile."""
    found = jobs_of(Op((0, 4, 9, 15), 1), Op((1, 2, 3, 30), 2))
    assert spans(found) == [(1, 2, 3), (0, 4, 9)]
    assert found.work.by_reply.tolist() == [0, 1]
    assert (found.server, found.servers, found.held, found.unseen_first) == ("10.0.0.2", 1, 0, 0)


def test_no_ops_are_no_work() -> None:
    """An empty table, or one of other programs, is no error."""
    assert spans(jobs_of()) == []
    found = jobs_of(op(0, 1, 1, program=MOUNT))
    assert (spans(found), found.server, found.servers) == ([], "", 0)


def test_only_what_nfs_threads_serve_is_work() -> None:
    """NFS and NFSACL are served by the same threads; MOUNT and NLM have daemons of their own."""
    found = jobs_of(
        op(0, 1, 1, program=NFS), op(1, 2, 2, program=NFSACL), op(2, 3, 3, program=MOUNT), op(3, 4, 4, program=NLM)
    )
    assert [row for row, _, _ in spans(found)] == [0, 1]


def test_calls_of_the_server_to_its_client_are_no_work() -> None:
    """A callback on the same connection is answered by the client."""
    found = jobs_of(op(0, 1, 1), op(1, 2, 2, direction=1, program=CALLBACK), op(2, 3, 3))
    assert [row for row, _, _ in spans(found)] == [0, 2]
    assert found.servers == 1


def test_other_servers_in_the_capture_are_left_out_and_counted() -> None:
    """The server with most calls is looked at; all its clients are, for they share its threads."""
    ends = (
        Connection("tcp", "10.0.0.1", 700, "10.0.0.2", 2049),
        Connection("tcp", "10.0.0.7", 700, "10.0.0.2", 2049),
        Connection("tcp", "10.0.0.1", 701, "10.0.0.3", 2049),
        Connection("tcp", "10.0.0.2", 2049, "10.0.0.8", 800),  # the server was seen to send first
    )
    rows = [op(n, n + 1, n, conn=n % 2) for n in range(4)] + [op(9, 10, 9, conn=2), op(10, 11, 10, conn=3, direction=1)]
    found = jobs_of(*rows, connections=ends)
    assert (found.server, found.servers, len(found.op)) == ("10.0.0.2", 2, 5)
    assert found.work.stream[[0, 1, 2, 3]].tolist() == [0, 1, 0, 1]
    assert len(set(found.work.stream.tolist())) == 3


def test_ops_that_a_server_may_hold_are_left_out_and_counted() -> None:
    """A client that is told to come again, and a lock that somebody else has, say nothing about threads."""
    table = ops(op(0, 1, 1), op(1, 5_000, 2), op(2, 900, 3, version=4, op=LOCK_OP), op(3, 4, 4))
    status = np.array([0, COME_AGAIN, 0, 2], dtype=np.int16)
    found = find_jobs(replace(table, status=status), loose(table), is_reverse(table))
    assert (found.op.tolist(), found.held) == ([0, 3], 2)


def test_a_reply_before_its_call_takes_no_time() -> None:
    """A capture that reorders packets makes no job of negative length."""
    assert spans(jobs_of(Op((5, 5, 4, 6), 1))) == [(0, 5, 5)]


def test_operations_are_numbered_by_their_names() -> None:
    """READs of NFSv3 and of NFSv4.1 are one kind of work, GETATTR another."""
    found = jobs_of(op(0, 1, 1), op(1, 2, 2, version=4, op=25), op(2, 3, 3, op=GETATTR))
    assert found.kind[0] == found.kind[1] != found.kind[2]


# --- Streams ----------------------------------------------------------------------------------------------------------


def test_all_udp_is_one_stream() -> None:
    """A server has one socket for what comes by UDP, whoever sent it; each TCP connection is a stream of its own."""
    ends = (
        Connection("udp", "10.0.0.1", 700, "10.0.0.2", 2049),
        Connection("udp", "10.0.0.7", 900, "10.0.0.2", 2049),
        *CONNECTIONS[:2],
    )
    found = jobs_of(*(op(n, n + 5, n, conn=n) for n in range(4)), connections=ends)
    stream = found.work.stream.tolist()
    assert stream[0] == stream[1]
    assert len({*stream}) == 3


def test_reconnects_between_the_same_ports_are_one_stream() -> None:
    """What the table holds as one connection is one stream."""
    assert len({*jobs_of(op(0, 1, 1), op(2, 3, 2)).work.stream.tolist()}) == 1


# --- What was sent again ----------------------------------------------------------------------------------------------


def test_a_call_that_was_done_again_is_work_again() -> None:
    """A client whose timer ran out sent its READ once more, and the server answered both: two jobs, on one stream."""
    found = jobs_of(op(0, 1_500, 1), op(1, 2, 2), again=(Again(0, 1_000, False), Again(0, 1_700, True)))
    assert spans(found) == [(0, 0, 1_500), (1, 1, 2), (NULL, 1_000, 1_700)]
    assert found.kind[0] == found.kind[2]
    assert {*found.work.stream.tolist()} == {0}


def test_each_answer_belongs_to_the_last_call_before_it() -> None:
    """Sent three times, answered three times."""
    again = (Again(0, 1_000, False), Again(0, 2_000, False), Again(0, 1_800, True), Again(0, 2_500, True))
    assert spans(jobs_of(op(0, 900, 1), again=again)) == [(0, 0, 900), (NULL, 1_000, 1_800), (NULL, 2_000, 2_500)]


def test_a_call_that_came_again_and_was_not_answered_again_is_no_more_work() -> None:
    """A server drops a call that it is working on."""
    assert spans(jobs_of(op(0, 1_500, 1), again=(Again(0, 1_000, False),))) == [(0, 0, 1_500)]


def test_copies_that_the_capture_made_are_no_work() -> None:
    """A packet that was captured twice was sent once."""
    again = (Again(0, 0.001, False, State.DUPLICATE_FRAME), Again(0, 10.001, True, State.DUPLICATE_FRAME))
    assert spans(jobs_of(op(0, 10, 1), again=again)) == [(0, 0, 10)]


def test_what_was_sent_again_of_other_programs_is_no_work() -> None:
    """Only of ops that are work themselves."""
    assert spans(jobs_of(op(0, 10, 1, program=MOUNT), op(1, 2, 2), again=(Again(0, 50, True),))) == [(1, 1, 2)]


# --- First transmissions that the capture does not show ---------------------------------------------------------------


def _counted(order: str, *, count: int = 200, resent: dict[int, float] | None = None, first: int = 1) -> list[Op]:
    """A call each ms, XIDs counted up in the byte order of the client; `resent`: which call is captured when, ms."""
    xids = [(first + n) & 0xFFFFFFFF for n in range(count)]
    if order == "swapped":
        xids = [int.from_bytes(xid.to_bytes(4, "little"), "big") for xid in xids]
    came = {**{n: float(n) for n in range(count)}, **(resent or {})}
    return [op(came[n], came[n] + 0.5, xid) for n, xid in enumerate(xids)]


@pytest.mark.parametrize("order", ["plain", "swapped"])
@pytest.mark.parametrize("first", [1, 0xFFFFFFA0], ids=["low", "wraps"])
def test_a_call_that_comes_out_of_the_order_of_its_xid_came_before(order: str, first: int) -> None:
    """Two calls are captured a second late: by their XIDs they came before the one that follows them."""
    found = jobs_of(*_counted(order, resent={50: 1_000.0, 51: 1_001.0}, first=first))
    assert found.unseen_first == 2
    late = found.work.arrival_ns[np.isin(found.work.reply_ns, [round(1_000.5 * MS), round(1_001.5 * MS)])]
    assert (late < 52 * MS).all()
    assert (late >= 52 * MS - 10).all()
    assert late[0] < late[1], "in the order of their XIDs"
    assert (np.diff(found.work.arrival_ns) >= 0).all()


@pytest.mark.parametrize("late_ms", [0.0, 10.0, 99.0])
def test_a_call_that_is_a_little_late_is_taken_as_it_comes(late_ms: float) -> None:
    """Clients send calls out of the order of their XIDs by some ms; resends take 100 ms at least."""
    assert jobs_of(*_counted("swapped", resent={50: 50 + late_ms})).unseen_first == 0


def _cut_off(table: Ops, rows: list[int]) -> Loose:
    """The replies of these ops, as where the calls are not in the capture."""
    replies = loose(table, *(Again(row, float(table.t2[row]) / MS, True, State.NO_CALL) for row in rows))
    return Loose.from_columns(
        {name: getattr(replies, name) for name in Loose.columns()} | {"op": [NULL] * len(rows)},
        kinds=table.kinds, connections=table.connections,
    )  # fmt: skip


@pytest.mark.parametrize("order", ["plain", "swapped"])
@pytest.mark.parametrize("first", [1, 0xFFFFFFA0], ids=["low", "wraps"])
def test_a_call_that_the_capture_cut_off_stands_where_its_xid_says(order: str, first: int) -> None:
    """Calls 50 and 51 are cut off, their replies are not: they are work since the call before them came, in front of
    the one behind them, and no operation that is known."""
    table = ops(*_counted(order, first=first))
    kept = np.setdiff1d(np.arange(200), [50, 51])
    found = find_jobs(table.take(kept), _cut_off(table, [50, 51]), is_reverse(table))
    assert (found.unseen, len(found.work.arrival_ns), len(found.uncalled_ns)) == (2, 200, 0)
    unseen = np.flatnonzero(found.op == NULL)
    assert unseen.tolist() == [50, 51]
    assert found.work.arrival_ns[unseen].tolist() == [table.t1[49]] * 2
    assert found.work.reply_ns[unseen].tolist() == table.t2[[50, 51]].tolist()
    assert not found.plain[unseen].any()
    assert set(found.kind[unseen].tolist()).isdisjoint(found.kind[found.op != NULL].tolist())


def test_a_call_that_is_not_known_to_have_come_is_no_work() -> None:
    """Where XIDs are at random, before the first call, or with an answer that is older than the call before it, nothing
    says when the call came; that it was answered is known."""
    xids = np.random.default_rng(1).integers(0, 1 << 32, 200).tolist()
    table = ops(*(op(n * 10, n * 10 + 1, xid) for n, xid in enumerate(xids)))
    rest = table.take(np.delete(np.arange(200), 50))
    found = find_jobs(rest, _cut_off(table, [50]), is_reverse(table))
    assert (found.unseen, found.uncalled_ns.tolist()) == (0, [table.t2[50]])
    table = ops(*_counted("plain"))
    found = find_jobs(table.take(np.arange(1, 200)), _cut_off(table, [0]), is_reverse(table))
    assert (found.unseen, found.uncalled_ns.tolist()) == (0, [table.t2[0]])
    early = replace(_cut_off(table, [50]), first_ns=table.t2[[20]])
    found = find_jobs(table.take(np.delete(np.arange(200), 50)), early, is_reverse(table))
    assert (found.unseen, found.uncalled_ns.tolist()) == (0, [table.t2[20]])


def test_a_call_that_tcp_may_have_kept_back_is_not_placed() -> None:
    """Where many calls came late, those that the capture does not show did, too: how late is not known."""
    table = ops(*_counted("plain"))
    rest = table.take(np.delete(np.arange(200), 50))
    late = {"op": np.arange(100, 105), "is_reply": np.zeros(5), "until_ns": rest.t1[100:105] + 1}
    cut_off = _cut_off(table, [50])
    assert find_jobs(rest, cut_off, is_reverse(table), Blocked.from_columns(late)).unseen == 0
    few = {name: column[:2] for name, column in late.items()}
    assert find_jobs(rest, cut_off, is_reverse(table), Blocked.from_columns(few)).unseen == 1


def test_xids_that_come_again_say_nothing() -> None:
    """32 XIDs in a ring: one that is lower than another was not sent in front of it."""
    assert jobs_of(*(op(n * 10, n * 10 + 1, n % 32) for n in range(200))).unseen_first == 0


def test_xids_at_random_say_nothing() -> None:
    """A client that does not count its XIDs up is left alone, and so is a connection with few calls."""
    xids = np.random.default_rng(1).integers(0, 1 << 32, 200).tolist()
    assert jobs_of(*(op(n * 10, n * 10 + 1, xid) for n, xid in enumerate(xids))).unseen_first == 0
    assert jobs_of(*_counted("plain", count=40, resent={5: 5_000.0})).unseen_first == 0


def test_an_answer_to_a_call_whose_first_was_not_captured() -> None:
    """The first answer belongs to the call that is not there, the second one to the call that is."""
    rows = _counted("plain", resent={50: 1_000.0})
    row = len(rows) - 1  # it comes last
    found = jobs_of(*rows, again=(Again(row, 1_200, True),))
    mine = [(came, went) for at, came, went in spans(found) if at in (row, NULL)]
    assert mine == [(pytest.approx(51, abs=1e-3), 1_000.5), (1_000, 1_200)]


@given(
    st.lists(st.tuples(st.integers(0, 400), st.integers(0, 300), st.integers(0, 3)), min_size=1, max_size=40),
    st.lists(st.tuples(st.integers(0, 39), st.integers(0, 900), st.booleans()), max_size=10),
)
def test_every_call_is_a_job_once(made: list[tuple[int, int, int]], others: list[tuple[int, int, bool]]) -> None:
    """Whatever was sent again when: each op is one job, jobs are in the order of their arrival, none is negative."""
    rows = [op(at, at + took, n, conn=conn) for n, (at, took, conn) in enumerate(made)]
    again = tuple(Again(row, at, is_reply) for row, at, is_reply in others if row < len(rows))
    found = jobs_of(*rows, again=again)
    assert sorted(found.op[found.op != NULL].tolist()) == list(range(len(rows)))
    assert np.count_nonzero(found.op == NULL) <= sum(one.is_reply for one in again)
    assert (np.diff(found.work.arrival_ns) >= 0).all()
    assert (found.work.reply_ns >= found.work.arrival_ns).all()
    assert (np.diff(found.work.reply_ns[found.work.by_reply]) >= 0).all()


def _kept_back(*until: tuple[int, float, int]) -> Blocked:
    """(row of the op, until, is it the reply); ms."""
    op_of, ms, is_reply = (list(column) for column in zip(*until, strict=True))
    return Blocked.from_columns({"op": op_of, "is_reply": is_reply, "until_ns": [round(one * MS) for one in ms]})


def _kept(rows: list[Op], *until: tuple[int, float, int]) -> list[tuple[int, float, float]]:
    table = ops(*rows)
    return spans(find_jobs(table, loose(table), is_reverse(table), _kept_back(*until)))


def test_a_call_comes_when_the_hole_in_front_of_it_is_filled() -> None:
    """The call that was lost comes at 30; the two behind it, at 1 and 2, can be read then, too, and not before. What
    TCP lets through at once stands in the order of the answers, which makes no thread that may not be."""
    rows = [op(1, 50, 2), op(2, 40, 3), op(30, 60, 1), op(70, 80, 4)]
    assert _kept(rows, (0, 30, 0), (1, 30, 0)) == [(1, 30, 40), (0, 30, 50), (2, 30, 60), (3, 70, 80)]


def test_only_calls_that_were_kept_back_move() -> None:
    """Replies that the client's TCP keeps back, and calls that were answered before the hole was filled (a capture that
    has its packets in another order than the host), stay where they are."""
    rows = [op(1, 50, 1), op(2, 20, 2)]
    assert _kept(rows, (0, 60, 1), (1, 30, 0)) == [(0, 1, 50), (1, 2, 20)]
