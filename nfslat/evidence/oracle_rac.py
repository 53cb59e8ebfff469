"""Tables of an AWR global (RAC) report -> the database time of each instance.

awrgrpt.sql and spawrrac.sql print "Database Instances Included In Report" (I#, Instance, Host, Begin and End Snap Time,
Elapsed Time(min), DB time(min)) and "Foreground Wait Classes" (I#, a column in seconds for each class, DB CPU (s), DB
time), a row for each instance. Its waits are over all of them, so they say nothing of a single host.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime

from nfslat.evidence.printed import instant, number
from nfslat.evidence.records import DatabaseTime
from nfslat.evidence.text_tables import Row
from nfslat.evidence.when import Span

_CLASS = re.compile(r"(?:useri/o|sys(?:tem)?i/o|other|applic\w*|commit|network|concur\w*|config\w*|cluster)\(s\)$")
_CPU, _TIMES = "dbcpu(s)", ("dbtime(s)", "dbtime")
_SAME = 1.02  # DB CPU and DB time are not read at one moment
_MOST = 128  # instances


@dataclass(frozen=True)
class _Instance:
    host: str
    span: Span | None
    elapsed_s: float | None


class Instances:
    """Takes the rows that pass by."""

    def __init__(self) -> None:
        self._known: dict[str, _Instance] = {}
        self._times: dict[str, tuple[float, float, float]] = {}  # DB time, CPU, waits

    def row(self, row: Row) -> None:
        """Look at a row of a table."""
        if row.columns[0] != "i#" or not row.cells[0].isascii() or not row.cells[0].isdigit():
            return
        name, cells = row.cells[0], dict(zip(row.columns, row.cells, strict=True))
        if "host" in cells and len(self._known) < _MOST:
            begin, end = (_instant(cells.get(key, "")) for key in ("beginsnaptime", "endsnaptime"))
            span = Span(begin, end) if begin and end and begin < end else None
            elapsed = _seconds(cells.get("elapsedtime(min)", ""))
            self._known.setdefault(name, _Instance(cells["host"], span, None if elapsed is None else 60 * elapsed))
        elif _CPU in cells and len(self._times) < _MOST and (told := _time(cells)) is not None:
            self._times.setdefault(name, told)

    @property
    def found(self) -> tuple[DatabaseTime, ...]:
        """Of each instance of which the report says both tables."""
        return tuple(
            DatabaseTime(db_s, cpu_s, waits_s, elapsed_s=one.elapsed_s, span=one.span, host=one.host)
            for name, one in self._known.items()
            for db_s, cpu_s, waits_s in ([self._times[name]] if name in self._times else [])
        )


def _time(cells: Mapping[str, str]) -> tuple[float, float, float] | None:
    db_s = next((_seconds(cells[key]) for key in _TIMES if key in cells), None)
    cpu_s = _seconds(cells[_CPU])
    waits = [_seconds(text) for key, text in cells.items() if _CLASS.match(key)]
    if not db_s or cpu_s is None or not waits or cpu_s > _SAME * db_s:
        return None
    return db_s, cpu_s, sum(one or 0.0 for one in waits)


def _seconds(text: str) -> float | None:
    told = number(text)
    return None if told is None or told[2] else told[0]


def _instant(text: str) -> datetime | None:
    """With minutes; the seconds are not printed."""
    return instant(f"{text}:00" if re.search(r" \d{1,2}:\d\d$", text) else text)
