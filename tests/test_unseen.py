"""Ops that a capture knows of and does not show: what they took together lies between the bounds."""

from __future__ import annotations

import gzip
import json
import struct
from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import count
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import wire
from captures import SHARED
from hypothesis import given
from hypothesis import strategies as st
from test_native import _read

from nfslat import api
from nfslat.cli.main import main
from nfslat.decode.xid_gaps import missing_calls
from nfslat.figures.unseen import reckoned
from nfslat.findings.catalogue import row
from nfslat.findings.diagnosis import diagnosis
from nfslat.findings.facts import Facts, KeptAbove
from nfslat.findings.layers import Layers
from nfslat.findings.network import network_findings
from nfslat.findings.server import Storage, server_findings
from nfslat.findings.tcp import Waits
from nfslat.findings.unseen import WithUnseen
from nfslat.findings.verdict import Ground, verdict
from nfslat.model.decoded import Decoded
from nfslat.tally.unseen import UnseenTally
from nfslat.wire.above import Why
from nfslat.wire.unseen import Unseen, unseen
from nfslat.wire.unseen_counts import fit_all
from nfslat.wire.unseen_fit import Rows, Waiting, fit
from nfslat.wire.unseen_sizes import _around

MOST = 60_000  # bytes of a packet that was put together
SIDES = ("server", "client")
STALLS = SHARED / "lab2" / "disk_stalls_full"


def _swapped(xid: int) -> int:
    return int.from_bytes(xid.to_bytes(4, "little"), "big")


@dataclass(frozen=True)
class Load:
    """A connection of which calls, and replies, that come close together are one packet each; and a snaplen."""

    size: int  # of READs and WRITEs
    swaps: bool  # XIDs count up in the other byte order
    near_ms: float
    ops: list[tuple[str, float, float]]  # what, ms from the call in front, ms that it took
    snaplen: int

    def flow(self) -> wire.Tcp:
        sent: dict[str, list[tuple[float, bytes]]] = {">": [], "<": []}
        t_ms = 1.0
        for n, (kind, later_ms, took_ms) in enumerate(self.ops):
            t_ms += later_ms + 0.001
            xid = _swapped(0x1000 + n) if self.swaps else 0x1000 + n
            call, reply = {
                "read": (wire.read(xid, self.size * n, self.size), wire.read3(self.size)),
                "write": (wire.write(xid, self.size * n, self.size), wire.WRITE3),
                "getattr": (wire.getattr3(xid), wire.GETATTR3),
            }[kind]
            sent[">"].append((t_ms, call))
            sent["<"].append((t_ms + took_ms + 0.0013 * n, wire.reply(xid, reply)))
        tcp = wire.Tcp()
        tcp.syn(0.0)
        packets = [(at_ms, way, train) for way in sent for at_ms, train in self._trains(sent[way])]
        for at_ms, way, train in sorted(packets, key=lambda packet: packet[:2]):
            tcp.send(at_ms + (self.near_ms if way == "<" else 0), way, *train)
        return tcp

    def _trains(self, messages: list[tuple[float, bytes]]) -> Iterator[tuple[float, list[bytes]]]:
        train: list[bytes] = []
        begin_ms = last_ms = 0.0
        for at_ms, message in sorted(messages):
            if train and (at_ms - begin_ms > self.near_ms or sum(map(len, train)) + len(message) >= MOST):
                yield last_ms, train
                train = []
            begin_ms = begin_ms if train else at_ms
            train.append(message)
            last_ms = at_ms
        yield last_ms, train


_AFTER_MS, _TOOK_MS = st.sampled_from([0.0, 0.01, 1.0, 7.0]), st.sampled_from([0.2, 1.0, 5.0, 40.0])
LOADS = st.sampled_from([["read"], ["read", "read", "write"], ["read", "getattr", "write"], ["getattr"]]).flatmap(
    lambda kinds: st.builds(
        Load,
        st.sampled_from([1024, 4096, 8192]),
        st.booleans(),
        st.sampled_from([0.0, 0.5, 3.0]),
        st.lists(st.tuples(st.sampled_from(kinds), _AFTER_MS, _TOOK_MS), min_size=5, max_size=60),
        st.sampled_from([140, 200, 300, 512, 1500, 9000]),
    )
)


def _bounds(decoded: Decoded, *, at_server: bool) -> Unseen | None:
    every = np.ones(len(decoded.ops), dtype=np.bool_)
    return unseen(decoded, every, missing_calls(decoded), at_server=at_server)


