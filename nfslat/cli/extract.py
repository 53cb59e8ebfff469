"""Arguments of `nfslat extract` -> a pcapng file with the packets of single ops; what was written, as text and JSON."""

from __future__ import annotations

import argparse
import json
import os
from typing import TYPE_CHECKING, Any, TextIO

from nfslat.cli.arguments import add_captures, add_filters, add_which, parse_filters
from nfslat.errors import UsageError
from nfslat.model.units import to_ms

if TYPE_CHECKING:
    from nfslat.packets.extract.write import Written

DESCRIPTION = """\
The packets of single ops out of both captures in one pcapng file, for Wireshark:
interfaces client and server, the server's times on the client's clock, and on
each packet a comment that says what it is."""

EXAMPLES = """\
examples:
  nfslat extract server.pcap client.pcap --slowest 5 --out worst.pcapng
  nfslat extract server.pcap client.pcap --xid 0x1a2b3c4d --out one.pcapng
  nfslat extract server.pcap client.pcap --slowest 1 --context --out - | wireshark -k -i -

exit status: 0 done, 2 usage, 3 a capture cannot be read, or the op is not in both"""

_SCHEMA = "nfslat.extract/1"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """What `nfslat extract` takes."""
    add_captures(parser, client_optional=False)
    add_which(parser)
    parser.add_argument("--out", metavar="FILE", required=True, help="the pcapng file to write; - is standard output")
    parser.add_argument(
        "--context", action="store_true", help="with all else on the op's connection while it was in flight"
    )
    parser.add_argument(
        "--anonymize", action="store_true", help="pseudonyms for addresses, and of what packets say only RPC's header"
    )
    parser.add_argument("--json", metavar="FILE", help="write what was written as JSON to FILE; - is standard output")
    parser.add_argument("-q", "--quiet", action="store_true", help="no progress bar")
    add_filters(parser)


def inputs(options: argparse.Namespace) -> list[str]:
    """The captures."""
    return [options.server, options.client]


def run(options: argparse.Namespace, out: TextIO, json_out: TextIO | None, *, width: int, color: bool) -> int:
    """Write the packets, and to `out` what was written, unless something else goes there.

    Raises ``UsageError``, ``InputError``, and ``ToolError`` where Wireshark's tools fail.
    """
    from nfslat import api  # noqa: PLC0415  (late: --help does not wait for numpy)
    from nfslat.export.output import Kind, binary_output, writing_to  # noqa: PLC0415
    from nfslat.packets import show  # noqa: PLC0415  (late: --help does not wait for numpy)
    from nfslat.packets.extract.write import anonymous, write_extract  # noqa: PLC0415

    del width, color
    if options.json is not None and options.json == options.out:
        raise UsageError(f"--json and --out cannot both go to {options.out}")
    wanted = api.Options(engine=options.engine, filters=parse_filters(options), may_swap=not options.no_swap)
    with (
        binary_output(options.out, Kind.PACKETS, inputs(options), overwrite=options.overwrite) as packets_out,
        api.opened(inputs(options), wanted, quiet=options.quiet) as (found, tools),
    ):
        rows = show.chosen(found, options.xid, options.slowest)
        assert packets_out is not None  # noqa: S101 - --out is required
        shown, rewrite = anonymous(found) if options.anonymize else (found, None)
        with writing_to(options.out):
            written = write_extract(shown, rows, tools, packets_out, context=options.context, rewrite=rewrite)
            packets_out.flush()
        swapped, fits = found.swapped, found.clock.fits
    if json_out is not None:
        name = os.path.basename(options.out) if options.anonymize else options.out
        json.dump(_as_json(written, name), json_out, indent=2, allow_nan=False)
        json_out.write("\n")
    if "-" not in (options.out, options.json):
        out.write(_text(written, options.out, swapped=swapped, fits=fits))
    out.flush()
    return 0


def _text(written: list[Written], name: str, *, swapped: bool, fits: bool) -> str:
    ops = f"{len(written)} op{'s' if len(written) != 1 else ''}"
    sides = {side: sum(one.packets[side] for one in written) for side in ("client", "server")}
    text = f"{name}: {ops}, {sides['client']} packets at the client, {sides['server']} at the server\n"
    if swapped:
        text += "The captures were given client first: by the packets the second is the server's.\n"
    if not fits:
        text += (
            "No offset of the two clocks explains the ops: the server's packets are placed by\n"
            "what each op alone allows.\n"
        )
    return text


def _as_json(written: list[Written], name: str) -> dict[str, Any]:
    return {
        "schema": _SCHEMA,
        "out": name,
        "ops": [
            {
                "xid": f"0x{one.xid:08x}",
                "op": one.op,
                "client_ms": to_ms(one.client_srt_ns),
                "server_ms": to_ms(one.server_srt_ns),
                "client_packets": one.packets["client"],
                "server_packets": one.packets["server"],
            }
            for one in written
        ],
    }
