"""The library: captures in, a `Report` out, which makes what `nfslat SERVER CLIENT`, `show` and `extract` do.

    import nfslat

    report = nfslat.correlate("server.pcap", "client.pcap")
    print(report.verdict.outcome, report.verdict.text)
    ops = report.ops.to_pandas()

What the other commands print is made by functions of their own:

    transport  nfslat.tcp.reading.read_trace, nfslat.tcp.both.correlate, nfslat.tcp.report.make
    diff       nfslat.diff.read.from_file and from_captures, nfslat.diff.answer.answer
    packets    nfslat.sizes.payload.fetching and transfer
    stack      nfslat.cli.numbers.Numbers and answer
    tune       nfslat.evidence.snapshot.read, nfslat.findings.tune.checks.check

Raises ``nfslat.errors.UsageError`` for what makes no sense, ``InputError`` for what cannot be read or compared.
"""

from __future__ import annotations

import contextlib
import os
import shlex
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, TextIO, TypedDict, TypeVar, Unpack

from msgspec import field, structs

from nfslat import __version__
from nfslat.answer import model
from nfslat.decode.capture import MOST_JOINED_OPS, UNBOUNDED, Source, captures_of
from nfslat.decode.engine import ENGINES
from nfslat.decode.sides import TooManyOpsError
from nfslat.decompose import SRT_DEFINITIONS
from nfslat.errors import InputError, NfslatError, UsageError
from nfslat.evidence.known import Known, parse_known
from nfslat.evidence.outside import Files, Outside, gather, with_bundled
from nfslat.figures.objectives import parse_slo
from nfslat.figures.whatif import Asked, parse_asked
from nfslat.match.overlap import NothingAnsweredError
from nfslat.model.record import Record
from nfslat.model.segments import Wanted
from nfslat.model.thresholds import Threshold
from nfslat.names.text import checked_encoding
from nfslat.results import Analysis, Correlation, Side
from nfslat.select import FILTERS, Filters, make_filters

if TYPE_CHECKING:
    from nfslat.decode.sides import Progress
    from nfslat.decode.tools import Tools
    from nfslat.decode.workspace import Workspace
    from nfslat.export.anonymous import Pseudonyms
    from nfslat.export.by_window import Sink
    from nfslat.export.op_table import OpTable
    from nfslat.model.tables import I64
    from nfslat.names.paths import Paths
    from nfslat.packets.extract.write import Written
    from nfslat.packets.model import Shown, ShownCall

Name = str | os.PathLike[str]
Ms = float | Mapping[str, float] | Sequence[str] | None  # texts as the command line has them: "58", "READ=58"
_MEANS = ("app_ms", "storage_ms", "thread_ms")
_AS_THEY_ARE = {"engine", "srt", "may_swap", "sessions", "interval_s", "slowest", "name_encoding", "anonymize"}


class Options(Record):
    """What is to be made of captures; the fields are the options of the command line."""

    engine: str | None = None  # "native" or "tshark"; None: native
    filters: Filters = field(default_factory=Filters)
    srt: str = "nfslat"
    may_swap: bool = True
    known: Known = field(default_factory=Known)
    sessions: int | None = None
    what_if: tuple[Asked, ...] = ()
    slo: tuple[Threshold, ...] = ()
    outside: Outside | None = None  # None: nothing but `known`
    evidence: tuple[str, ...] = ()  # names of its files
    by: tuple[str, ...] = ()
    interval_s: float | None = None
    slowest: int = 20
    name_encoding: str | None = None
    anonymize: bool = False
    in_stretches: bool = False  # captures of more operations than are joined may be judged in parts: no single ones
    paths: bool = True  # False: nothing that names files will be asked for, so that replies are not searched for names
    command: str = ""  # what the report says it was made by

    @property
    def from_outside(self) -> Outside:
        """What is known from elsewhere."""
        return self.outside or Outside(self.known, self.sessions)

    def __post_init__(self) -> None:
        checked_encoding(self.name_encoding)
        for name, value, known in (
            ("engine", self.engine, (None, *ENGINES)),
            ("srt", self.srt, tuple(SRT_DEFINITIONS)),
        ):
            if value not in known:
                raise UsageError(f"{name} {value!r}: give one of {', '.join(map(str, known))}")


