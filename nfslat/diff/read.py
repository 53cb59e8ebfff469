"""The name of a run -> a `Run`: a report, a capture or a pair of them, or a folder with these."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TypeVar

from nfslat import __version__, api, pipeline
from nfslat.answer.contract import Document
from nfslat.answer.model import SCHEMA, Report, Tool
from nfslat.decode.capture import captures_of
from nfslat.diff.runs import Run, single_ops
from nfslat.errors import InputError, UsageError
from nfslat.evidence.known import Known
from nfslat.results import Correlation
from nfslat.select import Filters

D = TypeVar("D", bound=Document)

_START_BYTES = 300  # that say what it is


def from_file(name: str, filters: Filters, *, engine: str | None, quiet: bool) -> Run:
    """A report, a capture or a folder; ``UsageError`` for filters on a report, else ``InputError``."""
    path = Path(name)
    if path.is_dir():
        return from_captures(captures_of([name]), filters, engine=engine, quiet=quiet, name=name)
    if not path.exists():
        raise InputError(f"{name}: no such file")
    if not path.is_file():
        raise InputError(f"{name}: neither a file nor a folder")
    start = beginning(path)
    if not start:
        raise InputError(f"{name}: the file is empty")
    if not start.startswith(b"{"):
        return from_captures([name], filters, engine=engine, quiet=quiet)
    if filters.text:
        raise UsageError(f"{', '.join(filters.text)}: {name}: a finished report; filters need captures")
    report = document(Report, name)
    if report.matched is None:
        raise InputError(f"{name}: a report on one capture, of which nothing is inferred; diff needs both sides")
    sides = {"server", "client"} - ({report.inferred.side} if report.inferred else set())
    if report.captures.keys() != sides or report.clock is None or report.verdict is None:
        raise InputError(f"{name}: not a whole report of {SCHEMA}: no captures of both sides, clock or verdict")
    run = Run(name, "report", report, None)
    if not run.summaries.ops:
        raise InputError(f"{name}: a report without matched ops")
    if run.summaries.count.min() < 1:
        raise InputError(f"{name}: not a whole report of {SCHEMA}: a row without ops")
    return run


def beginning(path: Path) -> bytes:
    """What a file begins with, without blanks and the mark of UTF-8."""
    with path.open("rb") as stream:
        return stream.read(_START_BYTES).removeprefix(b"\xef\xbb\xbf").lstrip()


def document(kind: type[D], name: str) -> D:
    """A report in a file. Raises ``InputError`` for what is no such report."""
    try:
        return kind.from_json(Path(name).read_text(encoding="utf-8-sig"), name)
    except OSError as problem:
        raise InputError(f"{name}: {problem.strerror}") from problem
    except UnicodeDecodeError as problem:
        raise InputError(f"{name}: not a text file") from problem


def from_captures(
    captures: Sequence[str], filters: Filters, *, engine: str | None, quiet: bool, name: str | None = None
) -> Run:
    """Two captures, or one whose other host is inferred. Raises as `api.compared` does, and where no op is in both."""
    found = api.compared(captures, api.Options(engine=engine, filters=filters), quiet=quiet)
    return of_correlation(found, filters, name or " ".join(captures))


def of_correlation(found: Correlation, filters: Filters, name: str, *, borders: Sequence[int] | None = None) -> Run:
    """Two captures that were read. Raises ``InputError`` where no op is in both. `borders` as `pipeline.report` takes
    them."""
    if not len(found.matched):
        raise InputError(f"{name}: no op is in both captures")
    analysis = pipeline.analyse(found)
    tool = Tool(__version__, found.engine, "nfslat diff", found.srt)
    report = pipeline.report(analysis, tool, filters, Known(), borders=borders)
    return Run(name, "captures", report, single_ops(analysis))
