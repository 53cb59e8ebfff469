"""Captures in any order: whose is whose is found from the packets, said where it is not as given, and never guessed."""

from __future__ import annotations

import dataclasses
import io
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import wire
from captures import SHARED

import nfslat

SAMPLES = sorted((Path(__file__).parents[1] / "samples").glob("*/"))
LAB = sorted((SHARED / "lab").glob("*/"))
BY_DAY = ("g_clock_step3s", "j_v3_partial_overlap", "n_v3_nfsd_restart", "packet-loss", "server-threads")
OPS = 90
MS = 1_000_000


def _answer(one: Path, other: Path, **options: Any) -> dict[str, Any]:
    out = io.StringIO()
    nfslat.correlate(one, other, **options).write_json(out)
    found: dict[str, Any] = json.loads(out.getvalue())
    del found["nfslat"]["command"]
    return found


@pytest.mark.parametrize(
    "folder",
    [
        pytest.param(folder, id=folder.name, marks=() if folder.name in BY_DAY else pytest.mark.long)
        for folder in (*SAMPLES, *LAB)
        if folder.is_dir()
    ],
)
def test_the_order_changes_nothing_but_a_note(folder: Path) -> None:
    """Real pairs, client first: the same report, and one note more, which names the two files."""
    server, client = (next(folder.glob(f"{side}.*")) for side in ("server", "client"))
    right, other = _answer(server, client), _answer(client, server)
    (note,) = [note for note in other["notes"] if note not in right["notes"]]
    other["notes"].remove(note)
    assert f"client first: by the packets {server} is the server's, {client} the client's" in note
    assert other == right


def _written(folder: Path, at_server: Callable[[int], tuple[float, float]]) -> tuple[Path, Path]:
    """READs that take 5 ms at the client; `at_server` says when of op n call and reply are seen there, ms after the
    call and before the reply at the client."""
    tcp = wire.Tcp()
    for n in range(OPS):
        xid = (n * 2654435761) % (1 << 32)
        tcp.send(10 * n, ">", wire.read(xid, 512 * n, 512))
        tcp.send(10 * n + 5, "<", wire.reply(xid, wire.read3(512)))
    client = tcp.seen_by("client", back_ms=0)
    moved = [ns for n in range(OPS) for ns in (round(at_server(n)[0] * MS), -round(at_server(n)[1] * MS))]
    server = [dataclasses.replace(packet, t_ns=packet.t_ns + ns) for packet, ns in zip(client, moved, strict=True)]
    return wire.write_pcap(folder / "server.pcap", server), wire.write_pcap(folder / "client.pcap", client)


def _said(report: dict[str, Any]) -> tuple[str, bool]:
    """What notes say of the order, and which capture was taken for the server's."""
    said = "".join(
        word for word in ("client first", "do not tell which") if any(word in note for note in report["notes"])
    )
    return said, report["captures"]["server"]["path"].endswith("server.pcap")


def test_causality_decides_where_durations_do_not(tmp_path: Path) -> None:
    """Half of the ops are over as soon as they begin for the network, so that most take as long at both. The others
    began later and ended earlier at the server, which only one order allows."""
    pair = _written(tmp_path, lambda n: (0.2, 0.2) if n % 2 else (0, 0))
    assert _said(_answer(*pair)) == ("", True)
    assert _said(_answer(*reversed(pair))) == ("client first", True)


def test_what_cannot_be_told_is_said_and_left_as_given(tmp_path: Path) -> None:
    """Ops take as long at both, or longer at either in turn: nothing is exchanged, and a note says why."""
    for name, at_server in (
        ("jitter", lambda n: (0.3 * (n % 3), -0.3 * (n % 3))),
        ("either", lambda n: (0.2, 0.2) if n % 2 else (-0.2, -0.2)),
    ):
        folder = tmp_path / name
        folder.mkdir()
        pair = _written(folder, at_server)
        assert _said(_answer(*pair)) == ("do not tell which", True)
        assert _said(_answer(*reversed(pair))) == ("do not tell which", False)
        assert _said(_answer(*reversed(pair), may_swap=False)) == ("", False)
