"""`nfslat extract`: the packets of single ops in one file, as tshark sees it."""

from __future__ import annotations

import json
import random
import re
import subprocess
from collections.abc import Iterator, Sequence
from itertools import pairwise
from pathlib import Path

import pytest
import scenario
import wire
from _pytest.mark.structures import ParameterSet
from captures import SHARED
from hypothesis import given
from hypothesis import strategies as st

from nfslat import pipeline
from nfslat.cli import main as cli
from nfslat.decode.engine import choose
from nfslat.decode.tools import Tools
from nfslat.decode.tshark.reader import nanoseconds
from nfslat.packets import show
from nfslat.packets.extract import packets
from nfslat.packets.extract.packets import join
from nfslat.packets.extract.write import Written, write_extract
from nfslat.results import Correlation
from nfslat.select import Filters

ROOT = Path(__file__).parents[1]
SAMPLES = sorted((ROOT / "samples").glob("*/server.*"))
# Drift, a step, cooked capture of every interface, snoop, 1 MiB over hundreds of segments, RPC sent again, a restart,
# nconnect, NFSv4.1, and loss with whole packets.
LAB = (
    *("g_clock_drift5000ppm", "g_clock_step3s", "i_v3_any_sll2", "i_v3_fmt_snoop", "i_v3_full_1M"),
    *("b4_v3_rpc_retransmit", "n_v3_nfsd_restart", "f_v3_nconnect4", "f_v41_session_slots2", "d4_v3_loss2_full"),
)
_FRAME = re.compile(r"frame (\d+)$")


def _correlate(server: Path | str, client: Path | str, tools: Tools, scratch: Path) -> Correlation:
    engine = choose("native", lambda: tools, scratch, rereads=True)
    return pipeline.correlate(
        engine.open(str(server)),
        engine.open(str(client)),
        engine,
        filters=Filters(),
        srt="nfslat",
        may_swap=False,
        progress=lambda _: None,
    )


def _write(
    found: Correlation, rows: Sequence[int], tools: Tools, path: Path, *, context: bool = False
) -> list[Written]:
    with path.open("wb") as out:
        return write_extract(found, rows, tools, out, context=context)


def _shown(path: Path, tools: Tools, *fields: str, options: Sequence[str] = ()) -> list[list[str]]:
    """What tshark shows of the file; it must have nothing to complain about."""
    asked = [part for field in fields for part in ("-e", field)]
    done = subprocess.run(
        [tools.tshark, "-n", "-r", str(path), "-T", "fields", *asked, *options],
        capture_output=True,
        text=True,
        check=True,
        env=tools.environment,
    )
    assert [line for line in done.stderr.splitlines() if not line.startswith("Running as")] == []
    return [line.split("\t") for line in done.stdout.splitlines()]


def _times(path: Path, tools: Tools) -> dict[tuple[str, int], int]:
    """Interface and frame number in its capture -> time; the file must be in order of time."""
    rows = _shown(path, tools, "frame.interface_name", "frame.time_epoch", "frame.comment")
    times = [nanoseconds(time) for _, time, _ in rows]
    assert times == sorted(times)
    found = {}
    for (side, _, comment), time in zip(rows, times, strict=True):
        named = _FRAME.search(comment)
        assert named is not None
        found[side, int(named[1])] = time
    assert len(found) == len(rows)  # no packet is there twice
    return found


def _check(found: Correlation, rows: Sequence[int], times: dict[tuple[str, int], int]) -> None:
    """The instants between which the report's response times lie are those of packets in the file, to the ns."""
    analysis = pipeline.analyse(found)
    for row in rows:
        client, server = int(found.matched.client[row]), int(found.matched.server[row])
        c, s = found.client.ops, found.server.ops
        begin, end = times["client", int(c.call_first_frame[client])], times["client", int(c.reply_last_frame[client])]
        came, left = times["server", int(s.call_last_frame[server])], times["server", int(s.reply_first_frame[server])]
        assert end - begin == analysis.client_srt_ns[row]
        assert left - came == analysis.server_srt_ns[row]
        if found.clock.fits:
            parts = dict(zip(("send", "call", "server", "reply_send", "reply"), found.parts.all_ns(), strict=True))
            assert came - begin == parts["send"][row] + parts["call"][row]
            assert end - left == parts["reply_send"][row] + parts["reply"][row]


