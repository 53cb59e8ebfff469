"""Messages -> ops: timelines of one XID each, then the sums for any timeline. Times in the lines are milliseconds."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from wire_tables import CONNECTIONS, GETATTR, MS, READ, WRITE, Line, call, messages, reply

from nfslat.decode.tshark.pair import Paired, pair
from nfslat.model.protocol import NULL
from nfslat.model.tables import Connection, State, last_sent_ns

P, NR, NC = State.PAIRED, State.NO_REPLY, State.NO_CALL
RE, DUP = State.RETRANSMITTED, State.DUPLICATE_FRAME


def paired(*lines: Line, connections: tuple[Connection, ...] = CONNECTIONS) -> Paired:
    """The ops of a timeline, and the sum that holds for any: each message is in an op or loose."""
    result = pair(messages(*lines, connections=connections))
    assert 2 * len(result.ops) + len(result.loose) == len(lines)
    assert result.loose.state.tolist() == result.states[result.states != P].tolist()
    return result


def last_sent(result: Paired) -> list[float]:
    """When each op was sent last before its answer came, ms."""
    return [last_sent_ns(result.ops, result.loose, row) / MS for row in range(len(result.ops))]


def instants(result: Paired) -> list[tuple[float, ...]]:
    """(call, reply, transmissions) of each op, ms."""
    o = result.ops
    return [tuple(row) for row in np.stack([o.t0 / MS, o.t3 / MS, o.transmissions], axis=1).tolist()]


# --- One XID on one connection ----------------------------------------------------------------------------------------


def test_a_call_and_its_reply() -> None:
    """The four instants are first and last byte of the call and of the reply."""
    result = paired(call(0, 7, last_ms=1), reply(5, 7, last_ms=8))
    assert result.states.tolist() == [P, P]
    o = result.ops
    assert [int(t[0]) // MS for t in (o.t0, o.t1, o.t2, o.t3)] == [0, 1, 5, 8]
    assert (o.xid[0], o.op[0], o.call_first_frame[0], o.reply_first_frame[0]) == (7, READ, 1, 2)


def test_replies_out_of_order_find_their_calls() -> None:
    """A server answers in any order: 8 before 7."""
    result = paired(call(0, 7), call(1, 8), reply(2, 8), reply(9, 7))
    assert instants(result) == [(0, 9, 1), (1, 2, 1)]


def test_a_call_without_reply() -> None:
    """It makes no op."""
    result = paired(call(0, 7))
    assert result.states.tolist() == [NR]
    assert len(result.ops) == 0


def test_a_reply_without_call() -> None:
    """It makes no op, and does not answer a call that comes after it."""
    result = paired(reply(0, 7), call(1, 7), reply(5, 7))
    assert result.states.tolist() == [NC, P, P]
    assert instants(result) == [(1, 5, 1)]


def test_no_messages_make_no_ops() -> None:
    """An empty table is paired too."""
    assert len(paired().ops) == 0


# --- Sent again -------------------------------------------------------------------------------------------------------


def test_an_rpc_retransmission_answered_once() -> None:
    """Called at 0 and 1000, answered at 1200: one op of 1200 ms, sent twice, the last time at 1000."""
    result = paired(call(0, 7), call(1000, 7), reply(1200, 7))
    assert result.states.tolist() == [P, RE, P]
    assert instants(result) == [(0, 1200, 2)]
    assert last_sent(result) == [1000]


def test_an_rpc_retransmission_answered_twice() -> None:
    """The server did it twice: the first answer is the op's, the second one is the retransmission's."""
    result = paired(call(0, 7), call(1000, 7), reply(1200, 7), reply(1300, 7))
    assert result.states.tolist() == [P, RE, P, RE]
    assert instants(result) == [(0, 1200, 2)]


def test_a_retransmission_that_crosses_the_answer() -> None:
    """Sent again 1 ms after the answer left: still the same op, and its last call is the one before the answer."""
    result = paired(call(0, 7), reply(1000, 7), call(1001, 7), reply(1002, 7))
    assert result.states.tolist() == [P, P, RE, RE]
    assert instants(result) == [(0, 1000, 2)]
    assert last_sent(result) == [0]


def test_a_tcp_retransmission_is_no_second_call() -> None:
    """Same sequence number in another packet: the same bytes, 200 ms later. The client called once."""
    result = paired(call(0, 7, seq=500), call(200, 7, seq=500), reply(300, 7, seq=900), reply(500, 7, seq=900))
    assert result.states.tolist() == [P, RE, P, RE]
    assert instants(result) == [(0, 300, 1)]


def test_a_packet_captured_twice() -> None:
    """Same IP identification and sequence number, 0.01 ms apart (-i any): counted once, for calls and for replies."""
    result = paired(
        call(0, 7, seq=500, ip_id=3),
        call(0.01, 7, seq=500, ip_id=3),
        reply(5, 7, seq=900, ip_id=4),
        reply(5.01, 7, seq=900, ip_id=4),
    )
    assert result.states.tolist() == [P, DUP, P, DUP]
    assert instants(result) == [(0, 5, 1)]


@pytest.mark.parametrize(("apart_ms", "state"), [(0.01, DUP), (200, RE)])
def test_without_ip_identification_copies_are_told_by_their_distance(apart_ms: float, state: State) -> None:
    """IPv6: the same bytes 0.01 ms later are the same packet, 200 ms later they were sent again."""
    result = paired(call(0, 7, seq=500, ip_id=NULL), call(apart_ms, 7, seq=500, ip_id=NULL), reply(300, 7))
    assert result.states.tolist() == [P, state, P]


def test_a_retransmission_over_udp_is_a_second_call() -> None:
    """No sequence numbers: another IP identification is another datagram."""
    udp = (Connection("udp", "10.0.0.1", 700, "10.0.0.2", 2049),)
    lines = call(0, 7, seq=NULL, ip_id=1), call(700, 7, seq=NULL, ip_id=2), reply(800, 7, seq=NULL, ip_id=9)
    result = paired(*lines, connections=udp)
    assert result.states.tolist() == [P, RE, P]
    assert instants(result) == [(0, 800, 2)]


def test_a_retransmission_of_which_less_is_visible() -> None:
    """The arguments of the second call lie beyond the snaplen, or its operations do: nothing speaks against it."""
    result = paired(call(0, 7), call(1000, 7, offset=NULL, size=NULL, fh=NULL), reply(1200, 7))
    assert instants(result) == [(0, 1200, 2)]
    v4 = {"version": 4, "offset": NULL, "size": NULL, "fh": NULL}
    result = paired(call(0, 7, **v4, op=25), call(1000, 7, **v4, op=1), reply(1200, 7))
    assert instants(result) == [(0, 1200, 2)]


# --- XIDs that are used again -----------------------------------------------------------------------------------------


def test_an_xid_used_again_for_something_else() -> None:
    """Answered, then called with another offset 2 ms later: two ops."""
    result = paired(call(0, 7), reply(5, 7), call(7, 7, offset=8192), reply(9, 7))
    assert result.states.tolist() == [P, P, P, P]
    assert instants(result) == [(0, 5, 1), (7, 9, 1)]


def test_an_xid_used_again_for_the_same() -> None:
    """The same READ a minute after its answer is another op: no client retransmits that late."""
    result = paired(call(0, 7), reply(5, 7), call(60_000, 7), reply(60_003, 7))
    assert instants(result) == [(0, 5, 1), (60_000, 60_003, 1)]


@pytest.mark.parametrize(
    ("again_ms", "acks", "at_once", "is_new"),
    [(13, True, False, True), (13, False, True, False), (900, True, True, True), (900, True, False, False)],
)
def test_an_xid_used_again_soon_for_the_same(again_ms: int, *, acks: bool, at_once: bool, is_new: bool) -> None:
    """The caller has the answer, and no timer runs out as soon; later, if the call did not wait in the socket."""
    lines = call(0, 7), reply(5, 7), call(again_ms, 7, acks=acks, at_once=at_once), reply(again_ms + 3, 7)
    two = [(0, 5, 1), (again_ms, again_ms + 3, 1)]
    assert instants(paired(*lines)) == (two if is_new else [(0, 5, 2)])


@pytest.mark.parametrize(("times", "is_new"), [(8, False), (9, True)])
def test_xids_that_are_used_again_all_the_time(times: int, *, is_new: bool) -> None:
    """One that comes again after a timer's time is a new call, too, whatever is on the way in front of it."""
    lines = [line for n in range(times) for line in (call(10 * n, 7, acks=True), reply(10 * n + 1, 7))]
    last = 10 * times + 200
    result = paired(*lines, call(last, 7, acks=True, at_once=False), reply(last + 1, 7))
    assert len(result.ops) == times + is_new


