"""The table of matched ops -> one CSV row each, everything in it that a spreadsheet or pandas needs to go on."""

from __future__ import annotations

from itertools import groupby
from typing import Any, TextIO

from nfslat.export.op_table import OpTable
from nfslat.figures.op_columns import COLUMNS, Cells, Column

_BLOCK = 1 << 14  # rows
_QUOTED = frozenset(',"\r\n')


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
    texts: dict[str, list[str]] = {}
    for block in table.blocks(_BLOCK):
        made = [_of_run(run, block, texts) for run in _runs(block)]
        form, columns = ",".join(form for form, _ in made) + "\n", [column for _, column in made if column is not None]
        rows = zip(*columns, strict=True) if columns else [()] * len(block[COLUMNS[0].name].values)
        out.write("".join(map(form.__mod__, rows)))


def _runs(block: dict[str, Cells]) -> list[list[Column]]:
    """Neighbours with labels of the same rows are one cell with commas in it."""

    def rows_of(column: Column) -> object:
        cells = block[column.name]
        return column.name if cells.labels is None else (id(cells.values), id(cells.null))

    return [list(run) for _, run in groupby(COLUMNS, rows_of)]


# Both give the form of a cell, and what is put into it; None where all rows of the block share what stands in the form.
_Made = tuple[str, list[Any] | None]


def _of_run(run: list[Column], block: dict[str, Cells], texts: dict[str, list[str]]) -> _Made:
    if block[run[0].name].labels is None:
        return _of_numbers(run[0], block[run[0].name])
    return _of_labels(run, block, texts)


def _of_labels(run: list[Column], block: dict[str, Cells], texts: dict[str, list[str]]) -> _Made:
    """`texts` keeps those of each run: they are the same in each block."""
    cells, name = block[run[0].name], run[0].name
    if name not in texts:
        texts[name] = [
            ",".join(map(_text, row)) for row in zip(*(block[column.name].labels or () for column in run), strict=True)
        ]
    values, known = cells.values, texts[name]
    nothing = "," * (len(run) - 1)
    if cells.null is not None and cells.null.all():
        return nothing, None
    if cells.null is None and (values == values[0]).all():
        return known[int(values[0])].replace("%", "%%"), None
    column = [known[value] for value in values.tolist()]
    return "%s", _without(cells, column, nothing)


def _of_numbers(column: Column, cells: Cells) -> _Made:
    values = cells.values.astype("int8") if column.dtype == "bool" else cells.values
    form = "0x%08x" if column.is_hex else "%d"
    if cells.null is None:
        return (form % values[0], None) if (values == values[0]).all() else (form, values.tolist())
    if cells.null.all():
        return "", None
    texts = list(map(form.__mod__, values.tolist()))
    return "%s", _without(cells, texts, "")


def _without(cells: Cells, column: list[Any], nothing: str) -> list[Any]:
    if cells.null is not None:
        for row in cells.null.nonzero()[0].tolist():
            column[row] = nothing
    return column


def _text(label: str | float) -> str:
    if isinstance(label, str):
        return f'"{label.replace(chr(34), chr(34) * 2)}"' if _QUOTED.intersection(label) else label
    return str(int(label))
