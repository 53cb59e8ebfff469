"""The files that a report can be written to, a row each: its option, what it needs, and what writes it."""

from __future__ import annotations

import argparse
import contextlib
import importlib
import itertools
import os
import sys
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, TextIO

from nfslat.cli.arguments import add_overwrite
from nfslat.cli.messages import say
from nfslat.errors import PictureError, UsageError
from nfslat.export.output import Kind, binary_output, is_standard, output, output_directory, writing_to
from nfslat.report.text_layout import visible

if TYPE_CHECKING:
    from nfslat.export.by_window import Sink


def need_ops(options: argparse.Namespace) -> bool:
    """Does any file that is asked for hold single operations of all of the time, or pictures of them?"""
    able = (*_OF_FIGURES, *_BY_WINDOW)
    return any(row.asked(options) is not None and row.option not in able for row in OUTPUTS)


def name_files(options: argparse.Namespace) -> bool:
    """May anything that is asked for name files by their paths? The text does not."""
    is_written = any(row.asked(options) is not None for row in OUTPUTS)
    return is_written or options.markdown or options.anonymize or bool(options.by or options.evidence)


def _pyarrow(_: str) -> None:
    from nfslat.decode.arrow import pyarrow  # noqa: PLC0415  (brings numpy)

    pyarrow("pyarrow.parquet")


def packages(*modules: str) -> Callable[[str], None]:
    """A check for these."""

    def check(option: str) -> None:
        try:
            for module in modules:
                importlib.import_module(module)
        except ImportError as problem:
            raise UsageError(f"{option} needs {module}: pip install 'nfslat[html]'") from problem

    return check


class Output(NamedTuple):
    """One format. `write` gets the report, what `open` made of the name, and the name."""

    option: str
    words: str  # in the help
    write: Callable[[Any, Any, str], object]
    kind: Kind
    open: Callable[..., contextlib.AbstractContextManager[Any]] = output
    metavar: str = "FILE"
    both: bool = False  # of two captures only
    check: Callable[[str], None] | None = None  # raises ``UsageError`` where it cannot be made here

    def asked(self, options: argparse.Namespace) -> Any:
        """The name that was given; None: this is not to be written."""
        return getattr(options, self.option.strip("-").replace("-", "_"))


class Opened(NamedTuple):
    """Files that are to be written."""

    write: Callable[[Any], tuple[PictureError | None, list[str]]]
    sinks: Callable[[str], list[Sink]]  # of those that are written as windows come, with the command


_OF_FIGURES = ("--html", "--json")
_BY_WINDOW = ("--csv", "--parquet")  # can be written as windows come
OUTPUTS = (
    Output(
        "--html",
        "write the report as one page with pictures, for browser and mail",
        lambda report, out, _: out.write(report.html()),
        Kind.HTML,
        check=packages("vl_convert", "jinja2"),
    ),
    Output(
        "--png",
        "write the main pictures to files in DIR, for tickets",
        lambda report, folder, _: report.write_png(folder),
        Kind.PICTURE,
        open=output_directory,
        metavar="DIR",
        check=packages("vl_convert"),
    ),
    Output(
        "--json",
        "write the report as JSON to FILE; - is standard output",
        lambda report, out, _: report.write_json(out),
        Kind.JSON,
    ),
    Output(
        "--csv",
        "write one row per matched op to FILE",
        lambda report, out, _: report.write_csv(out),
        Kind.CSV,
    ),
    Output(
        "--parquet",
        "the same as Parquet, for pandas, DuckDB, Spark",
        lambda report, out, _: report.write_parquet(out),
        Kind.OPS,
        open=binary_output,
        check=_pyarrow,
    ),
    Output(
        "--ops-parquet",
        "write one capture, decoded: FILE then stands for it wherever one is read",
        lambda report, out, _: report.write_ops_parquet(out),
        Kind.SIDE,
        open=binary_output,
        check=_pyarrow,
    ),
    Output(
        "--perfetto",
        "write each op as spans in time, for ui.perfetto.dev",
        lambda report, out, name: report.write_perfetto(out, compress=name.endswith(".gz")),
        Kind.PERFETTO,
    ),
    Output(
        "--missed",
        "write one row per op that has no match to FILE: why, and where to look",
        lambda report, out, _: report.write_missed(out),
        Kind.MISSED,
        both=True,
    ),
    Output(
        "--files",
        "write who did what with which file: one row per op that has one",
        lambda report, out, _: report.write_files(out),
        Kind.FILES,
    ),
)


def add_outputs(group: argparse._ArgumentGroup) -> None:
    """An option for each."""
    for row in OUTPUTS:
        group.add_argument(row.option, metavar=row.metavar, help=row.words)
    add_overwrite(group)


def refuse(options: argparse.Namespace, rows: Sequence[Output] = OUTPUTS) -> None:
    """Raise ``UsageError`` for two outputs to one place, and for what cannot be made here."""
    named = {row.option: row.asked(options) for row in rows}
    places = {option: _place(name) for option, name in named.items() if name not in (None, os.devnull)}
    for one, other in itertools.combinations(places, 2):
        if places[one] == places[other]:
            raise UsageError(f"{one} and {other} cannot both go to {named[other]}")
    for row in rows:
        if row.check is not None and named[row.option] is not None:
            row.check(row.option)


@contextlib.contextmanager
def opened(
    options: argparse.Namespace, read: Sequence[str], json_out: TextIO | None, rows: Sequence[Output] = OUTPUTS
) -> Iterator[Opened]:
    """What writes a report to all that was asked for; each of them is complete when the block ends.

    Its `write` returns why there are no pictures, where they failed (then what was to have them is not written, and the
    rest is), and the names of what it wrote. What cannot be written is found out here, before captures are read. `read`
    names them and all other files that are read; `json_out` is where --json goes if it is open.
    """
    given = {"--json": contextlib.nullcontext(json_out)} if json_out is not None else {}
    with contextlib.ExitStack() as stack:
        streams = []
        for row in rows:
            if (name := row.asked(options)) is None:
                continue
            own = stack.enter_context(contextlib.ExitStack())
            place = given.get(row.option) or row.open(name, row.kind, read, overwrite=options.overwrite)
            streams.append((row, name, own, own.enter_context(place)))

        def sinks(command: str) -> list[Sink]:
            from nfslat.export.by_window import SINKS  # noqa: PLC0415  (brings numpy)

            return [SINKS[row.option](stream, command) for row, _, _, stream in streams if row.option in SINKS]

        def write(report: Any) -> tuple[PictureError | None, list[str]]:
            shows = not options.quiet and sys.stderr is not None and sys.stderr.isatty()
            failed, written = None, []
            for row, name, own, stream in streams:
                try:
                    with writing_to(name), _shown(f"writing {name} ..." if shows else ""):
                        row.write(report, stream, name)
                        if not isinstance(stream, os.PathLike):
                            stream.flush()
                    written.append(name)
                except PictureError as problem:
                    failed = failed or problem.named(name)
                    own.__exit__(type(problem), problem, problem.__traceback__)
            return failed, written

        yield Opened(write, sinks)


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


def say_written(names: Sequence[str]) -> None:
    """Which files there are now, on standard error."""
    for name in names:
        if not is_standard(name) and name != os.devnull:
            say(f"wrote {name}")


def to_standard(options: argparse.Namespace, rows: Sequence[Output] = OUTPUTS) -> bool:
    """Whether any of them goes to standard output, where the text then does not."""
    return any(is_standard(row.asked(options)) for row in rows if row.open is not output_directory)


def _place(file: str) -> str:
    """The same for all names of a file."""
    return "-" if is_standard(file) else os.path.realpath(file)
