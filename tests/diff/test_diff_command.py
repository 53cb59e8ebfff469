"""What `nfslat diff` takes, prints and returns: files of all kinds, checks, and input that is none."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from commands import answered
from runs_by_hand import reported, run, single, wandering
from valid import validator

from nfslat.diff import checks, model, sections
from nfslat.diff.answer import answer
from nfslat.diff.runs import Run
from nfslat.errors import InputError, UsageError

SAMPLES = Path(__file__).parents[2] / "samples"


def _run(arguments: Sequence[str]) -> tuple[int, str, dict[str, Any]]:
    """Exit status, text, and JSON."""
    status, text, found = answered("diff", [*arguments, "-q"])
    validator(model.Diff).validate(found)
    assert model.Diff.from_json(json.dumps(found)).to_dict() == found
    assert max(map(len, text.splitlines())) <= 80
    return status, text, found


def _ops(level_ms: float, ops: int = 1500) -> Run:
    """A run whose server takes so many ms."""
    return run(single(level_ms * wandering(np.random.default_rng(int(level_ms * 10)), ops)[0]))


def _report(path: Path, level_ms: float, count: int = 1500) -> str:
    """A report whose server takes so many ms."""
    with path.open("w", encoding="utf-8") as out:
        reported(level_ms, count=count, findings=level_ms > 5).write_json(out)
    return str(path)


def test_single_ops_have_intervals() -> None:
    """Captures hold single ops: full statistics, and the first line says what changed."""
    found = answer(_ops(2.0), _ops(4.0))
    assert sections.render(found, width=80, color=False).startswith("B is slower: READ 8 KB ")
    assert (found.method, found.verdict.change, found.verdict.layer) == ("slices", "slower", "server")
    mean = found.rows[0].mean
    assert mean is not None
    assert mean.low < mean.difference < mean.high


def test_two_reports(tmp_path: Path) -> None:
    """Reports are compared by operation, with wide intervals, and the finding that is new is named."""
    status, text, found = _run([_report(tmp_path / "a.json", 2.0), _report(tmp_path / "b.json", 20.0)])
    assert status == 0
    assert found["method"] == "summaries"
    assert text.startswith("B is slower: READ 2.00 -> 20.00 ms")
    assert "(server-storage is new)" in " ".join(text.split())
    assert found["verdict"]["cause"] == "server-storage"
    assert found["findings"][0]["ms_b"] == pytest.approx(18.0)


def test_reports_that_cannot_tell_say_so(tmp_path: Path) -> None:
    """A small change between two reports is neither called one nor denied."""
    _, text, found = _run([_report(tmp_path / "a.json", 2.0), _report(tmp_path / "b.json", 2.4)])
    assert found["verdict"]["change"] == "unknown"
    assert "cannot be told from summaries" in " ".join(text.split())


def test_a_report_beside_captures() -> None:
    """One with single ops and one without are compared as summaries."""
    found = answer(Run("a", "report", reported(2.0), None), _ops(20.0))
    assert (found.method, found.a.kind, found.b.kind) == ("summaries", "report", "captures")


@pytest.mark.parametrize(
    ("check", "result"),
    [
        ("mean=10%", "crossed"),
        ("READ.mean=1ms", "crossed"),
        ("READ.server.p50=500us", "crossed"),
        ("mean=300%", "passed"),
        ("network.mean=0ms", "passed"),
        ("read.mean=1s", "passed"),
        ("WRITE.mean=10%", "undecided"),
        ("READ.p99=1s", "undecided"),
    ],
)
def test_checks(check: str, result: str) -> None:
    """A threshold is crossed, passed, or cannot be decided; the text says which."""
    found = answer(_ops(2.0), _ops(4.0), [checks.parse_check(check)])
    assert found.checks[0].result == result
    assert f"--check {check} {result.upper()}" in " ".join(sections.render(found, width=80, color=False).split())


def test_a_check_on_few_ops_does_not_pass() -> None:
    """Equal runs with 30 ops each pass no check, for nobody can say that they are equal."""
    few = run(single(np.linspace(1, 2, 30)))
    found = answer(few, few, [checks.parse_check("mean=50%")])
    assert (found.checks[0].result, found.verdict.change) == ("undecided", "unknown")


def test_checks_on_reports(tmp_path: Path) -> None:
    """A report's figures decide them, and a crossed one ends in status 1; percentiles of several operations are in no
    report."""
    files = [_report(tmp_path / "a.json", 2.0), _report(tmp_path / "b.json", 20.0)]
    wanted = {"READ.p99=5ms": "crossed", "READ.mean=100s": "passed", "server.mean=1ms": "crossed"}
    status, _, found = _run([*files, *(word for check in wanted for word in ("--check", check))])
    assert {one["text"]: one["result"] for one in found["checks"]} == wanted
    assert status == 1
    assert _run([*files, "--check", "READ.mean=100s"])[0] == 0
    rows = reported(2.0).matched.by_op  # type: ignore[union-attr]
    two = replace(reported(2.0), matched=replace(reported(2.0).matched, by_op=[rows[0], replace(rows[0], op="WRITE")]))
    both = Run("two", "report", two, None)
    (check,) = answer(both, both, [checks.parse_check("p99=5ms")]).checks
    assert (check.result, check.reason) == (
        "undecided",
        "a report has percentiles by operation only: --check OP.p99=5ms",
    )


@pytest.mark.parametrize(
    "text", ["mean", "mean>", "mean<10ms", "mean>-5%", "p98>1ms", ">1ms", "READ.>1ms", "disk.mean>1%", "wait>1ms"]
)
def test_checks_that_make_no_sense(text: str) -> None:
    """Each is refused in one line that says what to give."""
    with pytest.raises(UsageError, match="--check") as problem:
        checks.parse_check(text)
    assert "\n" not in str(problem.value)


_WHOLE: dict[str, Any] = {"schema": "nfslat.report/2"}


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"hello",
        b"\xd4\xc3\xb2\xa1" + bytes(40),
        b"{",
        b"{}",
        b'{"schema": "nfslat.report/2"}',
        b'{"schema": "nfslat.stack/1"}',
        json.dumps({**_WHOLE, "matched": None}).encode(),
        json.dumps({**_WHOLE, "matched": {"by_op": []}}).encode(),
        json.dumps({**_WHOLE, "matched": {"by_op": [{"op": "READ"}]}}).encode(),
        json.dumps({**_WHOLE, "matched": []}).encode(),
        json.dumps({**_WHOLE, "matched": {"by_op": "x"}}).encode(),
        b'{"schema": NaN}',
        b'{"schema": "nfslat.report/2", "matched": 1e308}',
        b'{"schema": "nfslat.report/2", "matched": 1e999}',
        b'{"schema": "nfslat.report/2", "matched": ' + b"9" * 5000 + b"}",
        b"{" + b'"a":{' * 100_000,
        b"{\xff}",
        b"xid,program,version,op,client_t0_ns\n0x1,NFS,3,READ,8\n",
    ],
    ids=range(19),
)
def test_input_that_is_none(tmp_path: Path, content: bytes) -> None:
    """Empty, foreign, cut and wrong files end in one line that names the file, as A and as B."""
    path = tmp_path / "bad"
    path.write_bytes(content)
    good = _report(tmp_path / "good", 2.0)
    for files in ([str(path), good], [good, str(path)]):
        with pytest.raises(InputError, match="bad") as problem:
            _run(files)
        assert "\n" not in str(problem.value)


def test_a_report_of_which_a_piece_is_missing(tmp_path: Path) -> None:
    """Whatever key is taken out of a report, or has the wrong type, it is refused or does without."""
    whole = json.loads(Path(_report(tmp_path / "a.json", 20.0)).read_text())
    other = _report(tmp_path / "b.json", 2.0)
    for key in whole:
        wrongs: tuple[Any, ...] = ("absent", None, 7, "text", [], {}, [7])
        for wrong in wrongs:
            broken = {name: value for name, value in whole.items() if name != key or wrong != "absent"}
            if wrong != "absent":
                broken[key] = wrong
            path = tmp_path / "broken.json"
            path.write_text(json.dumps(broken))
            # What escapes is the failure: anything but a refusal in one line.
            with contextlib.suppress(InputError):
                _run([str(path), other])


@pytest.mark.parametrize("mean", [1e300, -1e300, 1e30, 2**63 + 4096])
def test_figures_that_no_run_has(tmp_path: Path, mean: float) -> None:
    """A report with means of 1e300 ms is refused in one line; it is no crossed check, and no overflow."""
    path = tmp_path / "huge.json"
    with pytest.raises(InputError, match=r"huge\.json: .*out of range") as problem:
        _run([_report(tmp_path / "a.json", 2.0), _report(path, mean), "--check", "mean=10%"])
    assert "\n" not in str(problem.value)


@pytest.mark.parametrize("arguments", [[], ["a"], ["a", "b", "c"], ["a", "b", "--after", "s", "c"], ["-", "b"]])
def test_two_runs_are_needed(arguments: list[str]) -> None:
    """Neither one nor three, and none from standard input."""
    with pytest.raises(UsageError):
        _run(arguments)


@pytest.mark.parametrize(
    "arguments", [["--split", "half"], ["a", "b", "--split", "5"], ["a", "--split", "x", "--after", "s", "c"]]
)
def test_split_takes_one_pair(arguments: list[str]) -> None:
    """One folder or one --before, and nothing else."""
    with pytest.raises(UsageError):
        _run(arguments)


def test_filters_need_captures(tmp_path: Path) -> None:
    """A report is finished: what a filter would leave of it nobody knows."""
    with pytest.raises(UsageError, match=r"--op: .*: a finished report; filters need captures"):
        _run([*[_report(tmp_path / "a.json", 2.0)] * 2, "--op", "READ"])


def test_a_folder_without_a_pair(tmp_path: Path) -> None:
    """It says what it holds instead."""
    with pytest.raises(InputError, match=r"no capture named server\.\*"):
        _run([str(tmp_path), str(tmp_path)])
    for name in ("server.pcap0", "server.pcap1", "server.txt", "client.pcap"):
        (tmp_path / name).write_bytes(b"x")
    with pytest.raises(InputError, match=r"holds 2 captures named server\.\* \(server.pcap0, server.pcap1\)"):
        _run([str(tmp_path), str(tmp_path)])


def test_folders_with_captures() -> None:
    """The samples' network delay against loss: the network got faster, and its delay is gone."""
    status, text, found = _run([str(SAMPLES / "slow-network"), str(SAMPLES / "packet-loss")])
    assert status == 0
    assert text.startswith("B is faster: ")
    assert found["verdict"]["layer"] == "network"
    assert found["verdict"]["cause"] == "net-delay"
    assert "net-delay is gone" in " ".join(text.split())
    assert found["a"]["kind"] == "captures"
    parts = [part["change"]["difference"] for part in found["parts"] if not part["depth"]]
    assert sum(parts) == pytest.approx(found["mix"]["same_mix"]["difference"])


