"""Every way to give nfslat bad input: one line that says what to do, the right exit status, never a traceback."""

from __future__ import annotations

import bz2
import dataclasses
import gzip
import io
import lzma
import os
import pickle
import random
import shutil
import stat
import struct
import subprocess
import sys
import zlib
from pathlib import Path

import pytest
import wire
from captures import SHARED, needs_captures

from nfslat.cli import main as cli
from nfslat.decode import room
from nfslat.decode.tools import find_tools
from nfslat.errors import InputError, NfslatError, NoPacketsError, ToolError, UsageError

pytestmark = pytest.mark.usefixtures("engine")

SAMPLES = Path(__file__).parents[1] / "samples"
SERVER = SAMPLES / "server-threads" / "server.pcap.gz"
CLIENT = SAMPLES / "server-threads" / "client.pcap.gz"


def _run(capsys: pytest.CaptureFixture[str], *arguments: object) -> tuple[int, str, str]:
    status = cli.main([str(argument) for argument in arguments])
    out, err = capsys.readouterr()
    return status, out, err


def _one_line(err: str) -> str:
    assert err.startswith("nfslat: ")
    assert err.count("\n") == 1
    assert "Traceback" not in err
    return err


def _pcap(path: Path, frames: list[bytes], *, linktype: int = 1) -> Path:
    """A microsecond pcap file, one frame a second."""
    out = struct.pack("<IHHiIII", 0xA1B2C3D4, 2, 4, 0, 0, 262144, linktype)
    for number, frame in enumerate(frames):
        out += struct.pack("<IIII", 1_700_000_000 + number, 0, len(frame), len(frame)) + frame
    path.write_bytes(out)
    return path


def _udp(payload: bytes, sport: int, dport: int) -> bytes:
    """An Ethernet frame with a UDP datagram between two documentation addresses; the IP identification tells it from
    others, and not from a copy of it."""
    udp = struct.pack(">HHHH", sport, dport, 8 + len(payload), 0) + payload
    ends = [bytes((192, 0, 2, 1)), bytes((192, 0, 2, 2))]
    src, dst = reversed(ends) if sport in (111, 2049) else ends  # what a server sends goes the other way
    ip = struct.pack(">BBHHHBBH4s4s", 0x45, 0, 20 + len(udp), zlib.crc32(payload) & 0xFFFF, 0, 64, 17, 0, src, dst)
    return bytes(12) + b"\x08\x00" + ip + udp


def _call(xid: int, program: int = 100003, procedure: int = 0, flavor: int = 0) -> bytes:
    return struct.pack(">IIIIIIIIII", xid, 0, 2, program, 3, procedure, flavor, 0, 0, 0)


def _reply(xid: int, verifier: bytes = b"") -> bytes:
    return struct.pack(">IIIII", xid, 1, 0, 0, len(verifier)) + verifier + bytes(4)


