"""Files -> messages, through the real tshark: what was put into a made capture comes out, at its frames and times."""

from __future__ import annotations

import dataclasses
import itertools
import random
from pathlib import Path

import numpy as np
import pytest
import wire
from wire import EPOCH_NS, MS, Tcp, Udp

from nfslat.decode.tools import Tools
from nfslat.decode.tshark.capinfos import open_source
from nfslat.decode.tshark.engine import dissect
from nfslat.decode.tshark.messages import Messages
from nfslat.decode.tshark.reader import Dissected
from nfslat.model.protocol import NULL

SHARED = Path(__file__).resolve().parents[2] / "shared"
# Small ones, each with something of its own: v3 and v4.1, snaplen, nconnect, callbacks, other formats and link types.
LAB = (
    "b_v3_nfsd_threads2",
    "f_v3_nconnect4",
    "f_v42_nfsd_threads2",
    "i_v3_any_sll2",
    "i_v3_fmt_pcapng",
    "i_v3_fmt_snoop",
    "i_v3_full_1M",
    "i_v3_snap96",
    "i_v41_callback_recall",
)


def _found(pattern: str) -> list[Path]:
    return [path for path in sorted(SHARED.glob(pattern)) if path.name.count(".") and path.suffix != ".md"]


CORPUS = [path for path in _found("corpus/*.*") if ".json" not in path.name]
# Each runs tshark, once or twice. By day there is one of each kind here, and the other tests of this engine read what
# tshark said when it was asked (kept_answers.py).
_by_night = pytest.mark.long
CAPTURES = CORPUS + [path for name in LAB for path in _found(f"lab/{name}/*.gz")]


class Reader:
    """Writes scenarios to files and decodes them."""

    def __init__(self, tools: Tools, folder: Path) -> None:
        self.tools, self.folder = tools, folder
        self.count = itertools.count()

    def file(self, path: Path, form: str = "columns") -> Dissected:
        source = open_source(str(path), self.tools, self.folder)
        decoded = dissect(source, self.tools, lambda packets: None, form=form)
        decoded.messages.check()
        assert sum(decoded.packet_kinds.values()) == source.packets, "every packet is of one kind"
        return decoded

    def client(self, *flows: Tcp | Udp, snaplen: int = 262_144, nano: bool = False) -> Dissected:
        path = self.folder / f"{next(self.count)}.pcap"
        return self.file(
            wire.write_pcap(path, *(f.seen_by("client", back_ms=0) for f in flows), snaplen=snaplen, nano=nano)
        )


@pytest.fixture
def read(tools: Tools, tmp_path: Path) -> Reader:
    return Reader(tools, tmp_path)


def rows(messages: Messages, *columns: str) -> list[tuple[int, ...]]:
    """The named columns, one tuple a message; times as ms of the scenario."""
    values = [
        (getattr(messages, name) - EPOCH_NS) / MS if name.endswith("_ns") else getattr(messages, name)
        for name in columns
    ]
    return [tuple(row) for row in np.stack(values, axis=1).tolist()] if len(messages) else []


def assert_same(a: Messages, b: Messages) -> None:
    assert a.connections == b.connections
    for column in dataclasses.fields(Messages):
        if column.name != "connections":
            np.testing.assert_array_equal(getattr(a, column.name), getattr(b, column.name), err_msg=column.name)


def opened(**kwargs: object) -> Tcp:
    """A connection on which a NULL call and its reply (frames 1 and 2) have shown tshark that it carries RPC."""
    tcp = Tcp(**kwargs)  # type: ignore[arg-type]
    tcp.send(-2, ">", wire.null(0x99))
    tcp.send(-1, "<", wire.reply(0x99))
    return tcp


# --- What a message says ----------------------------------------------------------------------------------------------


