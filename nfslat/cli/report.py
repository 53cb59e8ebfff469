"""Arguments of `nfslat SERVER CLIENT` -> the report on standard output, and the files that were asked for."""

from __future__ import annotations

import argparse
import sys
from typing import TYPE_CHECKING, Any, TextIO

from nfslat.cli import outputs
from nfslat.cli.arguments import a_count, a_duration, a_number, add_captures, add_filters, parse_filters
from nfslat.cli.messages import say
from nfslat.cli.outputs import OUTPUTS, add_outputs
from nfslat.cli.parser import Several
from nfslat.errors import UsageError
from nfslat.evidence.kinds import KINDS

if TYPE_CHECKING:
    from nfslat.api import Report

DESCRIPTION = """\
Compare two packet captures of the same NFS traffic, one taken on the server and
one on the client, and say where the time goes: client, network or server.
With one capture, infer from its packets what the other host did."""

EXAMPLES = """\
examples:
  nfslat server.pcap client.pcap
  nfslat server.pcap client.pcap --html report.html
  nfslat server.pcap client.pcap --app-ms READ=58 --storage-ms 0.1 --sessions 32
  nfslat 'server.pcap*' 'client.pcap*' --op READ --start 10 --end 20 --by size
  nfslat server.pcap client.pcap --server-snapshot srv.txt --evidence awr.txt
  ssh nfsserver cat srv.pcap.gz | nfslat - client.pcap
  nfslat client.pcap --files who-read-what.csv
  nfslat show server.pcap client.pcap --slowest 3"""

STATUS = """\
exit status: 0 done, 1 the verdict is one that --fail-on names, 2 usage,
3 a capture cannot be read or nothing to correlate"""

# As `nfslat.figures.pivots` has them, which would need numpy.
BY = ("size", "client", "server", "connection", "file", "uid", "second", "slot")

_NEED_BOTH = tuple(row.option for row in OUTPUTS if row.both)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """What it takes."""
    add_captures(parser, client_optional=True)
    add_output(parser)
    add_filters(parser)
    add_figures(parser)


def add_output(parser: argparse.ArgumentParser) -> None:
    """What is written, and which tables."""
    out = parser.add_argument_group("output")
    out.add_argument("--full", action="store_true", help="print all sections of the report, not what fits a screen")
    out.add_argument(
        "--sections",
        metavar="NAME,...",
        type=_sections,
        default=(),
        help="print these sections: answer, findings, audit, stack, inflight, matched, parts, transport, clock ...",
    )
    out.add_argument("--hist", action="store_true", help="add the power-of-two latency histogram of each operation")
    out.add_argument("--markdown", action="store_true", help="print the report as Markdown, for tickets")
    add_outputs(out)
    out.add_argument("--anonymize", action="store_true", help="put pseudonyms for addresses, names and file handles")
    out.add_argument("-q", "--quiet", action="store_true", help="no progress bar")
    tables = parser.add_argument_group("tables of matched ops")
    tables.add_argument(
        "--by", choices=BY, action="append", default=[], help="group them: one row for each value; repeatable"
    )
    tables.add_argument(
        "--interval", type=a_duration, metavar="S", help="one row for each S seconds, as nfsiostat prints them"
    )
    tables.add_argument(
        "--slowest", type=a_count, metavar="N", default=20, help="list so many of the slowest in JSON and page (20)"
    )
    tables.add_argument(
        "--name-encoding", metavar="NAME", help="code page of file names that are not UTF-8: koi8-r, shift_jis, gbk"
    )


def add_figures(parser: argparse.ArgumentParser) -> None:
    """What is known from elsewhere, and how is measured."""
    figures = parser.add_argument_group("figures")
    figures.add_argument(
        "--srt",
        choices=("nfslat", "tshark", "first"),
        default="nfslat",
        help="how a response time is measured: first to last byte (default), as tshark does, first to first frame",
    )
    figures.add_argument(
        "--app-ms",
        metavar="[OP=]MS",
        action="append",
        default=[],
        help="the application's own mean latency, for example 58 or READ=58; repeatable",
    )
    figures.add_argument(
        "--storage-ms",
        metavar="[OP=]MS",
        action="append",
        default=[],
        help="the storage's own mean latency on the server; repeatable",
    )
    figures.add_argument(
        "--thread-ms",
        metavar="[OP=]MS",
        action="append",
        default=[],
        help="mean time in a thread of the NFS server, as DTrace or tracepoints see it there; repeatable",
    )
    figures.add_argument("--threads", type=a_number, metavar="N", help="threads that the NFS server has")
    figures.add_argument(
        "--sessions",
        type=a_number,
        metavar="N",
        help="requests that the application has open at any time: Little's law then gives its latency",
    )
    figures.add_argument(
        "--slo",
        metavar="OP[.FIGURE]=MS",
        action="append",
        default=[],
        help="what is too slow: READ=5ms (mean), READ.p99=20ms, all=10ms; the verdict says whether it is; repeatable",
    )
    figures.add_argument(
        "--fail-on",
        choices=("fault", "undecided"),
        action="append",
        default=[],
        help="exit status 1 where the verdict is that; repeatable",
    )
    figures.add_argument(
        "--what-if",
        metavar="LIMIT=N",
        action="append",
        default=[],
        help="replay the load with other limits: threads=64, slots=128, or both with a comma; repeatable",
    )
    evidence = parser.add_argument_group("evidence from outside the captures (docs/evidence.md)")
    evidence.add_argument(
        "--server-snapshot",
        metavar="FILE",
        action=Several,
        default=[],
        help="what scripts/snapshot.sh printed on the server (or its /proc files); twice: before and after; or what "
        "iostat, vmstat ... printed there",
    )
    evidence.add_argument(
        "--client-snapshot",
        metavar="FILE",
        action=Several,
        default=[],
        help="the same of the client: with two, mountstats tell how long calls waited for a slot",
    )
    evidence.add_argument(
        "--evidence",
        metavar="FILE",
        action="append",
        default=[],
        help=f"{', '.join(kind.words for kind in KINDS)}; what it is, is found out; repeatable",
    )


