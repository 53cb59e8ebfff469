"""Arguments of `nfslat packets` -> its answer."""

from __future__ import annotations

import argparse
import dataclasses
import json
from typing import TextIO

from nfslat.cli.outputs import Result, Run
from nfslat.errors import UsageError
from nfslat.sizes import payload

DESCRIPTION = """\
The arithmetic of payload, without a capture: rows to SDUs of SQL*Net to TCP
segments, or a file to NFS READs or WRITEs to TCP segments; round trips, bytes
on the wire, and what larger sizes would save."""

EXAMPLES = """\
examples:
  nfslat packets --sdu 2048 --array-size 3 --row 1511,410,730,300,200,500
  nfslat packets --sdu 8192 --array-size 15 --row 120 --rows 1000000 --rtt-ms 0.4
  nfslat packets --rsize 32768 --mss 1460 --bytes 1048576

exit status: 0 done, 2 usage"""

_SCHEMA = "nfslat.packets/1"
_MOST_ROW_SIZES = 1000


def inputs(_: argparse.Namespace) -> list[str]:
    """None: it reads no file."""
    return []


def make(options: argparse.Namespace, run: Run) -> Result:
    """Count. Raises ``UsageError`` for what makes no sense."""
    from nfslat.sizes import sections  # noqa: PLC0415 - --help and usage errors need none of it

    headers = options.headers or {}
    wire = payload.Wire(
        options.mss, headers.get("tcp", payload.IP_TCP_HEADERS), headers.get("ethernet", payload.ETHERNET_HEADERS)
    )
    fetching = payload.fetching(_sqlnet(options, headers), wire, options.rtt_ms) if options.row else None
    transfers = tuple(
        payload.transfer(op, size, options.bytes or size, wire, options.rtt_ms, headers.get("rpc"))
        for op, size in (("READ", options.rsize), ("WRITE", options.wsize))
        if size is not None
    )
    if fetching is None and not transfers:
        raise UsageError("give --row for rows through SQL*Net, --rsize or --wsize for a file over NFS")
    if not transfers and (options.bytes is not None or "rpc" in headers):
        raise UsageError("--bytes and --headers rpc are about a file over NFS: give --rsize or --wsize with them")
    if fetching is None and (options.rows is not None or headers.keys() & {"sdu", "fetch"}):
        raise UsageError("--rows and --headers sdu and fetch need the sizes of the rows: give --row")

    def as_json(out: TextIO) -> None:
        found = {
            "schema": _SCHEMA,
            "sqlnet": None if fetching is None else dataclasses.asdict(fetching),
            "nfs": [dataclasses.asdict(transfer) for transfer in transfers],
        }
        json.dump(found, out, indent=2, allow_nan=False)
        out.write("\n")

    return Result(lambda: sections.render(fetching, transfers, width=run.width), as_json)


def _sqlnet(options: argparse.Namespace, headers: dict[str, int]) -> payload.Sqlnet:
    rows = tuple(options.row)
    if len(rows) > _MOST_ROW_SIZES:
        raise UsageError(f"--row: {len(rows)} sizes; at most {_MOST_ROW_SIZES}, they are repeated")
    several = len(rows) if len(rows) > 1 else options.array_size
    return payload.Sqlnet(
        options.sdu,
        options.array_size,
        rows,
        options.rows or several,
        headers.get("sdu", payload.SDU_HEADER),
        headers.get("fetch", 0),
    )