class Report:
    """What two captures, or one, say."""

    def __init__(self, found: Correlation | Side, options: Options, *, why_alone: str = "") -> None:
        """Of what `nfslat.pipeline` found; `why_alone`: why nothing was inferred of the host of a capture that is
        missing."""
        self._why_alone = why_alone
        if options.anonymize:
            from nfslat.export.anonymous import by_role

            found = by_role(found)
        self._found = found
        self._options = options

    def __repr__(self) -> str:
        if isinstance(self._found, Side):
            return f"<nfslat.Report on one capture: {int(self._found.kept.sum()):,} ops>"
        if self._found.inferred is not None:
            ops, side = len(self._found.matched), self._found.inferred.side
            return f"<nfslat.Report on one capture: {ops:,} ops, the {side} inferred>"
        return f"<nfslat.Report on two captures: {len(self._found.matched):,} matched ops>"

    def _repr_html_(self) -> str:
        """What a notebook shows."""
        from nfslat.report.notebook import html

        return html(self.summary)

    @property
    def findings(self) -> list[dict[str, object]]:
        """A row a finding, ranked, of plain values: ``pandas.DataFrame(report.findings)``."""
        from nfslat.report.notebook import finding_rows

        return finding_rows(self.summary.findings)

    @cached_property
    def summary(self) -> model.Report:
        """The figures without pictures: all that the text needs."""
        return self._summary()

    @property
    def judged(self) -> model.Report:
        """`summary` without rows that nothing is judged by."""
        return self._summary(brief=True)

    def _summary(self, *, brief: bool = False) -> model.Report:
        from nfslat import pipeline

        found, options = self._found, self._options
        engine = found.decoded.engine if isinstance(found, Side) else found.engine
        # Names of files are in the command, too.
        command = "nfslat ... --anonymize" if options.anonymize else options.command
        tool = model.Tool(__version__, engine, command, options.srt)
        if isinstance(found, Side):
            from nfslat.figures.one_side import report_one_side

            report = report_one_side(found, tool, options.filters, self._why_alone)
        else:
            known, notes = self._known
            report = pipeline.report(
                self._analysis,
                tool,
                options.filters,
                known,
                evidence=notes,
                asked=options.what_if,
                slo=options.slo,
                sessions=options.sessions,
                brief=brief,
            )
        if options.by or options.interval_s is not None:
            from nfslat.figures.intervals import intervals_of
            from nfslat.figures.pivots import pivot_of

            c, width_s = self._analysis, options.interval_s
            pivots = [pivot_of(c, by, self._real_paths if by == "file" else None) for by in options.by]
            intervals = None if width_s is None else intervals_of(c, width_s)
            report = structs.replace(report, pivots=pivots, intervals=intervals)
        return report if self._pseudonyms is None else self._pseudonyms.report(report)

    @property
    def verdict(self) -> model.Verdict | None:
        """Is there a fault, where, and how sure is that; None of one capture, or where no op is in both."""
        return self.summary.verdict

    @cached_property
    def figures(self) -> model.Report:
        """All figures, as the JSON has them (``nfslat.report/2``)."""
        from nfslat.figures.pictures.all import pictures_of
        from nfslat.figures.pictures.alone import alone_of

        inflight, slowest = self.summary.inflight, self._options.slowest
        if inflight is None:
            return self.summary
        if isinstance(plain := self._plain, Side):
            return structs.replace(self.summary, alone=alone_of(plain, inflight, self._options.srt))
        pictures = pictures_of(self._analysis, inflight, slowest=slowest, paths=self._paths_of)
        if pictures is not None and self._pseudonyms is not None:
            pictures = structs.replace(pictures, slowest=self._pseudonyms.texts(pictures.slowest))
        return structs.replace(self.summary, pictures=pictures)

    @cached_property
    def ops(self) -> OpTable:
        """The matched ops, one a row, as numpy columns: docs/outputs.md says what each is."""
        from nfslat.export.op_table import op_table

        return op_table(self.correlation, paths=self.paths, traced=self._known[0].traced)

    @cached_property
    def tables(self) -> Analysis | Side:
        """What the stages found, as they pass it on: of one capture a `Side`, of two an `Analysis`."""
        found, names = self._found, self._pseudonyms
        if isinstance(found, Side):
            return found if names is None else names.side(found)
        return self._analysis if names is None else names.tables(self._analysis)

    @property
    def correlation(self) -> Analysis:
        """`tables` of two captures; raises ``UsageError`` where there is one."""
        return _both(self.tables)

    @cached_property
    def paths(self) -> Paths:
        """Paths of the files that ops work on: of the matched ops, or of those of the one capture."""
        return self._real_paths if self._pseudonyms is None else self._pseudonyms.paths(self._real_paths)

    def text(
        self,
        *,
        full: bool = False,
        sections: Sequence[str] = (),
        width: int = 80,
        color: bool = False,
    ) -> str:
        """The report for a terminal: what fits a screen, all of it, or some sections (``["clock", "parts"]``)."""
        from nfslat.report import text

        asked = text.parse_sections(",".join(sections)) if sections else ()
        return text.render(self.summary, full=full, sections=asked, width=width, color=color)

    def markdown(self) -> str:
        """The report for a ticket."""
        from nfslat.report import markdown

        return markdown.render(self.figures)

    def html(self) -> str:
        """The report as one page that needs nothing else."""
        from nfslat.report.html.page import render

        return render(self.figures)

    def write_json(self, out: TextIO) -> None:
        """All figures; ``nfslat.report/2``."""
        self.figures.write_json(out)

    def write_png(self, directory: Name) -> list[Path]:
        """The main pictures; returns their names."""
        from nfslat.report.png import write_png

        return write_png(self.figures, Path(directory))

    def write_csv(self, out: TextIO) -> None:
        """One row a matched op."""
        from nfslat.export.csv import write_csv

        write_csv(self.ops, out)

    def write_parquet(self, out: BinaryIO) -> None:
        """One row a matched op."""
        from nfslat.export.by_window import write_parquet

        write_parquet(self.ops, out, command=self.summary.nfslat.command)

    def write_ops_parquet(self, out: BinaryIO) -> None:
        """One capture, decoded: nfslat takes the file in place of the capture."""
        from nfslat.decode.stored import write_side

        side = _one(self._found)
        if side is None:
            raise UsageError("--ops-parquet is of one capture: run it for each side")
        if self._options.anonymize:
            raise UsageError("--ops-parquet stands for the capture, names included; anonymize what is made of it")
        write_side(side.decoded, side.source, out, command=self._options.command)

    def write_perfetto(self, out: TextIO, *, compress: bool = False) -> None:
        """Chrome trace of the matched ops, for ui.perfetto.dev; `compress` with gzip, `out` being over a binary one."""
        from nfslat.export.perfetto import gzipped, write_perfetto

        with gzipped(out) if compress else contextlib.nullcontext(out) as text:
            write_perfetto(self.correlation, text, paths=self.paths, report=self.summary)

    def write_missed(self, out: TextIO) -> None:
        """One row an op that has no partner in the other capture."""
        from nfslat.export.missed import write_missed

        if _one(self._found) is not None:
            raise UsageError("--missed lists ops that one capture has and the other has not: it needs both captures")
        write_missed(_both(self._plain), out)

    def write_files(self, out: TextIO) -> None:
        """One row an op: who did what with which file."""
        from nfslat.export.files import write_files

        own = _one(self._plain)
        if own is None or own is self._plain:
            write_files(self._plain, out, self.paths)
            return
        from nfslat.names.paths import paths_of_side

        paths = paths_of_side(_one(self._found) or own, self._options.name_encoding)
        write_files(own, out, paths if self._pseudonyms is None else self._pseudonyms.paths(paths))

    def show(self, *, xid: int | Sequence[int] = (), slowest: int = 1, width: int = 80) -> str:
        """Single ops in full, as `nfslat show` prints them: those with `xid`, or the slowest. Reads the captures again.

        Raises ``InputError`` where the op is not in both, and ``ToolError`` without tshark.
        """
        from nfslat.packets import show

        encoding = self._options.name_encoding
        with self._shown(xid, slowest) as (found, tools, rows, calls):
            return "".join(
                show.render(found, rows, tools, calls=calls, width=width, name_encoding=encoding, charset="utf-8")
            )

    def shown(self, *, xid: int | Sequence[int] = (), slowest: int = 1) -> Shown:
        """The same as records, as `nfslat show --json` writes them."""
        from nfslat.packets.shown import shown

        with self._shown(xid, slowest) as (found, tools, rows, calls):
            encoding = self._options.name_encoding
            return shown(found, rows, tools, self.summary.nfslat, calls=calls, name_encoding=encoding)

    @contextlib.contextmanager
    def _shown(
        self, xid: int | Sequence[int], slowest: int
    ) -> Iterator[tuple[Correlation, Tools, list[int], list[ShownCall]]]:
        from nfslat.packets import show

        if self._options.anonymize:
            raise UsageError("packets show addresses and names: this does not go with anonymize")
        with self._packets() as (found, tools):
            yield found, tools, *show.asked(found, [xid] if isinstance(xid, int) else xid, slowest, tools)

    def write_extract(
        self, out: BinaryIO, *, xid: Sequence[int] = (), slowest: int = 1, context: bool = False
    ) -> list[Written]:
        """The packets of single ops as pcapng, as `nfslat extract` writes them; returns what was written of each op.

        The ops are those with `xid`, else the slowest; `context` adds what else was on their connections. Reads the
        captures again. Raises ``InputError`` where an op is not in both, and ``ToolError`` without Wireshark's tools.
        """
        from nfslat.packets import show
        from nfslat.packets.extract.write import anonymous, write_extract

        with self._packets() as (found, tools):
            shown, rewrite = anonymous(found) if self._options.anonymize else (found, None)
            rows = show.chosen(found, xid, slowest)
            return write_extract(shown, rows, tools, out, context=context, rewrite=rewrite)

    def _packets(self) -> contextlib.AbstractContextManager[tuple[Correlation, Tools]]:
        from nfslat.packets.again import again

        if _one(self._found) is not None:
            raise UsageError("packets are shown as both captures have them, side by side: this needs both captures")
        return again(_both(self._found))

    @property
    def _plain(self) -> Correlation | Side:
        """`tables`, as far as no analysis is needed."""
        return self._found if self._pseudonyms is None else self.tables

    @cached_property
    def _of_packets(self) -> Analysis:
        """What the packets alone tell, made where a figure is asked for that needs it."""
        from nfslat import pipeline

        found = _both(self._found)
        return found if isinstance(found, Analysis) else pipeline.analyse(found)

    @cached_property
    def _analysis(self) -> Analysis:
        from nfslat import pipeline

        return pipeline.with_threads(self._of_packets, self._known[0].threads)

    def _paths_of(self, rows: I64) -> Paths:
        """Those of the matched ops in some rows, which takes little where no others are asked for."""
        return self._real_paths if "_real_paths" in vars(self) else self._make_paths(rows)

    @cached_property
    def _real_paths(self) -> Paths:
        return self._make_paths()

    def _make_paths(self, rows: I64 | None = None) -> Paths:
        from nfslat.names.paths import paths_of, paths_of_side

        if not self._options.paths:
            raise RuntimeError("the captures were read without what names files")
        found, encoding = self._found, self._options.name_encoding
        return paths_of_side(found, encoding) if isinstance(found, Side) else paths_of(found, encoding, rows)

    @cached_property
    def _known(self) -> tuple[Known, tuple[str, ...]]:
        if self._options.outside is None or isinstance(self._found, Side):
            return self._options.known, ()
        known, notes = self._options.outside.known(self._of_packets)
        if self._pseudonyms is None:
            return known, notes
        from nfslat.export.anonymous_evidence import outside

        sources = (self._found.server.source, self._found.client.source)
        bundled = [source.bundle.name for source in sources if source.bundle is not None]
        return outside(self._pseudonyms, known, notes, [*self._options.evidence, *bundled])

    @cached_property
    def _pseudonyms(self) -> Pseudonyms | None:
        if not self._options.anonymize:
            return None
        from nfslat.export.anonymous import Pseudonyms

        return Pseudonyms.of(self._found, self._options.name_encoding)


