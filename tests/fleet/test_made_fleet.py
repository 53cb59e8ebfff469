"""Made fleets (benchmarks/fleet_made): what nfslat and tshark read from their captures is what is true of them."""

from __future__ import annotations

import hashlib
import io
import json
import shutil
import subprocess
from collections import Counter
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from examples import examples
from fleet_made.captures import make
from fleet_made.fleets import FAR, FEW_SLOTS, small, small_plan
from fleet_made.load import make_load
from fleet_made.plan import WRITE, ClientPlan, Plan, ServerPlan
from fleet_made.story import Story, play
from hypothesis import given, settings
from hypothesis import strategies as st

import nfslat
from nfslat.kernels.dispatch import Work, starts

needs_tshark = pytest.mark.skipif(shutil.which("tshark") is None, reason="tshark is not here")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where the small fleet is."""
    return tmp_path_factory.mktemp("small")


@pytest.fixture(scope="module")
def truth(folder: Path) -> dict[str, Any]:
    """Of the small fleet, which is made."""
    return small(folder)


def test_one_seed_makes_the_same_bytes(tmp_path: Path) -> None:
    """A fleet is made twice with the same bytes, and with other ones from another seed."""
    plan = replace(small_plan(3), seconds=1.0, busier_at_s=0.5)
    for name, one in (("a", plan), ("b", plan), ("c", replace(plan, seed=4))):
        make(one, tmp_path / name)
    first, second, other = (_digests(tmp_path / name) for name in "abc")
    assert first == second
    assert len(first) == 14
    assert not set(first.values()) & set(other.values())


@pytest.mark.parametrize(
    "name", ["c003", "c011", *(pytest.param(name, marks=pytest.mark.long) for name in ("c000", "c005"))]
)
def test_a_report_says_what_is_true(folder: Path, truth: dict[str, Any], name: str) -> None:
    """Response times, waits for a thread, threads, slots, the path and the clock, of each kind of client."""
    client = next(one for one in truth["clients"] if one["name"] == name)
    report = _report([folder / "server" / "server.pcap"], [folder / "clients" / name / "client.pcap"])
    total = report["matched"]["total"]
    assert total["count"] == client["ops"] == report["captures"]["client"]["ops"]
    for figure in ("client_ms", "network_ms", "server_ms"):
        assert total[figure]["mean"] == pytest.approx(client[figure], abs=0.002)
    server, slots = report["inflight"]["server"], report["inflight"]["client"]
    assert (server["threads_lower_bound"], server["threads_estimate"]) == (4, 4)
    assert server["queue_ms"] == pytest.approx(client["wait_for_thread_ms"], rel=0.01)
    assert slots["slots_estimate"] == (2 if client["group"] == FEW_SLOTS else None)
    codes = {finding["code"] for finding in report["findings"]}
    assert "server-threads" in codes
    assert ({"net-delay", "net-loss"} <= codes) == (client["group"] == FAR)
    drift_ppm = truth["server"]["clock_drift_ppm"] - client["clock_drift_ppm"]
    assert report["clock"]["drift_ppm"] == pytest.approx(drift_ppm, abs=1.0)
    audit = [note for side in ("server", "client") for note in report["captures"][side]["audit"]]
    assert {note["severity"] for note in audit} == {"info"}


@pytest.mark.long
@needs_tshark
def test_tshark_reads_the_same(folder: Path, truth: dict[str, Any]) -> None:
    """Wireshark finds as many calls and replies of each kind, nothing malformed, names of files, and what was lost."""
    client = next(one for one in truth["clients"] if one["name"] == "c010")
    capture = folder / "clients" / "c010" / "client.pcap"
    rows = _tshark(capture, "nfs", "rpc.msgtyp", "nfs.procedure_v3", "nfs.name", "tcp.analysis.retransmission")
    kinds = {"1": "GETATTR", "3": "LOOKUP", "6": "READ", "7": "WRITE"}
    for is_reply in ("0", "1"):
        told = Counter(kinds[row[1]] for row in rows if row[0] == is_reply and not row[3])
        again = Counter(kinds[row[1]] for row in rows if row[0] == is_reply and row[3])
        assert all(told[kind] <= count <= told[kind] + again[kind] for kind, count in client["by_kind"].items())
    assert {row[2] for row in rows if row[2]} >= {"project-data", "shared01.dat", "c010-f01.dat"}
    assert _tshark(folder / "server" / "server.pcap", "_ws.malformed", "frame.number") == []
    # Of a client that loses nothing TCP has nothing to say.
    assert _tshark(folder / "clients" / "c003" / "client.pcap", "tcp.analysis.flags", "frame.number") == []


def test_rotated_files_hold_the_same_packets(folder: Path, truth: dict[str, Any], tmp_path: Path) -> None:
    """Rotation cuts a capture up and changes nothing in it."""
    assert small(tmp_path, files=3) == truth
    for whole in sorted(folder.rglob("*.pcap")):
        parts = sorted((tmp_path / whole.relative_to(folder)).parent.iterdir())
        assert len(parts) == 3
        assert b"".join(part.read_bytes()[24:] for part in parts) == whole.read_bytes()[24:]


@given(
    threads=st.integers(1, 5),
    slots=st.integers(1, 4),
    nconnect=st.integers(1, 3),
    loss=st.sampled_from([0.0, 0.02, 0.2]),
    seed=st.integers(0, 1000),
)
@settings(max_examples=examples(25))
def test_a_story_is_possible(threads: int, slots: int, nconnect: int, loss: float, seed: int) -> None:
    """Every op goes all its way in order, slots and threads are never exceeded, streams are delivered in order."""
    one = ClientPlan("c000", "10.9.1.1", workers=6, think_ms=1, slots=slots, nconnect=nconnect, loss=loss, delay_ms=0.5)
    other = replace(one, name="c001", address="10.9.1.2", slots=64, loss=0.0)
    story = play(
        Plan((one, other), ServerPlan(threads=threads), seconds=0.5, busier_at_s=0.3, load_factor=3, seed=seed)
    )
    way = [story.issued, story.sent[0], story.seen[0], story.delivered[0], story.start]
    way += [story.sent[1], story.seen[1], story.delivered[1]]
    assert all((before <= after).all() for before, after in pairwise(way))
    assert _most_at_once(story.start, story.sent[1]) <= threads
    for conn, client in enumerate(story.conn_client.tolist()):
        mine = story.conn == conn
        if client == 0:
            assert _most_at_once(story.sent[0][mine], story.delivered[1][mine]) <= slots
        for direction in (0, 1):
            ops = np.array(story.order[direction][conn], dtype=np.int64)
            assert (np.diff(story.sent[direction][ops]) >= 0).all()
            assert (np.diff(story.delivered[direction][ops]) >= 0).all()
    assert _starts_agree(story)


def test_one_file_may_be_slow() -> None:
    """Ops on the file that the plan calls slow are so many times as long in their threads, those on others are not."""
    clients = (ClientPlan("c000", "10.9.1.1", workers=8, think_ms=1),)
    story = play(Plan(clients, ServerPlan(threads=8, slow_file="shared02.dat", slow_factor=5.0), seconds=3.0))
    names = np.array([file.name for file in story.files])[story.file]
    on_disk = story.kind <= WRITE
    service_ms = (story.sent[1] - story.start) / 1e6
    assert service_ms[on_disk & (names == "shared02.dat")].mean() == pytest.approx(10, rel=0.1)
    assert service_ms[on_disk & (names != "shared02.dat")].mean() == pytest.approx(2, rel=0.1)


def test_a_load_is_valid_and_the_same_in_all_its_files(tmp_path: Path) -> None:
    """Each client's capture, and the one of all clients, match the server's rotated one op for op, with no warning."""
    made = make_load(tmp_path, clients=3, ops=200, files=2)
    assert made.ops == 3 * (224 + 2)
    assert len(made.server) == 2
    server = list(made.server)
    reports = [_report(server, [made.merged])]
    reports += [_report(server, list(paths)) for paths in made.clients]
    assert [report["matched"]["total"]["count"] for report in reports] == [678, 226, 226, 226]
    assert reports[0]["matched"]["unmatched"] == {"server": {}, "client": {}}
    for report in reports:
        assert report["matched"]["total"]["network_ms"]["mean"] == pytest.approx(0.06, abs=0.002)
        assert {note["severity"] for note in report["captures"]["client"]["audit"]} <= {"info"}


@needs_tshark
def test_tshark_has_nothing_to_say_of_a_load(tmp_path: Path) -> None:
    """Sequence numbers, acknowledgements, checksums and messages of a load are right over several cycles."""
    made = make_load(tmp_path, clients=2, ops=100, nano=True)
    bad = "tcp.analysis.flags or _ws.malformed or ip.checksum.status == 0"
    assert _tshark(made.server[0], bad, "frame.number") == []
    assert _tshark(made.merged, bad, "frame.number") == []
    assert len(_tshark(made.server[0], "nfs and rpc.time", "frame.number")) == made.ops


def _report(server: list[Path], client: list[Path]) -> dict[str, Any]:
    out = io.StringIO()
    nfslat.correlate(*(",".join(map(str, paths)) for paths in (server, client))).write_json(out)
    report: dict[str, Any] = json.loads(out.getvalue())
    return report


def _digests(folder: Path) -> dict[str, str]:
    files = (path for path in folder.rglob("*") if path.is_file())
    return {str(path.relative_to(folder)): hashlib.sha256(path.read_bytes()).hexdigest() for path in files}


def _tshark(capture: Path, wanted: str, *fields: str) -> list[list[str]]:
    names = [word for name in fields for word in ("-e", name)]
    command = ["tshark", "-n", "-o", "ip.check_checksum:TRUE", "-r", str(capture), "-Y", wanted, "-T", "fields", *names]
    told = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    return [line.split("\t") for line in told.splitlines()]


def _most_at_once(begin: np.ndarray[Any, Any], end: np.ndarray[Any, Any]) -> int:
    """Where one ends as another begins, that is no overlap."""
    times = np.concatenate((begin, end))
    steps = np.repeat([1, -1], len(begin))
    return int(np.cumsum(steps[np.lexsort((steps, times))]).max(initial=0))


def _starts_agree(story: Story) -> bool:
    """The order in which nfslat takes knfsd to serve connections gives each call the thread that it had."""
    order = np.argsort(story.delivered[0], kind="stable")
    arrival = story.delivered[0][order]
    if (np.diff(arrival) == 0).any() or np.intersect1d(arrival, story.sent[1]).size:
        return True  # at one instant: either may come first
    work = Work.of(arrival, story.sent[1][order], story.conn[order].astype(np.int32))
    return bool((starts(work, story.plan.server.threads) == story.start[order]).all())
