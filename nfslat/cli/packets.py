"""Arguments of `nfslat packets` -> its answer on a stream, and as JSON on another."""

from __future__ import annotations

import argparse
import dataclasses
import json
from collections.abc import Callable
from typing import TextIO

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
_LARGEST = 1 << 40
_MOST_ROW_SIZES = 1000


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """What `nfslat packets` takes."""
    rows = parser.add_argument_group("rows through SQL*Net")
    rows.add_argument("--row", metavar="BYTES[,BYTES...]", type=_row_sizes, help="bytes of the rows, in their order")
    rows.add_argument("--rows", metavar="N", type=_number(1), help="rows to fetch; the sizes of --row begin again")
    rows.add_argument("--array-size", metavar="N", type=_number(1), default=15, help="rows of a fetch (default 15)")
    rows.add_argument("--sdu", metavar="BYTES", type=_number(1), default=8192, help="session data unit (default 8192)")
    rows.add_argument(
        "--sdu-header",
        metavar="BYTES",
        type=_number(0),
        default=payload.SDU_HEADER,
        help=f"of each SDU, part of its size (default {payload.SDU_HEADER}: 8 of TNS, 2 of data flags)",
    )
    rows.add_argument(
        "--fetch-header",
        metavar="BYTES",
        type=_number(0),
        default=0,
        help="in front of the rows of each fetch (default 0)",
    )
    files = parser.add_argument_group("a file over NFS")
    files.add_argument("--rsize", metavar="BYTES", type=_number(1), help="read the file with READs of this size")
    files.add_argument("--wsize", metavar="BYTES", type=_number(1), help="write the file with WRITEs of this size")
    files.add_argument("--bytes", metavar="BYTES", type=_number(1), help="of the file (default: one READ or WRITE)")
    files.add_argument(
        "--rpc-header",
        metavar="BYTES",
        type=_number(0),
        help="record mark, RPC and NFS in front of the data of a message (default: NFSv3, "
        f"{payload.READ_HEADER} for a READ reply, {payload.WRITE_HEADER} for a WRITE call)",
    )
    wire = parser.add_argument_group("the wire")
    wire.add_argument("--mss", metavar="BYTES", type=_number(1), default=1460, help="TCP payload of a full segment")
    wire.add_argument(
        "--ip-tcp-header",
        metavar="BYTES",
        type=_number(0),
        default=payload.IP_TCP_HEADERS,
        help="of each segment (default 40; with TCP timestamps 52, over IPv6 20 more)",
    )
    wire.add_argument(
        "--ethernet-header",
        metavar="BYTES",
        type=_number(0),
        default=payload.ETHERNET_HEADERS,
        help="of each frame, with its check sequence, without preamble and gap (default 18)",
    )
    wire.add_argument("--rtt-ms", metavar="MS", type=_milliseconds, help="what a round trip takes")
    parser.add_argument("--json", metavar="FILE", help="write the answer as JSON to FILE; - is standard output")


def inputs(options: argparse.Namespace) -> list[str]:
    """None: it reads no file."""
    del options
    return []


def run(options: argparse.Namespace, out: TextIO, json_out: TextIO | None, *, width: int, color: bool = False) -> int:
    """Text to `out` unless the JSON goes there; the exit status. Raises ``UsageError`` for what makes no sense."""
    from nfslat.sizes import sections  # noqa: PLC0415 - --help and usage errors need none of it

    wire = payload.Wire(options.mss, options.ip_tcp_header, options.ethernet_header)
    fetching = None if options.row is None else payload.fetching(_sqlnet(options), wire, options.rtt_ms)
    transfers = tuple(
        payload.transfer(op, size, options.bytes or size, wire, options.rtt_ms, options.rpc_header)
        for op, size in (("READ", options.rsize), ("WRITE", options.wsize))
        if size is not None
    )
    if fetching is None and not transfers:
        raise UsageError("give --row for rows through SQL*Net, --rsize or --wsize for a file over NFS")
    if not transfers and (options.bytes is not None or options.rpc_header is not None):
        raise UsageError("--bytes and --rpc-header are about a file over NFS: give --rsize or --wsize with them")
    if fetching is None and options.rows is not None:
        raise UsageError("--rows needs the sizes of the rows: give --row")
    if json_out is not None:
        found = {
            "schema": _SCHEMA,
            "sqlnet": None if fetching is None else dataclasses.asdict(fetching),
            "nfs": [dataclasses.asdict(transfer) for transfer in transfers],
        }
        json.dump(found, json_out, indent=2, allow_nan=False)
        json_out.write("\n")
    if options.json != "-":
        out.write(sections.render(fetching, transfers, width=width))
    out.flush()
    return 0


def _sqlnet(options: argparse.Namespace) -> payload.Sqlnet:
    rows = options.row
    several = len(rows) if len(rows) > 1 else options.array_size
    return payload.Sqlnet(
        options.sdu, options.array_size, rows, options.rows or several, options.sdu_header, options.fetch_header
    )


def _row_sizes(text: str) -> tuple[int, ...]:
    one = _number(1)
    sizes = tuple(one(part) for part in text.split(","))
    if len(sizes) > _MOST_ROW_SIZES:
        raise argparse.ArgumentTypeError(f"{len(sizes)} sizes; at most {_MOST_ROW_SIZES}, they are repeated")
    return sizes


def _number(least: int) -> Callable[[str], int]:
    def parse(text: str) -> int:
        if not (text.isascii() and text.isdigit()) or len(text) > len(str(_LARGEST)):
            raise argparse.ArgumentTypeError(f"{text[:40]!r}: not a number of {least} or more")
        if not least <= int(text) <= _LARGEST:
            raise argparse.ArgumentTypeError(f"{text}: not from {least} to {_LARGEST}")
        return int(text)

    return parse


def _milliseconds(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = -1.0
    if not 0 <= value <= 1e9:
        raise argparse.ArgumentTypeError(f"{text[:40]!r}: not milliseconds from 0 to 1e9")
    return value
