"""SQL*Net in TCP conversations: conversations by hand, a public capture, and bytes that nobody would send."""

from __future__ import annotations

import dataclasses
import json
import struct
from pathlib import Path

import numpy as np
import pytest
from captures import SHARED
from examples import examples
from hypothesis import given, settings
from hypothesis import strategies as st
from queue_captures import write_captures
from queues import MS, simulate
from timeline import Timeline

from nfslat.cli import main as cli
from nfslat.decode import native
from nfslat.decode.tools import find_tools
from nfslat.errors import InputError
from nfslat.evidence import sqlnet_trace
from nfslat.report.text_writer import write
from nfslat.tcp.packets import Kind, Talk, Trace
from nfslat.tcp.reading import read_trace
from nfslat.tcp.sections.sqlnet import sqlnet_section, trace_section
from nfslat.tcp.sqlnet.conversation import Sqlnet, Turns, compare, find
from nfslat.tcp.sqlnet.tns import Type

ORACLE = SHARED / "corpus" / "cisco-system-traffic-generator-trex-core__Oracle.pcap"
_CONNECT_DATA = b"(DESCRIPTION=(CONNECT_DATA=(SERVICE_NAME=sales)(CID=(PROGRAM=batch)(HOST=a)(USER=b))))"


def tns(kind: Type, body: bytes = b"", *, long_lengths: bool = False) -> bytes:
    """A TNS packet."""
    length = 8 + len(body)
    begin = struct.pack(">I", length) if long_lengths else struct.pack(">HH", length, 0)
    return begin + struct.pack(">BBH", kind, 0, 0) + body


def data(size: int, function: bytes = b"\x03\x5e", *, long_lengths: bool = False) -> bytes:
    """A data packet of `size` bytes with its headers."""
    return tns(Type.DATA, (b"\0\0" + function).ljust(size - 8, b"\x55"), long_lengths=long_lengths)


def connect(sdu: int, *, version: int = 312, large: int | None = None, text: bytes = _CONNECT_DATA) -> bytes:
    """A connect packet; `large` goes into the 32-bit fields behind."""
    at = 34 if large is None else 74
    fields = struct.pack(">HHHHHHHHHHIBB", version, 300, 0x41, sdu, 32767, 0x7F08, 0, 1, len(text), at, 512, 0x41, 0x41)
    if large is not None:
        fields += bytes(24) + struct.pack(">IIII", large, large, 0, 0)
    return tns(Type.CONNECT, fields + text)


def accept(sdu: int, *, version: int = 312, large: int | None = None) -> bytes:
    """An accept packet."""
    fields = struct.pack(">HHHHHHHBB", version, 0x41, sdu, 32767, 0x0100, 0, 32, 0x41, 0x41) + bytes(8)
    return tns(Type.ACCEPT, fields + (b"" if large is None else struct.pack(">IIB", large, large, 0) + bytes(4)))


class Session(Timeline):
    """A conversation whose payload is known."""

    def put(self, ms: float, way: str, *packets: bytes) -> None:
        """TNS packets in one TCP packet each, or in segments of the MSS."""
        for packet in packets:
            for at in range(0, len(packet), self.mss):
                piece = packet[at : at + self.mss]
                self.send(ms, way, len(piece), head=piece)

    def talk(self) -> Talk:
        """As the reader gives it: with the begin of both streams."""
        whole = self.trace().talk(0)
        ways = []
        for way, of in zip((">", "<"), whole.conversation.ways, strict=True):
            lines = sorted((line for line in self.lines if line.way == way and line.size), key=lambda line: line.seq)
            head = b"".join(line.head[: line.size].ljust(line.size, b"\0") for line in lines)
            ways.append(dataclasses.replace(of, head=head[:4096]))
        return dataclasses.replace(whole, conversation=dataclasses.replace(whole.conversation, ways=(ways[0], ways[1])))

    def found(self) -> Sqlnet:
        found = find(self.talk())
        assert found is not None
        return found


def session(asked: int = 8192, granted: int = 8192) -> Session:
    """Connected after 5 ms."""
    line = Session()
    line.handshake(0, rtt_ms=1)
    line.put(2, ">", connect(asked))
    line.put(5, "<", accept(granted))
    return line


def text(found: Sqlnet | None) -> str:
    return write(sqlnet_section(found))


