"""Command line in, report to standard output; no arithmetic. Standard error carries progress and notes."""

from __future__ import annotations

import argparse
import contextlib
import itertools
import os
import re
import shlex
import signal
import sys
import threading
from collections.abc import Sequence
from typing import TYPE_CHECKING, NoReturn

from nfslat import __version__
from nfslat.errors import InputError, NfslatError, UsageError

if TYPE_CHECKING:
    from nfslat.select import Filters
    from nfslat.workspace import Workspace

_WIDTH = 80  # tables are made for a terminal of this width and do not grow with it

_DESCRIPTION = """\
Compare two packet captures of the same NFS traffic, one taken on the server and
one on the client, and say where the time goes: client, network or server.
With one capture, print the latencies of that side."""

_EXAMPLES = """\
examples:
  nfslat server.pcap client.pcap
  nfslat server.pcap.gz client.pcapng --hist --csv ops.csv --json report.json
  nfslat server.pcap client.pcap --app-ms READ=58 --app-ms WRITE=70 --storage-ms 0.1
  nfslat 'server.pcap*' 'client.pcap*' --op READ --start 10 --end 20
  nfslat server.pcap
  ssh nfsserver cat srv.pcap.gz | nfslat - client.pcap
  nfslat show server.pcap client.pcap --slowest 3
  nfslat tune server-snapshot.txt client-snapshot.txt

exit status: 0 done, 2 usage, 3 a capture cannot be read or nothing to correlate"""

_SHOW_DESCRIPTION = """\
One op in full: its packets at both sides by frame number, the timeline between
them, and Wireshark's dissection of call and reply."""


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        raise UsageError(f"{message} (see nfslat --help)")


def main(argv: Sequence[str] | None = None) -> int:
    """Run; returns the exit status (README). Every problem that the user can solve is one line, no traceback."""
    arguments = list(sys.argv[1:] if argv is None else argv)
    if sys.stdout is None:
        _say("nfslat: standard output is closed")
        return UsageError.exit_status
    if threading.current_thread() is threading.main_thread():
        # So that scratch files go on a kill or with the terminal, too; but not against nohup.
        signal.signal(signal.SIGTERM, _terminate)
        if signal.getsignal(signal.SIGHUP) is not signal.SIG_IGN:
            signal.signal(signal.SIGHUP, _terminate)
    try:
        if arguments[:1] == ["show"]:
            return _show(_show_parser().parse_args(arguments[1:]))
        if arguments[:1] == ["tune"]:
            return _tune(_tune_parser().parse_args(arguments[1:]))
        return _report(_report_parser().parse_args(arguments), arguments)
    except NfslatError as problem:
        _say(f"nfslat: {problem}")
        return problem.exit_status
    except KeyboardInterrupt:
        _say("nfslat: interrupted")
        return 128 + signal.SIGINT
    except BrokenPipeError:
        # The reader (less, head) has seen enough. Python would complain once more when it flushes at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 128 + signal.SIGPIPE
    except OSError as problem:
        # Among others a full disk, which names no file.
        where = f"{problem.filename}: " if problem.filename else ""
        _say(f"nfslat: {where}{problem.strerror or problem}")
        return InputError.exit_status


def _say(text: str) -> None:
    """One line on standard error, if there is one that takes it."""
    if sys.stderr is not None:
        with contextlib.suppress(OSError):
            print(text, file=sys.stderr, flush=True)


def _terminate(number: int, _: object) -> NoReturn:
    raise SystemExit(128 + number)