@_by_night
def test_nfsv3_calls_show_their_arguments_and_replies_their_xid(read: Reader) -> None:
    """Procedure, offset, size and handle are those of the call; a reply has none of them."""
    tcp = Tcp()
    for t, way, what in (
        (0, ">", wire.null(1)),
        (1, "<", wire.reply(1)),
        (2, ">", wire.getattr3(2, wire.OTHER_FH)),
        (3, "<", wire.reply(2, wire.GETATTR3)),
        (4, ">", wire.read(3, offset=1 << 40, count=4096)),
        (5, "<", wire.reply(3, wire.read3(4096))),
        (6, ">", wire.write(4, offset=8192, count=100)),
        (7, "<", wire.reply(4, wire.WRITE3)),
        (8, ">", wire.rename(5)),
        (9, "<", wire.reply(5, wire.RENAME3)),
    ):
        tcp.send(t, way, what)
    m = read.client(tcp).messages
    calls = m.take(m.is_reply == 0)
    fh, other = 2435219082, 4138075875  # CRC-32 of the two handles
    assert rows(calls, "xid", "program", "version", "minor", "op", "offset", "size", "fh") == [
        (1, 100003, 3, -1, 0, -1, -1, -1),
        (2, 100003, 3, -1, 1, -1, -1, other),
        (3, 100003, 3, -1, 6, 1 << 40, 4096, fh),
        (4, 100003, 3, -1, 7, 8192, 100, fh),
        (5, 100003, 3, -1, 14, -1, -1, fh),
    ]
    replies = m.take(m.is_reply == 1)
    assert rows(replies, "xid", "direction", "program", "op", "offset") == [(x, 1, -1, -1, -1) for x in range(1, 6)]


@_by_night
def test_a_compound_is_named_by_its_main_operation(read: Reader) -> None:
    """READ, not SEQUENCE or PUTFH; offset, size and handle are the main operation's; a bare SEQUENCE is SEQUENCE."""
    tcp = Tcp()
    seq, putfh = wire.v4_sequence(), wire.v4_putfh()
    tcp.send(0, ">", wire.compound(1, seq, putfh, wire.v4_read(offset=77, count=512)))
    tcp.send(1, "<", wire.reply(1, wire.v4_results(wire.V4_SEQUENCE_OK, wire.V4_PUTFH_OK, wire.v4_read_ok(512))))
    tcp.send(
        2, ">", wire.compound(2, seq, wire.v4_putfh(wire.OTHER_FH), wire.v4_write(offset=99, count=60), wire.V4_GETATTR)
    )
    tcp.send(3, ">", wire.compound(3, seq, putfh, wire.V4_GETATTR, minor=2))
    tcp.send(4, ">", wire.compound(4, seq))
    m = read.client(tcp).messages
    m = m.take(m.is_reply == 0)
    assert rows(m, "xid", "version", "minor", "op", "offset", "size") == [
        (1, 4, 1, 25, 77, 512),
        (2, 4, 1, 38, 99, 60),
        (3, 4, 2, 9, -1, -1),
        (4, 4, 1, 53, -1, -1),
    ]
    assert m.fh.tolist() == [2435219082, 4138075875, 2435219082, NULL]


@_by_night
def test_a_callback_runs_the_other_way_on_the_same_connection(read: Reader) -> None:
    """CB_COMPOUND is a call from the server with an XID of its own choice, here one that the client uses too."""
    tcp = Tcp()
    tcp.send(0, ">", wire.compound(7, wire.v4_sequence(), wire.v4_putfh(), wire.V4_GETATTR))
    tcp.send(1, "<", wire.cb_compound(7, wire.CB_SEQUENCE, wire.CB_RECALL))
    tcp.send(2, ">", wire.reply(7, wire.v4_results(wire.CB_SEQUENCE_OK, wire.CB_RECALL_OK)))
    tcp.send(3, "<", wire.reply(7, wire.v4_results(wire.V4_SEQUENCE_OK)))
    m = read.client(tcp).messages
    assert rows(m, "xid", "direction", "is_reply", "program", "op") == [
        (7, 0, 0, 100003, 9),
        (7, 1, 0, 0x40000000, 4),
        (7, 0, 1, -1, -1),
        (7, 1, 1, -1, -1),
    ]