@pytest.mark.parametrize(
    ("asked", "granted", "sdu", "by"),
    [
        (2048, 2048, 2048, "client"),
        (8192, 2048, 2048, "server"),
        (2048, 8192, 2048, "client"),
        (512, 512, 512, "client"),
    ],
)
def test_the_smaller_side_wins(asked: int, granted: int, sdu: int, by: str) -> None:
    """The SDU in effect is the smaller one of what was asked for and what was granted; the text says whose it is."""
    found = session(asked, granted).found()
    assert (found.sdu_bytes, found.sdu_limited_by) == (sdu, by)
    assert found.connect is not None
    assert found.accept is not None
    assert (found.connect.sdu_bytes, found.accept.sdu_bytes, found.accept.tdu_bytes) == (asked, granted, 32767)
    assert (found.connect.service, found.connect.program) == ("sales", "batch")
    assert found.client == "10.0.0.1:40000"
    assert f"SDU {sdu} bytes" in text(found)


def test_large_units_are_read_from_the_fields_of_32_bits() -> None:
    """From version 315 on the sizes stand behind, the short ones hold no more than 65535, and lengths have 4 bytes."""
    line = Session(mss=65_000)
    line.handshake(0)
    line.put(2, ">", connect(0xFFFF, version=318, large=2_097_152))
    line.put(3, "<", accept(0xFFFF, version=318, large=1_048_576))
    line.put(4, ">", data(300, long_lengths=True))
    line.put(5, "<", data(131_072, long_lengths=True), data(65_536, long_lengths=True), data(400, long_lengths=True))
    found = line.found()
    assert (found.sdu_bytes, found.sdu_limited_by, found.long_lengths) == (1_048_576, "server", True)
    assert [(size.bytes, size.count) for size in found.from_server.sizes] == [(131_072, 1), (65_536, 1), (400, 1)]
    assert found.from_server.unseen_bytes == 0


def test_long_connect_data_come_in_a_packet_of_their_own() -> None:
    """The service is read from the data packet behind the connect packet."""
    line = Session()
    line.handshake(0)
    line.put(2, ">", connect(8192, text=b""), tns(Type.DATA, b"\0\0" + _CONNECT_DATA))
    assert line.found().connect == dataclasses.replace(session().found().connect, service="sales")  # type: ignore[type-var]


def test_without_an_accept_packet_nothing_is_agreed() -> None:
    """What the client asked for is no SDU in effect."""
    line = Session()
    line.handshake(0)
    line.put(2, ">", connect(8192))
    found = line.found()
    assert (found.sdu_bytes, found.accept) == (None, None)
    assert "asks for an SDU of 8192" in text(found)


def test_resend_redirect_and_refuse_are_told() -> None:
    """A second connect packet, where the client was sent to, and the number of a refusal."""
    line = Session()
    line.handshake(0)
    line.put(1, ">", connect(8192))
    line.put(2, "<", tns(Type.RESEND))
    line.put(3, ">", connect(8192))
    line.put(4, "<", tns(Type.REDIRECT, b"\0\x30(ADDRESS=(PROTOCOL=TCP)(HOST=db2)(PORT=1525))"))
    found = line.found()
    assert (found.connects, found.redirected_to) == (2, "db2:1525")
    assert found.from_server.types == {"redirect": 1, "resend": 1}
    away = Session()
    away.handshake(0)
    away.put(1, ">", connect(8192))
    away.put(2, "<", tns(Type.REFUSE, b"\x22\0\0\x30(DESCRIPTION=(TMP=)(VSNNUM=1)(ERR=12514)(ERROR_STACK=))"))
    found = away.found()
    assert found.refused == 12514
    assert "refused the connection with error 12514" in text(found)


def test_connect_logon_and_query_time_are_apart_and_add_up() -> None:
    """SYN to accept, to the answer to the last logon call, to the last data; turns of the rest add up to it."""
    line = session()
    line.put(6, ">", data(100, b"\xde\xad\xbe\xef"))
    line.put(7, "<", data(100, b"\xde\xad\xbe\xef"))
    line.put(8, ">", data(40, b"\x01\x06"))
    line.put(9, "<", data(200, b"\x01\x06"))
    line.put(10, ">", data(150, b"\x03\x76"))
    line.put(12, "<", data(250, b"\x08\0"))
    line.put(13, ">", data(500, b"\x03\x73"))
    line.put(18, "<", data(600, b"\x08\0"))
    line.put(20, ">", data(120))
    line.put(30, "<", data(1000), data(900))
    line.put(130, ">", data(120))
    line.put(133, "<", data(700))
    phases = line.found().phases
    assert (phases.connect_ms, phases.logon_ms, phases.query_ms) == (5, 13, 115)
    assert phases.turns == Turns(2, 13, 102)
    assert phases.turns.waited_ms + phases.turns.between_ms == phases.query_ms


