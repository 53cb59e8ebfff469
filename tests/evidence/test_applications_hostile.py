"""Readers of applications and tracers on text that nobody printed: a record or one line, never anything else."""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from examples import examples
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from nfslat.errors import InputError
from nfslat.evidence.kinds import KINDS, Kind
from nfslat.evidence.read import read

DATA = Path(__file__).parent / "data"
FILES = sorted(path.name for path in DATA.glob("app_*"))
TEXTS = {file: (DATA / file).read_text() for file in FILES}
NUMBERS = st.sampled_from(
    [
        "0",
        "-1",
        "-0",
        "NaN",
        "nan",
        "inf",
        "1e999",
        "9" * 19,
        "9" * 400,
        "1,5",
        "1.234.567,8",
        "٣",
        "0x10",
        "1..2",
        "",
        ",",
    ]
)
PIECES = st.one_of(
    NUMBERS,
    st.text(max_size=20),
    st.sampled_from(
        ["\0", "\r", "\x0b", "\x85", "|", ";", " ms |", "| avg:", "| max:", "WAIT #", "- Distribution -", "(us)"]
    ),
    st.sampled_from([line for text in TEXTS.values() for line in text.splitlines()]),
)


@st.composite
def damaged(draw: st.DrawFn) -> str:
    """A known text with lines cut, doubled, mixed with those of others, and numbers replaced."""
    lines = TEXTS[draw(st.sampled_from(FILES))].splitlines(keepends=True)
    for _ in range(draw(st.integers(1, 6))):
        at = draw(st.integers(0, len(lines) - 1))
        line = lines[at]
        begin = draw(st.integers(0, len(line)))
        end = draw(st.integers(begin, min(len(line), begin + 12)))
        lines[at] = line[:begin] + draw(PIECES) + line[end:]
    return "".join(lines)[: draw(st.integers(1, 5000))]


def refused_in_one_line(work: Callable[[], Any]) -> Any:
    """What `work` gives; None where it refuses, which is one line."""
    problem = None
    try:
        return work()
    except InputError as error:
        problem = str(error)
    assert "\n" not in problem
    return None


def check(kind: Kind, lines: list[str]) -> None:
    """Read as `kind`, and hold what its figures promise."""
    evidence = refused_in_one_line(lambda: kind.read(iter(lines), "x"))
    if evidence is None:
        return
    assert all(note and "\n" not in note for note in evidence.notes)
    for latency in evidence.latencies:
        assert math.isfinite(latency.mean_ms)
        assert latency.mean_ms >= 0
        assert latency.count is None or latency.count >= 0
        assert latency.p99_ms is None or math.isfinite(latency.p99_ms)


@settings(max_examples=examples(150), suppress_health_check=[HealthCheck.too_slow])
@given(damaged())
def test_every_reader_gives_a_record_or_one_line(text: str) -> None:
    """Each reader gets the damaged text of each source."""
    lines = text.splitlines(keepends=True)
    for kind in KINDS:
        check(kind, lines)


@settings(max_examples=examples(100))
@given(st.lists(PIECES, max_size=20).map(" ".join))
def test_pieces_in_any_order(text: str) -> None:
    """Words of all sources on one line and on many."""
    for kind in KINDS:
        check(kind, text.split(";"))


@settings(max_examples=examples(60), suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(content=st.one_of(st.binary(max_size=300), damaged().map(lambda text: text.encode("utf-8", "surrogatepass"))))
def test_every_file_is_read_or_refused_in_one_line(content: bytes, tmp_path: Path) -> None:
    """Any bytes at all."""
    path = tmp_path / "x"
    path.write_bytes(content)
    evidence = refused_in_one_line(lambda: read(str(path)))
    assert evidence is None or evidence.kind


@pytest.mark.parametrize("file", FILES)
def test_a_file_may_end_anywhere(file: str, tmp_path: Path) -> None:
    """What a full disk left of a file is read or refused."""
    text = TEXTS[file]
    for cut in range(1, len(text), max(1, len(text) // 40)):
        (tmp_path / file).write_text(text[:cut])
        refused_in_one_line(lambda: read(str(tmp_path / file)))


LONG: list[Callable[[int], str]] = [
    lambda size: "WAIT #1: nam='" + "a" * size,
    lambda size: "WAIT #1: nam='x' ela= 1 " + "blocks=1" * (size // 8),
    lambda size: "1.5: rpc_stats_latency: xid=0x1 " + "v" * size,
    lambda size: "1" * size + " xid=0x1 1.5: svc_stats_latency:",
    lambda size: "a" * size + " | 1.0 ms | 1 | avg: 1.0 ms | max: 1.0 ms |" + " " * size,
    lambda size: "a;" * (size // 2) + " 7",
    lambda size: "-" * size + " " + "- " * (size // 2),
    lambda size: "Event" + " " * size + "\n--- ---\n" + "x" * size,
    lambda size: "lat (us)\nread " + "1 " * (size // 2),
    lambda size: "{" + "[" * size,
    lambda size: "  lat (usec): min=" + "9" * size,
    lambda size: " " * size + "ms",
    lambda size: "Device r/s await\n" + "1 " * (size // 2),
    lambda size: "Linux 6.1 (" + "h" * size,
    lambda size: "zzz ***" + " " * size,
    lambda size: "ESTAB 0 0 10.0.0.1:1 10.0.0.2:2 " + "rtt:1 rto:2 cwnd:3 " * (size // 19),
    lambda size: "1 1795531628.123456 pread64(7<" + "/" * size,
    lambda size: "1 1795531628.123456 pread64(7</f>, " + "1, " * (size // 3) + "1) = 1 <0.1",
    lambda size: "10.0.0.1:1 " * (size // 11),
    lambda size: "Tracing NFS operations\n12:00:00 " + "a " * (size // 2) + "1 R 1 1 1.0 f",
    lambda size: "Analysis Begin Time:" + " " * size,
    lambda size: "Begin Snap:" + " " * size + "\n   DB Time:" + "1" * size,
]


@pytest.mark.parametrize("line", LONG, ids=range(len(LONG)))
def test_long_lines_are_read_in_linear_time(line: Callable[[int], str]) -> None:
    """A megabyte without an end of line; a search that is not linear would not come back."""
    for kind in KINDS:
        check(kind, line(1 << 20).splitlines(keepends=True))
        kind.belongs(line(1 << 20))
