"""Figures and files of evidence -> what is known beside the captures."""

from __future__ import annotations

import csv
import io
import json
import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from queue_captures import write_captures
from queues import MS, US, Traffic, simulate

from nfslat.cli import main as cli

DATA = Path(__file__).parent / "evidence" / "data"


@pytest.fixture(scope="module")
def traffic() -> Traffic:
    return simulate(
        threads=64, workers=24, slots=2, count=600, law="lognormal", sigma=0.5, mean_ns={"READ": 2 * MS},
        mix={"READ": 1.0}, jitter_ns=0, seed=5,
    )  # fmt: skip


@pytest.fixture(scope="module")
def captures(traffic: Traffic, tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    return [str(path) for path in write_captures(traffic, tmp_path_factory.mktemp("slots"))]


def _report(capsys: pytest.CaptureFixture[str], *arguments: str) -> dict[str, Any]:
    assert cli.main([*arguments, "--json", "-"]) == 0
    found: dict[str, Any] = json.loads(capsys.readouterr().out)
    return found


def _rows(report: dict[str, Any]) -> dict[str, float]:
    return {row["layer"]: row["ms"] for row in report["stack"]}


def _sunrpc(traffic: Traffic) -> str:
    """What the two hosts' tracepoints say: the wait for a slot at the client, the time in a thread at the server."""
    lines = []
    for row in range(len(traffic.conn)):
        xid = int.from_bytes((0x1000 + row).to_bytes(4, "big"), "little")
        backlog, rtt = (int(t) // US for t in (traffic.sent_ns[row] - traffic.issued_ns[row], traffic.client_ns[row]))
        end_s = (traffic.received_ns[row] + 10 * US) / 1e9
        done_s = traffic.reply_ns[row] / 1e9
        lines += [
            (end_s, f"fio-1 [001] ..... {end_s:.6f}: rpc_stats_latency: task:1@1 xid=0x{xid:08x} nfsv3 READ "
            f"backlog={backlog} rtt={rtt} execute={backlog + rtt}"),
            (done_s, f"nfsd-2 [001] ..... {done_s:.6f}: svc_stats_latency: xid=0x{xid:08x} server=10.0.0.1:2049 "
            f"client=10.0.0.2:700 proc=READ execute-us={int(traffic.service_ns[row]) // US}"),
        ]  # fmt: skip
    return "\n".join(line for _, line in sorted(lines)) + "\n"


def test_tracepoints_are_joined_op_by_op(
    traffic: Traffic, captures: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A trace gives each op its wait for a slot and its time in a thread: in stack, verdict and CSV file."""
    (trace := tmp_path / "trace.txt").write_text(_sunrpc(traffic))
    table = tmp_path / "ops.csv"
    found = _report(capsys, *captures, "--evidence", str(trace), "--csv", str(table))
    rows = _rows(found)
    waits = (traffic.sent_ns - traffic.issued_ns).mean() / MS
    assert rows["waiting for a slot"] == pytest.approx(waits, abs=0.002)
    assert rows["in a thread"] == pytest.approx(traffic.service_ns.mean() / MS, abs=0.002)
    assert (found["verdict"]["layer"], found["verdict"]["cause"]) == ("client", "client-slots")
    assert next(one for one in found["findings"] if one["code"] == "client-slots")["confidence"] == "certain"
    assert any("600 of 600 ops of the client's capture are in the trace" in note for note in found["evidence"])
    cells = list(csv.DictReader(io.StringIO(table.read_text())))
    slot_waits = np.array([int(row["slot_wait_ns"]) for row in cells])
    order = np.argsort(traffic.sent_ns, kind="stable")
    assert np.abs(slot_waits - (traffic.sent_ns - traffic.issued_ns)[order]).max() < 2 * US
    assert all(int(row["thread_ns"]) + int(row["slot_wait_ns"]) <= int(row["execute_ns"]) for row in cells)


def test_a_trace_of_another_time_is_told(
    captures: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A trace that has none of the captures' XIDs changes nothing, and the report says so."""
    (trace := tmp_path / "trace.txt").write_text((DATA / "app_sunrpc.txt").read_text())
    found = _report(capsys, *captures, "--evidence", str(trace))
    assert found["verdict"]["share"] is None  # what waits above the wire is not known
    assert any("none of its RPCs is in the captures" in note for note in found["evidence"])


def test_sessions_give_the_applications_latency(
    traffic: Traffic, captures: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    """24 requests that are always open, by Little's law, take as long as the application waited in the simulation."""
    found = _report(capsys, *captures, "--sessions", "24")
    rows = _rows(found)
    assert rows["application"] == pytest.approx(traffic.application_ns[100:-100].mean() / MS, rel=0.1)
    assert found["verdict"]["cause"] == "client-slots"
    assert found["stack"][0]["source"].startswith("24 sessions / ")


def test_a_figure_of_the_user_counts_before_evidence(captures: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    """Where --app-ms is given, fio's own figure is not taken for it."""
    fio = str(DATA / "app_fio.json")
    ours = _rows(_report(capsys, *captures, "--app-ms", "70", "--evidence", fio))
    theirs = _report(capsys, *captures, "--evidence", fio)
    assert ours["application"] == 70
    assert "app_fio.json" in theirs["stack"][0]["source"]


def test_snapshots_prove_slots(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Two snapshots of the client give the wait for slots, and the number that is set."""
    slow = simulate(threads=64, workers=24, slots=2, count=400, law="constant", mean_ns={"READ": 20 * MS},
                    mix={"READ": 1.0}, jitter_ns=0, seed=5)  # fmt: skip
    captures = [str(path) for path in write_captures(slow, tmp_path)]
    pairs = [("--client-snapshot", "client"), ("--server-snapshot", "server")]
    options = [f"{option}={DATA / f'{host}-before.txt'},{DATA / f'{host}-after.txt'}" for option, host in pairs]
    found = _report(capsys, *captures, *options)
    assert "mountstats" in found["stack"][0]["source"]
    slots = next(one for one in found["findings"] if one["code"] == "client-slots")
    assert slots["confidence"] == "certain"
    assert slots["advice"]["value"] == "2"


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["--evidence", "nowhere.txt"], "nowhere.txt: cannot be read"),
        (["--client-snapshot", "nowhere.txt"], "nowhere.txt"),
        (["--client-snapshot", "a,b,c"], "give one snapshot, or two of one host"),
        (["--sessions", "0"], "give a whole number from 1"),
        (["--threads", "many"], "give a whole number from 1"),
        (["--thread-ms", "-1"], "--thread-ms -1: give milliseconds"),
        (["--what-if", "disks=3"], "--what-if disks=3: give threads=64"),
        (["--what-if", "threads=0"], "--what-if threads=0"),
        (["--what-if", "threads=1,threads=2"], "--what-if threads=1,threads=2"),
        (["--what-if", "slots=64"], "packets do not show how many requests wait for a slot"),
    ],
)
def test_what_makes_no_sense_is_one_line(
    arguments: list[str], says: str, captures: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    """A wrong value or file ends the run with one line that says what to do, and no traceback."""
    assert cli.main([*captures, *arguments]) in (2, 3)
    err = capsys.readouterr().err
    assert says in err
    assert len(err.splitlines()) == 1


def test_evidence_needs_both_captures(captures: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """With one capture of which nothing is inferred, as its packets are gone, there is nothing to put evidence beside:
    the run says so."""
    ops = str(tmp_path / "ops.parquet")
    assert cli.main([captures[0], "--ops-parquet", ops]) == 0
    assert cli.main([ops, "--sessions", "3", "--what-if", "threads=2"]) == 2
    assert "what-if, sessions: this needs both sides" in capsys.readouterr().err


def test_counters_of_another_time_are_left_out(captures: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    """Mountstats whose times on the wire are not those of the captures are not believed, and the report says so."""
    options = ["--client-snapshot", ",".join(str(DATA / f"client-{when}.txt") for when in ("before", "after"))]
    found = _report(capsys, *captures, *options)
    assert not any(row["layer"] == "application" for row in found["stack"])
    assert any("is left out" in note for note in found["evidence"])


@pytest.mark.parametrize(
    ("option", "value", "says"),
    [("--threads", "1", "1 threads are said"), ("--thread-ms", "0.5", "no call can have waited for a thread")],
)
def test_what_the_packets_refute_is_not_used(
    option: str, value: str, says: str, captures: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    """Fewer threads than are seen at work, or a wait for one where all calls are in one, are named and left alone."""
    found = _report(capsys, *captures, option, value)
    assert not any(one["code"] == "server-threads" for one in found["findings"])
    assert any(says in note for note in found["notes"])


def test_slots_are_those_of_all_operations(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """With --op the slots are counted all the same: other operations take them, too."""
    mixed = simulate(threads=64, workers=24, slots=2, count=800, law="lognormal", sigma=0.5, jitter_ns=0, seed=5)
    captures = [str(path) for path in write_captures(mixed, tmp_path)]
    found = _report(capsys, *captures, "--op", "READ")
    assert found["inflight"]["client"]["slots_estimate"] == 2


def test_a_pipe_that_nobody_writes_to_is_no_evidence(
    captures: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """--evidence with a named pipe ends in one line, and does not wait."""
    os.mkfifo(tmp_path / "pipe")
    assert cli.main([*captures, "--evidence", str(tmp_path / "pipe")]) == 3
    assert "is not a file" in capsys.readouterr().err


def test_two_traces_of_one_run_complete_each_other(
    traffic: Traffic, captures: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The client's tracepoints in one file and the server's in another: both count, in either order."""
    lines = _sunrpc(traffic).splitlines()
    files = {}
    for name, event in (("client", "rpc_stats_latency"), ("server", "svc_stats_latency")):
        files[name] = tmp_path / f"{name}.txt"
        files[name].write_text("\n".join(line for line in lines if event in line) + "\n")
    stacks = []
    for order in (("client", "server"), ("server", "client")):
        options = [one for name in order for one in ("--evidence", str(files[name]))]
        stacks.append(_rows(_report(capsys, *captures, *options)))
    assert stacks[0] == stacks[1]
    assert {"waiting for a slot", "in a thread"} <= stacks[0].keys()


def test_evidence_of_no_use_is_told_in_a_line(
    captures: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A trace of another time, and an AWR report beside the application's own figure, change nothing: the default
    report says so of each."""
    (trace := tmp_path / "trace.txt").write_text((DATA / "app_sunrpc.txt").read_text())
    given = [*captures, "--evidence", str(trace), "--evidence", str(DATA / "app_awr_19c.txt"), "--app-ms", "30"]
    assert cli.main(given) == 0
    brief = " ".join(capsys.readouterr().out.split())
    assert brief.count("none of its RPCs is in the captures") == 1
    assert brief.count("not used: ") == 2
    assert "what it says is given already; and " in brief
    assert cli.main([*given, "--full"]) == 0
    full = " ".join(capsys.readouterr().out.split())
    assert "none of its RPCs is in the captures" in full
    assert "what it says is given already" in full
