"""Arguments of `nfslat show` -> single ops in full."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING, Any, TextIO

from nfslat.cli import report
from nfslat.cli.options import filters_of
from nfslat.cli.outputs import Result, Run
from nfslat.errors import UsageError

if TYPE_CHECKING:
    from nfslat.decode.tools import Tools
    from nfslat.results import Correlation

DESCRIPTION = """\
One op in full: its packets at both sides by frame number, the timeline between
them, and Wireshark's dissection of call and reply."""

EXAMPLES = """\
examples:
  nfslat show server.pcap client.pcap --slowest 3
  nfslat show server.pcap client.pcap --xid 0x1a2b3c4d --json op.json

exit status: 0 done, 2 usage, 3 a capture cannot be read, or the op is not in both"""


def inputs(options: argparse.Namespace) -> list[str]:
    """The captures."""
    return both_captures(options)


def make(options: argparse.Namespace, run: Run) -> Result:
    """The ops, with their packets. Raises ``ToolError`` where tshark fails, too."""
    from nfslat import __version__  # noqa: PLC0415  (late: --help does not wait for numpy)
    from nfslat.answer.model import Tool  # noqa: PLC0415
    from nfslat.packets import show, shown  # noqa: PLC0415

    found, tools = opened(options, run, name_encoding=options.name_encoding)
    rows, calls = show.asked(found, options.xid, options.slowest, tools)
    how: dict[str, Any] = {"calls": calls, "name_encoding": options.name_encoding}

    def text() -> str:
        return "".join(show.render(found, rows, tools, width=run.width, charset=run.charset, **how))

    def json(out: TextIO) -> None:
        tool = Tool(__version__, found.engine, run.command, found.srt)
        shown.shown(found, rows, tools, tool, **how).write_json(out)

    return Result(text, json)


def both_captures(options: argparse.Namespace) -> list[str]:
    """The server's and the client's. Raises ``UsageError`` where one is missing."""
    from nfslat.decode.capture import captures_of  # noqa: PLC0415

    captures = captures_of(report.captures(options))
    if len(captures) < 2:
        raise UsageError("packets are shown as both captures have them: give the server's and the client's")
    return captures


def opened(options: argparse.Namespace, run: Run, **more: Any) -> tuple[Correlation, Tools]:
    """Both captures, whose packets can be read once more, and the tools for that."""
    from nfslat import api  # noqa: PLC0415

    wanted = api.Options(engine=options.engine, filters=filters_of(options), may_swap=options.may_swap, **more)
    return run.stack.enter_context(api.opened(both_captures(options), wanted, quiet=options.quiet))
