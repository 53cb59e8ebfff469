"""Who holds the threads of a server: dumps of nfsdctl and ynl, and the calls of captures that are in them.

The texts are made by hand after the sources of nfs-utils and of the kernel.
"""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from queue_captures import write_captures
from queues import MS, simulate

from nfslat.cli import main as cli
from nfslat.errors import InputError
from nfslat.evidence import nfsd_status
from nfslat.evidence.nfsd_status import Dump, Held, Status
from nfslat.evidence.read import read

DATA = Path(__file__).parent / "data"


def test_nfsdctl() -> None:
    """Each line is a call; instants part the dumps, one of which finds no thread at work."""
    found = read(str(DATA / "app_nfsdctl.txt"))
    assert found.kind == "rpc status"
    read_3 = Held(0x67E90100, "READ", "10.0.0.2", 703)
    assert found.record == Status(
        (
            Dump(
                1795531628.125,
                (read_3, Held(0x68E90100, "WRITE", "10.0.0.3", 812), Held(0x11223344, "READ", "10.0.0.2", 704)),
            ),
            Dump(1795531628.225, (read_3,)),
            Dump(1795531628.325, ()),
        ),
        0,
    )
    assert found.notes[0].startswith(
        "at 3 instants 1.33 threads worked on calls, 3 at most (33% of the instants): READ"
    )


@pytest.mark.parametrize("as_json", [False, True])
def test_ynl(as_json: bool) -> None:
    """Python or JSON, on many lines or on one; addresses of IPv6, too."""
    text = (DATA / "app_ynl_rpc_status.txt").read_text()
    if as_json:
        text = " ".join(text.replace("'", '"').split())
    found = nfsd_status.parse(text.splitlines(keepends=True))
    calls = (Held(1144201745, "READ", "10.0.0.2", 704), Held(125287, "READ", "2001:db8::2", 703))
    assert found == Status((Dump(None, calls),), 0)


def test_dumps_without_instants_are_told_apart() -> None:
    """A call that is listed again is in the next dump."""
    lines = [line for line in (DATA / "app_nfsdctl.txt").read_text().splitlines() if "x" in line]
    assert [len(one.calls) for one in nfsd_status.parse(lines).dumps] == [3, 1]


def test_an_idle_server_says_so() -> None:
    """No call at all is no evidence of anything."""
    with pytest.raises(InputError, match="while there is load"):
        nfsd_status.parse(["1795531628.125\n"])


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