def test_a_logon_that_cannot_be_read_is_not_guessed() -> None:
    """Encrypted calls look like others: then the logon is in the time of the queries, and the text says so."""
    line = session()
    line.put(6, ">", data(100, b"\x99\x98"))
    line.put(9, "<", data(100, b"\x97\x96"))
    found = line.found()
    assert (found.phases.connect_ms, found.phases.logon_ms, found.phases.query_ms) == (5, None, 4)
    assert "could not be separated" in text(found)


def test_full_units_are_counted_against_the_sdu() -> None:
    """Packets of 8156 bytes are full at 8192, and a larger SDU is advised, with its source."""
    line = session()
    for turn in range(10):
        line.put(20 + 10 * turn, ">", data(120))
        line.put(25 + 10 * turn, "<", data(8156), data(8156), data(700))
    found = line.found()
    assert (found.from_server.full, found.from_client.full) == (20, 0)
    assert (found.from_server.sizes[0].bytes, found.from_server.sizes[0].count) == (8156, 20)
    assert found.from_server.types == {"accept": 1, "data": 30}
    assert "66.7 % of the server's data packets are full" in " ".join(text(found).split())
    assert "Configuring Session Data Unit" in " ".join(text(found).split())
    assert max(map(len, text(found).splitlines())) <= 80


def test_without_a_handshake_the_sdu_is_at_least_the_largest_packet() -> None:
    """A capture that begins in the middle: TNS is told by headers in a row, the SDU is not known."""
    line = Session()
    for turn in range(5):
        line.put(10 * turn, ">", data(120))
        line.put(10 * turn + 5, "<", data(2048), data(613))
    found = line.found()
    assert (found.sdu_bytes, found.sdu_at_least, found.from_server.full) == (None, 2048, None)
    assert found.client is None
    assert "it is at least that" in " ".join(text(found).split())
    assert "It is not known which side is the client" in text(found)


def test_what_lies_inside_of_a_packet_is_no_header() -> None:
    """Rows may hold bytes that look like a header where a segment begins."""
    line = session()
    line.put(10, ">", data(120))
    inside = tns(Type.DATA, bytes(60_000))[:1460]  # what would swallow all that follows
    packet = data(8192)
    line.put(15, "<", packet[:1460] + inside + packet[2920:], data(700))
    found = line.found()
    assert found.from_server.types == {"accept": 1, "data": 2}
    assert (found.from_server.data_bytes, found.from_server.unseen_bytes) == (8892, 0)


def test_units_behind_another_in_a_tcp_packet_are_not_seen_and_said_to_be() -> None:
    """Segmentation offload: bytes of the stream are seen or unseen, and sum to all of it."""
    line = session()
    line.mss = 65_000
    line.put(10, ">", data(120))
    line.put(15, "<", data(8192) + data(8192) + data(500))
    found = line.found()
    sent = found.from_server
    assert (sent.types["data"], sent.unseen_bytes) == (1, 8692)
    assert sent.seen_bytes + sent.unseen_bytes == sum(one.size for one in line.lines if one.way == "<")
    assert "lie outside of them" in " ".join(text(found).split())


def test_retransmissions_are_not_counted_twice() -> None:
    """A segment that is sent again is neither a TNS packet more nor a turn more."""
    line = session()
    line.put(10, ">", data(120))
    line.put(12, "<", data(900))
    before = line.found()
    again = line.lines[-2]
    line.send(300, ">", again.size, seq=again.seq, head=again.head)
    assert line.found() == before


