"""Calls that come again over UDP: each capture keeps their operations for a while, and live says what they wait for."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import wire
from wire import write_pcap

from nfslat.cli import main as cli


def _load(lossy: bool) -> tuple[wire.Udp, list[wire.Packet]]:
    """READs whose replies are fragments; every 20th lacks one at the client, and its call is sent again after 1.1 s."""
    udp, lost, at = wire.Udp(client=("10.0.0.1", 700)), [], 0.0
    for number in range(240):
        call, reply = wire.read(number + 1, 8192 * number), wire.reply(number + 1, wire.read3(8192))
        udp.send(at, ">", call)
        sent = udp.send(at + 1, "<", reply, mtu=1500)
        if lossy and number % 20 == 3:
            lost.append(sent[2])
            at += 1100
            udp.send(at, ">", call)
            udp.send(at + 1, "<", reply, mtu=1500)
        at += 60
    return udp, lost


@pytest.mark.parametrize(("lossy", "causes"), [(True, {"net-loss"}), (False, {None})])
@pytest.mark.parametrize("sides", [("server", "client"), ("client",)])
def test_fragments_that_are_lost_are_named_in_their_stretch(
    sides: tuple[str, ...], lossy: bool, causes: set[str | None], tmp_path: Path
) -> None:
    """In each stretch of 5 s, and not when the captures end; without a loss there is none."""
    udp, lost = _load(lossy)
    without = {"server": [], "client": lost}
    captures = [str(write_pcap(tmp_path / f"{side}.pcap", udp.seen_by(side, without=without[side]))) for side in sides]
    out = tmp_path / "live.json"
    assert cli.main(["live", *captures, "--interval", "5", "--json", str(out)]) in (0, 1)
    rows = [json.loads(line) for line in out.read_text().splitlines()]
    assert {row["cause"] for row in rows[1:-1]} == causes


@pytest.mark.parametrize("lossy", [True, False])
def test_answers_that_are_asked_for_again_did_not_arrive(lossy: bool, tmp_path: Path) -> None:
    """The server's capture alone shows each reply whole, and calls that come again behind theirs: what that costs, it
    does not show, and does not say that nothing is wrong."""
    out = tmp_path / "report.json"
    capture = write_pcap(tmp_path / "server.pcap", _load(lossy)[0].seen_by("server"))
    assert cli.main([str(capture), "-q", "--json", str(out)]) == 0
    verdict = json.loads(out.read_text())["verdict"]
    assert ("packets are lost" in verdict["text"]) == lossy
    assert not lossy or verdict["outcome"] == "undecided"
