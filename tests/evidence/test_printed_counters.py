"""What mountstats, nfsstat, nfsslower and fsslower print, made by hand after their sources and manuals; beside captures
of READs that wait for two slots."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from queue_captures import write_captures
from queues import MS, Traffic, simulate

from nfslat.cli import main as cli
from nfslat.errors import InputError
from nfslat.evidence import bcc, client_tools
from nfslat.evidence.read import read

_MOUNT = """\
Stats for {device} mounted on /data:

  NFS mount options: rw,vers=4.1,rsize=1048576,wsize=1048576,hard,proto=tcp,timeo=600,retrans=2,sec=sys
  NFS mount age: {age}

RPC statistics:
  52000 RPC requests sent, 52000 RPC replies received (0 XIDs not found)
  average backlog queue length: 0

"""
_OPERATION = """\
{op}:
\t{ops} ops (23%) {again}
\tavg bytes sent per op: 228\tavg bytes received per op: 8312
\tbacklog wait: {queue:.6f} \tRTT: {rtt:.6f} \ttotal execute time: {execute:.6f} (milliseconds)
"""
_LINUX_SERVER = """\
Server rpc stats:
calls      badcalls   badfmt     badauth    badclnt
1000       3          3          0          0

Server nfs v4:
null             compound
1         0%     999      99%

Server nfs v4 operations:
op0-unused       op1-unused       op2-future       access           close
0         0%     0         0%     0         0%     5         0%     10        0%
getattr          getfh            putfh            read             sequence
900      22%     10        0%     999      25%     900      22%     999      25%
"""
_SLOWER = """\
Tracing {fs} operations slower than 10 ms... Hit Ctrl-C to end.
TIME     COMM             PID     T BYTES   OFF_KB   LAT(ms) FILENAME
16:46:11 dd               1212    W 1048576 651264     46.58 testfile
16:46:37 kworker/u8:5     1207    C 0       0        27449.05 testfile
16:46:37 kworker/u8:5     1207    C 0       0        26725.16 testfile
16:46:38 dd               1212    F LL_MAX  0          81.20 testfile
"""


def _printed(device: str = "filer1:/vol/data", age: str = "1:02:33", **of: dict[str, Any]) -> str:
    rows = [_OPERATION.format(**{"op": op, "ops": 12_000, "again": "", **figures}) for op, figures in of.items()]
    return _MOUNT.format(device=device, age=age) + "".join(rows)


@pytest.fixture(scope="module")
def traffic() -> Traffic:
    return simulate(
        threads=64, workers=24, slots=2, count=600, law="lognormal", sigma=0.5, mean_ns={"READ": 2 * MS},
        mix={"READ": 1.0}, jitter_ns=0, seed=5,
    )  # fmt: skip


@pytest.fixture(scope="module")
def captures(traffic: Traffic, tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    return [str(path) for path in write_captures(traffic, tmp_path_factory.mktemp("slots"))]


def _beside(captures: list[str], path: Path, text: str, capsys: pytest.CaptureFixture[str]) -> tuple[Any, str]:
    """The report as JSON and as plain text, with `text` as evidence."""
    path.write_text(text)
    assert cli.main([*captures, "--evidence", str(path), "--json", "-"]) == 0
    report = json.loads(capsys.readouterr().out)
    assert cli.main([*captures, "--evidence", str(path)]) == 0
    return report, " ".join(capsys.readouterr().out.split())


def test_mountstats_is_told_from_nfsiostat_and_refused_where_it_is_cut(tmp_path: Path) -> None:
    """Both have "mounted on"; an operation without its times is named with its line."""
    whole = _printed(READ={"queue": 0.1, "rtt": 1.0, "execute": 1.2})
    (path := tmp_path / "m.txt").write_text(whole)
    assert read(str(path)).kind == "mountstats"
    path.write_text(whole[: whole.index("\tbacklog")])
    with pytest.raises(InputError, match=r"line 1[0-9]: READ has no times"):
        read(str(path))
    path.write_text(_printed())
    with pytest.raises(InputError, match="no times of operations"):
        read(str(path))
    for cut in range(0, len(whole), 7):
        try:
            client_tools.mountstats(whole[:cut].splitlines(keepends=True), "m")
        except InputError:
            continue
        assert cut > whole.index("total execute")


def test_what_a_mount_waited_over_hours_counts_above_the_captures_own_time_on_the_wire(
    traffic: Traffic, captures: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A wait of 18 ms for slots is above the wire, whatever the answers took at other times."""
    rtt = float(traffic.client_ns.mean()) / MS * 1.5
    text = _printed(READ={"queue": 18.0, "rtt": rtt, "execute": rtt + 18.0})
    report, plain = _beside(captures, tmp_path / "m.txt", text, capsys)
    rows = {row["layer"]: row["ms"] for row in report["stack"]}
    assert rows["above the wire"] == pytest.approx(18.0, abs=0.01)
    assert rows["waiting for a slot"] == pytest.approx(18.0)
    assert "m.txt: /data: the client's kernel counts READ" in plain