@pytest.mark.parametrize(("again_ms", "is_new"), [(49, True), (51, False)])
def test_an_xid_used_again_soon_over_udp(again_ms: int, *, is_new: bool) -> None:
    """There is but the time: no timer runs out within 50 ms."""
    udp = (Connection("udp", "10.0.0.1", 700, "10.0.0.2", 2049),)
    lines = call(0, 7, seq=NULL), reply(5, 7, seq=NULL), call(again_ms, 7, seq=NULL), reply(again_ms + 3, 7, seq=NULL)
    two = [(0, 5, 1), (again_ms, again_ms + 3, 1)]
    assert instants(paired(*lines, connections=udp)) == (two if is_new else [(0, 5, 2)])


def test_an_xid_used_again_before_the_answer() -> None:
    """Another program asks with the same XID while the first call is unanswered: the reply is the last caller's."""
    result = paired(call(0, 7), call(3, 7, program=100005, op=GETATTR), reply(5, 7))
    assert result.states.tolist() == [NR, P, P]
    assert instants(result) == [(3, 5, 1)]


def test_an_old_reply_sent_again_by_tcp_answers_no_new_call() -> None:
    """The bytes of the first answer come again (same sequence number) after the XID was taken for another READ."""
    result = paired(
        call(0, 7), reply(5, 7, seq=900), call(150, 7, offset=8192), reply(205, 7, seq=900), reply(210, 7, seq=1000)
    )
    assert result.states.tolist() == [P, P, P, RE, P]
    assert instants(result) == [(0, 5, 1), (150, 210, 1)]


