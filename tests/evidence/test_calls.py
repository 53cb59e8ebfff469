"""Calls of an application as strace prints them -> joined with the operations that they waited for."""

from __future__ import annotations

import json
import random
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from captures import SAMPLES
from made_calls import Made, captures_of, client_ops, commit, judged, ops_of
from wire import read, write

from nfslat.cli import main as cli
from nfslat.errors import InputError
from nfslat.evidence import strace
from nfslat.evidence.calls import _named, join
from nfslat.evidence.strace import Call
from nfslat.model.tables import Ops
from nfslat.select import is_reverse

DATA = Path(__file__).parent / "data"


# --- What strace prints -----------------------------------------------------------------------------------------------


def _calls(log: list[str]) -> tuple[Call, ...]:
    calls: tuple[Call, ...] = strace.read(log, "x").record
    return calls


def test_a_log_without_durations_says_how_to_trace() -> None:
    """Without -T a call has no end."""
    with pytest.raises(InputError, match="run strace -f -ttt -T -yy"):
        _calls(['1 1795531628.123456 pread64(7</mnt/f>, "", 8192, 0) = 8192\n'])


def test_a_write_in_two_lines_has_all_its_arguments_in_the_first() -> None:
    """strace prints what it knows when the call begins: of a read only the file, of a write everything."""
    log = [
        '7 1795531628.100000 pwrite64(8</mnt/f>, "\\1"..., 1024, 512 <unfinished ...>\n',
        '8 1795531628.100100 pwritev2(8</mnt/f>, [{iov_base=""..., iov_len=8192}], 1, 8192, 0 <unfinished ...>\n',
        "9 1795531628.100200 fsync(8</mnt/f> <unfinished ...>\n",
        "7 1795531628.103000 <... pwrite64 resumed>) = 1024 <0.002000>\n",
        "8 1795531628.104000 <... pwritev2 resumed>) = 8192 <0.003000>\n",
        "9 1795531628.105000 <... fsync resumed>) = 0 <0.004000>\n",
    ]
    found = _calls(log)
    assert [(one.name, one.offset, one.length) for one in found] == [
        ("pwrite", 512, 1024),
        ("pwrite", 8192, 8192),
        ("fsync", 0, 0),
    ]


def test_a_call_may_end_as_late_as_the_next_line() -> None:
    """-T begins to count when the arguments are printed, so begin and duration give the earliest end; a line that comes
    after the call's return, its own second one or the next, gives the latest, and what is far off says nothing."""
    log = [
        '7 1795531628.100000 pread64(8</mnt/f>, "", 512, 0) = 512 <0.001000>\n',
        "8 1795531628.101300 pread64(8</mnt/f>,  <unfinished ...>\n",
        '8 1795531628.103500 <... pread64 resumed>"", 512, 512) = 512 <0.002000>\n',
        '7 1795531628.104000 pread64(8</mnt/f>, "", 512, 1024) = 512 <0.001000>\n',
        '7 1795531629.000000 pread64(8</mnt/f>, "", 512, 2048) = 512 <0.001000>\n',
    ]
    assert [one.late_ns for one in _calls(log)] == [300_000, 200_000, 10_000_000, 0]


# --- A made log with its truth ----------------------------------------------------------------------------------------

_BLOCK = 8192
_FHS = {f"/mnt/nfs/data{number}.dbf": bytes([number]) * 32 for number in range(4)}


def _made(seed: int, threads: int, blocks: int, seconds: float, foreign: int = 0) -> Made:
    """`foreign` READs are of a process that is not traced."""
    chance = random.Random(seed)
    made = Made()
    for _ in range(threads):
        at = chance.uniform(0, 2000)
        while at < seconds * 1e6:
            path = chance.choice(list(_FHS))
            at = _call(made, chance, path, chance.randrange(blocks) * _BLOCK, at) + chance.uniform(1, 500)
    for _ in range(foreign):
        begin, fh = chance.uniform(0, seconds * 1e6), chance.choice(list(_FHS.values()))
        offset = chance.randrange(blocks) * _BLOCK
        made.op(begin, begin + chance.uniform(300, 5000), lambda xid, fh=fh, offset=offset: read(xid, offset, fh=fh))
    order = sorted(range(len(made.calls)), key=lambda row: made.calls[row].begin_ns)
    made.calls, made.truth = [made.calls[row] for row in order], [made.truth[row] for row in order]
    return made


