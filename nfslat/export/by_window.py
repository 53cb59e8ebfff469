"""Windows, each an `Analysis` -> rows of the table of matched ops, written as they come.

Rows are in order of the client's call within a window. Paths of files are null: what names they have is told in other
windows, too.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from typing import Any, BinaryIO, Protocol, TextIO

from nfslat.decode.arrow import Counted, options, pyarrow
from nfslat.export.csv import write_header, write_rows
from nfslat.export.op_table import OpTable, op_table
from nfslat.results import Analysis


class Sink(Protocol):
    """What takes the windows of two captures, one after the other."""

    def add(self, c: Analysis) -> None:
        """The next one."""

    def end(self) -> None:
        """There are no more."""


class CsvSink:
    """As `nfslat.export.csv.write_csv`."""

    def __init__(self, out: TextIO) -> None:
        """`out` has no rows yet."""
        self._out = out
        write_header(out)

    def add(self, c: Analysis) -> None:
        """A row an op."""
        write_rows(op_table(c), self._out)

    def end(self) -> None:
        """All is written."""


class ParquetSink:
    """As `write_parquet`; a row group a window, more of a large one."""

    _ROW_GROUP = 1 << 17  # rows: some 50 MB in memory while they are made

    def __init__(self, out: BinaryIO, command: str) -> None:
        """`command` is what the file says it was made by."""
        self._command = command
        self._out = out
        self._stack = contextlib.ExitStack()
        self._writer: Any = None
        self._schema: Any = None

    def add(self, c: Analysis) -> None:
        """A row an op."""
        self.write(op_table(c))

    def write(self, table: OpTable) -> None:
        """A row group at a time."""
        if self._writer is None:
            pa, pq = pyarrow(), pyarrow("pyarrow.parquet")
            self._schema = table.arrow_schema(self._command)
            sink = self._stack.enter_context(pa.PythonFile(Counted(self._out), mode="w"))
            self._writer = self._stack.enter_context(pq.ParquetWriter(sink, self._schema, **options(self._schema)))
        for batch in table.arrow_batches(self._schema, self._ROW_GROUP):
            self._writer.write_batch(batch, row_group_size=self._ROW_GROUP)

    def end(self) -> None:
        """What is behind the rows is written."""
        self._stack.close()


def write_parquet(table: OpTable, out: BinaryIO, *, command: str = "") -> None:
    """Write `table` to a stream that need not be seekable.

    Fields have their unit and what they are as metadata; the file has the key ``nfslat``: JSON with schema
    "nfslat.ops/1", nfslat's version, `command`, the engine and the names of both captures. The same input gives the
    same bytes (with one version of pyarrow). Raises ``UsageError`` where pyarrow is not installed.
    """
    sink = ParquetSink(out, command)
    try:
        sink.write(table)
    finally:
        sink.end()


# By the option that asks for it: what is made of the stream that was opened for it, and of the command.
SINKS: dict[str, Callable[[Any, str], Sink]] = {"--csv": lambda out, _: CsvSink(out), "--parquet": ParquetSink}
