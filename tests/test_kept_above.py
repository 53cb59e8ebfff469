"""Packet pairs in which no request could leave the client for a while -> when that was, findings and verdict."""

from __future__ import annotations

from pathlib import Path

import pytest
import wire
from scenario import Scenario

from nfslat import api
from nfslat.answer.model import Finding
from nfslat.wire.reconnects import without_connection

MS = 1_000_000


def _played(lines: list[str], folder: Path, app_ms: float | None = None) -> api.Report:
    """On one clock, 0.1 ms each way."""
    server, client = Scenario({"purpose": "made", "timeline": "\n".join(lines), "expect": {}}).write(folder)
    return api.correlate(str(server), str(client), app_ms=app_ms)


def _reads(first: int, times: list[float], conn: str = "a") -> list[str]:
    """READs, 1 ms in the server each."""
    return [
        line
        for xid, t in enumerate(times, first)
        for line in (
            f"{t} > {t + 0.1} READ {xid} {8192 * xid} 8192 conn={conn}",
            f"{t + 1.1} < {t + 1.2} reply {xid} conn={conn}",
        )
    ]


def _in_order(*parts: list[str]) -> list[str]:
    return sorted((line for part in parts for line in part), key=lambda line: float(line.split()[0]))


def _opened(at: float, conn: str = "a") -> list[str]:
    return [
        f"{at} > {at + 0.1} syn conn={conn}",
        f"{at + 0.1} < {at + 0.2} synack conn={conn}",
        f"{at + 0.2} > {at + 0.3} ack conn={conn}",
    ]


def _without(report: api.Report) -> list[tuple[float, float]]:
    """When the client had no connection, ms since its first call."""
    side = report.correlation.client
    found = without_connection(side.ops, side.decoded.loose, side.decoded.details.tcp, side.forward)
    began = int(side.ops.t0.min())
    return [((a - began) / MS, (b - began) / MS) for _, a, b in zip(*(one.tolist() for one in found), strict=True)]


def _finding(report: api.Report, code: str) -> Finding | None:
    return next((one for one in report.figures.findings if one.code == code), None)


_BEFORE = [float(t) for t in range(0, 200, 4)]
_BEHIND = [3500.0 + t for t in range(0, 200, 4)]
_PILED = [3210.0 + 0.01 * n for n in range(6)]  # at once, as the new connection stands
_CUT = ["202 < 202.1 rst"]
# Refused, and tried again when the client thinks fit.
_IN_VAIN = ["206 > 206.1 syn", "206.1 < 206.2 rst", "207 > 207.1 syn", "207.1 < 207.2 rst"]


@pytest.mark.parametrize("is_known", [True, False])
def test_requests_that_pile_up_while_nobody_serves_the_client(tmp_path: Path, *, is_known: bool) -> None:
    """No call was under way as the connection ended, so that none is sent again: six leave as there is a new one, 3 s
    later. Those 3 s are the server's, with the application's time; without it they are told of."""
    lines = _in_order(_reads(1, _BEFORE), _CUT, _IN_VAIN, _opened(3209.0), _reads(100, _PILED), _reads(200, _BEHIND))
    plain = _played(lines, tmp_path)
    ((since, until),) = _without(plain)
    assert [since, until] == pytest.approx([206, 3209.2], abs=0.01)
    ops = len(plain.correlation.matched)
    waits_ms = 6 * (until - since) / ops
    srt_ms = float(plain.correlation.client_srt_ns.mean()) / MS
    found = _played(lines, tmp_path, srt_ms + waits_ms + 0.1) if is_known else plain
    cut, said = _finding(found, "reconnect"), found.figures.verdict
    assert cut is not None
    assert said is not None
    assert (cut.layer, cut.confidence, cut.evidence["interruptions"]) == ("server", "likely", 1)
    assert cut.evidence["above_wire_ms"] == pytest.approx(waits_ms, rel=0.01)
    if not is_known:
        assert cut.share is None
        assert said.text.startswith("The client lost its connection, and had none for 3.0 s.")
        return
    assert cut.share == pytest.approx(waits_ms / (srt_ms + waits_ms + 0.1), rel=0.01)
    assert (said.layer, said.cause, said.confidence) == ("server", "reconnect", "low")  # few ops
    assert _finding(found, "above-wire") is None
    # The stack says where it is, not whose: there nothing moves.
    above = found.figures.stack[1]
    assert above.layer == "above the wire"
    assert above.ms == pytest.approx(waits_ms + 0.1)


