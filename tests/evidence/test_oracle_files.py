"""Waits of a 10046 trace -> joined with the operations that they waited for, by file, block, size and time."""

from __future__ import annotations

import json
import random
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from examples import examples
from hypothesis import given, settings
from hypothesis import strategies as st
from made_calls import Made, captures_of, client_ops, judged, ops_of
from wire import read, write

from nfslat.cli import main as cli
from nfslat.errors import InputError
from nfslat.evidence import oracle_files, oracle_trace
from nfslat.evidence.calls import join
from nfslat.evidence.read import read as read_evidence
from nfslat.evidence.strace import Call
from nfslat.model.tables import Ops
from nfslat.select import is_reverse

_RSIZE = 32768
_EVENTS = ("db file sequential read", "db file scattered read", "db file single write")
_SIZES = {4: 8192, 5: 16384, 6: 8192, 7: 2048}  # file -> its block
_FHS = {file: bytes([file]) * 32 for file in _SIZES}


def _made(
    seed: int, sessions: int, blocks: int, seconds: float, foreign: int = 0
) -> tuple[Made, list[tuple[str, int, int, int]]]:
    """Sessions that read one block and several, from the page cache, too, and write; of each wait its event, file,
    block and blocks. `foreign` READs are of sessions that are not traced."""
    chance, made = random.Random(seed), Made()
    waits: list[tuple[str, int, int, int]] = []
    for _ in range(sessions):
        at = chance.uniform(0, 2000)
        while at < seconds * 1e6:
            at = _wait(made, waits, chance, blocks, at) + chance.uniform(20, 800)
    for _ in range(foreign):
        begin, file = chance.uniform(0, seconds * 1e6), chance.choice(list(_SIZES))
        offset, fh = chance.randrange(blocks) * _SIZES[file], _FHS[file]
        made.op(
            begin, begin + chance.uniform(300, 5000), lambda xid, fh=fh, o=offset, n=_SIZES[file]: read(xid, o, n, fh)
        )
    order = sorted(range(len(waits)), key=lambda row: made.calls[row].begin_ns)
    made.calls, made.truth = [made.calls[row] for row in order], [made.truth[row] for row in order]
    return made, [waits[row] for row in order]


def _wait(made: Made, waits: list[tuple[str, int, int, int]], chance: random.Random, blocks: int, at: float) -> float:
    file, block, kind = chance.choice(list(_SIZES)), chance.randrange(1, blocks), chance.random()
    size, fh = _SIZES[file], _FHS[file]
    many = chance.choice((4, 8, 16)) if 0.7 < kind < 0.9 else 1
    begin = at + chance.uniform(5, 3000)  # a slot, or the host's processor
    event, xids, end = _EVENTS[many > 1], set[int](), at + chance.uniform(3, 20)
    if kind >= 0.9:
        event, end = _EVENTS[2], begin + chance.uniform(300, 5000)
        xids = {made.op(begin, end, lambda xid: write(xid, block * size, size, fh))}
    elif kind >= 0.2:
        for offset in range(block * size, (block + many) * size, _RSIZE):
            length, last = min(_RSIZE, (block + many) * size - offset), begin + chance.uniform(300, 5000)
            xids.add(made.op(begin, last, lambda xid, o=offset, n=length: read(xid, o, n, fh)))
            end = max(end, last)
    end += chance.uniform(3, 50)
    made.calls.append(Call("pwrite" if kind >= 0.9 else "pread", "", 0, 0, int(at) * 1000, int(end + 1) * 1000))
    made.truth.append(xids)
    waits.append((event, file, block, many))
    return end


def _trace(made: Made, waits: Sequence[tuple[str, int, int, int]], shift_us: int) -> str:
    """As Oracle prints it; ``tim`` is by a clock that is ahead by so much."""
    lines = [
        "Oracle Database 19c Enterprise Edition Release 19.0.0.0.0 - Production\n",
        "*** 2026-11-24 11:03:22.123\n",
    ]
    for call, (event, file, block, blocks) in zip(made.calls, waits, strict=True):
        ela, tim = (call.end_ns - call.begin_ns) // 1000, call.end_ns // 1000 + shift_us
        lines.append(
            f"WAIT #140: nam='{event}' ela= {ela} file#={file} block#={block} blocks={blocks} obj#=97027 tim={tim}\n"
        )
    return "".join(lines)


