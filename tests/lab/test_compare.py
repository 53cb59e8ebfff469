"""`scripts/lab compare`: nfslat's times against the kernel's, on a small run of the lab and on bent traces.

tests/lab/data: 2 nfsd threads, a disk with 10 ms, 12 readers and writers of 4 kB, Linux 6.12 in both guests.
"""

from __future__ import annotations

import gzip
import importlib
import json
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from nfslat.errors import InputError

_ROOT = Path(__file__).parents[2]
if str(_ROOT / "scripts") not in sys.path:
    sys.path.insert(0, str(_ROOT / "scripts"))
compare = importlib.import_module("laboratory.compare")
compared = importlib.import_module("laboratory.compared")

_DATA = Path(__file__).parent / "data" / "threads2"
_KERNEL = _ROOT / "scripts" / "laboratory" / "kernel.sh"
_MS = 1_000_000
Bend = Callable[[str, Callable[[str], str]], Path]


@pytest.fixture
def bent(tmp_path: Path) -> Bend:
    """The run with each line of one trace changed; lines that become empty are left out."""

    def make(side: str, change: Callable[[str], str]) -> Path:
        folder = tmp_path / "bent"
        shutil.copytree(_DATA, folder)
        with gzip.open(_DATA / f"{side}.trace.gz", "rt") as whole:
            lines = "".join(map(change, whole))
        with gzip.open(folder / f"{side}.trace.gz", "wt") as out:
            out.write(lines)
        return folder

    return make


@pytest.fixture(scope="module")
def found() -> compared.Comparison:  # type: ignore[name-defined]
    """The run as it was recorded."""
    return compare.examine(_DATA)


def test_every_op_is_joined_or_counted(found: compared.Comparison) -> None:  # type: ignore[name-defined]
    """Both sides; the reasons add up to the ops, and nearly all ops have their RPC."""
    assert [one.side for one in found.coverage] == ["client", "server"]
    for one in found.coverage:
        left = one.sent_again + one.not_whole + one.outside + one.ambiguous + one.missing
        assert one.joined + left == one.ops > 100
        assert left <= 0.02 * one.ops
        assert one.traced >= one.joined
    assert found.notes == ()


def test_nfslat_agrees_with_the_kernel(found: compared.Comparison) -> None:  # type: ignore[name-defined]
    """Server times to 0.1 ms, an inferred wait for a thread of tens of ms to 1 ms, for nearly all RPCs."""
    rows = {row.name: row for row in found.rows}
    whole = rows["server SRT - (wait + execute)"]
    assert whole.within_100us > 0.95
    assert whole.min_ns >= -2_000  # the kernel prints whole microseconds, of each of two times
    wait = rows["queue - wait"]
    assert wait.true_ns / wait.count > 10 * _MS
    assert wait.within_1ms > 0.95
    assert abs(wait.mean_ns) < _MS
    assert rows["server SRT - execute"].mean_ns > 10 * _MS  # what is taken for the server's time without the wait
    assert rows["unsent + first byte - rtt"].max_ns < 0  # a worker reads the reply after its first byte has come
    assert rows["unsent + first byte - rtt"].within_1ms > 0.9


def test_a_row_is_the_difference_of_its_sums(found: compared.Comparison) -> None:  # type: ignore[name-defined]
    """The mean of the differences is the difference of the means; percentiles are in order."""
    for row in found.rows:
        assert row.mean_ns == pytest.approx((row.found_ns - row.true_ns) / row.count)
        assert row.min_ns <= row.p1_ns <= row.p50_ns <= row.p99_ns <= row.max_ns
        assert 0 <= row.within_100us <= row.within_1ms <= 1