def _sum_ns(decoded: Decoded, *, at_server: bool) -> float:
    ops = decoded.ops
    return float((ops.t2 - ops.t1 if at_server else ops.t3 - ops.t0).sum())


@given(LOADS)
def test_the_bounds_hold_what_a_snaplen_hides(tmp_path_factory: pytest.TempPathFactory, load: Load) -> None:
    """Whatever is put together and wherever it is cut: of as many ops as there are, the sum lies between the bounds."""
    folder = tmp_path_factory.getbasetemp()
    seen = load.flow().seen_by("client", back_ms=0)
    whole = _read(wire.write_pcap(folder / "whole.pcap", seen), folder)[1]
    cut = _read(wire.write_pcap(folder / "cut.pcap", seen, snaplen=load.snaplen), folder)[1]
    assert _bounds(whole, at_server=False) is None
    for at_server in (False, True):
        found = _bounds(cut, at_server=at_server)
        if found is None or found.seen + found.ops != len(whole.ops):
            continue  # calls in front of the first that is seen, or behind the last, leave no gap
        true_ns = _sum_ns(whole, at_server=at_server)
        assert found.seen_ns + found.low_ns - 1e5 <= true_ns <= found.seen_ns + found.high_ns + 1e5


def test_replies_in_one_packet_are_known_to_the_packet(tmp_path: Path) -> None:
    """READs that came while a disk stood still are answered in a train, of which the snaplen shows the first: the bytes
    of the packet say how many there were, and so what they took."""
    tcp, xids = wire.Tcp(), count(1)
    for n in range(30):
        xid = next(xids)
        tcp.send(10 * n, ">", wire.read(xid, 8192 * n))
        tcp.send(10 * n + 1, "<", wire.reply(xid, wire.read3()))
    held = [next(xids) for _ in range(6)]
    for n, xid in enumerate(held):
        tcp.send(400 + n, ">", wire.read(xid, 8192 * n))
    tcp.send(700, "<", *(wire.reply(xid, wire.read3()) for xid in held))
    last = next(xids)
    tcp.send(710, ">", wire.read(last))
    tcp.send(711, "<", wire.reply(last, wire.read3()))
    seen = tcp.seen_by("client", back_ms=0)
    decoded = _read(wire.write_pcap(tmp_path / "cut.pcap", seen, snaplen=512), tmp_path)[1]
    found = _bounds(decoded, at_server=False)
    assert found is not None
    assert (found.seen, found.without_reply, found.without_call, found.without_both) == (32, 5, 0, 0)
    assert found.low_ns == pytest.approx(sum(300 - n for n in range(1, 6)) * 1e6)
    assert found.high_ns == pytest.approx(found.low_ns)


def test_calls_under_way_at_the_end_are_no_ops(tmp_path: Path) -> None:
    """A call that is not answered before the capture ends is hidden nowhere."""
    tcp = wire.Tcp()
    for n in range(20):
        tcp.send(10 * n, ">", wire.read(n + 1), wire.read(n + 101))
        tcp.send(10 * n + 1, "<", wire.reply(n + 1, wire.read3()), wire.reply(n + 101, wire.read3()))
    tcp.send(300, ">", wire.read(300))
    seen = tcp.seen_by("client", back_ms=0)
    decoded = _read(wire.write_pcap(tmp_path / "cut.pcap", seen, snaplen=512), tmp_path)[1]
    found = _bounds(decoded, at_server=False)
    assert found is not None
    assert found.ops == 20


def test_the_bytes_say_which_packets_hold_replies_to_calls_that_nobody_sees(tmp_path: Path) -> None:
    """Ops of three kinds whose call and reply both lie behind the snaplen are not put off till the end of the capture:
    each packet holds as many replies as its bytes can be, the last of all included, which leaves no gap in the XIDs."""
    tcp, xids = wire.Tcp(), count(1)
    kinds = [(wire.read, wire.read3()), (wire.write, wire.WRITE3), (wire.getattr3, wire.GETATTR3)]
    for n in range(90):
        one, *others = [(next(xids), *kinds[(n + more) % 3]) for more in range(4)]
        for at_ms, train in ((100 * n, [one]), (100 * n + 20, others)):
            tcp.send(at_ms, ">", *(call(xid) for xid, call, _ in train))
            tcp.send(at_ms + 5, "<", *(wire.reply(xid, body) for xid, _, body in train))
    seen = tcp.seen_by("client", back_ms=0)
    whole = _read(wire.write_pcap(tmp_path / "whole.pcap", seen), tmp_path)[1]
    found = _bounds(_read(wire.write_pcap(tmp_path / "cut.pcap", seen, snaplen=300), tmp_path)[1], at_server=False)
    assert found is not None
    assert (found.without_reply, found.without_call, found.without_both) == (30, 60, 60)
    assert found.seen + found.ops == len(whole.ops)
    true_ns = _sum_ns(whole, at_server=False)
    assert found.seen_ns + found.low_ns - 1e5 <= true_ns <= found.seen_ns + found.high_ns + 1e5
    assert found.high_ns - found.low_ns <= 0.01 * true_ns


