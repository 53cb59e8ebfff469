"""Files of evidence: their kind by their text, packed and cut ones, and what is none."""

from __future__ import annotations

import gzip
from pathlib import Path

import pytest

from nfslat.errors import InputError
from nfslat.evidence import oracle_trace
from nfslat.evidence.read import read
from nfslat.evidence.records import FILE_EVENTS, Evidence, file_event

DATA = Path(__file__).parent / "data"


def of(file: str) -> Evidence:
    return read(str(DATA / file))


def test_a_wait_that_the_end_of_the_file_cuts_is_not_read() -> None:
    """ "ela= 502" of 50213 is another number."""
    whole = "WAIT #3: nam='db file sequential read' ela= 50213 file#=5 block#=12 blocks=1 obj#=-1 tim=1"
    for cut in range(20, 90):
        try:
            (found,) = oracle_trace.trace([whole[:cut]], "x").latencies
        except InputError:
            assert cut <= whole.index("file#")
        else:
            assert found.max_ms == 50.213


def test_every_file_event_is_known_by_its_cut_name() -> None:
    """AWR cuts names at 26 characters; no cut name stands for two events that differ."""
    for name, event in FILE_EVENTS.items():
        assert file_event(name) == file_event(name[:26]) == event
    assert file_event("Disk file operations I/O") is None
    assert file_event("log file sync") is None
    assert file_event("") is None


@pytest.mark.parametrize(
    ("file", "kind"),
    [
        ("app_10046.trc", "10046 trace"),
        ("app_awr_11g.txt", "wait events"),
        ("app_awr_19c.txt", "wait events"),
        ("app_event_histogram.txt", "wait events"),
        ("app_nfsv3rwtime.txt", "DTrace"),
        ("app_sunrpc.txt", "sunrpc trace"),
        ("app_perf_sched.txt", "perf sched"),
        ("app_stacks.folded", "folded stacks"),
        ("app_fio.json", "fio"),
        ("app_fio.txt", "fio"),
    ],
)
def test_the_kind_is_told_by_the_text(file: str, kind: str, tmp_path: Path) -> None:
    """Not by the name; CRLF, a gzip file, UTF-16 and bytes that are no UTF-8 in a line give the same figures."""
    known = of(file)
    assert known.kind == kind
    text = (DATA / file).read_bytes()
    for other in (
        text.replace(b"\n", b"\r\n"),
        gzip.compress(text, mtime=0),
        text.decode().encode("utf-16"),
        b"\xef\xbb\xbf" + text,
    ):
        (tmp_path / file).write_bytes(other)
        again = read(str(tmp_path / file))
        assert (again.kind, again.latencies, again.notes) == (kind, known.latencies, known.notes)


def test_what_is_there_of_a_cut_gzip_file_is_read(tmp_path: Path) -> None:
    """And the notes say that it is cut."""
    lines = [f"WAIT #1: nam='db file sequential read' ela= {n * n} file#=1 block#=1 blocks=1\n" for n in range(5000)]
    packed = gzip.compress("".join(lines).encode())
    (tmp_path / "x.gz").write_bytes(packed[: len(packed) // 2])
    evidence = read(str(tmp_path / "x.gz"))
    assert 0 < evidence.latencies[0].count < 5000  # type: ignore[operator]
    assert "the file is cut off: what is there was read" in evidence.notes


@pytest.mark.parametrize(
    ("content", "says"),
    [
        (b"", "holds no text"),
        (b"\n \n", "holds no text"),
        (b"\xd4\xc3\xb2\xa1\x02\0\x04\0", "is binary"),
        (b"hello\nworld\n", "is not an Oracle 10046 trace, AWR or wait histogram"),
        (gzip.compress(b"", mtime=0)[:9], "holds no text"),
    ],
)
def test_what_cannot_be_read_is_said_in_one_line(content: bytes, says: str, tmp_path: Path) -> None:
    """Empty, binary, foreign: each has its own words, with the file's name."""
    path = tmp_path / "x"
    path.write_bytes(content)
    with pytest.raises(InputError) as problem:
        read(str(path))
    assert str(problem.value).startswith(f"{path}: ")
    assert says in str(problem.value)
    assert "\n" not in str(problem.value)


def test_what_is_no_file_is_said_in_one_line(tmp_path: Path) -> None:
    """A folder, nothing at all, a name with a NUL."""
    for path in (str(tmp_path), str(tmp_path / "none"), "a\0b", ""):
        with pytest.raises(InputError):
            read(path)
