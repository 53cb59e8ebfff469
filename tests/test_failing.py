"""Operations that the server answers with errors: a finding by their share, first where it is most of an operation."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import wire
from wire import write_pcap

from nfslat.cli import main as cli

NOENT, IO, ACCES, NOSPC, DQUOT, ROFS = 2, 5, 13, 28, 69, 30


def _failed(status: int) -> bytes:
    """The body of a reply to READ or WRITE that failed (RFC 1813, 3.3.6 and 3.3.7): status, and no attributes."""
    return b"".join(number.to_bytes(4, "big") for number in (status, 0, 0))


def _load(status: int, failing: int, *, of: int = 100, reads: int = 100, operation: str = "WRITE") -> wire.Tcp:
    """READs that go well, and so many of an operation that is answered with a status so many times."""
    tcp = wire.Tcp(client=("10.0.0.1", 700))
    tcp.syn(0)
    xid = 0
    for number in range(max(of, reads)):
        at = 10 + 5.0 * number
        if number < reads:
            xid += 1
            tcp.send(at, ">", wire.read(xid, count=64))
            tcp.send(at + 0.6, "<", wire.reply(xid, wire.read3(64)))
        if number < of:
            xid += 1
            call = wire.write(xid, offset=64 * number, count=64) if operation == "WRITE" else wire.getattr3(xid)
            body = _failed(status) if number < failing else _failed(0)
            tcp.send(at + 2, ">", call)
            tcp.send(at + 2.6, "<", wire.reply(xid, body))
        tcp.ack(at + 3, ">")
    return tcp


def _report(path: Path, tcp: wire.Tcp, sides: tuple[str, ...]) -> dict[str, Any]:
    captures = [write_pcap(path / f"{side}.pcap", tcp.seen_by(side, theta_ms=3000)) for side in sides]
    out = path / "report.json"
    assert cli.main([*map(str, captures), "-q", "--json", str(out)]) == 0
    made: dict[str, Any] = json.loads(out.read_text())
    return made


def _of(report: dict[str, Any]) -> list[dict[str, Any]]:
    return [finding for finding in report["findings"] if finding["code"] == "operations-fail"]


@pytest.mark.parametrize("sides", [("server", "client"), ("client",), ("server",)])
@pytest.mark.parametrize(
    ("status", "name"), [(NOSPC, "NFS3ERR_NOSPC"), (DQUOT, "NFS3ERR_DQUOT"), (IO, "NFS3ERR_IO"), (ROFS, "NFS3ERR_ROFS")]
)
def test_what_fails_for_the_most_part_leads(status: int, name: str, sides: tuple[str, ...], tmp_path: Path) -> None:
    """58 of 100 WRITEs: which operation, which status, whose calls, on how many files."""
    report = _report(tmp_path, _load(status, 58), sides)
    (finding,) = _of(report)
    evidence = finding["evidence"]
    assert (evidence["op"], evidence["status"], evidence["ops"], evidence["of"]) == ("WRITE", name, 58, 100)
    assert (evidence["clients"], evidence["client"], evidence["files"]) == (1, "10.0.0.1", 1)
    verdict = report["verdict"]
    assert (verdict["outcome"], verdict["layer"], verdict["cause"]) == ("fault", "server", "operations-fail")
    assert verdict["text"].startswith(f"58.0 % of the WRITEs fail: 58 times {name}")


def test_a_fifth_of_an_operation_is_said_beside_what_leads(tmp_path: Path) -> None:
    """It is a warning, and no answer to where the time goes."""
    report = _report(tmp_path, _load(NOSPC, 20), ("server", "client"))
    assert [finding["severity"] for finding in _of(report)] == ["warning"]


def test_rights_that_are_missing_for_a_write_count_as_an_error(tmp_path: Path) -> None:
    """A client asks for ACCESS first."""
    report = _report(tmp_path, _load(ACCES, 60), ("server", "client"))
    assert report["verdict"]["cause"] == "operations-fail"


@pytest.mark.parametrize(
    ("status", "failing", "operation"),
    [(NOSPC, 0, "WRITE"), (NOSPC, 4, "WRITE"), (NOENT, 90, "GETATTR"), (ACCES, 15, "GETATTR")],
    ids=["none", "a few", "what is not there", "rights that somebody asks for"],
)
def test_what_is_part_of_normal_life_is_no_finding(status: int, failing: int, operation: str, tmp_path: Path) -> None:
    """Answers that applications expect, and a few errors."""
    report = _report(tmp_path, _load(status, failing, operation=operation), ("server", "client"))
    assert _of(report) == []
