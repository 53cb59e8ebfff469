"""Lines and tables of an AWR or Statspack report -> database time, and of what it consists.

DB time is the time of all foreground sessions in calls, whether they run or wait (Oracle Database Performance Tuning
Guide, "Database Time"; V$SYS_TIME_MODEL). What is neither DB CPU nor a wait, the sessions spent without a processor, or
in a kernel that does not charge them for it.

Statspack tells the waits of sessions apart from 11g on (sprepins.sql); before, there is no sum of them.

Where a report says the same in several places, the one with most digits is taken: "Total FG Wait Time" and "DB CPU
time" of Foreground Wait Class, the tables there, the top events.
"""

from __future__ import annotations

import re

from nfslat.errors import InputError
from nfslat.evidence.printed import instant, number
from nfslat.evidence.records import DatabaseTime
from nfslat.evidence.text_tables import Row
from nfslat.evidence.when import Span

_DIGITS = r"([\d.,]{1,24})"
_SNAP = re.compile(r"\s{0,40}(Begin|End) Snap:\s{1,40}\d{1,12}\s{1,40}(\S{8,11} \d{1,2}:\d\d:\d\d)")
_MINUTES = re.compile(rf"\s{{0,40}}(Elapsed|DB Time):\s{{1,40}}{_DIGITS} \(mins?\)", re.IGNORECASE)
_CPU_MINUTES = re.compile(rf"\sDB CPU:\s{{1,40}}{_DIGITS} \(mins?\)")
_TOTAL = re.compile(rf"\bof Total DB time\s{{1,40}}{_DIGITS} ?\(s\)")
_FOREGROUND = re.compile(
    rf"\bTotal FG Wait Time:\s{{1,40}}{_DIGITS} ?\(s\)\s{{1,40}}DB CPU time:\s{{1,40}}{_DIGITS} ?\(s\)"
)
_SECTIONS = re.compile(
    r"(?:-> ?)?(Foreground Wait Class|Foreground Wait Events|Top \d{1,2} (?:Timed )?(?:Foreground )?(?:Timed )?Events"
    r"|Time Model|Wait Classes|Wait Events|Background Wait|Wait Event Histogram|Service|Operating System"
    r"|Instance Activity"
    r"|SQL ordered|Host CPU)"
)
_OF_WAITS = ("Foreground Wait Class", "Foreground Wait Events")  # the first is the sum of the second
_CPU = "DB CPU"
# Statspack rules its heading of the host with tildes: name and processors stand in these columns.
_HOST_RULE, _HOST_NAME, _HOST_CPUS = re.compile(r"~{4} -{16} -{22} -{5} "), slice(5, 21), slice(45, 50)
_TIMES = re.compile(r"(?:totalwait)?time\((?:s|sec)\)$")
_SAME = 1.02  # DB CPU and DB time are not read at one moment


