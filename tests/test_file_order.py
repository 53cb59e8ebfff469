"""Files that are no clean capture of one host -> what was on the wire: records out of order, files that overlap or lack
one, zeros at the end, the packets of two hosts in one file, archives, datagrams that lack a fragment."""

from __future__ import annotations

import dataclasses
import io
import json
import random
import tarfile
import zipfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import wire

import nfslat
from nfslat.cli import main as cli
from nfslat.errors import InputError

OPS, STEP_MS, SERVER_MS = 240, 5.0, 2.0
_MS = 1_000_000
Report = dict[str, Any]


def _traffic(ops: int = OPS, *, stamps_hz: int = 1000) -> wire.Tcp:
    """READs one after the other; both ends acknowledge what comes."""
    tcp = wire.Tcp(stamps_hz=stamps_hz)
    tcp.syn(0)
    for n in range(ops):
        at = 10 + STEP_MS * n
        tcp.send(at, ">", wire.read(n + 1, 4096 * n, 4096))
        tcp.ack(at + 0.3, "<")
        tcp.send(at + SERVER_MS, "<", wire.reply(n + 1, wire.read3(4096)), cut=(1448, 1448))
        tcp.ack(at + SERVER_MS + 0.5, ">")
    return tcp


def _pair(folder: Path, traffic: wire.Tcp | wire.Udp, **of_server: Any) -> tuple[Path, Path]:
    server = wire.write_pcap(folder / "server.pcap", traffic.seen_by("server", **of_server))
    return server, wire.write_pcap(folder / "client.pcap", traffic.seen_by("client"))


