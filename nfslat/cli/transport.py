"""Arguments of `nfslat transport` -> its answer on a stream, and as JSON on another."""

from __future__ import annotations

import argparse
import shlex
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, TextIO

from nfslat import __version__
from nfslat.cli import outputs
from nfslat.cli.messages import say
from nfslat.errors import UsageError
from nfslat.export.output import Kind, output_directory

if TYPE_CHECKING:
    from nfslat.tcp.model import Report

DESCRIPTION = """\
What TCP did to any conversation, NFS or not (Oracle Data Guard, SQL*Net, SQL
Server ...): round trips, delayed ACKs, loss, windows, what limited the sender,
turns, segment sizes, throughput. With two captures, one from each end: what was
lost in transit, and how long the way takes. --html draws it over time: round
trips, bytes sent and acknowledged, in flight, windows, rates, sizes, waits."""

EXAMPLES = """\
examples:
  nfslat transport oracle.pcap --port 1521
  nfslat transport client.pcap server.pcap --port 1521 --top 3
  nfslat transport oracle.pcap --stream 4 --json transport.json
  nfslat transport oracle.pcap --html transport.html
  nfslat transport oracle.pcap --sqlnet-trace sqlnet_1234.trc

exit status: 0 done, 2 usage, 3 a capture cannot be read, or holds no TCP"""

_MOST_TOP = 64
_DRAWN = 8  # conversations with graphs: a page of more is too large for a mail


def _html(report: Report, out: TextIO, _: str) -> None:
    from nfslat.tcp.page import render  # noqa: PLC0415

    out.write(render(report))


def _png(report: Report, folder: Path, _: str) -> None:
    from nfslat.tcp.page import write_png  # noqa: PLC0415

    write_png(report, folder)


_OUTPUTS = (
    outputs.Output(
        "--html",
        "write the report as one page with graphs over time",
        _html,
        Kind.HTML,
        check=outputs.packages("vl_convert", "jinja2"),
    ),
    outputs.Output(
        "--png",
        "write the graphs to files in DIR, for tickets",
        _png,
        Kind.PICTURE,
        open=output_directory,
        metavar="DIR",
        check=outputs.packages("vl_convert"),
    ),
    outputs.Output(
        "--json",
        "write the report as JSON to FILE; - is standard output",
        lambda report, out, _: report.write_json(out),
        Kind.JSON,
    ),
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """What `nfslat transport` takes."""
    parser.add_argument("captures", metavar="CAPTURE", nargs="+", help="one capture, or one from each end of the path")
    parser.add_argument(
        "--port", type=_a_port, metavar="N", action="append", default=[], help="of either end; repeatable"
    )
    parser.add_argument("--stream", type=_a_stream, metavar="N", help="this conversation alone: its number in the list")
    parser.add_argument("--top", type=_a_top, metavar="N", default=1, help="conversations in full (default 1)")
    parser.add_argument(
        "--sqlnet-trace", metavar="FILE", help="SQL*Net trace of one side: SDU and sizes beside the packets"
    )
    for row in _OUTPUTS:
        parser.add_argument(row.option, metavar=row.metavar, help=row.words)
    parser.add_argument("--markdown", action="store_true", help="print the report as Markdown, for tickets")
    parser.add_argument("-q", "--quiet", action="store_true", help="no progress bar")


def inputs(options: argparse.Namespace) -> list[str]:
    """The captures and the trace."""
    return [*options.captures, *([options.sqlnet_trace] if options.sqlnet_trace else [])]


def run(options: argparse.Namespace, out: TextIO, json_out: TextIO | None, *, width: int, color: bool) -> int:
    """Read the captures and write the answer: text to `out` unless the JSON goes there.

    Raises ``UsageError`` for more than two captures, ``InputError`` for what cannot be read or holds no TCP.
    """
    if len(options.captures) > 2:
        raise UsageError(f"{len(options.captures)} captures: give one, or one from each end (a glob or list in quotes)")
    outputs.refuse(options, _OUTPUTS)
    # Here, not above: --help and usage errors need none of it.
    from nfslat.tcp.sections.all import markdown, render  # noqa: PLC0415

    with outputs.opened(options, inputs(options), json_out, _OUTPUTS) as files:
        made = _made(options)
        # First of all: who reads it need not wait for pictures.
        if not outputs.to_standard(options, _OUTPUTS):
            out.write(markdown(made) if options.markdown else render(made, width=width, color=color))
            out.flush()
        failed, written = files.write(made)
    outputs.say_written(written)
    if failed is not None:
        say(str(failed))
        return failed.exit_status
    return 0


def _made(options: argparse.Namespace) -> Report:
    """The report on the captures."""
    from nfslat.decode.native import NAME  # noqa: PLC0415  (as above)
    from nfslat.decode.workspace import open_workspace  # noqa: PLC0415
    from nfslat.evidence.read import read_sqlnet_trace  # noqa: PLC0415
    from nfslat.tcp import both, model, report  # noqa: PLC0415
    from nfslat.tcp.reading import read_apart, read_trace  # noqa: PLC0415

    told = read_sqlnet_trace(options.sqlnet_trace) if options.sqlnet_trace else None
    ports = frozenset(options.port)
    with open_workspace(options.captures, engine=None, quiet=options.quiet) as work:
        # The second capture's conversations have numbers of their own.
        streams = [options.stream, None]
        with ThreadPoolExecutor(max_workers=2) as pool:
            jobs = [
                pool.submit(read_trace, source, work.engine.tools, work.progress, ports=ports, stream=stream)
                for source, stream in zip(work.sources, streams, strict=False)
            ]
        traces = [job.result() for job in jobs]
        if len(traces) == 1:
            traces = read_apart(traces[0], work.engine.tools, ports=ports, stream=options.stream)
        work.close_progress()
    found = both.correlate(traces[0], traces[1]) if len(traces) == 2 else None
    tool = model.Tool(__version__, NAME, shlex.join(["nfslat", *sys.argv[1:]]))
    drawn = _DRAWN if options.html is not None or options.png is not None else 0
    in_parts = options.json is not None
    return report.make(
        traces, found, tool, stream=options.stream, top=options.top, trace=told, drawn=drawn, in_parts=in_parts
    )


def _a_port(text: str) -> int:
    if not text.isdecimal() or not 0 < int(text) < 1 << 16:
        raise argparse.ArgumentTypeError(f"{text!r} is no port: give 1 to 65535")
    return int(text)


def _a_stream(text: str) -> int:
    if not text.isdecimal() or len(text) > 9:
        raise argparse.ArgumentTypeError(f"{text!r} is no number of a conversation: give 0, 1, 2 ...")
    return int(text)


def _a_top(text: str) -> int:
    if not text.isdecimal() or not 0 < int(text) <= _MOST_TOP:
        raise argparse.ArgumentTypeError(f"{text!r}: give a number from 1 to {_MOST_TOP}")
    return int(text)