def _pairs() -> Iterator[ParameterSet]:
    for path in SAMPLES:
        marks = [] if path.parent.name == "packet-loss" else [pytest.mark.long]
        yield pytest.param(path.parent, id=path.parent.name, marks=marks)
    for name in LAB:
        folder = SHARED / "lab" / name
        marks = [pytest.mark.skipif(not folder.is_dir(), reason="no ../shared/lab"), pytest.mark.long]
        yield pytest.param(folder, id=name, marks=marks)


@pytest.mark.parametrize("folder", list(_pairs()))
def test_op_times_in_the_file_are_those_of_the_report(folder: Path, tools: Tools, tmp_path: Path) -> None:
    """Drift, steps, cooked frames, snoop, 1 MiB and retransmissions: each op's four instants are there, to the ns."""
    server, client = (next(folder.glob(f"{side}.*")) for side in ("server", "client"))
    found = _correlate(server, client, tools, tmp_path)
    rows = show.slowest_ops(found, 8)
    written = _write(found, rows, tools, tmp_path / "worst.pcapng")
    _check(found, rows, _times(tmp_path / "worst.pcapng", tools))
    assert [one.row for one in written] == rows
    assert all(count > 0 for one in written for count in one.packets.values())


# What is around a frame, where it was lost or overtaken, whose clock and addresses it has; all others do as well.
SCENARIOS = (
    *("clock_drift_and_step", "clock_of_received_packets", "clock_unknown", "duplicate_frames", "load_balancer"),
    *("reconnect_new_port", "segment_lost", "vxlan", "vlan", "xid_reuse_same_request"),
)
_BY_DAY = ("clock_drift_and_step", "load_balancer")  # clocks, addresses; each run asks tshark


@pytest.mark.parametrize(
    "path",
    [
        pytest.param(path, id=path.stem, marks=() if path.stem in _BY_DAY else pytest.mark.long)
        for path in scenario.FILES
        if path.stem in SCENARIOS
    ],
)
def test_every_way_to_carry_an_op_is_found_again(path: Path, tools: Tools, tmp_path: Path) -> None:
    """Whatever is around a frame, was lost, came late, twice or with rewritten addresses: its ops are in the file."""
    written = scenario.Scenario.load(path)
    server, client = written.write(tmp_path)
    found = _correlate(server, client, tools, tmp_path)
    rows = show.slowest_ops(found, 4)
    _write(found, rows, tools, tmp_path / "worst.pcapng")
    _check(found, rows, _times(tmp_path / "worst.pcapng", tools))


def _busy(folder: Path) -> tuple[Path, Path]:
    """READ 7 in three segments, one of them lost and sent again; between them packets that are not its own."""
    ours, other = wire.Tcp(), wire.Tcp(client=("10.0.0.1", 701))
    ours.send(0, ">", wire.read(6, 0, 100), wire.read(7, 0, 4000))
    other.send(1, ">", wire.read(8, 0, 100))
    first, second, third = ours.send(5, "<", wire.reply(7, wire.read3(4000)), cut=(1400, 1400), at=(5, 5.2, 5.4))
    del first, third
    other.send(5.1, "<", wire.reply(8, wire.read3(100)))
    ours.ack(5.25, ">")
    ours.again(9, second)
    ours.send(10, "<", wire.reply(6, wire.read3(100)))
    client, server = folder / "client.pcap", folder / "server.pcap"
    for path, side in ((client, "client"), (server, "server")):
        packets = [*ours.seen_by(side), *other.seen_by(side)]
        if side == "client":  # what was lost on its way there
            lost = sorted(ours.seen_by(side), key=lambda seen: seen.t_ns)[3]
            packets.remove(lost)
        wire.write_pcap(path, sorted(packets, key=lambda seen: seen.t_ns))
    return server, client