@_by_night
def test_nfsv2_mount_and_portmap_are_decoded_too(read: Reader) -> None:
    """Other versions and programs are messages like any other; XIDs use all 32 bits."""
    tcp, udp = Tcp(), Udp(server=("10.0.0.2", 111))
    tcp.send(0, ">", wire.read2(0xFFFFFFFF, offset=5, count=6))
    tcp.send(1, ">", wire.null(2, wire.MOUNT, 3))
    udp.send(2, ">", wire.null(3, wire.PORTMAP, 2))
    udp.send(3, "<", wire.reply(3))
    m = read.client(tcp, udp).messages
    assert rows(m, "conn", "xid", "program", "version", "op", "offset", "size") == [
        (0, 0xFFFFFFFF, 100003, 2, 6, 5, 6),
        (0, 2, 100005, 3, 0, -1, -1),
        (1, 3, 100000, 2, 0, -1, -1),
        (1, 3, -1, -1, -1, -1, -1),
    ]
    assert [c.transport for c in m.connections] == ["tcp", "udp"]


@pytest.mark.parametrize("vlan", [pytest.param(None, marks=_by_night), 42])
@pytest.mark.parametrize("hosts", [pytest.param(("10.0.0.1", "10.0.0.2"), marks=_by_night), ("fd00::1", "fd00::2")])
def test_ipv4_ipv6_and_vlan_make_no_difference(read: Reader, hosts: tuple[str, str], vlan: int | None) -> None:
    """The same talk gives the same messages, whatever carries it; only IPv4 has an IP identification."""
    tcp = Tcp(client=(hosts[0], 700), server=(hosts[1], 2049), vlan=vlan)
    tcp.send(0, ">", wire.read(1, offset=4096), cut=[50])
    tcp.send(5, "<", wire.reply(1, wire.read3()), cut=[1448] * 5)
    m = read.client(tcp).messages
    assert rows(m, "xid", "is_reply", "first_ns", "last_ns", "seq") == [(1, 0, 0, 0.1, 1000), (1, 1, 5, 5.5, 5000)]
    assert (m.ip_id != NULL).all() == (":" not in hosts[0])
    (connection,) = m.connections
    assert (connection.source(0), connection.destination(0)) == ((hosts[0], 700), (hosts[1], 2049))


@_by_night
def test_nanoseconds_are_kept(read: Reader) -> None:
    """A nanosecond pcap keeps its last digit, a microsecond pcap its last microsecond."""
    tcp = Tcp()
    tcp.send(0.000123, ">", wire.null(1))
    tcp.send(1.000999, "<", wire.reply(1))
    assert (read.client(tcp, nano=True).messages.t_ns - EPOCH_NS).tolist() == [123, 1_000_999]
    assert (read.client(tcp).messages.t_ns - EPOCH_NS).tolist() == [0, 1_000_000]


# --- Where a message is -----------------------------------------------------------------------------------------------


def test_several_messages_in_one_segment(read: Reader) -> None:
    """Each keeps its own arguments and its own place in the stream, as they all have the segment's time."""
    tcp = Tcp()
    a, b, c = wire.write(1, 7, 100), wire.rename(2), wire.read(3, 9, 10)
    tcp.send(0, ">", a, b, c)
    m = read.client(tcp).messages
    assert rows(m, "xid", "op", "offset", "size", "seq") == [
        (1, 7, 7, 100, 1000),
        (2, 14, -1, -1, 1000 + 4 + len(a)),
        (3, 6, 9, 10, 1000 + 8 + len(a) + len(b)),
    ]
    assert set(rows(m, "first_frame", "last_frame", "first_ns", "last_ns")) == {(1, 1, 0, 0)}