def refuse(options: argparse.Namespace) -> None:
    """Raise ``UsageError`` for what makes no sense, or cannot be made here, before captures are read or taken."""
    _refuse_what_does_not_fit(options)
    outputs.refuse(options)


def run(options: argparse.Namespace, command: str, *, width: int, color: bool, json_out: TextIO | None = None) -> int:
    """Read the captures, write the files, then the text to standard output unless a file goes there.

    `json_out` is where --json goes if it is open already. Raises ``UsageError`` and ``InputError``.
    """
    captures = [options.server] if options.client is None else [options.server, options.client]
    refuse(options)
    # Here, not above: --help and usage errors do not wait for numpy.
    from nfslat import api  # noqa: PLC0415
    from nfslat.kernels.memory import share_arena  # noqa: PLC0415
    from nfslat.names.text import in_charset  # noqa: PLC0415

    share_arena()
    wanted = _options(options, command)
    read = [*captures, *options.evidence, *options.server_snapshot, *options.client_snapshot]
    gone: BrokenPipeError | None = None
    with outputs.opened(options, read, json_out) as files:
        # Windows that were not asked for are of no single operations.
        report = api.run(captures, wanted, quiet=options.quiet, sinks=lambda: files.sinks(wanted.command))
        # The verdict does not wait for pictures. The files are made whatever happens to a reader of it (less, head).
        try:
            if not outputs.to_standard(options):
                text = report.markdown() if options.markdown else _text(report, options, width=width, color=color)
                sys.stdout.write(in_charset(text, sys.stdout.encoding or "utf-8"))
                sys.stdout.flush()
        except BrokenPipeError as problem:
            gone = problem
        failed, written = files.write(report)
    outputs.say_written([] if options.quiet else written)
    if gone is not None:
        raise gone
    sys.stdout.flush()
    if failed is not None:
        say(str(failed))
        return failed.exit_status
    verdict = report.verdict if options.fail_on else None
    # Where no op is in both, it is not known either.
    outcome = "undecided" if verdict is None else verdict.outcome
    return 1 if outcome in options.fail_on else 0


def _text(report: Report, options: argparse.Namespace, *, width: int, color: bool) -> str:
    return report.text(full=options.full, sections=options.sections, hist=options.hist, width=width, color=color)


def _sections(text: str) -> tuple[str, ...]:
    from nfslat.report.text import parse_sections  # noqa: PLC0415

    return parse_sections(text)


def _options(options: argparse.Namespace, command: str) -> Any:
    from nfslat.api import Options  # noqa: PLC0415
    from nfslat.evidence.known import Known, parse_known  # noqa: PLC0415
    from nfslat.evidence.outside import Files, gather  # noqa: PLC0415
    from nfslat.figures.objectives import parse_slo  # noqa: PLC0415
    from nfslat.figures.whatif import parse_asked  # noqa: PLC0415

    asked = tuple(parse_asked(text) for text in options.what_if)
    known = Known(
        parse_known(options.app_ms, "--app-ms"),
        parse_known(options.storage_ms, "--storage-ms"),
        parse_known(options.thread_ms, "--thread-ms"),
        threads=options.threads,
    )
    evidence = Files(options.evidence, options.server_snapshot, options.client_snapshot)
    return Options(
        engine=options.engine,
        srt=options.srt,
        may_swap=not options.no_swap,
        known=known,
        sessions=options.sessions,
        what_if=asked,
        slo=tuple(map(parse_slo, options.slo)),
        outside=gather(known, options.sessions, evidence),
        evidence=tuple(options.evidence),
        filters=parse_filters(options),
        by=tuple(dict.fromkeys(options.by)),
        interval_s=options.interval,
        slowest=options.slowest,
        name_encoding=options.name_encoding,
        anonymize=options.anonymize,
        in_stretches=not outputs.need_ops(options),
        paths=outputs.name_files(options),
        command=command,
    )


def _value(options: argparse.Namespace, name: str) -> Any:
    return getattr(options, name.strip("-").replace("-", "_"))


def _refuse_what_does_not_fit(options: argparse.Namespace) -> None:
    needs_both = [name for name in _NEED_BOTH if _value(options, name)]
    if options.client is None and needs_both:
        raise UsageError(f"{', '.join(needs_both)}: this needs both captures, the server's and the client's")
    if options.full and options.sections:
        raise UsageError("--full prints all sections, --sections some: give one of them")
    if options.markdown and (options.full or options.sections):
        raise UsageError("--full and --sections are of the text, and --markdown replaces it")
    if options.hist and options.markdown:
        raise UsageError("--hist adds to the text, and --markdown replaces it; the page (--html) has histograms, too")
    if options.client is not None and options.ops_parquet is not None:
        raise UsageError("--ops-parquet: give one capture, and run it for the other one as well")
    if options.anonymize and options.ops_parquet is not None:
        raise UsageError("--ops-parquet stands for the capture, names included; anonymize what is made of it")
