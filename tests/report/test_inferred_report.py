"""A report of one capture with the other host inferred: every writer has to do without the other host's capture."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import pytest

import nfslat

SAMPLES = Path(__file__).parents[2] / "samples"


@pytest.mark.parametrize("side", ["server", "client"])
def test_every_writer_takes_it(side: str) -> None:
    """Text, Markdown and page are written; what another team can check is of the host that was captured, and it says
    what is inferred, and what to send along."""
    report = nfslat.inspect(SAMPLES / "server-threads" / f"{side}.pcap.gz")
    assert report.figures.inferred is not None
    assert set(report.figures.captures) == {side}
    other = "client" if side == "server" else "server"
    box = report.markdown().partition("### Evidence for the other team")[2].partition("\n### ")[0]
    for wanted in (
        "snaplen 512 bytes",
        f"- {other.capitalize()}: 10.77.0.{1 if side == 'client' else 2}; not captured: its times are inferred",
        "10.77.0.2 to 10.77.0.1:2049, NFS v3",
        f"by the {side}'s clock",
        "all of the operations of this time have inferred times (671 of 671)",
        "- What would refute the answer: ",
        "the provider finds the operations" if side == "client" else "ask for a capture of the client",
    ):
        assert wanted in box, wanted
    assert box.count(f"- display filter, {side}'s capture: `frame.number in ") == 3
    assert f"{other}'s capture" not in box
    assert all(set(one.wireshark) == {side} for one in report.figures.pictures.slowest)
    assert "server-threads" in report.text()
    if all(importlib.util.find_spec(name) for name in ("vl_convert", "jinja2")):
        assert box.splitlines()[2][2:20] in report.html().split('id="handover"')[1]


def test_a_side_by_itself_has_what_another_team_can_check(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where nothing is inferred: who, mount, time, snaplen, what is missing, and three operations by frame."""
    monkeypatch.setattr("nfslat.api._inferred", lambda *_: "TCP has no time stamps")
    report = nfslat.inspect(SAMPLES / "server-threads" / "client.pcap.gz")
    assert set(report.figures.captures) == {"capture"}
    box = report.markdown().partition("### Evidence for the other team")[2].partition("\n### ")[0]
    for wanted in (
        "- Capture: 10.77.0.2; capture client.pcap.gz, snaplen 512 bytes, 3,439 packets; server 10.77.0.1",
        "10.77.0.2 to 10.77.0.1:2049, NFS v3",
        "by the capturing host's clock",
        "every call has its reply, every reply its call",
        "the provider finds the operations",
    ):
        assert wanted in box, wanted
    assert box.count("- display filter: `frame.number in ") == 3
