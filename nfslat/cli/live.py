"""Arguments of `nfslat live` -> a row for each stretch of time, as it ends, and JSON lines on another stream."""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from typing import TextIO

from nfslat.cli.arguments import a_duration
from nfslat.errors import UsageError

DESCRIPTION = """What happens, stretch by stretch, while both captures are being made, or in
captures of any length: a line for each, as vmstat and nfsiostat print them,
with where the time goes and what is at fault. It keeps no more than a few
stretches in memory."""

EXAMPLES = """examples:
  nfslat live server.pcap client.pcap --interval 60
  mkfifo s c; ssh nfs1 tcpdump -U -s 512 -w - port 2049 >s &
    ssh db1 tcpdump -U -s 512 -w - port 2049 >c & nfslat live s c
  nfslat live s c --json - | jq 'select(.outcome == "fault")'

exit status: 0 done, 2 usage, 3 a capture cannot be read, or the two have nothing
in common, 130 interrupted"""

_INTERVAL_S = 10.0


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """What it takes."""
    parser.add_argument(
        "captures", metavar="CAPTURE", nargs="*", help="SERVER, then CLIENT: files, FIFOs, one of them -"
    )
    parser.add_argument(
        "--interval", type=a_duration, metavar="S", default=_INTERVAL_S, help="seconds of a stretch (10)"
    )
    parser.add_argument(
        "--json", metavar="FILE", help="write a line of JSON for each stretch to FILE; - is standard output"
    )


def inputs(options: argparse.Namespace) -> list[str]:
    """Files that it reads."""
    return list(options.captures)


def run(options: argparse.Namespace, out: TextIO, json_out: TextIO | None, *, width: int, color: bool) -> int:
    """Print rows until the captures end."""
    del color
    if len(options.captures) != 2:
        raise UsageError(f"live takes two captures, SERVER and CLIENT; {len(options.captures)} given")
    from nfslat.decode.windows import Windows
    from nfslat.decode.workspace import open_workspace
    from nfslat.kernels.compiled import refuse_without
    from nfslat.live.rows import SRT, row_of
    from nfslat.live.text import Lines
    from nfslat.model.units import NS_PER_S
    from nfslat.windows.gaps import Gapped
    from nfslat.windows.pairs import pairs

    refuse_without("captures are read in stretches by the native decoder")
    lines = Lines(width)

    def say(some: Iterator[str]) -> None:
        if options.json != "-":
            out.writelines(f"{line}\n" for line in some)
            out.flush()

    with open_workspace(options.captures, engine="native", quiet=True) as work:
        width_ns = round(options.interval * NS_PER_S)
        server, client = (Windows(source, work.engine.tools, width_ns) for source in work.sources)
        of_server, of_client = Gapped(server), Gapped(client)
        gaps = {"server": of_server.gaps, "client": of_client.gaps}
        try:
            for pair in pairs(of_server, of_client, SRT):
                if pair.is_rest and not len(pair.client.ops):
                    continue
                row = row_of(pair, gaps)
                if json_out is not None:
                    json_out.write(row.as_json() + "\n")
                    json_out.flush()
                say(lines.of(row))
        except KeyboardInterrupt:  # as captures that are being made are left
            say(lines.end())
            raise
        finally:
            server.close()
            client.close()
    say(lines.end())
    return 0
