"""Calls that nobody answers until the capture ends: named first, with their age; look-alikes are not."""

from __future__ import annotations

import csv
import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest
import wire
from captures import needs_native
from hanging_nfs import AT, END, others, sent_again, served
from wire import write_pcap

from nfslat import api
from nfslat.cli import main as cli

pytestmark = needs_native
CODE = "calls-unanswered"


def _report(path: Path, *captures: Path, options: Iterable[str] = (), status: int = 0) -> dict[str, Any]:
    out = path / "report.json"
    assert cli.main([*map(str, captures), "-q", "--json", str(out), *options]) == status
    made: dict[str, Any] = json.loads(out.read_text())
    return made


def _taken(path: Path, *flows: wire.Tcp | wire.Udp, sides: Iterable[str] = ("server", "client")) -> list[Path]:
    return [write_pcap(path / f"{side}.pcap", *(flow.seen_by(side, theta_ms=3000) for flow in flows)) for side in sides]


def _of(report: dict[str, Any]) -> list[dict[str, Any]]:
    return [finding for finding in report["findings"] if finding["code"] == CODE]


def _hung(*sent_ms: float, calls: int = 3, host: str = "10.0.0.1") -> wire.Tcp:
    """READs that the server's TCP acknowledges and its NFS never answers."""
    tcp = served(host=host)
    for at in sent_ms or (AT,):
        for number in range(calls):
            tcp.send(at + number, ">", wire.read(900 + number))
        tcp.ack(at + 40, "<")
    return tcp


@pytest.mark.parametrize("sides", [("server", "client"), ("client",)])
def test_calls_that_the_server_has_and_does_not_answer_lead(sides: tuple[str, ...], tmp_path: Path) -> None:
    """Two captures, and the client's alone: how many wait, since when, where, and that others are served meanwhile."""
    report = _report(tmp_path, *_taken(tmp_path, _hung(), others(), sides=sides))
    (group,) = report["unanswered"]
    assert (group["op"], group["calls"], group["acked"], group["sends"]) == ("READ", 3, True, 1)
    assert group["longest_ms"] == pytest.approx(END - AT, abs=200)
    assert group["answered"] >= 30
    assert (group["arrived"], group["replied"]) == ((3, 0) if len(sides) == 2 else (None, None))
    (finding,) = _of(report)
    assert (finding["layer"], finding["confidence"], finding["severity"]) == ("server", "certain", "warning")
    verdict = report["verdict"]
    assert (verdict["outcome"], verdict["cause"]) == ("fault", CODE)
    assert verdict["text"].startswith("3 READs wait in the server since ")
    assert "in flight for" not in verdict["text"]  # they are


def test_what_was_sent_again_says_so(tmp_path: Path) -> None:
    """RPC asks again on the same connection."""
    report = _report(tmp_path, *_taken(tmp_path, _hung(AT, AT + 8000), others()))
    assert [group["sends"] for group in report["unanswered"]] == [2]


def test_an_objective_counts_them_with_their_age(tmp_path: Path) -> None:
    """No READ that was answered is slow, and the objective is missed."""
    captures = _taken(tmp_path, _hung(), others())
    report = _report(tmp_path, *captures, options=["--slo", "READ.max=100", "--fail-on", "fault"], status=1)
    (objective,) = report["verdict"]["objectives"]
    assert objective["met"] is False
    assert objective["measured_ms"] == pytest.approx(END - AT, abs=200)


def test_each_has_a_row_of_missed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """By side, with the reason, and without instants of a reply."""
    out = tmp_path / "missed.csv"
    assert cli.main([*map(str, _taken(tmp_path, _hung(), others())), "-q", "--missed", str(out), "--json", "-"]) == 0
    capsys.readouterr()
    rows = list(csv.DictReader(out.read_text().splitlines()))
    assert [(row["side"], row["reason"], row["op"], row["t2_ns"]) for row in rows] == [
        (side, "NO_REPLY", "READ", "") for side in ("server", "client") for _ in range(3)
    ]


