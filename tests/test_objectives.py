"""What the user calls slow, and what is to be an exit status -> the verdict, the status, and what is said of files."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from nfslat.cli import main as cli
from nfslat.errors import UsageError
from nfslat.figures.objectives import parse_slo
from nfslat.model.thresholds import Threshold

SAMPLES = Path(__file__).parents[1] / "samples"
THREADS = tuple(str(SAMPLES / "server-threads" / f"{side}.pcap.gz") for side in ("server", "client"))


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("READ=5ms", Threshold("READ=5ms", "READ", limit=5.0)),
        ("read.p99>0.02s", Threshold("read.p99>0.02s", "READ", figure="p99", limit=20.0)),
        ("all=10", Threshold("all=10", limit=10.0)),
        ("p95 > 2m", Threshold("p95 > 2m", figure="p95", limit=120_000.0)),
        ("ALL.max=500us", Threshold("ALL.max=500us", figure="max", limit=0.5)),
    ],
)
def test_what_is_too_slow_is_read(text: str, said: Threshold) -> None:
    """An operation or all of them, a figure or the mean, a unit or milliseconds."""
    assert parse_slo(text) == said


@pytest.mark.parametrize(
    "text",
    ["5ms", "READ", "READ>", "READ>0ms", "READ.p98>5", "RAED=5ms", "READ=-1", "READ>5min", "server>5ms", "READ<5"],
)
def test_what_is_not_understood_is_refused(text: str) -> None:
    """With an example, or with the operation that was meant."""
    with pytest.raises(UsageError, match="--slo"):
        parse_slo(text)


def _verdict(capsys: pytest.CaptureFixture[str], *options: str) -> dict[str, Any]:
    assert cli.main([*THREADS, *options, "--json", "-"]) == 0
    verdict: dict[str, Any] = json.loads(capsys.readouterr().out)["verdict"]
    return verdict


def test_objectives_are_judged_in_text_and_json(capsys: pytest.CaptureFixture[str]) -> None:
    """READs take 303 ms on average and 620 at the 99th percentile; nothing is known of RENAME."""
    found = _verdict(
        capsys, "--slo", "READ=5ms", "--slo", "READ.p99=700ms", "--slo", "RENAME=5ms", "--slo", "all.max=1s"
    )
    met = {one["asked"]: one["met"] for one in found["objectives"]}
    assert met == {"READ=5ms": False, "READ.p99=700ms": True, "RENAME=5ms": None, "all.max=1s": True}
    assert found["outcome"] == "fault"
    assert "Not met: READ mean 303.5 ms, at most 5 wanted." in found["text"]
    assert found["objectives"][0]["measured_ms"] == pytest.approx(303.5, abs=0.1)


def test_what_is_quick_enough_is_no_fault(capsys: pytest.CaptureFixture[str]) -> None:
    """The same capture, for one who does not mind: nobody is to blame, and what the time consists of is said."""
    found = _verdict(capsys, "--slo", "all=1s")
    assert (found["outcome"], found["layer"], found["also"][0]) == ("no-fault", None, "server-threads")


def test_the_applications_mean_counts_where_it_is_known(capsys: pytest.CaptureFixture[str]) -> None:
    """Not the response time on the wire, which is a part of it."""
    found = _verdict(capsys, "--slo", "READ=310ms", "--app-ms", "READ=320")
    (one,) = found["objectives"]
    assert (one["of"], one["measured_ms"], one["met"]) == ("application", 320.0, False)


@pytest.mark.parametrize(
    ("options", "status"),
    [
        ((), 0),
        (("--fail-on", "fault"), 1),
        (("--fail-on", "undecided"), 0),
        (("--fail-on", "undecided", "--fail-on", "fault"), 1),
        (("--fail-on", "fault", "--slo", "all=1s"), 0),
    ],
)
def test_a_verdict_can_be_the_exit_status(
    capsys: pytest.CaptureFixture[str], options: tuple[str, ...], status: int
) -> None:
    """1 where it is one of those that are named; the report is the same."""
    assert cli.main([*THREADS, *options]) == status
    assert capsys.readouterr().out


def test_files_are_named_when_they_are_there(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    """On standard error, in order; not with --quiet."""
    names = [tmp_path / "report.json", tmp_path / "ops.csv"]
    arguments = [*THREADS, "--json", str(names[0]), "--csv", str(names[1])]
    assert cli.main(arguments) == 0
    assert capsys.readouterr().err.splitlines() == [f"nfslat: wrote {name}" for name in names]
    assert all(name.stat().st_size for name in names)
    assert cli.main([*arguments, "--quiet", "--overwrite"]) == 0
    assert capsys.readouterr().err == ""


def test_the_verdict_does_not_wait_for_files(tmp_path: Path) -> None:
    """It is on standard output before the first file is complete: a pipe as the file, which nobody has read yet."""
    fifo = tmp_path / "ops.csv"
    os.mkfifo(fifo)
    running = subprocess.Popen(
        [sys.executable, "-m", "nfslat", *THREADS, "--csv", str(fifo), "--overwrite"],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    with running, fifo.open() as rows:
        assert running.stdout is not None
        assert running.stdout.readline().startswith("Calls queue in the server")
        assert rows.readline().startswith("xid")
        rows.read()
        running.stdout.read()
    assert running.returncode == 0
