"""Loss, retransmission and reordering between two capture points, against made packets and kernels' counters."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import wire
import wire_tables
from captures import SHARED, Decoder, needs_captures

from nfslat.decode.engine import choose
from nfslat.decode.tools import Tools
from nfslat.model.decoded import Decoded
from nfslat.model.details import TcpEvents, no_details
from nfslat.model.tables import Matched, Ops
from nfslat.wire.transport import Amount, Caveat, Delivery, Way, deliveries, hit

NOTHING = Amount(0, 0, 0)


def _no_tools() -> Tools:
    raise AssertionError("Wireshark's tools are not needed for this")


def _read(path: Path, scratch: Path) -> Decoded:
    engine = choose("native", _no_tools, scratch, rereads=False)
    return engine.decode(engine.open(str(path)), lambda _: None)[1]


def _decoded(folder: Path, server: list[wire.Seen], client: list[wire.Seen]) -> tuple[Decoded, Decoded]:
    """What the native engine makes of the two captures."""
    files = [wire.write_pcap(folder / name, seen) for name, seen in (("server", server), ("client", client))]
    return _read(files[0], folder), _read(files[1], folder)


def _both(server: Decoded, client: Decoded) -> tuple[Delivery, Delivery]:
    """The two directions of the only connection."""
    found = deliveries(server, client, {0: 0})
    assert found is not None
    call, reply = found
    assert (call.way, reply.way) == (Way.CALL, Way.REPLY)
    for one in found:
        assert one.lost_bytes - one.surplus_bytes == one.sent_again.bytes - one.arrived_again.bytes
        assert 0 in (one.lost_bytes, one.surplus_bytes)
    return call, reply


def _matched(server: Ops, client: Ops) -> Matched:
    """The ops of both sides by their XIDs, in the order of the client's."""
    of_server = {xid: row for row, xid in enumerate(server.xid.tolist())}
    pairs = [(of_server[xid], row) for row, xid in enumerate(client.xid.tolist()) if xid in of_server]
    return Matched(*(np.array(rows, dtype=np.int32) for rows in zip(*pairs, strict=True)))


def _ops(*, isn: tuple[int, int] = (1000, 5000), client: tuple[str, int] = ("10.0.0.1", 700)) -> wire.Tcp:
    """A READ, 10 ms for its reply."""
    tcp = wire.Tcp(isn=isn, client=client)
    tcp.send(0, ">", wire.read(1, 0, 512))
    tcp.send(10, "<", wire.reply(1, wire.read3(512)))
    return tcp


def _late(seen: list[wire.Seen], number: int, ms: float) -> list[wire.Seen]:
    """The packets with one of them that came so much later."""
    late = replace(seen[number], t_ns=seen[number].t_ns + round(ms * 1e6))
    return [*seen[:number], *seen[number + 1 :], late]


# --- Made packets -----------------------------------------------------------------------------------------------------


def test_what_was_sent_twice_and_came_once_was_lost(tmp_path: Path) -> None:
    """A call lost between the capture points, and later data that arrived: lost, and late at the receiver."""
    tcp = _ops()
    lost = tcp.send(20, ">", wire.read(2, 512, 512))
    tcp.send(20.1, ">", wire.read(3, 1024, 512))
    tcp.again(230, *lost)
    tcp.send(240, "<", wire.reply(2, wire.read3(512)), wire.reply(3, wire.read3(512)))
    server, client = _decoded(tmp_path, tcp.seen_by("server", without=lost), tcp.seen_by("client"))
    call, reply = _both(server, client)
    size = len(lost[0].data)
    once = Amount(1, None, size)  # no SYN names the MSS
    assert (call.sent_again, call.arrived_again) == (once, NOTHING)
    assert (call.sent_late, call.arrived_late) == (NOTHING, once)
    assert (call.lost_bytes, call.lost_segments, call.caveats) == (size, None, frozenset())
    assert call.loss == size / (call.bytes + size)
    assert (reply.sent_again, reply.lost_bytes, reply.lost_segments) == (NOTHING, 0, 0)
    hits = hit(server, client, _matched(server.ops, client.ops))
    assert hits is not None
    assert (hits.call.tolist(), hits.reply.tolist()) == ([False, True, False], [False] * 3)