Pair = TypeVar("Pair", bound=Correlation)


def _one(found: Correlation | Side) -> Side | None:
    """The side of the only capture; None where there are two."""
    if isinstance(found, Side):
        return found
    return next(iter(found.measured.values())) if found.inferred is not None else None


def _both(found: Pair | Side) -> Pair:
    if isinstance(found, Side):
        raise UsageError("this needs both captures, the server's and the client's: one does not tell of the other host")
    return found


class Request(TypedDict, total=False):
    """What `correlate` and `inspect` may be asked for: the options of the command line (docs/options.md), lists where
    they may be repeated. Moments are seconds after the client capture's first packet or ISO 8601, latencies ms: one for
    all, or by operation."""

    engine: str | None
    srt: str
    may_swap: bool  # of two captures
    op: Sequence[str]
    client_addr: Sequence[str]
    server_addr: Sequence[str]
    port: Sequence[int]
    start: str | float | None
    end: str | float | None
    all_programs: bool
    app_ms: Ms
    storage_ms: Ms
    thread_ms: Ms
    threads: int | None
    sessions: int | None
    what_if: Sequence[str]
    slo: Sequence[str]
    evidence: Sequence[Name]
    server_snapshot: Sequence[Name]
    client_snapshot: Sequence[Name]
    by: Sequence[str]
    interval_s: float | None
    slowest: int
    name_encoding: str | None
    anonymize: bool


