"""AWR, Statspack and ASH reports, and V$EVENT_HISTOGRAM -> waits of files, database time, what sessions did.

Read are the tables of foreground, background and top events (Event, Waits, Total Wait Time, Avg wait; the columns and
their units differ between versions), "Wait Event Histogram" (per cent of waits), and what a query of V$EVENT_HISTOGRAM
or V$EVENT_HISTOGRAM_MICRO prints: EVENT, WAIT_TIME_MILLI or WAIT_TIME_MICRO, WAIT_COUNT, where a bucket holds the waits
shorter than its number and not shorter than the number before (Oracle Database Reference).

DB time is the time of all foreground sessions in calls, whether they run or wait (Oracle Database Performance Tuning
Guide, "Database Time"; V$SYS_TIME_MODEL). What is neither DB CPU nor a wait, the sessions spent without a processor, or
in a kernel that does not charge them for it. Statspack tells the waits of sessions apart from 11g on (sprepins.sql);
before, there is no sum of them. Where a report says the same in several places, the one with most digits is taken:
"Total FG Wait Time" and "DB CPU time" of Foreground Wait Class, the tables there, the top events.

A global (RAC) report (awrgrpt.sql, spawrrac.sql) has a row an instance in "Database Instances Included In Report" and
in "Foreground Wait Classes"; its waits are over all of them, so they say nothing of a single host.

ASH (ashrpt.sql) looks once a second at which sessions are active. "CPU + Wait for CPU" are those in no wait: on a
processor, ready for one, or in a kernel (V$ACTIVE_SESSION_HISTORY: SESSION_STATE).
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping
from dataclasses import replace

from nfslat.errors import InputError
from nfslat.evidence.printed import instant, number
from nfslat.evidence.records import DatabaseReport, DatabaseTime, Evidence, FileEvent, Latency, file_event
from nfslat.evidence.tables import Row, rows_of
from nfslat.evidence.when import Span
from nfslat.model.record import Record

_MS = {"ns": 1e-6, "us": 1e-3, "u": 1e-3, "ms": 1.0, "s": 1e3, "m": 60e3, "min": 60e3}
_BUCKET = re.compile(r"(<=?|>=?)(\d{1,10})(us|u|ms|s|m)?$")
_UNIT = re.compile(r"\((us|ms|s)(?:ec)?\)")
_MOST_EVENTS, _MOST_INSTANCES, _LONGEST = 4096, 128, 2048
_SHOWN_EVENTS = 3

_DIGITS = r"([\d.,]{1,24})"
_INSTANT = r"(\S{8,11} \d{1,2}:\d\d:\d\d)"
_SNAP = re.compile(rf"\s{{0,40}}(Begin|End) Snap:\s{{1,40}}\d{{1,12}}\s{{1,40}}{_INSTANT}")
_MINUTES = re.compile(rf"\s{{0,40}}(Elapsed|DB Time):\s{{1,40}}{_DIGITS} \(mins?\)", re.IGNORECASE)
# Figures in the text, and their unit in seconds: which of the groups is which.
_FIGURES = (
    (re.compile(rf"\sDB CPU:\s{{1,40}}{_DIGITS} \(mins?\)"), 60.0, ("cpu of all",)),
    (re.compile(rf"\bof Total DB time\s{{1,40}}{_DIGITS} ?\(s\)"), 1.0, ("captured of",)),
    (
        re.compile(rf"\bTotal FG Wait Time:\s{{1,40}}{_DIGITS} ?\(s\)\s{{1,40}}DB CPU time:\s{{1,40}}{_DIGITS} ?\(s\)"),
        1.0,
        ("waits", "cpu"),
    ),
)
_SECTIONS = re.compile(
    r"(?:-> ?)?(Foreground Wait Class|Foreground Wait Events"
    r"|Top (?=\d{1,2} (?:Timed )?(?:Foreground )?(?:Timed )?Events)"
    r"|Time Model|Wait Classes|Wait Events|Background Wait|Wait Event Histogram|Service|Operating System"
    r"|Instance Activity|SQL ordered|Host CPU)"
)
_OF_WAITS = ("Foreground Wait Class", "Foreground Wait Events")  # the first is the sum of the second
_CPU = "DB CPU"
# Statspack rules its heading of the host with tildes: name and processors stand in these columns.
_HOST_RULE, _HOST_NAME, _HOST_CPUS = re.compile(r"~{4} -{16} -{22} -{5} "), slice(5, 21), slice(45, 50)
_TIMES = re.compile(r"(?:totalwait)?time\((?:s|sec)\)$")
_SAME = 1.02  # DB CPU and DB time are not read at one moment
_CLASS = re.compile(r"(?:useri/o|sys(?:tem)?i/o|other|applic\w*|commit|network|concur\w*|config\w*|cluster)\(s\)$")

_ON_CPU = "CPU + Wait for CPU"
_ASH_TIMES = re.compile(rf"\s{{0,60}}Analysis (Begin|End) Time:\s{{1,60}}{_INSTANT}")
_ASH_SECTION = re.compile(r"(?:Top|Activity|Back to) ?(User Events)?")


class _Event(Record):
    """Waits of one event. What the text does not tell is None or empty."""

    waits: int | None = None
    mean_ms: float | None = None
    # (bound in ms, waits or per cent of them below it and not below the bound before); the last bound may be infinite.
    histogram: tuple[tuple[float, float], ...] = ()
    mean_between_ms: tuple[float, float] | None = None  # the mean is known from a histogram of counts only


def waits(lines: Iterable[str], name: str) -> Evidence:
    """Reads and writes of files as latencies, and database time; raises ``InputError`` where no event can be read."""
    text = _Text()
    events: dict[str, _Event] = {}
    buckets: dict[str, dict[float, int]] = {}
    for row in rows_of(lines, text.line, delimited="wait_count"):
        text.row(row)
        cell = row.named
        event = " ".join((cell.get("event") or cell.get("event_name") or "").split())[:64]
        if not event or (event not in events and event not in buckets and len(events) + len(buckets) > _MOST_EVENTS):
            continue
        if "wait_count" in cell:
            _add_bucket(buckets.setdefault(event, {}), cell)
        elif any(_BUCKET.match(column) for column in row.columns):
            known = events.get(event, _Event())
            if not known.histogram and (histogram := _percentages(cell)):
                events[event] = replace(known, histogram=histogram)
        elif "waits" in cell:
            _add_event(events, event, cell)
    events |= {event: _counted(counts) for event, counts in buckets.items() if sum(counts.values())}
    instances, database = text.of_instances(), text.time()
    if not events and database is None and not instances:
        raise InputError(
            "no wait events can be read: give an AWR report, text or HTML, or EVENT, WAIT_TIME_MILLI, WAIT_COUNT"
        )
    source = "wait histogram" if buckets and not instances else "AWR report"
    files = (
        [] if instances else [(event, known, kind) for event, known in events.items() if (kind := file_event(event))]
    )
    notes = [note for file in files if (note := _note(*file))]
    if instances:
        notes.append("a global report: its waits are over all instances, and only their database time is read")
    if source == "wait histogram":
        notes.append("V$EVENT_HISTOGRAM counts since the instance was started, not while the captures ran")
    if not text.has_end and (text.is_report or instances):
        notes.append("the report has no last line: it may be cut")
    # First those whose wait is the I/O, in the order of the text.
    latencies = tuple(
        Latency("application", kind.op, known.mean_ms, known.waits, f"{source} {name}, {event}", _p99(known.histogram))
        for event, known, kind in sorted(files, key=lambda file: not file[2].blocking)
        if known.mean_ms is not None
    )
    if instances:
        return Evidence((), tuple(notes), DatabaseReport(source, instances=instances))
    return Evidence(latencies, tuple(notes), DatabaseReport(source, database), span=text.span, host=text.host)


def _note(event: str, known: _Event, kind: FileEvent) -> str:
    if not kind.blocking and known.mean_ms is not None:
        return f"{event}: the I/O is asynchronous, a wait is only the part of it that the session waited"
    if kind.blocking and known.mean_between_ms:
        low, high = known.mean_between_ms
        return f"{event}: a histogram tells the mean only to be between {low:.3g} and {high:.3g} ms"
    return ""


def _add_event(events: dict[str, _Event], name: str, cell: Mapping[str, str]) -> None:
    # A count has no decimals but before K, M, G: a point before three digits stands between thousands.
    text = cell["waits"]
    counted = number(text.replace(".", "") if re.fullmatch(r"\d{1,3}(?:\.\d{3})+", text) else text)
    if counted is None or counted[2] or not counted[0]:
        return
    means = []
    for column, text in cell.items():
        if "%" in column or "/txn" in column or (figure := number(text)) is None:
            continue
        value, half, unit = figure
        in_heading = _UNIT.search(column)
        error = half / value if value else math.inf
        if "avg" in column:
            if unit := unit or (in_heading[1] if in_heading else ""):
                means.append((error, value * _MS[unit]))
        elif "time" in column and in_heading and in_heading[1] == "s" and not unit:
            means.append((error + counted[1] / counted[0], value * 1e3 / counted[0]))
    known = events.get(name, _Event())
    # What sessions and background processes share is in both of their tables; that of the sessions comes first.
    if means and known.mean_ms is None:
        events[name] = replace(known, waits=round(counted[0]), mean_ms=min(means)[1])


def _percentages(cell: Mapping[str, str]) -> tuple[tuple[float, float], ...]:
    if not any(column in ("totalwaits", "waits") for column in cell):
        return ()  # the details of a range, per cent of the same waits
    buckets = []
    for column, text in cell.items():
        bucket, share = _BUCKET.match(column), number(text)
        if bucket and share and share[0] <= 100:
            bound = math.inf if bucket[1].startswith(">") else int(bucket[2]) * _MS[bucket[3] or "ms"]
            buckets.append((bound, share[0]))
    return tuple(sorted(buckets))


def _add_bucket(counts: dict[float, int], cell: Mapping[str, str]) -> None:
    for column, unit_ms in (("wait_time_milli", 1.0), ("wait_time_micro", 1e-3)):
        figures = re.fullmatch(r"(\d{1,15}) (\d{1,18})", f"{cell.get(column, '')} {cell['wait_count']}", re.ASCII)
        if figures:
            bound = int(figures[1]) * unit_ms
            counts[bound] = counts.get(bound, 0) + int(figures[2])


def _counted(counts: Mapping[float, int]) -> _Event:
    bounds = sorted(counts)
    smallest = min((bound for bound in bounds if bound), default=1.0)
    total = sum(counts.values())
    # Each bucket reaches from half of its bound to the bound, the first from zero.
    high = sum(bound * counts[bound] for bound in bounds) / total
    low = sum(bound / 2 * counts[bound] for bound in bounds if bound > smallest) / total
    return _Event(total, (low + high) / 2, tuple((bound, float(counts[bound])) for bound in bounds), (low, high))


def _p99(histogram: tuple[tuple[float, float], ...]) -> float | None:
    total, passed = sum(share for _, share in histogram), 0.0
    for bound, share in histogram:
        passed += share
        if total and passed >= 0.99 * total:
            return bound if math.isfinite(bound) else None
    return None


class _Text:
    """Takes what passes by of an AWR or Statspack report, and says at the end what it knows."""

    def __init__(self) -> None:
        self.is_report = self.has_end = False
        self.host = ""
        self._section = ""
        self._comma = False  # decimal comma: shown by figures that have decimals for certain
        self._figures: dict[str, float] = {}
        self._snaps: dict[str, str] = {}
        self._sums: dict[str, float] = {}
        self._cpus: int | None = None
        self._host_is_next = False
        self._instances: dict[str, tuple[str, Span | None, float | None]] = {}  # host, span, elapsed seconds
        self._times: dict[str, tuple[float, float, float]] = {}  # of each instance: DB time, CPU, waits

    def line(self, line: str) -> None:
        """Look at a line; raises ``InputError`` for a report that compares two."""
        self.is_report = self.is_report or "WORKLOAD REPOSITORY" in line or "STATSPACK report" in line
        self.has_end = self.has_end or "End of Report" in line
        if "COMPARE PERIOD" in line or "Compare Period Report" in line:
            raise InputError("compares two periods: give the report of each by itself (awrrpt.sql)")
        text = line[:_LONGEST].replace("\xa0", " ")
        if self._host_is_next and text.strip():
            self._host(text[_HOST_NAME].strip(), text[_HOST_CPUS].strip())
            self._host_is_next = False
        self._host_is_next = self._host_is_next or _HOST_RULE.match(text) is not None
        if section := _SECTIONS.match(text):
            self._section = section[1].strip()
        if snap := _SNAP.match(text):
            self._snaps.setdefault(snap[1], snap[2])
        elif minutes := _MINUTES.match(text):
            self._comma = self._comma or bool(re.search(r",\d{1,2}$", minutes[2]))
            self._put(minutes[1].title().replace("Db", "DB"), self._value(minutes[2]), 60.0)
        for pattern, scale, names in _FIGURES:
            if figures := pattern.search(text):
                for name, figure in zip(names, figures.groups(), strict=True):
                    self._put(name, self._value(figure), scale)

    def row(self, row: Row) -> None:
        """Look at a row of a table."""
        first, name, cells = row.columns[0], row.cells[0], row.named
        if first == "hostname":
            self._host(name, cells.get("cpus", ""))
        elif first in ("statisticname", "statistic") and name in (_CPU, "DB time"):
            self._put(f"model {name}", self._value(cells.get("time(s)", "")))
        elif "%idle" in cells:
            load = [self._value(text) for column, text in cells.items() if column.endswith(("begin", "end"))]
            known = [each for each in load if each is not None]
            self._put("load", sum(known) / 2 if len(known) == len(load) == 2 else None)
        elif first in ("waitclass", "event") and self._section in (*_OF_WAITS, "Top"):
            time = next((self._value(text) for column, text in cells.items() if _TIMES.match(column)), None)
            if time is not None and name == _CPU:
                self._put(f"cpu {self._section}", time)
            # Idle waits have no share.
            elif time is not None and (
                cells.get("%dbtime") or (cells.get("%totalcalltime") and self._section in _OF_WAITS)
            ):
                self._sums[self._section] = self._sums.get(self._section, 0.0) + time
        elif first == "i#" and name.isascii() and name.isdigit():
            self._instance(name, cells)

    def _instance(self, name: str, cells: Mapping[str, str]) -> None:
        if "host" in cells and len(self._instances) < _MOST_INSTANCES:
            # The seconds are not printed.
            snaps = (cells.get(key, "") for key in ("beginsnaptime", "endsnaptime"))
            span = _span(*(f"{text}:00" if re.search(r" \d{1,2}:\d\d$", text) else text for text in snaps))
            elapsed = _seconds(cells.get("elapsedtime(min)", ""))
            self._instances.setdefault(name, (cells["host"], span, None if elapsed is None else 60 * elapsed))
        elif "dbcpu(s)" in cells and len(self._times) < _MOST_INSTANCES:
            db_s = next((_seconds(cells[key]) for key in ("dbtime(s)", "dbtime") if key in cells), None)
            cpu_s = _seconds(cells["dbcpu(s)"])
            own = [_seconds(text) for key, text in cells.items() if _CLASS.match(key)]
            if db_s and cpu_s is not None and own and cpu_s <= _SAME * db_s:
                self._times.setdefault(name, (db_s, cpu_s, sum(each or 0.0 for each in own)))

    def _host(self, name: str, cpus: str) -> None:
        self.host = self.host or name
        self._cpus = self._cpus or (int(cpus) if cpus.isascii() and cpus.isdigit() and len(cpus) < 6 else None)

    def _value(self, text: str) -> float | None:
        if self._comma and re.fullmatch(r"\d{1,3}(?:\.\d{3})+", text):
            text = text.replace(".", "")
        return _seconds(text)

    def _put(self, name: str, value: float | None, scale: float = 1.0) -> None:
        if value is not None:
            self._figures.setdefault(name, value * scale)

    def _first(self, *names: str) -> float | None:
        return next((self._figures[name] for name in names if name in self._figures), None)

    @property
    def span(self) -> Span | None:
        """From the first snapshot to the last."""
        return _span(self._snaps.get("Begin", ""), self._snaps.get("End", ""))

    def of_instances(self) -> tuple[DatabaseTime, ...]:
        """The time of each instance of which a global report has both tables."""
        return tuple(
            DatabaseTime(*self._times[name], elapsed_s=elapsed_s, span=span, host=host)
            for name, (host, span, elapsed_s) in self._instances.items()
            if name in self._times
        )

    def time(self) -> DatabaseTime | None:
        """What the report says; None where it has no database time, or figures that contradict each other."""
        db_s = self._first("model DB time", "captured of", "DB Time")
        cpu_s = self._first("cpu", "model DB CPU", "cpu of all", *(f"cpu {name}" for name in (*_OF_WAITS, "Top")))
        exact = [value for value in (self._first("waits"), *map(self._sums.get, _OF_WAITS)) if value is not None]
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


def _seconds(text: str) -> float | None:
    figure = number(text)
    return None if figure is None or figure[2] else figure[0]


def _span(first: str, last: str) -> Span | None:
    begin, end = instant(first), instant(last)
    return Span(begin, end) if begin and end and begin < end else None


def ash(lines: Iterable[str], _: str) -> Evidence:
    """Notes, and no latencies: samples tell shares. Raises ``InputError`` where it has no events of user sessions."""
    events: dict[str, float] = {}
    times: dict[str, str] = {}
    host, of_users = "", False

    def look(line: str) -> None:
        nonlocal of_users
        text = line[:_LONGEST].replace("\xa0", " ")
        if section := _ASH_SECTION.match(text):
            of_users = section[1] is not None
        if time := _ASH_TIMES.match(text):
            times.setdefault(time[1], time[2])

    for row in rows_of(lines, look):
        host = host or row.named.get("host", "")
        share = number(row.named.get("%event", ""))
        if row.columns[0] == "event" and of_users and share and share[0] <= 100 and len(events) < _MOST_EVENTS:
            events.setdefault(" ".join(row.cells[0].split())[:64], share[0])
    if not events:
        raise InputError("no events of user sessions in this ASH report: give all of it, text or HTML")
    most = sorted(events.items(), key=lambda event: -event[1])
    notes = [f"of the samples of ASH: {', '.join(f'{event} {share:g} %' for event, share in most[:_SHOWN_EVENTS])}"]
    if _ON_CPU in events:
        notes.append(
            f"{_ON_CPU} are sessions in no wait, whether they have a processor or not: compare it with DB CPU of AWR"
        )
    report = DatabaseReport("ASH report", on_cpu_percent=events.get(_ON_CPU))
    return Evidence((), tuple(notes), report, span=_span(times.get("Begin", ""), times.get("End", "")), host=host)
