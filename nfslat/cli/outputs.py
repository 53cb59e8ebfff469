"""What a command made -> the files that were asked for, and the text; a row for each kind of file."""

from __future__ import annotations

import argparse
import contextlib
import importlib
import itertools
import os
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, TextIO

from nfslat.cli.messages import say
from nfslat.errors import PictureError, UsageError
from nfslat.export.output import Kind, binary_output, is_standard, output, output_directory, writing_to
from nfslat.report.text_layout import visible

if TYPE_CHECKING:
    from nfslat.api import Report
    from nfslat.export.by_window import Sink


class Result(NamedTuple):
    """What a command made, in each form that it can be had in; nothing is made that is not asked for."""

    text: Callable[[], str]
    json: Callable[[TextIO], object]
    markdown: Callable[[], str] = str
    html: Callable[[], str] = str
    png: Callable[[Path], object] = str
    report: Any = None  # an `nfslat.Report`, which has the rest
    status: Callable[[], int] = int  # of the process
    names_files: bool = False  # that were written are named on standard error

    @classmethod
    def of_report(cls, report: Report, text: Callable[[], str], status: Callable[[], int]) -> Result:
        """Of captures."""
        forms = report.write_json, report.markdown, report.html, report.write_png
        return cls(text, *forms, report, status, names_files=True)


class Run(NamedTuple):
    """Where a command runs."""

    command: str  # line
    stack: contextlib.ExitStack  # ends when everything is written
    width: int = 80
    color: bool = False
    charset: str = "utf-8"  # of the text
    sinks: Callable[[str], Sequence[Sink]] = lambda _: ()  # files that are written as blocks of operations come


class Command(Protocol):
    """A module of the command line."""

    def inputs(self, options: argparse.Namespace) -> Sequence[str]:
        """Files that it reads, which no output may replace. Raises ``UsageError`` for options that do not fit."""

    def make(self, options: argparse.Namespace, run: Run) -> Result:
        """What is asked for. Raises ``UsageError`` and ``InputError``."""


def _pyarrow(_: str) -> None:
    from nfslat.decode.arrow import pyarrow  # noqa: PLC0415  (brings numpy)

    pyarrow("pyarrow.parquet")


def _packages(*modules: str) -> Callable[[str], None]:
    def check(option: str) -> None:
        try:
            for module in modules:
                importlib.import_module(module)
        except ImportError as problem:
            raise UsageError(f"{option} needs {module}: pip install 'nfslat[html]'") from problem

    return check


class Output(NamedTuple):
    """One format. `write` gets what was made, what `open` made of the name, and the name."""

    option: str  # with what help calls its value
    words: str  # in the help
    write: Callable[[Result, Any, str], object]
    kind: Kind
    commands: str = "nfslat capture"
    open: Callable[..., contextlib.AbstractContextManager[Any]] = output
    both: bool = False  # of two captures only
    check: Callable[[str], None] | None = None  # raises ``UsageError`` where it cannot be made here

    @property
    def name(self) -> str:
        """The option alone."""
        return self.option.partition(" ")[0]

    def asked(self, options: argparse.Namespace) -> str | None:
        """The name that was given; None: this is not to be written."""
        name: str | None = getattr(options, self.name.strip("-").replace("-", "_"), None)
        return name


_OF_FIGURES = ("--html", "--json")
_BY_WINDOW = ("--csv", "--parquet")  # can be written as windows come
OUTPUTS = (
    Output(
        "--html FILE",
        "write it as one page with pictures, for browser and mail",
        lambda result, out, _: out.write(result.html()),
        Kind.HTML,
        commands="nfslat capture fleet series transport",
        check=_packages("vl_convert", "jinja2"),
    ),
    Output(
        "--png DIR",
        "write the main pictures to files in DIR, for tickets",
        lambda result, folder, _: result.png(folder),
        Kind.PICTURE,
        commands="nfslat capture series transport",
        open=output_directory,
        check=_packages("vl_convert"),
    ),
    Output(
        "--json FILE",
        "write it as JSON to FILE; - is standard output",
        lambda result, out, _: result.json(out),
        Kind.JSON,
        commands="nfslat capture show extract diff fleet series transport packets stack tune",
    ),
    Output(
        "--csv FILE",
        "write one row per matched op to FILE (docs/outputs.md)",
        lambda result, out, _: result.report.write_csv(out),
        Kind.CSV,
    ),
    Output(
        "--parquet FILE",
        "the same as Parquet, for pandas, DuckDB, Spark (docs/outputs.md)",
        lambda result, out, _: result.report.write_parquet(out),
        Kind.OPS,
        open=binary_output,
        check=_pyarrow,
    ),
    Output(
        "--ops-parquet FILE",
        "write one capture, decoded: FILE then stands for it wherever one is read (docs/outputs.md)",
        lambda result, out, _: result.report.write_ops_parquet(out),
        Kind.SIDE,
        open=binary_output,
        check=_pyarrow,
    ),
    Output(
        "--perfetto FILE",
        "write each op as spans in time, for ui.perfetto.dev (docs/outputs.md)",
        lambda result, out, name: result.report.write_perfetto(out, compress=name.endswith(".gz")),
        Kind.PERFETTO,
    ),
    Output(
        "--missed FILE",
        "write one row per op that has no match to FILE: why, and where to look (docs/outputs.md)",
        lambda result, out, _: result.report.write_missed(out),
        Kind.MISSED,
        both=True,
    ),
    Output(
        "--files FILE",
        "write who did what with which file: one row per op that has one (docs/outputs.md)",
        lambda result, out, _: result.report.write_files(out),
        Kind.FILES,
    ),
)