def test_a_client_that_had_nothing_to_send_needed_no_connection(tmp_path: Path) -> None:
    """It connects when it wants to, and at once: the time above the wire is not of that."""
    lines = _in_order(_reads(1, _BEFORE), _CUT, _opened(3209.0), _reads(100, _PILED), _reads(200, _BEHIND))
    found = _played(lines, tmp_path, 40.0)
    assert [until - since for since, until in _without(found)] == [pytest.approx(0.2, abs=0.01)]
    assert _finding(found, "reconnect") is None
    assert found.figures.verdict is not None
    said = found.figures.verdict
    assert (said.outcome, said.cause, said.largest_layer) == ("undecided", "above-wire", "client")


@pytest.mark.parametrize("conn", ["a", "b"])
def test_a_call_that_waited_tells_since_when(conn: str, tmp_path: Path) -> None:
    """It was under way as the connection ended: the client had none since the server was last heard of, from whichever
    port it then connects."""
    again = ["3209.3 > 3209.4 READ 99 0 8192 conn=" + conn, f"3210.3 < 3210.4 reply 99 conn={conn}"]
    behind = _reads(200, _BEHIND, conn)
    lines = _in_order(_reads(1, _BEFORE), ["201 > 201.1 READ 99 0 8192"], _CUT, _opened(3209.0, conn), again, behind)
    found = _played(lines, tmp_path)
    ((since, until),) = _without(found)
    assert [since, until] == pytest.approx([202.1, 3209.2], abs=0.01)
    cut = _finding(found, "reconnect")
    assert cut is not None
    assert (cut.evidence["ops"], cut.evidence["mean_ms"]) == (1, pytest.approx(3210.4 - 201, abs=0.1))


def test_calls_that_stand_in_the_socket_until_the_server_reads(tmp_path: Path) -> None:
    """Four workers; the server closes its window for 300 ms behind each round, and as it opens four calls leave at
    once: each of them waited for that, above the wire."""
    tcp = wire.Tcp()
    tcp.syn(0, scale=7)
    tcp.window = {">": 2048, "<": 2048}
    rounds, each = 30, 4
    for i in range(rounds):
        t = 10 + i * 310.0
        sent = [tcp.send(t + 0.01 * n, ">", wire.read(each * i + n, 8192 * (each * i + n))) for n in range(each)]
        last = [tcp.send(t + 5 + 0.3 * n, "<", wire.reply(each * i + n, wire.read3(8192))) for n in range(each)][-1][-1]
        tcp.ack(t + 6.5, ">", last)
        tcp.window["<"] = 0
        tcp.ack(t + 7, "<", sent[-1][-1])
        tcp.window["<"] = 2048
        tcp.ack(t + 309.8, "<", sent[-1][-1])
    tcp.packets.sort(key=lambda one: one.sent_ns)
    server, client = (
        wire.write_pcap(tmp_path / f"{side}.pcap", tcp.seen_by(side, there_ms=0.1, back_ms=0.1), nano=True)
        for side in ("server", "client")
    )
    files = str(server), str(client)
    srt_ms = float(api.correlate(*files).correlation.client_srt_ns.mean()) / MS
    waits_ms = (310 - srt_ms) * (rounds - 1) / rounds
    found = api.correlate(*files, app_ms=srt_ms + waits_ms)
    shut, said = _finding(found, "server-window"), found.figures.verdict
    assert shut is not None
    assert said is not None
    # The last round is behind the last time.
    assert shut.evidence["times"] == rounds - 1
    assert shut.evidence["above_wire_ms"] == pytest.approx(waits_ms, rel=0.01)
    assert (said.layer, said.cause) == ("server", "server-window")
    assert said.share is not None
    assert said.share == shut.share > 0.98
