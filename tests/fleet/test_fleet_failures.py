"""`nfslat fleet` on one machine when something fails: it does what can be done, says what cannot, and goes on."""

from __future__ import annotations

import contextlib
import errno
import os
import resource
import shutil
import signal
import subprocess
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import NoReturn
from unittest import mock

import pytest
from fleet_made.captures import make
from fleet_made.fleets import small_plan
from fleet_runs import FleetRun, Ran, begin, captures, clients_of, figures, measured_of, workers_of
from in_process import run_here

from nfslat.cli.main import main
from nfslat.errors import InputError, UsageError
from nfslat.fleet.run import executor
from nfslat.fleet.run.executor import WorkersGone
from nfslat.fleet.run.finished import RunFolder

pytestmark = pytest.mark.skipif(not os.path.isdir("/proc/self"), reason="processes are found in /proc")

# Of a third of the time: what fails does so however much there is.
_PLAN = replace(small_plan(1), seconds=4.0, busier_at_s=2.0)


@pytest.fixture(scope="module")
def fleet(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Captures of twelve clients, which no test changes."""
    folder = tmp_path_factory.mktemp("fleet")
    make(_PLAN, folder)
    return folder


@pytest.fixture(scope="module")
def undisturbed_run(fleet: Path, tmp_path_factory: pytest.TempPathFactory) -> Ran:
    """What is said of them when nothing fails."""
    folder = tmp_path_factory.mktemp("undisturbed")
    ran = run_here(folder, [*captures(fleet), "--out", folder / "out"])
    assert (ran.status, ran.problems()) == (0, "")
    return ran


def _kept(run: FleetRun, out: Path, count: int) -> None:
    run.until(lambda: len(list(out.glob("finished/*"))) >= count)


def test_a_worker_that_is_killed_costs_nothing(tmp_path: Path) -> None:
    """Its tasks are done by others: the report is the same, a note says what happened, and the run was a success."""
    fleet, out = tmp_path / "fleet", tmp_path / "out"
    make(replace(_PLAN, clients=_PLAN.clients[:6]), fleet)
    undisturbed_run = run_here(tmp_path / "undisturbed", [*captures(fleet), "--out", tmp_path / "other"])
    run = begin(tmp_path / "disturbed", [*captures(fleet), "--out", out, "--quiet"])
    _kept(run, out, 1)
    os.kill(workers_of(run)[0], signal.SIGKILL)
    ran = run.end()
    assert ran.status == 0, ran.err
    assert "1 worker was lost (process " in "".join(ran.report["notes"])
    assert figures(ran.report) == figures(undisturbed_run.report)


@pytest.mark.long
def test_ctrl_c_ends_it_at_once_and_it_goes_on(fleet: Path, undisturbed_run: Ran, tmp_path: Path) -> None:
    """A terminal sends Ctrl-C to all processes: 130, in one line, within seconds; the next run uses what is there."""
    out = tmp_path / "out"
    run = begin(tmp_path, [*captures(fleet), "--out", out])
    _kept(run, out, 3)
    os.killpg(run.process.pid, signal.SIGINT)
    ran = run.end()
    assert (ran.status, ran.said, ran.report) == (130, "nfslat: interrupted", {})
    again = run_here(tmp_path, [*captures(fleet), "--out", out])
    assert again.status == 0
    assert again.report["run"]["tasks"]["cached"] >= 3
    assert figures(again.report) == figures(undisturbed_run.report)


@pytest.mark.parametrize("number", [signal.SIGTERM, pytest.param(signal.SIGHUP, marks=pytest.mark.long)])
def test_a_signal_while_workers_start(fleet: Path, tmp_path: Path, number: signal.Signals) -> None:
    """Nothing is left of workers that are just being started, when the run is ended or its terminal is closed."""
    run = begin(tmp_path, captures(fleet))
    run.until(lambda: workers_of(run))
    os.kill(run.process.pid, number)
    ran = run.end()
    assert (ran.status, ran.said) == (128 + number, "")


@pytest.mark.long
def test_nobody_reads_the_report(fleet: Path, tmp_path: Path) -> None:
    """Where what it is piped to has ended, there is nothing to complain of."""
    run = begin(tmp_path, captures(fleet))
    assert run.process.stdout is not None
    run.process.stdout.close()
    run.process.stdout = None
    assert run.end().status == 128 + signal.SIGPIPE


def test_files_that_cannot_be_read(fleet: Path, undisturbed_run: Ran, tmp_path: Path) -> None:
    """Each is named; of those that are damaged what precedes is used, and figures of the others are as they were."""
    copy = tmp_path / "fleet"
    shutil.copytree(fleet, copy)
    clients = [copy / "clients" / f"c{number:03}" / "client.pcap" for number in range(12)]
    middle, cut, garbage, begun, double, nowhere, headless = clients[:7]
    content = middle.read_bytes()
    half = len(content) // 2
    middle.write_bytes(content[:half] + b"\xff" * 4000 + content[half + 4000 :])
    cut.write_bytes(cut.read_bytes()[:half])
    garbage.write_bytes(b"garbage" * 1000)
    begun.write_bytes(b"")
    shutil.copy(double, double.with_name("again.pcap"))
    nowhere.unlink()
    nowhere.symlink_to(copy / "nothing")
    headless.write_bytes(headless.read_bytes()[:24] + b"\xee" * 5000)

    out = tmp_path / "out"
    ran = run_here(tmp_path, [*captures(copy), "--out", out])
    assert ran.status == 4
    told = {one["what"]: one for one in ran.report["problems"]}
    whys = {name: one["why"] for name, one in told.items() if one["fatal"]}
    assert whys.pop(str(middle)).startswith("is damaged, or was not copied to its end: after packet ")
    assert "the file ends in the middle of a record" in whys.pop(str(cut))
    assert "neither pcap" in whys.pop(str(garbage))
    assert "cannot be read (No such file" in whys.pop(str(nowhere))
    assert "no packet in its 5,024 bytes can be read" in whys.pop(str(headless))
    assert not whys
    assert "the file is empty" in told[str(begun)]["why"]
    assert "the same packets as in" in "".join(one["why"] for one in told.values())

    before, after = measured_of(undisturbed_run.report), measured_of(ran.report)
    states = {name: one["state"] for name, one in clients_of(ran.report).items()}
    harmed = {name for name, one in after.items() if one != before[name]}
    assert len(harmed) == 6
    assert sum(states[name] == "inferred" for name in harmed) == 4
    assert sum(0 < after[name]["ops"] < before[name]["ops"] for name in harmed if states[name] == "compared") == 2


def test_a_damaged_server_file_among_others(tmp_path: Path) -> None:
    """One of the server's files is damaged: the others are used, now and when it is run again; both say so."""
    make(replace(_PLAN, clients=_PLAN.clients[:4]), tmp_path / "fleet", files=4)
    bad = tmp_path / "fleet" / "server" / "server.pcap2"
    content = bad.read_bytes()
    half = len(content) // 2
    bad.write_bytes(content[:half] + b"\xff" * 4000 + content[half + 4000 :])
    first, again = (run_here(tmp_path, [*captures(tmp_path / "fleet"), "--out", tmp_path / "out"]) for _ in "12")
    for ran in (first, again):
        assert ran.status == 4
        (problem,) = ran.report["problems"]
        assert problem["what"] == str(bad)
        assert problem["cost"] == "what comes behind that in this file is missing on this side"
        assert all(one["state"] == "compared" and one["ops"] > 200 for one in ran.report["clients"])
        assert len(ran.report["clients"]) == 4
    assert again.report["run"]["tasks"]["cached"] == 5
    assert figures(first.report) == figures(again.report)


class _OddError(Exception):
    """It cannot be made anew of what it keeps."""

    def __init__(self, one: int, other: int) -> None:
        super().__init__(one + other)


def _task(what: object) -> object:
    """A number is given back; the others are what may go wrong."""
    if what == "kill":
        signal.raise_signal(signal.SIGKILL)
    if what == "odd":
        raise _OddError(1, 2)
    if what == "gone":
        raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), "/nowhere")
    if what == "unreadable":
        return lambda: None
    if what == "much":
        taken = bytearray(b"x") * 600_000_000
        time.sleep(60)  # it is ended before
        return len(taken)
    return what


