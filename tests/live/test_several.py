"""`nfslat live` of several clients: rows of each, as of a run by itself, and what is said of all of them."""

from __future__ import annotations

import dataclasses
import json
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import pytest
from live_captures import pairs_of
from prometheus_client.parser import text_string_to_metric_families
from queues import MS, simulate
from several_hosts import Talk, at_clients, at_servers

from nfslat.cli.main import main
from nfslat.errors import InputError
from nfslat.live.rows import Row, row_of
from nfslat.live.text import words_of
from nfslat.live.together import Together, whole_of
from nfslat.live.turns import Over, Turns

ROOT = Path(__file__).parents[2]
SAMPLE = ROOT / "samples" / "server-threads"
WELL, FAR = "well.pcap", "far.pcap"
_INTERVAL_S = "3"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A server with threads enough, one client that is near, and one that is far away and has a clock of its own."""
    folder = tmp_path_factory.mktemp("several")
    far = simulate(threads=64, workers=4, rate_per_s=300, network_ns=20 * MS, count=3_500, seed=3)
    talks = [
        Talk("10.1.0.9", "10.1.0.1", simulate(threads=64, workers=4, rate_per_s=300, count=3_000, seed=2)),
        Talk("10.1.0.8", "10.1.0.1", far, client_s=-4.0),
    ]
    at_servers(folder / "server.pcap", *talks)
    for name, talk in zip((WELL, FAR), talks, strict=True):
        at_clients(folder / name, talk)
    return folder


def _live(folder: Path, clients: list[str], out: Path, *options: str) -> list[dict[str, Any]]:
    captures = [str(folder / name) for name in ("server.pcap", *clients)]
    out.unlink(missing_ok=True)
    assert main(["live", *captures, "--interval", _INTERVAL_S, "--json", str(out), *options]) == 0
    return [json.loads(line) for line in out.read_text().splitlines()]


def test_rows_are_those_of_each_by_itself(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of each client the same as without the other one; and a line for both says of whom the cause is."""
    monkeypatch.chdir(folder)
    rows = _live(Path(), [WELL, FAR], tmp_path / "rows")
    out = capsys.readouterr().out
    for client in (WELL, FAR):
        alone = _live(Path(), [client], tmp_path / "alone")
        of_it = [row | {"client": None, "lag_s": 0} for row in rows if row.get("client") == client]
        assert of_it == [row | {"lag_s": 0} for row in alone]
    wholes = [row for row in rows if row["schema"] == "nfslat.live.all/1"]
    assert sum(row["ops"] for row in wholes) == 6_500
    named = [row for row in wholes if row["cause"] == "net-delay"]
    assert len(named) > len(wholes) / 2
    assert all(row["of"] == [FAR] and row["outcome"] == "fault" and row["time_share"] > 0.5 for row in named)
    assert f"net-delay of {FAR}, " in " ".join(out.split())
    assert f"\n{WELL}:\n" in out


