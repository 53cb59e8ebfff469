"""A `Correlation` -> one CSV row a matched op, everything in it that a spreadsheet or pandas needs to go on."""

from __future__ import annotations

import csv
from typing import Any, TextIO

import numpy as np

from nfslat.constants import NULL, program_name, version_name
from nfslat.decompose import PART_NAMES
from nfslat.results import Correlation
from nfslat.tables import I64

_INSTANTS = ("t0", "t1", "t2", "t3")
_FRAMES = ("call_first_frame", "call_last_frame", "reply_first_frame", "reply_last_frame")

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
    *(f"{name}_ns" for name in PART_NAMES),
    "client_transmissions",
    "server_transmissions",
)


def write_csv(c: Correlation, out: TextIO) -> None:
    """Rows in order of the client's call. Times are ns since 1970 on each side's own clock; null is an empty cell.

    call_net_ns and reply_net_ns rest on theta; they are empty where no constant offset fits, network_ns is not.
    """
    client, server = c.client.ops.take(c.matched.client), c.server.ops.take(c.matched.server)
    client_srt, server_srt = c.client_srt_ns, c.server_srt_ns
    ends = [
        [(*ends.source(way), *ends.destination(way)) for way in (0, 1)] for ends in client.connections
    ]  # (client, its port, server, its port) by connection and direction
    callers = [ends[conn][way] for conn, way in zip(client.conn.tolist(), client.direction.tolist(), strict=True)]
    needs_theta = ("call_net", "reply_net")
    columns: list[list[Any]] = [
        [f"0x{xid:08x}" for xid in client.xid.tolist()],
        [program_name(program) for program in client.program.tolist()],
        list(map(version_name, client.program.tolist(), client.version.tolist(), client.minor.tolist())),
        c.labels.tolist(),
        *([end[at] for end in callers] for at in range(4)),
        _first_known(client.offset, server.offset),
        _first_known(client.size, server.size),
        [f"0x{value:08x}" if value != "" else "" for value in _first_known(client.fh, server.fh)],
        *(getattr(side, name).tolist() for side in (client, server) for name in _INSTANTS),
        *(getattr(side, name).tolist() for side in (client, server) for name in _FRAMES),
        client_srt.tolist(),
        server_srt.tolist(),
        (client_srt - server_srt).tolist(),
        *(
            getattr(c.parts, name).tolist() if c.theta.fits or name not in needs_theta else [""] * len(client)
            for name in PART_NAMES
        ),
        client.transmissions.tolist(),
        server.transmissions.tolist(),
    ]
    rows = csv.writer(out, lineterminator="\n")
    rows.writerow(COLUMNS)
    rows.writerows(zip(*columns, strict=True))


def _first_known(client: I64, server: I64) -> list[Any]:
    """The client's value, else the server's; an empty cell where neither was captured."""
    values = np.where(client != NULL, client, server)
    return [value if value != NULL else "" for value in values.tolist()]
