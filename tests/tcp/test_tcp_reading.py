"""TCP packets are read as they are in the capture, and judged by what was seen before; tshark and plain steps agree."""

from __future__ import annotations

import dataclasses
import gzip
import os
import struct
import threading
from collections.abc import Callable, Iterable
from pathlib import Path

import numpy as np
import pytest
from examples import examples
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from timeline import MS, Line, Timeline
from wire import EPOCH_NS, Seen, Udp, null, write_pcap

from nfslat.decode.capture import Source
from nfslat.decode.engine import choose
from nfslat.decode.tools import Tools
from nfslat.errors import InputError
from nfslat.tcp.packets import ACK, RST, SYN, AckKind, Kind, Packets, Trace
from nfslat.tcp.reading import read_trace


def _no_tools() -> Tools:
    raise AssertionError("Wireshark is not needed for this")


def _open(path: Path | str, tools: Callable[[], Tools] = _no_tools, scratch: Path = Path("/nowhere")) -> Source:
    return choose("native", tools, scratch, rereads=False).open(str(path))


def _read(path: Path | str, *, ports: frozenset[int] = frozenset(), stream: int | None = None) -> Trace:
    return read_trace(_open(path), _no_tools, lambda _: None, ports=ports, stream=stream)


def _same(trace: Trace, want: Trace) -> None:
    """The columns, and what the SYNs agreed on."""
    for name in Packets.columns():
        found, expected = getattr(trace.packets, name), getattr(want.packets, name)
        assert found.tolist() == expected.tolist(), name
    for one, other in zip(trace.conversations, want.conversations, strict=True):
        ways = [dataclasses.replace(way, head=b"", copies=0, lost_bytes=0) for way in one.ways]
        assert (one.ends, ways) == (other.ends, list(other.ways))


# --- Timelines --------------------------------------------------------------------------------------------------------

_STEPS = st.one_of(
    st.tuples(st.just("send"), st.sampled_from([1, 1, 2, 10, 1460])),
    st.tuples(st.just("at"), st.integers(-40, 40), st.sampled_from([1, 2, 10, 30])),
    st.tuples(st.just("ack"), st.integers(-30, 10)),
    st.tuples(st.just("window"), st.sampled_from([0, 0, 500, 501])),
    st.tuples(st.just("alive"), st.integers(0, 1)),
    st.tuples(st.just("sack"), st.lists(st.integers(-50, 50), min_size=1, max_size=4)),
    st.tuples(st.just("fin")),
    st.tuples(st.just("rst")),
)


@st.composite
def _timelines(draw: st.DrawFn) -> tuple[Timeline, list[Line]]:
    """A conversation in which anything may happen, and what the capture lost of it."""
    hosts = draw(st.sampled_from([("10.0.0.1", "10.0.0.2"), ("fd00::1", "fd00::2")]))
    near_the_end = st.sampled_from([1000, 2**32 - 1, 2**32 - 60, 2**31 - 60])
    line = Timeline(
        client=(hosts[0], 40_000),
        server=(hosts[1], 1521),
        scale=draw(st.sampled_from([None, 0, 7])),
        isn=(draw(near_the_end), draw(near_the_end)),
    )
    if draw(st.booleans()):
        line.handshake(0)
    for at, (way, step) in enumerate(draw(st.lists(st.tuples(st.sampled_from("><"), _STEPS), min_size=1, max_size=30))):
        _take(line, 10 + 3 * at, way, step)  # what comes sooner than TCP sends anything again may be a copy
    lost = [one for one in line.lines if draw(st.sampled_from([False] * 5 + [True]))]
    return line, lost if len(lost) < len(line.lines) else []


def _take(line: Timeline, ms: float, way: str, step: tuple[object, ...]) -> None:
    other = "<" if way == ">" else ">"
    match step:
        case ("send", int(size)):
            line.send(ms, way, size, head=bytes(range(1, size % 9)))
        case ("at", int(offset), int(size)):
            line.send(ms, way, size, seq=max(line.next[way] + offset, 0))
        case ("ack", int(offset)):
            line.ack(ms, way, ack=max(line.next[other] + offset, 0))
        case ("window", int(window)):
            line.ack(ms, way, window=window)
        case ("alive", int(size)):
            line.send(ms, way, size, seq=line.next[way] - 1, flags=ACK)
        case ("sack", list(edges)):
            here = line.next[other]
            line.ack(ms, way, sack=tuple((max(here + edge, 0), max(here + edge, 0) + 10) for edge in edges))
        case ("fin",):
            line.fin(ms, way)
            line.next[way] += 1
        case _:
            line.rst(ms, way)


