"""Captures of other programs than NFS: a mount that hangs, and who waits for whom."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import wire

from nfslat.cli import main as cli

CLIENT, SERVER = "10.0.0.1", "10.0.0.2"
NLM, NSM = 100021, 100024
_GETPORT, _MNT = 3, 1


def _udp(port: int) -> wire.Udp:
    return wire.Udp(client=(CLIENT, 700), server=(SERVER, port))


def _asks(xid: int, program: int, version: int, procedure: int) -> bytes:
    return wire.call(xid, program, version, procedure, bytes(40))


def _pair(folder: Path, *, is_answered: bool = True) -> tuple[Path, Path]:
    """Portmap answers (or does not), MOUNT does not: MNT is sent at 10, 1110 and 3310 ms; a lock is taken."""
    portmap, mount = _udp(111), _udp(892)
    locks = wire.Tcp(client=(CLIENT, 701), server=(SERVER, 4045))
    for xid in range(1, 4):
        portmap.send(3 * xid, ">", _asks(xid, wire.PORTMAP, 2, _GETPORT))
        if is_answered:
            portmap.send(3 * xid + 2, "<", wire.reply(xid))
    for t_ms in (10, 1110, 3310):
        mount.send(t_ms, ">", _asks(9, wire.MOUNT, 3, _MNT))
    if is_answered:
        locks.send(20, ">", _asks(20, NLM, 4, 2))
        locks.send(25, "<", wire.reply(20))
    portmap.send(5010, ">", _asks(4, wire.PORTMAP, 2, _GETPORT))
    if is_answered:
        portmap.send(5012, "<", wire.reply(4))
    flows = [portmap, mount, *([locks] if is_answered else [])]
    files = []
    for tap in ("server", "client"):
        seen = sorted((one for flow in flows for one in flow.seen_by(tap)), key=lambda one: one.t_ns)
        files.append(wire.write_pcap(folder / f"{tap}.pcap", seen))
    return files[0], files[1]


def _report(capsys: pytest.CaptureFixture[str], *arguments: str | Path) -> dict[str, Any]:
    assert cli.main(["-q", *map(str, arguments), "--json", "-"]) == 0
    report: dict[str, Any] = json.loads(capsys.readouterr().out)
    return report


def test_a_mount_that_hangs(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """MNT was sent three times and waits for 5 s; what was answered follows."""
    _, client = _pair(tmp_path)
    rows = _report(capsys, client, "--all-programs")["called"]["capture"]
    assert [(row["program"], row["op"], row["answered"], row["unanswered"], row["again"]) for row in rows] == [
        ("MOUNT", "MNT", 0, 1, 2),
        ("PORTMAP", "GETPORT", 4, 0, 0),
        ("NLM", "LOCK", 1, 0, 0),
    ]
    first = rows[0]
    assert (first["caller"], first["called"], first["transport"]) == (CLIENT, f"{SERVER}:892", "udp")
    assert first["waits_ms"] == pytest.approx(5002, abs=5)
    assert first["mean_ms"] is None
    assert rows[2]["mean_ms"] == pytest.approx(5, abs=2)


def test_who_waits_is_said(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """In a sentence, too."""
    _, client = _pair(tmp_path)
    assert cli.main(["-q", str(client), "--all-programs"]) == 0
    said = " ".join(capsys.readouterr().out.split())
    assert f"{CLIENT} waits for {SERVER}:892: MOUNT MNT has had no reply for 5.0 s when the capture ends" in said
    assert "retransmitted 2 times" in said


def test_nothing_is_answered(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """No op at all: the calls that wait are the report."""
    server, client = _pair(tmp_path, is_answered=False)
    for capture in (server, client):
        rows = _report(capsys, capture, "--all-programs")["called"]["capture"]
        assert {(row["op"], row["answered"], row["unanswered"]) for row in rows} == {("MNT", 0, 1), ("GETPORT", 0, 4)}


def test_both_sides_of_it(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """What was answered is compared, and both say who waits."""
    report = _report(capsys, *_pair(tmp_path), "--all-programs")
    assert report["matched"]["ops"] == 5
    for side in ("server", "client"):
        assert report["called"][side][0]["op"] == "MNT"


def test_no_pair_of_captures_without_an_answer(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """There is nothing to compare; each by itself shows who waits."""
    server, client = _pair(tmp_path, is_answered=False)
    assert cli.main(["-q", str(server), str(client), "--all-programs"]) == 3
    assert "who waits in each by itself" in " ".join(capsys.readouterr().err.split())


def test_filters_hold_for_calls_without_a_reply(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """MNT is not asked for."""
    _, client = _pair(tmp_path)
    rows = _report(capsys, client, "--all-programs", "--op", "GETPORT")["called"]["capture"]
    assert [row["op"] for row in rows] == ["GETPORT"]


def test_without_the_option_it_is_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The capture is refused as before, with what would show it."""
    _, client = _pair(tmp_path)
    assert cli.main(["-q", str(client)]) == 3
    assert "--all-programs shows them" in " ".join(capsys.readouterr().err.split())


def test_a_capture_without_rpc_is_refused_all_the_same(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """There is nothing of any program in it."""
    flow = _udp(53)
    flow.send(0, ">", b"no call at all")
    path = wire.write_pcap(tmp_path / "other.pcap", flow.seen_by("client"))
    assert cli.main(["-q", str(path), "--all-programs"]) == 3
    assert "no NFS in it" in " ".join(capsys.readouterr().err.split())


def test_nfs_that_is_answered_waits_for_nobody(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A usual capture: rows, and no sentence on waiting; without the option not even rows."""
    flow = wire.Tcp(client=(CLIENT, 700), server=(SERVER, 2049))
    for xid in range(1, 9):
        flow.send(xid, ">", wire.getattr3(xid))
        flow.send(xid + 0.5, "<", wire.reply(xid, wire.GETATTR3))
    path = wire.write_pcap(tmp_path / "usual.pcap", flow.seen_by("client"))
    assert cli.main(["-q", str(path), "--all-programs"]) == 0
    out = capsys.readouterr().out
    assert "Who calls whom" in out
    assert "waits for" not in out
    assert _report(capsys, path)["called"] == {}
