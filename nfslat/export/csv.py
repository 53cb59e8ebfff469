"""The table of matched ops -> one CSV row each, everything in it that a spreadsheet or pandas needs to go on."""

from __future__ import annotations

from typing import TextIO

import numpy as np

from nfslat.export.op_table import OpTable
from nfslat.figures.op_columns import COLUMNS, Cells, Column
from nfslat.kernels.compiled import native

_BLOCK = 1 << 14  # rows


def write_csv(table: OpTable, out: TextIO) -> None:
    """Rows in order of the client's call. Times are ns since 1970 on each side's own clock; null is an empty cell.

    call_net_ns and reply_net_ns rest on theta, and may be off by one_way_error_ns; they are empty where no theta fits,
    network_ns is not. lost_ns to distance_ns are what TCP and the path made of the client SRT. Where the clocks drift,
    server_srt_ns and the parts are on the client's. queue_ns is the part of the server's time in which the call waited
    for a thread, as far as packets tell; slot_wait_ns, execute_ns and thread_ns are what tracepoints say.
    Ops that were under way when a clock was set have no row.
    """
    write_header(out)
    write_rows(table, out)


def write_header(out: TextIO) -> None:
    """Names of the columns."""
    out.write(",".join(column.name for column in COLUMNS) + "\n")


def write_rows(table: OpTable, out: TextIO) -> None:
    """What is below them."""
    columns: native.Lines | None = None
    for block in table.blocks(_BLOCK):
        if columns is None:  # texts are the same in each block
            columns = native.Lines([*map(_column, COLUMNS, block.values()), ("\n", "", "nothing", None)])
        cells = [(each.values.astype(np.int64, copy=False), each.null) for each in block.values()]
        out.write(columns.of([*cells, (None, None)], len(cells[0][0])))


def _column(column: Column, cells: Cells) -> tuple[str, str, str, list[str] | None]:
    comma = "," if column is not COLUMNS[0] else ""
    if cells.labels is None:
        return comma, "0x" if column.is_hex else "", "hex8" if column.is_hex else "decimal", None
    return comma, "", "cell", [label if isinstance(label, str) else str(int(label)) for label in cells.labels]
