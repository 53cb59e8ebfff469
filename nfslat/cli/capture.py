"""Arguments of `nfslat capture` -> captures taken on one host or two by ssh, and the report on them."""

from __future__ import annotations

import argparse
import contextlib
import os
import shlex
import sys
import tempfile
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, TextIO

from nfslat.cli import report as report_command
from nfslat.cli.arguments import a_port
from nfslat.errors import InputError, UsageError
from nfslat.report.text_layout import visible

if TYPE_CHECKING:
    from nfslat.field.hosts import Voice

DESCRIPTION = """\
Capture NFS traffic on a server and a client at the same time, bring both
captures home by ssh, and print the report. Of one host alone the other one's
times are inferred. The hosts need tcpdump (or snoop), and root or sudo without
a password; nothing is installed, changed or left."""

EXAMPLES = """\
examples:
  nfslat capture --server nfs1 --client db1
  nfslat capture --client db1                     # the server is a cloud's, or a filer
  nfslat capture --server root@nfs1 --client root@db1 --seconds 60 --html report.html
  nfslat capture --server nfs1 --client db1 --ssh 'ssh -p 2222 -i key' --yes

Keys, agents, jump hosts and users are those of your ssh. It measures the traffic
first, says what the capture costs, and asks; without a terminal it goes on, and
asks for no password either. Ctrl-C ends the capture early, a second one gives up.
The tars are kept in --out: nfslat server.tar client.tar makes the report again.

exit status: 0 done, 2 usage, 3 a host cannot be captured, or nothing to correlate"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """What `nfslat capture` takes."""
    parser.add_argument("--server", metavar="HOST", help="the NFS server, as ssh takes it: user@host")
    parser.add_argument("--client", metavar="HOST", help="the NFS client; one of the two is enough")
    parser.add_argument("--seconds", type=_a_number, metavar="N", default=20, help="how long to capture (20)")
    parser.add_argument("--out", metavar="DIR", help="folder for the tars (nfslat-SERVER-CLIENT-TIME)")
    parser.add_argument("--discard", action="store_true", help="do not keep the tars")
    parser.add_argument("--yes", action="store_true", help="do not ask before it starts")
    add_ways(parser)
    parser.add_argument("--max-mb", type=_a_number, metavar="N", help="keep the last N MB of each capture only")
    parser.add_argument(
        "--keep-free-mb",
        type=_a_number,
        metavar="N",
        default=512,
        help="free disk of the hosts that is left alone (512)",
    )
    parser.add_argument(
        "--dir", metavar="DIR", help="folder on the hosts for the files meanwhile (the roomiest of theirs)"
    )
    for side in ("server", "client"):  # as they were called before filters and these had one name
        parser.add_argument(f"--{side}-address", dest=f"{side}_addr", help=argparse.SUPPRESS)
    report_command.add_output(parser)
    report_command.add_figures(parser)


def add_ways(parser: argparse.ArgumentParser) -> None:
    """How hosts are reached, and which of their packets are captured."""
    parser.add_argument("--force", action="store_true", help="capture though it may slow the hosts down")
    parser.add_argument(
        "--ssh", metavar="COMMAND", default="ssh", help="command and options of ssh: 'ssh -p 2222 -i KEY'"
    )
    parser.add_argument("--port", type=a_port, metavar="N", default=2049, help="port of NFS (2049)")
    parser.add_argument(
        "--snaplen",
        type=_a_snaplen,
        metavar="BYTES",
        default=0,
        help="of a packet that are kept (0: all, as far as that can be borne)",
    )
    parser.add_argument("--server-addr", metavar="ADDR", help="the server, as the client sees it, if it is not found")
    parser.add_argument("--client-addr", metavar="ADDR", help="the client, as the server sees it")
    parser.add_argument(
        "--only-client", action="store_true", help="leave the server's other clients out, whose calls take threads too"
    )
    parser.add_argument("--server-interface", metavar="IF", help="where the server captures, if not towards the client")
    parser.add_argument("--client-interface", metavar="IF", help="where the client captures")


def inputs(_: argparse.Namespace) -> list[str]:
    """None: the captures are made."""
    return []


def run(options: argparse.Namespace, _: TextIO, json_out: TextIO | None, *, width: int, color: bool) -> int:
    """Capture, then write what `nfslat SERVER CLIENT` writes.

    Raises ``UsageError``, and ``InputError`` for a host with which something is wrong.
    """
    from nfslat.field import both, plan  # noqa: PLC0415  (late: --help needs none of it)

    for name in ("server_addr", "client_addr"):
        refuse_no_address(options, name)
    hosts = {side: name for side in ("server", "client") if (name := getattr(options, side)) is not None}
    if not hosts:
        raise UsageError("say --server HOST and --client HOST, or one of them")
    wanted = plan.Wanted(
        hosts=hosts,
        seconds=options.seconds,
        port=options.port,
        ssh=options.ssh,
        snaplen=options.snaplen,
        keep_free_mb=options.keep_free_mb,
        max_mb=options.max_mb,
        folder=options.dir,
        server_address=options.server_addr,
        client_address=options.client_addr,
        interfaces={"server": options.server_interface, "client": options.client_interface},
        only_client=options.only_client,
        force=options.force,
    )
    # As `nfslat SERVER CLIENT` has them; which side is which, is known here.
    report = argparse.Namespace(**vars(options))
    report.engine, report.no_swap, report.all_programs = None, True, False
    report.op, report.client_addr, report.server_addr, report.port = [], [], [], []
    report.start = report.end = None
    report_command.refuse(report)
    with _folder(options) as folder:
        voice = voice_of(options)
        tars = both.capture(wanted, folder, voice)
        report.server, report.client = [*map(str, tars.values()), None][:2]
        if not options.discard:
            again = shlex.join(["nfslat", *map(str, tars.values())])
            voice.say(f"captured and kept; the report again: {again}")
        command = shlex.join(["nfslat", *sys.argv[1:]])
        return report_command.run(report, command, width=width, color=color, json_out=json_out)


@contextlib.contextmanager
def _folder(options: argparse.Namespace) -> Iterator[Path]:
    """Where the tars go; a folder that was made for them goes again if none came."""
    if options.discard:
        with tempfile.TemporaryDirectory(prefix="nfslat-") as scratch:
            yield Path(scratch)
        return
    hosts = "-".join(_plain(one) for one in (options.server, options.client) if one is not None)
    path = Path(options.out or f"nfslat-{hosts}-{datetime.now(UTC):%Y%m%dT%H%M%SZ}")
    is_new = not path.exists()
    if any((path / f"{side}.tar").exists() for side in ("server", "client")):
        raise UsageError(f"--out {path}: holds captures already; give another folder")
    try:
        path.mkdir(mode=0o700, exist_ok=True)
    except OSError as problem:
        raise InputError(f"--out {path}: {problem.strerror}; give a folder that can be written to") from problem
    if not os.access(path, os.W_OK):
        raise InputError(f"--out {path}: cannot be written to; give another folder")
    try:
        yield path
    finally:
        if is_new:
            with contextlib.suppress(OSError):  # it holds something
                path.rmdir()


def _plain(host: str) -> str:
    """A host in the name of a folder."""
    return "".join(c if c.isalnum() or c in "._-" else "_" for c in host.rpartition("@")[2])[:64] or "host"


def voice_of(options: argparse.Namespace) -> Voice:
    """On standard error; `quiet` shows no progress, `yes` asks nothing."""
    from nfslat.field.hosts import Voice  # noqa: PLC0415

    terminal = sys.stderr is not None and sys.stderr.isatty() and sys.stdin is not None and sys.stdin.isatty()
    shows = sys.stderr is not None and sys.stderr.isatty() and not options.quiet

    def write(text: str) -> None:
        if sys.stderr is not None:
            sys.stderr.write(text)
            sys.stderr.flush()

    def progress(text: str) -> None:
        if shows:
            write(f"\r\x1b[K{visible(text)}")

    def say(text: str) -> None:
        progress("")
        write("".join(f"nfslat: {visible(line)}\n" for line in text.splitlines() or [""]))

    def confirm() -> bool:
        if options.yes or not terminal:
            return True
        write("nfslat: start? [y/N] ")
        return sys.stdin.readline().strip().lower() in ("y", "yes")

    return Voice(say, progress, confirm, terminal)


def refuse_no_address(options: argparse.Namespace, name: str) -> None:
    """Raise ``UsageError`` where the option of that name has none."""
    from nfslat.field.probe import address  # noqa: PLC0415

    text = getattr(options, name)
    if text is not None and address(text) is None:
        raise UsageError(f"--{name.replace('_', '-')} {text}: give an address, not a name")


def _a_snaplen(text: str) -> int:
    return 0 if text == "0" else _a_number(text)


def _a_number(text: str) -> int:
    if not text.isascii() or not text.isdecimal() or not 0 < int(text[:10]) <= 10**8:
        raise argparse.ArgumentTypeError(f"{text!r}: give a whole number, 1 or more")
    return int(text)