def need_ops(options: argparse.Namespace) -> bool:
    """Does any file that is asked for hold single operations of all of the time, or pictures of them?"""
    return any(row.asked(options) and row.name not in (*_OF_FIGURES, *_BY_WINDOW) for row in OUTPUTS)


def name_files(options: argparse.Namespace) -> bool:
    """May anything that is asked for name files by their paths? The text does not."""
    is_written = any(row.asked(options) for row in OUTPUTS)
    return is_written or options.markdown or options.anonymize or bool(options.by or options.evidence)


def _refuse(options: argparse.Namespace) -> None:
    """Raise ``UsageError`` for two outputs to one place, and for what cannot be made here."""
    named = {row.name: name for row in OUTPUTS if (name := row.asked(options)) is not None}
    if (out := getattr(options, "out", None)) is not None:
        named["--out"] = out
    places = {option: _place(name) for option, name in named.items() if name != os.devnull}
    for one, other in itertools.combinations(places, 2):
        if places[one] == places[other]:
            raise UsageError(f"{one} and {other} cannot both go to {named[other]}")
    for row in OUTPUTS:
        if row.check is not None and row.name in named:
            row.check(row.name)


class _Stream(NamedTuple):
    """A file that is being written."""

    row: Output
    name: str
    end: contextlib.ExitStack  # completes it
    place: Any  # what `row.open` made of the name


def run(command: Command, options: argparse.Namespace, where: Run, out: TextIO) -> int:
    """The command, with its text to `out` unless a file goes there, and its files, each of them complete or as it was.
    Returns the exit status.

    What cannot be written is found out before captures are read. Where pictures fail, what was to have them is not
    written, and the rest is.
    """
    read = command.inputs(options)
    _refuse(options)
    quiet = getattr(options, "quiet", False)
    gone: BrokenPipeError | None = None
    with contextlib.ExitStack() as files, where.stack:
        streams = []
        for row in OUTPUTS:
            if (name := row.asked(options)) is not None:
                end = files.enter_context(contextlib.ExitStack())
                place = row.open(name, row.kind, read, overwrite=options.overwrite)
                streams.append(_Stream(row, name, end, end.enter_context(place)))

        def sinks(line: str) -> list[Sink]:
            from nfslat.export.by_window import SINKS  # noqa: PLC0415  (brings numpy)

            return [SINKS[each.row.name](each.place, line) for each in streams if each.row.name in SINKS]

        result = command.make(options, where._replace(sinks=sinks))
        # The verdict does not wait for pictures. The files are made whatever happens to a reader of it (less, head).
        try:
            if not any(is_standard(each.name) for each in streams if each.row.open is not output_directory):
                out.write(result.markdown() if getattr(options, "markdown", False) else result.text())
                out.flush()
        except BrokenPipeError as problem:
            gone = problem
        failed, written = _write(result, streams, quiet=quiet)
    for name in written if result.names_files and not quiet else ():
        if not is_standard(name) and name != os.devnull:
            say(f"wrote {name}")
    if gone is not None:
        raise gone
    out.flush()
    if failed is not None:
        say(str(failed))
        return failed.exit_status
    return result.status()


def _write(result: Result, streams: Sequence[_Stream], *, quiet: bool) -> tuple[PictureError | None, list[str]]:
    """Why there are no pictures, where they failed, and the names of what was written."""
    shows = not quiet and sys.stderr is not None and sys.stderr.isatty()
    failed, written = None, []
    for row, name, end, place in streams:
        try:
            with writing_to(name), _shown(f"writing {name} ..." if shows else ""):
                row.write(result, place, name)
                if not isinstance(place, os.PathLike):
                    place.flush()
            written.append(name)
        except PictureError as problem:
            failed = failed or problem.named(name)
            end.__exit__(type(problem), problem, problem.__traceback__)
    return failed, written


@contextlib.contextmanager
def _shown(text: str) -> Iterator[None]:
    """A line on the terminal while something is made that takes long."""
    if text:
        sys.stderr.write(f"{visible(text)}\r")
        sys.stderr.flush()
    try:
        yield
    finally:
        if text:
            sys.stderr.write("\033[K")
            sys.stderr.flush()


def _place(file: str) -> str:
    """The same for all names of a file."""
    return "-" if is_standard(file) else os.path.realpath(file)
