"""The lab: its scenario files, its truth from what kernels print, and real guests where this machine can start them."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from laboratory import causes, expected, host, judge, run, scenario, truth

SCRIPTS = Path(__file__).parents[2] / "scripts"
EVERY = scenario.every()


@pytest.mark.parametrize("one", EVERY, ids=lambda one: one.name)
def test_a_scenario_says_what_is_expected_of_nfslat(one: scenario.Scenario) -> None:
    """Each file of the folder reads, names what a person would answer, and expects something that nfslat can say."""
    assert one.description
    both = expected.expected({"cause": {"where": one.cause.where}, "expect": one.expect})
    assert both.application is not None, both.why_not
    assert both.application.layer or both.application.cause


@pytest.mark.parametrize("name", ["lab2", "lab3"])
def test_a_file_of_expectations_says_only_what_nfslat_can_say(name: str) -> None:
    """Runs that came without a table are judged by one of these files; a name in it that is mistyped is refused."""
    tables = tomllib.loads((Path(__file__).parent / "data" / f"{name}.toml").read_text())
    assert len(tables) >= 12
    for run_name, table in tables.items():
        both = expected.expected({"expect": table})
        assert both.packets is not None, run_name
        assert both.packets.cause, run_name


def test_there_are_many_scenarios_mixed_ones_and_traps_among_them() -> None:
    """Thirty at least; a lab of plain causes alone would be passed by a tool that sees one cause at a time."""
    assert len(EVERY) >= 30
    assert sum(one.description.startswith("mixed:") for one in EVERY) >= 5
    assert sum(one.description.startswith("trap:") for one in EVERY) >= 5
    assert 0 < sum(one.short for one in EVERY) <= 6


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ('description = "x"\n[cause]\nwher = "none"\n', r"x.toml, \[cause\]: .*wher"),
        ('description = "x"\nexpects = 1\n', r"x.toml: .*expects"),
        ("description = \n", "x.toml: Invalid value"),
        ("[cause]\n", "x.toml: .*description"),
        (
            'description = "x"\n[[cause.timeline]]\nat_s = 1\non = "sever"\nscript = ":"\n',
            r"\[cause\]: .*'sever' is none of",
        ),
        ('description = "x"\n[[cause.timeline]]\nat_s = 1\n', r"\[cause\]: .*missing"),
    ],
)
def test_a_scenario_that_is_mistyped_is_refused(text: str, said: str, tmp_path: Path) -> None:
    """What a file says and nobody reads would be a cause that is not injected: the error names file and table."""
    (tmp_path / "x.toml").write_text(text)
    with pytest.raises(scenario.ScenarioError, match=said):
        scenario.read(tmp_path / "x.toml")


def test_what_begins_in_the_middle_is_part_of_the_truth(tmp_path: Path) -> None:
    """A timeline is read with its times, and truth.json says what was done when."""
    (tmp_path / "x.toml").write_text(
        'description = "x"\n[[cause.timeline]]\nat_s = 2\non = "server"\nscript = "echo 2 >/proc/fs/nfsd/threads"\n'
    )
    one = scenario.read(tmp_path / "x.toml")
    assert one.cause.timeline == (scenario.Step(2, "server", "echo 2 >/proc/fs/nfsd/threads"),)
    assert run.cause_of(one.cause)["timeline"][0]["at_s"] == 2


class Recorder:
    """A guest that only keeps what it is to run."""

    def __init__(self) -> None:
        self.scripts: list[str] = []

    def run(self, script: str) -> None:
        self.scripts.append(script)


def test_a_hole_for_large_packets_is_made_on_the_server_and_ends() -> None:
    """TCP hands down single segments, so that what the hole drops is what a path drops; clients send as before."""
    one = scenario.Scenario("x", "", "x", cause=scenario.Cause(mtu_hole_s=0.001), load=scenario.Load(seconds=0.001))
    server, client = Recorder(), Recorder()
    causes.before_mount(server, [client], one)  # type: ignore[arg-type, list-item]
    causes.during_load(server, [client], one).join()  # type: ignore[arg-type, list-item]
    segments, opened, closed = server.scripts
    assert "gso_max_segs 1" in segments
    assert "mtu 1414" in opened
    assert "del dev vec0 clsact" in closed
    assert not client.scripts


@pytest.mark.parametrize(
    ("words", "calls"),
    [
        ("oltp workers=2 write_pct=50", {"READ", "WRITE"}),
        ("oltp workers=2 mb=1", {"READ"}),
        ("metadata workers=2", {"create", "stat", "rename", "unlink"}),
        ("maildir", {"deliver", "fetch"}),
        ("database workers=2 shared=1", {"transaction"}),
        ("write_back", {"fsync"}),
        ("locks workers=2 hold_ms=1", {"transaction"}),
        ("listing", {"listing"}),
    ],
)
def test_a_load_measures_itself_and_leaves_nothing(words: str, calls: set[str], tmp_path: Path) -> None:
    """Each load runs as a guest runs it, times its own calls, and removes what it made."""
    (tmp_path / "data.bin").write_bytes(bytes(2 << 20))
    (tmp_path / "many").mkdir()
    (tmp_path / "many" / "a").touch()
    command = [sys.executable, "-S", "-E", str(host.HERE / "workload.py"), *words.split(), "think_ms=1"]
    measured: dict[str, Any] = {"calls": {}}
    for seconds in (0.3, 3, 30):  # a busy machine comes to some kinds of calls later
        done = subprocess.run(
            [*command, f"seconds={seconds}"], cwd=tmp_path, capture_output=True, text=True, timeout=90, check=False
        )
        assert done.returncode == 0, done.stderr
        measured = json.loads(done.stdout)
        if set(measured["calls"]) == calls:
            break
    assert set(measured["calls"]) == calls
    assert all(kind["count"] > 0 and 0 <= kind["mean_ms"] <= kind["max_ms"] for kind in measured["calls"].values())
    assert "app_ms" not in measured  # but with direct I/O a call is no operation
    assert sorted(path.name for path in tmp_path.iterdir()) == ["data.bin", "many"]


COUNTS = st.lists(st.integers(0, 10**9), min_size=9, max_size=9)


def mountstats(ops: dict[str, list[int]]) -> str:
    """As the kernel prints it, with two connections before the operations."""
    lines = "".join(f"\t{name:>12}: {' '.join(map(str, counts))}\n" for name, counts in ops.items())
    head = "device server:/srv/export mounted on /mnt/nfs with fstype nfs statvers=1.1\n\topts:\trw,vers=3\n"
    return (
        head + "\txprt:\ttcp 1 2 3\n\txprt:\ttcp 4 5 6\n\tper-op statistics\n" + lines + "\ndevice tmpfs mounted on /\n"
    )


@given(before=st.dictionaries(st.sampled_from(["READ", "WRITE"]), COUNTS), grown=COUNTS)
def test_the_truth_of_mountstats_is_what_was_added(before: dict[str, list[int]], grown: list[int]) -> None:
    """Whatever had been counted before, the difference is the ops of the load and their means."""
    added = {"READ": grown, "WRITE": [0] * 9}
    after = {name: [a + b for a, b in zip(before.get(name, [0] * 9), added[name], strict=True)] for name in added}
    found = truth.mountstats_delta(mountstats(before), mountstats(after))
    assert set(found) == ({"READ"} if grown[0] else set())
    if grown[0]:
        assert found["READ"]["ops"] == grown[0]
        assert found["READ"]["avg_rtt_ms"] == pytest.approx(grown[6] / grown[0], abs=0.0006)


def test_the_truth_of_disk_and_tcp_is_what_was_added() -> None:
    """Means of the load's own requests; none gives no mean, and segments sent again are a difference too."""
    before = {"reads": 10, "read_ms": 100, "writes": 4, "write_ms": 4}
    after = {"reads": 30, "read_ms": 500, "writes": 4, "write_ms": 4}
    found = truth.disk_delta(before, after)
    assert (found["reads"], found["avg_read_ms"], found["writes"], found["avg_write_ms"]) == (20, 20.0, 0, 0.0)
    snmp = "Tcp: RtoAlgorithm RtoMin\nTcp: 1 200 120000 -1 334 15 0 0 2 224260 450182 {} 0 0 0\n"
    assert truth.retransmitted(snmp.format(231), snmp.format(240)) == 9


