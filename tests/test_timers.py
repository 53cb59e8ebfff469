"""SYNs that are lost, and calls that RPC sends again by its timer: found, with their cost and knob; look-alikes not."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import pytest
import wire
from hanging_nfs import ask
from wire import write_pcap

from nfslat.cli import main as cli

SYN = 0x02


def _report(path: Path, *captures: Path) -> dict[str, Any]:
    out = path / "report.json"
    assert cli.main([*map(str, captures), "-q", "--json", str(out)]) == 0
    made: dict[str, Any] = json.loads(out.read_text())
    return made


def _of(report: dict[str, Any], code: str) -> list[dict[str, Any]]:
    return [finding for finding in report["findings"] if finding["code"] == code]


def _opened(port: int, at: float, tries: Iterable[float]) -> tuple[wire.Tcp, list[wire.Sent]]:
    """A connection whose first SYNs are not answered, with 60 calls; and these SYNs."""
    tcp = wire.Tcp(client=("10.0.0.1", port))
    tcp.syn(at)
    first = tcp.packets[0].seq
    lost = [tcp.raw(at - before, ">", first, b"", flags=SYN) for before in tries]
    for number in range(60):
        ask(tcp, at + 2 + 5.0 * number, port * 1000 + number)
    return tcp, lost


def _three(*tries: float) -> tuple[list[wire.Tcp], list[wire.Sent]]:
    flows, lost = [], []
    for number in range(3):
        tcp, syns = _opened(700 + number, 8000.0 * (number + 1), tries)
        flows.append(tcp)
        lost += syns
    return flows, lost


@pytest.mark.parametrize(
    ("sides", "confidence", "fate"), [("both", "certain", "to-server"), ("client", "likely", "unknown")]
)
def test_lost_syns_are_time(sides: str, confidence: str, fate: str, tmp_path: Path) -> None:
    """Three connections of which each was open after 7 s; no call is slow."""
    flows, lost = _three(7000, 6000, 4000)
    client = write_pcap(tmp_path / "client.pcap", *(flow.seen_by("client") for flow in flows))
    server = write_pcap(tmp_path / "server.pcap", *(flow.seen_by("server", without=lost) for flow in flows))
    report = _report(tmp_path, *([server, client] if sides == "both" else [client]))
    (finding,) = _of(report, "syn-unanswered")
    assert (finding["layer"], finding["confidence"]) == ("network", confidence)
    assert finding["evidence"]["connecting_ms"] == pytest.approx(21_000, abs=10)
    assert (finding["evidence"]["connections"], finding["evidence"]["fate"]) == (3, fate)
    assert report["verdict"]["cause"] == "syn-unanswered"


def test_a_server_that_has_the_syn_and_answers_late_is_the_server(tmp_path: Path) -> None:
    """Its queue of new connections is full: its capture shows each SYN."""
    flows, _ = _three(3000, 2000)
    captures = [
        write_pcap(tmp_path / f"{side}.pcap", *(flow.seen_by(side) for flow in flows)) for side in ("server", "client")
    ]
    (finding,) = _of(_report(tmp_path, *captures), "syn-unanswered")
    assert (finding["layer"], finding["evidence"]["fate"]) == ("server", "in-server")


def test_what_was_heard_of_a_client_at_the_server_alone_is_not_enough(tmp_path: Path) -> None:
    """The server's capture shows pauses that end with a new connection, and not why: no fault is not said."""
    flows, lost = _three(7000, 6000, 4000)
    server = write_pcap(tmp_path / "server.pcap", *(flow.seen_by("server", without=lost) for flow in flows))
    assert _report(tmp_path, server)["verdict"]["outcome"] == "undecided"


def test_connections_that_are_answered_at_once_have_none(tmp_path: Path) -> None:
    """Three of them, one after the other."""
    flows, _ = _three()
    client = write_pcap(tmp_path / "client.pcap", *(flow.seen_by("client") for flow in flows))
    assert _of(_report(tmp_path, client), "syn-unanswered") == []


def _slow(again_ms: Callable[[int], float | None]) -> wire.Tcp:
    """60 calls that take 900 ms, sent again after so many; the server answers each transmission."""
    tcp = wire.Tcp(client=("10.0.0.1", 700))
    tcp.syn(0)
    for number in range(60):
        at, after = 10 + 1000.0 * number, again_ms(number)
        message = wire.read(number + 1, count=64)
        tcp.send(at, ">", message)
        if after is not None:
            tcp.send(at + after, ">", message)
        tcp.send(at + 900, "<", wire.reply(number + 1, wire.read3(64)))
        tcp.ack(at + 900.5, ">")
        if after is not None:
            tcp.send(at + 905, "<", wire.reply(number + 1, wire.read3(64)))
            tcp.ack(at + 905.5, ">")
    return tcp


@pytest.mark.parametrize("sides", [("server", "client"), ("client",), ("server",)])
def test_a_timer_of_rpc_that_is_too_short_is_named(sides: tuple[str, ...], tmp_path: Path) -> None:
    """Each call goes out again after 0.7 s: two captures and either alone agree."""
    captures = [write_pcap(tmp_path / f"{side}.pcap", _slow(lambda _: 700.0).seen_by(side)) for side in sides]
    report = _report(tmp_path, *captures)
    (finding,) = _of(report, "rpc-timeout")
    evidence = finding["evidence"]
    assert (evidence["ops"], evidence["answered_twice"]) == (60, 60)
    assert evidence["after_ms"] == pytest.approx(700, abs=1)
    assert "timeo=7" in finding["text"]
    assert (report["verdict"]["cause"], report["verdict"]["layer"]) == ("rpc-timeout", "client")


@pytest.mark.parametrize(
    "again_ms",
    [lambda _: None, lambda number: 700.0 if number < 3 else None, lambda number: 100.0 + 13.0 * number],
    ids=["none", "a few", "at no regular time"],
)
def test_calls_that_no_timer_sent_again_have_none(again_ms: Callable[[int], float | None], tmp_path: Path) -> None:
    """The server is as slow."""
    capture = write_pcap(tmp_path / "client.pcap", _slow(again_ms).seen_by("client"))
    assert _of(_report(tmp_path, capture), "rpc-timeout") == []
