"""The name of a run -> a `Run`: a report, a CSV file, a capture or a pair of them, or a folder with these."""

from __future__ import annotations

import csv
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, TextIO

import numpy as np

from nfslat import __version__, api, pipeline
from nfslat.answer.model import SCHEMA, Report, Tool
from nfslat.decode.capture import captures_of
from nfslat.diff.runs import Run, Single, single_ops
from nfslat.errors import InputError, UsageError
from nfslat.evidence.known import Known
from nfslat.figures.op_columns import CHARGED
from nfslat.model.protocol import NULL
from nfslat.results import Correlation
from nfslat.select import Filters

_NEEDED = ("op", "size_bytes", "client_t0_ns", "client_t3_ns", "call_send_ns", "server_ns", "reply_send_ns")
_OPTIONAL = ("call_net_ns", "reply_net_ns", "one_way_error_ns", "queue_ns", *(f"{name}_ns" for name in CHARGED))
_START_BYTES = 64


def from_file(name: str, filters: Filters, *, engine: str | None, quiet: bool) -> Run:
    """A report, a CSV file, a capture or a folder; ``UsageError`` for filters on a report, else ``InputError``."""
    path = Path(name)
    if path.is_dir():
        return from_captures(captures_of([name]), filters, engine=engine, quiet=quiet, name=name)
    if not path.exists():
        raise InputError(f"{name}: no such file")
    if not path.is_file():
        raise InputError(f"{name}: neither a file nor a folder")
    with path.open("rb") as stream:
        start = stream.read(_START_BYTES).removeprefix(b"\xef\xbb\xbf").lstrip()
    if not start:
        raise InputError(f"{name}: the file is empty")
    is_json, is_csv = start.startswith(b"{"), start.startswith(b"xid,program,")
    if not (is_json or is_csv):
        return from_captures([name], filters, engine=engine, quiet=quiet)
    if filters.text:
        raise UsageError(f"{', '.join(filters.text)}: {name}: a finished report; filters need captures")
    try:
        with path.open(encoding="utf-8-sig", newline="") as text:
            return _of_csv(name, text) if is_csv else _of_json(name, text)
    except UnicodeDecodeError as problem:
        raise InputError(f"{name}: not a text file") from problem


def from_captures(
    captures: Sequence[str], filters: Filters, *, engine: str | None, quiet: bool, name: str | None = None
) -> Run:
    """Two captures, or one whose other host is inferred. Raises as `api.compared` does, and where no op is in both."""
    found = api.compared(captures, api.Options(engine=engine, filters=filters), quiet=quiet)
    return of_correlation(found, filters, name or " ".join(captures))


def of_correlation(found: Correlation, filters: Filters, name: str, *, borders: Sequence[int] | None = None) -> Run:
    """Two captures that were read. Raises ``InputError`` where no op is in both. `borders` as `pipeline.report` takes
    them."""
    if not len(found.matched):
        raise InputError(f"{name}: no op is in both captures")
    analysis = pipeline.analyse(found)
    tool = Tool(__version__, found.engine, "nfslat diff", found.srt)
    report = pipeline.report(analysis, tool, filters, Known(), borders=borders)
    return Run(name, "captures", report, single_ops(analysis))


def _of_json(name: str, text: TextIO) -> Run:
    report = Report.from_json(text.read(), name)
    if report.matched is None:
        raise InputError(f"{name}: a report on one capture, of which nothing is inferred; diff needs both sides")
    sides = {"server", "client"} - ({report.inferred.side} if report.inferred else set())
    if report.captures.keys() != sides or report.clock is None or report.verdict is None:
        raise InputError(f"{name}: not a whole report of {SCHEMA}: no captures of both sides, clock or verdict")
    run = Run(name, "report", report, None)
    if not run.figures:
        raise InputError(f"{name}: a report without matched ops")
    if any(one.count < 1 for one in run.figures):
        raise InputError(f"{name}: not a whole report of {SCHEMA}: a row without ops")
    return run


def _of_csv(name: str, text: TextIO) -> Run:
    rows = csv.reader(text)
    header = next(rows)
    missing = [column for column in _NEEDED if column not in header]
    if missing:
        raise InputError(f"{name}: no column {', '.join(missing)}; make it with nfslat SERVER CLIENT --csv")
    at = {column: header.index(column) for column in (*_NEEDED, *_OPTIONAL) if column in header}
    names: dict[str, int] = {}
    op: list[int] = []
    columns: dict[str, list[int | None]] = {column: [] for column in at if column != "op"}
    try:
        for row in _whole(rows, len(header)):
            op.append(names.setdefault(row[at["op"]], len(names)))
            for column, values in columns.items():
                cell = row[at[column]]
                values.append(int(cell) if cell else None)
    except (ValueError, csv.Error) as problem:
        raise InputError(f"{name}: line {rows.line_num}: {problem}") from problem
    if not op:
        raise InputError(f"{name}: a CSV file without ops")
    try:
        return Run(name, "csv", None, _single(tuple(names), op, columns))
    except (OverflowError, TypeError) as problem:
        raise InputError(f"{name}: a value is missing or out of range") from problem


def _whole(rows: Iterator[list[str]], cells: int) -> Iterator[list[str]]:
    for row in rows:
        if len(row) != cells:
            raise ValueError(f"{len(row)} cells, not {cells}")
        yield row


def _single(names: tuple[str, ...], op: list[int], columns: dict[str, list[int | None]]) -> Single:
    def known(column: str) -> np.ndarray[Any, np.dtype[np.int64]]:
        return np.array(columns[column], dtype=np.int64)

    def filled(column: str) -> np.ndarray[Any, np.dtype[np.int64]]:
        return np.array([NULL if value is None else value for value in columns[column]], dtype=np.int64)

    def whole(column: str) -> bool:
        return column in columns and None not in columns[column]

    begin = known("client_t0_ns")
    order = np.argsort(begin, kind="stable")
    client = known("client_t3_ns") - begin
    send, server, reply = (known(column) for column in ("call_send_ns", "server_ns", "reply_send_ns"))
    parts = {"call_send": send, "network": client - send - server - reply, "server": server, "reply_send": reply}
    inner = {}
    if whole("call_net_ns") and whole("reply_net_ns"):
        inner = {name: known(f"{name}_ns") for name in ("call_net", "reply_net")}
    queued = "queue_ns" in columns and any(value is not None for value in columns["queue_ns"])
    errors = [value for value in columns.get("one_way_error_ns", []) if value is not None]
    return Single(
        ops=names,
        op=np.array(op, dtype=np.int64)[order],
        size_bytes=filled("size_bytes")[order],
        begin_ns=begin[order],
        client_ns=client[order],
        parts={part: ns[order] for part, ns in parts.items()},
        queue_ns=filled("queue_ns")[order] if queued else None,
        of_network={part: ns[order] for part, ns in inner.items()},
        causes={name: known(f"{name}_ns")[order] for name in CHARGED if whole(f"{name}_ns")},
        one_way_error_ns=float(np.mean(errors)) if errors else 0.0,
    )