def _report_parser() -> argparse.ArgumentParser:
    parser = _Parser(
        prog="nfslat",
        description=_DESCRIPTION,
        epilog=_EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    _captures(parser, client_optional=True)
    out = parser.add_argument_group("output")
    out.add_argument("--hist", action="store_true", help="add the power-of-two latency histogram of each operation")
    out.add_argument("--json", metavar="FILE", help="write the report as JSON to FILE; - is standard output")
    out.add_argument("--csv", metavar="FILE", help="write one row per matched op to FILE")
    out.add_argument(
        "--missed", metavar="FILE", help="write one row per op that has no match to FILE: why, and where to look"
    )
    out.add_argument("-q", "--quiet", action="store_true", help="no progress bar")
    _filters(parser)
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
    parser.add_argument("--version", action="version", version=f"nfslat {__version__}")
    return parser


def _show_parser() -> argparse.ArgumentParser:
    parser = _Parser(
        prog="nfslat show", description=_SHOW_DESCRIPTION, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    _captures(parser, client_optional=False)
    which = parser.add_mutually_exclusive_group(required=True)
    which.add_argument("--xid", type=_an_xid, metavar="XID", help="the op with this XID (0x1a2b3c4d or decimal)")
    which.add_argument("--slowest", type=_a_count, metavar="N", help="the N ops with the longest client SRT")
    parser.add_argument("-q", "--quiet", action="store_true", help="no progress bar")
    _filters(parser)
    return parser


def _tune_parser() -> argparse.ArgumentParser:
    from nfslat.tune import command

    parser = _Parser(
        prog="nfslat tune",
        description=command.DESCRIPTION,
        epilog=command.EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    command.add_arguments(parser)
    return parser


def _captures(parser: argparse.ArgumentParser, *, client_optional: bool) -> None:
    parser.add_argument(
        "server", metavar="SERVER", help="capture taken on the NFS server: a file, a quoted glob, a comma list, or -"
    )
    parser.add_argument(
        "client",
        metavar="CLIENT",
        nargs="?" if client_optional else None,
        help="capture taken on the NFS client at the same time",
    )
    parser.add_argument(
        "--engine",
        choices=("native", "tshark"),
        help="what decodes the captures: nfslat's own decoder (default where it was compiled) or Wireshark's tshark",
    )
    parser.add_argument("--no-swap", action="store_true", help="believe the order of the files, whatever they show")


def _filters(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("what to look at (all keep their meaning in every table and file)")
    group.add_argument(
        "--op", metavar="OP[,OP]", action="append", default=[], help="operations, for example READ,WRITE"
    )
    group.add_argument("--client", dest="client_addr", metavar="ADDR", action="append", default=[], help="NFS client")
    group.add_argument("--server-addr", metavar="ADDR", action="append", default=[], help="NFS server")
    group.add_argument("--port", type=_a_port, metavar="N", action="append", default=[], help="port that was called")
    group.add_argument(
        "--start",
        metavar="TIME",
        help="calls from here on: seconds after the client capture's first packet (12.5, 2m), or 2026-01-31T12:00:05Z",
    )
    group.add_argument("--end", metavar="TIME", help="calls before this time")
    group.add_argument("--all-programs", action="store_true", help="also MOUNT, NLM, NSM, portmap, NFSACL, callbacks")


def _an_xid(text: str) -> int:
    try:
        value = int(text, 0)
    except ValueError:
        value = -1
        if re.fullmatch("[0-9a-fA-F]{1,8}", text):  # as it stands in other tools' output
            value = int(text, 16)
    if not 0 <= value < 1 << 32:
        raise argparse.ArgumentTypeError(f"{text!r} is no XID: give 0x and up to eight hexadecimal digits, or a number")
    return value


def _a_port(text: str) -> int:
    if not text.isdecimal() or not 0 < int(text) < 1 << 16:
        raise argparse.ArgumentTypeError(f"{text!r} is no port: give 1 to 65535")
    return int(text)


def _a_count(text: str) -> int:
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is no number of ops: give 1 or more")
    return int(text)


def _report(options: argparse.Namespace, arguments: list[str]) -> int:
    # Imported late, so that --help and usage errors do not wait for numpy.
    from nfslat import pipeline
    from nfslat.export import write_csv
    from nfslat.known import Known, parse_known
    from nfslat.missed import write_missed
    from nfslat.output import output
    from nfslat.report import json, model, text
    from nfslat.summarize import report_one, report_two

    known = Known(parse_known(options.app_ms, "--app-ms"), parse_known(options.storage_ms, "--storage-ms"))
    single = options.client is None
    if single and (options.csv or options.missed or known.app_ms or known.storage_ms):
        raise UsageError("--csv, --missed, --app-ms and --storage-ms need both captures, the server's and the client's")
    files = {"--json": options.json, "--csv": options.csv, "--missed": options.missed}
    for one, other in itertools.combinations([option for option, file in files.items() if file is not None], 2):
        if files[one] == files[other]:
            raise UsageError(f"{one} and {other} cannot both go to {files[one]}")
    filters = _parse_filters(options)
    # A file that cannot be written is found out before the captures are read, not after.
    with contextlib.ExitStack() as outputs:
        captures = [options.server, options.client or ""]
        json_out = outputs.enter_context(output(options.json, captures))
        csv_out = outputs.enter_context(output(options.csv, captures))
        missed_out = outputs.enter_context(output(options.missed, captures))
        work = outputs.enter_context(_workspace(options))
        command = shlex.join(["nfslat", *arguments])
        if single:
            side = pipeline.inspect(work.sources[0], work.engine, filters=filters, progress=work.progress)
            tool = model.Tool(__version__, side.decoded.engine, command, options.srt)
            report = report_one(side, tool, filters)
        else:
            found = pipeline.correlate(
                work.sources[0],
                work.sources[1],
                work.engine,
                filters=filters,
                srt=options.srt,
                may_swap=not options.no_swap,
                progress=work.progress,
            )
            tool = model.Tool(__version__, found.engine, command, options.srt)
            report = report_two(found, tool, filters, known)
            if csv_out is not None:
                write_csv(found, csv_out)
            if missed_out is not None:
                write_missed(found, missed_out)
        work.close_progress()
        if json_out is not None:
            json.dump(report, json_out)
    # Behind the block: the files are complete, whatever happens to a reader of standard output (less, head).
    if "-" not in files.values():
        sys.stdout.write(text.render(report, hist=options.hist, width=_WIDTH, color=_color()))
    sys.stdout.flush()
    return 0


def _show(options: argparse.Namespace) -> int:
    from nfslat import pipeline, show

    filters = _parse_filters(options)
    with _workspace(options, rereads=True) as work:
        found = pipeline.correlate(
            work.sources[0],
            work.sources[1],
            work.engine,
            filters=filters,
            srt="nfslat",
            may_swap=not options.no_swap,
            progress=work.progress,
        )
        work.close_progress()
        rows = show.by_xid(found, options.xid) if options.xid is not None else show.slowest_ops(found, options.slowest)
        for text in show.render(found, rows, work.engine.tools(), width=_WIDTH):
            sys.stdout.write(text)
        sys.stdout.flush()
    return 0


def _tune(options: argparse.Namespace) -> int:
    from nfslat.output import output
    from nfslat.tune import command

    with output(options.json, options.snapshots) as json_out:
        command.run(options, sys.stdout, json_out, width=_WIDTH)
    return 0


def _workspace(options: argparse.Namespace, *, rereads: bool = False) -> contextlib.AbstractContextManager[Workspace]:
    captures = [options.server] if options.client is None else [options.server, options.client]
    from nfslat.workspace import open_workspace

    return open_workspace(captures, engine=options.engine, quiet=options.quiet, rereads=rereads)


def _parse_filters(options: argparse.Namespace) -> Filters:
    from nfslat import select

    start, end = (None if text is None else select.parse_moment(text) for text in (options.start, options.end))
    if start is not None and end is not None and start.absolute == end.absolute and start.ns >= end.ns:
        raise UsageError(f"--start {options.start} is not before --end {options.end}")
    given = {
        "--op": options.op,
        "--client": options.client_addr,
        "--server-addr": options.server_addr,
        "--port": options.port,
        "--start": options.start,
        "--end": options.end,
        "--all-programs": options.all_programs,
    }
    return select.Filters(
        ops=select.parse_ops((name for value in options.op for name in value.split(",")), "--op"),
        clients=select.parse_addresses(options.client_addr, "--client"),
        servers=select.parse_addresses(options.server_addr, "--server-addr"),
        ports=frozenset(options.port),
        start=start,
        end=end,
        all_programs=options.all_programs,
        text={
            option: ", ".join(map(str, value)) if isinstance(value, list) else "yes" if value is True else str(value)
            for option, value in given.items()
            if value
        },
    )


def _color() -> bool:
    """Colour on a terminal only, and never against NO_COLOR (no-color.org) or TERM=dumb."""
    return sys.stdout.isatty() and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"