def test_one_pair_split_in_halves() -> None:
    """--split half compares a pair with itself, and finds nothing in a load that did not change."""
    folder = SAMPLES / "slow-network"
    pair = [str(folder / f"{side}.pcap.gz") for side in ("server", "client")]
    _, _, found = _run(["--before", *pair, "--split", "half"])
    assert found["verdict"]["change"] == "none"
    assert abs(found["a"]["ops"] - found["b"]["ops"]) <= 1
    _, _, again = _run([str(folder), "--split", "half"])
    assert again["mix"] == found["mix"]
    _, _, reads = _run([str(folder), "--split", "4s", "--op", "READ"])
    assert [row["op"] for row in reads["rows"]] == ["READ"]
    assert reads["a"]["name"].endswith(", before 4s")


def test_answers_do_not_depend_on_chance() -> None:
    """Nothing is drawn at random: the same runs give the same answer."""
    one, other = (run(single(level * wandering(np.random.default_rng(3), 400)[0])) for level in (1.0, 1.1))
    assert answer(one, other, []) == answer(one, other, [])


def test_a_check_of_several_kinds_that_are_few_does_not_pass() -> None:
    """Forty ops in all, however many kinds they are of: a rise among them is neither crossed nor passed for certain."""
    few = [
        run(single(np.linspace(1, 2, 40) + more, names=("READ", "GETATTR"), op=np.arange(40) % 2))
        for more in (0.0, 5.0)
    ]
    (check,) = answer(*few, [checks.parse_check("mean=10%")]).checks
    assert (check.result, check.reason) == ("undecided", "too few ops")