def test_only_the_packets_of_the_op_are_there(tools: Tools, tmp_path: Path) -> None:
    """Neither another connection's between its segments, nor ACKs, nor other ops; what TCP sent again is named. The
    same input gives the same file: nothing of the clock on the wall, no random name."""
    found = _correlate(*_busy(tmp_path), tools, tmp_path)
    for name in ("one", "two"):
        _write(found, show.by_xid(found, 7), tools, tmp_path / f"{name}.pcapng")
    rows = _shown(tmp_path / "one.pcapng", tools, "frame.interface_name", "frame.comment")
    told = [re.sub(r"; (client SRT|frame) .*", "", comment) for _, comment in rows]
    assert sorted(told) == [
        "READ 0x00000007 client call",
        "READ 0x00000007 client reply 1/3",
        "READ 0x00000007 client reply 2/3",
        "READ 0x00000007 client reply 3/3, retransmitted",
        "READ 0x00000007 server call",
        "READ 0x00000007 server reply 1/4",
        "READ 0x00000007 server reply 2/4",
        "READ 0x00000007 server reply 3/4",
        "READ 0x00000007 server reply 4/4, retransmitted",
    ]
    assert (tmp_path / "one.pcapng").read_bytes() == (tmp_path / "two.pcapng").read_bytes()


def test_context_adds_what_else_went_by_on_the_connection(tools: Tools, tmp_path: Path) -> None:
    """With --context the ACK is there too; another connection's packets still are not."""
    found = _correlate(*_busy(tmp_path), tools, tmp_path)
    _write(found, show.by_xid(found, 7), tools, tmp_path / "one.pcapng", context=True)
    rows = _shown(tmp_path / "one.pcapng", tools, "tcp.srcport", "tcp.dstport", "tcp.len", "frame.comment")
    assert {port for source, target, *_ in rows for port in (source, target)} == {"700", "2049"}
    others = [comment for _, _, size, comment in rows if size == "0"]
    assert [comment.partition(";")[0] for comment in others] == [
        "client, while READ 0x00000007 was in flight",
        "server, while READ 0x00000007 was in flight",
    ]


def test_two_ops_in_one_packet_share_it(tools: Tools, tmp_path: Path) -> None:
    """A segment that carries two of the ops is written once, with a comment on both."""
    found = _correlate(*_busy(tmp_path), tools, tmp_path)
    rows = [*show.by_xid(found, 6), *show.by_xid(found, 7)]
    _write(found, rows, tools, tmp_path / "two.pcapng")
    _check(found, rows, _times(tmp_path / "two.pcapng", tools))
    (first, *_) = _shown(tmp_path / "two.pcapng", tools, "frame.comment")
    assert "READ 0x00000006 client call;" in first[0]
    assert "READ 0x00000007 client call;" in first[0]


@pytest.mark.parametrize("host", [pytest.param("10.0.0.{}", marks=pytest.mark.long), "fd00::{}"])
def test_datagrams_in_fragments_are_found(tools: Tools, tmp_path: Path, host: str) -> None:
    """IP fragments have no ports: those of one datagram belong to the op, those of another do not."""
    udp = wire.Udp(client=(host.format(1), 700), server=(host.format(2), 2049))
    udp.send(0, ">", wire.read(1, 0, 4000))
    udp.send(0.05, ">", wire.read(2, 0, 4000))
    for sent, xid in ((5, 1), (5.05, 2)):
        udp.send(sent, "<", wire.reply(xid, wire.read3(4000)), mtu=1500)
    for side in ("client", "server"):
        wire.write_pcap(tmp_path / f"{side}.pcap", sorted(udp.seen_by(side), key=lambda seen: seen.t_ns))
    found = _correlate(tmp_path / "server.pcap", tmp_path / "client.pcap", tools, tmp_path)
    rows = show.by_xid(found, 2)
    (one,) = _write(found, rows, tools, tmp_path / "one.pcapng")
    _check(found, rows, _times(tmp_path / "one.pcapng", tools))
    assert one.packets == {"client": 4, "server": 4}