@st.composite
def _stretches(draw: st.DrawFn) -> tuple[Rows, list[int], list[int], list[tuple[int, int]], bool]:
    """Packets, the instants of the calls and replies, the sizes of the replies, and whether their last bytes count."""
    sizes = draw(st.lists(st.tuples(st.integers(28, 900), st.sampled_from([0, 0, 8, 300])), min_size=1, max_size=4))
    ends, t = draw(st.booleans()), 0
    rows: list[tuple[int, int, int]] = []
    calls, replies = [], []
    for stretch in range(draw(st.integers(1, 6))):
        lengths = []
        for _ in range(draw(st.integers(1, 5))):
            least, more = draw(st.sampled_from(sizes))
            lengths.append(least + draw(st.integers(0, more)))
        total, at = sum(lengths), 0
        packets = []  # (bytes up to its end, when)
        for cut in [*sorted(draw(st.sets(st.integers(1, total - 1), max_size=4))), total]:
            t += draw(st.integers(1, 50))
            rows.append((stretch, t, cut - at))
            packets.append((cut, t))
            at = cut
        until = 0
        for length in lengths:
            byte = until + length if ends else until + 1
            until += length
            came = next(when for cut, when in packets if byte <= cut)
            replies.append(came)
            calls.append(came - draw(st.integers(0, 200)))
    columns = [np.array(column, dtype=np.int64) for column in zip(*rows, strict=True)]
    return (
        Rows(columns[0], columns[1], columns[1], columns[2]),
        calls,
        replies,
        [(one, one + more) for one, more in sizes],
        ends,
    )


@given(_stretches())
def test_replies_of_known_sizes_came_between_the_bounds(
    made: tuple[Rows, list[int], list[int], list[tuple[int, int]], bool],
) -> None:
    """However replies are laid into packets: the sum of their times lies between what their sizes alone leave."""
    rows, calls, replies, sizes, ends = made
    found = fit_all(rows, np.array(calls, dtype=np.int64), sizes, ends=ends)
    assert found is not None
    assert found.placed == len(replies)
    assert found.low <= sum(replies) <= found.high


def test_bytes_that_no_replies_are_say_nothing() -> None:
    """A stretch that replies of the known sizes do not fill leaves all of it open."""
    rows = Rows(*(np.array(column, dtype=np.int64) for column in ([0, 1], [10, 20], [10, 20], [300, 301])))
    assert fit_all(rows, np.array([0, 1, 2, 3]), [(100, 100), (200, 200)], ends=True) is None


def test_a_reply_may_fill_the_rest_of_packets_that_began_before_its_call() -> None:
    """Room that a stretch had before a call was sent is not lost for its reply, which comes in a later packet of it."""
    rows = Rows(*(np.array(column, dtype=np.int64) for column in ([0, 0], [10, 20], [10, 20], [1000, 1000])))
    (found,) = fit(rows, [Waiting(np.array([5, 15]), 28, 1 << 20)], ends=True)
    assert (found.placed, found.low, found.high) == (2, 30.0, 40.0)


@pytest.mark.parametrize(
    ("beside", "asked", "found"),
    [
        ((132, 8324), [8192], (132, 132)),
        ((132, 8332), [4096, 8192], (132, 140)),
        ((132, 4236), [4096, 8192], (132, 140)),
        ((48, 132), [8192], (48, 132)),
    ],
)
def test_calls_that_do_not_show_what_they_ask_for_do_not_blur_the_others(
    beside: tuple[int, int], asked: list[int], found: tuple[int, int]
) -> None:
    """Replies to READs that are cut off in their arguments count with their data: that is no length of what the others
    have beside it."""
    assert _around(*beside, asked) == found


