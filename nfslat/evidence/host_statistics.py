"""What iostat -x (JSON, too), vmstat, mpstat and pidstat print, alone or in archives of OSWatcher -> dated samples.

Columns go by their headings, which differ between versions (sysstat 9 to 12: iostat(1), mpstat(1), pidstat(1); procps:
vmstat(8); Solaris: iostat -xn). Times of requests are ms in all of them. The first report of iostat and of vmstat is
since the boot, and is left out. OSWatcher prints ``zzz ***`` and a date in front of what each run printed.
"""

from __future__ import annotations

import itertools
import json
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from datetime import date, datetime, timedelta
from typing import Any

from nfslat.errors import InputError
from nfslat.evidence.kinds import HOST_HEAD, HOST_TOOLS, OSWATCHER, SYSSTAT_JSON
from nfslat.evidence.records import Evidence
from nfslat.evidence.when import zone_of
from nfslat.model.record import Record

_MOST, _LONGEST = 500_000, 2048
_HEAD, _OSW, _JSON = (re.compile(mark) for mark in (HOST_HEAD, OSWATCHER, SYSSTAT_JSON))
_HEADINGS = {tool: re.compile(mark) for tool, mark in HOST_TOOLS.items()}
_OSW_HOST = re.compile(r"\w{1,20}\s{1,10}OSW\S{0,20}\s{1,10}v\S{1,20}\s{1,20}(\S{1,255})\s*$")
_ISO = re.compile(r"(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d)([+-]\d{4})\s*$")
_STAMP = re.compile(r"(\d{1,4}[-/.]\d{1,2}[-/.]\d{2,4}) (\d\d:\d\d:\d\d)(?: ([AP]M))?\s*$")
_CLOCK = re.compile(r"\d\d:\d\d:\d\d$")
_MONTHS = "Jan Feb Mar Apr May Jun Jul Aug Sep Oct Nov Dec".split()
_NAMES = {"iostat": "Device", "mpstat": "CPU", "pidstat": "Command"}
_MOST_JSON = 1 << 28  # characters
_JSON_PART = re.compile(
    r'"(nodename|sysname|release|date|number-of-cpus)"\s{0,9}:\s{0,9}"?([^"\\,}\n]{1,255})'
    r'|"timestamp"\s{0,9}:\s{0,9}"([^"\\]{1,40})"|(\{\s{0,99}"disk_device"[^{}]{1,2000}\})'
)


class Sample(Record):
    """A row of one of these tools: means over the `step_s` before `at`."""

    tool: str
    name: str  # of the device, processor or process; "" for vmstat
    values: Mapping[str, float]  # by heading
    at: datetime | None = None  # by the wall clock of its host
    zone_min: int | None = None
    step_s: float | None = None


class HostStatistics(Record):
    """All that a file has."""

    host: str
    cpus: int | None
    samples: tuple[Sample, ...]


def read(lines: Iterable[str], _: str) -> Evidence:
    """Samples of one tool or several, to be judged beside the captures of their time; ``InputError`` where none is."""
    reader, rest = _Reader(), iter(lines)
    first = next(rest, "")
    every = itertools.chain((first,), rest)
    for line in _without_json(every) if _JSON.match(first[:200]) else every:
        reader.take(line[:_LONGEST].rstrip())
    if not reader.samples:
        raise InputError(
            "no sample of iostat -x, vmstat, mpstat or pidstat in it but means since the boot: give an interval, as in "
            "S_TIME_FORMAT=ISO iostat -xt 1 30"
        )
    notes = (f"lines that could not be read: {reader.unreadable}",) if reader.unreadable else ()
    record = HostStatistics(reader.host, reader.cpus, tuple(_with_steps(reader.samples)))
    return Evidence((), notes, record, host=reader.host)