@pytest.mark.parametrize("first", [7, *(pytest.param(at, marks=_by_night) for at in (4, 20, 28, 40))])
def test_a_header_split_over_segments(read: Reader, first: int) -> None:
    """A call whose header lies in two segments begins in the first and ends in the last."""
    tcp = opened()
    tcp.send(0, ">", wire.write(1, 0, 1000), wire.read(2), cut=[first, 600])
    m = read.client(tcp).messages
    assert rows(m, "xid", "first_frame", "last_frame")[2:] == [(1, 3, 5), (2, 5, 5)]


@_by_night
def test_a_record_in_several_fragments(read: Reader) -> None:
    """RFC 5531 section 11: a record of three fragments is one message, from the first mark to the last byte."""
    tcp = opened()
    tcp.send(0, ">", wire.record(wire.write(1, 5, 1000), 40, 400), wire.read(2, 9), cut=[20, 500])
    tcp.send(9, ">", wire.read(3, 11))
    m = read.client(tcp).messages
    assert rows(m, "xid", "offset", "first_frame", "last_frame")[2:] == [(1, 5, 3, 5), (2, 9, 5, 5), (3, 11, 6, 6)]


@_by_night
def test_messages_behind_one_that_tshark_loses_keep_their_frames(read: Reader) -> None:
    """tshark 4.0 does not find a record whose mark itself is cut (2 and 2 bytes); the next ones are not moved back."""
    tcp = opened()
    tcp.send(0, ">", wire.write(1, 0, 1000), cut=[2])  # frames 3 and 4
    tcp.send(9, ">", wire.read(2), wire.read(3))  # frame 5
    m = read.client(tcp).messages
    m = m.take(np.isin(m.xid, (2, 3)))
    assert rows(m, "xid", "first_frame", "last_frame", "first_ns") == [(2, 5, 5, 9), (3, 5, 5, 9)]


def test_segments_out_of_order(read: Reader) -> None:
    """Times are those of the segments that hold the first byte and that complete the message, in capture order."""
    tcp = opened()
    call = wire.write(1, 0, 1000)  # 124 + 1000 bytes, and the mark
    tcp.send(0, ">", call, cut=[500, 300], at=[1, 2, 0])  # frames 4, 5 and 3
    tcp.send(9, ">", wire.read(2))
    m = read.client(tcp).messages
    assert rows(m, "xid", "first_ns", "last_ns")[2:] == [(1, 1, 2), (2, 9, 9)]


@_by_night
def test_segments_that_overlap(read: Reader) -> None:
    """Bytes that come twice count where they came first."""
    tcp = opened()
    at, stream = tcp.next[">"], wire.record(wire.write(1, 0, 1000)) + wire.record(wire.read(2, 7))
    tcp.raw(0, ">", at, stream[:600])
    tcp.raw(1, ">", at + 400, stream[400:900])
    tcp.raw(2, ">", at + 800, stream[800:])
    m = read.client(tcp).messages
    assert rows(m, "xid", "offset", "first_ns", "last_ns")[2:] == [(1, 0, 0, 2), (2, 7, 2, 2)]


@_by_night
def test_a_tcp_retransmission_moves_nothing(read: Reader) -> None:
    """A segment sent again changes no message, neither its own nor the following ones."""
    tcp = opened()
    first = tcp.send(0, ">", wire.read(1), wire.write(2, 0, 1000), cut=[124, 300, 300])
    tcp.again(10, first[1])
    tcp.again(10.2, *first[:3])
    tcp.send(11, ">", wire.read(3), wire.read(4), cut=[200])
    m = read.client(tcp).messages
    assert rows(m, "xid", "first_ns", "last_ns")[2:] == [(1, 0, 0), (2, 0, 0.3), (3, 11, 11), (4, 11, 11.1)]