def _places(lines: Iterable[str]) -> tuple[oracle_trace.Wait, ...]:
    places: tuple[oracle_trace.Wait, ...] = oracle_trace.trace(lines, "x").record
    return places


def _start_us(made: Made, ops: Ops) -> int:
    """What to add to the times of the made calls, so that they are by the clock of the captures."""
    return (int(ops.t0.min()) - int(min(begin for begin, *_ in made.sent) * 1000)) // 1000


@pytest.mark.parametrize(
    ("sessions", "blocks", "foreign", "away_s", "least"),
    [
        *((1, 5000, 0, away_s, 0.99) for away_s in (0, -1_700_000_000, 7200)),
        (8, 5000, 0, 0, 0.9),
        (8, 300, 300, -1_700_000_000, 0.7),
        (24, 2000, 500, 7200, 0.7),
    ],
)
def test_no_wait_is_joined_wrongly(
    sessions: int, blocks: int, foreign: int, away_s: int, least: float, tmp_path: Path
) -> None:
    """Four files of three sizes of blocks, one block and many, page cache, WRITEs, READs of others; a clock since 1970,
    since the boot, or of another zone: what is joined is the truth, and it is most."""
    made, waits = _made(7, sessions, blocks, 1.0, foreign)
    ops = client_ops(made, tmp_path)
    text = _trace(made, waits, _start_us(made, ops) + away_s * 1_000_000)
    places = _places(text.splitlines(keepends=True))
    assert len(places) == len(made.calls)
    kept = ~ops.spread(is_reverse(ops))
    found = join(oracle_files.calls_of(places, ops, kept, {}), ops, kept, {})
    wrong, right, seen = judged(made, found, ops)
    assert wrong == 0
    assert right >= least * seen
    assert seen >= 0.95 * len(made.calls)
    assert len(found.files) == len(_SIZES)


def _report(capsys: pytest.CaptureFixture[str], captures: list[Path], *arguments: str) -> dict[str, Any]:
    assert cli.main([*map(str, captures), *arguments, "--json", "-"]) == 0
    found: dict[str, Any] = json.loads(capsys.readouterr().out)
    return found


