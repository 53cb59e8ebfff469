"""Stretches in which nothing ends: idle, or calls that nobody answers."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import wire
from hanging_nfs import ask, served
from wire import write_pcap

from nfslat.cli import main as cli


def _watched(path: Path, flow: wire.Tcp, sides: tuple[str, ...], out: Path) -> list[dict[str, Any]]:
    captures = [str(write_pcap(path / f"{side}.pcap", flow.seen_by(side, theta_ms=3000))) for side in sides]
    assert cli.main(["live", *captures, "--interval", "10", "--json", str(out)]) in (0, 1)
    return [json.loads(line) for line in out.read_text().splitlines()]


def _sent_again() -> wire.Tcp:
    """Three READs that are acknowledged, sent again after 60 s, and never answered."""
    tcp = served()
    for number in range(100):
        ask(tcp, 210.0 + 5 * number, 21 + number)
    for at in (1000.0, 61_000.0):
        for number in range(3):
            tcp.send(at + number, ">", wire.read(121 + number))
        tcp.ack(at + 40, "<")
    tcp.raw(90_000.0, ">", tcp.next[">"] - 1, b"", flags=0x10)  # keep-alive
    tcp.ack(90_000.3, "<")
    return tcp


@pytest.mark.parametrize("sides", [("server", "client"), ("client",)])
def test_calls_that_nobody_answers_are_no_idle_time(sides: tuple[str, ...], tmp_path: Path) -> None:
    """As soon as they are sent again it is known, begins once, and lasts while nothing else comes."""
    rows = _watched(tmp_path, _sent_again(), sides, tmp_path / "live.json")
    named = [row["cause"] == "calls-unanswered" for row in rows]
    assert named[0] is False
    assert sum(named) >= 2
    assert named == sorted(named)
    assert [event["what"] for row in rows for event in row["began"]] == ["calls-unanswered"]


@pytest.mark.parametrize("sides", [("server", "client"), ("client",)])
def test_a_call_that_the_end_of_a_file_cuts_off_waits_for_nothing(sides: tuple[str, ...], tmp_path: Path) -> None:
    """The stretch goes on for seconds behind the last packet, and nobody knows what came then."""
    tcp = served()
    for number in range(100):
        ask(tcp, 210.0 + 5 * number, 21 + number)
    tcp.send(712.0, ">", wire.read(121))
    tcp.ack(712.1, "<")
    (row,) = _watched(tmp_path, tcp, sides, tmp_path / "live.json")
    assert row["cause"] is None
    assert "waits" not in row["text"]


@pytest.mark.parametrize("sides", [("server", "client"), ("client",)])
def test_calls_that_are_sent_once_are_named_by_the_silence_behind_them(sides: tuple[str, ...], tmp_path: Path) -> None:
    """Three READs that are acknowledged and never answered; nothing but keep-alives follows."""
    tcp = served()
    for number in range(100):
        ask(tcp, 210.0 + 5 * number, 21 + number)
    for number in range(3):
        tcp.send(1000.0 + number, ">", wire.read(121 + number))
    tcp.ack(1040.0, "<")
    for number in range(12):
        tcp.raw(10_000.0 * (number + 1), ">", tcp.next[">"] - 1, b"", flags=0x10)
        tcp.ack(10_000.0 * (number + 1) + 0.3, "<")
    rows = _watched(tmp_path, tcp, sides, tmp_path / "live.json")
    named = [row["cause"] == "calls-unanswered" for row in rows]
    assert sum(named) >= len(named) - 2
    assert named == sorted(named)


def test_keep_alives_of_a_client_that_asks_for_nothing_are_idle_time(tmp_path: Path) -> None:
    """A minute of them."""
    tcp = served()
    for number in range(6):
        tcp.raw(10_000.0 * (number + 1), ">", tcp.next[">"] - 1, b"", flags=0x10)
        tcp.ack(10_000.0 * (number + 1) + 0.3, "<")
    rows = _watched(tmp_path, tcp, ("server", "client"), tmp_path / "live.json")
    assert [row["cause"] for row in rows if not row["ops"]] == [None] * (len(rows) - 1)
