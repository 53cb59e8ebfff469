"""`nfslat fleet` from files to report, with workers in this process: what it finds in a fleet of which all is known."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest
from fleet_made.fleets import small
from in_process import workers_here

from nfslat.cli import main as cli
from nfslat.fleet.run.server import ServerCapture
from nfslat.report import vega
from nfslat.report.html import page as report_page

_SLOTS, _SLOW = "few slots", "slow path"


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, Any]]:
    """12 clients: 2 behind a slow path, 1 with 2 slots; the server's 4 threads are too few from half time on."""
    folder = tmp_path_factory.mktemp("made")
    return folder, small(folder, files=2)


@pytest.fixture(scope="module")
def done(made: tuple[Path, dict[str, Any]], tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, Any]]:
    """Where a run kept what it made, and its report."""
    out = tmp_path_factory.mktemp("out")
    return out, _fleet(made[0], out)


def _fleet(made: Path, out: Path, *more: str, status: int = 0) -> dict[str, Any]:
    report = out / "fleet.json"
    arguments = ["fleet", str(made / "server"), str(made / "clients"), "--out", str(out), "--json", str(report), "-q"]
    with workers_here():
        assert cli.main([*arguments, "--workers", "2", *more]) == status
    found: dict[str, Any] = json.loads(report.read_text(encoding="utf-8"))
    return found


def _named(truth: Mapping[str, Any], group: str) -> list[str]:
    return sorted(client["address"] for client in truth["clients"] if client["group"] == group)


def _pattern(report: Mapping[str, Any], cause: str) -> dict[str, Any]:
    (found,) = [one for one in report["patterns"] if one["cause"] == cause]
    return dict(found)