def test_a_loss_with_nothing_behind_it_is_lost_all_the_same(tmp_path: Path) -> None:
    """The last reply is lost: what comes in its place is new to the receiver, and only the sender shows the loss."""
    tcp = _ops()
    tcp.send(20, ">", wire.read(2, 512, 512))
    lost = tcp.send(30, "<", wire.reply(2, wire.read3(512)))
    tcp.again(240, *lost)
    server, client = _decoded(tmp_path, tcp.seen_by("server"), tcp.seen_by("client", without=lost))
    _, reply = _both(server, client)
    assert (reply.lost_bytes, reply.arrived_late, reply.arrived_again) == (len(lost[0].data), NOTHING, NOTHING)
    hits = hit(server, client, _matched(server.ops, client.ops))
    assert hits is not None
    assert (hits.call.any(), hits.reply.tolist()) == (False, [False, True])


def test_what_arrived_twice_was_sent_again_for_nothing(tmp_path: Path) -> None:
    """A retransmission whose first copy had arrived is no loss."""
    tcp = _ops()
    call = tcp.send(20, ">", wire.read(2, 512, 512))
    tcp.again(230, *call)
    tcp.send(240, "<", wire.reply(2, wire.read3(512)))
    server, client = _decoded(tmp_path, tcp.seen_by("server"), tcp.seen_by("client"))
    found, _ = _both(server, client)
    assert found.sent_again == found.arrived_again == Amount(1, None, len(call[0].data))
    assert (found.lost_bytes, found.surplus_bytes) == (0, 0)
    hits = hit(server, client, _matched(server.ops, client.ops))
    assert hits is not None
    assert hits.call.tolist() == [False, True]


def test_a_retransmission_that_is_lost_too(tmp_path: Path) -> None:
    """Each copy that did not arrive counts."""
    tcp = _ops()
    lost = tcp.send(20, ">", wire.read(2, 512, 512))
    lost.append(tcp.again(230, *lost))
    tcp.again(650, lost[0])
    tcp.send(660, "<", wire.reply(2, wire.read3(512)))
    server, client = _decoded(tmp_path, tcp.seen_by("server", without=lost), tcp.seen_by("client"))
    assert _both(server, client)[0].lost_bytes == 2 * len(lost[0].data)


def test_segments_that_overtake_each_other_are_not_lost(tmp_path: Path) -> None:
    """Late at the receiver and sent once: overtaken on the way."""
    tcp = _ops()
    tcp.send(20, ">", wire.read(2, 512, 512))
    tcp.send(20.1, ">", wire.read(3, 1024, 512))
    tcp.send(40, "<", wire.reply(2, wire.read3(512)), wire.reply(3, wire.read3(512)))
    at_server = _late(tcp.seen_by("server"), 2, 1)
    server, client = _decoded(tmp_path, at_server, tcp.seen_by("client"))
    call, _ = _both(server, client)
    assert (call.sent_again, call.lost_bytes, call.arrived_late.packets) == (NOTHING, 0, 1)
    hits = hit(server, client, _matched(server.ops, client.ops))
    assert hits is not None
    assert (hits.call.any(), hits.call_overtaken.tolist()) == (False, [False, True, False])
    assert [hits.reply.any(), hits.reply_overtaken.any()] == [False, False]