LACKS = host.missing()


@pytest.fixture(scope="module")
def short_run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The results of the short set, run on real kernels."""
    if LACKS:
        pytest.skip(f"the lab's guests need {', '.join(LACKS)}")
    results = tmp_path_factory.mktemp("lab")
    command = [sys.executable, "-m", "laboratory", "run", "--short", "--results", str(results)]
    environment = os.environ | {"PYTHONPATH": str(SCRIPTS)}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=600, check=False)
    assert done.returncode == 0, done.stderr
    return results


@pytest.mark.long
def test_real_kernels_are_judged_right(short_run: Path, tmp_path: Path) -> None:
    """Two threads, two slots: what was injected into real kernels is what nfslat finds."""
    assert judge.main([str(short_run), "--json", str(tmp_path / "judged.json")]) in (0, 1)
    judged: dict[str, Any] = json.loads((tmp_path / "judged.json").read_text())
    wrong = [pair for pair in judged["scenarios"] if pair["state"] == "wrong"]
    assert len(judged["scenarios"]) == sum(one.short for one in EVERY)
    assert not wrong, wrong


@pytest.mark.long
def test_a_run_leaves_what_the_guide_says(short_run: Path) -> None:
    """Captures, snapshots, scenario and truth of each scenario, and nothing that runs."""
    for one in (each for each in EVERY if each.short):
        folder = short_run / one.name
        names = {path.name for path in folder.iterdir()}
        snapshots = {f"{name}.{when}.txt" for name in ("server", "client") for when in ("before", "after")}
        assert names == {"server.pcap.gz", "client.pcap.gz", "truth.json", "scenario.toml", *snapshots}
        found = json.loads((folder / "truth.json").read_text())
        assert found["scenario"] == one.name
        assert found["workload"]["fio"]["read"]["ios"] > 0
        assert found["server_storage"]["diskstats_delta_during_load"]["reads"] > 0
        for side in ("server", "client"):
            assert "0 packets dropped by kernel" in found["capture"][side]["result"]
            assert "#### nfslat: end" in (folder / f"{side}.after.txt").read_text()