@pytest.mark.long
def test_tshark_measures_the_same_on_one_interface(tools: Tools, tmp_path: Path) -> None:
    """With the packets of one interface tshark's own response times are the report's, as `--srt tshark` has them."""
    folder = ROOT / "samples" / "server-threads"
    found = _correlate(folder / "server.pcap.gz", folder / "client.pcap.gz", tools, tmp_path)
    rows = show.slowest_ops(found, 10)
    _write(found, rows, tools, tmp_path / "worst.pcapng")
    for side, of_side in (("client", found.matched.client), ("server", found.matched.server)):
        only = ["-Y", f'frame.interface_name == "{side}"']
        alone = str(tmp_path / f"{side}-alone.pcapng")
        subprocess.run(
            [tools.tshark, "-n", "-r", str(tmp_path / "worst.pcapng"), *only, "-w", alone],
            capture_output=True,
            check=True,
            env=tools.environment,
        )
        shown = _shown(Path(alone), tools, "rpc.xid", "rpc.time", options=["-Y", "rpc.time"])
        ops = getattr(found, side).ops
        expected = {
            f"0x{ops.xid[row]:08x}": int(ops.shown_reply_ns[row] - ops.shown_call_ns[row])
            for row in of_side[rows].tolist()
        }
        assert {xid: nanoseconds(time) for xid, time in shown} == expected


