"""Arguments of `nfslat stack` -> its answer on a stream, and as JSON on another."""

from __future__ import annotations

import argparse
from typing import TextIO

from nfslat.cli.arguments import a_number, some_ms
from nfslat.errors import UsageError

DESCRIPTION = """\
Latencies that were measured at some layers, without captures: say which layer
adds the time, why, and what to change, or what to measure next. Any of them
will do."""

EXAMPLES = """\
examples:
  nfslat stack --app-ms 50 --storage-ms 1
  nfslat stack --app-ms 58 --client-ms 1.5 --server-ms 1 --storage-ms 0.1 --slots 16
  nfslat stack --app-ms 56 --client-ms 49 --server-ms 48 --thread-ms 1 \\
      --threads 16 --server-system solaris

exit status: 0 done, 2 usage, 3 a snapshot cannot be read"""

_FIGURES = """\
Give mean latencies of the same requests, in ms, as many as you know. Each holds
the next, so what lies between two of them is what the layers between them add:

  --app-ms      the application: fio's clat, Oracle's wait events
  --client-ms   the client's wire: nfslat client.pcap, nfsiostat's RTT
  --server-ms   the server's wire: nfslat server.pcap
  --thread-ms   a thread of the NFS server: DTrace, tracepoints
  --storage-ms  the storage: r_await and w_await of iostat -x on the server

  nfslat stack --app-ms 50 --storage-ms 1    # says what to measure next
"""

_SYSTEMS = {"linux": "Linux", "solaris": "SunOS", "freebsd": "FreeBSD", "aix": "AIX"}  # as uname prints them


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """What `nfslat stack` takes."""
    for option, what in (
        ("--app-ms", "mean latency as the application sees it"),
        ("--client-ms", "mean client SRT: on the client's wire"),
        ("--server-ms", "mean server SRT: on the server's wire"),
        ("--thread-ms", "mean time in a thread of the NFS server, as DTrace or tracepoints see it"),
        ("--storage-ms", "the storage's mean latency"),
    ):
        parser.add_argument(option, type=some_ms, metavar="MS", help=what)
    parser.add_argument("--threads", type=a_number, metavar="N", help="threads that the NFS server has")
    parser.add_argument("--slots", type=a_number, metavar="N", help="slots of the client, each connection")
    parser.add_argument("--nfs", choices=("3", "4.0", "4.1", "4.2"), default="3", help="version of NFS (default 3)")
    parser.add_argument("--server-snapshot", metavar="FILE", help="what scripts/snapshot.sh printed on the server")
    parser.add_argument("--client-snapshot", metavar="FILE", help="the same of the client")
    for side in ("server", "client"):
        parser.add_argument(
            f"--{side}-system", choices=_SYSTEMS, help=f"operating system of the {side}, where no snapshot tells"
        )
    parser.add_argument("--json", metavar="FILE", help="write the answer as JSON to FILE; - is standard output")


def inputs(options: argparse.Namespace) -> list[str]:
    """The snapshots."""
    return [name for name in (options.server_snapshot, options.client_snapshot) if name]


def run(options: argparse.Namespace, out: TextIO, json_out: TextIO | None, *, width: int, color: bool) -> int:
    """Write the answer: text to `out` unless the JSON goes there. Raises ``UsageError`` and ``InputError``."""
    from nfslat.cli import numbers  # noqa: PLC0415  (late: --help does not wait for numpy)
    from nfslat.evidence import snapshot  # noqa: PLC0415
    from nfslat.evidence.records import Snapshot  # noqa: PLC0415

    if all(getattr(options, f"{name}_ms") is None for name in ("app", "client", "server", "thread", "storage")):
        if options.json is not None:
            raise UsageError("--json needs a figure to speak of: --app-ms, --client-ms, --server-ms or --storage-ms")
        out.write(_FIGURES)
        out.flush()
        return 0
    hosts = {}
    for side in ("server", "client"):
        path, system = getattr(options, f"{side}_snapshot"), getattr(options, f"{side}_system")
        hosts[side] = snapshot.read(path) if path else Snapshot("", _SYSTEMS[system]) if system else None
    answer = numbers.answer(
        numbers.Numbers(
            client_ms=options.client_ms,
            server_ms=options.server_ms,
            app_ms=options.app_ms,
            thread_ms=options.thread_ms,
            storage_ms=options.storage_ms,
            threads=options.threads,
            slots=options.slots,
            version=options.nfs,
            server_host=hosts["server"],
            client_host=hosts["client"],
        )
    )
    if json_out is not None:
        numbers.dump(answer, json_out)
    if options.json != "-":
        out.write(numbers.render(answer, width=width, color=color))
    out.flush()
    return 0