@pytest.mark.parametrize("workers", [1, 3])
def test_a_task_that_kills_each_worker(tmp_path: Path, workers: int) -> None:
    """It is given up, and all others are done, also those that were in progress when it took a worker with it."""
    tasks = ["kill", 0, 1, "kill", 2, 3, 4]
    with executor.processes(workers, "1GB", tmp_path) as pool:
        done = dict(pool.each(_task, tasks))
    assert {number: one.value for number, one in done.items() if not one.why_not} == {1: 0, 2: 1, 4: 2, 5: 3, 6: 4}
    for number in (0, 3):
        why = done[number].why_not
        assert why.startswith("2 workers died over it, likely at the bound of 1.0 GB on their memory; give each more")
    assert len(pool.lost) >= 3
    assert pool.again >= 2


def test_memory_is_bounded(tmp_path: Path) -> None:
    """A process that takes more than it may is ended, and so is the one that tries again; the others go on."""
    with executor.processes(2, "400MB", tmp_path) as pool:
        done = dict(pool.each(_task, [1, "much", 2]))
    assert (done[0].value, done[2].value) == (1, 2)
    assert "likely at the bound of 0.4 GB" in done[1].why_not


def test_what_a_task_ends_with(tmp_path: Path) -> None:
    """Each exception is told in a line, also one that no other process can read, and a result that cannot be sent. The
    worker goes on."""
    with executor.processes(1, None, tmp_path) as pool:
        done = dict(pool.each(_task, ["odd", "gone", "unreadable", 1]))
    assert [done[at].why_not for at in (0, 1, 3)] == ["_OddError: 3", "/nowhere: No such file or directory", ""]
    assert "_task.<locals>.<lambda>" in done[2].why_not
    assert pool.lost == []