def test_the_slow_path_is_found_with_its_clients(
    made: tuple[Path, dict[str, Any]], done: tuple[Path, dict[str, Any]]
) -> None:
    """The clients behind it, no others, by their subnet; and by how much they are slower, within 2 %."""
    truth, found = made[1], _pattern(done[1], "net-delay")
    assert (found["scope"], found["layer"], found["dimension"]) == ("group", "network", "subnet")
    assert sorted(found["clients"]) == _named(truth, _SLOW)
    ms = {group: [c["network_ms"] for c in truth["clients"] if c["group"] == group] for group in (_SLOW, "plain")}
    beyond = sum(ms[_SLOW]) / len(ms[_SLOW]) - sorted(ms["plain"])[len(ms["plain"]) // 2]
    assert found["effect_ms"] == pytest.approx(beyond, rel=0.02)


def test_the_client_with_few_slots_is_found(
    made: tuple[Path, dict[str, Any]], done: tuple[Path, dict[str, Any]]
) -> None:
    """By its name, and with the number of slots, though its response times are the best of all."""
    found = _pattern(done[1], "client-slots")
    assert (found["scope"], found["clients"]) == ("one", _named(made[1], _SLOTS))
    (client,) = [one for one in done[1]["clients"] if one["name"] in found["clients"]]
    (truth,) = [one for one in made[1]["clients"] if one["group"] == _SLOTS]
    assert (client["slots"], client["outlier"]) == (truth["slots"], True)


def test_the_servers_threads_are_too_few_in_the_second_half(
    made: tuple[Path, dict[str, Any]], done: tuple[Path, dict[str, Any]]
) -> None:
    """When it began, within a window; how many threads there are; how long calls waited before and then, within 5 %."""
    truth, report = made[1]["server"], done[1]
    before, then = report["server"]["phases"][0], report["server"]["phases"][-1]
    assert then["limited"]
    assert then["threads"] == truth["threads"]
    begin = datetime.fromisoformat(report["captures"]["begin"])
    since_s = (datetime.fromisoformat(then["begin"]) - begin).total_seconds()
    assert since_s == pytest.approx(6, abs=report["window_s"])
    waits = [half["wait_for_thread_ms"] for half in truth["halves"]]
    assert then["queue_ms"] == pytest.approx(waits[1], rel=0.15)
    assert (before["queue_ms"] or 0) < 0.1 * then["queue_ms"]
    assert _pattern(report, "server-threads")["scope"] == "all"


def test_every_clients_figures_are_the_true_ones(
    made: tuple[Path, dict[str, Any]], done: tuple[Path, dict[str, Any]]
) -> None:
    """Ops exactly, means of client, network and server within 0.1 %; and the totals are theirs, summed."""
    by_name = {one["name"]: one for one in done[1]["clients"]}
    for truth in made[1]["clients"]:
        found = by_name[truth["address"]]
        assert found["ops"] == truth["ops"]
        for part in ("client_ms", "network_ms", "server_ms"):
            assert found[part]["mean"] == pytest.approx(truth[part], rel=1e-3, abs=1e-3)
    total = done[1]["total"]
    assert total["count"] == sum(one["ops"] for one in made[1]["clients"])
    mean = sum(one["ops"] * one["client_ms"]["mean"] for one in by_name.values()) / total["count"]
    assert total["client_ms"]["mean"] == pytest.approx(mean, rel=1e-9)


def test_a_second_run_decodes_nothing_and_says_the_same(
    made: tuple[Path, dict[str, Any]], done: tuple[Path, dict[str, Any]], monkeypatch: pytest.MonkeyPatch
) -> None:
    """All clients are found done, and what is known of the server; nothing of the report but the run itself differs."""
    monkeypatch.delattr(ServerCapture, "half")
    monkeypatch.delattr(ServerCapture, "brief")
    again = _fleet(made[0], done[0])
    assert again["run"]["tasks"]["cached"] == 1 + len(made[1]["clients"])
    assert _figures(again) == _figures(done[1])


def _figures(report: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in report.items() if name not in ("run", "nfslat")}


def test_one_client_is_shown_again_without_its_captures(
    done: tuple[Path, dict[str, Any]], capsys: pytest.CaptureFixture[str]
) -> None:
    """`--show` prints the two-sided report that the run kept, with the server's threads as all clients used them."""
    name = done[1]["clients"][0]["name"]
    kept = json.loads((done[0] / "clients" / f"{name}.json").read_text(encoding="utf-8"))
    assert cli.main(["fleet", "--out", str(done[0]), "--show", name, "--json", "-"]) == 0
    shown = json.loads(capsys.readouterr().out)
    assert shown == kept
    assert kept["inflight"]["server"]["threads_estimate"] == 4


def test_a_page_that_cannot_be_drawn_takes_nothing_with_it(
    made: tuple[Path, dict[str, Any]],
    done: tuple[Path, dict[str, Any]],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """V8 that is killed leaves text and JSON, of the fleet and of one client; a line and the status say so."""
    pytest.importorskip("vl_convert", reason="vl-convert-python (the extra html) is not installed")
    report_page._library.cache_clear()
    monkeypatch.setattr(vega, "_PROGRAM", "import os; os.abort()")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    page = tmp_path / "page.html"
    assert _fleet(made[0], done[0], "--html", str(page), status=3)["clients"] == done[1]["clients"]
    both = [capsys.readouterr()]
    name = done[1]["clients"][0]["name"]
    assert cli.main(["fleet", "--out", str(done[0]), "--show", name, "--html", str(page)]) == 3
    both.append(capsys.readouterr())
    for said in both:
        assert said.err.startswith(f"nfslat: {page}: V8, which draws the pictures, died of SIGABRT")
        assert said.err.count("\n") == 1
        assert said.out.count("\n") > 10
    assert not page.exists()


@pytest.mark.parametrize(
    ("arguments", "status", "said"),
    [
        ([], 2, "name captures"),
        (["gone.pcap"], 3, "gone.pcap: no such file"),
        (["--show", "x"], 2, "--out"),
        (["--show", "x", "--out", "empty"], 3, "no run of"),
        (["--workers", "2", "--scheduler", "tcp://127.0.0.1:1", "x"], 2, "--workers"),
    ],
)
def test_what_makes_no_sense_is_one_line(
    arguments: Sequence[str], status: int, said: str, tmp_path: Path, capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    """With the exit status of its kind, and what to do."""
    monkeypatch.chdir(tmp_path)
    assert cli.main(["fleet", *arguments]) == status
    error = capsys.readouterr().err
    assert said in error
    assert error.count("\n") == 1
