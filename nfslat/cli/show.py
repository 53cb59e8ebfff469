"""Arguments of `nfslat show` -> single ops in full, on a stream."""

from __future__ import annotations

import argparse
import shlex
import sys
from typing import TextIO

from nfslat.cli.arguments import add_captures, add_filters, add_which, parse_filters
from nfslat.export.output import is_standard

DESCRIPTION = """\
One op in full: its packets at both sides by frame number, the timeline between
them, and Wireshark's dissection of call and reply."""

EXAMPLES = """\
examples:
  nfslat show server.pcap client.pcap --slowest 3
  nfslat show server.pcap client.pcap --xid 0x1a2b3c4d --json op.json

exit status: 0 done, 2 usage, 3 a capture cannot be read, or the op is not in both"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """What `nfslat show` takes."""
    add_captures(parser, client_optional=False)
    add_which(parser)
    parser.add_argument(
        "--name-encoding", metavar="NAME", help="code page of file names that are not UTF-8: koi8-r, shift_jis, gbk"
    )
    parser.add_argument("--json", metavar="FILE", help="write the ops as JSON to FILE; - is standard output")
    parser.add_argument("-q", "--quiet", action="store_true", help="no progress bar")
    add_filters(parser)


def inputs(options: argparse.Namespace) -> list[str]:
    """The captures."""
    return [options.server, options.client]


def run(options: argparse.Namespace, out: TextIO, json_out: TextIO | None, *, width: int, color: bool) -> int:
    """Write the ops to `out`, or as JSON to `json_out`.

    Raises ``UsageError``, ``InputError``, and ``ToolError`` where tshark fails.
    """
    from nfslat import __version__, api  # noqa: PLC0415  (late: --help does not wait for numpy)
    from nfslat.answer.model import Tool  # noqa: PLC0415
    from nfslat.packets import show  # noqa: PLC0415  (late: --help does not wait for numpy)

    wanted = api.Options(
        engine=options.engine,
        filters=parse_filters(options),
        may_swap=not options.no_swap,
        name_encoding=options.name_encoding,
    )
    with api.opened(inputs(options), wanted, quiet=options.quiet) as (found, tools):
        rows, calls = show.asked(found, options.xid, options.slowest, tools)
        if json_out is not None:
            from nfslat.packets.shown import shown  # noqa: PLC0415

            tool = Tool(__version__, found.engine, shlex.join(["nfslat", *sys.argv[1:]]), found.srt)
            answer = shown(found, rows, tools, tool, calls=calls, name_encoding=wanted.name_encoding)
            answer.write_json(json_out)
        if is_standard(options.json):
            return 0
        charset = getattr(out, "encoding", None) or "ascii"
        encoding = wanted.name_encoding
        for text in show.render(found, rows, tools, calls=calls, width=width, name_encoding=encoding, charset=charset):
            out.write(text)
        out.flush()
    return 0