def test_metrics_say_of_which_client_they_are(folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A label on each, and none where there is one client."""
    monkeypatch.chdir(folder)
    file = tmp_path / "nfslat.prom"
    for clients in ([WELL, FAR], [WELL]):
        _live(Path(), clients, tmp_path / "rows", "--metrics", str(file))
        samples = [one for family in text_string_to_metric_families(file.read_text()) for one in family.samples]
        expected = set(clients) if len(clients) > 1 else {None}
        assert {one.labels.get("client") for one in samples} == expected
        counts = [one.value for one in samples if one.name == "nfs_client_rpc_count_total"]
        assert counts == ([3_000, 3_500] if len(clients) > 1 else [3_000])


def test_moments_are_those_of_a_client(folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A folder has its client's name, and the packets of the two."""
    monkeypatch.chdir(folder)
    _live(Path(), [WELL, FAR], tmp_path / "rows", "--when", "fault=net-delay", "--out", str(tmp_path), "--ring", "64M")
    names = [one.name for one in tmp_path.iterdir() if one.is_dir()]
    assert names
    assert all(name.endswith("Z-far.pcap-fault-net-delay") for name in names)
    assert (tmp_path / names[0] / "server.pcapng").stat().st_size > 0


def test_ctrl_c_ends_all(folder: Path, tmp_path: Path) -> None:
    """While their captures grow: what was so far is said of each, and the status is that of an interruption."""
    command = [sys.executable, "-m", "nfslat", "live", "--follow", "server.pcap", WELL, FAR, "--interval", _INTERVAL_S]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    with subprocess.Popen(command, stdout=subprocess.PIPE, cwd=folder, text=True, env=environment) as process:
        assert process.stdout is not None
        too_late = threading.Timer(30, process.kill)
        too_late.start()
        seen = ""
        while (line := process.stdout.readline()) and "all: " not in line:
            seen += line
        process.send_signal(signal.SIGINT)
        seen += process.stdout.read()
        too_late.cancel()
        assert process.wait(30) == 130
    assert f"\n{WELL}:\n" in seen
    assert f"\n{FAR}:\n" in seen


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--html", "x"], "--html is about one client"),
        (["--screen"], "--screen is about one client"),
        (["--server", "a", "--client", "b,b"], "b, b: each client is given once"),
        (["--server", "a", "--client", "b,"], "a host has no name"),
        (["c"], "c, d, c: each client is given once"),
        (["--server", "a", "--client", "b", "--client", "c", "--client-addr", "10.0.0.1"], "there are several"),
    ],
)
def test_what_is_about_one_client(options: list[str], words: str, capsys: pytest.CaptureFixture[str]) -> None:
    """Is refused in a line."""
    captures = [] if "--server" in options else ["s", "c", "d"]
    assert main(["live", *captures, *options]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert words in line


def test_a_fifo_cannot_be_read_twice(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """It is not begun."""
    os.mkfifo(tmp_path / "s")
    assert main(["live", str(tmp_path / "s"), "c", "d"]) == 2
    assert "give a file, or use --follow" in capsys.readouterr().err


# --- What is said of all ----------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def row() -> Row:
    """Of the sample, without what was judged."""
    (first, *_) = pairs_of(SAMPLE / "server.pcap.gz", SAMPLE / "client.pcap.gz", 3600.0)
    return dataclasses.replace(row_of(first, None), ops_per_s=10.0, mb_per_s=1.0)


def _of(row: Row, client: str, ms: float, outcome: str, cause: str | None = None, confidence: str = "high") -> Row:
    changes = {"client": client, "client_ms": ms, "outcome": outcome, "cause": cause, "confidence": confidence}
    return dataclasses.replace(row, matched=100, **changes)  # type: ignore[arg-type]


def test_the_fault_is_that_which_has_most_of_the_time(row: Row) -> None:
    """Of several that of the clients which wait longest; one of low confidence does not count, and nothing is well
    while what cannot be told has most of the time."""
    slow, quick = _of(row, "a", 9.0, "fault", "server-threads"), _of(row, "b", 1.0, "fault", "net-delay")
    assert words_of(whole_of([quick, slow])) == ("all: 20 ops/s, 5.00 ms: server-threads of a, 90.0 % of the time")
    both = whole_of([_of(row, "b", 1.0, "fault", "server-threads"), slow])
    assert (both.of, both.time_share, both.clients) == (("a", "b"), 1.0, ("a", "b"))
    doubtful = _of(row, "a", 9.0, "fault", "server-threads", "low")
    assert whole_of([doubtful, quick]).cause == "net-delay"
    well = [_of(row, "b", 1.0, "no-fault"), _of(row, "a", 9.0, "no-fault")]
    assert words_of(whole_of(well)).endswith("5.00 ms: no fault")
    assert whole_of([well[0], _of(row, "a", 9.0, "undecided")]).outcome == "undecided"
    assert whole_of([well[1], _of(row, "b", 1.0, "undecided")]).outcome == "no-fault"


def test_a_client_that_is_late_is_not_waited_for(row: Row) -> None:
    """When another one's next row comes, what there is is said; nothing is said twice."""
    together = Together(["a", "b"])
    a, b = _of(row, "a", 1.0, "no-fault"), _of(row, "b", 1.0, "no-fault")
    found = [[one.clients for one in together.add(row)] for row in (a, b, a, a, b, b)]
    assert found == [[], [("a", "b")], [], [("a",)], [("a", "b")], []]
    assert [one.clients for one in together.end()] == [("b",)]
    assert together.end() == []


# --- Taking turns -----------------------------------------------------------------------------------------


def test_one_runs_at_a_time() -> None:
    """Others run while one waits, and nowhere else."""
    turns, inside, seen = Turns(), threading.Semaphore(1), []

    def work(name: str) -> None:
        for _ in range(20):
            assert inside.acquire(blocking=False)
            seen.append(name)
            time.sleep(0.0005)
            inside.release()
            turns.wait()

    turns.run([lambda: work("a"), lambda: work("b")])
    assert sorted(seen) == ["a"] * 20 + ["b"] * 20
    assert seen != sorted(seen)


def test_what_fails_ends_all() -> None:
    """It is raised, and whoever waits for packets waits no longer."""
    turns, ended = Turns(), []

    def wait() -> None:
        try:
            while True:
                turns.wait()
        except Over:
            ended.append("over")
            raise

    def fail() -> None:
        turns.wait()
        raise InputError("it is damaged")

    with pytest.raises(InputError, match="it is damaged"):
        turns.run([wait, fail, wait])
    assert ended == ["over", "over"]
