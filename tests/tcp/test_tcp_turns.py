"""Turns of any protocol: who asks, what each part costs, what stood still, and one slow turn frame by frame."""

from __future__ import annotations

import dataclasses
from typing import NoReturn

import numpy as np
import pytest
from captures import SHARED, needs_captures
from examples import examples
from hypothesis import given, settings
from hypothesis import strategies as st
from timeline import MS, Timeline
from wire import EPOCH_NS

from nfslat.decode import native
from nfslat.model.causes import Cause, code
from nfslat.report.text_writer import write
from nfslat.tcp.packets import ACK, PSH, AckKind, Kind, Packets, Talk, Trace
from nfslat.tcp.reading import read_trace
from nfslat.tcp.sections.turns import compared_section, turns_section, walk_section
from nfslat.tcp.shared import Shared
from nfslat.tcp.turns import Shape, compare, part_durations, take, turns
from nfslat.tcp.walk import walk


def _talk(line: Timeline) -> Talk:
    return line.trace().talk(0)


def _page(talk: Talk) -> str:
    taken = take(Shared(talk))
    blocks = [*turns_section(turns(talk, taken))]
    slow = walk(talk, taken)
    if slow is not None:
        blocks += walk_section(slow)
    text = write(blocks)
    assert all(len(one) <= 80 for one in text.splitlines())
    return " ".join(text.split())


def _delayed(line: Timeline, ms: float, held_ms: float = 200) -> float:
    """A request, and a response whose second half waits for a delayed ACK; returns when the last byte was there."""
    line.send(ms, ">", 86)
    line.ack(ms + 0.1, "<")
    line.send(ms + 1, "<", 1460)
    line.ack(ms + 1 + held_ms, ">")
    return line.burst(ms + 1.2 + held_ms, "<", 2760)


def _many(count: int, wait_ms: int, think_ms: int) -> Talk:
    """`count` turns of a packet each way."""
    line = Timeline()
    line.handshake(0)
    empty = _talk(line)
    period = (wait_ms + think_ms) * MS
    begin = EPOCH_NS + MS + np.arange(count, dtype=np.int64) * period
    t_ns = np.column_stack([begin, begin + wait_ms * MS]).ravel()
    rows = 2 * count
    turn, way = np.arange(rows) // 2, np.arange(rows) % 2
    columns = {name: np.zeros(rows, dtype=np.int64) for name in Packets.columns()}
    columns |= {
        "direction": way,
        "frame": np.arange(rows) + 4,
        "t_ns": t_ns,
        "seq": turn * np.where(way == 0, 100, 300),
        "size": np.where(way == 0, 100, 300),
        "ack": np.where(way == 0, turn * 300, (turn + 1) * 100),
        "window": np.full(rows, 500),
        "flags": np.full(rows, ACK | PSH),
        "kind": np.full(rows, Kind.NEW),
        "ack_kind": np.full(rows, AckKind.ADVANCES),
    }
    return dataclasses.replace(empty, packets=Packets.from_columns(columns))


def test_two_turns_are_cut_at_their_five_instants() -> None:
    """Request, wait, response and think time are what the packets' times say, and sum to the conversation."""
    line = Timeline()
    line.handshake(0, rtt_ms=1)
    line.send(10, ">", 100)
    line.send(12, ">", 50)
    line.burst(20, "<", 3000, apart_ms=2)
    line.send(40, ">", 100)
    line.send(47, "<", 10)
    line.fin(60, ">")
    talk = _talk(line)
    taken = take(Shared(talk))
    found = turns(talk, taken)
    assert (found.shape, found.asker_by, found.asker, found.count) == (Shape.TURNS, "syn", "10.0.0.1:40000", 2)
    parts = {part.part: part.total_ms for part in found.parts}
    assert parts == {"before": 10, "request": 2, "wait": 15, "response": 4, "think": 16, "after": 13}
    assert sum(parts.values()) == found.conversation_ms == 60
    assert (found.request_bytes, found.response_bytes) == (125, 1505)
    assert found.stalls == ()
    assert "2 turns x 10.50 ms = 21.00 ms, 35.0 % of the conversation." in _page(talk)


def test_a_server_that_greets_first_is_not_the_asker() -> None:
    """Who opened the connection asks; what the other side said before is no turn."""
    line = Timeline()
    line.handshake(0)
    line.send(5, "<", 32)
    line.send(10, ">", 100)
    line.send(12, "<", 100)
    found = turns(_talk(line), take(Shared(_talk(line))))
    assert (found.count, found.parts[0].part, found.parts[0].total_ms) == (1, "before", 10)