@pytest.mark.parametrize("both_came", [True, False])
def test_segments_lost_follow_the_bytes(tmp_path: Path, both_came: bool) -> None:
    """Two segments that were sent again arrive as one packet (GRO): no byte is lost, and so no segment. Where the other
    one is lost on the way, that is one."""
    tcp = wire.Tcp()
    tcp.syn(0, scale=7)
    tcp.send(10, ">", wire.read(1, 0, 2048))
    pieces = tcp.send(20, "<", wire.reply(1, wire.read3(2048)), cut=[700, 700])[:2]
    again = [tcp.again(30 + n, piece) for n, piece in enumerate(pieces)]
    merged = tcp.again(31, *pieces) if both_came else tcp.copy(31, again[0])
    server, client = _decoded(tmp_path, tcp.seen_by("server", without=[merged]), tcp.seen_by("client", without=again))
    _, reply = _both(server, client)
    assert (reply.sent_again.segments, reply.arrived_again.segments) == (2, 1)
    assert (reply.lost_bytes, reply.lost_segments) == ((0, 0) if both_came else (700, 1))
    assert (reply.surplus_bytes, reply.surplus_segments) == (0, 0)


def test_what_the_sender_lost_in_front_of_its_capture(tmp_path: Path) -> None:
    """Late at both ends: lost on the sending host, and no loss between the capture points."""
    tcp = _ops()
    lost = tcp.send(20, ">", wire.read(2, 512, 512))
    tcp.send(20.1, ">", wire.read(3, 1024, 512))
    tcp.again(230, *lost)
    tcp.send(240, "<", wire.reply(2, wire.read3(512)), wire.reply(3, wire.read3(512)))
    seen = tcp.seen_by("server", without=lost), tcp.seen_by("client", without=lost)
    server, client = _decoded(tmp_path, *seen)
    call, _ = _both(server, client)
    assert call.sent_late == call.arrived_late == Amount(1, None, len(lost[0].data))
    assert (call.sent_again, call.lost_bytes) == (NOTHING, 0)
    hits = hit(server, client, _matched(server.ops, client.ops))
    assert hits is not None
    assert client.ops.xid.tolist() == [1, 3, 2]
    assert hits.call.tolist() == [False, False, True], "retransmitted, although no capture shows it twice"


def test_more_copies_than_were_sent_are_said(tmp_path: Path) -> None:
    """The sender's capture has one of two copies: nothing is lost, and the surplus is not hidden in a negative loss."""
    tcp = _ops()
    call = tcp.send(20, ">", wire.read(2, 512, 512))
    again = tcp.again(230, *call)
    tcp.send(240, "<", wire.reply(2, wire.read3(512)))
    server, client = _decoded(tmp_path, tcp.seen_by("server"), tcp.seen_by("client", without=[again]))
    found, _ = _both(server, client)
    assert (found.lost_bytes, found.surplus_bytes) == (0, len(again.data))


def test_packets_that_the_network_doubles_are_no_retransmissions(tmp_path: Path) -> None:
    """The very packet twice, same IP identification: counted as a copy at the receiver, and nothing else."""
    tcp = _ops()
    copied = tcp.send(20, ">", wire.read(2, 512, 512))
    tcp.send(40, "<", wire.reply(2, wire.read3(512)))
    at_client = tcp.seen_by("client")
    tcp.copy(20.5, copied[0])
    server, client = _decoded(tmp_path, tcp.seen_by("server"), at_client)
    call, _ = _both(server, client)
    assert (call.sent_copies, call.arrived_copies) == (0, 1)
    assert (call.sent_again, call.arrived_again, call.lost_bytes) == (NOTHING, NOTHING, 0)


def test_what_a_capture_misses_is_no_loss(tmp_path: Path) -> None:
    """Data that the receiver acknowledged and its capture never saw were not lost on the way; the doubt is said."""
    tcp = _ops()
    missed = tcp.send(20, ">", wire.read(2, 512, 512))
    for n in range(8):
        tcp.send(30 + n, ">", wire.read(10 + n, 512, 512))
        tcp.send(30.5 + n, "<", wire.reply(10 + n, wire.read3(512)))
    tcp.send(50, "<", wire.reply(2, wire.read3(512)))
    server, client = _decoded(tmp_path, tcp.seen_by("server", without=missed), tcp.seen_by("client"))
    call, reply = _both(server, client)
    assert (call.lost_bytes, call.sent_again) == (0, NOTHING)
    assert call.arrived_gaps == (1, len(missed[0].data))
    assert (call.sent_gaps, reply.sent_gaps, reply.arrived_gaps) == ((0, 0), (0, 0), (0, 0))
    assert call.caveats == {Caveat.RECEIVER_DROPS}
    assert reply.caveats == {Caveat.SENDER_DROPS}, "the same capture may have missed a retransmission"


