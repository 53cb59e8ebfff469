"""The table of matched ops -> a Parquet file."""

from __future__ import annotations

from typing import BinaryIO

from nfslat.decode.arrow import Counted, options, pyarrow
from nfslat.export.op_table import OpTable

_ROW_GROUP = 1 << 17  # rows: some 50 MB in memory while they are made


def write_parquet(table: OpTable, out: BinaryIO, *, command: str = "") -> None:
    """Write `table` to a stream that need not be seekable, a row group at a time.

    Fields have their unit and what they are as metadata; the file has the key ``nfslat``: JSON with schema
    "nfslat.ops/1", nfslat's version, `command`, the engine and the names of both captures. The same input gives the
    same bytes (with one version of pyarrow). Raises ``UsageError`` where pyarrow is not installed.
    """
    pa, pq = pyarrow(), pyarrow("pyarrow.parquet")
    schema = table.arrow_schema(command)
    with pa.PythonFile(Counted(out), mode="w") as sink, pq.ParquetWriter(sink, schema, **options(schema)) as writer:
        for batch in table.arrow_batches(schema, _ROW_GROUP):
            writer.write_batch(batch, row_group_size=_ROW_GROUP)
