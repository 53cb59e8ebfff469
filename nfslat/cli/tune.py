"""Arguments of `nfslat tune` -> its answer on a stream, and as JSON on another."""

from __future__ import annotations

import argparse
import json
from typing import TextIO

from nfslat.errors import InputError

DESCRIPTION = """\
Check the NFS settings of a client, a server or both without a capture: read the
snapshots that scripts/snapshot.sh made on them, and say what to change, with
the commands for their systems. Two snapshots of one host are before and after:
then the counters are of the time between them."""

EXAMPLES = """\
examples:
  nfslat tune client.txt
  nfslat tune server.txt client1.txt client2.txt
  nfslat tune server-before.txt server-after.txt --json tuning.json

exit status: 0 done, 2 usage, 3 a snapshot cannot be read"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """What `nfslat tune` takes."""
    parser.add_argument("snapshots", metavar="SNAPSHOT", nargs="+", help="what scripts/snapshot.sh printed on a host")
    parser.add_argument("--json", metavar="FILE", help="write the answer as JSON to FILE; - is standard output")


def inputs(options: argparse.Namespace) -> list[str]:
    """The snapshots."""
    return list(options.snapshots)


def run(options: argparse.Namespace, out: TextIO, json_out: TextIO | None, *, width: int, color: bool) -> int:
    """Read the snapshots and write the answer: text to `out` unless the JSON goes there.

    Raises ``InputError`` for a file that is no snapshot, or that tells nothing of NFS.
    """
    # Here, not above: --help and usage errors need none of it.
    from nfslat.evidence import snapshot  # noqa: PLC0415
    from nfslat.findings.tune import checks  # noqa: PLC0415
    from nfslat.report import tune as text  # noqa: PLC0415

    snapshots = [snapshot.read(path) for path in dict.fromkeys(options.snapshots)]
    found = checks.check(snapshots)
    if not found.rows:
        raise InputError(
            f"{', '.join(options.snapshots)}: no setting of NFS in it; make it as root with scripts/snapshot.sh"
        )
    if json_out is not None:
        json.dump(text.as_dict(found), json_out, indent=2, allow_nan=False)
        json_out.write("\n")
    if options.json != "-":
        out.write(text.render(found, width=width))
    out.flush()
    return 0
