"""A `Correlation` -> one CSV row a matched op, everything in it that a spreadsheet or pandas needs to go on."""

from __future__ import annotations

from typing import Any, TextIO

import numpy as np

from nfslat.charges.causes import LOSSES, Cause
from nfslat.constants import NULL, NULL32, op_name, program_name, version_name
from nfslat.decompose import PART_NAMES
from nfslat.known import Traced
from nfslat.results import Correlation
from nfslat.tables import I64, U32, Bool, Matched, Ops

BLOCK = 1 << 14  # rows
_NEEDS_THETA = ("call_net", "reply_net")
INSTANTS = ("t0", "t1", "t2", "t3")
FRAMES = ("call_first_frame", "call_last_frame", "reply_first_frame", "reply_last_frame")

ENDS = ("client", "client_port", "server", "server_port")
ARGUMENTS = ("offset_bytes", "size_bytes", "fh_crc32")

# What of the client SRT causes of a kind made.
CHARGED = {
    "lost": LOSSES,
    "overtaken": frozenset({Cause.REORDERING}),
    "held": frozenset({Cause.HOST_PAUSE, Cause.HELD}),
    "window": frozenset({Cause.ZERO_WINDOW, Cause.RECEIVE_WINDOW}),
    "delayed_ack": frozenset({Cause.DELAYED_ACK}),
    "bandwidth": frozenset({Cause.BANDWIDTH}),
    "congestion_window": frozenset({Cause.CONGESTION_WINDOW}),
    "sender": frozenset({Cause.SENDER}),
    "head_of_line": frozenset({Cause.HEAD_OF_LINE}),
    "distance": frozenset({Cause.DISTANCE}),
}

TRACED = ("slot_wait_ns", "execute_ns", "thread_ns")

COLUMNS = (
    "xid",
    "program",
    "version",
    "op",
    *ENDS,
    *ARGUMENTS,
    *(f"client_{name}_ns" for name in INSTANTS),
    *(f"server_{name}_ns" for name in INSTANTS),
    *(f"client_{name}" for name in FRAMES),
    *(f"server_{name}" for name in FRAMES),
    "client_srt_ns",
    "server_srt_ns",
    "network_ns",
    *(f"{name}_ns" for name in PART_NAMES),
    "one_way_error_ns",
    "call_retrans_wait_ns",
    "reply_retrans_wait_ns",
    *(f"{name}_ns" for name in CHARGED),
    "queue_ns",
    *TRACED,
    "client_transmissions",
    "server_transmissions",
)


# Three of the program and the operation, four of the two ends stand in one text each. No name or address needs quotes.
_ROW = ",".join(["0x%08x"] + ["%s"] * (len(COLUMNS) - 6)) + "\n"


def write_csv(c: Correlation, out: TextIO, traced: Traced | None = None) -> None:
    """Rows in order of the client's call. Times are ns since 1970 on each side's own clock; null is an empty cell.

    call_net_ns and reply_net_ns rest on theta, and may be off by one_way_error_ns; they are empty where no theta fits,
    network_ns is not. lost_ns to distance_ns are what TCP and the path made of the client SRT. Where the clocks drift,
    server_srt_ns and the parts are on the client's. queue_ns is the part of the server's time in which the call waited
    for a thread, as far as packets tell; slot_wait_ns, execute_ns and thread_ns are what tracepoints say (`traced`).
    Ops that were under way when a clock was set have no row.
    """
    out.write(",".join(COLUMNS) + "\n")
    for begin in range(0, len(c.matched), BLOCK):
        columns = _columns(c, slice(begin, begin + BLOCK), traced)
        out.write("".join(map(_ROW.__mod__, zip(*columns, strict=True))))


def _columns(c: Correlation, at: slice, traced: Traced | None) -> list[list[Any]]:
    matched = c.matched.take(at)
    client, server = c.client.ops.take(matched.client), c.server.ops.take(matched.server)
    client_srt, server_srt = c.client_srt_ns[at], c.server_srt_ns[at]
    asked, ways = named_kinds(client), named_ways(client)
    parts = dict(zip(PART_NAMES, c.parts.all_ns(at), strict=True))
    nothing = [""] * len(matched)
    return [
        client.xid.tolist(),
        [asked[kind] for kind in client.kind.tolist()],
        [ways[way] for way in (client.conn * 2 + client.direction).tolist()],
        _first_known(client.offset, server.offset, NULL),
        _first_known(client.size, server.size, NULL32),
        [f"0x{value:08x}" if value != "" else "" for value in _first_known(client.fh, server.fh, NULL32)],
        *(getattr(side, name).tolist() for side in (client, server) for name in INSTANTS),
        *(getattr(side, name).tolist() for side in (client, server) for name in FRAMES),
        client_srt.tolist(),
        server_srt.tolist(),
        (client_srt - server_srt).tolist(),
        *(part.tolist() if c.clock.fits or name not in _NEEDS_THETA else nothing for name, part in parts.items()),
        _errors(c, matched, client.whole & server.whole) if c.clock.fits else nothing,
        *_waits(c, at, nothing),
        *(
            [nothing] * len(CHARGED)
            if c.charges is None
            else [c.charges.ns_of(of, at).tolist() for of in CHARGED.values()]
        ),
        nothing if c.inflight.load.threads.cannot else _known(c.inflight.load.queue_ns[matched.server]),
        *([nothing] * len(TRACED) if traced is None else [_known(getattr(traced, name)[at]) for name in TRACED]),
        client.transmissions.tolist(),
        server.transmissions.tolist(),
    ]


def named_kinds(ops: Ops) -> list[str]:
    """Cells for program, version and operation of each kind of the table."""
    return [
        f"{program_name(kind.program)},{version_name(*kind[:3])},{op_name(kind.program, kind.version, kind.op)}"
        for kind in ops.kinds
    ]


def named_ways(ops: Ops) -> list[str]:
    """Cells for address and port of caller and called, of each connection (row times 2) and direction (plus 0 or 1)."""
    return [
        ",".join(map(str, (*ends.source(way), *ends.destination(way)))) for ends in ops.connections for way in (0, 1)
    ]


def _errors(c: Correlation, matched: Matched, whole: Bool) -> list[Any]:
    """How far one-way figures may be off; not known where a packet of the op was not captured."""
    errors = c.clock.errors_ns(c.client.ops, matched.client.astype(np.int64)).tolist()
    return [error if known else "" for error, known in zip(errors, whole.tolist(), strict=True)]


def _waits(c: Correlation, at: slice, nothing: list[Any]) -> list[list[Any]]:
    """The columns of the waits to be sent again: for the call and for the reply."""
    waits = c.retrans_waits_ns
    if waits is None or not c.clock.fits:
        return [nothing, nothing]
    columns = []
    for one in waits:
        column = np.zeros(len(nothing), dtype=np.int64)
        here = slice(*np.searchsorted(one.row, [at.start, at.start + len(nothing)]).tolist())
        column[one.row[here] - at.start] = one.ns[here]
        columns.append(column.tolist())
    return columns


def _known(column: I64) -> list[Any]:
    """The values, an empty cell for null."""
    return ["" if value == NULL else value for value in column.tolist()]


def _first_known(client: I64 | U32, server: I64 | U32, null: int) -> list[Any]:
    """The client's value, else the server's; an empty cell where neither was captured."""
    values = np.where(client != null, client, server)
    cells: list[Any] = values.tolist()
    for row in np.flatnonzero(values == null).tolist():
        cells[row] = ""
    return cells