class Reader:
    """Takes what passes by, and says at the end what it knows."""

    def __init__(self) -> None:
        self._section = ""
        self._comma = False  # decimal comma: said by figures that have decimals for certain
        self._figures: dict[str, float] = {}
        self._snaps: dict[str, str] = {}
        self._sums: dict[str, float] = {}
        self.host = ""
        self._cpus: int | None = None
        self._host_is_next = False

    def line(self, line: str) -> None:
        """Look at a line; raises ``InputError`` for a report that compares two."""
        if "COMPARE PERIOD" in line or "Compare Period Report" in line:
            raise InputError("compares two periods: give the report of each by itself (awrrpt.sql)")
        text = line[:2048].replace("\xa0", " ")
        if self._host_is_next and text.strip():
            self._host(text[_HOST_NAME].strip(), text[_HOST_CPUS].strip())
            self._host_is_next = False
        self._host_is_next = self._host_is_next or _HOST_RULE.match(text) is not None
        if found := _SECTIONS.match(text):
            self._section = found[1]
        if found := _SNAP.match(text):
            self._snaps.setdefault(found[1], found[2])
        elif found := _MINUTES.match(text):
            self._comma = self._comma or bool(re.search(r",\d{1,2}$", found[2]))
            self._put(found[1].title().replace("Db", "DB"), self._value(found[2]), 60.0)
        if found := _CPU_MINUTES.search(text):
            self._put("cpu of all", self._value(found[1]), 60.0)
        if found := _TOTAL.search(text):
            self._put("captured of", self._value(found[1]))
        if found := _FOREGROUND.search(text):
            self._put("waits", self._value(found[1]))
            self._put("cpu", self._value(found[2]))

    def row(self, row: Row) -> None:
        """Look at a row of a table."""
        first = row.columns[0]
        cells = dict(zip(row.columns, row.cells, strict=True))
        if first == "hostname":
            self._host(row.cells[0], cells.get("cpus", ""))
        elif first in ("statisticname", "statistic") and row.cells[0] in (_CPU, "DB time"):
            self._put(f"model {row.cells[0]}", self._value(cells.get("time(s)", "")))
        elif "%idle" in cells:
            load = [self._value(text) for column, text in cells.items() if column.endswith(("begin", "end"))]
            known = [one for one in load if one is not None]
            self._put("load", sum(known) / 2 if len(known) == len(load) == 2 else None)
        elif first in ("waitclass", "event") and (self._section in _OF_WAITS or self._section.startswith("Top")):
            self._waits(row.cells[0], cells)

    def _host(self, name: str, cpus: str) -> None:
        self.host = self.host or name
        self._cpus = self._cpus or (int(cpus) if cpus.isascii() and cpus.isdigit() and len(cpus) < 6 else None)

    def _waits(self, name: str, cells: dict[str, str]) -> None:
        time = next((self._value(text) for column, text in cells.items() if _TIMES.match(column)), None)
        if time is None:
            return
        section = "Top" if self._section.startswith("Top") else self._section
        if name == _CPU:
            self._put(f"cpu {section}", time)
        elif cells.get("%dbtime") or (cells.get("%totalcalltime") and section in _OF_WAITS):  # idle waits have none
            self._sums[section] = self._sums.get(section, 0.0) + time

    def _value(self, text: str) -> float | None:
        if self._comma and re.fullmatch(r"\d{1,3}(?:\.\d{3})+", text):
            text = text.replace(".", "")
        told = number(text)
        return None if told is None or told[2] else told[0]

    def _put(self, name: str, value: float | None, scale: float = 1.0) -> None:
        if value is not None:
            self._figures.setdefault(name, value * scale)

    def _first(self, *names: str) -> float | None:
        return next((self._figures[name] for name in names if name in self._figures), None)

    @property
    def span(self) -> Span | None:
        """From the first snapshot to the last."""
        begin, end = (instant(self._snaps.get(name, "")) for name in ("Begin", "End"))
        return Span(begin, end) if begin and end and begin < end else None

    def result(self) -> DatabaseTime | None:
        """What the report says; None where it has no database time, or figures that contradict each other."""
        db_s = self._first("model DB time", "captured of", "DB Time")
        cpu_s = self._first("cpu", "model DB CPU", "cpu of all", *(f"cpu {name}" for name in (*_OF_WAITS, "Top")))
        by_class = self._first("waits")
        exact = [
            *([] if by_class is None else [by_class]),
            *(self._sums[one] for one in _OF_WAITS if one in self._sums),
        ]
        waits_s = exact[0] if exact else self._sums.get("Top")
        if not db_s or cpu_s is None or waits_s is None or cpu_s > _SAME * db_s:
            return None
        return DatabaseTime(
            db_s=db_s,
            cpu_s=cpu_s,
            waits_s=waits_s,
            all_waits=bool(exact),
            elapsed_s=self._first("Elapsed"),
            span=self.span,
            host=self.host,
            cpus=self._cpus,
            load=self._first("load"),
        )