@given(st.lists(st.tuples(st.integers(0, 10**10), st.integers(0, 10**10)), min_size=1, max_size=50))
def test_a_row_of_any_times(pairs: list[tuple[int, int]]) -> None:
    """Each figure by its definition, in plain Python."""
    row = compared.Difference("x", *(np.array(column, np.int64) for column in zip(*pairs, strict=True))).row
    apart = sorted(one - other for one, other in pairs)
    assert (row.count, row.min_ns, row.max_ns) == (len(apart), apart[0], apart[-1])
    assert row.found_ns - row.true_ns == sum(apart)
    assert row.p50_ns == apart[-(-len(apart) // 2) - 1]
    assert row.within_1ms == sum(abs(one) <= _MS for one in apart) / len(apart)


def test_rpcs_that_are_not_in_the_trace_are_counted(bent: Bend) -> None:
    """A trace without every fourth answer: those ops are missing, and the others are compared as before."""
    seen = 0

    def thin(line: str) -> str:
        nonlocal seen
        seen += "svc_stats_latency" in line
        return "" if "svc_stats_latency" in line and seen % 4 == 0 else line

    _, server = compare.examine(bent("server", thin)).coverage
    assert server.missing == pytest.approx(server.ops / 4, rel=0.05)
    assert server.joined + server.missing + server.outside == server.ops


def test_a_trace_that_begins_late_is_told_from_a_hole(bent: Bend) -> None:
    """What was pushed out of the buffer is outside the trace's time."""
    with gzip.open(_DATA / "client.trace.gz", "rt") as whole:
        times = [float(at) for at in re.findall(r" (\d+\.\d+): ", whole.read())]
    half = times[len(times) // 2]

    def late(line: str) -> str:
        at = re.search(r" (\d+\.\d+): ", line)
        return line if at is None or float(at[1]) >= half else ""

    client, _ = compare.examine(bent("client", late)).coverage
    assert client.outside > 0.3 * client.ops
    assert client.missing <= 2  # RPCs that began before the trace and ended in it


def _retimed(change: Callable[[int], int]) -> Callable[[str], str]:
    """What changes the time of a line, us."""

    def line_of(line: str) -> str:
        def time_of(at: re.Match[str]) -> str:
            us = change(int(at[1]) * 10**6 + int(at[2]))
            return f" {us // 10**6}.{us % 10**6:06}: "

        return re.sub(r" (\d{10})\.(\d{6}): ", time_of, line, count=1)

    return line_of


@pytest.mark.parametrize("side", ["server", "client"])
def test_a_trace_on_another_clock_is_put_on_the_captures(
    bent: Bend,
    found: compared.Comparison,  # type: ignore[name-defined]
    side: str,
) -> None:
    """Since boot: all rows are there, to 0.1 ms the same, and a note says what was done."""
    one = compare.examine(bent(side, _retimed(lambda us: us - 1_700_000_000 * 10**6 - 345_678)))
    for row, true in zip(one.rows, found.rows, strict=True):
        assert (row.name, row.count) == (true.name, true.count)
        assert row.mean_ns == pytest.approx(true.mean_ns, abs=100_000)
    assert [note.startswith(f"the {side}'s trace is not on") for note in one.notes] == [True]


@pytest.mark.parametrize("side", ["server", "client"])
def test_clocks_that_run_apart_are_not_put_together(bent: Bend, side: str) -> None:
    """A trace clock that is 1 % fast: durations are compared, instants not, and a note says which clock to take."""
    one = compare.examine(bent(side, _retimed(lambda us: (us - 1_700_000_000 * 10**6) * 101 // 100)))
    names = [row.name for row in one.rows]
    assert f"{side} SRT - {'execute' if side == 'server' else 'rtt'}" in names
    assert not [name for name in names if name.startswith(side) and ("wait" in name or "unsent" in name)]
    assert any("run apart" in note and "trace_clock tai" in note for note in one.notes)


def test_a_trace_of_other_rpcs(bent: Bend) -> None:
    """Nothing is joined and nothing compared; all ops are counted, and there is no traceback."""
    folder = bent("client", lambda line: re.sub("xid=0x(....)", "xid=0x0000", line))
    (folder / "server.trace.gz").unlink()
    one = compare.examine(folder)
    assert one.rows == []
    assert one.coverage[0].missing + one.coverage[0].outside + one.coverage[0].ambiguous == one.coverage[0].ops
    assert "nothing could be compared" in compare.text([one])


def test_without_dequeue_the_wait_is_not_known(bent: Bend) -> None:
    """A note says so."""
    one = compare.examine(bent("server", lambda line: "" if "svc_xprt_dequeue" in line else line))
    assert not any("wait" in row.name for row in one.rows)
    assert any("svc_xprt_dequeue" in note for note in one.notes)


def test_one_trace_is_enough(tmp_path: Path) -> None:
    """The other side is left out, which a note says."""
    folder = shutil.copytree(_DATA, tmp_path / "one")
    (folder / "client.trace.gz").unlink()
    one = compare.examine(folder)
    assert [side.side for side in one.coverage] == ["server"]
    assert one.notes == ("no client.trace.gz: nothing of the client is compared",)


def test_captures_the_wrong_way_round_are_refused(tmp_path: Path) -> None:
    """Else each side would be held against the other's kernel."""
    folder = shutil.copytree(_DATA, tmp_path / "turned")
    shutil.copy(_DATA / "client.pcap.gz", folder / "server.pcap.gz")
    shutil.copy(_DATA / "server.pcap.gz", folder / "client.pcap.gz")
    with pytest.raises(InputError, match="wrong way round"):
        compare.compare(folder)


@pytest.mark.parametrize("content", [b"", b"\x1f\x8b\x08", b"no trace\n"])
def test_a_broken_trace_is_one_line(tmp_path: Path, capsys: pytest.CaptureFixture[str], content: bytes) -> None:
    """No traceback, and the file's name."""
    folder = shutil.copytree(_DATA, tmp_path / "broken")
    (folder / "server.trace.gz").write_bytes(content)
    assert compare.main([str(folder)]) == 3
    assert "server.trace.gz" in capsys.readouterr().err


@pytest.mark.parametrize("name", ["server.pcap.gz", "client.pcap.gz"])
def test_a_folder_that_is_no_result(tmp_path: Path, capsys: pytest.CaptureFixture[str], name: str) -> None:
    """Nothing there, half of it there, no trace there: one line each that says what to do."""
    (tmp_path / name).touch()
    assert compare.main([str(tmp_path)]) == 3
    assert capsys.readouterr().err.count("\n") == 1
    assert compare.main([str(tmp_path / "absent")]) == 3
    (tmp_path / "more").mkdir()
    assert compare.main([str(tmp_path / "more")]) == 3
    assert "scripts/lab" in capsys.readouterr().err


def test_the_command_prints_a_table_and_json(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A folder of results is taken as all that have traces; the JSON has what the table has, and all of it twice is
    the same."""
    shutil.copytree(_DATA, tmp_path / "in" / "threads2")
    (tmp_path / "in" / "no_trace").mkdir()
    assert compare.main([str(tmp_path / "in"), "--json", str(tmp_path / "out.json")]) == 0
    table = capsys.readouterr().out
    read = json.loads((tmp_path / "out.json").read_text())
    assert [one["name"] for one in read["scenarios"]] == ["threads2"]
    for row in read["scenarios"][0]["rows"]:
        assert f"{row['p99_ns'] / 1e6:.3f}" in table
    assert compare.main([str(tmp_path / "in"), "--json", "-"]) == 0
    assert json.loads(capsys.readouterr().out) == read


def test_all_folders_together(found: compared.Comparison) -> None:  # type: ignore[name-defined]
    """The same run twice: twice the RPCs and the sums, and the same figures."""
    for one, both in zip(found.rows, compared.pooled([found, found]), strict=True):
        assert (both.name, both.count, both.found_ns) == (one.name, 2 * one.count, 2 * one.found_ns)
        assert (both.p50_ns, both.max_ns, both.within_1ms) == (one.p50_ns, one.max_ns, one.within_1ms)
    assert "all 2 together" in compare.text([found, found])
    assert "together" not in compare.text([found])


def test_the_events_are_those_that_the_kernel_is_built_for() -> None:
    """The options that give them are among those that kernel.sh insists on."""
    wanted = _KERNEL.with_suffix(".config").read_text().splitlines()
    assert {"CONFIG_EVENT_TRACING=y", "CONFIG_SUNRPC=y", "CONFIG_NFSD=y"} <= set(wanted)
    named = [line for line in wanted if line and not line.startswith("#")]
    assert all(re.fullmatch(r"CONFIG_\w+=y", line) for line in named)
    assert len(set(named)) == len(named)


def test_kernel_sh_takes_what_was_built(tmp_path: Path) -> None:
    """The newest of these options, whose path is the last line; one of other options is built anew."""
    for version, config in (("6.12.9", None), ("6.12.30", None), ("6.13", "CONFIG_OTHER=y\n")):
        folder = tmp_path / "nfslat" / f"uml-{version}"
        folder.mkdir(parents=True)
        (folder / "linux").write_text("")
        (folder / "linux").chmod(0o755)
        (folder / "wanted.config").write_text(config or _KERNEL.with_suffix(".config").read_text())
    done = subprocess.run(
        [str(_KERNEL)],
        env={"XDG_CACHE_HOME": str(tmp_path), "PATH": "/usr/bin:/bin"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.splitlines()[-1] == str(tmp_path / "nfslat" / "uml-6.12.30" / "linux")


@pytest.mark.parametrize("asked", [["--source"], ["--source", "absent.tar.xz"], ["--jobs", "2"], ["x"]])
def test_kernel_sh_fails_with_one_line(tmp_path: Path, asked: list[str]) -> None:
    """Wrong arguments, no such source: nothing is left behind."""
    done = subprocess.run(
        [str(_KERNEL), *asked],
        env={"XDG_CACHE_HOME": str(tmp_path), "PATH": "/usr/bin:/bin"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 1
    assert done.stderr.startswith("kernel.sh: ")
    assert done.stderr.count("\n") == 1
    assert not list(tmp_path.rglob("building*"))
