"""A `Correlation` -> one CSV row a matched op, everything in it that a spreadsheet or pandas needs to go on."""

from __future__ import annotations

import csv
from typing import TextIO

from nfslat.constants import NULL, program_name, version_name
from nfslat.results import Correlation
from nfslat.select import op_labels

_INSTANTS = ("t0", "t1", "t2", "t3")
_FRAMES = ("call_first_frame", "call_last_frame", "reply_first_frame", "reply_last_frame")
_PARTS = ("call_send", "call_net", "server", "reply_send", "reply_net")

COLUMNS = (
    "xid",
    "program",
    "version",
    "op",
    "client",
    "client_port",
    "server",
    "server_port",
    "offset_bytes",
    "size_bytes",
    "fh_crc32",
    *(f"client_{name}_ns" for name in _INSTANTS),
    *(f"server_{name}_ns" for name in _INSTANTS),
    *(f"client_{name}" for name in _FRAMES),
    *(f"server_{name}" for name in _FRAMES),
    "client_srt_ns",
    "server_srt_ns",
    "network_ns",
    *(f"{name}_ns" for name in _PARTS),
    "client_transmissions",
    "server_transmissions",
)


def write_csv(c: Correlation, out: TextIO) -> None:
    """Rows in order of the client's call. Times are ns since 1970 on each side's own clock; null is an empty cell.

    call_net_ns and reply_net_ns rest on theta; they are empty where no constant offset fits, network_ns is not.
    """
    rows = csv.writer(out, lineterminator="\n")
    rows.writerow(COLUMNS)
    client, server = c.client.ops.take(c.matched.client), c.server.ops.take(c.matched.server)
    client_srt, server_srt = c.client_srt_ns, c.server_srt_ns
    labels = op_labels(client)
    for i in range(len(client)):
        ends = client.connections[client.conn[i]]
        (caller, caller_port), (called, called_port) = (
            ends.source(int(client.direction[i])),
            ends.destination(int(client.direction[i])),
        )
        parts = [int(getattr(c.parts, name)[i]) for name in _PARTS]
        if not c.theta.fits:
            parts[1] = parts[4] = None  # type: ignore[call-overload]
        rows.writerow(
            [
                f"0x{client.xid[i]:08x}",
                program_name(int(client.program[i])),
                version_name(int(client.program[i]), int(client.version[i]), int(client.minor[i])),
                labels[i],
                caller,
                caller_port,
                called,
                called_port,
                _cell(client.offset[i], server.offset[i]),
                _cell(client.size[i], server.size[i]),
                _handle(int(client.fh[i]), int(server.fh[i])),
                *(int(getattr(client, name)[i]) for name in _INSTANTS),
                *(int(getattr(server, name)[i]) for name in _INSTANTS),
                *(int(getattr(client, name)[i]) for name in _FRAMES),
                *(int(getattr(server, name)[i]) for name in _FRAMES),
                int(client_srt[i]),
                int(server_srt[i]),
                int(client_srt[i] - server_srt[i]),
                *parts,
                int(client.transmissions[i]),
                int(server.transmissions[i]),
            ]
        )


def _cell(*values: int) -> int | str:
    """The first of the sides' values that was captured."""
    return next((int(value) for value in values if value != NULL), "")


def _handle(*values: int) -> str:
    return next((f"0x{value:08x}" for value in values if value != NULL), "")