@pytest.mark.parametrize(
    ("arguments", "status", "said"),
    [
        (["no-such-file.pcap", CLIENT], 3, "no such file"),
        (["no-such-*.pcap", CLIENT], 3, "no file matches"),
        ([SAMPLES, CLIENT], 3, "is a directory"),
        (["/dev/null", CLIENT], 3, "neither a file nor a pipe"),
        ([__file__, CLIENT], 3, "not a capture"),
        ([SERVER, SERVER], 3, "is given twice"),
        (["-", "-"], 2, "only one of the two"),
        ([], 2, "SERVER"),
        ([SERVER, CLIENT, "third.pcap"], 2, "one too many"),
        ([SERVER, CLIENT, "--srt=wrong"], 2, "not one of"),
        ([SERVER, CLIENT, "--app-ms", "READ"], 2, "milliseconds"),
        ([SERVER, CLIENT, "--app-ms", "=5"], 2, "milliseconds"),
        ([SERVER, CLIENT, "--app-ms", "nan"], 2, "milliseconds"),
        ([SERVER, CLIENT, "--app-ms", "5", "--app-ms", "READ=5"], 2, "not both"),
        ([SERVER, CLIENT, "--start", "yesterday"], 2, "not understood"),
        ([SERVER, CLIENT, "--client-addr", "nfsclient"], 2, "not an IP address"),
        ([SERVER, CLIENT, "--port", "nfs"], 2, "from 1 to 65,535"),
        ([SERVER, CLIENT, "--port", "65536"], 2, "from 1 to 65,535"),
        ([SERVER, CLIENT, "--op", "RAED"], 2, "did you mean READ?"),
        ([SERVER, CLIENT, "--app-ms", "RAED=5"], 2, "did you mean READ?"),
        ([SERVER, CLIENT, "--start", "5", "--end", "4"], 2, "not before"),
        ([SERVER, CLIENT, "--json", "-", "--csv", "-"], 2, "both"),
        (["show", SERVER, CLIENT, "--slowest", "0"], 2, "give a whole number from 1"),
        (["show", SERVER, CLIENT, "--xid", "zz"], 2, "no XID"),
        ([SERVER, "--missed", "x.csv"], 2, "needs both captures"),
        ([SERVER, CLIENT, "--ops-parquet", "x"], 2, "give one capture"),
        ([SERVER, "--anonymize", "--ops-parquet", "x"], 2, "names included"),
        ([SERVER, CLIENT, "--sections", "raw", "--markdown"], 2, "--markdown replaces it"),
        ([SERVER, CLIENT, "--by", "colour"], 2, "not one of"),
        ([SERVER, CLIENT, "--interval", "0"], 2, "give seconds"),
        ([SERVER, CLIENT, "--slowest", "0"], 2, "give a whole number from 1"),
        ([SERVER, CLIENT, "--name-encoding", "klingon"], 2, "no code page"),
        ([SERVER, CLIENT, "--png", __file__], 2, "directory"),
        ([SERVER, CLIENT, "--html", SAMPLES], 3, "directory"),
        (["extract", SERVER, CLIENT, "--slowest", "1"], 2, "required"),
        (["show", SERVER, CLIENT], 2, "required"),
        (["show", SERVER, CLIENT, "--xid", "0x100000000"], 2, "no XID"),
        ([SERVER, CLIENT, "--csv", "no-such-folder/x.csv"], 3, "no-such-folder/x.csv"),
    ],
)
def test_bad_arguments_are_told_in_one_line(
    capsys: pytest.CaptureFixture[str], arguments: list[object], status: int, said: str
) -> None:
    """A wrong argument ends with its exit status and one line that names it."""
    got, out, err = _run(capsys, *arguments)
    assert (got, out) == (status, "")
    assert said in _one_line(err)