def test_callbacks_may_use_the_client_s_xids() -> None:
    """The server calls back with XID 7 while its answer to the client's XID 7 is due: direction tells them apart."""
    result = paired(call(0, 7), call(1, 7, way=1, program=0x40000000), reply(2, 7, way=1), reply(5, 7))
    assert result.states.tolist() == [P] * 4
    assert instants(result) == [(0, 5, 1), (1, 2, 1)]
    assert result.ops.direction.tolist() == [0, 1]


# --- Several connections ----------------------------------------------------------------------------------------------


def test_equal_xids_on_two_live_connections() -> None:
    """nconnect: each connection counts by itself."""
    result = paired(call(0, 7), call(1, 7, conn=1), reply(2, 7, conn=1), reply(5, 7))
    assert instants(result) == [(0, 5, 1), (1, 2, 1)]


def test_sent_again_on_a_new_connection() -> None:
    """The server fell silent at 0; the client connects anew at 900 and calls again: one op, on the new connection."""
    result = paired(call(-5, 6), reply(-4, 6), call(0, 7), call(900, 7, conn=1), reply(905, 7, conn=1))
    assert result.states.tolist() == [P, P, P, RE, P]
    assert instants(result) == [(-5, -4, 1), (0, 905, 2)]
    assert result.ops.conn.tolist() == [0, 1]
    assert last_sent(result) == [-5, 900]


def test_sent_again_on_one_new_connection_after_another() -> None:
    """Two reconnects: one op, sent three times."""
    result = paired(call(0, 7), call(900, 7, conn=1), call(1900, 7, conn=2), reply(1905, 7, conn=2))
    assert result.states.tolist() == [P, RE, RE, P]
    assert instants(result) == [(0, 1905, 3)]


def test_sent_again_on_a_new_connection_and_never_answered() -> None:
    """No op; the first call is the one without reply."""
    assert paired(call(0, 7), call(900, 7, conn=1)).states.tolist() == [NR, RE]


@pytest.mark.parametrize(
    "why_not",
    [
        [reply(950, 6)],  # the old connection still speaks
        [call(-9, 5, conn=1)],  # the new connection is not new
    ],
)
def test_an_unanswered_call_does_not_take_the_op_of_a_live_connection(why_not: list[Line]) -> None:
    """Equal XIDs and arguments on two connections that live side by side are two ops."""
    result = paired(call(-7, 6), call(0, 7), call(900, 7, conn=1), reply(905, 7, conn=1), *why_not)
    assert (900, 905, 1) in instants(result)
    assert NR in result.states


def test_another_client_s_connection_does_not_continue_this_one_s() -> None:
    """Same XID and arguments on a new connection, from another address: another op."""
    ends = (CONNECTIONS[0], Connection("tcp", "10.0.0.9", 701, "10.0.0.2", 2049))
    result = paired(call(0, 7), call(900, 7, conn=1), reply(905, 7, conn=1), connections=ends)
    assert instants(result) == [(900, 905, 1)]


