"""What `nfslat diff` takes, prints and returns: files of all kinds, checks, and input that is none."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from commands import answered
from runs_by_hand import reported, run, single, wandering, write_csv
from valid import validator

from nfslat.diff import checks, model
from nfslat.diff.answer import answer
from nfslat.errors import InputError, UsageError

SAMPLES = Path(__file__).parents[2] / "samples"


def _run(arguments: Sequence[str]) -> tuple[int, str, dict[str, Any]]:
    """Exit status, text, and JSON."""
    status, text, found = answered("diff", [*arguments, "-q"])
    validator(model.Diff).validate(found)
    assert model.Diff.from_json(json.dumps(found)).to_dict() == found
    assert max(map(len, text.splitlines())) <= 80
    return status, text, found


@pytest.fixture
def csvs(tmp_path: Path) -> Callable[[float], str]:
    """Makes the CSV file of a run whose server takes so many ms."""

    def make(level_ms: float, ops: int = 1500) -> str:
        rng = np.random.default_rng(int(level_ms * 10))
        path = tmp_path / f"{level_ms}-{ops}.csv"
        return write_csv(single(level_ms * wandering(rng, ops)[0]), path)

    return make


def _report(path: Path, level_ms: float, count: int = 1500) -> str:
    """A report whose server takes so many ms."""
    with path.open("w", encoding="utf-8") as out:
        reported(level_ms, count=count, findings=level_ms > 5).write_json(out)
    return str(path)


def test_two_csv_files(csvs: Callable[[float], str]) -> None:
    """Files of --csv hold single ops: full statistics, and the first line says what changed."""
    status, text, found = _run([csvs(2.0), csvs(4.0)])
    assert status == 0
    assert text.startswith("B is slower: READ 8 KB ")
    assert found["method"] == "slices"
    assert found["verdict"]["change"] == "slower"
    assert found["verdict"]["layer"] == "server"
    row = found["rows"][0]
    assert row["mean"]["low"] < row["mean"]["difference"] < row["mean"]["high"]


def test_a_csv_file_gives_what_its_ops_give(tmp_path: Path) -> None:
    """Reading what was written changes no figure, sizes that were not captured included."""
    rng = np.random.default_rng(1)
    one = single(2.0 * wandering(rng, 300)[0], size_bytes=np.where(np.arange(300) % 7 == 0, -1, 8192))
    path = write_csv(one, tmp_path / "a.csv")
    _, _, found = _run([path, path])
    assert found["a"]["mean_ms"] == pytest.approx(float(one.client_ns.mean()) / 1e6)
    assert [(row["size"], row["count_a"]) for row in found["rows"]] == [("8 KB", 257), (None, 43)]


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


def test_a_report_beside_a_csv_file(tmp_path: Path, csvs: Callable[[float], str]) -> None:
    """One with single ops and one without are compared as summaries."""
    _, _, found = _run([_report(tmp_path / "a.json", 2.0), csvs(20.0)])
    assert found["method"] == "summaries"
    assert found["a"]["kind"] == "report"
    assert found["b"]["kind"] == "csv"


@pytest.mark.parametrize(
    ("check", "status", "result"),
    [
        ("mean=10%", 1, "crossed"),
        ("READ.mean=1ms", 1, "crossed"),
        ("READ.server.p50=500us", 1, "crossed"),
        ("mean=300%", 0, "passed"),
        ("network.mean=0ms", 0, "passed"),
        ("read.mean=1s", 0, "passed"),
        ("WRITE.mean=10%", 1, "undecided"),
        ("READ.p99=1s", 1, "undecided"),
    ],
)
def test_checks(csvs: Callable[[float], str], check: str, status: int, result: str) -> None:
    """A threshold that is crossed, or cannot be decided, ends in status 1; the text says which."""
    got, text, found = _run([csvs(2.0), csvs(4.0), "--check", check])
    assert found["checks"][0]["result"] == result
    assert got == status
    assert f"--check {check} {result.upper()}" in " ".join(text.split())


def test_a_check_on_few_ops_does_not_pass(tmp_path: Path) -> None:
    """Equal runs with 30 ops each pass no check, for nobody can say that they are equal."""
    path = write_csv(single(np.linspace(1, 2, 30)), tmp_path / "few.csv")
    status, _, found = _run([path, path, "--check", "mean=50%"])
    assert (status, found["checks"][0]["result"]) == (1, "undecided")
    assert found["verdict"]["change"] == "unknown"


def test_checks_on_reports(tmp_path: Path) -> None:
    """By operation they are decided by a report's figures; percentiles of all ops are in no report."""
    files = [_report(tmp_path / "a.json", 2.0), _report(tmp_path / "b.json", 20.0)]
    status, _, found = _run([*files, "--check", "READ.p99=5ms", "--check", "p99=5ms", "--check", "READ.mean=100s"])
    assert [one["result"] for one in found["checks"]] == ["crossed", "undecided", "passed"]
    assert status == 1


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
        b"xid,program,version\n",
        b"xid,program,op,size_bytes,client_t0_ns,client_t3_ns,call_send_ns,server_ns,reply_send_ns\n",
        b"xid,program,op,size_bytes,client_t0_ns,client_t3_ns,call_send_ns,server_ns,reply_send_ns\n1,2\n",
        b"xid,program,op,size_bytes,client_t0_ns,client_t3_ns,call_send_ns,server_ns,reply_send_ns\n1,2,READ,8,x,9,1,1,1\n",
        b"xid,program,op,size_bytes,client_t0_ns,client_t3_ns,call_send_ns,server_ns,reply_send_ns\n1,2,READ,8,,9,1,1,1\n",
        b"xid,program,op,size_bytes,client_t0_ns,client_t3_ns,call_send_ns,server_ns,reply_send_ns\n"
        b"1,2,READ,8,99999999999999999999,9,1,1,1\n",
    ],
    ids=range(24),
)
def test_input_that_is_none(tmp_path: Path, csvs: Callable[[float], str], content: bytes) -> None:
    """Empty, foreign, cut and wrong files end in one line that names the file, as A and as B."""
    path = tmp_path / "bad"
    path.write_bytes(content)
    for files in ([str(path), csvs(2.0)], [csvs(2.0), str(path)]):
        with pytest.raises(InputError, match="bad") as problem:
            _run(files)
        assert "\n" not in str(problem.value)


def test_a_report_of_which_a_piece_is_missing(tmp_path: Path, csvs: Callable[[float], str]) -> None:
    """Whatever key is taken out of a report, or has the wrong type, it is refused or does without."""
    whole = json.loads(Path(_report(tmp_path / "a.json", 20.0)).read_text())
    other = csvs(2.0)
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
def test_figures_that_no_run_has(tmp_path: Path, csvs: Callable[[float], str], mean: float) -> None:
    """A report with means of 1e300 ms is refused in one line; it is no crossed check, and no overflow."""
    path = tmp_path / "huge.json"
    with pytest.raises(InputError, match=r"huge\.json: .*out of range") as problem:
        _run([csvs(2.0), _report(path, mean), "--check", "mean=10%"])
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


def test_filters_need_captures(csvs: Callable[[float], str]) -> None:
    """A report is finished: what a filter would leave of it nobody knows."""
    with pytest.raises(UsageError, match=r"--op: .*: a finished report; filters need captures"):
        _run([csvs(2.0), csvs(4.0), "--op", "READ"])


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