def correlate(server: Name, client: Name, **asked: Unpack[Request]) -> Report:
    """Two captures of the same traffic, one taken at the server and one at the client.

    `server` and `client` are files, globs, lists with commas, or ``-``; each may be a file that `write_ops_parquet`
    made. Raises ``UsageError`` and ``InputError``.
    """
    return run([os.fspath(server), os.fspath(client)], options(**asked))


def inspect(capture: Name, **asked: Unpack[Request]) -> Report:
    """One capture, taken at either host: what the other one did is inferred from its packets where they bear it; or a
    folder with both.

    Errors as of `correlate`; docs/one_capture.md says what is inferred, and how well.
    """
    return run([os.fspath(capture)], options(**asked))


def options(**asked: Unpack[Request]) -> Options:
    """What is asked for, understood. Raises ``UsageError`` for what makes no sense."""
    if unknown := asked.keys() - Request.__annotations__.keys():
        raise TypeError(f"no such parameter: {', '.join(sorted(unknown))}")
    given: dict[str, Any] = dict(asked)
    means: dict[str, Any] = {name: parse_known(_ms_texts(given.get(name)), f"--{name[:-3]}-ms") for name in _MEANS}
    known = Known(**means, threads=given.get("threads"))
    names = (given.get(name, ()) for name in ("evidence", "server_snapshot", "client_snapshot"))
    files = Files(*([os.fspath(name) for name in some] for some in names))
    return Options(
        **{name: given[name] for name in _AS_THEY_ARE & given.keys()},
        filters=make_filters(**{name: given[name] for name in given.keys() & set(FILTERS)}),
        known=known,
        what_if=tuple(map(parse_asked, given.get("what_if", ()))),
        slo=tuple(map(parse_slo, given.get("slo", ()))),
        by=tuple(dict.fromkeys(given.get("by", ()))),
        outside=gather(known, given.get("sessions"), files),
        evidence=tuple(files.evidence),
    )