@pytest.mark.parametrize("sides", [("server", "client"), ("client",), ("server",)])
def test_a_mount_whose_first_call_hangs_is_an_answer(sides: tuple[str, ...], tmp_path: Path) -> None:
    """There is not one operation to compare, and what the captures show is said all the same."""
    tcp = wire.Tcp(client=("10.0.0.1", 700))
    tcp.syn(0)
    for at in (5.0, 60_000.0, 90_000.0):
        tcp.send(at, ">", wire.null(7))
        tcp.ack(at + 40, "<")
    report = _report(tmp_path, *_taken(tmp_path, tcp, sides=sides), options=["--fail-on", "fault"], status=1)
    assert (report["verdict"]["cause"], report["verdict"]["layer"]) == (CODE, "server")
    assert report["unanswered"][0]["sends"] == 3


def test_a_call_that_does_not_reach_the_server_is_the_paths(tmp_path: Path) -> None:
    """By UDP, sent five times, and in the client's capture alone."""
    udp, lost = wire.Udp(client=("10.0.0.1", 700)), []
    for number in range(200):
        udp.send(90.0 * number, ">", wire.read(number + 1, count=64))
        udp.send(90.0 * number + 1, "<", wire.reply(number + 1, wire.read3(64)))
    for at in (1000.0, 2000.0, 4000.0, 8000.0, 16_000.0):
        lost += udp.send(at, ">", wire.read(999, count=64))
    captures = [
        write_pcap(tmp_path / "server.pcap", udp.seen_by("server", without=lost)),
        write_pcap(tmp_path / "client.pcap", udp.seen_by("client")),
    ]
    (finding,) = _of(_report(tmp_path, *captures))
    assert finding["layer"] == "network"


def test_a_reply_that_the_servers_capture_shows_is_the_paths(tmp_path: Path) -> None:
    """The server answered, and the client's capture has nothing of it."""
    udp, lost = wire.Udp(client=("10.0.0.1", 700)), []
    for number in range(200):
        udp.send(90.0 * number, ">", wire.read(number + 1, count=64))
        udp.send(90.0 * number + 1, "<", wire.reply(number + 1, wire.read3(64)))
    for at in (1000.0, 2000.0, 4000.0, 8000.0, 16_000.0):
        udp.send(at, ">", wire.read(999, count=64))
        lost += udp.send(at + 1, "<", wire.reply(999, wire.read3(64)))
    captures = [
        write_pcap(tmp_path / "server.pcap", udp.seen_by("server")),
        write_pcap(tmp_path / "client.pcap", udp.seen_by("client", without=lost)),
    ]
    (finding,) = _of(_report(tmp_path, *captures))
    assert (finding["layer"], finding["evidence"]["replied"]) == ("network", 1)


def _ends_right_after() -> wire.Tcp:
    """The capture ends 0.3 s after calls were sent."""
    return _hung(END - 300)


def _as_slow_as_others() -> wire.Tcp:
    """Writes take up to 8 s here, and one that waits for 15 s is none that hangs."""
    tcp = served()
    for number in range(8):
        at = 1000.0 + 600 * number
        tcp.send(at, ">", wire.write(500 + number, count=64))
        tcp.ack(at + 40, "<")
    for number in range(8):
        tcp.send(9000.0 + number, "<", wire.reply(500 + number, wire.NULL_OK))
        tcp.ack(9000.5 + number, ">")
    tcp.send(END - 15_000, ">", wire.write(777, count=64))
    tcp.ack(END - 14_960, "<")
    return tcp


def _reply_lost_by_the_capture() -> tuple[wire.Tcp, list[wire.Sent]]:
    """The client acknowledges a reply that its capture does not have."""
    tcp = served()
    tcp.send(AT, ">", wire.read(99, count=64))
    reply = tcp.send(AT + 1, "<", wire.reply(99, wire.read3(64)))
    tcp.ack(AT + 2, ">")
    return tcp, reply