def _in_turns(seen: Sequence[wire.Seen], queue_of: Callable[[int, wire.Seen], int], turn_ms: float) -> list[wire.Seen]:
    """As a host writes the packets of several queues, each for so long a turn."""
    ordered = sorted(seen, key=lambda one: one.t_ns)
    begin = ordered[0].t_ns
    queues = {id(one): queue_of(number, one) for number, one in enumerate(ordered)}
    return sorted(ordered, key=lambda one: ((one.t_ns - begin) // round(turn_ms * _MS), queues[id(one)], one.t_ns))


def _report(*arguments: object) -> Report:
    """What `nfslat` says of captures."""
    captures = [str(argument) for argument in arguments]
    found = nfslat.correlate(*captures) if len(captures) == 2 else nfslat.inspect(captures[0])
    out = io.StringIO()
    found.write_json(out)
    report: Report = json.loads(out.getvalue())
    return report


def _codes(report: Report, side: str) -> dict[str, int]:
    return {note["code"]: note["count"] for note in report["captures"][side]["audit"]}


def _findings(report: Report) -> set[str]:
    return {finding["code"] for finding in report["findings"]}


# --- Records out of order ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("turn_ms", [0.5, 12, 60])
@pytest.mark.parametrize(
    "queue_of",
    [
        lambda _, one: one.frame[26:30],  # one for each direction
        lambda number, _: number % 4,
        lambda number, _: random.Random(number).random(),
    ],
    ids=["by direction", "four queues", "at random"],
)
def test_queues_that_are_written_in_turns(queue_of: Callable[..., int], turn_ms: float, tmp_path: Path) -> None:
    """Packets of several queues stand up to 60 ms behind later ones. Nothing is lost or reordered for that, and no
    figure differs from that of a sorted file."""
    server, client = _pair(tmp_path, _traffic())
    want = _report(server, client)
    seen = _in_turns(_traffic().seen_by("server"), queue_of, turn_ms)
    wire.write_pcap(server, seen, as_given=True)
    report = _report(server, client)
    assert report["matched"] == want["matched"]
    assert _findings(report) == _findings(want)
    assert set(_codes(report, "server")) - {"capture-sorted"} == set(_codes(want, "server"))
    assert _codes(report, "server")["capture-sorted"] > 0


def test_frames_keep_the_numbers_that_they_have_in_the_file(tmp_path: Path) -> None:
    """An op's frames are where its packets stand in the file, in whatever order they were read."""
    seen = _in_turns(_traffic(40).seen_by("server"), lambda number, _: number % 3, 8)
    server, client = _pair(tmp_path, _traffic(40))
    wire.write_pcap(server, seen, as_given=True)
    out = io.StringIO()
    nfslat.correlate(str(server), str(client)).write_csv(out)
    head, *rows = (line.split(",") for line in out.getvalue().splitlines())
    for row in rows:
        cells = dict(zip(head, row, strict=True))
        frame = int(cells["server_call_first_frame"])
        assert int(cells["server_t0_ns"]) == seen[frame - 1].t_ns // 1000 * 1000
        assert seen[frame - 1].frame[66:].startswith(b"\x80"), "the record mark of a call"


def test_transport_of_a_file_out_of_order(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """TCP lost, repeated and reordered nothing; that records were put in order is said."""
    seen = _in_turns(_traffic().seen_by("server"), lambda _, one: one.frame[26:30], 12)
    path = wire.write_pcap(tmp_path / "server.pcap", seen, as_given=True)
    assert cli.main(["transport", str(path)]) == 0
    out = " ".join(capsys.readouterr().out.split())
    assert "Retransmitted: 0 packets; out of order: 0." in out
    assert "stood behind later ones in the file" in out
    assert f"{OPS} turns" in out


@pytest.mark.parametrize("back_ms", [30, 95, 400, 5000])
def test_a_clock_that_is_set_back_is_no_disorder(back_ms: int, tmp_path: Path) -> None:
    """However little it is set: packets stay as they stand, so that nothing seems to be lost or repeated."""
    traffic = _traffic()
    server, client = _pair(tmp_path, traffic)
    ordered = sorted(traffic.seen_by("server"), key=lambda one: one.t_ns)
    half = len(ordered) // 2
    later = [dataclasses.replace(one, t_ns=one.t_ns - back_ms * _MS) for one in ordered[half:]]
    wire.write_pcap(server, ordered[:half], later, as_given=True)
    report = _report(server, client)
    codes = _codes(report, "server")
    assert "capture-sorted" not in codes
    assert "capture-drops" not in codes
    assert "net-loss" not in _findings(report)
    assert report["matched"]["ops"] + report["matched"]["untimed"] >= OPS - 1


# --- Files of a set ---------------------------------------------------------------------------------------------------


def _cut(seen: Sequence[wire.Seen], *borders: tuple[float, float]) -> list[list[wire.Seen]]:
    """What was seen within these shares of the time, each."""
    ordered = sorted(seen, key=lambda one: one.t_ns)
    count = len(ordered)
    return [ordered[int(begin * count) : int(end * count)] for begin, end in borders]


@pytest.mark.parametrize(
    "borders",
    [
        ((0, 0.4), (0.4, 0.7), (0.4, 0.7), (0.7, 1)),  # one is there twice
        ((0, 0.5), (0.3, 0.8), (0.6, 1)),  # each goes on after the next one began
        ((0, 1), (0.2, 0.4)),  # a part beside the whole
        ((0, 1), (0, 1)),
    ],
)
def test_files_that_overlap_hold_copies(borders: Sequence[tuple[float, float]], tmp_path: Path) -> None:
    """What is in two files was sent once."""
    traffic = _traffic()
    server, client = _pair(tmp_path, traffic)
    want = _report(server, client)
    parts = _cut(traffic.seen_by("server"), *borders)
    names = [str(wire.write_pcap(tmp_path / f"part{n}.pcap", part)) for n, part in enumerate(parts)]
    report = _report(",".join(names), client)
    assert report["matched"] == want["matched"]
    assert _findings(report) == _findings(want)
    assert {"files-overlap", "capture-duplicates"} <= set(_codes(report, "server"))


def test_a_file_that_is_missing_of_a_set(tmp_path: Path) -> None:
    """A time without packets between two files, while TCP went on: no capture host that drops, and no larger buffer."""
    traffic = _traffic(800)
    _, client = _pair(tmp_path, traffic)
    parts = _cut(traffic.seen_by("server"), (0, 0.3), (0.3, 0.6), (0.6, 1))
    names = [str(wire.write_pcap(tmp_path / f"ring.pcap{n}", parts[n])) for n in (0, 2)]
    found = nfslat.correlate(",".join(names), str(client))
    codes = _codes(_report(",".join(names), client), "server")
    assert codes["files-missing"] == 1
    assert "capture-drops" not in codes
    text = " ".join(found.text().split())
    assert "between ring.pcap0 and ring.pcap2" in text
    assert "-B" not in text
    whole = [str(wire.write_pcap(tmp_path / f"ring.pcap{n}", part)) for n, part in enumerate(parts)]
    assert "files-missing" not in _codes(_report(",".join(whole), client), "server")


def test_a_pause_between_two_files_is_no_file_that_is_missing(tmp_path: Path) -> None:
    """Nobody asked for anything in the meantime, and numbers go on."""
    tcp = wire.Tcp()
    for n in range(200):
        at = 10 + 5 * n + (3000 if n >= 100 else 0)
        tcp.send(at, ">", wire.read(n + 1, 4096 * n, 4096))
        tcp.send(at + 2, "<", wire.reply(n + 1, wire.read3(4096)))
    _, client = _pair(tmp_path, tcp)
    parts = _cut(tcp.seen_by("server"), (0, 0.5), (0.5, 1))
    names = [str(wire.write_pcap(tmp_path / f"ring.pcap{n}", part)) for n, part in enumerate(parts)]
    assert "files-missing" not in _codes(_report(",".join(names), client), "server")


def test_zeros_at_the_end_of_a_file_are_its_end(tmp_path: Path) -> None:
    """As a crash leaves them: the file is cut short, and no clock was set."""
    server, client = _pair(tmp_path, _traffic())
    server.write_bytes(server.read_bytes() + bytes(65_536))
    report = _report(server, client)
    assert report["matched"]["ops"] == OPS
    assert {"capture-cut-short"} == set(_codes(report, "server")) - set(_codes(report, "client"))


# --- Two hosts in one file --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("theta_ms", [3000, -3000, 40, -700_000])
def test_the_captures_of_both_hosts_in_one_file(theta_ms: float, tmp_path: Path) -> None:
    """Merged, with clocks that differ: nothing was lost or sent again. They are taken apart, and compared."""
    traffic = _traffic()
    server, client = _pair(tmp_path, traffic, theta_ms=theta_ms)
    want = _report(server, client)
    merged = wire.write_pcap(
        tmp_path / "merged.pcap", traffic.seen_by("server", theta_ms=theta_ms), traffic.seen_by("client")
    )
    text = " ".join(nfslat.inspect(str(merged)).text().split())
    report = _report(merged)
    for name in ("client_ms", "server_ms", "network_ms"):
        assert report["matched"]["total"][name]["mean"] == pytest.approx(
            want["matched"]["total"][name]["mean"], abs=1e-3
        )
    assert report["matched"]["ops"] == OPS
    assert _findings(report) == _findings(want)
    assert "holds the captures of two hosts" in text


def test_transport_of_the_captures_of_both_hosts_in_one_file(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """As of two captures: nothing is lost, and how long the way takes is known."""
    traffic = _traffic()
    seen = traffic.seen_by("server", theta_ms=3000), traffic.seen_by("client")
    assert cli.main(["transport", str(wire.write_pcap(tmp_path / "merged.pcap", *seen))]) == 0
    out = " ".join(capsys.readouterr().out.split())
    assert "Retransmitted: 0 packets" in out
    assert "Between the two captures" in out
    assert "holds the captures of two hosts" in out


@pytest.mark.parametrize("command", [["fleet"], ["live", "--interval", "1"]])
def test_what_reads_no_file_twice_says_that_two_hosts_are_in_one(
    command: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A fleet and live do not take them apart, nor say that packets are lost; of one host there is no such word."""
    seen = _traffic().seen_by("server", theta_ms=700), _traffic().seen_by("client")
    capture = str(wire.write_pcap(tmp_path / "merged.pcap", *seen))
    assert cli.main([*command, capture]) != 0
    assert "holds the captures of two hosts" in " ".join(capsys.readouterr().err.split())
    assert cli.main([*command, str(wire.write_pcap(tmp_path / "client.pcap", seen[1]))]) == 0


def test_a_capture_of_two_hosts_beside_another_one_is_refused(tmp_path: Path) -> None:
    """Which of its halves is meant nobody knows."""
    traffic = _traffic()
    _, client = _pair(tmp_path, traffic)
    seen = traffic.seen_by("server", theta_ms=3000), traffic.seen_by("client")
    merged = wire.write_pcap(tmp_path / "merged.pcap", *seen)
    with pytest.raises(InputError, match=r"[;:] give (this file alone|the one taken on the server)"):
        nfslat.correlate(str(merged), str(client))


def test_the_same_packets_twice_in_one_file(tmp_path: Path) -> None:
    """One file behind itself, as `mergecap -a` makes it: each packet counts once."""
    traffic = _traffic()
    server, client = _pair(tmp_path, traffic)
    want = _report(server, client)
    once = sorted(traffic.seen_by("server"), key=lambda one: one.t_ns)
    wire.write_pcap(server, once, once, as_given=True)
    assert _report(server, client)["matched"] == want["matched"]


@pytest.mark.parametrize("counts", [True, False])
def test_a_path_that_loses_much_is_no_second_host(counts: bool, tmp_path: Path) -> None:
    """What TCP sends again has a number of its own, or none: every second reply is sent twice, 200 ms apart."""
    tcp = wire.Tcp(counts=counts, stamps_hz=1000)
    for n in range(200):
        at = 10 + 300 * n
        tcp.send(at, ">", wire.read(n + 1, 512 * n, 512))
        reply = tcp.send(at + 2, "<", wire.reply(n + 1, wire.read3(512)))
        if n % 2:
            tcp.again(at + 202, *reply)
        tcp.ack(at + 203, ">")
    _, client = _pair(tmp_path, tcp)
    assert "two hosts" not in " ".join(nfslat.inspect(str(client)).text().split())


# --- Archives ---------------------------------------------------------------------------------------------------------


def _zipped(folder: Path, *captures: Path) -> Path:
    path = folder / "captures.zip"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("README.txt", "what was done")
        for capture in captures:
            archive.write(capture, f"case-17/{capture.name}")
    return path


def _tarred(folder: Path, *captures: Path) -> Path:
    path = folder / "captures.tgz"
    with tarfile.open(path, "w:gz") as archive:
        for capture in captures:
            archive.add(capture, f"./case-17/{capture.name}")
    return path


@pytest.mark.parametrize("pack", [_zipped, _tarred])
def test_an_archive_of_a_capture_is_read(pack: Callable[..., Path], tmp_path: Path) -> None:
    """As bug trackers ask for it, with other files beside it, in folders."""
    server, client = _pair(tmp_path, _traffic())
    want = _report(server, client)
    assert _report(pack(tmp_path, server), client)["matched"] == want["matched"]


@pytest.mark.parametrize("pack", [_zipped, _tarred])
def test_an_archive_of_a_ring_is_a_set(pack: Callable[..., Path], tmp_path: Path) -> None:
    """Files that are numbered."""
    traffic = _traffic()
    server, client = _pair(tmp_path, traffic)
    want = _report(server, client)
    parts = _cut(traffic.seen_by("server"), (0, 0.5), (0.5, 1))
    files = [wire.write_pcap(tmp_path / f"ring_0000{n}_20260101.pcap", part) for n, part in enumerate(parts)]
    assert _report(pack(tmp_path, *files), client)["matched"] == want["matched"]


@pytest.mark.parametrize("pack", [_zipped, _tarred])
def test_an_archive_of_several_captures_says_what_to_do(pack: Callable[..., Path], tmp_path: Path) -> None:
    """Which of them is meant nobody knows."""
    server, client = _pair(tmp_path, _traffic())
    with pytest.raises(InputError, match=r"holds 2 captures \(.*unpack it, and name"):
        nfslat.correlate(str(pack(tmp_path, server, client)), str(client))


def test_a_zip_that_is_no_capture_is_refused(tmp_path: Path) -> None:
    """Without a capture, damaged, or so small for what it holds that nobody packs a capture so."""
    _, client = _pair(tmp_path, _traffic())
    path = tmp_path / "captures.zip"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("notes.txt", "nothing")
    with pytest.raises(InputError, match="a zip without a capture"):
        nfslat.correlate(str(path), str(client))
    whole = _zipped(tmp_path, client).read_bytes()
    path.write_bytes(whole[: len(whole) // 2])
    with pytest.raises(InputError, match="is damaged"):
        nfslat.correlate(str(path), str(client))


def test_members_of_a_zip_stay_in_the_folder_that_is_meant_for_them(tmp_path: Path) -> None:
    """Whatever their names say."""
    from nfslat.decode.bundle import unpack

    _, client = _pair(tmp_path, _traffic(3))
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    path = tmp_path / "captures.zip"
    for name in ("../../escaped.pcap", "/etc/escaped.pcap", "..\\escaped.pcap", ".."):
        with zipfile.ZipFile(path, "w") as archive:
            archive.writestr(name, client.read_bytes())
        (found,), _ = unpack("captures.zip", path, scratch)
        assert found.resolve().is_relative_to(scratch.resolve())


# --- What is not read -------------------------------------------------------------------------------------------------


def test_nfs_over_rdma_is_named(tmp_path: Path) -> None:
    """RoCEv2: what is in its way, and no engine that would not help."""
    udp = wire.Udp(client=("10.0.0.1", 49_152), server=("10.0.0.2", 4791))
    for n in range(50):
        udp.send(n, ">", bytes.fromhex("0440ffff00000011") + bytes(40) + wire.read(n + 1)[:64])
    path = wire.write_pcap(tmp_path / "roce.pcap", udp.seen_by("client"))
    with pytest.raises(InputError, match="NFS over RDMA") as told:
        nfslat.inspect(str(path))
    assert "--engine" not in str(told.value)


def test_tls_on_the_port_of_nfs_is_named(tmp_path: Path) -> None:
    """Where the capture began behind the probe that asks for it."""
    tcp = wire.Tcp()
    for n in range(50):
        for way in "><":
            tcp.send(2 * n, way, wire.Framed(b"\x17\x03\x03\x00\x40" + random.Random(n).randbytes(64)))
    path = wire.write_pcap(tmp_path / "tls.pcap", tcp.seen_by("client"))
    with pytest.raises(InputError, match=r"encrypted \(TLS records on port 2049"):
        nfslat.inspect(str(path))


# --- Datagrams --------------------------------------------------------------------------------------------------------


def _over_udp(lost: int, *, again_ms: float = 1100) -> tuple[wire.Udp, list[wire.Packet]]:
    """READs of 16 KB, of which every tenth one's reply loses a fragment (the first or a later one) after the server."""
    udp, gone = wire.Udp(), []
    at = 0.0
    for n in range(200):
        udp.send(at, ">", wire.read(n + 1, 16_384 * n, 16_384))
        reply = wire.reply(n + 1, wire.read3(16_384))
        parts = udp.send(at + 1, "<", reply, mtu=1480)
        if n % 10 == 3:
            gone.append(parts[lost])
            udp.send(at + again_ms, ">", wire.read(n + 1, 16_384 * n, 16_384))
            udp.send(at + again_ms + 1, "<", reply, mtu=1480)
            at += again_ms
        at += 10
    return udp, gone


@pytest.mark.parametrize("lost", [5, 11])
@pytest.mark.parametrize("captures", ["both", "client"])
def test_datagrams_that_lose_fragments(captures: str, lost: int, tmp_path: Path) -> None:
    """The server answered in time; the path lost a fragment, and RPC sent the call again. From two captures and from
    one it is loss on the way, with how many datagrams came incomplete, and TCP as the way out."""
    udp, gone = _over_udp(lost)
    server = wire.write_pcap(tmp_path / "server.pcap", udp.seen_by("server"))
    client = wire.write_pcap(tmp_path / "client.pcap", udp.seen_by("client", without=gone))
    report = _report(server, client) if captures == "both" else _report(client)
    assert report["verdict"]["layer"] == "network"
    (finding,) = (one for one in report["findings"] if one["code"] == "net-loss")
    assert finding["evidence"]["incomplete_datagrams"] == len(gone) == 20
    assert finding["share"] == pytest.approx(1.1 / (1.1 + 0.0115), abs=0.2)
    assert "proto=tcp" in " ".join(finding["advice"]["how"])


def test_fragments_that_the_filter_left_out_are_no_loss(tmp_path: Path) -> None:
    """'port 2049' sees the first fragment of each datagram only, and nothing is sent again for that."""
    udp, _ = _over_udp(1, again_ms=0.0)
    seen = [one for one in udp.seen_by("client") if not int.from_bytes(one.frame[20:22], "big") & 0x1FFF]
    path = wire.write_pcap(tmp_path / "client.pcap", seen)
    with pytest.raises(InputError, match="no call with its reply"):
        _report(path)


def test_what_lies_where_in_a_set_that_was_read_together(tmp_path: Path) -> None:
    """Each packet is found in its own file, by its number there."""
    from nfslat.decode.engine import choose
    from nfslat.decode.tools import find_tools

    seen = _cut(_traffic().seen_by("client"), (0, 0.6), (0.4, 1))
    paths = [wire.write_pcap(tmp_path / f"{n}.pcap", part) for n, part in enumerate(seen)]
    engine = choose("native", lambda: find_tools(tmp_path), tmp_path, rereads=False)
    source, decoded = engine.decode(engine.open(",".join(map(str, paths))), lambda _: None)
    for row in range(0, len(decoded.ops), 7):
        file, number = source.locate(int(decoded.ops.call_first_frame[row]))
        part = seen[paths.index(file.path)]
        assert decoded.ops.t0[row] == part[number - 1].t_ns // 1000 * 1000
    numbers = source.numbered(np.arange(1, source.packets + 1, dtype=np.int32))
    assert sorted(numbers.tolist()) == list(range(1, source.packets + 1))
