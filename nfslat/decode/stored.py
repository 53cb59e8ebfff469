"""A decoded capture -> a Parquet file with a row an op, and such a file -> the decoded capture, every field the same.

The rows are what other programs read: in words what the numbers of an op stand for, and the columns of `Ops`, with null
where they are null. All else (other messages, TCP and a sample of its segments, sessions, counts) lies between the last
row and the footer, where readers of Parquet pass by: each table a Parquet file of its own, then one JSON value,
compressed, with the rest and the places of the tables. The footer's key ``nfslat`` says where that is, and what version
of this form it has.
"""

from __future__ import annotations

import json
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, BinaryIO, NoReturn

import numpy as np
from msgspec import structs

from nfslat import __version__
from nfslat.decode.arrow import Counted, as_numpy, coded, dictionary, numbers, options, pyarrow, strings
from nfslat.decode.capture import File, Source
from nfslat.decode.packed import Columns, Tables, pack, unpack
from nfslat.decode.segments import apart, joined, sampled
from nfslat.errors import InputError
from nfslat.model.decoded import Decoded
from nfslat.model.protocol import NULL, op_name, program_name, version_name
from nfslat.model.segments import Talks, Wanted

SCHEMA = "nfslat.side/4"
_KEY = "nfslat"
_STORED = " (stored)"  # behind the name of the engine that decoded the capture
_ROW_GROUP = 1 << 17  # rows
_UNITS = {"offset": "bytes", "size": "bytes", "t0": "ns", "t1": "ns", "t2": "ns", "t3": "ns"}
_NEVER_NULL = ("xid", "flags")
_OPS = "decoded.ops"
# What pyarrow, zlib, json and tables raise where bytes are not as they were.
_PROBLEMS = (
    OSError,
    ValueError,
    TypeError,
    LookupError,
    ArithmeticError,
    AttributeError,
    NotImplementedError,
    MemoryError,
    zlib.error,
)


# --- Writing ----------------------------------------------------------------------------------------------------------


def write_side(decoded: Decoded, source: Source, out: BinaryIO, *, command: str = "") -> None:
    """Write one capture to a stream that need not be seekable; the same input gives the same bytes.

    Raises ``UsageError`` where pyarrow is not installed.
    """
    pa, pq = pyarrow(), pyarrow("pyarrow.parquet")
    decoded = structs.replace(decoded, engine=decoded.engine.removesuffix(_STORED))
    # Where a file lay is no part of it, and of what was piped in it is another name each time.
    files = tuple(structs.replace(file, path=Path(file.name)) for file in source.files)
    tables: Tables = {}
    rest = {
        "source": pack(Source, structs.replace(source, files=files, stored=False), "source", tables),
        "decoded": pack(Decoded, decoded, "decoded", tables),
        "talks": pack(Talks, joined(sampled(decoded.segments)), "talks", tables),
    }
    ops = tables.pop(_OPS)
    schema = _schema(decoded, ops)
    with pa.PythonFile(Counted(out), mode="w") as sink, pq.ParquetWriter(sink, schema, **options(schema)) as writer:
        for batch in _batches(decoded, ops, schema):
            writer.write_batch(batch, row_group_size=_ROW_GROUP)
        rest["tables"] = {
            name: _append(sink, _as_parquet(columns)) for name, columns in tables.items() if _rows(columns)
        }
        text = json.dumps(rest, separators=(",", ":")).encode()
        about = {
            "schema": SCHEMA,
            "version": __version__,
            "command": command,
            "engine": decoded.engine,
            "capture": source.name,
            "ops": len(decoded.ops),
            "rest": [*_append(sink, zlib.compress(text)), len(text)],
        }
        writer.add_key_value_metadata({_KEY: json.dumps(about)})


def _append(sink: Any, data: Any) -> tuple[int, int, int]:
    """Place, length and check sum of what is put behind the last row group."""
    at: int = sink.tell()
    sink.write(data)
    return at, len(data), zlib.crc32(data)


def _as_parquet(columns: Columns) -> Any:
    pa, pq = pyarrow(), pyarrow("pyarrow.parquet")
    table = pa.table(
        {
            name: strings(pa.binary(), column) if isinstance(column, list) else numbers(column)
            for name, column in columns.items()
        }
    )
    out = pa.BufferOutputStream()
    pq.write_table(table, out, row_group_size=_ROW_GROUP, **options(table.schema))
    return out.getvalue()


def _rows(columns: Columns) -> int:
    return max(map(len, columns.values()))