def _call(made: Made, chance: random.Random, path: str, offset: int, at: float) -> float:
    """One call from `at` on; the answer is when it returns."""
    fh, kind = _FHS[path], chance.random()
    begin = at + chance.uniform(5, 3000)  # until its first op is sent

    def read_op(at_us: float, where: int) -> tuple[int, float]:
        end = at_us + chance.uniform(300, 5000)
        return made.op(at_us, end, lambda xid: read(xid, where, _BLOCK, fh)), end

    if kind < 0.3:
        end, xids, name, length = at + chance.uniform(3, 20), set[int](), "pread", _BLOCK
    elif kind < 0.75:
        xid, end = read_op(begin, offset)
        xids, name, length = {xid}, "pread", _BLOCK
    elif kind < 0.82:
        (one, end), (other, later) = read_op(begin, offset), read_op(begin + 20, offset + _BLOCK)
        xids, end, name, length = {one, other}, max(end, later), "pread", 2 * _BLOCK
    elif kind < 0.92:
        end = begin + chance.uniform(300, 5000)
        xids, name, length = {made.op(begin, end, lambda xid: write(xid, offset, _BLOCK, fh))}, "pwrite", _BLOCK
    elif kind < 0.96:
        end, xids, name, length = at + chance.uniform(3, 20), set(), "pwrite", _BLOCK
    else:
        written = begin + chance.uniform(300, 3000)
        own = made.op(begin, written, lambda xid: write(xid, offset, _BLOCK, fh, stable=0))
        end = written + chance.uniform(300, 3000)
        xids, name, length, offset = {own, made.op(written + 10, end, lambda xid: commit(xid, fh))}, "fsync", 0, 0
    end += chance.uniform(3, 50)
    begin_ns, end_ns = int(at) * 1000, int(end + 1) * 1000
    made.calls.append(Call(name, path, offset, length, begin_ns, end_ns))
    made.truth.append(xids)
    return end


def _shifted(made: Made, ops: Ops) -> list[Call]:
    """The calls by the clock of the captures."""
    first = min(begin for begin, _, _, _ in made.sent)
    shift = int(ops.t0.min()) - int(first * 1000)
    return [Call(c.name, c.path, c.offset, c.length, c.begin_ns + shift, c.end_ns + shift) for c in made.calls]


@pytest.mark.parametrize(
    ("threads", "blocks", "foreign", "least"),
    [(1, 5000, 0, 0.99), (8, 5000, 0, 0.9), (8, 20, 0, 0.6), (8, 200, 2000, 0.75), (32, 500, 500, 0.6)],
)
@pytest.mark.parametrize("seed", [1, *(pytest.param(seed, marks=pytest.mark.long) for seed in (2, 3))])
def test_no_call_is_joined_wrongly(
    seed: int, threads: int, blocks: int, foreign: int, least: float, tmp_path: Path
) -> None:
    """Page cache, one op, two ops, synchronous WRITEs, fsync with COMMIT; hot blocks, and READs of others: what is
    joined is the truth, and it is most."""
    made = _made(seed, threads, blocks, 2.0, foreign)
    ops = client_ops(made, tmp_path)
    found = join(_shifted(made, ops), ops, ~ops.spread(is_reverse(ops)), {})
    wrong, right, seen = judged(made, found, ops)
    assert wrong == 0
    assert right >= least * seen
    assert seen >= 0.95 * len(made.calls)
    assert len(found.files) == len(_FHS)


