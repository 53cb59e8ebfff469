"""Lines of an AWR or Statspack report, or of V$EVENT_HISTOGRAM -> waits by event: count, mean, histogram.

Read are the tables of foreground, background and top events (Event, Waits, Total Wait Time, Avg wait; the columns and
their units differ between versions) and "Wait Event Histogram" (per cent of waits); and what a query of
V$EVENT_HISTOGRAM or V$EVENT_HISTOGRAM_MICRO prints: EVENT, WAIT_TIME_MILLI or WAIT_TIME_MICRO, WAIT_COUNT, where a
bucket holds the waits shorter than its number and not shorter than the number before (Oracle Database Reference).
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace

from nfslat.errors import InputError
from nfslat.evidence import html_tables
from nfslat.evidence.oracle_events import file_event
from nfslat.evidence.oracle_rac import Instances
from nfslat.evidence.oracle_time import Reader
from nfslat.evidence.printed import number
from nfslat.evidence.records import DatabaseTime, Evidence, Latency
from nfslat.evidence.text_tables import rows
from nfslat.evidence.when import Span

_MS = {"ns": 1e-6, "us": 1e-3, "u": 1e-3, "ms": 1.0, "s": 1e3, "m": 60e3, "min": 60e3}
_BUCKET = re.compile(r"(<=?|>=?)(\d{1,10})(us|u|ms|s|m)?$")
_UNIT = re.compile(r"\((us|ms|s)(?:ec)?\)")
_TITLES = ("WORKLOAD REPOSITORY", "STATSPACK report", "Foreground Events", "Timed Events", "Wait Event Histogram")
_MOST_EVENTS = 4096


@dataclass(frozen=True)
class Event:
    """Waits of one event. What the text does not tell is None or empty."""

    waits: int | None = None
    mean_ms: float | None = None
    # (bound in ms, waits or per cent of them below it and not below the bound before); the last bound may be infinite.
    histogram: tuple[tuple[float, float], ...] = ()
    mean_between_ms: tuple[float, float] | None = None  # the mean is known from a histogram of counts only


@dataclass(frozen=True)
class Waits:
    """Waits of an instance: in an AWR report of its interval, in V$EVENT_HISTOGRAM since the instance was started."""

    source: str  # "AWR report", "wait histogram"
    events: Mapping[str, Event] = field(default_factory=dict)  # in the order of the text
    complete: bool = True  # False: a report without its last line
    database: DatabaseTime | None = None
    span: Span | None = None
    host: str = ""
    instances: tuple[DatabaseTime, ...] = ()  # of a global report, which says nothing of a single one else


def belongs(line: str) -> bool:
    """Whether only a report or a query of waits has such a line."""
    upper = line.upper()
    if "WAIT_TIME_MILLI" in upper or "WAIT_TIME_MICRO" in upper:
        return "WAIT_COUNT" in upper
    return any(mark in line for mark in _TITLES)


def evidence(lines: Iterable[str], name: str) -> Evidence:
    """What the file `name` says; raises ``InputError`` where it holds nothing."""
    waits = parse(lines)
    return Evidence(latencies(waits, name), notes(waits), waits, span=waits.span, host=waits.host)


def parse(lines: Iterable[str]) -> Waits:
    """Read a report or a query's answer; raises ``InputError`` where no event can be read."""
    seen = _Seen()
    events: dict[str, Event] = {}
    buckets: dict[str, dict[float, int]] = {}
    instances = Instances()
    for row in html_tables.rows_of(lines, seen.look, lambda text: rows(_delimited(text))):
        seen.time.row(row)
        instances.row(row)
        cell = dict(zip(row.columns, row.cells, strict=True))
        name = " ".join((cell.get("event") or cell.get("event_name") or "").split())[:64]
        if not name or (name not in events and name not in buckets and len(events) + len(buckets) > _MOST_EVENTS):
            continue
        if "wait_count" in cell:
            _add_bucket(buckets.setdefault(name, {}), cell)
        elif any(_BUCKET.match(column) for column in row.columns):
            if histogram := _percentages(cell):
                known = events.get(name, Event())
                events[name] = known if known.histogram else replace(known, histogram=histogram)
        elif "waits" in cell:
            _add_event(events, name, cell)
    for name, counts in buckets.items():
        if sum(counts.values()):
            events[name] = _counted(counts)
    if found := instances.found:
        # Its waits are over all instances.
        return Waits("AWR report", complete=seen.end, instances=found)
    database = seen.time.result()
    if not events and database is None:
        raise InputError(
            "no wait events can be read: give an AWR report, text or HTML, or EVENT, WAIT_TIME_MILLI, WAIT_COUNT"
        )
    return Waits(
        "wait histogram" if buckets else "AWR report",
        events,
        complete=seen.end or not seen.report,
        database=database,
        span=seen.time.span,
        host=seen.time.host,
    )


def latencies(waits: Waits, name: str) -> tuple[Latency, ...]:
    """Reads and writes of files, one latency an event: first those whose wait is the I/O, in the order of the text."""
    files = [(event, told, kind) for event, told in waits.events.items() if (kind := file_event(event))]
    return tuple(
        Latency(
            layer="application",
            op=kind.op,
            mean_ms=told.mean_ms,
            count=told.waits,
            source=f"{waits.source} {name}, {event}",
            p99_ms=_p99(told.histogram),
        )
        for event, told, kind in sorted(files, key=lambda file: not file[2].blocking)
        if told.mean_ms is not None
    )