def _numbers(columns: Columns) -> Any:
    """Fields of the columns of `Ops`."""
    pa = pyarrow()
    fields = []
    for name, column in columns.items():
        kind = pa.from_numpy_dtype(np.asarray(column).dtype)
        fields.append(pa.field(name, kind, metadata={"unit": _UNITS[name]} if name in _UNITS else None))
    return pa.schema(fields)


def _schema(decoded: Decoded, columns: Columns) -> Any:
    pa = pyarrow()
    text = pa.dictionary(pa.int32(), pa.string())
    in_words = dict.fromkeys(("program", "version", "operation"), text)
    for end in ("caller", "called"):
        in_words |= {end: text, f"{end}_port": pa.int32()}
    in_words |= {"transport": text} | ({"uid": pa.uint32()} if len(decoded.details.callers) else {})
    return pa.schema([*(pa.field(name, kind) for name, kind in in_words.items()), *_numbers(columns)])


def _batches(decoded: Decoded, columns: Columns, schema: Any) -> Iterator[Any]:
    """The rows as ``pyarrow.RecordBatch``."""
    pa = pyarrow()
    ops, uid = decoded.ops, decoded.details.callers.uid
    kinds = [
        dictionary([program_name(kind.program) for kind in ops.kinds]),
        dictionary([version_name(*kind[:3]) for kind in ops.kinds]),
        dictionary([op_name(kind.program, kind.version, kind.op) for kind in ops.kinds]),
    ]
    ways = [(ends, way) for ends in ops.connections for way in (0, 1)]
    callers, called = [ends.source(way) for ends, way in ways], [ends.destination(way) for ends, way in ways]
    texts, ports = [], []
    for of_way in (callers, called):
        texts.append(dictionary([address for address, _ in of_way]))
        ports.append(np.array([port for _, port in of_way] or [0], dtype=np.int32))
    transport = dictionary([ends.transport for ends, _ in ways])
    for begin in range(0, len(ops), _ROW_GROUP):
        at = slice(begin, begin + _ROW_GROUP)
        kind, way = ops.kind[at], ops.conn[at] * 2 + ops.direction[at]
        arrays = [coded(kind, labels) for labels in kinds]
        for text, port in zip(texts, ports, strict=True):
            arrays += [coded(way, text), numbers(port[way])]
        arrays.append(coded(way, transport))
        arrays += [numbers(uid[at], uid[at] == _null(uid))] if len(uid) else []
        for name, column in columns.items():
            values = np.asarray(column)[at]
            arrays.append(numbers(values, None if name in _NEVER_NULL else values == _null(values)))
        yield pa.record_batch(arrays, schema=schema)


def _null(values: Any) -> Any:
    """All bits set (`nfslat.model.tables`)."""
    return NULL if values.dtype.kind == "i" else np.iinfo(values.dtype).max


# --- Reading ----------------------------------------------------------------------------------------------------------


def open_source(name: str, path: Path) -> Source:
    """The source that `read_side` reads. Raises ``InputError`` where the file is not of `write_side`."""
    _Kept(name, path)
    file = File(name=name, path=path, format="", snaplen=None, packets=0, first_ns=NULL, last_ns=0, cut_short=False)
    return Source(name, (file,), stored=True)


def read_side(
    source: Source, progress: Callable[[int], None], *, segments: Wanted = Wanted.NONE
) -> tuple[Source, Decoded]:
    """What `write_side` was given, the engine marked as stored, the source under its new name.

    `progress` is called now and then, and may raise to end it. Of `segments` there is a sample at most. Raises
    ``InputError`` where the file is damaged.
    """
    kept = _Kept(source.name, source.files[0].path)
    try:
        rest = kept.rest()

        def table(name: str, dtypes: dict[str, Any]) -> Columns:
            progress(0)
            return kept.ops(dtypes, progress) if name == _OPS else kept.table(rest["tables"].get(name), dtypes)

        was: Source = unpack(Source, rest["source"], "source", table)
        decoded: Decoded = unpack(Decoded, rest["decoded"], "decoded", table)
        _check(decoded)
        talks = apart(unpack(Talks, rest["talks"], "talks", table)) if segments is not Wanted.NONE else []
    except _PROBLEMS as problem:
        kept.refuse(f"is damaged, or was changed ({_one_line(problem)}); make it again with --ops-parquet", problem)
    files = tuple(structs.replace(file, path=source.files[0].path) for file in was.files)
    return (
        structs.replace(was, name=source.name, files=files, stored=True),
        structs.replace(decoded, engine=decoded.engine + _STORED, segments=talks),
    )