def _cut(path: Path, to: Path, snaplen: int) -> Path:
    """The packets of a pcap file with the time in seconds and parts, cut."""
    data = gzip.decompress(path.read_bytes())
    order = "<" if data[:4] in (b"\xd4\xc3\xb2\xa1", b"\x4d\x3c\xb2\xa1") else ">"
    out, at = [data[:16], struct.pack(order + "I", snaplen), data[20:24]], 24
    while at + 16 <= len(data):
        seconds, part, kept, length = struct.unpack_from(order + "IIII", data, at)
        out += [struct.pack(order + "IIII", seconds, part, min(kept, snaplen), length)]
        out += [data[at + 16 : at + 16 + min(kept, snaplen)]]
        at += 16 + kept
    to.write_bytes(b"".join(out))
    return to


needs_stalls = pytest.mark.skipif(not STALLS.exists(), reason="no captures at ../shared: lab2 left out")


@needs_stalls
@pytest.mark.parametrize("snaplen", [200, 512, 1500])
def test_a_real_capture_gives_back_its_mean_when_it_is_cut(tmp_path: Path, snaplen: int) -> None:
    """A disk that stalls, whole packets, cut: as many ops as there were, and their mean to 1 %."""
    path = STALLS / "client.pcap.gz"
    whole = _read(path, tmp_path)[1]
    found = _bounds(_read(_cut(path, tmp_path / "cut.pcap", snaplen), tmp_path)[1], at_server=False)
    assert found is not None
    assert found.seen + found.ops == len(whole.ops)
    true_ns = _sum_ns(whole, at_server=False)
    assert found.seen_ns + found.low_ns - 1e6 <= true_ns <= found.seen_ns + found.high_ns + 1e6
    assert found.seen_ns + found.high_ns <= 1.01 * true_ns


@needs_stalls
@pytest.mark.parametrize("snaplen", [96, 128, 192, 256, 300, 512, 1500])
def test_bounds_of_a_lossy_capture_are_close(tmp_path: Path, snaplen: int) -> None:
    """Of a network that loses 2 %, a fifth of the ops hidden: the mean lies between the bounds, which are no further
    than a tenth of it apart."""
    path = SHARED / "lab" / "d4_v3_loss2_full" / "client.pcap.gz"
    whole = _read(path, tmp_path)[1]
    found = _bounds(_read(_cut(path, tmp_path / "cut.pcap", snaplen), tmp_path)[1], at_server=False)
    assert found is not None
    assert found.seen + found.ops == len(whole.ops)
    true_ns = _sum_ns(whole, at_server=False)
    assert found.seen_ns + found.low_ns <= true_ns <= found.seen_ns + found.high_ns
    assert found.high_ns - found.low_ns <= 0.1 * true_ns


