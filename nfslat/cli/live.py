"""Arguments of `nfslat live` -> a row for each stretch of time, as it ends, and JSON lines on another stream."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, TextIO

from nfslat.cli import live_hosts, live_moments
from nfslat.cli.arguments import a_duration, a_port
from nfslat.errors import UsageError

if TYPE_CHECKING:
    from nfslat.live.metrics import Metrics
    from nfslat.live.moments import Moments
    from nfslat.live.screen import Screen
    from nfslat.live.sources.feeds import Feeds
    from nfslat.live.watch import Stretch

DESCRIPTION = """What happens, stretch by stretch, while both captures are being made, or in
captures of any length: a line for each, as vmstat and nfsiostat print them,
with where the time goes and what is at fault. It keeps no more than a few
stretches in memory."""

EXAMPLES = """examples:
  nfslat live server.pcap client.pcap --interval 60
  mkfifo s c; ssh nfs1 tcpdump -U -s 512 -w - port 2049 >s &
    ssh db1 tcpdump -U -s 512 -w - port 2049 >c & nfslat live s c
  nfslat live s c --json - | jq 'select(.outcome == "fault")'
  nfslat live client.pcap
  nfslat live s c --when 'READ.p99>20ms for 30s' --when fault --out /var/lib/nfslat

exit status: 0 done, 2 usage, 3 a capture cannot be read, or the two have nothing
in common, 130 interrupted"""

WRITES_LINES = True  # of JSON: days of them are not lost with the last one

_INTERVAL_S = 10.0
_BEGINS = b"# HELP nfslat_"  # a file of metrics


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """What it takes."""
    parser.add_argument(
        "captures",
        metavar="CAPTURE",
        nargs="*",
        help="SERVER, then CLIENT: files, FIFOs, one of them -; or one of them, and the other host is inferred",
    )
    live_hosts.add_arguments(parser)
    parser.add_argument(
        "--interval", type=a_duration, metavar="S", default=_INTERVAL_S, help="seconds of a stretch (10)"
    )
    parser.add_argument(
        "--metrics", metavar="FILE", help="keep OpenMetrics in FILE, for the textfile collector of node_exporter"
    )
    parser.add_argument(
        "--metrics-port", type=a_port, metavar="N", help="serve them on port N of localhost, for Prometheus to scrape"
    )
    parser.add_argument(
        "--screen", action="store_true", help="a screen of the terminal: layers over time, what began and ended"
    )
    parser.add_argument(
        "--json", metavar="FILE", help="add a line of JSON for each stretch to FILE; - is standard output"
    )
    live_moments.add_arguments(parser)


def _metrics(options: argparse.Namespace) -> Metrics | None:
    """Where they were asked for. Raises ``UsageError`` where they cannot be had."""
    if options.metrics is None and options.metrics_port is None:
        return None
    try:
        from nfslat.live.metrics import Metrics
    except ImportError as problem:
        raise UsageError("--metrics needs prometheus_client: pip install 'nfslat[live]'") from problem
    metrics = Metrics()
    try:
        if options.metrics is not None:
            refuse_other_file(options.metrics)
            metrics.write(options.metrics)
        if options.metrics_port is not None:
            metrics.serve(options.metrics_port)
    except OSError as problem:
        asked = (
            f"--metrics {options.metrics}" if options.metrics_port is None else f"--metrics-port {options.metrics_port}"
        )
        raise UsageError(f"{asked}: {problem.strerror}") from problem
    return metrics


def _screen(options: argparse.Namespace, out: TextIO) -> type[Screen] | None:
    """Where it was asked for. Raises ``UsageError`` where it cannot be had."""
    if not options.screen:
        return None
    if not (out.isatty() and sys.stdin.isatty() and sys.stderr.isatty()):  # it draws on standard error
        raise UsageError("--screen needs a terminal; without it there are lines")
    if options.json == "-":
        raise UsageError("--screen and --json - are both for the terminal; give --json a file")
    try:
        from nfslat.live.screen import Screen
    except ImportError as problem:
        raise UsageError("--screen needs textual: pip install 'nfslat[live]'") from problem
    return Screen


def _show(screen: Screen, feeds: Feeds) -> None:
    """Until it is ended. Raises what the captures end with."""
    feeds.speaker.to = screen.tell
    screen.run()
    if screen.failed is not None:
        raise screen.failed


def refuse_other_file(name: str) -> None:
    """Raise ``UsageError`` where there is something of that name that holds no metrics."""
    path = Path(name)
    if not path.exists():
        return
    if not path.is_file() or path.read_bytes()[: len(_BEGINS)] not in (b"", _BEGINS):
        raise UsageError(f"--metrics {name}: this is there, and no file of metrics; it would be overwritten")


def inputs(options: argparse.Namespace) -> list[str]:
    """Files that it reads."""
    return list(options.captures)


def run(options: argparse.Namespace, out: TextIO, json_out: TextIO | None, *, width: int, color: bool) -> int:
    """Print rows until the captures end."""
    del color
    live_hosts.refuse(options)
    if not live_hosts.are_hosts(options) and not 0 < len(options.captures) < 3:
        raise UsageError(
            f"live takes two captures, SERVER and CLIENT, or one of either host; {len(options.captures)} given"
        )
    from nfslat.decode.workspace import open_workspace
    from nfslat.kernels.compiled import refuse_without
    from nfslat.live.course import followed
    from nfslat.live.lag import timed
    from nfslat.live.text import Lines

    refuse_without("captures are read in stretches by the native decoder")
    screen = _screen(options, out)
    asked = live_moments.asked(options)
    metrics = _metrics(options)
    lines = Lines(width)

    def say(some: Iterator[str]) -> None:
        if options.json != "-":
            out.writelines(f"{line}\n" for line in some)
            out.flush()

    def note(text: str) -> None:
        if options.json == "-":
            sys.stderr.write(f"nfslat: {text}\n")
        say(lines.note(text))

    def handed_on(stretches: Iterator[Stretch], moments: Moments) -> Iterator[Stretch]:
        for stretch in stretches:
            if metrics is not None:
                metrics.add(stretch.row, stretch.analysis)
                if options.metrics is not None:
                    metrics.write(options.metrics)
            if json_out is not None:
                json_out.write(stretch.as_json() + "\n")
                json_out.flush()
            yield stretch
            moments.add(stretch)
            del stretch  # before the next one is made

    with live_hosts.opened(options) as feeds, open_workspace(feeds.paths, engine="native", quiet=True) as work:
        tell = feeds.speaker if screen is not None else note
        kept = live_moments.opened(asked, feeds.named(work.sources), work.engine.tools, tell)
        stretches = handed_on(followed(timed(map(feeds.told, kept.watch)), asked.baseline), kept.moments)
        try:
            if screen is not None:
                name = " and ".join(source.name for source in feeds.named(work.sources))
                _show(screen(stretches, name, kept.ask), feeds)
                kept.end()
                return 0
            for stretch in stretches:
                say(lines.of(stretch))
                del stretch
        except KeyboardInterrupt:  # as captures that are being made are left
            say(lines.end())
            kept.end()
            raise
        finally:
            kept.watch.close()
        say(lines.end())
        kept.end()
    return 0
