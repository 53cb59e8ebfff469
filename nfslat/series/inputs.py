"""Names on the command line, or a small TOML or CSV -> the runs of a series, their loads, and what is known of them.

unit = "users"                              users,run,app_ms
[[run]]                                     1,one/,12.4
load = 1                                    8,eight.json,13.0
run = "one/"                                16,sixteen/,19.7
app_ms = 12.4
"""

from __future__ import annotations

import csv
import io
import math
import os
import tomllib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NoReturn

from nfslat.errors import InputError, UsageError, nearest
from nfslat.evidence.known import MOST_MS
from nfslat.model.record import Record

_KEYS = ("load", "run", "server", "client", "name", "app_ms", "storage_ms")
_MOST_BYTES, _MOST_RUNS = 1 << 20, 1000
_LONGEST_NAME = 60
_MOST_LOAD = 1e12


class Asked(Record):
    """One run: a name as `nfslat diff` takes it, or two captures."""

    files: tuple[str, ...]
    name: str
    load: float | None = None
    app_ms: float | None = None
    storage_ms: float | None = None


class Listed(Record):
    """All runs, by load where they have one."""

    runs: tuple[Asked, ...]
    unit: str


def of_arguments(words: Sequence[str], unit: str) -> Listed:
    """``LOAD=RUN``, or runs without loads. Raises ``UsageError``."""
    return _checked([_of_word(word) for word in words], unit)


def of_file(path: str, unit: str | None) -> Listed:
    """What a TOML or CSV lists. Raises ``InputError`` where it cannot be read, ``UsageError`` where it is wrong."""
    try:
        with Path(path).open("rb") as stream:
            data = stream.read(_MOST_BYTES + 1)
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as problem:
        raise UsageError(f"{path}: not UTF-8 text: give a TOML or a CSV that lists the runs") from problem
    except OSError as problem:
        raise InputError(f"{path}: cannot be read ({problem.strerror})") from problem
    if len(data) > _MOST_BYTES:
        raise UsageError(f"{path}: over {_MOST_BYTES >> 20} MB: give a TOML or a CSV that lists the runs")
    reading = _Reading(path)
    runs, told = reading.toml(text) if path.lower().endswith(".toml") else reading.csv(text)
    return _checked(runs, unit or told or "load")


def _of_word(word: str) -> Asked:
    load, equals, run = word.partition("=")
    number = _number(load)
    if equals and run and number is not None and not os.path.exists(word):
        return Asked((run,), _name(run), number)
    return Asked((word,), _name(word))


def _checked(runs: Sequence[Asked], unit: str) -> Listed:
    if len(runs) < 2:
        raise UsageError(f"a series has two runs or more, {len(runs)} given: nfslat series 1=one/ 8=eight/ 16=sixteen/")
    if len(runs) > _MOST_RUNS:
        raise UsageError(f"{len(runs):,} runs: a series has {_MOST_RUNS:,} at most")
    with_load = [one for one in runs if one.load is not None]
    if with_load and len(with_load) < len(runs):
        without = next(one for one in runs if one.load is None)
        raise UsageError(f"{without.name}: has no load, and others have: give all of them one (8={without.files[0]})")
    ordered = sorted(runs, key=lambda one: one.load or 0.0)
    return Listed(tuple(ordered), (_shown(unit) or "load") if with_load else "run")


def _shown(text: str) -> str:
    return " ".join("".join(ch if ch.isprintable() else " " for ch in text).split())[:_LONGEST_NAME]


def _name(run: str) -> str:
    return run.rstrip("/").rpartition("/")[2][:_LONGEST_NAME] or run[:_LONGEST_NAME]


def _number(text: str) -> float | None:
    try:
        value = float(text)
    except ValueError:
        return None
    return value if math.isfinite(value) and 0 <= value <= _MOST_LOAD else None


