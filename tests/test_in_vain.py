"""SYNs of connections that never carry a call: who lost them, or gave no answer, is said; of look-alikes nothing."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import wire
from situations import ACK, RST, RST_ACK, SYN, World, silent_syns
from wire import write_pcap

from nfslat import api
from nfslat.cli import main as cli

CODE = "syn-unanswered"


def _ms(sent: wire.Sent) -> float:
    return sent.sent_ns / 1e6


def _said(path: Path, world: World, *sides: str) -> tuple[str, str, str] | None:
    """Layer of the finding, the fate of the SYNs, and the cause in the verdict."""
    captures = [str(write_pcap(path / f"{side}.pcap", *world.seen_by(side))) for side in sides]
    summary = api.run(captures, api.Options()).summary
    assert summary.verdict is not None
    for finding in summary.findings:
        if finding.code == CODE:
            return str(finding.layer), str(finding.evidence["fate"]), str(summary.verdict.cause)
    assert summary.verdict.cause != CODE
    return None


@pytest.mark.parametrize(
    ("sides", "said"),
    [
        (("server", "client"), ("network", "to-server", CODE)),
        (("client",), ("network", "unknown", CODE)),
        (("server",), None),
    ],
)
def test_syns_that_are_dropped_in_transit(
    sides: tuple[str, ...], said: tuple[str, str, str] | None, tmp_path: Path
) -> None:
    """The server's capture has none of them."""
    world, _, syns = silent_syns(710)
    world.lost["server"] += syns
    assert _said(tmp_path, world, *sides) == said


@pytest.mark.parametrize(
    ("sides", "said"),
    [
        (("server", "client"), ("server", "in-server", CODE)),
        (("client",), ("network", "unknown", CODE)),
        (("server",), ("server", "in-server", CODE)),
    ],
)
def test_syns_that_the_server_has_and_does_not_answer(
    sides: tuple[str, ...], said: tuple[str, str, str], tmp_path: Path
) -> None:
    """Its queue of new connections is full to the end."""
    assert _said(tmp_path, silent_syns(710)[0], *sides) == said


@pytest.mark.parametrize(
    ("sides", "said"),
    [
        (("server", "client"), ("network", "to-client", CODE)),
        (("client",), ("network", "unknown", CODE)),
        (("server",), None),
    ],
)
def test_answers_that_are_lost(sides: tuple[str, ...], said: tuple[str, str, str] | None, tmp_path: Path) -> None:
    """The server answers each SYN, and the client has no answer."""
    world, new, syns = silent_syns(710)
    for syn in syns:
        world.lost["client"].append(
            new.raw(_ms(syn) + 0.2, "<", new.next["<"] - 1, b"", ack=new.next[">"], flags=SYN | ACK)
        )
    assert _said(tmp_path, world, *sides) == said


def _refused(new: wire.Tcp, syns: list[wire.Sent]) -> None:
    for syn in syns:
        new.raw(_ms(syn) + 0.2, "<", 0, b"", flags=RST_ACK)


def _scanned(new: wire.Tcp, syns: list[wire.Sent]) -> None:
    for syn in syns:
        new.raw(_ms(syn) + 0.2, "<", new.next["<"] - 1, b"", ack=new.next[">"], flags=SYN | ACK)
        new.raw(_ms(syn) + 0.4, ">", new.next[">"], b"", ack=0, flags=RST)


def _heard_late(new: wire.Tcp, syns: list[wire.Sent]) -> None:
    new.raw(_ms(syns[-1]) + 0.2, "<", new.next["<"] - 1, b"", ack=new.next[">"], flags=SYN | ACK)
    new.raw(_ms(syns[-1]) + 0.4, ">", new.next[">"], b"", flags=ACK)


@pytest.mark.parametrize("sides", [("server", "client"), ("client",), ("server",)])
@pytest.mark.parametrize("answer", [_refused, _scanned, _heard_late])
def test_what_is_answered_waits_for_nothing(answer: object, sides: tuple[str, ...], tmp_path: Path) -> None:
    """Refused, a scan, or a connection that stood and of which nobody made use."""
    world, new, syns = silent_syns(710)
    assert callable(answer)
    answer(new, syns)
    assert _said(tmp_path, world, *sides) is None


@pytest.mark.parametrize("to", [("10.0.0.2", 111), ("10.0.0.3", 3049)])
def test_other_ports_are_none_of_ours(to: tuple[str, int], tmp_path: Path) -> None:
    """SYNs to what carries no call."""
    assert _said(tmp_path, silent_syns(710, to=to)[0], "server", "client") is None


def test_one_syn_that_is_lost_and_sent_again_is_no_hang(tmp_path: Path) -> None:
    """A connection that takes a second, in a quarter of an hour."""
    world = World()
    for number in range(2000):
        if number == 0:
            flow = world.tcp(700, at=1000)
            world.lost["server"].append(flow.raw(1, ">", flow.next[">"] - 1, b"", ack=0, flags=SYN))
        world.op(flow, 1010 + 450.0 * number, 20)
    assert _said(tmp_path, world, "server", "client") is None


@pytest.mark.parametrize("sides", [("server", "client"), ("client",)])
def test_live_names_them_while_nobody_answers(sides: tuple[str, ...], tmp_path: Path) -> None:
    """From the stretch on in which the third SYN was sent, and not when the captures end."""
    world, _, syns = silent_syns(710)
    world.lost["server"] += syns
    captures = [str(write_pcap(tmp_path / f"{side}.pcap", *world.seen_by(side))) for side in sides]
    out = tmp_path / "live.json"
    assert cli.main(["live", *captures, "--interval", "20", "--json", str(out)]) in (0, 1)
    rows = [json.loads(line) for line in out.read_text().splitlines()]
    named = [row["cause"] == CODE for row in rows]
    assert named[:5] == [False] * 3 + [True] * 2
    assert len(sides) == 1 or named[5:] == [True] * 2  # of one capture that many packets are not held
