"""Arguments of `nfslat extract` -> a pcapng file with the packets of single ops, and what was written."""

from __future__ import annotations

import argparse
import json
import os
from typing import TYPE_CHECKING, Any, TextIO

from nfslat.cli.outputs import Result, Run
from nfslat.cli.show import both_captures, opened
from nfslat.export.output import is_standard
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


def inputs(options: argparse.Namespace) -> list[str]:
    """The captures."""
    return both_captures(options)


def make(options: argparse.Namespace, run: Run) -> Result:
    """Write the packets. Raises ``ToolError`` where Wireshark's tools fail, too."""
    from nfslat.export.output import Kind, binary_output, writing_to  # noqa: PLC0415
    from nfslat.packets import show  # noqa: PLC0415  (late: --help does not wait for numpy)
    from nfslat.packets.extract.write import anonymous, write_extract  # noqa: PLC0415

    place = binary_output(options.out, Kind.PACKETS, inputs(options), overwrite=options.overwrite)
    packets_out = run.stack.enter_context(place)
    found, tools = opened(options, run)
    rows = show.chosen(found, options.xid, options.slowest)
    assert packets_out is not None  # noqa: S101 - --out is required
    shown, rewrite = anonymous(found) if options.anonymize else (found, None)
    with writing_to(options.out):
        written = write_extract(shown, rows, tools, packets_out, context=options.context, rewrite=rewrite)
        packets_out.flush()

    def text() -> str:
        return _text(written, options.out, swapped=found.swapped, fits=found.clock.fits)

    def as_json(out: TextIO) -> None:
        name = os.path.basename(options.out) if options.anonymize else options.out
        json.dump(_as_json(written, name), out, indent=2, allow_nan=False)
        out.write("\n")

    return Result(str if is_standard(options.out) else text, as_json)


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