def test_other_protocols_are_not_taken_for_tns() -> None:
    """NFS, HTTP, TLS, MySQL, MongoDB and zeros: there is nothing to say, and nothing is printed."""
    for head in (
        b"\x80\0\0\x68\x12\x34\x56\x78",
        b"GET / HT",
        b"\x16\x03\x01\x02\0\x01\0\x01",
        b"\x20\0\0\0\x03SEL",
        b"\x10\0\0\0\x06\0\0\0",
        b"\0\0\x12\x04\0\0\0\0",
        bytes(8),
    ):
        line = Session()
        for turn in range(20):
            line.send(10 * turn, ">", 200, head=head)
            line.send(10 * turn + 5, "<", 1460, head=head)
        found = find(line.talk())
        assert found is None, head
        assert text(found) == ""


def test_a_trace_is_held_against_the_packets() -> None:
    """Whose trace it is shows in its lengths; what is in both, in one only; the SDU of both."""
    line = session(8192, 2048)
    line.put(10, ">", data(120), data(150))
    line.put(15, "<", data(2048), data(613))
    lines = ["nsopen: tdu=32767, sdu=8192", "nsconneg: vsn=312, sdu=2048, tdu=32767"]
    sizes = [len(connect(8192)), 120, 150]
    lines += [f"nspsend: {size} bytes to transport" for size in sizes]
    lines += [f"nsprecv: {size} bytes from transport" for size in (len(accept(0)), 2048, 613, 77)]
    for whose, swapped in (("client", False), ("server", True)):
        told = [one.replace("nspsend", "x").replace("nsprecv", "nspsend").replace("x:", "nsprecv:") for one in lines]
        told = [one.replace(" to ", " ? ").replace(" from ", " to ").replace(" ? ", " from ") for one in told]
        compared = compare(line.talk(), line.found(), sqlnet_trace.parse(told if swapped else lines))
        assert compared.side == whose
        mine, other = (compared.received, compared.sent) if swapped else (compared.sent, compared.received)
        assert (mine.both, mine.only_trace, mine.only_packets) == (3, 0, 0)
        assert (other.both, other.only_trace, other.only_packets) == (3, 1, 0)
        assert compared.trace_sdu_bytes == compared.packets_sdu_bytes == 2048
    text = write(trace_section(compared))
    assert "Both say that the SDU is 2048 bytes" in text


@settings(max_examples=examples(75), deadline=None)
@given(st.data())
def test_headers_of_any_bytes_add_up(drawn: st.DataObject) -> None:
    """Whatever the bytes are: no error, types sum to packets, bytes sum to the stream, and the text can be printed."""
    line = session(drawn.draw(st.sampled_from([0, 512, 8192, 0xFFFF])), drawn.draw(st.sampled_from([0, 2048, 0xFFFF])))
    line.mss = 3000
    piece = st.one_of(
        st.binary(min_size=1, max_size=40),
        st.builds(data, st.integers(12, 2100)),
        st.builds(lambda kind, body: tns(Type(kind), body), st.sampled_from(list(Type)), st.binary(max_size=60)),
    )
    for number, (way, packet) in enumerate(drawn.draw(st.lists(st.tuples(st.sampled_from("<>"), piece), max_size=20))):
        line.put(10 + number, way, packet)
    talk = line.talk()
    found = find(talk)
    assert found is not None
    for direction, sent in enumerate((found.from_client, found.from_server)):
        mine = (talk.packets.direction == direction) & (talk.packets.kind == Kind.NEW)
        assert sum(sent.types.values()) == sent.packets
        assert sent.seen_bytes + sent.unseen_bytes == int(talk.packets.size[mine].sum())
        assert min(sent.seen_bytes, sent.unseen_bytes) >= 0
    phases = found.phases
    known = [part for part in (phases.connect_ms, phases.logon_ms, phases.query_ms) if part is not None]
    assert sum(known) == pytest.approx(int(talk.packets.t_ns[-1] - talk.packets.t_ns[0]) / 1e6)
    assert phases.turns.waited_ms + phases.turns.between_ms == pytest.approx(phases.query_ms)
    assert min(phases.turns.waited_ms, phases.turns.between_ms) >= 0
    json.dumps(dataclasses.asdict(found), allow_nan=False)
    assert text(found)