@pytest.mark.parametrize(("ops", "a_run"), [(20, 16), pytest.param(800, None, marks=pytest.mark.long)])
def test_a_long_selection_takes_several_runs(
    tools: Tools, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, ops: int, a_run: int | None
) -> None:
    """More ranges than editcap takes at once: every op is there all the same, in the order that was asked for."""
    if a_run:
        monkeypatch.setattr(packets, "_RANGES_A_RUN", a_run)
    tcp = wire.Tcp()
    for xid in range(1, ops + 1):
        tcp.send(xid * 2, ">", wire.getattr3(xid))
        tcp.ack(xid * 2 + 0.2, "<")
        tcp.send(xid * 2 + 0.5, "<", wire.reply(xid, wire.GETATTR3))
        tcp.ack(xid * 2 + 0.7, ">")
    for side in ("client", "server"):
        wire.write_pcap(tmp_path / f"{side}.pcap", tcp.seen_by(side))
    found = _correlate(tmp_path / "server.pcap", tmp_path / "client.pcap", tools, tmp_path)
    rows = random.Random(1).sample(range(ops), ops * 3 // 4)
    written = _write(found, rows, tools, tmp_path / "many.pcapng")
    assert [one.row for one in written] == rows
    _check(found, rows, _times(tmp_path / "many.pcapng", tools))


def test_a_set_of_files_names_the_frames_of_each(tools: Tools, tmp_path: Path) -> None:
    """An op whose call and reply stand in two files of a set is found in both, by their own numbers."""
    folder = ROOT / "samples" / "server-threads"
    for side in ("server", "client"):
        subprocess.run(
            [tools.editcap, "-c", "500", str(folder / f"{side}.pcap.gz"), str(tmp_path / f"{side}.pcap")],
            check=True,
            capture_output=True,
            env=tools.environment,
        )
    found = _correlate(str(tmp_path / "server_*"), str(tmp_path / "client_*"), tools, tmp_path)
    rows = show.slowest_ops(found, 10)
    _write(found, rows, tools, tmp_path / "worst.pcapng")
    shown = _shown(tmp_path / "worst.pcapng", tools, "frame.interface_name", "frame.time_epoch", "frame.comment")
    times = {}
    for side, time, comment in shown:
        named = re.search(r"frame (\d+) of (\S+)$", comment)
        assert named is not None
        files = [Path(file.name).name for file in getattr(found, side).source.files]
        before = sum(file.packets for file in getattr(found, side).source.files[: files.index(named[2])])
        times[side, before + int(named[1])] = nanoseconds(time)
    _check(found, rows, times)


# --- The command ------------------------------------------------------------------------------------------------------


@pytest.fixture
def pair(monkeypatch: pytest.MonkeyPatch, tools: Tools) -> list[str]:
    """A pair of captures; Wireshark's tools are those of all tests."""
    monkeypatch.setattr("nfslat.decode.workspace.find_tools", lambda scratch: tools)
    return [str(ROOT / "samples" / "client-slots" / f"{side}.pcap.gz") for side in ("server", "client")]


def test_the_command_says_what_it_wrote(
    pair: list[str], tools: Tools, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """One line of text, and in JSON each op with its times and how many packets there are of it."""
    out, told = tmp_path / "worst.pcapng", tmp_path / "told.json"
    found = _correlate(*pair, tools, tmp_path)
    xids = [f"0x{found.client.ops.xid[found.matched.client[row]]:08x}" for row in show.slowest_ops(found, 2)]
    assert cli.main(["extract", *pair, "--xid", xids[1], "--xid", xids[0], "--out", str(out), "--json", str(told)]) == 0
    text, said = capsys.readouterr()
    assert said == ""
    assert re.fullmatch(rf"{out}: 2 ops, \d+ packets at the client, \d+ at the server\n", text)
    ops = json.loads(told.read_text())["ops"]
    assert [op["xid"] for op in ops] == xids[::-1]
    assert ops[0]["client_ms"] <= ops[1]["client_ms"]


def test_more_ops_than_there_are_is_all_of_them(
    pair: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A number that is too large is no error."""
    options = ["--op", "FSINFO,PATHCONF,FSSTAT,GETATTR,ACCESS", "--slowest", "100000"]
    assert cli.main(["extract", *pair, *options, "--out", str(tmp_path / "all.pcapng")]) == 0
    assert re.search(r": \d+ ops", capsys.readouterr().out)


@pytest.mark.parametrize(
    ("options", "status", "says"),
    [
        (["--xid", "0x12345678", "--out", "x.pcapng"], 3, "in neither capture"),
        (["--slowest", "0", "--out", "x.pcapng"], 2, "'0': give a whole number"),
        (["--slowest", "1"], 2, "--out"),
        (["--slowest", "1", "--out", "x", "--json", "x"], 2, "cannot both go to x"),
    ],
)
def test_what_makes_no_sense_is_one_line(
    pair: list[str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    options: list[str],
    status: int,
    says: str,
) -> None:
    """No traceback, and no file."""
    monkeypatch.chdir(tmp_path)
    assert cli.main(["extract", *pair, *options]) == status
    out, said = capsys.readouterr()
    assert out == ""
    assert says in said
    assert said.count("\n") == 1
    assert list(tmp_path.iterdir()) == []


@given(st.lists(st.tuples(st.integers(1, 60), st.integers(0, 9)), max_size=20))
def test_ranges_are_joined_without_loss(spans: list[tuple[int, int]]) -> None:
    """The same numbers, in order, with a gap between any two ranges."""
    ranges = [(first, first + more) for first, more in spans]
    joined = join(ranges)
    assert {n for a, b in ranges for n in range(a, b + 1)} == {n for a, b in joined for n in range(a, b + 1)}
    assert all(one[1] + 1 < two[0] for one, two in pairwise(joined))