class InStretches(Report):
    """What two captures say that have more operations than are judged as a whole: the report, and no single ops."""

    def __init__(self, made: model.Report, options: Options, *, are_written: bool = False) -> None:
        """Of what `nfslat.flow.run` made; `are_written`: rows of single ops were as they came."""
        self._made = made
        self._are_written = are_written
        self._options = options

    def __repr__(self) -> str:
        ops = 0 if self._made.matched is None else self._made.matched.ops
        return f"<nfslat.Report on two captures, judged in stretches: {ops:,} matched ops>"

    def __getattr__(self, name: str) -> Any:
        """What other reports make tables of."""
        if name != "_found":
            raise AttributeError(name)
        raise UsageError("the captures were judged in stretches, and no single operation is kept")

    def write_csv(self, out: TextIO) -> None:
        """It was written as the stretches came."""
        if not self._are_written:
            super().write_csv(out)

    def write_parquet(self, out: BinaryIO) -> None:
        """The same."""
        if not self._are_written:
            super().write_parquet(out)

    @cached_property
    def summary(self) -> model.Report:
        """All figures."""
        return self._made

    @cached_property
    def figures(self) -> model.Report:
        """The same: there are no pictures."""
        return self._made


def run(
    captures: Sequence[str], options: Options, *, quiet: bool = True, sinks: Callable[[], Sequence[Sink]] = tuple
) -> Report:
    """One capture or two; a progress bar on a terminal unless `quiet`. Where they are judged in stretches, `sinks` get
    each of them."""
    from nfslat.decode.workspace import open_workspace

    if not options.command:
        options = structs.replace(options, command=shlex.join(["nfslat", *captures]))
    captures = captures_of(captures)
    wanted = _segments(captures)
    with open_workspace(captures, engine=options.engine, quiet=quiet, segments=wanted, files=options.paths) as work:
        if len(captures) > 1:
            # Where something needs all operations at once, they are.
            most_ops = MOST_JOINED_OPS if options.in_stretches and not options.anonymize else UNBOUNDED
            try:
                both = _correlate(work, options, most_ops)
            except TooManyOpsError as more:
                return _in_stretches(more, work, options, sinks())
            except NothingAnsweredError as nothing:
                return _without_answers(captures[1], options, nothing)
            return Report(both, _with_bundles(options, both, both.server, both.client))
        side, found = _of_one_capture(work, options)
        work.close_progress()
    if isinstance(found, str):
        _refuse_alone(options, found)
        return Report(side, options, why_alone=found)
    return Report(found, _with_bundles(options, found, side))


