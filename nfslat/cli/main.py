"""Command line in, report to standard output; no arithmetic. Standard error carries progress and notes."""

from __future__ import annotations

import atexit
import gc
import importlib
import io
import os
import shlex
import shutil
import signal
import sys
import threading
from collections.abc import Sequence
from typing import Any, NoReturn

from nfslat.cli import outputs
from nfslat.cli.messages import report_crash, say
from nfslat.cli.options import command_parser
from nfslat.cli.parser import Parser, UnknownOption, meant
from nfslat.errors import InputError, NfslatError, UsageError

# No large matrices here: threads that wait for some would only spin. Before numpy is imported.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
# What is there at the end goes with the process; Python would look through all of it for what refers to each other.
atexit.register(gc.freeze)

REPORT = "nfslat"  # the command without a name
# Commands, each a module (`outputs.Command`) that is imported when it is asked for.
COMMANDS = {
    "capture": "nfslat.cli.capture",
    "show": "nfslat.cli.show",
    "extract": "nfslat.cli.extract",
    "diff": "nfslat.cli.diff",
    "fleet": "nfslat.cli.fleet",
    "series": "nfslat.cli.series",
    "live": "nfslat.cli.live",
    "transport": "nfslat.cli.transport",
    "packets": "nfslat.cli.packets",
    "stack": "nfslat.cli.stack",
    "tune": "nfslat.cli.tune",
}
_WIDTH = 80  # of pipes and files


def main(argv: Sequence[str] | None = None) -> int:
    """Run; returns the exit status (docs/use.md). Every problem that the user can solve is one line, no traceback."""
    arguments = list(sys.argv[1:] if argv is None else argv)
    gc.set_threshold(100_000)  # a run makes few objects that refer to each other, and imports many that stay
    if sys.stdout is None:
        say("standard output is closed")
        return UsageError.exit_status
    if isinstance(getattr(sys.stdout, "buffer", None), io.RawIOBase):
        # PYTHONUNBUFFERED: of a large write Python then loses, without a word, what did not go at once.
        encoding, errors = sys.stdout.encoding, sys.stdout.errors
        sys.stdout = open(sys.stdout.fileno(), "w", encoding=encoding, errors=errors, closefd=False)  # noqa: SIM115
    if threading.current_thread() is threading.main_thread():
        # So that scratch files go on a kill or with the terminal, too; but not against nohup.
        signal.signal(signal.SIGTERM, _terminate)
        if signal.getsignal(signal.SIGHUP) is not signal.SIG_IGN:
            signal.signal(signal.SIGHUP, _terminate)
    try:
        arguments = _as_meant(arguments)
        return _command(arguments)
    except NfslatError as problem:
        say(str(problem))
        return problem.exit_status
    except ModuleNotFoundError as problem:
        missing = (problem.name or "nfslat").partition(".")[0]
        if missing == "nfslat":
            return report_crash(problem, arguments)
        # An extra that was not installed (setup.cfg), which the one-file form and the Debian package leave out, too.
        say(f"this needs the Python package {missing}, which is not here: pip install 'nfslat[all]'")
        return UsageError.exit_status
    except KeyboardInterrupt:
        say("interrupted")
        return 128 + signal.SIGINT
    except BrokenPipeError:
        # The reader (less, head) has seen enough. Python would complain once more when it flushes at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 128 + signal.SIGPIPE
    except OSError as problem:
        # Among others a full disk, which names no file.
        where = f"{problem.filename}: " if problem.filename else ""
        say(f"{where}{problem.strerror or problem}")
        return InputError.exit_status
    except Exception as problem:  # nobody foresaw it, and status 1 is that of a check that is crossed
        return report_crash(problem, arguments)


def _terminate(number: int, _: object) -> NoReturn:
    raise SystemExit(128 + number)


def _command(arguments: list[str]) -> int:
    name = arguments[0] if arguments[0] in COMMANDS else REPORT
    words = arguments if name == REPORT else arguments[1:]
    command = module_of(name)
    try:
        options = parser_of(name).parse(words, COMMANDS if name == REPORT else ())
    except UnknownOption as problem:
        parsers = map(parser_of, (REPORT, *COMMANDS))
        have = [one.prog for one in parsers if problem.option in one.options()]
        if not have:
            raise
        raise UsageError(f"{problem.prog} has no option {problem.option}: it is one of {', '.join(have)}") from problem
    line, charset = shlex.join(["nfslat", *arguments]), sys.stdout.encoding or "utf-8"
    where = outputs.Run(line, _width(), color=_color(), charset=charset)
    if name == "live":  # what it writes grows while it runs
        return int(command.run(options, where, sys.stdout))
    return outputs.run(command, options, where, sys.stdout)


def module_of(name: str) -> Any:
    """The module of a command (`outputs.Command`)."""
    return importlib.import_module(COMMANDS.get(name, "nfslat.cli.report"))


def parser_of(name: str) -> Parser:
    """The parser of a command; of the report's own, `REPORT`."""
    command = module_of(name)
    if name == REPORT:
        from nfslat.cli.help import report_parser

        return report_parser(COMMANDS)
    return command_parser(name, command.DESCRIPTION, command.EXAMPLES)


def _as_meant(arguments: list[str]) -> list[str]:
    """``help`` as the option of that name. Raises ``UsageError`` for a first word that is neither command nor file."""
    if not arguments:
        raise UsageError("SERVER and CLIENT captures are needed: nfslat server.pcap client.pcap (see nfslat --help)")
    word, *rest = arguments
    if word in COMMANDS or not word.isascii() or not word.replace("-", "").isalpha() or word.startswith("-"):
        return arguments
    if os.path.exists(word):
        return arguments
    if word == "help":
        return [*rest[:1], "--help"]
    hint = meant(word, COMMANDS) or "; nfslat SERVER CLIENT makes the report"
    raise UsageError(f"{word} is neither a command nor a file{hint} (commands: {', '.join(COMMANDS)})")


def _width() -> int:
    """Columns of the terminal; of what is no terminal those that mails and tickets have."""
    return shutil.get_terminal_size((_WIDTH, 24)).columns if sys.stdout.isatty() else _WIDTH


def _color() -> bool:
    """Colour on a terminal only, and never against NO_COLOR (no-color.org) or TERM=dumb."""
    return sys.stdout.isatty() and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"