def test_the_stack_shows_what_waits_waited_for(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Of each event a block whose parts add up; a note says which share is joined."""
    made, waits = _made(3, 6, 5000, 1.5)
    captures = captures_of(made, tmp_path)
    (trace := tmp_path / "ora_1.trc").write_text(_trace(made, waits, _start_us(made, ops_of(captures[1]))))
    found = _report(capsys, captures, "--evidence", str(trace))
    (note,) = [note for note in found["evidence"] if "are joined with what they waited for" in note]
    assert note.startswith("ora_1.trc: ")
    for event in _EVENTS:
        rows = {row["layer"]: row for row in found["stack"] if row["op"] == event}
        parts = rows["page cache"]["ms"] + rows["until its first op is sent"]["ms"]
        parts += rows["between and behind its ops"]["ms"] + rows["network"]["ms"] + rows["server"]["ms"]
        assert rows["call"]["ms"] == pytest.approx(parts)
        assert rows["call"]["source"].startswith("10046 trace ora_1.trc")
    reads = [c.end_ns - c.begin_ns for c, (event, *_) in zip(made.calls, waits, strict=True) if event == _EVENTS[0]]
    rows = {row["layer"]: row["ms"] for row in found["stack"] if row["op"] == _EVENTS[0]}
    assert rows["call"] == pytest.approx(np.mean(reads) / 1e6, rel=0.1)
    assert rows["server"] == pytest.approx(4 * rows["network"], rel=0.02)  # as they were made


def test_a_trace_of_other_files_is_not_joined(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The same waits an hour later, of blocks that nobody asked for: a line says so, and there is no block of them."""
    made, waits = _made(3, 2, 5000, 1.0)
    captures = captures_of(made, tmp_path)
    text = _trace(made, [(e, f, 100_000 + b, n) for e, f, b, n in waits], 3_600_000_000)
    (trace := tmp_path / "ora_1.trc").write_text(text)
    found = _report(capsys, captures, "--evidence", str(trace))
    assert any("no wait is joined" in note for note in found["evidence"])
    assert not any(row["op"] in _EVENTS for row in found["stack"])


def test_a_list_of_data_files_alone_is_said_to_be_of_no_use(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """It only names what waits are for; without any it does not vanish silently."""
    made, _ = _made(3, 2, 50, 1.0)
    captures = captures_of(made, tmp_path)
    (listed := tmp_path / "files.txt").write_text("FILE#,NAME\n4,/u02/oradata/users01.dbf\n")
    assert cli.main([*map(str, captures), "--evidence", str(listed)]) == 0
    printed = capsys.readouterr()
    assert "files.txt: names data files, and no 10046 trace" in " ".join((printed.out + printed.err).split())


@pytest.mark.parametrize(
    "text",
    [
        "   FILE# NAME\n-------- ------------\n       4 /u02/oradata/users01.dbf\n\n      15 +DATA/x.dbf\n",
        '"FILE_ID","FILE_NAME"\n4,"/u02/oradata/users01.dbf"\n15,"+DATA/x.dbf"\n',
        "file_id|file_name\n4|/u02/oradata/users01.dbf\n15|+DATA/x.dbf\n",
    ],
)
def test_a_list_of_data_files(text: str, tmp_path: Path) -> None:
    """As sqlplus prints it in columns, or with separators."""
    (path := tmp_path / "files.txt").write_text(text)
    found = read_evidence(str(path))
    assert found.kind == "data files"
    assert found.record == {4: "/u02/oradata/users01.dbf", 15: "+DATA/x.dbf"}


def test_a_name_goes_before_what_fits(tmp_path: Path) -> None:
    """With a list of data files, waits are joined with ops of the files of these names alone."""
    made, waits = _made(7, 4, 5000, 2.0)
    ops = client_ops(made, tmp_path)
    text = _trace(made, waits, _start_us(made, ops))
    places = _places(text.splitlines(keepends=True))
    kept = ~ops.spread(is_reverse(ops))
    handles = {int(ops.fh[row]) for row in np.flatnonzero(kept).tolist()}
    names = {handle: f"/u02/{place}.dbf" for place, handle in enumerate(sorted(handles))}
    right = join(oracle_files.calls_of(places, ops, kept, {}), ops, kept, {}).files
    listed = {file: names[right[f"file# {file}"]] for file in _SIZES}
    found = join(oracle_files.calls_of(places, ops, kept, listed), ops, kept, names)
    assert judged(made, found, ops)[0] == 0
    assert {path: names[handle] for path, handle in found.files.items()} == {path: path for path in listed.values()}


def test_waits_of_old_traces_have_no_place() -> None:
    """Oracle 9i prints no time, and Oracle 8 no microseconds."""
    lines = ["WAIT #1: nam='db file sequential read' ela= 50213 p1=5 p2=12 p3=1\n"]
    assert _places(lines) == ()
    old = ["Oracle8i Enterprise Edition Release 8.1.7.0.0 - Production\n"]
    old.append("WAIT #1: nam='db file sequential read' ela= 5 file#=5 block#=12 blocks=1 obj#=1 tim=133062\n")
    assert _places(old) == ()


@settings(max_examples=examples(150))
@given(
    st.lists(
        st.tuples(
            st.sampled_from(_EVENTS), st.integers(0, 10**7), st.integers(0, 10**11), st.integers(0, 10**7),
            st.integers(-10, 10**20), st.integers(0, 10**12),
        ),
        max_size=30,
    )
)  # fmt: skip
def test_any_place_and_time(rows: list[tuple[str, int, int, int, int, int]]) -> None:
    """Whatever figures a trace has, joining them ends, and no place lies beyond what 64 bits hold."""
    lines = [
        f"WAIT #1: nam='{event}' ela= {ela} file#={file} block#={block} blocks={blocks} obj#=1 tim={tim}\n"
        for event, file, block, blocks, tim, ela in rows
    ]
    try:
        places = _places(iter(lines))
    except InputError:
        return
    ops = _few()
    kept = np.ones(len(ops), dtype=np.bool_)
    calls = oracle_files.calls_of(places, ops, kept, {})
    assert all(abs(value) < 1 << 63 for one in calls for value in (one.begin_ns, one.end_ns, one.offset + one.length))
    assert len(join(calls, ops, kept, {}).ops) == len(calls)


def _few() -> Ops:
    from queues import ops, simulate

    return ops(simulate(threads=2, count=50, workers=2), "client")


# --- Waits of several operations --------------------------------------------------------------------------------------


def _in_pieces(*, at_once: int, sessions: int = 1, before_us: float = 20, op_us: float = 1300) -> tuple[Made, Any]:
    """40 waits of 16 blocks for each session: 16 READs of 8 KB, so many of a wait in flight at once."""
    made = Made()
    waits = []
    for session in range(sessions):
        at = 137.0 * session
        for number in range(40):
            block, free, end = 1000 + 16 * (number + 100 * session), [at + before_us] * at_once, at
            for piece in range(16):
                slot = min(range(at_once), key=lambda one: free[one])
                begin = free[slot] + (30 if piece >= at_once else 0)
                free[slot] = end = begin + op_us * (1 + 0.02 * (piece % 3))
                offset = (block + piece) * 8192
                made.op(begin, end, lambda xid, o=offset: read(xid, o, 8192, _FHS[4]))
            end = max(free) + 20
            made.calls.append(Call("pread", "", 0, 0, int(at) * 1000, int(end) * 1000))
            made.truth.append(set())
            waits.append((_EVENTS[1], 4, block, 16))
            at = end + 400
    return made, waits


def _judged(
    made: Made, waits: Any, folder: Path, capsys: pytest.CaptureFixture[str], sides: slice = slice(None)
) -> dict[str, Any]:
    captures = captures_of(made, folder)
    (trace := folder / "ora_1.trc").write_text(_trace(made, waits, _start_us(made, ops_of(captures[1]))))
    return _report(capsys, captures[sides], "--evidence", str(trace))


@pytest.mark.parametrize("sessions", [1, 6])
def test_a_wait_that_is_reads_in_a_row_is_their_sum(
    sessions: int, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """16 READs of 1.3 ms are 21 ms on the wire: nothing queues for a slot, whoever else works beside."""
    found = _judged(*_in_pieces(at_once=1, sessions=sessions), tmp_path, capsys)
    assert found["verdict"]["cause"] == "serial-pieces"
    assert "A db file scattered read takes 21." in found["verdict"]["text"]
    assert "16.0 READs of 8 KB in a row, 1.3" in found["verdict"]["text"]
    assert not [one for one in found["findings"] if "slots" in one["code"]]
    rows = {row["layer"]: row["ms"] for row in found["stack"] if row["op"] == "READ"}
    assert rows["application"] == pytest.approx(1.35, abs=0.03)
    assert rows["above the wire"] < 0.05


def test_reads_of_a_wait_that_go_out_two_at_once_still_wait_for_slots(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Each next one leaves as a reply frees a slot."""
    found = _judged(*_in_pieces(at_once=2), tmp_path, capsys)
    codes = [one["code"] for one in found["findings"]]
    assert "client-slots" in codes
    assert "serial-pieces" not in codes
    assert found["verdict"]["cause"] == "client-slots"


def test_a_wait_much_longer_than_its_reads_is_above_the_wire(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """60 ms pass before the first of 16 READs is sent, with nothing in flight: no slot, and no sum of READs."""
    found = _judged(*_in_pieces(at_once=1, before_us=60_000), tmp_path, capsys)
    codes = [one["code"] for one in found["findings"]]
    assert "above-wire" in codes
    assert not {"client-slots", "serial-pieces"} & set(codes)


def test_slow_reads_in_a_row_are_the_servers_first(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """20 ms each in the server: its storage leads, and that there are 16 in a row is said besides."""
    found = _judged(*_in_pieces(at_once=1, op_us=20_000), tmp_path, capsys)
    assert found["verdict"]["cause"] == "server-storage"
    assert "16.0 READs of 8 KB in a row" in found["verdict"]["text"]


def test_waits_of_several_reads_that_are_joined_with_none_are_not_compared(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Of another clock, and of other blocks: not 20 ms above the wire, and the reason."""
    made, waits = _in_pieces(at_once=1)
    captures = captures_of(made, tmp_path)
    text = _trace(made, [(event, file, block + 10**6, blocks) for event, file, block, blocks in waits], 7 * 10**12)
    (trace := tmp_path / "ora_1.trc").write_text(text)
    found = _report(capsys, captures, "--evidence", str(trace))
    assert any(
        one.startswith("not used: ") and "a wait of 16.0 blocks is several READs of 8 KB" in one
        for one in found["evidence"]
    )
    assert not [one for one in found["findings"] if "slots" in one["code"]]


# --- The application's mean alone -------------------------------------------------------------------------------------


def _by_mean(made: Made, waits: int, folder: Path, capsys: pytest.CaptureFixture[str]) -> tuple[dict[str, Any], float]:
    """Judged with the mean of its waits, which is joined with nothing; and that mean."""
    captures = captures_of(made, folder)
    mean_ms = sum(call.end_ns - call.begin_ns for call in made.calls) / waits / 1e6
    return _report(capsys, captures, "--app-ms", f"READ={mean_ms:.4g}"), mean_ms


@pytest.mark.parametrize("sessions", [1, 6])
def test_a_mean_that_is_reads_in_a_row_is_their_sum(
    sessions: int, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Nobody joins it with operations: they go on where one ended, right behind its answer, and 16 take as long."""
    made, waits = _in_pieces(at_once=1, sessions=sessions)
    found, mean_ms = _by_mean(made, len(waits), tmp_path, capsys)
    assert (found["verdict"]["cause"], found["verdict"]["confidence"]) == ("serial-pieces", "medium")
    assert f"A request of the application takes {mean_ms:.2f} ms, as long as 1" in found["verdict"]["text"]
    (pieces,) = [one for one in found["findings"] if one["code"] == "serial-pieces"]
    assert pieces["evidence"]["ops"] == pytest.approx(16, rel=0.06)
    assert pieces["confidence"] == "likely"
    assert not [one for one in found["findings"] if "slots" in one["code"]]


@pytest.mark.parametrize(
    ("pieces", "code"),
    [({"at_once": 2}, "client-slots"), ({"at_once": 1, "before_us": 60_000}, "above-wire")],
)
def test_a_mean_that_its_reads_do_not_make_is_no_sum(
    pieces: dict[str, int], code: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Two at once, where each next one waits for a slot; and 60 ms in front of the first."""
    made, waits = _in_pieces(**pieces)
    codes = [one["code"] for one in _by_mean(made, len(waits), tmp_path, capsys)[0]["findings"]]
    assert code in codes
    assert "serial-pieces" not in codes


@pytest.mark.parametrize(("gap_us", "jump"), [(300, 97), (20_000, 1)])
def test_reads_by_themselves_are_no_parts_of_a_request(
    gap_us: int, jump: int, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """At random places, and one behind the other by a program that takes its time: 20 ms are not of the wire."""
    made = Made()
    for number in range(400):
        at = number * (1300.0 + gap_us)
        made.op(at, at + 1300, lambda xid, o=number * jump % 401 * 8192: read(xid, o, 8192, _FHS[4]))
        made.calls.append(Call("pread", "", 0, 0, int(at) * 1000, int(at + 20_000) * 1000))
        made.truth.append(set())
    codes = [one["code"] for one in _by_mean(made, 400, tmp_path, capsys)[0]["findings"]]
    assert "serial-pieces" not in codes


def test_what_is_wanted_of_a_request_is_not_of_its_parts(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """5 ms are wanted, a request takes 21, and each of its READs 1.3: it is not met."""
    made, _ = _in_pieces(at_once=1)
    captures = captures_of(made, tmp_path)
    found = _report(capsys, captures, "--app-ms", "READ=21.3", "--slo", "READ=5ms")
    (objective,) = found["verdict"]["objectives"]
    assert (objective["of"], objective["measured_ms"], objective["met"]) == ("application", 21.3, False)