class _Reader:
    """What was printed so far."""

    def __init__(self) -> None:
        self.host, self.samples, self.unreadable = "", list[Sample](), 0
        self.cpus: int | None = None
        self._date: date | None = None
        self._osw = False
        self._at: datetime | None = None
        self._zone: int | None = None
        self._tool, self._columns, self._lead = "", list[str](), 0
        self._reports = 0  # of this run
        self._last: dict[str, tuple[datetime, float | None]] = {}  # by tool: instant, and what it was long

    def take(self, line: str) -> None:
        """One line."""
        words = line.split()
        if found := _HEAD.match(line):
            self.host = self.host or found[1]
            self.cpus = int(found[3]) if found[3] else self.cpus
            self._date = _date(found[2])
            self._tool, self._reports = "", 0
            if not self._osw:
                self._at, self._zone = None, None
        elif found := _OSW.match(line):
            self._begin_run(found)
        elif found := _OSW_HOST.match(line):
            self.host = self.host or found[1]
        elif found := _ISO.match(line):
            self._stamp(_instant(found[1]), zone_of(found[2]))
        elif found := _STAMP.match(line):
            day = _date(found[1])
            self._stamp(None if day is None else _on(day, found[2], found[3]), None)
        elif tool := next((tool for tool, mark in _HEADINGS.items() if mark.match(line)), ""):
            self._begin_table(tool, words)
        elif not words or words[0] in ("Average:", "avg-cpu:"):
            self._columns = []
        elif self._columns and len(self.samples) < _MOST:
            self._row(words)

    def _begin_run(self, run: re.Match[str]) -> None:
        self._osw, self._reports, self._tool, self._columns = True, 0, "", []
        month, day, *clock, half, zone, year = run.groups()
        number = _MONTHS.index(month) + 1 if month in _MONTHS else 0
        self._at = _instant(f"{year}-{number:02d}-{int(day):02d}T{':'.join(clock)}")
        if self._at is not None and half:
            self._at = _on(self._at.date(), ":".join(clock), half)
        self._zone = zone_of(zone or "")
        self._date = None if self._at is None else self._at.date()

    def _stamp(self, at: datetime | None, zone: int | None) -> None:
        self._at, self._zone, self._osw = at, zone, False
        if at is not None:
            self._step("iostat", at)

    def _begin_table(self, tool: str, words: list[str]) -> None:
        if tool != "vmstat" or self._tool != "vmstat":  # which repeats its heading
            self._reports = self._reports + 1 if tool == self._tool else 1
        if tool == "vmstat":
            zone = zone_of(words[-1])
            self._zone = self._zone if zone is None else zone
            self._columns = [word for word in words if word == word.lower()]
        else:
            first = next((at for at, word in enumerate(words) if word in ("CPU", "UID", "TGID", "PID")), 0)
            self._lead = first if tool in ("mpstat", "pidstat") else 0
            self._columns = [word.rstrip(":") for word in words[self._lead :]]
            if self._lead and (at := self._clock(words)) is not None and tool not in self._last:
                self._last[tool] = at, None  # where the first interval begins
        self._tool = tool

    def _row(self, words: list[str]) -> None:
        tool, columns = self._tool, self._columns
        at, zone, step, name = self._at, self._zone, None, ""
        if tool == "vmstat":
            self._reports += 1
            cells, rest = words[: len(columns)], words[len(columns) :]
            if len(rest) == 2 and _CLOCK.match(rest[1]):
                at = _instant("T".join(rest))
                self._osw = False
        elif tool == "iostat":
            cells = words
        else:
            if words[0] == "#":
                return
            lead = 2 if len(words) > 1 and words[1] in ("AM", "PM") else 1
            at = self._clock(words)
            cells = [*words[lead : lead + len(columns) - 1], " ".join(words[lead + len(columns) - 1 :])]
        values = {
            column: value
            for column, text in zip(columns, cells, strict=False)
            if (value := _value(text)) is not None and column not in _NAMES.values()
        }
        of_boot = tool in ("iostat", "vmstat")
        if len(cells) != len(columns) or not values or (of_boot and len(values) < len(columns) - 1):
            self.unreadable += 1
            return
        if tool in _NAMES:
            place = columns.index(_NAMES[tool]) if _NAMES[tool] in columns else len(columns) - 1
            name = cells[place][:64]
        if at is not None and not self._osw:
            step = self._step(tool, at)
        # The first report is since the boot. A run of OSWatcher prints a report a second.
        number = self._reports - (2 if tool == "vmstat" else 1)
        if self._osw and of_boot and at is not None:
            at, step = at + timedelta(seconds=number), 1.0
        if not of_boot or number > 0:
            self.samples.append(Sample(tool, name, values, at, zone, step))

    def _step(self, tool: str, at: datetime) -> float | None:
        before = self._last.get(tool)
        if before is not None and before[0] == at:
            return before[1]
        step = None if before is None else (at - before[0]).total_seconds()
        self._last[tool] = at, step if step and step > 0 else None
        return self._last[tool][1]

    def _clock(self, words: list[str]) -> datetime | None:
        """A time of day, on the day of the heading or on one after it."""
        if self._date is None or not _CLOCK.match(words[0]):
            return None
        at = _on(self._date, words[0], words[1] if words[1:2] in (["AM"], ["PM"]) else None)
        last = max((one for one, _ in self._last.values()), default=None)
        if at is not None and last is not None and last - at > timedelta(hours=12):
            self._date += timedelta(days=1)
            at += timedelta(days=1)
        return at


