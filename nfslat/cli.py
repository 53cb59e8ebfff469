"""Command line in, report to standard output; no arithmetic. Standard error carries progress and notes."""

from __future__ import annotations

import argparse
import contextlib
import importlib
import itertools
import os
import shlex
import signal
import sys
import threading
from collections.abc import Sequence
from typing import TYPE_CHECKING, NoReturn, cast

from nfslat import __version__
from nfslat.arguments import (
    SYSTEMS,
    Command,
    command_parser,
    parse_filters,
    report_parser,
    show_parser,
    stack_parser,
)
from nfslat.errors import InputError, NfslatError, UsageError

if TYPE_CHECKING:
    from nfslat.workspace import Workspace

# Options that compare, or that are about a comparison.
_NEED_BOTH = (
    *("--csv", "--missed", "--app-ms", "--storage-ms", "--thread-ms", "--threads", "--sessions", "--what-if"),
    *("--server-snapshot", "--client-snapshot", "--evidence"),
)
# Commands that are modules of their own (`arguments.Command`), imported when they are asked for.
_COMMANDS = {
    "transport": "nfslat.tcp.command",
    "diff": "nfslat.diff.command",
    "packets": "nfslat.payload_command",
    "tune": "nfslat.tune.command",
}
_WIDTH = 80  # tables are made for a terminal of this width and do not grow with it


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
            return _show(show_parser().parse_args(arguments[1:]))
        if arguments[:1] == ["stack"]:
            return _stack(stack_parser().parse_args(arguments[1:]))
        if arguments and arguments[0] in _COMMANDS:
            return _run(arguments[0], arguments[1:])
        return _report(report_parser().parse_args(arguments), arguments)
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


def _report(options: argparse.Namespace, arguments: list[str]) -> int:
    # Imported late, so that --help and usage errors do not wait for numpy.
    from nfslat import pipeline
    from nfslat.export import write_csv
    from nfslat.known import Known, parse_known
    from nfslat.missed import write_missed
    from nfslat.output import output
    from nfslat.outside import Files, gather
    from nfslat.report import json, model, text
    from nfslat.summarize import report_one, report_two
    from nfslat.whatif import parse_asked

    single = options.client is None
    needs_both = [option for option in _NEED_BOTH if getattr(options, option.strip("-").replace("-", "_"))]
    if single and needs_both:
        raise UsageError(f"{', '.join(needs_both)}: this needs both captures, the server's and the client's")
    asked = [parse_asked(text) for text in options.what_if]
    given = Known(
        parse_known(options.app_ms, "--app-ms"),
        parse_known(options.storage_ms, "--storage-ms"),
        parse_known(options.thread_ms, "--thread-ms"),
        threads=options.threads,
    )
    files_in = Files(options.evidence, options.server_snapshot, options.client_snapshot)
    outside = gather(given, options.sessions, files_in)
    files = {"--json": options.json, "--csv": options.csv, "--missed": options.missed}
    for one, other in itertools.combinations([option for option, file in files.items() if file is not None], 2):
        if files[one] == files[other]:
            raise UsageError(f"{one} and {other} cannot both go to {files[one]}")
    filters = parse_filters(options)
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
            known, notes = outside.known(found)
            report = report_two(found, tool, filters, known, asked, notes, options.sessions)
            if csv_out is not None:
                write_csv(found, csv_out, known.traced)
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

    filters = parse_filters(options)
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


def _run(name: str, arguments: list[str]) -> int:
    from nfslat.output import output

    command = cast(Command, importlib.import_module(_COMMANDS[name]))
    options = command_parser(name, command).parse_args(arguments)
    with output(options.json, command.inputs(options)) as json_out:
        return command.run(options, sys.stdout, json_out, width=_WIDTH, color=_color())


def _stack(options: argparse.Namespace) -> int:
    from nfslat import numbers
    from nfslat.evidence import snapshot
    from nfslat.evidence.records import Snapshot
    from nfslat.output import output

    hosts = {}
    for side in ("server", "client"):
        path, system = getattr(options, f"{side}_snapshot"), getattr(options, f"{side}_system")
        hosts[side] = snapshot.read(path) if path else Snapshot("", SYSTEMS[system]) if system else None
    with output(options.json, []) as json_out:
        answer = numbers.answer(
            numbers.Numbers(
                client_ms=options.client_ms,
                server_ms=options.server_ms,
                app_ms=options.app_ms,
                thread_ms=options.thread_ms,
                storage_ms=options.storage_ms,
                threads=options.threads,
                slots=options.slots,
                version=options.nfs,
                server_host=hosts["server"],
                client_host=hosts["client"],
            )
        )
        if json_out is not None:
            numbers.dump(answer, json_out)
    if options.json != "-":
        sys.stdout.write(numbers.render(answer, width=_WIDTH, color=_color()))
    sys.stdout.flush()
    return 0


def _workspace(options: argparse.Namespace, *, rereads: bool = False) -> contextlib.AbstractContextManager[Workspace]:
    captures = [options.server] if options.client is None else [options.server, options.client]
    from nfslat.workspace import open_workspace

    return open_workspace(captures, engine=options.engine, quiet=options.quiet, rereads=rereads)


def _color() -> bool:
    """Colour on a terminal only, and never against NO_COLOR (no-color.org) or TERM=dumb."""
    return sys.stdout.isatty() and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"