@pytest.mark.parametrize("isn", [(1000, 5000), ((1 << 32) - 300, (1 << 32) - 900)], ids=["plain", "wraps"])
def test_only_what_both_captures_know_of_is_compared(tmp_path: Path, isn: tuple[int, int]) -> None:
    """One capture begins later and the other ends earlier: retransmissions outside are neither lost nor spurious."""
    tcp = wire.Tcp(isn=isn)
    packets = {}
    for n in range(12):
        packets[n] = tcp.send(20 * n, ">", wire.read(n, 512 * n, 512))
        tcp.send(20 * n + 5, "<", wire.reply(n, wire.read3(512)))
        if n in (1, 5, 10):
            tcp.again(20 * n + 8, *packets[n])
    # The server's capture has ops 0 to 8, without one of the two copies of 5; the client's 4 to 11.
    at_server = [
        seen for seen in tcp.seen_by("server", without=packets[5]) if seen.t_ns < wire.EPOCH_NS + 175 * wire.MS
    ]
    at_client = [seen for seen in tcp.seen_by("client") if seen.t_ns > wire.EPOCH_NS + 79 * wire.MS]
    call, reply = _both(*_decoded(tmp_path, at_server, at_client))
    size = len(packets[0][0].data)
    assert call.caveats == reply.caveats == {Caveat.PARTIAL}
    assert (call.bytes, call.lost_bytes, call.arrived_again) == (5 * size, size, NOTHING)
    assert (reply.lost_bytes, reply.sent_again) == (0, NOTHING)


def test_numbers_that_were_rewritten_on_the_way(tmp_path: Path) -> None:
    """Where a firewall gives the bytes other sequence numbers all of both captures is compared, and that is said."""
    sides = []
    for isn in ((1000, 5000), (3_000_000_000, 9_000_000)):
        tcp = _ops(isn=isn)
        lost = tcp.send(20, ">", wire.read(2, 512, 512))
        tcp.send(20.1, ">", wire.read(3, 1024, 512))
        tcp.again(230, *lost)
        tcp.send(240, "<", wire.reply(2, wire.read3(512)), wire.reply(3, wire.read3(512)))
        sides.append(tcp.seen_by("client") if not sides else tcp.seen_by("server", without=lost))
    call, reply = _both(*_decoded(tmp_path, sides[1], sides[0]))
    assert (call.lost_bytes, reply.lost_bytes) == (len(lost[0].data), 0)
    assert call.caveats == reply.caveats == {Caveat.OTHER_NUMBERS}


@pytest.mark.parametrize("nat", [None, {"10.0.0.1": "192.168.7.7"}], ids=["plain", "nat"])
def test_directions_that_the_captures_number_differently(tmp_path: Path, nat: dict[str, str] | None) -> None:
    """The server's capture begins with a packet of the server's, the client's with one of the client's, NAT or not."""
    tcp = wire.Tcp()
    first = tcp.send(0, ">", wire.read(1, 0, 512))
    tcp.send(5, "<", wire.reply(1, wire.read3(512)))
    tcp.send(10, ">", wire.read(4, 2048, 512))
    lost = tcp.send(20, ">", wire.read(2, 512, 512))
    tcp.send(20.1, ">", wire.read(3, 1024, 512))
    tcp.again(230, *lost)
    tcp.send(240, "<", *(wire.reply(xid, wire.read3(512)) for xid in (4, 2, 3)))
    at_server = tcp.seen_by("server", without=[*first, *lost], swap_addresses=nat)
    server, client = _decoded(tmp_path, at_server, tcp.seen_by("client"))
    assert (server.ops.connections[0].port_a, client.ops.connections[0].port_a) == (2049, 700)
    call, reply = _both(server, client)
    assert (call.lost_bytes, reply.lost_bytes) == (len(lost[0].data), 0)
    assert (call.arrived_late.packets, reply.arrived_late.packets) == (1, 0)


