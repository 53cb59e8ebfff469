"""A report in text with ruled columns, or in HTML -> its tables: names of the columns, and rows of cells.

Oracle's reports and SQL*Plus rule a table with groups of dashes, one a column, under headings of up to five lines:

                                            Total Wait       Avg   % DB Wait
    Event                                Waits Time (sec)      Wait   time Class
    ------------------------------ ----------- ---------- --------- ------ --------
    db file sequential read            412,908      612.0    1.48ms   61.4 User I/O

In HTML a heading may have two lines: cells that span columns stand over those of the next line, whose words name the
columns. Of tables in tables each row is that of the innermost. It is read with html.parser of the standard library,
which looks again and again at what is not closed, so what it has not taken is bounded here.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from html.parser import HTMLParser
from itertools import chain
from typing import NamedTuple

from nfslat.errors import InputError

_RULE = re.compile(r"\s{0,40}-{2,200}(?: {1,4}-{1,200}){1,40}\s*$")
_WORD = re.compile(r"\S+")
_OVER_SEVERAL = re.compile(r"-{4,80} [^-]{1,40} -{4,80}")  # it names no column
_HEADING_LINES = 5
_LONGEST = 2048  # of a line, or of a cell
_PIECE, _OPEN = 1 << 13, 1 << 15  # characters: given to the parser at once; of a tag, comment or entity
_CELLS, _DEEP = 128, 32  # of a row; tables in tables
_HEAD = 200  # lines that tell HTML
_HIDDEN = {"script", "style"}
_BREAKS = {"p", "br", "li", "ul", "div", "tr", "table", "pre", "title", "body", *(f"h{level}" for level in range(1, 7))}


class Row(NamedTuple):
    """One line of a table."""

    columns: tuple[str, ...]  # headings without spaces, lower case: "event", "waits", "totalwaittime(s)"
    cells: tuple[str, ...]  # as many, stripped

    @property
    def named(self) -> dict[str, str]:
        """Cells by the names of their columns."""
        return dict(zip(self.columns, self.cells, strict=True))


def is_html(line: str) -> bool:
    """Whether the line begins a page, or a table of one."""
    start = line[:4096].lower()
    return "<html" in start or "<table" in start or "<!doctype html" in start


def rows_of(
    lines: Iterable[str],
    look: Callable[[str], None] = lambda _: None,
    delimited: str = "",
) -> Iterator[Row]:
    """Rows of a report; `look` sees each line before the rows behind it are read.

    A heading with the column `delimited` may have commas, bars, semicolons or tabs between its columns, and rows so.
    """
    head: list[str] = []
    rest = iter(lines)
    for line in rest:
        head.append(line)
        if is_html(line):
            for part in _html(chain(head, rest)):
                if isinstance(part, Row):
                    yield part
                else:
                    look(part)
            return
        if len(head) == _HEAD:
            break

    def looked_at() -> Iterator[str]:
        for line in chain(head, rest):
            look(line)
            yield line

    yield from ruled(looked_at(), delimited)


def ruled(lines: Iterable[str], delimited: str = "") -> Iterator[Row]:
    """All rows of all tables of a text. A line that is not in the columns ends its table unless it is empty."""
    above: list[str] = []
    between = ""
    spans: list[tuple[int, int]] = []
    columns: tuple[str, ...] = ()
    for whole in lines:
        if delimited and delimited in whole.lower():
            between = next((mark for mark in "|;,\t" if mark in whole), "")
            names = _parts(whole.lower(), between)
            between = between if delimited in names else ""
            spans, columns = ([], names) if between else (spans, columns)
        elif between and len(parts := _parts(whole, between)) >= len(columns):
            yield Row(columns, parts[: len(columns)])
        if between:
            continue
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


def _parts(line: str, between: str) -> tuple[str, ...]:
    return tuple(part.strip().strip('"').strip() for part in line[:_LONGEST].split(between or None))


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
    begins = [begin for begin, _ in spans]
    # A cell that reaches into the gap before its column is not of this table.
    if any(line[begin - 1 : begin].strip() for begin in begins[1:]):
        return None
    ends = [begin - 1 for begin in begins[1:]] + [len(line)]
    return tuple(line[begin:end].strip() for begin, end in zip(begins, ends, strict=True))


def _html(lines: Iterable[str]) -> Iterator[Row | str]:
    """Rows of tables, and lines of text between them; a row is a line, too, which stands in front of it.

    Raises ``InputError`` where a tag does not end, or tables stand in tables without end.
    """
    parser = _Tables()
    for line in lines:
        for at in range(0, len(line), _PIECE):
            parser.feed(line[at : at + _PIECE])
            if len(parser.rawdata) > _OPEN:
                raise InputError("is damaged HTML: a tag or comment does not end")
            yield from parser.parts
            parser.parts.clear()


class _Table:
    """A table while it is open."""

    def __init__(self) -> None:
        self.columns: list[str] = []
        self.spanned: list[int] = []  # columns that the next line of the heading names
        self.cells: list[str] = []
        self.spans: list[int] = []
        self.is_heading = False  # all cells of this row are

    def head(self, cells: list[str], spans: list[int]) -> None:
        """Name the columns, or those that the line above spans."""
        names = ["".join(text.split()).lower() for text in cells]
        if self.spanned and len(names) == len(self.spanned):
            for at, name in zip(self.spanned, names, strict=True):
                self.columns[at] = name
            self.spanned = []
            return
        self.columns, self.spanned = [], []
        for name, span in zip(names, spans, strict=False):
            if span > 1:
                self.spanned += range(len(self.columns), len(self.columns) + span)
            self.columns += [name] * span
        del self.columns[_CELLS:]
        self.spanned = [at for at in self.spanned if at < _CELLS]


class _Tables(HTMLParser):
    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.parts: list[Row | str] = []  # that were found since they were taken last
        self._tables: list[_Table] = []
        self._words: list[str] = []
        self._length = 0
        self._in_cell = False
        self._hidden = 0

    def handle_data(self, data: str) -> None:
        if not self._hidden and self._length < _LONGEST:
            self._words.append(data[:_LONGEST])
            self._length += len(data)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag in _HIDDEN:
            self._hidden += 1
        elif tag == "table":
            self._end_text()
            if len(self._tables) == _DEEP:
                raise InputError(f"is damaged HTML: more than {_DEEP} tables in each other")
            self._tables.append(_Table())
            self._in_cell = False
        elif tag == "tr" and self._tables:
            self._end_row()
            self._tables[-1].is_heading = True
        elif tag in ("td", "th") and self._tables:
            self._end_cell()
            self._end_text()
            table = self._tables[-1]
            table.is_heading = table.is_heading and tag == "th"
            if len(table.spans) < _CELLS:
                span = re.fullmatch(r"\d{1,3}", (dict(attrs).get("colspan") or "").strip(), re.ASCII)
                table.spans.append(max(min(int(span[0]), _CELLS), 1) if span else 1)
            self._in_cell = True
        elif tag in _BREAKS and self._in_cell:
            self.handle_data(" ")
        elif tag in _BREAKS:
            self._end_text()

    def handle_endtag(self, tag: str) -> None:
        if tag in _HIDDEN:
            self._hidden = max(self._hidden - 1, 0)
        elif tag in ("table", "tr") and self._tables:
            self._end_row()
            if tag == "table":
                self._tables.pop()
        elif tag in ("td", "th") and self._tables:
            self._end_cell()
        elif tag in _BREAKS and not self._in_cell:
            self._end_text()

    def _text(self) -> str:
        text = " ".join("".join(self._words).split())[:_LONGEST]
        self._words, self._length = [], 0
        return text

    def _end_text(self) -> None:
        if text := self._text():
            self.parts.append(text)

    def _end_cell(self) -> None:
        if self._in_cell:
            text = self._text()
            self._tables[-1].cells += [text] if len(self._tables[-1].cells) < _CELLS else []
            self._in_cell = False

    def _end_row(self) -> None:
        self._end_cell()
        table = self._tables[-1]
        cells, spans, table.cells, table.spans = table.cells, table.spans, [], []
        if cells and table.is_heading:
            table.head(cells, spans)
        elif cells:
            self.parts.append("  ".join(cells)[:_LONGEST])
            wide = [text for text, span in zip(cells, spans, strict=False) for text in (text, *[""] * (span - 1))]
            columns = table.columns or [""] * len(wide[:_CELLS])
            if len(wide[:_CELLS]) == len(columns):
                self.parts.append(Row(tuple(columns), tuple(wide[:_CELLS])))