def _ten_reads(folder: Path, fh: bytes) -> tuple[Made, Ops]:
    made = Made()
    for number in range(10):
        begin, offset = number * 10_000.0, number * _BLOCK
        made.op(begin + 300, begin + 900, lambda xid, offset=offset: read(xid, offset, fh=fh))
        made.calls.append(Call("pread", "/mnt/nfs/a.db", offset, _BLOCK, int(begin) * 1000, int(begin + 600) * 1000))
    return made, client_ops(made, folder)


def test_an_op_may_end_as_late_as_the_call(tmp_path: Path) -> None:
    """An op that ended 300 us behind the earliest end of a call is the call's if that may have ended so late."""
    made, ops = _ten_reads(tmp_path, bytes(32))
    first = int(ops.t0.min()) - 300_000
    made.calls = [replace(one, begin_ns=one.begin_ns + first, end_ns=one.end_ns + first) for one in made.calls]
    all_of_them = ~ops.spread(is_reverse(ops))
    names = {int(ops.fh[0]): "a.db"}
    for late_ns, joined in (
        (0, 0),
        (200_000, 0),
        (400_000, 8),
    ):  # the first begins before the capture, the last ends with it
        calls = [replace(one, late_ns=late_ns) for one in made.calls]
        found = join(calls, ops, all_of_them, names)
        assert sum(len(rows) == 1 for rows in found.ops[:9]) == joined


def test_one_op_of_another_file_does_not_speak_against_a_name(tmp_path: Path) -> None:
    """Written pages go to the server later, so a write of another file may be the only one that fits a call."""
    made = Made()
    mine, other = bytes([1]) * 32, bytes([2]) * 32
    made.op(0, 200, lambda xid: read(xid, 0, fh=mine))
    made.op(1000, 1200, lambda xid: write(xid, _BLOCK, _BLOCK, other))
    made.op(5000, 5200, lambda xid: write(xid, _BLOCK, _BLOCK, mine))
    ops = client_ops(made, tmp_path)
    first = int(ops.t0.min())
    call = Call("pwrite", "/mnt/nfs/a.db", _BLOCK, _BLOCK, first + 900_000, first + 1_300_000)
    names = {int(ops.fh[0]): "a.db", int(ops.fh[1]): "b.db"}
    found = join([call], ops, ~ops.spread(is_reverse(ops)), names)
    assert found.files == {"/mnt/nfs/a.db": int(ops.fh[0])}
    assert found.ops == ((),)


# --- Beside captures --------------------------------------------------------------------------------------------------


def _log(calls: list[Call]) -> str:
    """As strace prints them."""
    lines = []
    for number, one in enumerate(calls):
        at, took = f"{one.begin_ns // 10**9}.{one.begin_ns % 10**9 // 1000:06d}", (one.end_ns - one.begin_ns) / 1e9
        name = one.name + ("64" if one.name in ("pread", "pwrite") else "")
        arguments = "" if one.name == "fsync" else f', "\\0"..., {one.length}, {one.offset}'
        lines.append(f"{100 + number % 7} {at} {name}(7<{one.path}>{arguments}) = {one.length} <{took:.6f}>\n")
    return "".join(lines)


def _report(capsys: pytest.CaptureFixture[str], captures: list[Path], *arguments: str) -> dict[str, Any]:
    assert cli.main([*map(str, captures), *arguments, "--json", "-"]) == 0
    found: dict[str, Any] = json.loads(capsys.readouterr().out)
    return found