def test_a_connection_that_begins_anew_between_the_same_ports(tmp_path: Path) -> None:
    """Each reconnect is held against the same one of the other side, whichever of them the other capture has."""
    parts, lost = [], []
    for n, isn in enumerate([(1000, 5000), (77_000_000, 90_000_000), (2_000_000_000, 9_000)]):
        tcp = wire.Tcp(isn=isn)
        tcp.syn(1000 * n)
        packet = tcp.send(1000 * n + 10, ">", wire.read(10 * n, 0, 512))
        tcp.again(1000 * n + 300, *packet)
        tcp.send(1000 * n + 310, "<", wire.reply(10 * n, wire.read3(512)))
        parts.append(tcp)
        lost.append(packet)
    at_client = [seen for tcp in parts for seen in tcp.seen_by("client")]
    at_server = [
        seen for tcp, gone in list(zip(parts, lost, strict=True))[1:] for seen in tcp.seen_by("server", without=gone)
    ]
    call, _ = _both(*_decoded(tmp_path, at_server, at_client))
    size = len(lost[0][0].data)
    assert (call.bytes, call.lost_bytes, call.sent_again.packets) == (2 * size, 2 * size, 2)
    assert call.caveats == {Caveat.PARTIAL}


def test_a_connection_of_callbacks_has_the_same_two_ways(tmp_path: Path) -> None:
    """The server calls the client on a connection of its own: its calls are still what goes to the client."""
    tcp = wire.Tcp(client=("10.0.0.2", 800), server=("10.0.0.1", 4000))  # "<" and ">" as this connection sees it
    calls = [tcp.send(20 * n, ">", wire.cb_compound(n, wire.CB_SEQUENCE, wire.CB_RECALL)) for n in range(3)]
    tcp.again(41, *calls[2])
    for n in range(3):
        body = wire.v4_results(wire.CB_SEQUENCE_OK, wire.CB_RECALL_OK)
        tcp.send(50 + n, "<", wire.reply(n, body))
    # Of this connection the NFS client is the one that is called.
    nfs_client, nfs_server = tcp.seen_by("server", without=calls[2]), tcp.seen_by("client")
    call, reply = _both(*_decoded(tmp_path, nfs_server, nfs_client))
    assert (call.sent_again, call.lost_bytes) == (NOTHING, 0)
    assert (reply.sent_again.packets, reply.lost_bytes) == (1, len(calls[2][0].data))


def test_ipv6_captured_twice_is_no_loss(tmp_path: Path) -> None:
    """Without an IP identification a copy is told by what it says; of what is sent again the same way one can doubt."""
    tcp = wire.Tcp(client=("fd00::1", 700), server=("fd00::2", 2049))
    tcp.send(0, ">", wire.read(1, 0, 512))
    tcp.send(10, "<", wire.reply(1, wire.read3(512)))
    server, client = (tcp.seen_by(side) * 2 for side in ("server", "client"))
    call, reply = _both(*_decoded(tmp_path, server, client))
    assert call.sent_again == call.arrived_again == reply.sent_again == NOTHING
    assert call.caveats == reply.caveats == frozenset()
    tcp.again(300, *tcp.send(90, ">", wire.read(2, 0, 512)))
    call, reply = _both(*_decoded(tmp_path, *(tcp.seen_by(side) for side in ("server", "client"))))
    assert (call.sent_again.packets, call.arrived_again.packets, call.lost_bytes) == (1, 1, 0)
    assert (call.caveats, reply.caveats) == ({Caveat.COPIES_UNKNOWN}, frozenset())