def test_a_packet_captured_twice_is_counted_as_duplicate(read: Reader) -> None:
    """Same IP identification and same TCP numbers: two duplicates here; a retransmission is none."""
    tcp = opened()
    call = tcp.send(0, ">", wire.read(1))[0]
    tcp.copy(0.01, call)
    answer = tcp.send(5, "<", wire.reply(1, wire.read3(10)))[0]
    tcp.copy(5.01, answer)
    tcp.again(6, answer)
    decoded = read.client(tcp)
    assert decoded.duplicate_packets == 2
    assert rows(decoded.messages, "xid", "is_reply", "first_ns")[2:] == [(1, 0, 0), (1, 1, 5)]


@_by_night
def test_sequence_numbers_wrap(read: Reader) -> None:
    """Every 4 GB a direction starts again at 0: the messages around that point are found like any other."""
    tcp = opened(isn=(2**32 - 300, 2**32 - 100))
    tcp.send(0, ">", wire.write(1, 0, 1000), wire.read(2), cut=[500])
    tcp.send(1, "<", wire.reply(1, wire.WRITE3), wire.reply(2, wire.read3(100)))
    tcp.send(2, ">", wire.read(3))
    tcp.send(3, "<", wire.reply(3, wire.read3(100)))
    m = read.client(tcp).messages
    assert rows(m, "xid", "is_reply", "first_ns", "last_ns")[2:] == [
        (1, 0, 0, 0.1),
        (2, 0, 0.1, 0.1),
        (1, 1, 1, 1),
        (2, 1, 1, 1),
        (3, 0, 2, 2),
        (3, 1, 3, 3),
    ]


@_by_night
def test_a_packet_that_the_capture_missed_costs_one_message(read: Reader) -> None:
    """Whole packets, one of them dropped by the capture: only the message that it was part of may be missing."""
    tcp = opened()
    lost = tcp.send(0, ">", wire.write(1, 0, 1000), cut=[500, 300])[1]
    tcp.send(1, ">", wire.read(2))
    tcp.send(2, "<", wire.reply(1, wire.WRITE3))
    tcp.send(3, "<", wire.reply(2, wire.read3(10)))
    tcp.send(4, ">", wire.read(3))
    tcp.send(5, "<", wire.reply(3, wire.read3(10)))
    path = wire.write_pcap(read.folder / "lost.pcap", tcp.seen_by("client", back_ms=0, without=[lost]))
    m = read.file(path).messages
    seen = rows(m, "xid", "is_reply", "first_ns")
    assert [row for row in seen if row[0] in (2, 3)] == [(2, 0, 1), (2, 1, 3), (3, 0, 4), (3, 1, 5)]


@_by_night
def test_a_reply_without_its_call_is_a_message_and_hides_none_behind_it(read: Reader) -> None:
    """The call of 77 was sent before the capture began; its reply shares a segment with another one."""
    tcp = opened()
    tcp.send(0, ">", wire.null(5))
    tcp.send(1, "<", wire.reply(77), wire.reply(5))
    tcp.send(2, ">", wire.null(6))
    tcp.send(3, "<", wire.reply(6))
    m = read.client(tcp).messages
    assert rows(m, "xid", "is_reply", "first_ns")[2:] == [(5, 0, 0), (77, 1, 1), (5, 1, 1), (6, 0, 2), (6, 1, 3)]


@_by_night
def test_a_packet_that_the_capture_missed_ends_no_message_later_than_its_ack(read: Reader) -> None:
    """Cut packets: the call keeps its first byte and ends with the last segment seen before it was answered."""
    tcp = opened()
    lost = tcp.send(0, ">", wire.write(1, 0, 1000), cut=[500, 300])[1]
    tcp.send(2, "<", wire.reply(1, wire.WRITE3))
    tcp.send(4, ">", wire.read(3))
    path = wire.write_pcap(read.folder / "lost.pcap", tcp.seen_by("client", back_ms=0, without=[lost]), snaplen=200)
    assert rows(read.file(path).messages, "xid", "is_reply", "first_ns", "last_ns")[2:] == [
        (1, 0, 0, 0.2),
        (1, 1, 2, 2),
        (3, 0, 4, 4),
    ]


