"""Captures and other limits -> what a replay predicts, held against a simulation that had those limits."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from queue_captures import write_captures
from queues import MS, US, simulate

from nfslat.answer.words import ms
from nfslat.cli import main as cli

LOAD: dict[str, Any] = {
    "workers": 24, "count": 1500, "law": "exponential", "seed": 7,
    "mean_ns": {"READ": 5 * MS, "WRITE": 5 * MS, "GETATTR": 50 * US},
}  # fmt: skip


def _what_if(capsys: pytest.CaptureFixture[str], folder: Path, *arguments: str, **limits: int) -> list[dict[str, Any]]:
    captures = write_captures(simulate(**LOAD, **limits), folder)
    assert cli.main([*map(str, captures), *arguments, "--json", "-"]) == 0
    found: list[dict[str, Any]] = json.loads(capsys.readouterr().out)["what_if"]
    return found


def test_more_threads_are_predicted(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """From 2 threads the mean with 8 is predicted within 10 %, and the replay of what was is as good."""
    found = _what_if(capsys, tmp_path, "--what-if", "threads=8", "--what-if", "threads=64", threads=2)
    truth = simulate(**LOAD, threads=8)
    assert [one["asked"] for one in found] == ["threads=8", "threads=64"]
    assert abs(found[0]["error"]) < 0.02
    assert found[0]["before"]["threads"] == 2
    assert found[0]["before"]["limit"] == "threads"
    assert found[0]["after"]["client_ms"]["mean"] == pytest.approx(truth.client_ns.mean() / MS, rel=0.1)
    assert found[1]["after"]["client_ms"]["mean"] < found[0]["after"]["client_ms"]["mean"]
    assert found[1]["after"]["limit"] == "load"
    assert "Storage that has more to do at once may take longer" in found[0]["warning"]


def test_more_slots_are_predicted_where_the_sessions_are_known(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """From 2 slots the application's mean with 16 is predicted within 10 %; slots then still hold it."""
    found = _what_if(capsys, tmp_path, "--what-if", "slots=16", "--sessions", "24", threads=64, slots=2)
    truth = simulate(**LOAD, threads=64, slots=16)
    assert found[0]["before"]["slots"] == 2
    assert found[0]["after"]["application_ms"]["mean"] == pytest.approx(truth.application_ns.mean() / MS, rel=0.1)


def test_a_question_without_an_answer_leaves_the_report(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Too few calls to know the time in a thread: the report is printed, and says why there is no replay."""
    captures = write_captures(simulate(**(LOAD | {"count": 40}), threads=2), tmp_path)
    assert cli.main([*map(str, captures), "--what-if", "threads=8", "--json", "-"]) == 0
    out, err = capsys.readouterr()
    report = json.loads(out)
    assert (err, report["what_if"]) == ("", [])
    (note,) = [one for one in report["notes"] if one.startswith("--what-if threads=8 has no answer: ")]
    assert "too few" in note
    assert report["matched"]["ops"] > 0


def test_nothing_is_replayed_unasked(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Without --what-if the report has none."""
    assert _what_if(capsys, tmp_path, threads=2) == []


@pytest.mark.parametrize(
    ("sample", "asked"),
    [
        (("server-threads",), "threads=64"),
        (("client-slots", "--app-ms", "READ=431.3", "--app-ms", "WRITE=495.3"), "slots=128"),
        (("session-slots", "--app-ms", "READ=300", "--app-ms", "WRITE=300"), "slots=64"),
    ],
)
def test_the_answer_and_the_table_have_one_set_of_figures(
    sample: tuple[str, ...], asked: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """What a finding promises is what ``--what-if`` says of the same number: over the same ops, to the last digit."""
    folder = Path(__file__).parents[1] / "samples" / sample[0]
    captures = [str(folder / f"{side}.pcap.gz") for side in ("server", "client")]
    assert cli.main([*captures, *sample[1:], "--what-if", asked, "--json", "-"]) == 0
    report = json.loads(capsys.readouterr().out)
    (one,) = report["what_if"]
    kinds = ("application_ms", "expected_application_ms")
    now, then = (one[kind] for kind in kinds) if one["application_ms"] else (
        one[kind]["mean"] for kind in ("client_ms", "expected_client_ms")
    )  # fmt: skip
    assert f"a replay of the load takes {ms(then)} instead of {ms(now)} ms on average" in report["verdict"]["text"]
    if not one["of"]:
        total = report["matched"]["total"]
        assert one["client_ms"] == {"mean": total["client_ms"]["mean"], "p99": total["client_ms"]["p99"]}
        assert one["ops_given"] == total["count"]