def test_more_events_than_are_kept(tmp_path: Path) -> None:
    """Where events are missing the counters tell, without the segments and without regard to what is in common."""
    tcp = _ops()
    lost = tcp.send(20, ">", wire.read(2, 512, 512))
    tcp.again(230, *lost)
    tcp.send(240, "<", wire.reply(2, wire.read3(512)))
    server, client = _decoded(tmp_path, tcp.seen_by("server", without=lost), tcp.seen_by("client"))
    none = TcpEvents.empty()
    client = replace(client, details=replace(client.details, events=none, events_dropped=1))
    call, _ = _both(server, client)
    assert (call.sent_again, call.lost_bytes) == (Amount(1, None, len(lost[0].data)), len(lost[0].data))
    assert (call.lost_segments, call.caveats) == (None, {Caveat.EVENTS_DROPPED})


def test_what_the_other_engine_decoded_is_not_known(tmp_path: Path) -> None:
    """Without the tables of the native engine nothing is said, which is not the same as nothing lost."""
    tcp = _ops()
    server, client = _decoded(tmp_path, tcp.seen_by("server"), tcp.seen_by("client"))
    other = replace(client, details=no_details())
    matched = _matched(server.ops, client.ops)
    assert deliveries(server, client, {0: 0}) is not None
    for one, two in ((server, other), (other, client), (other, other)):
        assert deliveries(one, two, {0: 0}) is None
        assert hit(one, two, matched) is None


def test_udp_has_no_deliveries(tmp_path: Path) -> None:
    """UDP sends nothing again: there is nothing to say of its connections, and that much is known."""
    udp = wire.Udp()
    udp.send(0, ">", wire.read(1, 0, 512))
    udp.send(1, "<", wire.reply(1, wire.read3(512)))
    server, client = _decoded(tmp_path, udp.seen_by("server"), udp.seen_by("client"))
    assert deliveries(server, client, {0: 0}) == ()
    hits = hit(server, client, _matched(server.ops, client.ops))
    assert hits is not None
    assert not any(column.any() for column in hits)


def test_captures_without_details_are_not_known() -> None:
    """Tables that nobody filled say nothing of TCP."""
    made = wire_tables.decoded(wire_tables.ops(wire_tables.op(0, 1, 1)))
    assert deliveries(made, made, {0: 0}) is None


# --- Kernels' counters ------------------------------------------------------------------------------------------------

LAB = sorted(path.parent.name for path in SHARED.glob("lab/*/truth.json") if (path.parent / "server.pcap.gz").exists())


def _lab(name: str, decoder: Decoder) -> tuple[Decoded, Decoded, dict[str, int], dict[int, int]]:
    """The two captures of a scenario, RetransSegs of the two kernels, and which connections are the same."""
    folder = SHARED / "lab" / name
    server, client = (decoder.side("native", folder / f"{side}.pcap.gz").decoded for side in ("server", "client"))
    rows = {ends.key: row for row, ends in enumerate(client.ops.connections)}
    same = {row: rows[ends.key] for row, ends in enumerate(server.ops.connections) if ends.key in rows}
    return server, client, json.loads((folder / "truth.json").read_text())["tcp_retrans_segs"], same


def _sums(found: tuple[Delivery, ...], way: Way) -> tuple[int, int, int]:
    """Segments sent again, lost, and arrived twice."""
    of_way = [one for one in found if one.way is way]
    amounts = [(one.sent_again.segments, one.lost_segments, one.arrived_again.segments) for one in of_way]
    assert all(None not in amount for amount in amounts), "the lab's captures have the handshakes"
    return tuple(sum(column) for column in zip(*amounts, strict=True))  # type: ignore[return-value,arg-type]


@needs_captures
@pytest.mark.parametrize("name", LAB)
def test_packets_that_the_network_doubled_are_told_from_those_captured_twice(decoder: Decoder, name: str) -> None:
    """2 % where netem doubled 2 %; none elsewhere, also where a capture on all interfaces has each one twice."""
    server, client, _, same = _lab(name, decoder)
    found = deliveries(server, client, same)
    assert found is not None
    packets, doubled = (sum(getattr(one, field) for one in found) for field in ("arrived_packets", "doubled"))
    if name == "k_v3_dup":
        assert 0.015 * packets < doubled < 0.025 * packets
    else:
        assert doubled == 0


