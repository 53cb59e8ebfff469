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
from dataclasses import replace
from typing import TypeVar

from nfslat.errors import InputError
from nfslat.evidence import sqlnet_trace
from nfslat.evidence.kinds import KINDS, Kind, Mark
from nfslat.evidence.records import Evidence
from nfslat.evidence.sqlnet_trace import SqlnetTrace
from nfslat.evidence.tables import is_html

T = TypeVar("T")

_GZIP = b"\x1f\x8b"
_HEAD_BYTES = 4096
_LONGEST = 1 << 20  # characters of a line; what is behind them is not looked at
_HEAD_LINES = 50  # that tell what a tool of a host printed from a snapshot
_FEW_LINES = 200  # that tell folded stacks and HTML
_KNOWN = f"an {', '.join(kind.words for kind in KINDS[:-1])} or {KINDS[-1].words}"


def read(path: str) -> Evidence:
    """Read a file of any kind; raises ``InputError``, one line, for what cannot be read or holds nothing."""
    name = os.path.basename(path) or path
    return _checked(path, _KNOWN, lambda: _read(_kind(_Lines(path)), _Lines(path), name))


def read_sqlnet_trace(path: str) -> SqlnetTrace:
    """Read a SQL*Net trace; raises ``InputError`` likewise."""
    return _checked(path, "a SQL*Net trace", lambda: sqlnet_trace.parse(_Lines(path, "a SQL*Net trace")))


def is_recording(path: str) -> bool:
    """Is it what a tool of a host printed over some time, and no snapshot?"""
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            head = [
                line for _, line in zip(range(_HEAD_LINES), iter(lambda: file.readline(_LONGEST), ""), strict=False)
            ]
    except (OSError, ValueError):
        return False  # which is said when it is read
    if not head or head[0].startswith("# nfslat snapshot"):
        return False
    kinds = [kind for kind in KINDS if kind.name in ("host statistics", "ss")]
    return any(kind.belongs(line) for line in head for kind in kinds)


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


def _read(kind: Kind, lines: _Lines, name: str) -> Evidence:
    evidence = kind.read(lines, name)
    notes = (*evidence.notes, "the file is cut off: what is there was read") if lines.cut else evidence.notes
    return replace(evidence, kind=kind.name, name=name, notes=notes)


def _kind(lines: _Lines) -> Kind:
    """The kind that is sure of a line; else what most of the first lines look like; else what any line looks like."""
    looked, marked, html = 0, dict.fromkeys(KINDS, 0), False
    for line in lines:
        html = html or (looked < _FEW_LINES and is_html(line))
        first = looked < _FEW_LINES and bool(line.strip())
        looked += first
        for kind in KINDS:
            if (kind.mark is not Mark.MOST or first) and kind.belongs(line):
                if kind.mark is Mark.SURE and (kind.html or not html):
                    return kind
                marked[kind] += 1
        if looked == _FEW_LINES and not first and not html and (most := _most(marked, looked)):
            return most
    if not looked:
        raise InputError("holds no text")
    if html:
        raise InputError("is HTML, and no AWR or ASH report: make a text report")
    if most := _most(marked, looked):
        return most
    for kind, count in marked.items():
        if kind.mark is Mark.UNSURE and count:
            return kind
    raise InputError(f"is not {_KNOWN}")


def _most(marked: dict[Kind, int], lines: int) -> Kind | None:
    return next((kind for kind, count in marked.items() if kind.mark is Mark.MOST and 2 * count > lines), None)


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