def test_the_stack_shows_what_calls_waited_for(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Of each kind of call a block: page cache, until its op is sent, network, server, and behind; they add up."""
    made = _made(5, 6, 5000, 2.0)
    captures = captures_of(made, tmp_path)
    calls = _shifted(made, ops_of(captures[1]))
    (log := tmp_path / "app.strace").write_text(_log(calls))
    found = _report(capsys, captures, "--evidence", str(log))
    (note,) = [note for note in found["evidence"] if "are joined with what they waited for" in note]
    assert note.startswith("app.strace: ")
    rows = {row["layer"]: row["ms"] for row in found["stack"] if row["op"] == "pread"}
    assert rows["call"] == pytest.approx(rows["above the wire"] + rows["network"] + rows["server"])
    inside = rows["page cache"] + rows["until its first op is sent"] + rows["between and behind its ops"]
    assert rows["above the wire"] == pytest.approx(inside)
    assert rows["server"] == pytest.approx(4 * rows["network"], rel=0.02)  # as they were made
    preads = [one.end_ns - one.begin_ns for one in calls if one.name == "pread"]
    assert rows["call"] == pytest.approx(np.mean(preads) / 1e6, rel=0.1)
    assert {row["op"] for row in found["stack"]} >= {"pread", "pwrite", "fsync"}


def test_calls_with_one_op_each_are_the_applications_time(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Where nearly all ops are the only one of a call, the mean of these calls is the application's for them; where
    most are of nobody's log it is not."""
    made = _one_each(300)
    captures = captures_of(made, tmp_path)
    calls = _shifted(made, ops_of(captures[1]))
    (log := tmp_path / "app.strace").write_text(_log(calls))
    found = _report(capsys, captures, "--evidence", str(log))
    rows = {(row["op"], row["layer"]): row["ms"] for row in found["stack"]}
    assert rows["READ", "application"] == pytest.approx(np.mean([c.end_ns - c.begin_ns for c in calls]) / 1e6, rel=0.01)
    log.write_text(_log(calls[:60]))
    found = _report(capsys, captures, "--evidence", str(log))
    assert not any(row["layer"] == "application" for row in found["stack"])


def _one_each(count: int) -> Made:
    """One thread, one READ a call."""
    made, chance, at = Made(), random.Random(1), 0.0
    path, fh = next(iter(_FHS.items()))
    for block in range(count):
        begin = at + chance.uniform(500, 3000)
        end = begin + chance.uniform(300, 900)
        made.truth.append({made.op(begin, end, lambda xid, block=block: read(xid, block * _BLOCK, _BLOCK, fh))})
        made.calls.append(Call("pread", path, block * _BLOCK, _BLOCK, int(at) * 1000, int(end + 20) * 1000))
        at = end + 100
    return made


def test_calls_of_another_time_are_not_joined(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """An hour later, the same load: a line says so, and the stack has no block of them."""
    made = _made(5, 2, 5000, 0.5)
    captures = captures_of(made, tmp_path)
    late = 3600 * 10**9
    calls = _shifted(made, ops_of(captures[1]))
    (log := tmp_path / "app.strace").write_text(
        _log([Call(c.name, c.path, c.offset, c.length, c.begin_ns + late, c.end_ns + late) for c in calls])
    )
    found = _report(capsys, captures, "--evidence", str(log))
    assert any("none of its calls was made while the captures ran" in note for note in found["evidence"])
    assert not any(row["op"] == "pread" for row in found["stack"])


def test_calls_need_the_capture_of_their_client(capsys: pytest.CaptureFixture[str]) -> None:
    """Times of a client that were inferred are not its own."""
    server = next(path for path in SAMPLES if path.name.startswith("server"))
    found = _report(capsys, [server], "--evidence", str(DATA / "app_strace.txt"))
    assert any("joined with its own capture, and there is none" in note for note in found["evidence"])
    assert not any(row["op"] == "pread" for row in found["stack"])


def test_files_of_another_name_are_not_ours() -> None:
    """A name that the captures know goes before what might fit; of two of one name neither is it."""
    names = {1: "/u01/system01.dbf", 2: "/u02/system01.dbf", 3: ".../users01.dbf"}
    assert _named("/mnt/nfs/u01/system01.dbf", names) == 1
    assert _named("/mnt/nfs/users01.dbf", names) == 3
    assert _named("/mnt/nfs/u03/system01.dbf", names) is None
    assert _named("/etc/hosts", names) is None
