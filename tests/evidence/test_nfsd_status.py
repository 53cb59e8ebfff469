"""Who holds the threads of a server: the calls of captures that are in dumps of nfsdctl."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from queue_captures import write_captures
from queues import MS, simulate

from nfslat.cli import main as cli


@pytest.mark.parametrize("turned", [False, True])
def test_calls_of_captures_are_found(turned: bool, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """By their XIDs, whichever way their bytes are printed; the one that had held its thread longest is named."""
    traffic = simulate(threads=4, workers=12, count=400, mix={"READ": 1.0}, mean_ns={"READ": 20 * MS})
    server, client = write_captures(traffic, tmp_path)
    capsys.readouterr()
    assert (
        cli.main([str(server), str(client), "--csv", str(tmp_path / "ops.csv"), "--json", str(tmp_path / "x.json")])
        == 0
    )
    capsys.readouterr()
    rows = [line.split(",") for line in (tmp_path / "ops.csv").read_text().splitlines()]
    xids = np.array([int(row[rows[0].index("xid")], 16) for row in rows[1:]])
    first_ns = min(int(row[rows[0].index("client_t0_ns")]) for row in rows[1:]) - int(traffic.sent_ns.min())
    lines = []
    for at_ns in range(int(traffic.start_ns.min()), int(traffic.reply_ns.max()), 50 * MS):
        lines.append(f"{(at_ns + first_ns) / 1e9:.9f}")
        for row in np.flatnonzero((traffic.start_ns <= at_ns) & (at_ns < traffic.reply_ns)).tolist():
            xid = int(xids[row])
            printed = int.from_bytes(xid.to_bytes(4, "big"), "little") if turned else xid
            lines.append(
                f" 0x{printed:08x} 0x00000005 100003 6 NFS3 {traffic.start_ns[row] // 1000} 10.77.0.2 10.77.0.1 700"
            )
    (status := tmp_path / "status.txt").write_text("\n".join(lines) + "\n")
    assert cli.main([str(server), str(client), "--evidence", str(status), "--json", "-"]) == 0
    told = json.loads(capsys.readouterr().out)["evidence"]
    (note,) = [note for note in told if "calls that held a thread" in note]
    share, _, rest = note.removeprefix("status.txt: ").partition(" calls")
    found, of = (int(number) for number in share.split(" of "))
    assert found == of
    assert "the longest had been there for" in rest
    assert any("4 at most" in note for note in told)
