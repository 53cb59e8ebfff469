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
from typing import TYPE_CHECKING, Any

from nfslat.cli import report
from nfslat.cli.outputs import Result, Run
from nfslat.errors import InputError, UsageError
from nfslat.report.text_layout import visible

if TYPE_CHECKING:
    from nfslat.field.hosts import Voice
    from nfslat.field.plan import Wanted

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

# As `nfslat SERVER CLIENT` has them; which side is which, is known here.
_AS_CAPTURED: dict[str, Any] = {"engine": None, "may_swap": False, "all_programs": False, "start": None, "end": None}


def inputs(options: argparse.Namespace) -> list[str]:
    """What is known from elsewhere: the captures are made."""
    return report.inputs(_of_report(options, options.server or "", options.client))


def make(options: argparse.Namespace, run: Run) -> Result:
    """Capture, then make what `nfslat SERVER CLIENT` makes. Raises ``InputError`` for a host with which something is
    wrong."""
    from nfslat.field import both  # noqa: PLC0415  (late: --help needs none of it)

    hosts = {side: name for side in ("server", "client") if (name := getattr(options, side)) is not None}
    if not hosts:
        raise UsageError("say --server HOST and --client HOST, or one of them")
    interfaces = {"server": options.server_interface, "client": options.client_interface}
    limits = {"keep_free_mb": options.keep_free_mb, "max_mb": options.max_mb, "folder": options.dir}
    asked = wanted(options, hosts, interfaces, seconds=round(options.seconds), **limits)
    folder, voice = run.stack.enter_context(_folder(options)), voice_of(options)
    tars = [str(tar) for tar in both.capture(asked, folder, voice).values()]
    if not options.discard:
        voice.say(f"captured and kept; the report again: {shlex.join(['nfslat', *tars])}")
    return report.make(_of_report(options, *tars), run)


def wanted(
    options: argparse.Namespace, hosts: dict[str, str], interfaces: dict[str, str | None], **more: Any
) -> Wanted:
    """What is to be captured, where. Raises ``UsageError`` for an address that is none."""
    from nfslat.field.plan import Wanted  # noqa: PLC0415
    from nfslat.field.probe import address  # noqa: PLC0415

    for side in ("server", "client"):
        text = getattr(options, f"{side}_addr")
        if text is not None and address(text) is None:
            raise UsageError(f"--{side}-addr {text}: give an address, not a name")
    return Wanted(
        hosts=hosts,
        port=options.port,
        ssh=options.ssh,
        snaplen=options.snaplen,
        server_address=options.server_addr,
        client_address=options.client_addr,
        interfaces=interfaces,
        only_client=options.only_client,
        force=options.force,
        **more,
    )


def _of_report(options: argparse.Namespace, server: str, client: str | None = None) -> argparse.Namespace:
    filters: dict[str, Any] = {"op": [], "client_addr": [], "server_addr": [], "port": []}
    return argparse.Namespace(**(vars(options) | _AS_CAPTURED | filters | {"server": server, "client": client}))


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