def test_without_a_syn_the_ports_tell_who_asks() -> None:
    """A well-known port answers, even where its packet comes first."""
    line = Timeline()
    line.send(0, "<", 100)
    line.send(1, ">", 100)
    line.send(3, "<", 100)
    found = turns(_talk(line), take(Shared(_talk(line))))
    assert (found.asker, found.asker_by, found.count) == ("10.0.0.1:40000", "port", 1)


def test_a_delayed_ack_inside_a_response_is_named_and_summed() -> None:
    """What the ACK was held back is what the turn would be shorter without; the walk shows the silence."""
    line = Timeline()
    line.handshake(0, rtt_ms=0.2)
    at = 10.0
    for _ in range(5):
        at = _delayed(line, at) + 3
        line.send(at, ">", 86)
        at += 2
        line.send(at, "<", 500)
        at += 5
    talk = _talk(line)
    taken = take(Shared(talk))
    found = turns(talk, taken)
    assert found.count == 10
    (stall,) = found.stalls
    assert (stall.where, stall.cause, stall.count, stall.turns) == ("response", "delayed-ack", 5, 5)
    assert stall.total_ms == pytest.approx(5 * 200.2)
    assert found.delayed_ack_ms == pytest.approx(5 * (200 - 0.2))
    # Of each 200.2 ms all but the least round trip and the time of the sender is the ACK's.
    assert found.without_delayed_ack_ms == pytest.approx(found.whole_total_ms - 5 * 200, abs=1.1)
    slow = walk(talk, taken)
    assert slow is not None
    assert (slow.chosen_by, slow.slow_turns, slow.of) == ("delayed-ack", 5, 10)
    assert [step.what for step in slow.steps] == [
        "request, 86 bytes",
        "ACK",
        "first of the response, 1,460 bytes",
        "200.0 ms of silence",
        "ACK",
        "the rest, 2,760 bytes in 2 packets",
    ]
    assert slow.took_ms == pytest.approx(201.21)
    assert slow.without_ms == pytest.approx(1.31, abs=0.2)
    text = _page(talk)
    assert "KB 328890" in text
    assert "quickack 1" in text
    assert "tcp.nodelay=no" in text  # port 1521


def test_between_linux_nfs_peers_nagle_is_not_blamed() -> None:
    """On the NFS port the note says that TCP_NODELAY is set."""
    line = Timeline(server=("10.0.0.2", 2049))
    line.handshake(0)
    _delayed(line, 10, held_ms=40)
    text = _page(_talk(line))
    assert "Nagle's algorithm is not what holds the sender" in text
    assert "Windows" not in text  # 40 ms is not its timer
    assert "write a message at once" not in text


def test_a_delayed_ack_in_think_time_costs_nothing() -> None:
    """It is counted apart, and no turn is longer for it."""
    line = Timeline()
    line.handshake(0)
    for at in (10, 1000):
        line.send(at, ">", 100)
        line.send(at + 1, "<", 100)
        line.ack(at + 201, ">")
    found = turns(_talk(line), take(Shared(_talk(line))))
    assert (found.delayed_ack_turns, found.stalls) == (0, ())
    assert found.whole is not None
    assert found.whole.max_ms == 1


def test_an_application_that_pauses_is_not_taken_for_a_delayed_ack() -> None:
    """The ACK came, and the sender went on much later: nothing of TCP ended that silence."""
    line = Timeline()
    line.handshake(0)
    line.send(10, ">", 100)
    line.send(11, "<", 100)
    line.ack(51, ">")
    line.send(311, "<", 100)
    taken = take(Shared(_talk(line)))
    assert taken.stops.cause.tolist() == [code(Cause.SENDER)]
    assert turns(_talk(line), taken).delayed_ack_ms == 0


def test_a_lost_segment_makes_its_message_longer() -> None:
    """What is sent again before it was acknowledged belongs to the response, and the silence is named."""
    line = Timeline()
    line.handshake(0)
    line.send(10, ">", 100)
    line.send(11, "<", 1460)
    lost = line.send(11.1, "<", 400)
    line.ack(11.2, ">", ack=1460)
    line.send(213, "<", 400, seq=lost.seq)
    line.send(215, ">", 100, ack=1860)
    line.send(216, "<", 100)
    found = turns(_talk(line), take(Shared(_talk(line))))
    assert found.count == 2
    assert [(one.where, one.cause, one.count) for one in found.stalls] == [("response", "rto", 1)]
    assert {part.part: part.total_ms for part in found.parts}["think"] == pytest.approx(2)