@needs_captures
@pytest.mark.parametrize("name", LAB)
def test_segments_sent_again_are_those_that_the_kernels_counted(decoder: Decoder, name: str) -> None:
    """RetransSegs of client and server during the load, to the segment, wherever both captures ran all the time."""
    server, client, truth, same = _lab(name, decoder)
    found = deliveries(server, client, same)
    assert found is not None
    counted = {"client": _sums(found, Way.CALL)[0], "server": _sums(found, Way.REPLY)[0]}
    if name == "j_v3_partial_overlap":
        # The server sent one segment again when its own capture had ended.
        assert (counted, truth) == ({"client": 0, "server": 0}, {"client": 0, "server": 1})
    else:
        assert counted == truth


@needs_captures
@pytest.mark.parametrize("name", [name for name in LAB if not name.startswith(("d3_", "d4_"))])
def test_nothing_is_lost_on_a_network_that_loses_nothing(decoder: Decoder, name: str) -> None:
    """Delays, doubled packets, packets that a capture missed or saw twice, stalls and restarts: no loss on the way."""
    server, client, _, same = _lab(name, decoder)
    found = deliveries(server, client, same)
    assert found is not None
    assert sum(one.lost_bytes + one.surplus_bytes for one in found) == 0
    drops = {Caveat.SENDER_DROPS, Caveat.RECEIVER_DROPS}
    assert any(one.caveats & drops for one in found) == (name == "j_v3_capture_drops")


@needs_captures
@pytest.mark.parametrize(
    ("name", "call", "reply"),
    [("d3_v3_loss1", (166, 164, 2), (198, 193, 5)), ("d4_v3_loss2_full", (58, 58, 0), (70, 68, 2))],
)
def test_loss_on_a_network_that_loses(
    decoder: Decoder, name: str, call: tuple[int, int, int], reply: tuple[int, int, int]
) -> None:
    """Segments sent again, lost and spurious; what is lost comes late, but for tails and what is lost a second time.

    Byte by byte: in d3 and d4 three segments of the server's were lost twice, and in d4 636 bytes had no data behind.
    """
    server, client, _, same = _lab(name, decoder)
    found = deliveries(server, client, same)
    assert found is not None
    assert (_sums(found, Way.CALL), _sums(found, Way.REPLY)) == (call, reply)
    not_late = {way: sum(one.lost_bytes - one.arrived_late.bytes for one in found if one.way is way) for way in Way}
    tail = 636 if name.startswith("d4") else 0
    assert not_late == {Way.CALL: 0, Way.REPLY: 3 * 1448 + tail}
    assert sum(one.sent_late.packets for one in found) == 0
    hits = hit(server, client, _matched(server.ops, client.ops))
    assert hits is not None
    assert 0 < hits.call.sum() < len(hits.call) / 10
    assert 0 < hits.reply.sum() < len(hits.reply) / 10
    assert [hits.call_overtaken.any(), hits.reply_overtaken.any()] == [False, False]


@needs_captures
def test_ops_that_loss_touched_are_all_named(tmp_path: Path) -> None:
    """On whole packets each byte that was sent again, or came late, is a byte of an op that is named."""
    for side in ("server", "client"):
        d = _read(SHARED / "lab" / "d4_v3_loss2_full" / f"{side}.pcap.gz", tmp_path).details
        by_kind = np.bincount(d.resent.kind, weights=d.resent.bytes)
        assert by_kind.tolist() == [d.tcp.retransmitted_bytes.sum(), d.tcp.late_bytes.sum()]
        assert d.resent_dropped == 0


@needs_captures
def test_a_network_that_doubles_packets(decoder: Decoder) -> None:
    """netem's second copies are at the receiver only."""
    server, client, _, same = _lab("k_v3_dup", decoder)
    found = deliveries(server, client, same)
    assert found is not None
    assert {one.sent_copies for one in found} == {0}
    assert [sum(one.arrived_copies for one in found if one.way is way) for way in Way] == [92, 80]
