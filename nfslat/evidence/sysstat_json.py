"""What ``iostat -o JSON`` prints -> the lines that it would print without, which `host_statistics` reads.

Tested with sysstat 12.6. An output that was cut off (a signal ended iostat) is read row by row as far as it goes, which
its layout allows: a row of a device, or a time stamp, is a line.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator
from typing import Any

from nfslat.errors import InputError

_MOST_BYTES = 1 << 28
_STAMP = re.compile(r'\s*"timestamp": "([^"\\]{1,40})",?\s*$')
_FACT = re.compile(r'\s*"(nodename|sysname|release|date|number-of-cpus)": "?([^"\\,]{1,255})"?,?\s*$')
_ROW = re.compile(r'\s*(\{"disk_device": .{1,2000}\}),?\s*$')


def as_text(lines: Iterable[str]) -> Iterator[str]:
    """The same without JSON; raises ``InputError`` where it is none, or too long."""
    kept: list[str] = []
    size = 0
    for line in lines:
        kept.append(line)
        size += len(line)
        if size > _MOST_BYTES:
            raise InputError(f"JSON of over {_MOST_BYTES >> 20} MB: give shorter recordings")
    try:
        document = json.loads("".join(kept))
    except (ValueError, RecursionError):
        yield from _by_line(kept)
        return
    for host in _list(document, "sysstat", "hosts"):
        yield from _host({str(key): host[key] for key in host}) if isinstance(host, dict) else ()


def _by_line(lines: Iterable[str]) -> Iterator[str]:
    facts: dict[str, Any] = {}
    for line in lines:
        if fact := _FACT.match(line[:400]):
            facts.setdefault(fact[1], fact[2])
            if fact[1] == "date":
                yield from _head(facts)
        elif stamp := _STAMP.match(line[:400]):
            yield stamp[1]
        elif row := _ROW.match(line[:2400]):
            try:
                yield from _disks([json.loads(row[1])])
            except (ValueError, RecursionError):
                continue


def _host(host: dict[str, Any]) -> Iterator[str]:
    yield from _head(host)
    for report in _list(host, "statistics"):
        if isinstance(report, dict):
            yield _word(report.get("timestamp", ""), blanks=True)
            yield from _disks(_list(report, "disk"))


def _head(facts: dict[str, Any]) -> Iterator[str]:
    system, release, node, date = (_word(facts.get(key, "-")) for key in ("sysname", "release", "nodename", "date"))
    cpus = _word(facts.get("number-of-cpus", ""))
    yield f"{system or '-'} {release or '-'} ({node or '-'}) \t{date} \t_ \t({cpus} CPU)"


def _disks(rows: Iterable[Any]) -> Iterator[str]:
    """A table; a heading stands above each row that has other columns than the one before."""
    before: list[str] = []
    for row in rows:
        if not isinstance(row, dict) or "disk_device" not in row:
            continue
        named = {_word(key): _word(row[key]) for key in row if key != "disk_device"}
        if list(named) != before:
            before = list(named)
            yield f"Device {' '.join(before)}"
        yield " ".join([_word(row["disk_device"]) or "-", *(value or "-" for value in named.values())])


def _list(value: Any, *keys: str) -> list[Any]:
    for key in keys:
        value = value.get(key) if isinstance(value, dict) else None
    return value if isinstance(value, list) else []


def _word(value: Any, *, blanks: bool = False) -> str:
    """A text without blanks, so that it stays a cell."""
    words = str(value)[:255].split() if isinstance(value, str | int | float) else []
    return (" " if blanks else "_").join(words)