@needs_stalls
def test_the_verdict_of_a_cut_capture_is_of_all_ops(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """What 512 bytes hide is not given to the client above the wire, and the verdict says so."""
    pair = [str(_cut(STALLS / f"{side}.pcap.gz", tmp_path / f"{side}.pcap", 512)) for side in ("server", "client")]
    assert main([*pair, "--json", "-", "--app-ms", "READ=11"]) == 0
    report = json.loads(capsys.readouterr().out)
    with_all = report["captures"]["client"]["unseen"]
    assert with_all["mean_ms"] == pytest.approx([8.15, 8.15], rel=0.01)
    assert report["verdict"]["largest_layer"] == "server"
    if with_all["matters"]:
        assert "The captures do not show " in report["verdict"]["text"]
        assert report["verdict"]["confidence"] != "high"


SEEN = Layers(3.8, 1.3, client_ms=8.8)
SOUND = Ground(ops=3000, complete=0.98, incomplete="", negative=0, clock_fits=True)


def _ground(wire_ms: tuple[float, float], server_ms: tuple[float, float]) -> tuple[Layers, Ground]:
    found = WithUnseen(72, 0.023, (0.3, 0.4), SEEN, wire_ms, server_ms)
    assert found.matters
    return found.layers(), SOUND._replace(unseen=found)


def test_hidden_operations_take_no_more_than_the_application_waited() -> None:
    """40 of 80 operations are hidden and may have taken 240 ms each; the application waited 152 ms on average for all
    of them, and they were on the network for most of that: the network is named, as it is by packets alone. An
    application's time that is below all bounds is of other operations, and narrows nothing."""
    sums = {
        name: Unseen(40, 40 * seen_ns, 40, 0, 0, 40 * low_ns, 40 * high_ns)
        for name, seen_ns, low_ns, high_ns in (("client", 150e6, 150e6, 390e6), ("server", 1e6, 10e6, 250e6))
    }
    tallies = {name: UnseenTally(found) for name, found in sums.items()}
    plain = reckoned(tallies, Layers(1.0, 149.0), 40)
    assert plain.largest(plain.layers()) is None
    bounded = reckoned(tallies, Layers(1.0, 149.0, client_ms=2.0), 40)
    assert bounded.wire_ms == (150.0, 152.0)
    assert bounded.server_ms[1] == pytest.approx(152.0 - 149.0 / 2)
    tight = reckoned(tallies, Layers(1.0, 149.0, client_ms=0.0), 40)
    assert tight.wire_ms == (150.0, 150.0)
    other = reckoned(tallies, Layers(1.0, 119.0, client_ms=5.0), 40)
    assert other.wire_ms == (plain.wire_ms[0] - 15.0, plain.wire_ms[1] - 15.0)


def test_a_layer_is_named_where_the_bounds_leave_no_other() -> None:
    """What the application waits for beyond all ops, those included that are not shown, is the client's."""
    said = verdict(*_with((9.7, 9.8), (8.4, 8.5)))
    assert (said.outcome, said.largest_layer, said.confidence) == ("undecided", "server", "low")
    assert "The captures do not show 72 operations, which took 30 to 40 % of the time" in said.text
    assert said.largest_share == pytest.approx(8.4 / 13.9)
    assert (
        "A mean operation takes 13.90 ms: 4.10 to 4.20 above the wire in the client, 8.45 in the server, " in said.text
    )


def test_no_layer_is_named_where_the_bounds_leave_several() -> None:
    """Neither is a client blamed for what hidden ops can explain, nor a server for what they may not have taken."""
    said = verdict(*_with((5.2, 12.0), (3.9, 10.7)))
    assert (said.outcome, said.largest_layer, said.cause, said.confidence) == ("undecided", None, None, "low")
    assert "cannot be told" in said.text
    assert said.next is not None
    assert "tcpdump -i any -s 0" in said.next.command


def test_what_is_on_record_leads_where_no_layer_can_be_told() -> None:
    """Each operation pays the round trip, those included that are not shown: its share is said between the bounds."""
    seen = Layers(1.9, 12.0)
    unseen = WithUnseen(2400, 0.4, (0.1, 0.6), seen, (10.0, 25.0), (1.5, 13.0))
    assert unseen.matters
    assert unseen.largest(unseen.layers()) is None
    facts = Facts(mean=unseen.layers(), unseen=unseen, least_round_trip_ms=6.0, ops=3600)
    said = verdict(facts.mean, None, SOUND._replace(unseen=unseen), network_findings(facts))
    assert (said.outcome, said.layer, said.cause, said.confidence) == ("fault", "network", "net-delay", "medium")
    assert said.share == pytest.approx(6 / 25)
    assert "at least 6.00 of 10.00 to 25.00 ms (24 to 60 %)" in said.text


def test_a_wait_that_tcp_puts_on_record_leads_where_no_layer_can_be_told() -> None:
    """What operations that are shown waited for lost packets is of the whole at least so much; what calls wait for in a
    queue that is inferred is not on record."""
    unseen = WithUnseen(2400, 0.4, (0.1, 0.6), Layers(1.9, 12.0), (10.0, 25.0), (1.5, 13.0))
    waits = Waits(wait_ms=10.0, slowest_wait_ms=None)
    for code, evidence, outcome in (
        ("net-loss", waits, "fault"),
        ("server-storage", Storage(in_thread_ms=10.0, data_ops=1, data_ms=10.0), "undecided"),
    ):
        found = diagnosis(code, row(code).layer, "", share=0.4, confidence="certain", evidence=evidence)
        said = verdict(unseen.layers(), None, SOUND._replace(unseen=unseen), [found])
        assert said.outcome == outcome
        assert said.confidence != "high"


def _held(**changes: Any) -> Facts:
    """30 of 1,000 operations are not shown, and the server held each for 400 ms or more."""
    seen = Layers(5.0, 2.0)
    unseen = WithUnseen(30, 0.03, (0.6, 0.7), seen, (18.8, 22.8), (16.85, 20.85))
    return replace(Facts(mean=unseen.layers(), unseen=unseen, ops=970), **changes)


def test_hidden_operations_that_the_server_held_are_slow_ones() -> None:
    """Their replies left in one packet after a stall, of which the snaplen shows the first: how many they are and how
    long they took is known, and that leads as a share between bounds."""
    facts = _held()
    unseen = facts.unseen
    assert unseen is not None
    (slow,) = [one for one in server_findings(facts) if one.code == "server-slow-ops"]
    assert slow.confidence == "likely"
    said = verdict(facts.mean, None, SOUND._replace(unseen=unseen), [slow])
    assert (said.outcome, said.layer, said.cause, said.confidence) == ("fault", "server", "server-slow-ops", "medium")
    assert (
        "30 of 1,000 operations, which no capture shows, take 400.0 to 533.3 ms on average, the others 5.00 ms"
        in said.text
    )
    assert "at least 12.00 of 18.80 to 22.80 ms (53 to 70 %)" in said.text
    alone = SOUND._replace(unseen=unseen, inferred="server", lost_share=0.02)
    assert verdict(facts.mean, None, alone, [slow]).outcome == "undecided"  # replies that were lost whole look alike


@pytest.mark.parametrize(
    "changes",
    [
        {"lost_segments": 25},  # retransmissions took half of it
        {"kept_above": {Why.NO_CONNECTION: KeptAbove(1, 3100.0, 3100.0, "", 0.1)}},
        {"unseen": WithUnseen(4, 0.03, (0.6, 0.7), Layers(5.0, 2.0), (18.8, 22.8), (16.85, 20.85))},
        {"unseen": WithUnseen(30, 0.03, (0.6, 0.7), Layers(5.0, 2.0), (7.8, 22.8), (5.5, 20.85))},  # as quick
        {"unseen": WithUnseen(400, 0.3, (0.6, 0.7), Layers(5.0, 2.0), (18.8, 22.8), (10.0, 20.85))},  # four times
        {"unseen": WithUnseen(30, 0.03, (0.6, 0.7), Layers(5.0, 2.0, moved_ms={"network": 1.0, "server": -1.0}),
                              (18.8, 22.8), (16.85, 20.85))},  # replies wait in its socket
    ],
)  # fmt: skip
def test_hidden_operations_that_something_else_may_have_held_are_no_finding(changes: dict[str, Any]) -> None:
    """Lost data, a socket that is full, a few of them, or a mean that does not stand out."""
    assert "server-slow-ops" not in [one.code for one in server_findings(_held(**changes))]


CUT = [("restart_v3_full", 300, "reconnect"), ("snapshot_1500ms_full", 400, "server-slow-ops")]
needs_lab3 = pytest.mark.skipif(not (SHARED / "lab3").is_dir(), reason="the captures are not here")


@needs_lab3
@pytest.mark.parametrize(("name", "snaplen", "cause"), CUT)
def test_two_cut_captures_name_what_either_of_them_names(tmp_path: Path, name: str, snaplen: int, cause: str) -> None:
    """A lost connection and a disk that stood still, with replies hidden by a snaplen."""
    pair = [_cut(SHARED / "lab3" / name / f"{side}.pcap.gz", tmp_path / f"{side}.pcap", snaplen) for side in SIDES]
    both, *alone = (
        api.run([str(path) for path in paths], api.Options()).summary.verdict for paths in (pair, pair[:1], pair[1:])
    )
    assert both is not None
    assert (both.outcome, both.cause) == ("fault", cause)
    assert all(said is None or said.confidence in ("low", "medium") for said in alone)


@needs_lab3
@pytest.mark.long
@pytest.mark.parametrize("snaplen", [128, 200, 256, 400, 512, 700, 1500])
@pytest.mark.parametrize(
    "folder",
    sorted(path.parent for lab in ("lab", "lab2", "lab3") for path in (SHARED / lab).glob("*/truth.json")),
    ids=lambda path: path.name,
)
def test_two_captures_never_say_less_than_one(tmp_path: Path, folder: Path, snaplen: int) -> None:
    """Wherever a capture is cut: what one capture alone names with medium, two do not leave open."""
    pair = [_cut(folder / f"{side}.pcap.gz", tmp_path / f"{side}.pcap", snaplen) for side in SIDES]
    both, *alone = (
        api.run([str(path) for path in paths], api.Options()).summary.verdict for paths in (pair, pair[:1], pair[1:])
    )
    if any(said is not None and said.outcome == "fault" and said.confidence != "low" for said in alone):
        assert both is not None
        assert both.outcome == "fault"


def _with(wire_ms: tuple[float, float], server_ms: tuple[float, float]) -> tuple[Layers, None, Ground]:
    mean, ground = _ground(wire_ms, server_ms)
    return mean, None, ground