def test_a_file_without_read_permission(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    """An unreadable file is told as such (as root, who may read all, it is read)."""
    path = tmp_path / "server.pcap"
    shutil.copy(SERVER, path)
    path.chmod(0)
    if os.access(path, os.R_OK):
        assert stat.S_IMODE(path.stat().st_mode) == 0
        assert _run(capsys, path, CLIENT)[0] == 0
    else:
        status, _, err = _run(capsys, path, CLIENT)
        assert status == 3
        assert "permissions" in _one_line(err)


@pytest.mark.parametrize("content", [b"", struct.pack("<IHHiIII", 0xA1B2C3D4, 2, 4, 0, 0, 65535, 1)])
def test_an_empty_capture(capsys: pytest.CaptureFixture[str], tmp_path: Path, content: bytes) -> None:
    """Neither a file of no bytes nor a capture of no packets is mistaken for a short answer."""
    path = tmp_path / "empty.pcap"
    path.write_bytes(content)
    status, out, err = _run(capsys, path, CLIENT)
    assert (status, out) == (3, "")
    assert "empty" in _one_line(err) or "no packets" in err


def test_a_capture_cut_in_the_middle_is_read_as_far_as_it_goes(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    """A file that ends inside a packet gives a warning in the report, and the ops before its end."""
    whole = gzip.decompress(SERVER.read_bytes())
    path = tmp_path / "cut.pcap"
    path.write_bytes(whole[: len(whole) * 2 // 3])
    status, out, err = _run(capsys, path, CLIENT, "--full")
    assert (status, err) == (0, "")
    assert "capture-cut-short" in out
    assert "overlap only in part" in " ".join(out.split())


@pytest.mark.parametrize("suffix", ["gz", pytest.param("bz2", marks=pytest.mark.long), "xz"])
def test_a_compressed_capture_cut_in_the_middle(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, suffix: str
) -> None:
    """A compressed file whose end is missing is read as far as it goes, with the same warning."""
    path = tmp_path / f"cut.pcap.{suffix}"
    data = gzip.decompress(SERVER.read_bytes())
    # bzip2 in blocks of 100 kB, so that whole ones stand in front of the cut.
    packed = {"gz": gzip.compress(data), "bz2": bz2.compress(data, 1), "xz": lzma.compress(data)}[suffix]
    # xz: in chunks of 64 KiB, which the native engine decompresses as a whole (docs/engines.md).
    path.write_bytes(packed[: len(packed) * 19 // 20])
    status, out, err = _run(capsys, path, CLIENT)
    assert (status, err) == (0, "")
    assert "capture-cut-short" in out


def test_a_capture_without_nfs_says_what_is_in_it(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    """Without any RPC the top protocols are named, so that the wrong file is recognised."""
    query = struct.pack(">HHHHHH", 1, 0x100, 1, 0, 0, 0) + b"\x03nfs\x07example\x00" + struct.pack(">HH", 1, 1)
    path = _pcap(tmp_path / "dns.pcap", [_udp(query, 40000, 53)] * 3)
    status, out, err = _run(capsys, path, CLIENT)
    assert (status, out) == (3, "")
    assert "no NFS in it; it holds dns (3 packets)" in _one_line(err)


def test_a_capture_of_other_rpc_programs_names_them(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    """RPC that is not NFS is named by its program."""
    path = _pcap(tmp_path / "portmap.pcap", [_udp(_call(1, 100000), 700, 111), _udp(_reply(1), 111, 700)])
    status, _, err = _run(capsys, path)
    assert status == 3
    assert "PORTMAP" in _one_line(err)


def test_a_one_way_capture_says_so(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    """Calls without any reply come from a one-way filter or span port, which is said."""
    path = _pcap(tmp_path / "calls.pcap", [_udp(_call(n), 700, 2049) for n in range(5)])
    status, _, err = _run(capsys, path)
    assert status == 3
    assert "both directions" in _one_line(err)


def test_rpc_with_tls_is_told_from_plain_nfs(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    """A capture with only the AUTH_TLS probe and the server's consent in it (RFC 9289) is refused as encrypted."""
    frames = [_udp(_call(7, flavor=7), 700, 2049), _udp(_reply(7, b"STARTTLS"), 2049, 700)]
    status, _, err = _run(capsys, _pcap(tmp_path / "tls.pcap", frames))
    assert status == 3
    assert "RPC-with-TLS" in _one_line(err)


def test_captures_of_different_traffic_say_what_each_holds(capsys: pytest.CaptureFixture[str]) -> None:
    """With no op in common both captures' addresses and times are given."""
    status, out, err = _run(capsys, SERVER, SAMPLES / "packet-loss" / "client.pcap.gz")
    assert (status, out) == (3, "")
    line = _one_line(err)
    assert "10.77.0.2 calling 10.77.0.1 from 2026-" in line
    assert "in common" in line


def test_a_copy_of_the_same_capture_is_recognised(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    """A copy under another name has the same times in every op, which two taps never have."""
    copy = tmp_path / "copy.pcap.gz"
    shutil.copy(SERVER, copy)
    status, _, err = _run(capsys, SERVER, copy)
    assert status == 3
    assert "same packets with the same times" in _one_line(err)


def test_swapped_captures_are_swapped_back(capsys: pytest.CaptureFixture[str]) -> None:
    """Captures given client first give the same figures, with a note; --no-swap keeps the order."""
    _, right, _ = _run(capsys, SERVER, CLIENT)
    status, swapped, _ = _run(capsys, CLIENT, SERVER)
    assert status == 0
    assert "client first" in " ".join(swapped.split())
    assert swapped.splitlines()[0] == right.splitlines()[0]
    _, insisted, _ = _run(capsys, CLIENT, SERVER, "--no-swap")
    assert "client first" not in " ".join(insisted.split())
    assert insisted.splitlines()[0] != right.splitlines()[0]


def _tools_in(monkeypatch: pytest.MonkeyPatch, folder: Path, script: str | None) -> None:
    """Replace Wireshark's tools by `script`, or leave none at all in PATH."""
    monkeypatch.setattr("nfslat.decode.workspace.find_tools", find_tools)  # not those of all tests
    if script is None:
        monkeypatch.setenv("PATH", str(folder))
        return
    for name in ("tshark", "capinfos", "editcap", "mergecap"):
        path = folder / name
        path.write_text(f"#!/bin/sh\n{script}\n")
        path.chmod(0o755)
    monkeypatch.setenv("PATH", f"{folder}:{os.environ['PATH']}")


@pytest.mark.parametrize(
    ("script", "said"),
    [(None, "apt-get install tshark"), ("echo 'TShark (Wireshark) 2.6.20'", "2.6.20 is too old"), ("exit 1", "failed")],
    ids=["missing", "old", "broken"],
)
def test_without_a_good_tshark_it_is_said_what_is_wrong(
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    engine: str,
    script: str | None,
    said: str,
) -> None:
    """tshark missing, too old or broken is told in one line, with install commands, wherever it is needed: always by
    the engine tshark; by the native one for a format of Wireshark's and for ``show``, and else not at all."""
    foreign = tmp_path / "server.cap"
    subprocess.run(["editcap", "-F", "netmon2", SERVER, foreign], check=True)
    _tools_in(monkeypatch, tmp_path, script)
    status, out, err = _run(capsys, SERVER, CLIENT)
    if engine == "native":
        assert (status, err) == (0, "")
        assert out.startswith("Calls queue in the server for one of its 2 threads")
        status, out, err = _run(capsys, foreign, CLIENT)
        assert (status, out) == (3, "")
        assert said in _one_line(err)
        status, _, err = _run(capsys, "show", SERVER, CLIENT, "--slowest", "1")
    assert status == 3
    assert said in _one_line(err)


def test_garbage_behind_a_valid_header_ends_with_a_message(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    """A pcap header with random bytes behind it is refused or read as nothing, without a traceback."""
    path = tmp_path / "garbage.pcap"
    path.write_bytes(
        SERVER.read_bytes()[:0] + struct.pack("<IHHiIII", 0xA1B2C3D4, 2, 4, 0, 0, 65535, 1) + bytes(range(256)) * 64
    )
    status, out, err = _run(capsys, path, CLIENT)
    assert (status, out) == (3, "")
    _one_line(err)


def test_standard_input_that_is_empty(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """A pipe that brings nothing is told as such."""
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"")))
    status, _, err = _run(capsys, "-", CLIENT)
    assert status == 3
    assert "standard input" in _one_line(err)


def test_a_named_pipe_in_a_list_of_files(capsys: pytest.CaptureFixture[str], tmp_path: Path, engine: str) -> None:
    """A pipe cannot be put in order with files, and tshark cannot read one twice: both are refused, not waited for."""
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    for argument in [f"{pipe},{SERVER}", *([pipe] if engine == "tshark" else [])]:
        status, out, err = _run(capsys, argument, CLIENT)
        assert (status, out) == (3, "")
        assert "a named pipe" in _one_line(err)


def test_a_closed_pipe_is_no_error_message(engine: str) -> None:
    """``nfslat ... | head -1`` ends quietly."""
    with subprocess.Popen(
        [sys.executable, "-m", "nfslat", SERVER, CLIENT, "--engine", engine],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    ) as nfslat:
        assert nfslat.stdout is not None
        assert nfslat.stderr is not None
        nfslat.stdout.close()  # before it prints anything
        assert nfslat.stderr.read() == b""


def test_no_scratch_file_is_left_behind(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Decompressed copies and Wireshark's empty configuration are gone at the end, also after an error."""
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(scratch))
    monkeypatch.setattr("nfslat.decode.workspace.find_tools", find_tools)  # with an empty configuration for this run
    assert _run(capsys, SERVER, CLIENT)[0] == 0
    assert _run(capsys, SERVER, __file__)[0] == 3
    assert list(scratch.iterdir()) == []


@pytest.mark.parametrize("option", ["--json", "--csv"])
def test_an_output_never_destroys_a_capture(capsys: pytest.CaptureFixture[str], tmp_path: Path, option: str) -> None:
    """Neither a capture of this run nor any other file that nfslat did not write is written over."""
    server, client, other = (tmp_path / name for name in ("s.pcap.gz", "c.pcap.gz", "other.pcap"))
    shutil.copy(SERVER, server)
    shutil.copy(CLIENT, client)
    other.write_bytes(b"evidence")
    for target, said in ((client, "one of the captures"), (other, "was not written by nfslat")):
        before = target.read_bytes()
        status, out, err = _run(capsys, server, client, option, target)
        assert (status, out) == (2, "")
        assert said in _one_line(err)
        assert target.read_bytes() == before


def test_an_error_leaves_an_older_report_as_it_was(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    """A report appears under its name when it is complete; a run that fails leaves the older one, and no other file."""
    report = tmp_path / "report.json"
    assert _run(capsys, SERVER, CLIENT, "--json", report)[0] == 0
    first = report.read_bytes()
    assert _run(capsys, SERVER, "no-such-file", "--json", report)[0] == 3
    assert report.read_bytes() == first
    assert _run(capsys, SERVER, CLIENT, "--json", report)[0] == 0
    assert [path.name for path in tmp_path.iterdir()] == ["report.json"]


@pytest.mark.parametrize("seed", range(12))
def test_damaged_captures_end_with_an_answer_or_a_line(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, seed: int
) -> None:
    """Random bytes changed anywhere behind the file header: a report or one line, never a traceback."""
    chance = random.Random(seed)
    data = bytearray(gzip.decompress((SAMPLES / "packet-loss" / "server.pcap.gz").read_bytes())[:400_000])
    for _ in range(chance.choice((5, 50, 500))):
        data[chance.randrange(24, len(data))] = chance.randrange(256)
    path = tmp_path / "damaged.pcap"
    path.write_bytes(data)
    status, out, err = _run(capsys, path, SAMPLES / "packet-loss" / "client.pcap.gz")
    assert status in (0, 3)
    assert err == "" if status == 0 else _one_line(err)
    assert status == 0 or out == ""


def _records(packets: list[tuple[bytes, int]]) -> bytes:
    """Packets with headers cut from `data`, changed on purpose."""
    out = struct.pack("<IHHiIII", 0xA1B2C3D4, 2, 4, 0, 0, 262144, 1)
    for frame, seconds in packets:
        out += struct.pack("<IIII", seconds, 0, len(frame), len(frame)) + frame
    return out


def test_packets_that_make_no_sense_are_counted_not_crashed_on(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    """A TCP header without room for itself, a procedure beyond 2^31, an offset beyond 2^63: all are read past."""
    good = [(_udp(_call(n), 700, 2049), n) for n in (1, 2)] + [(_udp(_reply(n), 2049, 700), n) for n in (1, 2)]
    broken_tcp = bytearray(_udp(bytes(40), 700, 2049))
    broken_tcp[23] = 6  # TCP by its number, with a data offset of 0
    wild = [(bytes(broken_tcp), 3)]
    for number, procedure in enumerate((0x80000000, 0xFFFFFFF0)):
        wild += [
            (_udp(_call(10 + number, procedure=procedure), 700, 2049), 4),
            (_udp(_reply(10 + number), 2049, 700), 5),
        ]
    read = _call(20, procedure=6) + struct.pack(">I8sQI", 8, bytes(8), (1 << 64) - 4096, 8192)
    wild += [(_udp(read, 700, 2049), 6), (_udp(_reply(20), 2049, 700), 7)]
    path = tmp_path / "wild.pcap"
    path.write_bytes(_records(good + wild))
    status, out, err = _run(capsys, path)
    assert (status, err) == (0, "")
    assert "READ" in out
    assert "PROC4294967280" in out


def test_damage_in_the_middle_leaves_what_stands_in_front_of_it(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    """A record of an impossible length: the packets in front of it are read, and the report says so."""
    data = gzip.decompress(SERVER.read_bytes())
    path = tmp_path / "damaged.pcap"
    path.write_bytes(data + struct.pack("<IIII", 1, 1, 1 << 31, 1 << 31) + bytes(64))
    status, out, err = _run(capsys, path, CLIENT)
    assert (status, err) == (0, "")
    assert "capture-cut-short" in out
    assert out.startswith("Calls queue in the server for one of its 2 threads")


def test_captures_cut_in_front_of_the_rpc_header(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    """A snaplen of 60 bytes leaves no RPC: the snaplen is named, not the interface."""
    path = tmp_path / "short.pcap"
    subprocess.run(["editcap", "-s", "60", SERVER, path], check=True)
    status, _, err = _run(capsys, path, CLIENT)
    assert status == 3
    assert "cut at 60 bytes" in _one_line(err)


@needs_captures
def test_captures_of_any_interface_need_a_longer_snaplen(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    """With `-i any` 96 bytes end inside the RPC header: that is said, and not that there is no NFS."""
    path = tmp_path / "short.pcap"
    subprocess.run(["editcap", "-s", "96", SHARED / "lab/i_v3_any_sll2/server.pcap.gz", path], check=True)
    status, _, err = _run(capsys, path, CLIENT)
    assert status == 3
    assert "cut at 96 bytes" in _one_line(err)
    assert "128 with -i any" in err


def test_one_capture_under_two_clocks_is_recognised(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    """A copy whose times are all shifted by one amount was taken at the same point."""
    path = tmp_path / "shifted.pcap"
    subprocess.run(["editcap", "-t", "5", CLIENT, path], check=True)
    status, _, err = _run(capsys, path, CLIENT)
    assert status == 3
    assert "one capture given twice" in _one_line(err)


def test_times_that_no_clock_shows(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    """Times before 1970 are refused in a line that says how to mend them."""
    path = tmp_path / "early.pcapng"
    subprocess.run(["editcap", "-F", "pcapng", "-t", "-3000000000", SERVER, path], check=True)
    status, _, err = _run(capsys, path, CLIENT)
    assert status == 3
    # pcapng counts its time stamps without a sign: what was before 1970 is in a far future.
    assert any(said in _one_line(err) for said in ("editcap -t", "in common", "outside of the years"))


@pytest.mark.parametrize("sides", [("server", "client"), ("server",), ("client",)])
@pytest.mark.parametrize("broken", [1, 200])
def test_a_reply_decades_before_its_call_is_no_time(
    sides: tuple[str, ...], broken: int, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    """One capture or two: where most operations have such times they are refused, and where one has, nothing says that
    there is no fault."""
    tcp = wire.Tcp()
    tcp.syn(0.0)
    for n in range(300):
        tcp.send(1 + 10 * n, ">", wire.getattr3(n + 1))
        tcp.send(3 + 10 * n, "<", wire.reply(n + 1, wire.GETATTR3))
    paths = []
    for side in sides:
        seen = tcp.seen_by(side)
        replies = [
            at for at, packet in enumerate(seen) if packet.frame[34:36] == b"\x08\x01" and len(packet.frame) > 100
        ]
        for at in replies[20 : 20 + broken]:
            seen[at] = dataclasses.replace(seen[at], t_ns=seen[at].t_ns - 40 * 365 * 86_400 * 10**9)
        paths.append(wire.write_pcap(tmp_path / f"{side}.pcap", seen, as_given=True))
    status, out, err = _run(capsys, *paths)
    if broken > 1:
        assert status == 3
        assert "dated long before their calls" in _one_line(err)
    else:
        assert status == 0
        assert "No fault" not in out


@pytest.mark.parametrize("kind", [UsageError, InputError, NoPacketsError, ToolError])
def test_an_error_keeps_its_type_and_fields_between_processes(kind: type[NfslatError]) -> None:
    """What a worker raises is told apart, and named, where the report is made."""
    there = pickle.loads(pickle.dumps(kind("is empty", Path("a.pcap"))))  # noqa: S301 - our own
    assert type(there) is kind
    assert (there.about, there.why, str(there)) == ("a.pcap", "is empty", "a.pcap: is empty")
    assert str(there.named("set 1")) == "set 1: is empty"
    assert (there.beside("a.pcap"), there.beside("b.pcap")) == ("is empty", "a.pcap: is empty")
    assert str(kind("no tshark")) == "no tshark"


def test_what_unpacks_without_end_is_given_up(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Far more than any capture comes to is not written to the disk; nor is anything when it is nearly full."""
    target = tmp_path / "out"
    monkeypatch.setattr(room, "_ANY_BYTES", 10_000)
    room.keep([b"x" * 5000] * 2, target, "some.bz2", packed_bytes=1)
    assert target.stat().st_size == 10_000
    with pytest.raises(InputError, match=r"some\.bz2: unpacks to over 2,000 times its size; .* NFSLAT_UNPACK_RATIO"):
        room.keep(iter(lambda: b"x" * 5000, b""), target, "some.bz2", packed_bytes=1)
    monkeypatch.setenv("NFSLAT_UNPACK_RATIO", "20000")
    room.keep([b"x" * 5000] * 4, target, "some.bz2", packed_bytes=1)
    room.keep([b"x" * 5000] * 4, target, "standard input")
    assert target.stat().st_size == 20_000
    monkeypatch.setattr("shutil.disk_usage", lambda _: shutil._ntuple_diskusage(1 << 30, 1 << 30, 16 << 20))  # type: ignore[attr-defined]
    with pytest.raises(InputError, match=r"standard input: .* which has 0 MiB; set TMPDIR to a folder with more"):
        room.keep([b"x"], target, "standard input")


def test_an_error_of_our_own_is_a_line_and_a_file(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """What nobody foresaw has a status of its own, a line without control characters, and a report for its owner."""

    def fails(*_: object, **__: object) -> None:
        raise ValueError("odd \x1b[2J text")

    monkeypatch.setattr("nfslat.cli.report.make", fails)
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    status, out, err = _run(capsys, SERVER, "evil\x1b]0;name")
    assert (status, out) == (70, "")
    (report,) = tmp_path.iterdir()
    assert _one_line(err).startswith("nfslat: internal error: ValueError at test_errors.py:")
    assert str(report) in err
    assert report.stat().st_mode & 0o777 == 0o600
    text = report.read_text()
    assert "Traceback" in text
    assert "in fails" in text
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "gone"))
    assert _run(capsys, SERVER)[2].endswith("there is no room for a report of it\n")


@pytest.mark.parametrize(
    "arguments",
    [
        ["{}"],
        [SERVER, "{}"],
        [SERVER, CLIENT, "--json", "{}/x"],
        [SERVER, CLIENT, "--evidence", "{}"],
        [SERVER, CLIENT, "--server-snapshot", "{}"],
        [SERVER, CLIENT, "--{}"],
        [SERVER, CLIENT, "--op", "{}"],
        [SERVER, CLIENT, "--start", "{}"],
        ["diff", "{}", "{}"],
        ["transport", "{}"],
        ["tune", "{}"],
        ["show", SERVER, CLIENT, "--xid", "{}"],
        ["extract", SERVER, CLIENT, "--slowest", "1", "--out", "{}/x"],
        ["fleet", "{}"],
        ["fleet", "--manifest", "{}"],
        ["fleet", "--out", "{}", "--show", "{}"],
        ["{}", "{}"],
    ],
)
def test_no_message_steers_a_terminal(capsys: pytest.CaptureFixture[str], tmp_path: Path, arguments: list[str]) -> None:
    """Names of files may hold anything: on standard error they are a line without control characters."""
    evil = str(tmp_path / "no\x1b]0;owned\x07\x1b[2J\u202e\n\rname")
    status, _, err = _run(capsys, *(one.replace("{}", evil) if isinstance(one, str) else one for one in arguments))
    assert status in (2, 3)
    assert _one_line(err).rstrip("\n").isprintable()
