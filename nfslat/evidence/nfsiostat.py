"""What nfsiostat prints -> its reports, and mean latencies over them. Source: nfs-utils tools/nfs-iostat/nfs-iostat.py.

Old versions print no queue column and no errors; some print each number on a line of its own.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain

from nfslat.errors import InputError
from nfslat.evidence.records import Evidence, Latency

_REPORT = re.compile(r"\S.* mounted on .+:\s*$")
_COLUMN = re.compile(r"ops?/s|kB/s|kB/op|retrans|avg RTT \(ms\)|avg exe \(ms\)|avg queue \(ms\)|errors|rpc bklog")
_OPERATION = re.compile(r"\s*([a-z][a-z_]*):(.*)")
_NUMBER = re.compile(r"-?[0-9]{1,20}(?:\.[0-9]{1,20})?")
_LAYERS = {"client": "avg exe (ms)", "slot wait": "avg queue (ms)", "client wire": "avg RTT (ms)"}
_DATA = ("READ", "WRITE")


@dataclass(frozen=True)
class Report:
    """One mount in one report: means over an interval whose length nfsiostat does not print."""

    device: str
    path: str
    since_mount: bool  # the first report of a mount goes back to when it was mounted
    backlog: float | None  # mean number of requests that wait for a slot
    # Operation -> column as it is printed ("avg RTT (ms)") -> number.
    operations: Mapping[str, Mapping[str, float]] = field(default_factory=dict)


def belongs(line: str) -> bool:
    """Whether a report begins with the line: ``DEVICE mounted on PATH:``."""
    return " mounted on " in line and _REPORT.match(line) is not None


def evidence(lines: Iterable[str], _: str) -> Evidence:
    """Latencies of the mounts; raises ``InputError`` where there is no report, or a report is cut short."""
    reports = parse(lines)
    return Evidence(tuple(latencies(reports)), record=reports)


def parse(lines_of_text: Iterable[str]) -> tuple[Report, ...]:
    """The reports, in their order. Raises ``InputError`` likewise."""
    reports: list[Report] = []
    seen: set[tuple[str, str]] = set()
    place: tuple[str, str] | None = None
    lines: list[str] = []
    for line in chain(lines_of_text, [" mounted on :"]):
        device, mounted, path = line.rstrip().partition(" mounted on ")
        if not (mounted and path.endswith(":")):
            lines.append(line)
            continue
        if place and (tables := _tables(lines, f"a report of {place[1]}")):
            backlog = tables.pop("", {}).get("rpc bklog")
            reports.append(Report(*place, place not in seen, backlog, tables))
            seen.add(place)
        place, lines = (device, path[:-1]), []
    if not reports:
        raise InputError("no report of nfsiostat ('DEVICE mounted on PATH:') in it")
    return tuple(reports)


def _tables(lines: Iterable[str], what: str) -> dict[str, dict[str, float]]:
    """Operation -> column -> number; "" is the operation of what stands in front of the first."""
    tables: dict[str, dict[str, float]] = {}
    current, columns, numbers = "", list[str](), list[float]()

    def close() -> None:
        if columns and len(numbers) < len(columns):
            raise InputError(f"{what} is cut short")
        if columns:
            tables[current] = dict(zip(columns, numbers, strict=False))
        columns.clear()
        numbers.clear()

    for line in lines:
        rest = line
        if operation := _OPERATION.match(line):
            close()
            current, rest = operation[1].upper(), operation[2]  # the heading may follow, or have a line of its own
        if names := _COLUMN.findall(rest):
            close()
            columns += names
        elif columns:
            # Shares stand in brackets and are no columns.
            numbers += [float(word) for word in rest.split() if _NUMBER.fullmatch(word)]
    close()
    return tables


def latencies(reports: Iterable[Report]) -> list[Latency]:
    """Means of each operation of each mount, then (op "") of its reads and writes together; `source` names the mount.

    The report since the mount is left out where there are later ones; where there are none, `source` says so. Reports
    are weighted by their operations per second, as all have the same length; how many operations it were is not told.
    """
    mounts: dict[tuple[str, str], list[Report]] = {}
    for report in reports:
        mounts.setdefault((report.device, report.path), []).append(report)
    found: list[Latency] = []
    for (_, path), mine in mounts.items():
        later = [report for report in mine if not report.since_mount]
        source = f"nfsiostat {path}" if later else f"nfsiostat {path}, since it was mounted"
        rows: dict[str, list[Mapping[str, float]]] = {}
        for report in later or mine:
            for op, columns in report.operations.items():
                rows.setdefault(op, []).append(columns)
        rows[""] = [columns for op in _DATA for columns in rows.get(op, [])]
        for op, tables in rows.items():
            found += _means(op, tables, source)
    return found


def _means(op: str, tables: Sequence[Mapping[str, float]], source: str) -> Iterator[Latency]:
    for layer, column in _LAYERS.items():
        told = [(columns["ops/s"], columns[column]) for columns in tables if {"ops/s", column} <= columns.keys()]
        weight = sum(rate for rate, _ in told)
        if weight > 0:
            yield Latency(layer, op, sum(rate * mean for rate, mean in told) / weight, None, source)