def notes(waits: Waits) -> tuple[str, ...]:
    """What a reader of the figures has to know."""
    said = []
    for event, told in waits.events.items():
        kind = file_event(event)
        if kind and not kind.blocking and told.mean_ms is not None:
            said.append(f"{event}: the I/O is asynchronous, a wait is only the part of it that the session waited")
        elif kind and told.mean_between_ms:
            low, high = told.mean_between_ms
            said.append(f"{event}: a histogram tells the mean only to be between {low:.3g} and {high:.3g} ms")
    if waits.instances:
        said.append("a global report: its waits are over all instances, and only their database time is read")
    if waits.source == "wait histogram":
        said.append("V$EVENT_HISTOGRAM counts since the instance was started, not while the captures ran")
    if not waits.complete:
        said.append("the report has no last line: it may be cut")
    return tuple(said)


class _Seen:
    """What passes by: whether the lines are a report's, whether its end is among them, and the database time."""

    def __init__(self) -> None:
        self.report = False
        self.end = False
        self.time = Reader()

    def look(self, lines: Iterable[str]) -> Iterator[str]:
        for line in lines:
            self.report = self.report or "WORKLOAD REPOSITORY" in line or "STATSPACK report" in line
            self.end = self.end or "End of Report" in line
            self.time.line(line)
            yield line


def _delimited(lines: Iterable[str]) -> Iterable[str]:
    """Rows with commas, bars or tabs between the columns, as rows of a ruled table; other lines as they are."""
    order: list[int] | None = None
    between = ""
    for line in lines:
        upper = line.upper()
        if "WAIT_COUNT" in upper and "EVENT" in upper:
            between = next((mark for mark in "|;,\t" if mark in line), "")
            heads = _parts(upper, between)
            time = next((head for head in heads if head in ("WAIT_TIME_MILLI", "WAIT_TIME_MICRO")), None)
            event = next((head for head in heads if head in ("EVENT", "EVENT_NAME")), None)
            order = None
            if event and time and between:
                order = [heads.index(event), heads.index(time), heads.index("WAIT_COUNT")]
                yield f"{'EVENT':<64} {time:>16} {'WAIT_COUNT':>20}"
                yield f"{'-' * 64} {'-' * 16} {'-' * 20}"
                continue
        if order:
            cells = _parts(line, between)
            if len(cells) > max(order):
                name, bound, count = (cells[at] for at in order)
                yield f"{name[:64]:<64} {bound[:16]:>16} {count[:20]:>20}"
            continue
        yield line


def _parts(line: str, between: str) -> list[str]:
    return [part.strip().strip('"').strip() for part in line[:2048].split(between or None)]


def _add_event(events: dict[str, Event], name: str, cell: Mapping[str, str]) -> None:
    # A count has no decimals but before K, M, G: a point before three digits stands between thousands.
    text = cell["waits"]
    waits = number(text.replace(".", "") if re.fullmatch(r"\d{1,3}(?:\.\d{3})+", text) else text)
    if waits is None or waits[2] or not waits[0]:
        return
    means = []
    for column, text in cell.items():
        told = number(text)
        if told is None or "%" in column or "/txn" in column:
            continue
        value, half, unit = told
        in_heading = _UNIT.search(column)
        if "avg" in column:
            unit = unit or (in_heading[1] if in_heading else "")
            if unit:
                means.append((half / value if value else math.inf, value * _MS[unit]))
        elif "time" in column and in_heading and in_heading[1] == "s" and not unit:
            error = (half / value if value else math.inf) + waits[1] / waits[0]
            means.append((error, value * 1e3 / waits[0]))
    if not means:
        return
    known = events.get(name)
    # What sessions and background processes share is in both of their tables; that of the sessions comes first.
    if known is None or known.mean_ms is None:
        events[name] = replace(known or Event(), waits=round(waits[0]), mean_ms=min(means)[1])


def _percentages(cell: Mapping[str, str]) -> tuple[tuple[float, float], ...]:
    if not any(column in ("totalwaits", "waits") for column in cell):
        return ()  # the details of a range, per cent of the same waits
    found = []
    for column, text in cell.items():
        bucket, told = _BUCKET.match(column), number(text)
        if bucket and told and told[0] <= 100:
            bound = math.inf if bucket[1].startswith(">") else int(bucket[2]) * _MS[bucket[3] or "ms"]
            found.append((bound, told[0]))
    return tuple(sorted(found))


def _add_bucket(counts: dict[float, int], cell: Mapping[str, str]) -> None:
    for column, unit_ms in (("wait_time_milli", 1.0), ("wait_time_micro", 1e-3)):
        bound, count = cell.get(column, ""), cell["wait_count"]
        if (
            bound.isascii()
            and bound.isdigit()
            and count.isascii()
            and count.isdigit()
            and len(bound) < 16
            and len(count) < 19
        ):
            key = int(bound) * unit_ms
            counts[key] = counts.get(key, 0) + int(count)


def _counted(counts: Mapping[float, int]) -> Event:
    bounds = sorted(counts)
    smallest = min((bound for bound in bounds if bound), default=1.0)
    total = sum(counts.values())
    # Each bucket reaches from half of its bound to the bound, the first from zero.
    high = sum(bound * counts[bound] for bound in bounds) / total
    low = sum(bound / 2 * counts[bound] for bound in bounds if bound > smallest) / total
    return Event(
        waits=total,
        mean_ms=(low + high) / 2,
        histogram=tuple((bound, float(counts[bound])) for bound in bounds),
        mean_between_ms=(low, high),
    )


def _p99(histogram: tuple[tuple[float, float], ...]) -> float | None:
    total, passed = sum(share for _, share in histogram), 0.0
    for bound, share in histogram:
        passed += share
        if total and passed >= 0.99 * total:
            return bound if math.isfinite(bound) else None
    return None