def _with_steps(samples: list[Sample]) -> Iterable[Sample]:
    """The first one is taken to be as long as those behind it."""
    for tool in dict.fromkeys(one.tool for one in samples):
        own = [one for one in samples if one.tool == tool]
        steps = sorted(one.step_s for one in own if one.step_s)
        usual = steps[len(steps) // 2] if steps else None
        yield from (one if one.step_s else replace(one, step_s=usual) for one in own)


def _value(text: str) -> float | None:
    if not re.fullmatch(r"\d{1,18}(?:[.,]\d{1,9})?", text, re.ASCII):
        return None
    return float(text.replace(",", "."))


def _date(text: str) -> date | None:
    """``2026-11-24``, ``24.11.2026`` and ``11/24/26``; None where day and month may be exchanged."""
    parts = re.fullmatch(r"(\d{1,4})([-/.])(\d{1,2})[-/.](\d{2,4})", text, re.ASCII)
    if parts is None:
        return None
    one, two, last = int(parts[1]), int(parts[3]), int(parts[4])
    if len(parts[1]) == 4:
        year, month, day = one, two, last
    elif parts[2] != "." and one <= 12 and two <= 12 and one != two:
        return None
    else:
        year = last + (2000 if len(parts[4]) == 2 else 0)
        month, day = (two, one) if parts[2] == "." or one > 12 else (one, two)
    try:
        return date(year, month, day)
    except ValueError:
        return None


def _on(day: date, clock: str, half: str | None) -> datetime | None:
    at = _instant(f"{day.isoformat()}T{clock}")
    if at is None or half is None or not 1 <= at.hour <= 12:
        return at if half is None else None
    return at.replace(hour=at.hour % 12 + (12 if half == "PM" else 0))


def _instant(text: str) -> datetime | None:
    try:
        return datetime.fromisoformat(text)
    except ValueError:
        return None


def _without_json(lines: Iterable[str]) -> Iterator[str]:
    """The lines that iostat prints without JSON; raises ``InputError`` where it is too long.

    What is read are its facts, stamps and rows wherever they stand, so that an output that was cut off (a signal ended
    iostat), or another behind it, is read, too. Tested with sysstat 12.6.
    """
    kept: list[str] = []
    size = 0
    for line in lines:
        kept.append(line)
        size += len(line)
        if size > _MOST_JSON:
            raise InputError(f"JSON of over {_MOST_JSON >> 20} MB: give shorter recordings")
    text = "".join(kept)
    facts = {part[1]: part[2] for part in reversed(list(_JSON_PART.finditer(text))) if part[1]}
    first = next((part for part in _JSON_PART.finditer(text) if not part[1]), None)
    is_sorted = first is not None and first[3] is None  # keys by name: a stamp stands behind its rows
    rows: list[dict[str, Any]] = []
    for part in _JSON_PART.finditer(text):
        fact, value, stamp, row = part.groups()
        if fact:
            facts[fact] = value
            if fact == "date":
                system, release, node = (_word(facts.get(key, "-")) for key in ("sysname", "release", "nodename"))
                yield f"{system} {release} ({node}) \t{_word(value)} \t_ \t({facts.get('number-of-cpus', '')} CPU)"
        elif stamp is not None:
            yield from () if is_sorted else _table(rows)
            yield " ".join(stamp.split())
            yield from _table(rows) if is_sorted else ()
            rows = []
        else:
            try:
                rows.append(json.loads(row))
            except (ValueError, RecursionError):
                continue
    yield from _table(rows)


def _table(rows: Iterable[dict[str, Any]]) -> Iterator[str]:
    """A heading stands above each row that has other columns than the one before."""
    before: list[str] = []
    for row in rows:
        cells = {_word(key): _word(value) for key, value in row.items() if key != "disk_device"}
        if list(cells) != before:
            before = list(cells)
            yield f"Device {' '.join(before)}"
        yield " ".join([_word(row["disk_device"]), *cells.values()])


def _word(value: Any) -> str:
    """A text without blanks, so that it stays a cell."""
    return "_".join(str(value)[:255].split() if isinstance(value, str | int | float) else []) or "-"
