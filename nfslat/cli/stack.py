"""Arguments of `nfslat stack` -> its answer."""

from __future__ import annotations

import argparse
from typing import Any

from nfslat.cli.outputs import Result, Run
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

_SIDES = ("server", "client")


def inputs(options: argparse.Namespace) -> list[str]:
    """The snapshots."""
    return [name for name in (options.server_snapshot, options.client_snapshot) if name]


def make(options: argparse.Namespace, run: Run) -> Result:
    """What the figures tell; without any, what may be given."""
    from nfslat.cli import numbers  # noqa: PLC0415  (late: --help does not wait for numpy)
    from nfslat.cli.partial import POINTS  # noqa: PLC0415
    from nfslat.evidence import snapshot  # noqa: PLC0415
    from nfslat.evidence.records import Snapshot  # noqa: PLC0415

    means = {name: getattr(options, name) for name in POINTS}
    if all(value is None for value in means.values()):
        if options.json is not None:
            raise UsageError("--json needs a figure to speak of: --app-ms, --client-ms, --server-ms or --storage-ms")
        return Result(lambda: _FIGURES, lambda _: None)
    hosts: dict[str, Any] = {}
    for side in _SIDES:
        path, system = getattr(options, f"{side}_snapshot"), getattr(options, f"{side}_system")
        hosts[f"{side}_host"] = snapshot.read(path) if path else Snapshot("", _SYSTEMS[system]) if system else None
    figures = numbers.Numbers(**means, threads=options.threads, slots=options.slots, version=options.nfs, **hosts)
    answer = numbers.answer(figures)
    return Result(
        lambda: numbers.render(answer, width=run.width, color=run.color), lambda out: numbers.dump(answer, out)
    )