def test_workers_that_do_not_come(tmp_path: Path) -> None:
    """Where no process can be started, fewer are tried; where there is not even one, the run ends, and says why."""
    counts = []

    def full(count: int, _memory: int, _folder: Path) -> NoReturn:
        counts.append(count)
        raise OSError(errno.EAGAIN, os.strerror(errno.EAGAIN))

    with (
        mock.patch.object(executor, "forked", full),
        pytest.raises(WorkersGone, match=r"no process can be started \(Resource temporarily unavailable\)"),
        executor.processes(4, "1GB", tmp_path),
    ):
        pass
    assert counts == [4, 2, 1]


@pytest.mark.parametrize(("memory", "why"), [("60MB", "a worker takes 320 MB"), ("much", "give a size")])
def test_a_bound_that_no_worker_can_keep(tmp_path: Path, memory: str, why: str) -> None:
    """It is refused before anything is started: workers would die, one after the other."""
    with pytest.raises(UsageError, match=f"--worker-memory {memory}: {why}"), executor.processes(1, memory, tmp_path):
        pass


@contextlib.contextmanager
def _disk(place: Path, size: str) -> Iterator[None]:
    place.mkdir()
    if (
        os.geteuid()
        or subprocess.run(
            ["mount", "-t", "tmpfs", "-o", f"size={size}", "nfslat-test", str(place)], check=False, capture_output=True
        ).returncode
    ):
        pytest.skip("a disk of its own needs root")
    try:
        yield
    finally:
        subprocess.run(["umount", "-l", str(place)], check=True)


def test_a_disk_that_fills_up(fleet: Path, undisturbed_run: Ran, tmp_path: Path) -> None:
    """What stands in the way is named with its place; when there is room the next run goes on, with the same report."""
    disk = tmp_path / "disk"
    with _disk(disk, "200k"):
        ran = run_here(tmp_path, [*captures(fleet), "--out", disk / "out"])
        assert ran.status in (3, 4)
        said = ran.said + ran.problems()
        assert f"{disk}/out/" in said
        assert os.strerror(errno.ENOSPC) in said
        assert not [name for name in (disk / "out").rglob("*") if name.name.startswith((".", "tried"))]
        subprocess.run(["mount", "-o", "remount,size=60m", str(disk)], check=True)
        again = run_here(tmp_path, [*captures(fleet), "--out", disk / "out"])
        assert again.status == 0
        assert figures(again.report) == figures(undisturbed_run.report)
        subprocess.run(["mount", "-o", "remount,ro", str(disk)], check=True)
        with pytest.raises(InputError, match=r"cannot be written \(Read-only file system\); name another place"):
            RunFolder(f"{disk}/out").check()


def test_places_that_nothing_can_be_written_to(fleet: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """An --out that no other process sees, or that there is no file system for, is refused in one line."""
    arguments = ["fleet", *map(str, captures(fleet)), "--out"]
    assert main([*arguments, "memory://fleet"]) == 2
    assert "no other process sees that" in capsys.readouterr().err
    assert main([*arguments, "nothing://fleet"]) == 3
    assert capsys.readouterr().err.count("\n") == 1


def test_a_write_that_fails_leaves_what_was_there(tmp_path: Path) -> None:
    """A name has all of what was written, or what it had before; nothing else is left in the folder."""
    folder = RunFolder(str(tmp_path))
    folder.write("clients/one.json", b"before")
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (4096, before[1]))
    try:
        with pytest.raises(OSError, match="File too large") as caught:
            folder.write("clients/one.json", bytes(100_000))
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert caught.value.filename == f"{tmp_path}/clients/one.json"
    assert folder.read("clients/one.json") == b"before"
    assert [one.name for one in (tmp_path / "clients").iterdir()] == ["one.json"]