def test_a_spurious_retransmission_leaves_the_turn_as_it_is() -> None:
    """What is sent again though it was acknowledged is no part of the response."""
    line = Timeline()
    line.handshake(0)
    line.send(10, ">", 100)
    sent = line.send(11, "<", 400)
    line.ack(12, ">")
    line.send(300, "<", 400, seq=sent.seq)
    line.send(400, ">", 10)
    line.send(401, "<", 10)
    found = turns(_talk(line), take(Shared(_talk(line))))
    assert {part.part: part.total_ms for part in found.parts}["response"] == 0


def test_seventy_two_thousand_turns_of_200_ms_are_four_hours() -> None:
    """The cost sentence has the units that suit, and many short ones are told from few long ones."""
    talk = _many(72_000, 200, 5)
    text = _page(talk)
    assert "72,000 turns x 200.0 ms = 4.0 h, 97.6 % of the conversation." in text
    assert "many alike" in text
    assert "round trip" not in text  # no ACK came by itself, so the least one is not known


def test_both_sides_at_once_are_no_turns() -> None:
    """Requests that cross the responses to earlier ones: said, and no figures."""
    line = Timeline()
    line.handshake(0, rtt_ms=20)
    for at in range(100, 400, 10):
        line.send(at, ">", 100, ack=max(0, (at - 110) // 10 * 50))
        line.send(at + 5, "<", 50, ack=max(0, (at - 110) // 10 * 100))
    found = turns(_talk(line), take(Shared(_talk(line))))
    assert (found.shape, found.count, found.whole) == (Shape.PIPELINED, 0, None)
    assert walk(_talk(line), take(Shared(_talk(line)))) is None
    assert "turns mean nothing here" in _page(_talk(line))


def test_rpc_calls_under_way_together_are_no_turns_though_no_data_cross() -> None:
    """Replies that answer another call than the one before them tell of it; in order they are turns."""

    def conversation(order: list[tuple[str, int]]) -> Timeline:
        line = Timeline()
        line.handshake(0)
        for at, (way, xid) in enumerate(order):
            line.send(10 + at, way, 104, head=(0x80000064 << 32 | xid).to_bytes(8, "big"))
        return line

    in_turn = [(way, xid) for xid in range(20) for way in "><"]
    mixed = [(">", 0)] + [one for xid in range(20) for one in ((">", xid + 1), ("<", xid))]
    assert turns(_talk(conversation(in_turn)), take(Shared(_talk(conversation(in_turn))))).count == 20
    assert take(Shared(_talk(conversation(mixed)))).shape is Shape.PIPELINED


def test_a_one_way_transfer_and_a_silent_conversation_have_no_turns() -> None:
    """Nothing is made up."""
    line = Timeline()
    line.handshake(0)
    assert take(Shared(_talk(line))).shape is Shape.SILENT
    assert _page(_talk(line)) == ""
    line.burst(10, ">", 100_000)
    line.ack(20, "<")
    found = turns(_talk(line), take(Shared(_talk(line))))
    assert (found.shape, found.count, found.parts) == (Shape.ONE_WAY, 0, ())
    assert "None: no request was answered" in _page(_talk(line))


def test_two_captures_part_the_wait_into_network_and_server_whatever_the_clocks() -> None:
    """Turns are matched by stream positions, also where one capture began later, and the parts sum to the turn."""

    def seen(there: float, back: float, clock: float, *, turns_from: int, base: int = 0) -> Talk:
        line = Timeline()
        for turn in range(turns_from, 4):
            at = 100 * turn + clock
            line.send(at + there, ">", 100, seq=100 * (turn - base), ack=1000 * (turn - base))
            line.send(at + 7 + there - back, "<", 1000, seq=1000 * (turn - base), ack=100 * (turn - base) + 100)
        return _talk(line)

    # 2 ms there, 3 ms back, 5 - 3 ms at the server: 7 ms at the client.
    client = take(Shared(seen(0, 0, 0, turns_from=0))).rows
    server = take(Shared(seen(2, 5, 5000, turns_from=1, base=1))).rows
    found = compare(client, server, (100, 1000))
    assert found is not None
    assert (found.matched, found.client_only, found.server_only) == (3, 1, 0)
    assert (found.client.mean_ms, found.wait_ms, found.network_ms) == (7, 2, 5)
    assert found.request_ms + found.wait_ms + found.response_ms + found.network_ms == found.client.mean_ms
    assert compare(client, server) is not None  # shifted by whole turns, other turns match
    assert compare(client, server, (7, 7)) is None
    text = write(compared_section(found))
    assert "server takes 2.00 (28.6 %) and the network 5.00 (71.4 %)" in " ".join(text.split())


def test_what_was_lost_and_sent_again_is_time_of_the_network() -> None:
    """A reply is lost behind the server's capture, the request is sent again for it: no part is negative."""

    def seen(*, at_server: bool) -> Talk:
        line = Timeline()
        line.handshake(0)
        line.send(10, ">", 100)
        if at_server:
            line.send(11, "<", 50)
        line.send(220, ">", 100, seq=0, ack=0)
        line.send(221, "<", 50, seq=0)
        return _talk(line)

    found = compare(take(Shared(seen(at_server=False))).rows, take(Shared(seen(at_server=True))).rows)
    assert found is not None
    assert (found.request_ms, found.wait_ms, found.response_ms, found.network_ms) == (0, 1, 0, 210)
    assert found.network_least_ms == 210


def _trace(*parts: str, port: int) -> Trace:
    """A real capture, as the native decoder reads it."""

    def no_tools() -> NoReturn:
        raise AssertionError("the native decoder reads this by itself")

    path = SHARED.joinpath(*parts)
    source = native.open_source(str(path), no_tools, path.parent, rereads=False)
    return read_trace(source, no_tools, lambda _: None, ports={port})


def _longest(trace: Trace) -> Talk:
    return trace.talk(int(np.bincount(trace.packets.conversation).argmax()))


@needs_captures
def test_real_sqlnet_has_143_turns_and_four_delayed_acks_in_nobodys_way() -> None:
    """SQL*Net takes turns strictly; the four ACKs at 200.0 ms fall into the user's time between two requests."""
    name = "cisco-system-traffic-generator-trex-core__Oracle.pcap"
    talk = _longest(_trace("corpus", name, port=1521))
    found = turns(talk, take(Shared(talk)))
    assert (found.shape, found.count, found.changes, found.crossing_share) == (Shape.TURNS, 143, 287, 0)
    assert (found.asker, found.delayed_ack_turns) == ("21.0.0.7:6965", 0)
    parts = {part.part: part.share for part in found.parts}
    assert (parts["think"] or 0) > 0.9


@needs_captures
@pytest.mark.parametrize(
    ("folder", "shape"),
    [
        ("a_v3_baseline", Shape.PIPELINED),
        ("d_v3_netdelay5", Shape.PIPELINED),
        ("b_v3_nfsd_threads2", Shape.PIPELINED),  # hardly any data cross: the XIDs tell
        ("h_v3_metadata", Shape.TURNS),  # one process, one call after the other
        ("h_v42_metadata", Shape.TURNS),
    ],
)
def test_real_nfs_is_pipelined_where_several_calls_are_under_way(folder: str, shape: Shape) -> None:
    """Seen at either end."""
    for side in ("client", "server"):
        assert take(Shared(_longest(_trace("lab", folder, f"{side}.pcap.gz", port=2049)))).shape is shape


@needs_captures
def test_real_turns_match_at_both_ends() -> None:
    """All of them, by stream positions; what the parts sum to is the client's turn, and none is negative."""
    client, server = (
        take(Shared(_longest(_trace("lab", "h_v3_metadata", f"{side}.pcap.gz", port=2049)))).rows
        for side in ("client", "server")
    )
    found = compare(client, server)
    assert found is not None
    assert (found.matched, found.client_only, found.server_only) == (len(client), 0, 0)
    parts = found.request_ms + found.wait_ms + found.response_ms + found.network_ms
    assert parts == pytest.approx(found.client.mean_ms)
    assert found.network_least_ms > 0


@settings(max_examples=examples(60), deadline=None)
@given(
    st.lists(
        st.tuples(
            st.sampled_from("><"),
            st.sampled_from([0, 1, 100, 1460, 5000]),
            st.sampled_from([0.0, 0.5, 45.0, 220.0]),
            st.booleans(),
        ),
        max_size=40,
    ),
    st.booleans(),
)
def test_parts_sum_to_the_conversation_whatever_happens(
    events: list[tuple[str, int, float, bool]], shaken: bool
) -> None:
    """Every nanosecond is in one part; stops lie inside their turn; what is taken for turns can be shown."""
    line = Timeline()
    at = 1.0
    if shaken:
        line.handshake(0)
    for way, size, pause, again in events:
        at += pause
        if not size:
            line.ack(at, way)
        elif again and line.next[way] > 10:
            line.send(at, way, 10, seq=line.next[way] - 10)
        else:
            line.send(at, way, size)
    if not line.lines:
        line.ack(at, ">")
    talk = _talk(line)
    taken = take(Shared(talk))
    parts = part_durations(taken)
    assert sum(int(one.sum()) for one in parts.values()) == (taken.end_ns - taken.begin_ns if len(taken.rows) else 0)
    found = turns(talk, taken)
    assert found.delayed_ack_ms <= found.whole_total_ms
    assert int(taken.stops.ns.sum()) <= int(taken.rows.took_ns.sum())
    assert np.all(taken.stops.held_ns <= taken.stops.ns)
    _page(talk)