def _with_bundles(options: Options, found: Correlation, *sides: Side) -> Options:
    """With what hosts say of themselves in the tars of their captures."""
    if not any(side.source.bundle for side in sides):
        return options
    return structs.replace(options, outside=with_bundled(options.from_outside, found))


def _without_answers(client: str, options: Options, nothing: NothingAnsweredError) -> Report:
    """What the client's capture says by itself, where calls wait in it. Raises `nothing` where none does."""
    from nfslat import pipeline
    from nfslat.decode.workspace import open_workspace

    if options.filters.all_programs:
        raise nothing
    with open_workspace([client], engine=options.engine, quiet=True) as work:
        side = pipeline.inspect(work.sources[0], work.engine, filters=options.filters, progress=work.progress)
    return Report(side, options, why_alone="no call has its reply in either capture, and this is the client's")


def _of_all_at_once(work: Workspace) -> Progress:
    """Its progress where captures are read all at once, which ends where memory does not bear that."""
    from nfslat.decode.memory import while_memory_lasts

    return while_memory_lasts(work.progress, "cut a part of their time out of the captures (editcap -A and -B)")


def _in_stretches(more: TooManyOpsError, work: Workspace, options: Options, sinks: Sequence[Sink]) -> InStretches:
    from nfslat.decode import native
    from nfslat.flow.beside import Asked as AskedOfStretches
    from nfslat.flow.run import correlate as stretches_of

    def each(c: Analysis) -> None:
        for sink in sinks:
            sink.add(c)

    asked = AskedOfStretches(
        tool=model.Tool(__version__, native.NAME, options.command, options.srt),
        may_swap=options.may_swap,
        slo=options.slo,
        progress=work.progress,
        each=each,
        slowest=options.slowest,
        filters=options.filters,
        interval_s=options.interval_s,
        by=options.by,
        outside=options.from_outside,
        sessions=options.sessions,
        what_if=options.what_if,
        encoding=options.name_encoding,
    )
    with contextlib.ExitStack() as stack:
        for sink in sinks:
            stack.callback(sink.end)  # whatever happens, before its stream is closed
        made = stretches_of(more.blocks, more.again, asked)
    work.close_progress()
    return InStretches(made, options, are_written=bool(sinks))


def compared(captures: Sequence[str], options: Options, *, quiet: bool = True) -> Correlation:
    """Two captures, or one and what is inferred of the other host; ``InputError`` where nothing can be inferred."""
    from nfslat.decode.workspace import open_workspace

    with open_workspace(captures, engine=options.engine, quiet=quiet, segments=_segments(captures)) as work:
        if len(captures) > 1:
            return _correlate(work, options)
        _, found = _of_one_capture(work, options)
        work.close_progress()
    if isinstance(found, str):
        raise InputError(
            f"nothing is inferred of the other host: {found}; give the captures of both (--before SERVER CLIENT)",
            about=captures[0],
        )
    return found


def _of_one_capture(work: Workspace, options: Options) -> tuple[Side, Correlation | str]:
    """What is decoded of one capture, and what is inferred of the other host, or why nothing is; of one that holds the
    captures of two hosts, these, compared."""
    from nfslat import pipeline
    from nfslat.decode.twice import is_suspected, parted, refuse_unparted

    def inspected(source: Source) -> Side:
        return pipeline.inspect(source, work.engine, filters=options.filters, progress=_of_all_at_once(work))

    side = inspected(work.sources[0])
    if work.engine.blocks is None or not is_suspected(side.decoded):
        return side, _inferred(side, work, options)
    with tempfile.TemporaryDirectory(prefix="nfslat-") as scratch:
        made_of = parted(side.source, work.engine.tools, Path(scratch))
        if made_of is None or len(made_of.sources) == 1:
            side = side if made_of is None else inspected(made_of.sources[0])
            return side, _inferred(side, work, options)
        refuse_unparted(made_of)
        two = structs.replace(work, sources=made_of.sources)
        return side, _correlate(two, structs.replace(options, may_swap=True))