def test_under_a_short_snaplen_the_last_byte_is_still_known(read: Reader) -> None:
    """-s 96: the record mark gives the length, the TCP header the range; three replies in one segment show one."""
    tcp = Tcp()
    tcp.send(0, ">", wire.write(1, 0, 3000), cut=[1448, 1448])
    tcp.send(1, ">", wire.read(2), wire.read(3), wire.read(4))
    tcp.send(2, ">", wire.read(5))
    tcp.send(3, "<", wire.reply(1, wire.WRITE3))
    tcp.send(4, "<", wire.reply(2, wire.read3()), cut=[1448] * 5)
    decoded = read.client(tcp, snaplen=96)
    assert rows(decoded.messages, "xid", "is_reply", "first_ns", "last_ns") == [
        (1, 0, 0, 0.2),
        (2, 0, 1, 1),
        (5, 0, 2, 2),
        (1, 1, 3, 3),
        (2, 1, 4, 4.5),
    ]
    assert decoded.hidden == 1  # where 3 begins is known; behind it nothing is


@_by_night
def test_arguments_beyond_the_snaplen_are_null(read: Reader) -> None:
    """-s 150 cuts the READ's arguments off: its procedure is known, its offset is not."""
    tcp = Tcp()
    tcp.send(0, ">", wire.read(1, offset=4096, count=8192))
    decoded = read.client(tcp, snaplen=150)
    assert rows(decoded.messages, "xid", "op", "offset", "size") == [(1, 6, -1, -1)]


@pytest.mark.parametrize("hosts", [("10.0.0.1", "10.0.0.2"), pytest.param(("fd00::1", "fd00::2"), marks=_by_night)])
def test_udp_in_ip_fragments(read: Reader, hosts: tuple[str, str]) -> None:
    """A datagram in three fragments begins with the first one; fragments are a kind of packet of their own."""
    udp = Udp(client=(hosts[0], 700), server=(hosts[1], 2049))
    udp.send(0, ">", wire.write(1, 0, 3000), mtu=1500)
    udp.send(5, "<", wire.reply(1, wire.WRITE3))
    udp.send(6, ">", wire.read(2))
    udp.send(7, "<", wire.reply(2, wire.read3(4000)), mtu=1500)
    decoded = read.client(udp)
    assert rows(decoded.messages, "xid", "is_reply", "first_ns", "last_ns", "seq") == [
        (1, 0, 0, 0.2, -1),
        (1, 1, 5, 5, -1),
        (2, 0, 6, 6, -1),
        (2, 1, 7, 7.2, -1),
    ]
    assert decoded.packet_kinds["ip fragment"] == 4


def test_packets_of_every_kind_are_counted(read: Reader) -> None:
    """RPC, data without a header, bare ACKs, UDP that is no RPC: one kind each."""
    tcp, udp = Tcp(), Udp(server=("10.0.0.2", 53))
    tcp.syn(-1)
    tcp.send(0, ">", wire.write(1, 0, 1000), cut=[500])
    tcp.ack(1, "<")
    udp.send(2, ">", b"something else")
    kinds = read.client(tcp, udp).packet_kinds
    assert kinds == {"rpc": 1, "tcp data": 1, "tcp control": 4, "udp": 1, "ip fragment": 0, "other": 0}