@pytest.mark.parametrize("flow", [_ends_right_after, _as_slow_as_others])
def test_what_may_be_answered_in_time_is_no_finding(flow: Any, tmp_path: Path) -> None:
    """A capture ends at some time, and calls are under way then."""
    report = _report(tmp_path, *_taken(tmp_path, flow(), others()))
    assert (report["unanswered"], _of(report)) == ([], [])


def test_a_reply_that_the_capture_lost_is_no_finding(tmp_path: Path) -> None:
    """In the client's capture, which has an ACK for more than it shows."""
    tcp, reply = _reply_lost_by_the_capture()
    capture = write_pcap(tmp_path / "one.pcap", tcp.seen_by("client", without=reply), others().seen_by("client"))
    report = _report(tmp_path, capture)
    assert (report["unanswered"], _of(report)) == ([], [])


def test_a_call_that_tcp_never_delivers_has_the_finding_of_tcp_alone(tmp_path: Path) -> None:
    """It is not said twice."""
    tcp, tries = sent_again()
    captures = [
        write_pcap(tmp_path / "server.pcap", tcp.seen_by("server", without=tries), others().seen_by("server")),
        write_pcap(tmp_path / "client.pcap", tcp.seen_by("client"), others().seen_by("client")),
    ]
    report = _report(tmp_path, *captures)
    assert _of(report) == []
    assert report["verdict"]["cause"] == "never-acknowledged"


@pytest.mark.parametrize("count", [1, 3])
def test_calls_that_are_answered_late_are_slow_ones(count: int, tmp_path: Path) -> None:
    """After 50 s, among quick ones: so few are no distribution, and the answer all the same."""
    tcp = served()
    for number in range(count):
        tcp.send(AT + number, ">", wire.read(21 + number, count=64))
    tcp.ack(AT + 40, "<")
    for number in range(count):
        tcp.send(AT + 50_000 + number, "<", wire.reply(21 + number, wire.read3(64)))
        tcp.ack(AT + 50_000.5 + number, ">")
    report = _report(tmp_path, *_taken(tmp_path, tcp))
    assert (report["verdict"]["cause"], report["verdict"]["layer"]) == ("server-slow-ops", "server")
    assert _of(report) == []


def test_show_has_the_packets_of_a_call_without_a_reply(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Each time that it was sent, in each capture that has it, on one clock; and what it asks for."""
    captures = [str(path) for path in _taken(tmp_path, _hung(AT, AT + 8000), others())]
    assert cli.main(["show", *captures, "-q", "--xid", "900", "--json", "-"]) == 0
    (call,) = json.loads(capsys.readouterr().out)["calls"]
    assert (call["op"], call["client"]) == ("READ", "10.0.0.1:700")
    assert call["waits_ms"] == pytest.approx(END - AT, abs=200)
    assert [(packet["side"], packet["what"]) for packet in call["packets"]] == [
        (side, what) for what in ("call", "call again") for side in ("client", "server")
    ]
    assert [packet["at_ms"] for packet in call["packets"]] == pytest.approx([0, 0.1, 8000, 8000.1], abs=0.2)
    assert any("NFS" in line["text"] for line in call["lines"])
    assert cli.main(["show", *captures, "-q", "--xid", "900"]) == 0
    assert "no reply until the captures end" in capsys.readouterr().out


@pytest.mark.parametrize("sides", [("server", "client"), ("client",)])
def test_pictures_have_them_in_flight_to_the_end(sides: tuple[str, ...], tmp_path: Path) -> None:
    """All else was answered in the first 200 ms, and the picture goes on for as long as they wait."""
    tcp = _hung()
    tcp.raw(END, ">", tcp.next[">"] - 1, b"", flags=0x10)
    shown = api.run([str(path) for path in _taken(tmp_path, tcp, sides=sides)], api.Options()).figures.pictures
    assert shown is not None
    over_time = shown.over_time
    assert over_time.bins * over_time.bin_ms == pytest.approx(END, rel=0.05)
    for flying in [over_time.client, over_time.server][: len(sides)]:
        assert flying.max[-2:] == [3, 3]