class _Kept:
    """A Parquet file of `write_side`, opened. Raises ``InputError`` where it is none."""

    def __init__(self, name: str, path: Path) -> None:
        pq = pyarrow("pyarrow.parquet")
        self.name = name
        try:
            self._bytes = pyarrow().OSFile(str(path))
            self._file = pq.ParquetFile(self._bytes, page_checksum_verification=True)
            about = json.loads((self._file.metadata.metadata or {}).get(_KEY.encode(), b"null"))
        except _PROBLEMS as problem:
            self.refuse(f"a Parquet file that cannot be read ({_one_line(problem)}); is it complete?", problem)
        schema = str(about.get("schema")) if isinstance(about, dict) else ""
        if schema.startswith("nfslat.ops/"):
            self.refuse("holds the matched ops of two captures (--parquet); give a capture, or a file of --ops-parquet")
        if not schema.startswith(SCHEMA.partition("/")[0] + "/"):
            self.refuse("is a Parquet file that nfslat did not write; give a capture, or a file of --ops-parquet")
        if schema != SCHEMA:
            self.refuse(
                f"has the form {schema[:40]!r}, and this nfslat reads {SCHEMA!r}; make it again from the capture"
            )
        self._about = about

    def refuse(self, why: str, problem: Exception | None = None) -> NoReturn:
        """Raise ``InputError``."""
        raise InputError(why, about=self.name) from problem

    def rest(self) -> dict[str, Any]:
        """All but the tables, and where they are."""
        *where, size = self._about["rest"]
        found: dict[str, Any] = json.loads(zlib.decompressobj().decompress(self._read(*where), size))
        return found

    def _read(self, at: int, size: int, crc32: int) -> Any:
        data = self._bytes.read_at(size, at) if 0 <= at <= at + size <= self._bytes.size() else b""
        if zlib.crc32(data) != crc32:
            raise ValueError("what was behind the rows is not there")
        return data

    def ops(self, dtypes: dict[str, Any], progress: Callable[[int], None]) -> Columns:
        """The columns of `Ops`."""
        if self._file.metadata.num_rows != self._about["ops"]:
            raise ValueError(f"{self._file.metadata.num_rows} rows, not {self._about['ops']}")
        return _columns(self._file, dtypes, progress)

    def table(self, where: list[int] | None, dtypes: dict[str, Any]) -> Columns:
        """Those of another table; None where it has no rows."""
        if where is None:
            return {name: [] if dtype is None else np.zeros(0, dtype) for name, dtype in dtypes.items()}
        data = pyarrow().BufferReader(self._read(*where))
        return _columns(pyarrow("pyarrow.parquet").ParquetFile(data, page_checksum_verification=True), dtypes)


def _columns(file: Any, dtypes: dict[str, Any], progress: Callable[[int], None] = lambda _: None) -> Columns:
    """Columns of a Parquet file, a row group at a time: they are never there twice."""
    rows = file.metadata.num_rows
    texts: dict[str, list[bytes]] = {name: [] for name, dtype in dtypes.items() if dtype is None}
    numbers = {name: np.empty(rows, dtype) for name, dtype in dtypes.items() if dtype is not None}
    at = 0
    for group in range(file.num_row_groups):
        progress(0)
        table = file.read_row_group(group, columns=list(dtypes))
        for name, items in texts.items():
            items.extend(table[name].to_pylist())
        for name, column in numbers.items():
            found = table[name]
            if found.type != pyarrow().from_numpy_dtype(column.dtype):
                raise TypeError(f"{name}: {found.type}, not {column.dtype}")
            found = found.fill_null(int(_null(column))) if found.null_count else found
            place = at
            for chunk in found.chunks:
                column[place : place + len(chunk)] = as_numpy(chunk, column.dtype)
                place += len(chunk)
        at += len(table)
    return {**texts, **numbers}


def _check(decoded: Decoded) -> None:
    """Row numbers lead somewhere, so that what was put together by another program ends here and not somewhere else."""
    for table in (decoded.ops, decoded.loose):
        for rows, target, least in ((table.conn, table.connections, 0), (table.kind, table.kinds, NULL)):
            if len(rows) and not least <= int(rows.min()) <= int(rows.max()) < len(target):
                raise ValueError("a row number leads nowhere")


def _one_line(problem: Exception) -> str:
    return (str(problem).splitlines() or [type(problem).__name__])[0][:200]
