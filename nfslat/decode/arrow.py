"""What Arrow tables and Parquet files of nfslat have in common; pyarrow, where it is installed."""

from __future__ import annotations

import importlib
import io
from collections.abc import Sequence
from typing import Any, BinaryIO

import numpy as np
import numpy.typing as npt

from nfslat.errors import UsageError

_OLDEST = 16  # the first whose Parquet writer takes metadata after the rows

Dictionary = tuple[npt.NDArray[np.int32], Any]


def pyarrow(module: str = "pyarrow") -> Any:
    """``pyarrow``, or the `module` of it. Raises ``UsageError`` where it is not installed, or too old.

    It is imported here only, and late: most runs do without, and it takes a while. It has no annotations.
    """
    try:
        version: str = importlib.import_module("pyarrow").__version__
        found = importlib.import_module(module)
    except ImportError as problem:
        what = "pandas" if module == "pandas" and problem.name == "pandas" else "'nfslat[parquet]'"
        raise UsageError(f"{module.partition('.')[0]} is not installed: pip install {what}") from problem
    if int(version.partition(".")[0]) < _OLDEST:
        raise UsageError(f"pyarrow {version} is too old for this: pip install --upgrade 'nfslat[parquet]'")
    return found


def numbers(values: npt.NDArray[Any], null: npt.NDArray[np.bool_] | None = None) -> Any:
    """A ``pyarrow.Array`` of numbers or of bool, not copied; ``pyarrow.array`` would import pandas to look at them."""
    pa = pyarrow()
    data = np.packbits(values, bitorder="little") if values.dtype == np.bool_ else np.ascontiguousarray(values)
    valid = None if null is None else pa.py_buffer(np.packbits(~null, bitorder="little"))
    kind = pa.type_for_alias(values.dtype.name)
    return pa.Array.from_buffers(kind, len(values), [valid, pa.py_buffer(data)])


def dictionary(labels: Sequence[str]) -> Dictionary:
    """Each label once, as an Arrow array; and for each of `labels` its row there (several kinds may have one name)."""
    row_of = {label: row for row, label in enumerate(dict.fromkeys(labels))}
    rows = np.array([row_of[label] for label in labels] or [0], dtype=np.int32)
    return rows, strings(pyarrow().string(), [label.encode() for label in row_of])


def strings(kind: Any, values: Sequence[bytes]) -> Any:
    """A ``pyarrow.Array`` of this kind, text or binary."""
    pa = pyarrow()
    ends = np.cumsum([0, *map(len, values)], dtype=np.int32)
    return pa.Array.from_buffers(kind, len(values), [None, pa.py_buffer(ends), pa.py_buffer(b"".join(values))])


def coded(rows: npt.NDArray[Any], labels: Dictionary, null: npt.NDArray[np.bool_] | None = None) -> Any:
    """A ``pyarrow.DictionaryArray`` of the labels in `rows`."""
    return pyarrow().DictionaryArray.from_arrays(numbers(labels[0][rows], null), labels[1])


def as_numpy(numbers: Any, dtype: npt.DTypeLike) -> npt.NDArray[Any]:
    """Numbers of a ``pyarrow.Array`` without null, not copied."""
    data = numbers.buffers()[1]
    whole = np.frombuffer(data, dtype) if data is not None else np.zeros(0, dtype)
    return whole[numbers.offset : numbers.offset + len(numbers)]


def options(schema: Any) -> dict[str, Any]:
    """How ``pyarrow.parquet.ParquetWriter`` is to write `schema`."""
    types = pyarrow().types
    return {
        "compression": "zstd",
        "use_dictionary": [one.name for one in schema if types.is_dictionary(one.type)],
        # Times and frame numbers grow from row to row: their differences are short.
        "column_encoding": {one.name: "DELTA_BINARY_PACKED" for one in schema if types.is_integer(one.type)},
        "write_page_checksum": True,
    }


class Counted(io.RawIOBase):
    """A stream to write to that knows where it is, whatever it writes to: Parquet files hold offsets."""

    def __init__(self, out: BinaryIO) -> None:
        super().__init__()
        self._out, self._at = out, 0

    def writable(self) -> bool:
        """It is."""
        return True

    def write(self, data: Any) -> int:
        """All of `data`."""
        size = memoryview(data).nbytes
        self._out.write(data)
        self._at += size
        return size

    def tell(self) -> int:
        """Bytes written."""
        return self._at
