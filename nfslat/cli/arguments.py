"""Command line -> what was asked for: the parsers of all commands, and the types of their values."""

from __future__ import annotations

import argparse
import re
from collections.abc import Sequence
from typing import TYPE_CHECKING, Protocol, TextIO

from nfslat.cli.parser import Parser

if TYPE_CHECKING:
    from nfslat.select import Filters

_MOST_MS = 1e9
_MOST = 1 << 20  # threads, slots, sessions


class Command(Protocol):
    """A command that is a module of its own: its arguments, and what it does with them."""

    DESCRIPTION: str
    EXAMPLES: str

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        """What it takes; among it ``--json FILE``."""

    def inputs(self, options: argparse.Namespace) -> Sequence[str]:
        """Files that it reads, which no output may replace."""

    def run(self, options: argparse.Namespace, out: TextIO, json_out: TextIO | None, *, width: int, color: bool) -> int:
        """The answer as text to `out`, unless the JSON goes there, and as JSON; returns the exit status."""


def command_parser(name: str, command: Command) -> Parser:
    """Of ``nfslat NAME``."""
    parser = Parser(
        prog=f"nfslat {name}",
        description=command.DESCRIPTION,
        epilog=command.EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    add_arguments(parser, command)
    return parser


def add_arguments(parser: argparse.ArgumentParser, command: Command) -> None:
    """All of a command's, those that each has among them."""
    command.add_arguments(parser)
    if parser.get_default("overwrite") is None:
        add_overwrite(parser)


def add_overwrite(parser: argparse._ActionsContainer) -> None:
    """Of all that write files."""
    parser.add_argument(
        "--overwrite", action="store_true", help="replace files that nfslat did not write as the same kind of output"
    )


def add_captures(parser: argparse.ArgumentParser, *, client_optional: bool) -> None:
    """Both captures, and how they are read."""
    parser.add_argument(
        "server", metavar="SERVER", help="capture taken on the NFS server: a file, a quoted glob, a comma list, or -"
    )
    parser.add_argument(
        "client",
        metavar="CLIENT",
        nargs="?" if client_optional else None,
        help="capture taken on the NFS client at the same time; the two in any order",
    )
    parser.add_argument(
        "--engine",
        choices=("native", "tshark"),
        help="what decodes the captures: nfslat's own decoder (default) or Wireshark's tshark",
    )
    parser.add_argument(
        "--no-swap", action="store_true", help="take the first capture for the server's, whatever the packets show"
    )


def add_which(parser: argparse.ArgumentParser) -> None:
    """Which ops, for commands about single ones."""
    which = parser.add_mutually_exclusive_group(required=True)
    which.add_argument("--slowest", type=a_count, metavar="N", help="the N ops with the longest client SRT")
    which.add_argument(
        "--xid",
        type=an_xid,
        metavar="XID",
        action="append",
        help="the op with this XID (0x1a2b3c4d or decimal); repeatable",
    )


def add_filters(parser: argparse.ArgumentParser) -> None:
    """What `parse_filters` takes."""
    group = parser.add_argument_group("what to look at (all keep their meaning in every table and file)")
    group.add_argument(
        "--op", metavar="OP[,OP]", action="append", default=[], help="operations, for example READ,WRITE"
    )
    group.add_argument("--client-addr", metavar="ADDR", action="append", default=[], help="NFS client; repeatable")
    # As it was called before `nfslat capture --client HOST` came.
    group.add_argument("--client", dest="client_addr", action="append", default=[], help=argparse.SUPPRESS)
    group.add_argument("--server-addr", metavar="ADDR", action="append", default=[], help="NFS server; repeatable")
    group.add_argument("--port", type=a_port, metavar="N", action="append", default=[], help="port that was called")
    group.add_argument(
        "--start",
        metavar="TIME",
        help="calls from here on: seconds after the client capture's first packet (12.5, 2m), or 2026-01-31T12:00:05Z",
    )
    group.add_argument("--end", metavar="TIME", help="calls before this time")
    group.add_argument("--all-programs", action="store_true", help="also MOUNT, NLM, NSM, portmap, NFSACL, callbacks")


def an_xid(text: str) -> int:
    """An XID, as nfslat or other tools print it."""
    try:
        value = int(text, 0)
    except ValueError:
        value = -1
        if re.fullmatch("[0-9a-fA-F]{1,8}", text):  # as it stands in other tools' output
            value = int(text, 16)
    if not 0 <= value < 1 << 32:
        raise argparse.ArgumentTypeError(f"{text!r} is no XID: give 0x and up to eight hexadecimal digits, or a number")
    return value


def a_port(text: str) -> int:
    """A port."""
    if not text.isdecimal() or not 0 < int(text) < 1 << 16:
        raise argparse.ArgumentTypeError(f"{text!r} is no port: give 1 to 65535")
    return int(text)


def a_count(text: str) -> int:
    """How many, of ops or else."""
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text!r}: give a number, 1 or more")
    return int(text)


def a_number(text: str) -> int:
    """A number of threads, slots or sessions."""
    if not text.isdecimal() or not 0 < int(text) <= _MOST:
        raise argparse.ArgumentTypeError(f"{text!r}: give a number from 1 to {_MOST:,}")
    return int(text)


def a_duration(text: str) -> float:
    """A stretch of time, in seconds."""
    try:
        value = float(text)
    except ValueError:
        value = 0.0
    if not 1e-3 <= value <= 1e6:
        raise argparse.ArgumentTypeError(f"{text!r}: give seconds, for example 1 or 0.1")
    return value


def some_ms(text: str) -> float:
    """A latency."""
    try:
        value = float(text)
    except ValueError:
        value = -1.0
    if not 0 <= value <= _MOST_MS:
        raise argparse.ArgumentTypeError(f"{text!r}: give milliseconds, for example 58 or 0.1")
    return value


def parse_filters(options: argparse.Namespace) -> Filters:
    """What to look at. Raises ``UsageError`` for values that make no sense."""
    from nfslat import select

    return select.make_filters(
        options.op,
        options.client_addr,
        options.server_addr,
        options.port,
        options.start,
        options.end,
        all_programs=options.all_programs,
    )