def test_a_new_connection_that_was_opened_by_the_server_first_seen() -> None:
    """The new connection's table row begins at the other end: its direction says who calls."""
    ends = (CONNECTIONS[0], Connection("tcp", "10.0.0.2", 2049, "10.0.0.1", 701))
    result = paired(call(0, 7), call(900, 7, conn=1, way=1), reply(905, 7, conn=1, way=1), connections=ends)
    assert instants(result) == [(0, 905, 2)]


# --- For any timeline -------------------------------------------------------------------------------------------------

_NEAR = st.integers(0, 5_000)
_SEQ = st.sampled_from((None, None, NULL, 500))
_IP_ID = st.sampled_from((None, None, NULL, 3))
_PLACE = {"xid": st.integers(1, 3), "conn": st.integers(0, 2), "way": st.integers(0, 1), "seq": _SEQ, "ip_id": _IP_ID}
_LINE = st.builds(call, _NEAR, **_PLACE, op=st.sampled_from((READ, WRITE)), offset=st.sampled_from((0, 8192, NULL))) | (
    st.builds(reply, _NEAR, **_PLACE)
)


@given(st.lists(_LINE, max_size=24, unique_by=lambda line: line.t_ms))
def test_every_message_ends_in_one_state_and_in_one_op_at_most(lines: list[Line]) -> None:
    """PAIRED messages are two an op, the frames of all ops are different ones, and states fit the kind of message."""
    table = messages(*lines)
    result = pair(table)
    assert len(result.states) == len(lines)
    count = Counter(result.states.tolist())
    assert count[P] == 2 * len(result.ops)
    frames = [*result.ops.call_first_frame.tolist(), *result.ops.reply_first_frame.tolist()]
    assert len(set(frames)) == len(frames)
    assert set(frames) == set(table.frame[result.states == P].tolist())
    assert not (table.is_reply[result.states == NR]).any()
    assert table.is_reply[result.states == NC].all()


@given(st.lists(_LINE, max_size=24, unique_by=lambda line: line.t_ms))
def test_an_op_is_a_call_and_a_later_reply_of_one_xid(lines: list[Line]) -> None:
    """XIDs agree, a reply comes behind its first and its last call, and ops are in the order of their calls."""
    table = messages(*lines)
    result = pair(table)
    o = result.ops
    assert (table.xid[o.call_first_frame - 1] == o.xid).all()
    assert (table.xid[o.reply_first_frame - 1] == o.xid).all()
    assert (o.t0 < o.t2).all()
    last = np.array([last_sent_ns(o, result.loose, row) for row in range(len(o))], dtype=np.int64)
    assert ((o.t0 <= last) & (last <= o.t2)).all()
    assert (o.transmissions >= 1).all()
    assert (np.diff(o.call_first_frame) > 0).all()


@given(st.lists(_LINE, max_size=24, unique_by=lambda line: line.t_ms))
def test_what_belongs_to_an_op_has_its_xid_and_state(lines: list[Line]) -> None:
    """Only messages that came again name an op, of their own XID; and an op sent n times has n - 1 later calls."""
    table = messages(*lines)
    result = pair(table)
    o, loose = result.ops, result.loose
    owned = loose.op != NULL
    assert np.isin(loose.state[owned], (RE, DUP)).all()
    assert (loose.xid[owned] == o.xid[loose.op[owned]]).all()
    calls = np.bincount(loose.op[owned & (loose.is_reply == 0) & (loose.state == RE)], minlength=len(o))
    assert (calls >= o.transmissions - 1).all()
    assert ((loose.kind == NULL) == (loose.is_reply == 1)).all()


@given(st.lists(st.tuples(st.integers(1, 40), st.integers(1, 50)), max_size=30, unique_by=lambda op: op[0]))
def test_calls_with_xids_of_their_own_are_all_paired(made: list[tuple[int, int]]) -> None:
    """However the replies are ordered: op i is called at 10 * i and answered after its own time."""
    lines = [line for xid, srt in made for line in (call(10 * xid, xid), reply(10 * xid + srt + 0.5, xid))]
    assert instants(paired(*lines)) == [(10 * xid, 10 * xid + srt + 0.5, 1) for xid, srt in sorted(made)]
