"""An `Analysis` -> the table of matched ops: numpy columns with nulls, block by block, as Arrow or pandas."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from nfslat import __version__
from nfslat.decode.arrow import Dictionary, coded, dictionary, numbers, pyarrow
from nfslat.evidence.known import Traced
from nfslat.figures.op_columns import COLUMNS, TEXT, Block, Cells, Column, Labels, Paths, Values
from nfslat.results import Analysis

SCHEMA = "nfslat.ops/1"
_BLOCK = 1 << 16  # rows


@dataclass(frozen=True, eq=False, repr=False)
class OpTable:
    """One row a matched op, in order of the client's call. Columns are made when they are asked for, and not kept.

    `columns` says what each is (docs/outputs.md). Times are ns since 1970 on each side's own clock; where the clocks
    drift, server_srt_ns and the parts are on the client's. Ops that were under way when a clock was set have no row.
    """

    correlation: Analysis
    paths: Paths | None
    traced: Traced | None
    labels: Labels
    columns: tuple[Column, ...] = COLUMNS

    def __len__(self) -> int:
        """Rows."""
        return len(self.correlation.matched)

    def __repr__(self) -> str:
        return f"<OpTable: {len(self):,} matched ops, {len(self.columns)} columns>"

    @property
    def column_names(self) -> tuple[str, ...]:
        """Names of the columns, in their order."""
        return tuple(column.name for column in self.columns)

    def __getitem__(self, name: str) -> np.ma.MaskedArray[Any, Any]:
        """The column `name`: its dtype as `columns` has it, text as str objects; null is masked.

        A number that is null cannot stand for itself here as in `nfslat.model.tables`: the time of a part may be -1 ns.
        Raises ``KeyError`` where there is no such column.
        """
        column = next((column for column in self.columns if column.name == name), None)
        if column is None:
            raise KeyError(name)
        text = column.dtype == TEXT
        values = np.empty(len(self), dtype=object if text else column.dtype)
        mask = np.zeros(len(self), dtype=np.bool_)
        for block in self._blocks(_BLOCK):
            cells = column.make(block)
            values[block.at] = plain(cells, column)
            if cells.null is not None:
                mask[block.at] = cells.null
        if text:
            values[mask] = None
        values.setflags(write=False)
        return np.ma.MaskedArray(values, mask=mask)

    def blocks(self, rows: int = _BLOCK) -> Iterator[dict[str, Cells]]:
        """All columns, `rows` rows at a time, so that memory does not grow with the ops."""
        for block in self._blocks(rows):
            yield {column.name: column.make(block) for column in self.columns}

    def _blocks(self, rows: int) -> Iterator[Block]:
        for begin in range(0, len(self), rows):
            yield Block(self.correlation, self.labels, self.paths, self.traced, slice(begin, begin + rows))

    def arrow_schema(self, command: str = "") -> Any:
        """The ``pyarrow.Schema``: each field has its unit and meaning, the whole the key ``nfslat``."""
        pa = pyarrow()
        c = self.correlation
        about = {
            "schema": SCHEMA,
            "version": __version__,
            "command": command,
            "engine": c.engine,
            "server": c.server.source.name,
            "client": c.client.source.name,
            "srt": c.srt,
        }
        fields = []
        for column in self.columns:
            kind = pa.dictionary(pa.int32(), pa.string()) if column.dtype == TEXT else pa.type_for_alias(column.dtype)
            fields.append(pa.field(column.name, kind, metadata={"unit": column.unit, "description": column.says}))
        return pa.schema(fields, metadata={"nfslat": json.dumps(about)})

    def arrow_batches(self, schema: Any, rows: int = _BLOCK) -> Iterator[Any]:
        """The table as ``pyarrow.RecordBatch`` of `rows` rows each; the dictionaries of all of them are the same."""
        pa = pyarrow()
        labels: dict[str, Dictionary] = {}

        def array(column: Column, cells: Cells) -> Any:
            if column.dtype != TEXT:
                return numbers(plain(cells, column), cells.null)
            if column.name not in labels:
                labels[column.name] = dictionary([str(label) for label in cells.labels or ()])
            return coded(cells.values, labels[column.name], cells.null)

        for block in self.blocks(rows):
            yield pa.record_batch([array(column, block[column.name]) for column in self.columns], schema=schema)

    def to_arrow(self) -> Any:
        """A ``pyarrow.Table``. Raises ``UsageError`` where pyarrow is not installed."""
        schema = self.arrow_schema()
        return pyarrow().Table.from_batches(self.arrow_batches(schema), schema)

    def to_pandas(self, *, times: bool = False) -> Any:
        """A ``pandas.DataFrame``: integers that may be null are pandas' nullable ones, texts are categoricals.

        With `times` moments are ``datetime64[ns, UTC]`` and lengths of time ``timedelta64[ns]``, under the same names.
        Raises ``UsageError`` where pyarrow or pandas is not installed.
        """
        table = self.to_arrow()
        pd = pyarrow("pandas")
        nullable = {
            dtype: pd.api.types.pandas_dtype(
                "boolean" if dtype == "bool" else dtype.replace("i", "I").replace("u", "U")
            )
            for dtype in {column.dtype for column in self.columns} - {TEXT}
        }
        pa = pyarrow()
        frame = table.to_pandas(types_mapper={pa.type_for_alias(name): kind for name, kind in nullable.items()}.get)
        if times:
            for column in self.columns:
                if column.unit == "ns":
                    values = frame[column.name]
                    frame[column.name] = (
                        pd.to_datetime(values, utc=True) if column.is_moment else pd.to_timedelta(values)
                    )
        return frame


def op_table(c: Analysis, *, paths: Paths | None = None, traced: Traced | None = None) -> OpTable:
    """The matched ops as a table; `paths` and `traced` fill the columns that rest on them."""
    return OpTable(c, paths, traced, Labels(c, paths))


def plain(cells: Cells, column: Column) -> Values:
    """A value a row, labels put in."""
    if cells.labels is None:
        return cells.values.astype(column.dtype, copy=False)
    labels = np.array(cells.labels or [0], dtype=object if column.dtype == TEXT else column.dtype)
    found: Values = labels[cells.values]
    return found
