"""Arguments of `nfslat transport` -> its answer, also as graphs."""

from __future__ import annotations

import argparse
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from nfslat import __version__
from nfslat.cli.outputs import Result, Run
from nfslat.errors import UsageError

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

_DRAWN = 8  # conversations with graphs: a page of more is too large for a mail


def inputs(options: argparse.Namespace) -> list[str]:
    """The captures and the trace. Raises ``UsageError`` for more than two captures."""
    if len(options.captures) > 2:
        raise UsageError(f"{len(options.captures)} captures: give one, or one from each end (a glob or list in quotes)")
    return [*options.captures, *([options.sqlnet_trace] if options.sqlnet_trace else [])]


def make(options: argparse.Namespace, run: Run) -> Result:
    """Read the captures, and judge them. Raises ``InputError`` for what cannot be read or holds no TCP."""
    # Here, not above: --help and usage errors need none of it.
    from nfslat.decode.native import NAME  # noqa: PLC0415
    from nfslat.decode.workspace import open_workspace  # noqa: PLC0415
    from nfslat.evidence.read import read_sqlnet_trace  # noqa: PLC0415
    from nfslat.tcp import both, model, report  # noqa: PLC0415
    from nfslat.tcp.reading import read_apart, read_trace  # noqa: PLC0415
    from nfslat.tcp.sections.all import markdown, render  # noqa: PLC0415

    sqlnet = read_sqlnet_trace(options.sqlnet_trace) if options.sqlnet_trace else None
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
    made = report.make(
        traces,
        both.correlate(traces[0], traces[1]) if len(traces) == 2 else None,
        model.Tool(__version__, NAME, run.command),
        stream=options.stream,
        top=options.top,
        trace=sqlnet,
        drawn=_DRAWN if options.html is not None or options.png is not None else 0,
        in_parts=options.json is not None,
    )

    def html() -> str:
        from nfslat.tcp import page  # noqa: PLC0415

        return page.render(made)

    def png(folder: Path) -> None:
        from nfslat.tcp import page  # noqa: PLC0415

        page.write_png(made, folder)

    return Result(
        lambda: render(made, width=run.width, color=run.color),
        made.write_json,
        lambda: markdown(made),
        html,
        png,
        names_files=True,
    )