class _Reading:
    def __init__(self, path: str) -> None:
        self.path = path
        self.folder = os.path.dirname(path)

    def toml(self, text: str) -> tuple[list[Asked], str]:
        try:
            document = tomllib.loads(text)
        except (tomllib.TOMLDecodeError, RecursionError) as problem:
            raise UsageError(f"{self.path}: not TOML: {problem}") from problem
        self.known(document, "", ("unit", "run"))
        rows, unit = document.get("run", []), document.get("unit", "")
        if not isinstance(unit, str):
            self.refuse("unit", 'give what loads count in quotes: unit = "users"')
        if not isinstance(rows, list) or not all(isinstance(row, dict) for row in rows):
            self.refuse("run", "give a table for each run: [[run]]")
        return [self.run(row, f"run {place}") for place, row in enumerate(rows, 1)], unit

    def csv(self, text: str) -> tuple[list[Asked], str]:
        try:
            rows = [row for row in csv.reader(io.StringIO(text, newline=""), skipinitialspace=True) if any(row)]
        except csv.Error as problem:
            raise UsageError(f"{self.path}: not CSV: {problem}") from problem
        rows = [row for row in rows if not row[0].startswith("#")]
        if not rows:
            raise UsageError(f"{self.path}: lists no runs")
        # The column of loads is called what they count.
        heads = [head.strip() for head in rows[0]]
        others = [head for head in heads if head.lower() not in _KEYS]
        unit = others[0] if others and "load" not in heads else ""
        columns = ["load" if head and head == unit else head.lower() for head in heads]
        self.known(dict.fromkeys(columns), "first line", _KEYS)
        if len(set(columns)) < len(columns):
            self.refuse("first line", "a column is there twice")
        found = []
        for place, row in enumerate(rows[1:], 2):
            if len(row) > len(columns):
                self.refuse(f"line {place}", f"{len(row)} cells, and {len(columns)} columns")
            cells = dict(zip(columns, (cell.strip() for cell in row), strict=False))
            found.append(self.run({key: cell for key, cell in cells.items() if cell}, f"line {place}"))
        return found, unit

    def run(self, row: Mapping[str, Any], place: str) -> Asked:
        self.known(row, place, _KEYS)
        pair = "server" in row or "client" in row
        wanted = ("server", "client") if pair else ("run",)
        files = []
        for key in wanted:
            value = row.get(key)
            if not isinstance(value, str) or not value or "\0" in value:
                self.refuse(
                    f"{place}: {key}", "give a report, a folder or a capture; or server and client, two captures"
                )
            files.append(value if os.path.isabs(value) else os.path.join(self.folder, value))
        if pair and "run" in row:
            self.refuse(f"{place}: run", "give this, or server and client")
        name = row.get("name", "")
        if not isinstance(name, str):
            self.refuse(f"{place}: name", "give a text")
        return Asked(
            tuple(files),
            _shown(name) or _name(files[-1]),
            self.number(row, "load", place, _MOST_LOAD),
            self.number(row, "app_ms", place, MOST_MS),
            self.number(row, "storage_ms", place, MOST_MS),
        )

    def number(self, row: Mapping[str, Any], key: str, place: str, most: float) -> float | None:
        value = row.get(key)
        if value is None:
            return None
        found = None if isinstance(value, bool) or not isinstance(value, int | float | str) else _number(str(value))
        if found is None or found > most:
            self.refuse(f"{place}: {key}", f"give a number from 0 to {most:g}")
        return found

    def known(self, row: Mapping[str, Any], place: str, allowed: tuple[str, ...]) -> None:
        for name in row:
            if name not in allowed:
                near = nearest(name, allowed)
                hint = f"did you mean {near}? " if near else ""
                shown = name if name.isprintable() and len(name) <= _LONGEST_NAME else repr(name[:_LONGEST_NAME])
                self.refuse(f"{place}: {shown}" if place else shown, f"{hint}allowed here: {', '.join(allowed)}")

    def refuse(self, place: str, why: str) -> NoReturn:
        raise UsageError(f"{self.path}: {place}: {why}")