# --- Both forms of output ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("calls", "form"),
    [pytest.param(100, "columns", marks=_by_night), (187, "fields"), pytest.param(1480, "fields", marks=_by_night)],
)
def test_a_frame_with_more_messages_than_a_column_holds(read: Reader, calls: int, form: str) -> None:
    """A 64 KB frame of NULL calls: a column ends at 2047 bytes (186 XIDs), then the fields are read; all are there."""
    tcp = Tcp()
    tcp.send(0, ">", *(wire.null(0x10000000 + i) for i in range(calls)))
    decoded = read.client(tcp)
    assert decoded.form == form
    assert decoded.messages.xid.tolist() == [0x10000000 + i for i in range(calls)]
    assert decoded.messages.seq.tolist() == [1000 + 44 * i for i in range(calls)]


def _random_talk(rng: random.Random, number: int) -> tuple[Tcp, list[tuple[int, float, float]]]:
    """One connection in random segments, and what its messages are: (xid, ms of first byte, ms of last byte)."""
    tcp = opened(client=("10.0.0.1", 10_000 + number), isn=(rng.randrange(1 << 31), 5000))
    messages = [
        rng.choice((wire.read(xid), wire.write(xid, 0, rng.randrange(1, 3000)), wire.rename(xid), wire.getattr3(xid)))
        for xid in range(100 * number, 100 * number + 12)
    ]
    stream = b"".join(map(wire.record, messages))
    ends = list(itertools.accumulate(4 + len(message) for message in messages))
    marks = {at for end in (0, *ends) for at in range(end + 1, end + 4)}  # tshark loses records whose mark is cut
    cuts = sorted({0, len(stream)} | set(rng.sample(range(4, len(stream)), 9)) - marks)
    segments = list(itertools.pairwise(cuts))
    for at in range(len(segments) - 1):
        if rng.random() < 0.3:  # out of order
            segments[at], segments[at + 1] = segments[at + 1], segments[at]
    for at in range(len(segments), 0, -1):
        if rng.random() < 0.3:  # retransmitted, some bytes back
            a, b = segments[rng.randrange(at)]
            segments.insert(at, (a, b))
    seen = [0.0] * len(stream)
    base = tcp.next[">"]
    for ms, (a, b) in enumerate(segments, 1):
        tcp.raw(ms, ">", base + a, stream[a:b])
        seen[a:b] = [seen[at] or float(ms) for at in range(a, b)]
    spans = itertools.pairwise((0, *ends))
    return tcp, [(100 * number + i, seen[a], max(seen[a:b])) for i, (a, b) in enumerate(spans)]


def test_random_segments_give_the_times_of_first_and_last_bytes(read: Reader) -> None:
    """40 connections of 12 calls, cut anywhere, reordered and retransmitted, keep the times worked out byte by byte; of
    some the tshark of later versions shows nothing any more from one segment on, and of none another time."""
    rng = random.Random(2013)
    talks = [_random_talk(rng, number) for number in range(1, 41)]
    m = read.client(*(tcp for tcp, _ in talks)).messages
    m = m.take((m.is_reply == 0) & (m.xid != 0x99))
    found = rows(m, "xid", "first_ns", "last_ns")
    expected = {row for _, of_talk in talks for row in of_talk}
    assert len(found) == len(set(found))
    assert set(found) <= expected
    is_old = tuple(map(int, read.tools.version.split(".")[:2])) <= (4, 0)
    assert len(found) == len(expected) if is_old else len(found) >= 0.95 * len(expected)


@pytest.mark.skipif(not CAPTURES, reason="no captures at ../shared: 0 of them compared")
@pytest.mark.parametrize(
    "path",
    [
        pytest.param(path, id=f"{path.parent.name}/{path.name}", marks=_by_night if number else ())
        for number, path in enumerate(CAPTURES[::2])
    ],
)
def test_columns_and_fields_give_identical_tables(read: Reader, path: Path) -> None:
    """Real captures, one of each pair: both forms of tshark's output hold the same messages and the same counts."""
    columns, fields = read.file(path), read.file(path, form="fields")
    assert_same(columns.messages, fields.messages)
    assert dataclasses.replace(columns, messages=fields.messages, form="fields") == fields
