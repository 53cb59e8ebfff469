"""Lines or HTML of an ASH report (ashrpt.sql) -> what its sessions did, as shares of the samples.

ASH looks once a second at which sessions are active. "CPU + Wait for CPU" are those in no wait: on a processor, ready
for one, or in a kernel (Oracle Database Reference, V$ACTIVE_SESSION_HISTORY: SESSION_STATE).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from nfslat.errors import InputError
from nfslat.evidence import html_tables
from nfslat.evidence.printed import instant, number
from nfslat.evidence.records import Evidence
from nfslat.evidence.text_tables import rows
from nfslat.evidence.when import Span

ON_CPU = "CPU + Wait for CPU"
_MARKS = ("ASH Report", "Analysis Begin Time:")
_TIMES = re.compile(r"\s{0,60}Analysis (Begin|End) Time:\s{1,60}(\S{8,11} \d{1,2}:\d\d:\d\d)")
_SESSIONS = re.compile(r"\s{0,60}Average Active Sessions:\s{1,60}([\d.,]{1,20})")
_SECTION = re.compile(r"(Top|Activity|Back to) ?(User Events)?")
_MOST, _SHOWN = 1000, 3


@dataclass(frozen=True)
class Ash:
    """Samples of the sessions of an instance."""

    events: Mapping[str, float]  # of user sessions, per cent of all samples, the most first
    sessions: float | None  # active at once, on average
    span: Span | None
    host: str


def belongs(line: str) -> bool:
    """Whether only an ASH report has such a line."""
    return any(mark in line for mark in _MARKS)


def evidence(lines: Iterable[str], _: str) -> Evidence:
    """Notes, and no latencies: samples tell shares. Raises ``InputError`` where the file holds none."""
    ash = parse(lines)
    return Evidence((), notes(ash), ash, span=ash.span, host=ash.host)


def parse(lines: Iterable[str]) -> Ash:
    """Read a report; raises ``InputError`` where it has no events of user sessions."""
    seen = _Seen()
    events: dict[str, float] = {}
    host = ""
    for row in html_tables.rows_of(lines, seen.look, rows):
        cells = dict(zip(row.columns, row.cells, strict=True))
        host = host or cells.get("host", "")
        share = number(cells.get("%event", ""))
        if row.columns[0] == "event" and seen.of_users and share and share[0] <= 100 and len(events) < _MOST:
            events.setdefault(" ".join(row.cells[0].split())[:64], share[0])
    if not events:
        raise InputError("no events of user sessions in this ASH report: give all of it, text or HTML")
    begin, end = (instant(seen.times.get(name, "")) for name in ("Begin", "End"))
    span = Span(begin, end) if begin and end and begin < end else None
    return Ash(dict(sorted(events.items(), key=lambda one: -one[1])), seen.sessions, span, host)


def notes(ash: Ash) -> tuple[str, ...]:
    """What the sessions did most."""
    named = [f"{event} {share:g} %" for event, share in list(ash.events.items())[:_SHOWN]]
    said = [f"of the samples of ASH: {', '.join(named)}"]
    if ON_CPU in ash.events:
        said.append(
            f"{ON_CPU} are sessions in no wait, whether they have a processor or not: compare it with DB CPU of AWR"
        )
    return tuple(said)


class _Seen:
    def __init__(self) -> None:
        self.of_users = False
        self.sessions: float | None = None
        self.times: dict[str, str] = {}

    def look(self, lines: Iterable[str]) -> Iterator[str]:
        for line in lines:
            text = line[:2048].replace("\xa0", " ")
            if found := _SECTION.match(text):
                self.of_users = found[2] is not None
            if found := _TIMES.match(text):
                self.times.setdefault(found[1], found[2])
            elif self.sessions is None and (found := _SESSIONS.match(text)) and (told := number(found[1])):
                self.sessions = told[0]
            yield line
