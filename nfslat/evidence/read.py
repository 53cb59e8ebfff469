"""A file that an application or a tracer printed -> what kind it is, and what it says.

The kind is told by the text, not by the file's name. Compressed files (gzip) and UTF-16 (a Windows shell's) are read as
they are, line by line.
"""

from __future__ import annotations

import gzip
import io
import os
import stat
import zlib
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any, TypeVar

from nfslat.errors import InputError
from nfslat.evidence import dtrace, fio, folded, oracle_trace, oracle_waits, perf_sched, sqlnet_trace, sunrpc_trace
from nfslat.evidence.folded import Stacks
from nfslat.evidence.oracle_trace import Trace10046
from nfslat.evidence.oracle_waits import Waits
from nfslat.evidence.perf_sched import Sched
from nfslat.evidence.records import Latency
from nfslat.evidence.sqlnet_trace import SqlnetTrace
from nfslat.evidence.sunrpc_trace import SunrpcTrace

T = TypeVar("T")

_GZIP = b"\x1f\x8b"
_HEAD_BYTES = 4096
_LONGEST = 1 << 20  # characters of a line; what is behind them is not looked at
_FEW_LINES = 200  # that tell folded stacks and HTML
_KNOWN = (
    "an Oracle 10046 trace, AWR text, wait histogram, DTrace, sunrpc trace, perf sched latency, folded stacks or fio"
)


@dataclass(frozen=True)
class Evidence:
    """What one file says. Of the records at the end that of its kind is there, if the kind has more than latencies."""

    kind: str  # "10046 trace", "wait events", "DTrace", "sunrpc trace", "perf sched", "folded stacks" or "fio"
    name: str  # of the file, without its folders
    latencies: tuple[Latency, ...] = ()
    notes: tuple[str, ...] = ()  # one sentence each, for the reader of the report
    trace: SunrpcTrace | None = None
    oracle: Trace10046 | None = None
    waits: Waits | None = None
    sched: Sched | None = None
    stacks: Stacks | None = None


def read(path: str) -> Evidence:
    """Read a file of any kind; raises ``InputError``, one line, for what cannot be read or holds nothing."""
    name = os.path.basename(path) or path
    return _checked(path, _KNOWN, lambda: _read(_kind(_Lines(path)), _Lines(path), name))


def read_sqlnet_trace(path: str) -> SqlnetTrace:
    """Read a SQL*Net trace; raises ``InputError`` likewise."""
    return _checked(path, "a SQL*Net trace", lambda: sqlnet_trace.parse(_Lines(path, "a SQL*Net trace")))


def _checked(path: str, wanted: str, work: Callable[[], T]) -> T:
    try:
        regular = stat.S_ISREG(os.stat(path).st_mode)
    except ValueError as problem:  # a NUL in the path
        raise InputError(f"{path!r}: cannot be read: {problem}") from None
    except OSError as problem:
        raise InputError(f"{path}: cannot be read: {problem.strerror}") from None
    if not regular:
        raise InputError(f"{path}: is not a file: give a file with {wanted}")
    try:
        return work()
    except InputError as problem:
        raise InputError(f"{path}: {problem}") from None
    except OSError as problem:
        raise InputError(f"{path}: cannot be read: {problem.strerror or problem}") from None


def _read(kind: str, lines: _Lines, name: str) -> Evidence:
    latencies: tuple[Latency, ...] = ()
    records: dict[str, Any] = {}
    if kind == "sunrpc trace":
        records["trace"] = trace = sunrpc_trace.parse(lines)
        latencies, notes = sunrpc_trace.latencies(trace, name), sunrpc_trace.notes(trace)
    elif kind == "10046 trace":
        records["oracle"] = oracle = oracle_trace.parse(lines)
        latencies, notes = oracle_trace.latencies(oracle, name), oracle_trace.notes(oracle)
    elif kind == "wait events":
        records["waits"] = waits = oracle_waits.parse(lines)
        latencies, notes = oracle_waits.latencies(waits, name), oracle_waits.notes(waits)
    elif kind == "perf sched":
        records["sched"] = sched = perf_sched.parse(lines)
        notes = perf_sched.notes(sched)
    elif kind == "folded stacks":
        records["stacks"] = stacks = folded.parse(lines)
        notes = folded.notes(stacks)
    elif kind == "fio":
        jobs = fio.parse(lines)
        latencies, notes = fio.latencies(jobs, name), fio.notes(jobs)
    else:
        printed = dtrace.parse(lines)
        latencies, notes = dtrace.latencies(printed, name), dtrace.notes(printed)
    if lines.cut:
        notes = (*notes, "the file is cut off: what is there was read")
    return Evidence(kind, name, latencies, notes, **records)


# In this order: a line of one may look like one of a later kind.
_KINDS: tuple[tuple[str, Callable[[str], bool]], ...] = (
    ("10046 trace", oracle_trace.belongs),
    ("sunrpc trace", sunrpc_trace.belongs),
    ("perf sched", perf_sched.belongs),
    ("wait events", oracle_waits.belongs),
    ("fio", fio.belongs),
)


def _kind(lines: _Lines) -> str:
    """The kind that the first line with a mark has; DTrace and folded stacks have none that others could not have."""
    stacks = told = 0
    averages = False
    for line in lines:
        if told < _FEW_LINES and "<html" in line[:200].lower():
            raise InputError("is HTML: make a text report (awrrpt.sql asks for html or text)")
        for kind, belongs in _KINDS:
            if belongs(line):
                return kind
        averages = averages or dtrace.belongs(line)
        if told < _FEW_LINES and line.strip():
            told += 1
            stacks += folded.belongs(line)
        elif told == _FEW_LINES and 2 * stacks > told:
            break
    if not told:
        raise InputError("holds no text")
    if 2 * stacks > told:
        return "folded stacks"
    if averages:
        return "DTrace"
    raise InputError(f"is not {_KNOWN}")


class _Lines(Iterable[str]):
    """The lines of a file, long ones cut; `cut` is set when the file ends in the middle of what was compressed."""

    def __init__(self, path: str, wanted: str = _KNOWN) -> None:
        self._path = path
        self._wanted = wanted
        self.cut = False

    def __iter__(self) -> Iterator[str]:
        with open(self._path, "rb") as raw:
            packed = raw.read(2) == _GZIP
            raw.seek(0)
            stream = gzip.GzipFile(fileobj=raw) if packed else raw
            try:
                yield from self._text(stream)
            except (EOFError, zlib.error, gzip.BadGzipFile):
                self.cut = True

    def _text(self, stream: gzip.GzipFile | io.BufferedReader) -> Iterator[str]:
        # One piece, so that what a cut file holds is not lost to its end.
        head = stream.read1(_HEAD_BYTES)
        stream.seek(0)
        wide = head.startswith((b"\xff\xfe", b"\xfe\xff"))
        if b"\0" in head and not wide:
            raise InputError(f"is binary: give a text file with {self._wanted}")
        with io.TextIOWrapper(stream, encoding="utf-16" if wide else "utf-8-sig", errors="replace") as text:
            while line := text.readline(_LONGEST):
                yield line
                while not line.endswith("\n") and len(line) == _LONGEST:
                    line = text.readline(_LONGEST)
