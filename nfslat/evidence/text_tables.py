"""Lines of a report with ruled columns -> its tables: names of the columns, and rows of cells.

Oracle's reports and SQL*Plus rule a table with groups of dashes, one a column, under headings of up to five lines:

                                            Total Wait       Avg   % DB Wait
    Event                                Waits Time (sec)      Wait   time Class
    ------------------------------ ----------- ---------- --------- ------ --------
    db file sequential read            412,908      612.0    1.48ms   61.4 User I/O
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

_RULE = re.compile(r"\s{0,40}-{2,200}(?: {1,4}-{1,200}){1,40}\s*$")
_WORD = re.compile(r"\S+")
_OVER_SEVERAL = re.compile(r"-{4,80} [^-]{1,40} -{4,80}")  # it names no column
_HEADING_LINES = 5
_LONGEST = 2048


@dataclass(frozen=True)
class Row:
    """One line of a table."""

    columns: tuple[str, ...]  # headings without spaces, lower case: "event", "waits", "totalwaittime(s)"
    cells: tuple[str, ...]  # as many, stripped


def rows(lines: Iterable[str]) -> Iterator[Row]:
    """All rows of all tables. A line that is not in the columns ends its table unless it is empty."""
    above: list[str] = []
    spans: list[tuple[int, int]] = []
    columns: tuple[str, ...] = ()
    for whole in lines:
        line = whole[:_LONGEST].rstrip().expandtabs()
        if _RULE.match(line):
            spans = [match.span() for match in _WORD.finditer(line)]
            columns = _columns(_heading(above), spans)
            above = []
            continue
        cells = _cells(line, spans) if spans else None
        if cells:
            yield Row(columns, cells)
        elif line and not set(line) <= set("-~=_ "):
            spans = []
        above = [*above[-_HEADING_LINES:], line]


def _heading(above: list[str]) -> list[str]:
    """The lines directly above a rule, up to an empty line or another rule."""
    heading: list[str] = []
    for line in reversed(above[-_HEADING_LINES:]):
        if not line or set(line) <= set("-~=_ "):
            break
        heading.insert(0, line)
    return heading


def _columns(heading: list[str], spans: list[tuple[int, int]]) -> tuple[str, ...]:
    names = [""] * len(spans)
    for line in heading:
        for word in _WORD.finditer(_OVER_SEVERAL.sub(lambda found: " " * len(found[0]), line)):
            # To the column that it stands over, or is nearest to: words reach beyond their column.
            middle = (word.start() + word.end()) / 2
            near = min(range(len(spans)), key=lambda at: max(spans[at][0] - middle, middle - spans[at][1], 0.0))
            names[near] += word[0].lower()
    return tuple(names)


def _cells(line: str, spans: list[tuple[int, int]]) -> tuple[str, ...] | None:
    if not line or len(line) > spans[-1][1] + 40:
        return None
    for begin, _ in spans[1:]:
        # A cell that reaches into the gap before its column is not of this table.
        if begin <= len(line) and line[begin - 1 : begin].strip():
            return None
    ends = [begin - 1 for begin, _ in spans[1:]] + [len(line)]
    return tuple(line[begin:end].strip() for (begin, _), end in zip(spans, ends, strict=True))
