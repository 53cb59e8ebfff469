"""Arguments of `nfslat tune` -> its answer."""

from __future__ import annotations

import argparse
import json
from typing import TextIO

from nfslat.cli.outputs import Result, Run
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


def inputs(options: argparse.Namespace) -> list[str]:
    """The snapshots."""
    return list(options.snapshots)


def make(options: argparse.Namespace, run: Run) -> Result:
    """Read the snapshots, and judge them. Raises ``InputError`` for a file that is no snapshot, or without NFS."""
    # Here, not above: --help and usage errors need none of it.
    from nfslat.evidence import snapshot  # noqa: PLC0415
    from nfslat.findings.tune import checks  # noqa: PLC0415
    from nfslat.report import tune as text  # noqa: PLC0415

    found = checks.check([snapshot.read(path) for path in dict.fromkeys(options.snapshots)])
    if not found.rows:
        raise InputError(
            f"{', '.join(options.snapshots)}: no setting of NFS in it; make it as root with scripts/snapshot.sh"
        )

    def as_json(out: TextIO) -> None:
        json.dump(text.as_dict(found), out, indent=2, allow_nan=False)
        out.write("\n")

    return Result(lambda: text.render(found, width=run.width), as_json)