@pytest.mark.parametrize(
    ("text", "why"),
    [
        (_printed(WRITE={"queue": 0.1, "rtt": 6.3, "execute": 6.45}), "is of WRITE, and these captures have no such"),
        (_printed(READ={"queue": 0.1, "rtt": 600.0, "execute": 601.0}), "so it is of another time or host"),
        (
            _printed(device="192.0.2.99:/x", READ={"queue": 0.1, "rtt": 3.0, "execute": 3.2}),
            "of 192.0.2.99: no mount of a server that is in the captures",
        ),
        (_LINUX_SERVER.replace("read ", "lock "), "are not in the captures"),
        (_SLOWER.format(fs="nfs").replace(" F ", " C "), "(WRITE, COMMIT) are of no operation of these captures"),
    ],
)  # fmt: skip
def test_what_is_given_in_vain_is_in_every_report_with_the_reason(
    text: str, why: str, captures: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Figures of other operations, of another time or of another server."""
    report, plain = _beside(captures, tmp_path / "e.txt", text, capsys)
    assert any(one.startswith("not used: ") and why in one for one in report["evidence"])
    assert "not used: " in plain
    assert why in plain
    assert not report["stack"] or report["stack"][0]["layer"] != "application"


def test_nfsstat_is_put_beside_the_captures() -> None:
    """Shares, and calls that were sent again."""
    client = (
        "Client rpc stats:\ncalls      retrans    authrefrsh\n30557550   27686      30557600   \n\n"
        "Client nfs v4:\nnull             read             write            open_noat        lock            \n"
        "1         0%     210000    0%     150000    0%     13100000 42%     7300000  23%     \n"
    )
    found = client_tools.nfsstat(client.splitlines(), "x").record
    said, unused = client_tools.beside(found, {"READ": 1.0}, 0)
    assert said[0] == (
        "the client counts 30,557,550 calls since its counters began, 27,686 of them sent again (0.09%); "
        "in the captures none was"
    )
    assert "63.1% OPEN_NOATTR, 35.2% LOCK" in said[1]
    assert unused
    said, unused = client_tools.beside(found, {"OPEN": 0.5, "READ": 0.5}, 3)
    assert "in the captures that is 50.0%, 0.0%" in said[1]
    assert "in the captures 3 were" in said[0]
    assert not unused


def test_calls_far_slower_than_the_captures_are_told_from_those_that_may_be_in_them() -> None:
    """The slowest operation on the wire beside the slowest call."""
    traced = bcc.read(_SLOWER.format(fs="nfs").splitlines(keepends=True), "x").record
    said, unused = bcc.beside(traced, {"COMMIT": 12.0, "WRITE": 45.0})
    assert "the slowest COMMIT in the captures takes 12 ms: a call of 27,449 ms was made at another time" in said[0]
    assert said[1].endswith("takes 45 ms, so that calls of 46.6 ms may be these")
    assert not unused