def _segments(captures: Sequence[str]) -> Wanted:
    """Of one capture all are needed to infer the other host; of two a sample, to hold each against its own."""
    return Wanted.ALL if len(captures) == 1 else Wanted.SOME


def _refuse_alone(options: Options, why: str) -> None:
    """Raise ``UsageError`` for what needs both sides, where one capture tells of one."""
    asked = {
        "by": options.by,
        "interval": options.interval_s,
        "what-if": options.what_if,
        "slo": options.slo,
        "sessions": options.sessions,
        "what is known from outside": options.evidence or options.from_outside.given != Known(),
    }
    names = ", ".join(name for name, value in asked.items() if value)
    if names:
        raise UsageError(f"{names}: this needs both sides, and nothing is inferred of the other host: {why}")


def _inferred(side: Side, work: Workspace, options: Options) -> Correlation | str:
    """The side of one capture, compared with what its packets tell of the other host; or why they do not."""
    from nfslat import pipeline
    from nfslat.decode.segments import read_segments

    if side.source.stored:
        return "it was decoded before, and its packets are not there; give the capture itself"
    is_tcp = any(ends.transport == "tcp" for ends in side.ops.connections)
    is_second_pass = is_tcp and work.engine.segments is not Wanted.ALL
    if is_second_pass:
        try:
            side.decoded.segments.extend(read_segments(side.source, work.engine.tools, lambda _: None))
        except NfslatError as problem:
            return f"its packets cannot be read again: {problem}"
    if is_tcp and not side.decoded.segments:
        return "it has more than 67,108,864 TCP segments; cut it with editcap -c"
    inferred = pipeline.infer_other(side, filters=options.filters, srt=options.srt)
    if is_second_pass:
        side.decoded.segments.clear()  # of two captures this engine gives none, and what is stored is one of two
    return inferred


@contextlib.contextmanager
def opened(captures: Sequence[str], options: Options, *, quiet: bool) -> Iterator[tuple[Correlation, Tools]]:
    """Two captures, compared, whose packets can be read once more within the block; and Wireshark's tools for that."""
    from nfslat.decode.workspace import open_workspace

    with open_workspace(captures, engine=options.engine, quiet=quiet, rereads=True) as work:
        found = _correlate(work, options)
        yield found, work.engine.tools()


def _correlate(work: Workspace, options: Options, most_ops: int = UNBOUNDED) -> Correlation:
    from nfslat import pipeline
    from nfslat.decode.twice import is_suspected, parted, refuse_two_hosts

    def compared(sources: Sequence[Source]) -> Correlation:
        return pipeline.correlate(
            sources[0],
            sources[1],
            work.engine,
            filters=options.filters,
            srt=options.srt,
            may_swap=options.may_swap,
            progress=_of_all_at_once(work),
            most_ops=most_ops,
        )

    found = compared(work.sources)
    suspected = [is_suspected(side.decoded) for side in (found.server, found.client)]
    if work.engine.blocks is not None and any(suspected) and not work.sources[0].made_from:
        with tempfile.TemporaryDirectory(prefix="nfslat-") as scratch:
            sources = []
            for number, side in enumerate((found.server, found.client)):
                own = Path(scratch, str(number))
                own.mkdir()
                made_of = parted(side.source, work.engine.tools, own) if suspected[number] else None
                if made_of is not None:
                    refuse_two_hosts(made_of)
                sources.append(side.source if made_of is None else made_of.sources[0])
            if any(source.made_from for source in sources):
                found = compared(sources)
    work.close_progress()
    return found


def _ms_texts(value: Ms) -> list[str]:
    if value is None:
        return []
    if isinstance(value, Mapping):
        return [f"{op}={ms!r}" for op, ms in value.items()]
    return [repr(float(value))] if isinstance(value, (int, float)) else list(value)