@settings(max_examples=examples(75), deadline=None)
@given(st.binary(max_size=200), st.binary(max_size=200), st.booleans())
def test_a_begin_of_any_bytes_is_no_error(client: bytes, server: bytes, connected: bool) -> None:
    """Cut and broken handshakes: told or not, never an exception."""
    line = session()
    talk = line.talk()
    ways = talk.conversation.ways
    heads = (connect(8192)[:60] + client, accept(8192)[:20] + server) if connected else (client, server)
    changed = tuple(dataclasses.replace(way, head=head) for way, head in zip(ways, heads, strict=True))
    found = find(dataclasses.replace(talk, conversation=dataclasses.replace(talk.conversation, ways=changed)))
    assert isinstance(text(found), str)


def test_a_chain_of_headers_is_followed_as_one_by_one() -> None:
    """The doubled steps take the headers that a walk takes."""
    from nfslat.tcp.sqlnet import tns as module

    random = np.random.default_rng(1)
    for _ in range(50):
        begin = np.unique(random.integers(0, 500, 60))
        end = begin + random.integers(8, 60, len(begin))
        taken, until = [], -1
        for at in range(len(begin)):
            if begin[at] >= until:
                taken.append(at)
                until = end[at]
        assert module._outside_each_other(begin, end).tolist() == taken


# --- Captures ---------------------------------------------------------------------------------------------------------


def _read(path: Path, scratch: Path) -> Trace:
    tools = lambda: find_tools(scratch)  # noqa: E731 - as the workspace gives it
    return read_trace(native.open_source(str(path), tools, scratch, rereads=False), tools, lambda _: None)


@pytest.mark.skipif(not ORACLE.exists(), reason="the corpus at ../shared is not there")
def test_a_public_capture_gives_what_wireshark_shows(tmp_path: Path) -> None:
    """SDU 2048; the 291 TNS frames of tshark and the resend of frame 6, which follows a stray byte that tshark joins to
    it; four fifths of the time nobody asked for anything."""
    found = find(_read(ORACLE, tmp_path).talk(0))
    assert found is not None
    assert (found.sdu_bytes, found.sdu_limited_by, found.connects) == (2048, "client", 2)
    assert found.connect is not None
    assert found.accept is not None
    assert (found.connect.version, found.connect.min_version, found.connect.service) == (312, 300, "secsph")
    assert (found.accept.version, found.accept.tdu_bytes) == (312, 32767)
    assert found.from_client.types == {"connect": 2, "data": 143, "resend": 1, "marker": 1}
    assert found.from_server.types == {"accept": 1, "data": 142, "marker": 2}
    assert found.from_client.packets + found.from_server.packets == 291 + 1
    assert (found.from_client.largest_bytes, found.from_server.largest_bytes) == (1029, 957)
    assert (found.from_client.unseen_bytes, found.from_server.unseen_bytes) == (1, 0)
    assert (found.phases.connect_ms, found.phases.turns.count) == (24.326, 138)
    assert "hardly ever full" in text(found)


def test_the_reader_gives_the_same_as_the_timeline(tmp_path: Path) -> None:
    """A conversation written to a file and read from it."""
    line = session(8192, 2048)
    line.put(10, ">", data(120))
    line.put(15, "<", data(2048), data(613))
    assert find(_read(line.write(tmp_path / "made.pcap"), tmp_path).talk(0)) == line.found()


def test_what_is_no_trace_is_one_line() -> None:
    """The comparison needs sizes."""
    with pytest.raises(InputError, match="without sizes"):
        sqlnet_trace.parse(["hello"])


def test_a_trace_for_a_capture_without_tns_is_said_not_to_be_used(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """NFS in the capture, and a SQL*Net trace beside it: the reason, and what the trace itself says."""
    traffic = simulate(threads=4, workers=4, slots=4, count=50, law="constant", mean_ns={"READ": MS},
                       mix={"READ": 1.0}, jitter_ns=0, seed=5)  # fmt: skip
    capture = write_captures(traffic, tmp_path)[0]
    (trace := tmp_path / "sqlnet.trc").write_text("nsopen: tdu=32767, sdu=8192\nnspsend: 231 bytes to transport\n")
    assert cli.main(["transport", str(capture), "--sqlnet-trace", str(trace)]) == 0
    text = " ".join(capsys.readouterr().out.split())
    assert "the SQL*Net trace is not used: no conversation that is shown in full has TNS packets" in text
    assert "of other connections, or they are encrypted" in text
    assert cli.main(["transport", str(capture)]) == 0
    assert "SQL*Net" not in capsys.readouterr().out