@settings(max_examples=examples(100), suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(_timelines())
def test_every_column_is_what_plain_steps_make_of_the_packets(
    tmp_path: Path, made: tuple[Timeline, list[Line]]
) -> None:
    """Whatever both sides send, repeat, acknowledge or close, and whatever of it the capture lost."""
    line, lost = made
    trace = _read(line.write(tmp_path / "c.pcap", without=lost))
    _same(trace, line.trace(without=lost))
    assert (trace.total_packets, trace.copies, trace.other_packets) == (len(trace.packets), 0, 0)


def test_new_data_holes_and_what_fills_them_are_told_apart(tmp_path: Path) -> None:
    """Each packet by what was seen of its direction before; a segment that is partly new repeats, too."""
    line = Timeline()
    line.handshake(0)
    for seq, size in [(0, 100), (200, 100), (100, 50), (150, 50), (0, 100), (250, 100), (350, 10)]:
        line.send(10 + len(line.lines), ">", size, seq=seq)
    kinds = [Kind(kind).name for kind in _read(line.write(tmp_path / "c.pcap")).packets.kind[3:]]
    assert kinds == [
        "NEW", "AHEAD", "OUT_OF_ORDER", "OUT_OF_ORDER", "RETRANSMISSION", "RETRANSMISSION", "NEW",
    ]  # fmt: skip


def test_acks_are_told_apart(tmp_path: Path) -> None:
    """Duplicates need data under way and the same window; what comes too late says nothing."""
    line = Timeline()
    line.handshake(0)
    line.ack(1, "<", ack=0)
    line.send(2, ">", 1000)
    line.ack(3, "<", ack=0)
    line.ack(4, "<", ack=500)
    line.ack(5, "<", ack=500)
    line.ack(6, "<", ack=500, window=100)
    line.ack(7, "<", ack=0)
    line.ack(8, "<", ack=1000)
    line.ack(9, "<", ack=1000)
    kinds = [AckKind(kind).name for kind in _read(line.write(tmp_path / "c.pcap")).packets.ack_kind]
    assert kinds == [
        "NONE", "NONE", "ADVANCES", "NONE", "NONE", "DUPLICATE", "ADVANCES", "DUPLICATE", "WINDOW_UPDATE", "NONE",
        "ADVANCES", "NONE",
    ]  # fmt: skip


def test_a_closed_window_is_probed_until_the_byte_is_taken(tmp_path: Path) -> None:
    """Probes repeat as probes; then the byte that was acknowledged is not missing, and not sent again."""
    line = Timeline()
    line.handshake(0)
    line.send(1, ">", 10)
    line.ack(2, "<", ack=10, window=0)
    for ms in (200, 600):
        line.send(ms, ">", 1, seq=10, flags=ACK)
        line.ack(ms + 1, "<", ack=10)
    line.send(1400, ">", 1, seq=10, flags=ACK)
    line.ack(1401, "<", ack=11, window=500)
    line.send(1402, ">", 10, seq=11)
    trace = _read(line.write(tmp_path / "c.pcap"))
    packets = trace.packets
    rows = [(Kind(kind).name, AckKind(ack).name) for kind, ack in zip(packets.kind, packets.ack_kind, strict=True)][5:]
    probed, same = ("ZERO_WINDOW_PROBE", "NONE"), ("NONE", "KEEP_ALIVE")
    assert rows == [probed, same, probed, same, probed, ("NONE", "ADVANCES"), ("NEW", "NONE")]
    assert [way.lost_bytes for way in trace.conversations[0].ways] == [0, 0]


@pytest.mark.parametrize("size", [0, 1])
def test_a_keep_alive_repeats_a_byte_that_was_acknowledged(tmp_path: Path, size: int) -> None:
    """With that byte or without (Linux); a single byte that nobody acknowledged is sent again."""
    line = Timeline()
    line.handshake(0)
    line.send(1, ">", 10)
    line.send(2, ">", 1, seq=9)
    line.ack(3, "<", ack=10)
    line.send(7_200_000, ">", size, seq=9, flags=ACK)
    line.ack(7_200_001, "<", ack=10)
    packets = _read(line.write(tmp_path / "c.pcap")).packets
    assert [Kind(kind).name for kind in packets.kind[4:]] == ["RETRANSMISSION", "NONE", "KEEP_ALIVE", "NONE"]
    assert AckKind(packets.ack_kind[-1]) is AckKind.KEEP_ALIVE


def test_a_keep_alive_that_is_seen_first_leaves_no_hole(tmp_path: Path) -> None:
    """An idle session: the capture begins with the number of a byte that was sent long ago."""
    line = Timeline()
    line.send(0, ">", 0, seq=999, ack=0, flags=ACK)
    line.ack(1, "<", ack=1000)
    line.send(100, ">", 50, seq=1000)
    trace = _read(line.write(tmp_path / "c.pcap"))
    assert Kind(trace.packets.kind[-1]) is Kind.NEW
    assert trace.conversations[0].ways[0].lost_bytes == 0


def test_what_was_acknowledged_and_never_captured_is_counted(tmp_path: Path) -> None:
    """A hole that nothing fills, and the end; a FIN is no byte."""
    line = Timeline()
    line.handshake(0)
    packets = [line.send(1 + at, ">", 100) for at in range(5)]
    line.fin(10, ">")
    line.ack(11, "<", ack=501)
    whole = _read(line.write(tmp_path / "whole.pcap"))
    lossy = _read(line.write(tmp_path / "lossy.pcap", without=[packets[1], packets[4]]))
    assert [trace.conversations[0].ways[0].lost_bytes for trace in (whole, lossy)] == [0, 200]


def test_a_capture_of_one_direction_knows_positions_by_the_acks_of_the_other(tmp_path: Path) -> None:
    """Position 0 is then what the first ACK covers up to."""
    line = Timeline(isn=(1000, 2**32 - 5))
    line.handshake(0)
    line.burst(1, "<", 4000)
    line.ack(2, ">", ack=4000)
    trace = _read(line.write(tmp_path / "c.pcap", without=[one for one in line.lines if one.way == "<"]))
    assert trace.packets.ack.tolist() == [-1, 0, 4000]
    forth, back = trace.conversations[0].ways
    assert (forth.saw_syn, back.saw_syn, back.first_seq) == (True, False, 2**32 - 5)
    assert (forth.window_scale, back.window_scale, back.lost_bytes) == (None, None, 4000)


@pytest.mark.parametrize(
    ("scale", "lost", "want"),
    [(7, "", (7, 7)), (7, "<", (None, None)), (7, ">", (None, None)), (None, "", (0, 0)), (None, "<", (0, 0))],
)
def test_windows_are_scaled_only_where_both_agreed(
    tmp_path: Path, scale: int | None, lost: str, want: tuple[int | None, int | None]
) -> None:
    """One SYN with the option tells nothing without the other; one without it declines (RFC 7323 section 2.2)."""
    line = Timeline(scale=scale)
    line.handshake(0)
    trace = _read(line.write(tmp_path / "c.pcap", without=[one for one in line.lines[:2] if one.way == lost]))
    conversation = trace.conversations[0]
    assert (conversation.shift(0), conversation.shift(1)) == (want if lost != ">" else want[::-1])


def test_options_that_the_snaplen_cut_are_not_known(tmp_path: Path) -> None:
    """A SYN in 58 bytes shows its MSS and not its window scale; one in 68 bytes shows both."""
    line = Timeline()
    line.handshake(0)
    line.send(1, ">", 100, head=b"abc")
    cut, whole = (_read(line.write(tmp_path / f"{kept}.pcap", snaplen=kept)) for kept in (58, 68))
    assert [way.window_scale for trace in (cut, whole) for way in trace.conversations[0].ways] == [None, None, 7, 7]
    assert {way.mss for trace in (cut, whole) for way in trace.conversations[0].ways} == {1460}
    assert (cut.packets.head[-1], cut.packets.head_size[-1]) == (int.from_bytes(b"abc\0\0\0\0\0", "big") >> 32 << 32, 4)
    assert (cut.packets.size[-1], cut.snaplen) == (100, 58)


def test_the_head_of_a_stream_is_kept_as_far_as_it_was_captured(tmp_path: Path) -> None:
    """In the order of the stream, not twice, up to 4096 bytes, and not beyond what the snaplen cut."""
    line = Timeline()
    line.handshake(0)
    line.send(1, ">", 10, head=b"0123456789")
    line.send(2, ">", 10, seq=0, head=b"0123456789")
    line.send(3, ">", 10, seq=5, head=b"56789abcde")
    line.send(4, ">", 5000, head=b"x" * 5000)
    line.send(5, "<", 3, seq=1, head=b"ABC")
    whole, cut = (_read(line.write(tmp_path / f"{kept}.pcap", snaplen=kept)) for kept in (65_535, 62))
    assert whole.conversations[0].ways[0].head == b"0123456789abcde" + b"x" * 4081
    assert whole.conversations[0].ways[1].head == b""
    assert cut.conversations[0].ways[0].head == b"01234567"


# --- Conversations ----------------------------------------------------------------------------------------------------


def test_a_new_syn_begins_a_new_conversation(tmp_path: Path) -> None:
    """The same SYN again does not; nor does the answer with another number to the same SYN."""
    first, second = Timeline(isn=(1000, 5000)), Timeline(isn=(900_000, 7_000_000))
    first.add(-1000, ">", -1, 0, None, SYN)
    first.handshake(0)
    first.burst(10, ">", 3000)
    second.add(4999, "<", 0, 0, 0, ACK)  # from before
    second.lines.clear()
    second.handshake(5000)
    second.burst(5010, "<", 3000)
    trace = _read(write_pcap(tmp_path / "c.pcap", first.seen(), second.seen(), nano=True))
    assert [one.reconnect for one in trace.conversations] == [0, 1]
    assert np.bincount(trace.packets.conversation).tolist() == [7, 6]
    assert trace.talk(1).packets.seq.tolist() == second.trace().packets.seq.tolist()


def test_the_server_may_answer_a_syn_first_from_an_old_connection(tmp_path: Path) -> None:
    """RFC 5961 section 4: a challenge ACK, the reset that it provokes, and then the connection that was asked for."""
    line = Timeline(isn=(1000, 5000))
    line.add(0, ">", -1, 0, None, SYN)
    line.add(1, "<", 700_000_000, 0, 900, ACK)
    line.add(2, ">", 900, 0, None, RST)
    line.handshake(1000)
    line.send(1001, "<", 100)
    trace = _read(line.write(tmp_path / "c.pcap"))
    assert len(trace.conversations) == 1
    assert trace.packets.seq.tolist()[-4:] == [-1, -1, 0, 0]
    assert Kind(trace.packets.kind[-1]) is Kind.NEW


def test_numbers_that_no_window_reaches_are_of_another_conversation(tmp_path: Path) -> None:
    """A port was used again, and the capture does not have the SYN; a long gap in the capture is none."""
    old, new = Timeline(isn=(3_000_000_000, 5000)), Timeline(isn=(1000, 2_000_000_000))
    old.send(0, ">", 100)
    old.send(1, "<", 100)
    new.send(5000, ">", 100)
    new.send(5001, "<", 100)
    trace = _read(write_pcap(tmp_path / "reused.pcap", old.seen(), new.seen(), nano=True))
    assert trace.packets.conversation.tolist() == [0, 0, 1, 1]
    assert set(trace.packets.kind.tolist()) == {Kind.NEW}
    gap = Timeline()
    gap.send(0, ">", 100)
    gap.send(1, "<", 100)
    gap.send(2, ">", 100, seq=500_000_000)
    trace = _read(gap.write(tmp_path / "gap.pcap"))
    assert [Kind(kind).name for kind in trace.packets.kind] == ["NEW", "NEW", "AHEAD"]


def _two(tmp_path: Path) -> tuple[Path, Timeline, Timeline]:
    """Two conversations that alternate, and an RPC call over UDP."""
    one, two = Timeline(), Timeline(client=("10.0.0.1", 40_001), server=("10.0.0.3", 1433), isn=(7, 8))
    for at, line in enumerate((one, two)):
        line.handshake(at / 100)
        for ms in range(1, 20):
            line.send(ms + at / 100, "><"[ms % 2], 100 * ms)
    datagrams = Udp()
    datagrams.send(5, ">", null(1))
    seen = [one.seen(), two.seen(), datagrams.seen_by("client")]
    return write_pcap(tmp_path / "c.pcap", *seen, nano=True), one, two


def test_conversations_are_numbered_in_the_order_of_their_first_packets(tmp_path: Path) -> None:
    """Each has the rows that it would have alone, but for frame numbers."""
    path, *lines = _two(tmp_path)
    trace = _read(path)
    assert [one.ends.port_b for one in trace.conversations] == [1521, 1433]
    for number, line in enumerate(lines):
        talk, alone = trace.talk(number), line.trace()
        for name in set(Packets.columns()) - {"frame", "conversation"}:
            assert getattr(talk.packets, name).tolist() == getattr(alone.packets, name).tolist(), name
    assert (trace.total_packets, trace.other_packets, trace.skipped_packets) == (45, 1, 0)


def test_each_of_many_conversations_is_found(tmp_path: Path) -> None:
    """With its own packets, however many there are."""
    lines = [Timeline(client=("10.0.0.1", 1000 + port)) for port in range(300)]
    for at, line in enumerate(lines):
        line.handshake(at / 1000)
    lines[299].send(5, ">", 100)
    lines[299].send(305, ">", 100, seq=0)
    trace = _read(write_pcap(tmp_path / "c.pcap", *(line.seen() for line in lines), nano=True))
    talks = [trace.talk(number) for number in range(300)]
    assert {talk.conversation.ends.port_a for talk in talks} == set(range(1000, 1300))
    assert all((talk.packets.conversation == number).all() for number, talk in enumerate(talks))
    assert [len(talk.packets) for talk in talks] == [3] * 299 + [5]


@pytest.mark.parametrize("port", [1433, 40_001])
def test_ports_choose_packets_by_either_end(tmp_path: Path, port: int) -> None:
    """The others are counted as skipped; all packets of the capture are in one of the four counts."""
    path, _, two = _two(tmp_path)
    trace = _read(path, ports=frozenset({port, 9}))
    assert [one.ends for one in trace.conversations] == [two.trace().conversations[0].ends]
    assert trace.packets.seq.tolist() == two.trace().packets.seq.tolist()
    assert (len(trace.packets), trace.other_packets, trace.skipped_packets, trace.copies) == (22, 1, 22, 0)


def test_one_stream_keeps_its_number(tmp_path: Path) -> None:
    """The packets of the others are skipped, so that a capture of many connections fits into memory."""
    path, *_ = _two(tmp_path)
    every, one = _read(path), _read(path, stream=1)
    assert one.conversations == every.conversations
    assert one.packets.frame.tolist() == every.talk(1).packets.frame.tolist()
    assert (len(one.packets), one.skipped_packets) == (22, 22)
    with pytest.raises(InputError, match="there is no conversation 2: 2 were found, and the first is number 0"):
        _read(path, stream=2)


# --- Copies -----------------------------------------------------------------------------------------------------------


def test_a_packet_that_was_captured_twice_has_one_row(tmp_path: Path) -> None:
    """It is told by its identification; what TCP sends again has another one."""
    line = Timeline()
    line.handshake(0)
    sent = line.send(1, ">", 100)
    line.again(1.01, sent)
    line.send(300, ">", 100, seq=0)
    trace = _read(line.write(tmp_path / "c.pcap"))
    assert [Kind(kind).name for kind in trace.packets.kind[3:]] == ["NEW", "RETRANSMISSION"]
    assert (trace.copies, trace.conversations[0].ways[0].copies) == (1, 1)
    assert trace.total_packets == len(trace.packets) + trace.copies


def test_identifications_that_do_not_count_tell_nothing(tmp_path: Path) -> None:
    """A sender that gives all its packets the same one sends again what comes again."""
    line = Timeline()
    line.handshake(0)
    for ms in (1, 2, 202):
        line.send(ms, ">", 100, seq=100 * (ms == 2))
    line.lines = [dataclasses.replace(one, ip_id=77) for one in line.lines]
    trace = _read(line.write(tmp_path / "c.pcap"))
    assert trace.copies == 0
    assert [Kind(kind).name for kind in trace.packets.kind[3:]] == ["NEW", "NEW", "RETRANSMISSION"]


def _write_any(path: Path, seen: Iterable[Seen], interfaces: tuple[int, ...]) -> Path:
    """As `tcpdump -i any` writes it (LINKTYPE_LINUX_SLL2): each packet once an interface."""
    out = [struct.pack("<IHHiIII", 0xA1B23C4D, 2, 4, 0, 0, 262_144, 276)]
    for packet in seen:
        for number, interface in enumerate(interfaces):
            frame = packet.frame[12:14] + struct.pack(">HIHBB8x", 0, interface, 1, 0, 6) + packet.frame[14:]
            seconds, ns = divmod(packet.t_ns + 1000 * number, 1_000_000_000)
            out += [struct.pack("<IIII", seconds, ns, len(frame), len(frame)), frame]
    path.write_bytes(b"".join(out))
    return path


@pytest.mark.parametrize("hosts", [("10.0.0.1", "10.0.0.2"), ("fd00::1", "fd00::2")])
def test_a_capture_of_all_interfaces_shows_each_packet_once(tmp_path: Path, hosts: tuple[str, str]) -> None:
    """Where there is no identification (IPv6) the interface tells copies from what was sent again."""
    line = Timeline(client=(hosts[0], 700), server=(hosts[1], 2049))
    line.handshake(0)
    line.send(1, ">", 100)
    line.send(5, ">", 100, seq=0)
    for ms in (6, 6.1, 6.2):
        line.ack(ms, "<", ack=0)
    trace = _read(_write_any(tmp_path / "any.pcap", line.seen(), (2, 5)))
    want = line.trace().packets
    assert trace.copies == len(want)
    for name in ("seq", "kind", "ack_kind", "ip_id"):
        assert getattr(trace.packets, name).tolist() == getattr(want, name).tolist()


# --- Files and errors -------------------------------------------------------------------------------------------------


def test_a_set_of_files_is_one_capture(tmp_path: Path) -> None:
    """In the order of time, with frame numbers that count through, compressed or not."""
    line = Timeline()
    line.handshake(0)
    for ms in range(1, 11):
        line.send(ms, ">", 100)
    seen = line.seen()
    write_pcap(tmp_path / "c.pcap2", seen[:8], nano=True)
    (tmp_path / "c.pcap1").write_bytes(gzip.compress(write_pcap(tmp_path / "x", seen[8:], nano=True).read_bytes()))
    trace = _read(f"{tmp_path}/c.pcap*")
    _same(trace, line.trace())
    assert [file.packets for file in trace.source.files] == [8, 5]
    assert (trace.first_ns, trace.last_ns) == (EPOCH_NS, EPOCH_NS + 10 * MS)


def test_a_pipe_is_read(tmp_path: Path) -> None:
    """As it comes."""
    path, *_ = _two(tmp_path)
    os.mkfifo(tmp_path / "pipe")
    feed = threading.Thread(target=lambda: (tmp_path / "pipe").write_bytes(path.read_bytes()))
    feed.start()
    piped = _read(tmp_path / "pipe")
    feed.join()
    assert piped.packets.t_ns.tolist() == _read(path).packets.t_ns.tolist()


def test_a_capture_that_is_cut_short_is_read_as_far_as_it_goes(tmp_path: Path) -> None:
    """And says so."""
    path, *_ = _two(tmp_path)
    path.write_bytes(path.read_bytes()[:-1])
    trace = _read(path)
    assert (trace.total_packets, trace.damage) == (44, "after packet 44 the file ends in the middle of a record")


def test_what_cannot_be_read_is_refused_in_one_line(tmp_path: Path) -> None:
    """With what is wrong: nothing in it, nothing of TCP, nothing on that port, no capture."""
    path, *_ = _two(tmp_path)
    datagrams = Udp()
    datagrams.send(5, ">", null(1))
    only_udp = write_pcap(tmp_path / "udp.pcap", datagrams.seen_by("client"))
    (tmp_path / "nothing").write_bytes(b"")
    (tmp_path / "early.pcap").write_bytes(path.read_bytes()[:30])
    for name, ports, reason in [
        (only_udp, {}, "none of its 1 packets is TCP"),
        (path, {1, 2}, "none of its 44 TCP packets is on port 1 or 2"),
        (tmp_path / "nothing", {}, "the file is empty"),
        (tmp_path / "early.pcap", {}, "holds no packets"),
        (tmp_path / "none", {}, "no such file"),
    ]:
        with pytest.raises(InputError, match=reason) as problem:
            _read(name, ports=frozenset(ports))
        assert "\n" not in str(problem.value)


def test_reading_can_be_ended(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What `progress` raises goes through, even where a pipe brings nothing."""
    monkeypatch.setattr("nfslat.decode.native._STOP_S", 0.01)

    def enough(_: int) -> None:
        raise KeyboardInterrupt

    os.mkfifo(tmp_path / "pipe")
    feed = os.open(tmp_path / "pipe", os.O_RDWR)
    try:
        with pytest.raises(KeyboardInterrupt):
            read_trace(_open(tmp_path / "pipe"), _no_tools, enough)
    finally:
        os.close(feed)
