"""HTML of a report -> its tables as rows of cells, and its words as lines; as `text_tables` does of ruled text.

A heading may have two lines: cells that span columns stand over those of the next line, whose words name the columns.
Of tables in tables each row is that of the innermost.

Read with html.parser of the standard library. It looks again and again at what is not closed, so what it has not taken
is bounded here.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from html.parser import HTMLParser
from itertools import chain

from nfslat.errors import InputError
from nfslat.evidence.text_tables import Row

_PIECE, _OPEN = 1 << 13, 1 << 15  # characters: given to the parser at once; of a tag, comment or entity
_CELLS, _DEEP = 128, 32  # of a row; tables in tables
_LONGEST = 2048  # of a cell, or of a line
_HEAD = 200  # lines that tell HTML
_HIDDEN = {"script", "style"}
_BREAKS = {"p", "br", "li", "ul", "div", "tr", "table", "pre", "title", "body", *(f"h{level}" for level in range(1, 7))}


def is_html(line: str) -> bool:
    """Whether the line begins a page, or a table of one."""
    start = line[:4096].lower()
    return "<html" in start or "<table" in start or "<!doctype html" in start


def rows_of(
    lines: Iterable[str],
    look: Callable[[Iterable[str]], Iterator[str]],
    ruled: Callable[[Iterable[str]], Iterator[Row]],
) -> Iterator[Row]:
    """Rows of a report that may be text or HTML; `look` sees each line before the rows behind it are read, `ruled`
    reads the tables of text."""
    head: list[str] = []
    rest = iter(lines)
    for line in rest:
        head.append(line)
        if is_html(line):
            for found in _read(chain(head, rest)):
                if isinstance(found, Row):
                    yield found
                else:
                    next(iter(look((found,))))
            return
        if len(head) == _HEAD:
            break
    yield from ruled(look(chain(head, rest)))


def _read(lines: Iterable[str]) -> Iterator[Row | str]:
    """Rows of tables, and lines of text between them; a row is a line, too, which stands in front of it.

    Raises ``InputError`` where a tag does not end, or tables stand in tables without end.
    """
    parser = _Tables()
    for line in lines:
        for at in range(0, len(line), _PIECE):
            parser.feed(line[at : at + _PIECE])
            if len(parser.rawdata) > _OPEN:
                raise InputError("is damaged HTML: a tag or comment does not end")
            yield from parser.taken()


class _Table:
    """A table while it is open."""

    def __init__(self) -> None:
        self.columns: list[str] = []
        self.spanned: list[int] = []  # columns that the next line of the heading names
        self.cells: list[str] = []
        self.spans: list[int] = []
        self.is_heading = False  # all cells of this row are


class _Tables(HTMLParser):
    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self._tables: list[_Table] = []
        self._words: list[str] = []
        self._length = 0
        self._in_cell = False
        self._hidden = 0
        self._found: list[Row | str] = []

    def taken(self) -> list[Row | str]:
        """What was found since it was asked last."""
        found, self._found = self._found, []
        return found

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
                table.spans.append(_span(dict(attrs).get("colspan")))
            self._in_cell = True
        elif tag in _BREAKS:
            if self._in_cell:
                self.handle_data(" ")
            else:
                self._end_text()

    def handle_endtag(self, tag: str) -> None:
        if tag in _HIDDEN:
            self._hidden = max(self._hidden - 1, 0)
        elif tag == "table" and self._tables:
            self._end_row()
            self._tables.pop()
            self._in_cell = False
        elif tag == "tr" and self._tables:
            self._end_row()
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
            self._found.append(text)

    def _end_cell(self) -> None:
        if self._in_cell:
            table = self._tables[-1]
            text = self._text()
            if len(table.cells) < _CELLS:
                table.cells.append(text)
            self._in_cell = False

    def _end_row(self) -> None:
        self._end_cell()
        table = self._tables[-1]
        cells, spans, table.cells, table.spans = table.cells, table.spans, [], []
        if not cells:
            return
        if table.is_heading:
            _head(table, cells, spans)
            return
        self._found.append("  ".join(cells)[:_LONGEST])
        wide = [text for text, span in zip(cells, spans, strict=False) for text in (text, *[""] * (span - 1))][:_CELLS]
        columns = table.columns or [""] * len(wide)
        if len(wide) == len(columns):
            self._found.append(Row(tuple(columns), tuple(wide)))


def _head(table: _Table, cells: list[str], spans: list[int]) -> None:
    names = ["".join(text.split()).lower() for text in cells]
    if table.spanned and len(names) == len(table.spanned):
        for at, name in zip(table.spanned, names, strict=True):
            table.columns[at] = name
        table.spanned = []
        return
    table.columns, table.spanned = [], []
    for name, span in zip(names, spans, strict=False):
        if span > 1:
            table.spanned += range(len(table.columns), len(table.columns) + span)
        table.columns += [name] * span
    del table.columns[_CELLS:]
    table.spanned = [at for at in table.spanned if at < _CELLS]


def _span(told: str | None) -> int:
    digits = (told or "").strip()
    return max(min(int(digits), _CELLS), 1) if digits.isascii() and digits.isdigit() and len(digits) < 4 else 1
