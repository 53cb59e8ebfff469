"""The two tests of "TCP Trace Analysis for NFS" (2013), from captures with their latencies and from numbers alone.

(1) DTrace says 1 ms, the server's wire 48 ms, the client's 49 ms, Oracle 47 to 65 ms: the server, before a thread picks
    the call up; it had 16 threads.
(2) Storage 0.1 ms, server 1.0 ms, client 1.5 ms, Oracle 58 ms: the client, above the wire; it had 16 slots.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from queue_captures import write_captures
from queues import MS, US, simulate

from nfslat.cli import main as cli


def _report(capsys: pytest.CaptureFixture[str], *arguments: str) -> dict[str, Any]:
    assert cli.main([*arguments, "--json", "-"]) == 0
    found: dict[str, Any] = json.loads(capsys.readouterr().out)
    return found


def test_too_few_threads_in_captures(engine: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """16 threads of 1 ms under 768 requests: the wire takes 48 ms, and the verdict names the wait for 16 threads."""
    traffic = simulate(
        threads=16, workers=768, count=4000, law="exponential", mean_ns={"READ": MS, "WRITE": MS, "GETATTR": 30 * US},
        mix={"READ": 0.8, "WRITE": 0.15, "GETATTR": 0.05}, network_ns=500 * US, jitter_ns=0, seed=16,
    )  # fmt: skip
    server, client = write_captures(traffic, tmp_path)
    found = _report(capsys, str(server), str(client), "--app-ms", "56")
    verdict, threads = found["verdict"], found["inflight"]["server"]
    assert (verdict["layer"], verdict["cause"]) == ("server", "server-threads")
    assert (threads["threads_estimate"], threads["threads_range"], threads["limited"]) == (16, [16, 16], True)
    rows = {row["layer"]: row["ms"] for row in found["stack"]}
    assert rows["server"] == pytest.approx(traffic.server_ns.mean() / MS, rel=0.06)
    assert rows["in a thread"] == pytest.approx(1.0, rel=0.06)
    assert "works on 16 at a time" in verdict["text"]  # 1 ms may be that of 16 processors, too


def test_too_few_slots_in_captures(engine: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """16 slots of 1.5 ms under more requests: with Oracle's 58 ms the verdict is the client, and its slots."""
    traffic = simulate(
        threads=64, workers=600, slots=16, count=4000, law="lognormal", sigma=0.5,
        mean_ns={"READ": MS, "WRITE": MS, "GETATTR": 30 * US}, network_ns=250 * US, jitter_ns=0, seed=58,
    )  # fmt: skip
    server, client = write_captures(traffic, tmp_path)
    found = _report(capsys, str(server), str(client), "--app-ms", "58", "--storage-ms", "0.1")
    verdict = found["verdict"]
    assert (verdict["layer"], verdict["cause"]) == ("client", "client-slots")
    slots = next(one for one in found["findings"] if one["code"] == "client-slots")
    assert slots["evidence"]["slots"] == 16
    assert slots["advice"]["knob"] == "sunrpc.tcp_max_slot_table_entries"
    assert not any(one["code"] == "server-threads" for one in found["findings"])


def test_too_few_threads_in_numbers(capsys: pytest.CaptureFixture[str]) -> None:
    """The numbers alone give the layer, the wait, and the command that Solaris needs."""
    found = _report(
        capsys, "stack", "--app-ms", "56", "--client-ms", "49", "--server-ms", "48", "--thread-ms", "1", "--threads",
        "16", "--server-system", "solaris",
    )  # fmt: skip
    assert (found["verdict"]["layer"], found["verdict"]["cause"]) == ("server", "server-threads")
    first = found["findings"][0]
    assert (first["code"], first["evidence"]["queue_ms"]) == ("server-threads", 47)
    assert "sharectl set -p servers=512 nfs" in first["advice"]["how"]


def test_too_few_slots_in_numbers(capsys: pytest.CaptureFixture[str]) -> None:
    """The numbers alone give the client above the wire, and the knobs of kernels with either kind of table."""
    found = _report(
        capsys, "stack", "--app-ms", "58", "--client-ms", "1.5", "--server-ms", "1", "--storage-ms", "0.1", "--slots",
        "16",
    )  # fmt: skip
    assert (found["verdict"]["layer"], found["verdict"]["cause"]) == ("client", "client-slots")
    assert found["verdict"]["share"] == pytest.approx(56.5 / 58)
    how = "\n".join(found["findings"][0]["advice"]["how"])
    assert "sunrpc.tcp_max_slot_table_entries=" in how
    assert "sunrpc.tcp_slot_table_entries=" in how
