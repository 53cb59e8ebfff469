"""Command line -> what was asked for: the parsers of all commands, and the types of their values."""

from __future__ import annotations

import argparse
import re
from collections.abc import Sequence
from typing import TYPE_CHECKING, NoReturn, Protocol, TextIO

from nfslat import __version__
from nfslat.errors import UsageError

if TYPE_CHECKING:
    from nfslat.select import Filters

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
  nfslat server.pcap client.pcap --what-if threads=64 --sessions 32
  nfslat server.pcap client.pcap --client-snapshot before.txt after.txt
  nfslat show server.pcap client.pcap --slowest 3
  nfslat stack --app-ms 58 --client-ms 1.5 --server-ms 1.0
  nfslat tune server-snapshot.txt client-snapshot.txt

exit status: 0 done, 2 usage, 3 a capture cannot be read or nothing to correlate"""

_SHOW_DESCRIPTION = """\
One op in full: its packets at both sides by frame number, the timeline between
them, and Wireshark's dissection of call and reply."""


_STACK_DESCRIPTION = """\
Latencies that were measured at each layer, without captures: say which layer
adds the time, why, and what to change."""

_STACK_EXAMPLES = """\
examples:
  nfslat stack --app-ms 58 --client-ms 1.5 --server-ms 1 --storage-ms 0.1 --slots 16
  nfslat stack --app-ms 56 --client-ms 49 --server-ms 48 --thread-ms 1 \\
      --threads 16 --server-system solaris

exit status: 0 done, 2 usage, 3 a snapshot cannot be read"""

_MOST_MS = 1e9
_MOST = 1 << 20  # threads, slots, sessions
SYSTEMS = {"linux": "Linux", "solaris": "SunOS", "freebsd": "FreeBSD", "aix": "AIX"}  # as uname prints them


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        if "required: SERVER" in message or "unrecognized" in message:
            message += (
                "; captures stand before --server-snapshot and --client-snapshot, which take all names behind them"
            )
        raise UsageError(f"{message} (see nfslat --help)")


def report_parser() -> argparse.ArgumentParser:
    """Of `nfslat`."""
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
    add_filters(parser)
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
    figures.add_argument("--threads", type=_a_number, metavar="N", help="threads that the NFS server has")
    figures.add_argument(
        "--sessions",
        type=_a_number,
        metavar="N",
        help="requests that the application has open at any time: Little's law then gives its latency",
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
        nargs="+",
        default=[],
        help="what scripts/snapshot.sh printed on the server: one, or two, before and after (or its /proc files)",
    )
    evidence.add_argument(
        "--client-snapshot",
        metavar="FILE",
        nargs="+",
        default=[],
        help="the same of the client: with two, mountstats tell how long calls waited for a slot",
    )
    evidence.add_argument(
        "--evidence",
        metavar="FILE",
        action="append",
        default=[],
        help="Oracle 10046 trace, AWR or wait histogram, DTrace, sunrpc tracepoints, perf sched latency, folded "
        "stacks, nfsiostat, fio; what it is, is found out; repeatable",
    )
    parser.add_argument("--version", action="version", version=f"nfslat {__version__}")
    return parser


def show_parser() -> argparse.ArgumentParser:
    """Of `nfslat show`."""
    parser = _Parser(
        prog="nfslat show", description=_SHOW_DESCRIPTION, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    _captures(parser, client_optional=False)
    which = parser.add_mutually_exclusive_group(required=True)
    which.add_argument("--xid", type=_an_xid, metavar="XID", help="the op with this XID (0x1a2b3c4d or decimal)")
    which.add_argument("--slowest", type=_a_count, metavar="N", help="the N ops with the longest client SRT")
    parser.add_argument("-q", "--quiet", action="store_true", help="no progress bar")
    add_filters(parser)
    return parser


def stack_parser() -> argparse.ArgumentParser:
    """Of `nfslat stack`."""
    parser = _Parser(
        prog="nfslat stack",
        description=_STACK_DESCRIPTION,
        epilog=_STACK_EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    for option, what in (
        ("--app-ms", "mean latency as the application sees it"),
        ("--client-ms", "mean client SRT: on the client's wire"),
        ("--server-ms", "mean server SRT: on the server's wire"),
        ("--thread-ms", "mean time in a thread of the NFS server, as DTrace or tracepoints see it"),
        ("--storage-ms", "the storage's mean latency"),
    ):
        required = option in ("--client-ms", "--server-ms")
        parser.add_argument(option, type=_some_ms, metavar="MS", required=required, help=what)
    parser.add_argument("--threads", type=_a_number, metavar="N", help="threads that the NFS server has")
    parser.add_argument("--slots", type=_a_number, metavar="N", help="slots of the client, each connection")
    parser.add_argument("--nfs", choices=("3", "4.0", "4.1", "4.2"), default="3", help="version of NFS (default 3)")
    parser.add_argument("--server-snapshot", metavar="FILE", help="what scripts/snapshot.sh printed on the server")
    parser.add_argument("--client-snapshot", metavar="FILE", help="the same of the client")
    for side in ("server", "client"):
        parser.add_argument(
            f"--{side}-system", choices=SYSTEMS, help=f"operating system of the {side}, where no snapshot tells"
        )
    parser.add_argument("--json", metavar="FILE", help="write the answer as JSON to FILE; - is standard output")
    return parser


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


def command_parser(name: str, command: Command) -> argparse.ArgumentParser:
    """Of ``nfslat NAME``."""
    parser = _Parser(
        prog=f"nfslat {name}",
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


def add_filters(parser: argparse.ArgumentParser) -> None:
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


def _a_number(text: str) -> int:
    if not text.isdecimal() or not 0 < int(text) <= _MOST:
        raise argparse.ArgumentTypeError(f"{text!r}: give a number from 1 to {_MOST:,}")
    return int(text)


def _some_ms(text: str) -> float:
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
