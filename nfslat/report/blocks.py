"""What sections are made of: blocks with no width, no colour and no markup, for writers of text, Markdown and HTML."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

from nfslat.answer.words import ms
from nfslat.model.record import Record
from nfslat.report.text_layout import count, plain


class Label(NamedTuple):
    """Words in a table's first column, so many steps to the right."""

    text: str
    depth: int


class Figure(NamedTuple):
    """A duration in ms whose digits are those of the whole that it is part of."""

    text: str
    value_ms: float


Cell = str | int | float | Label | Figure | None  # an int is a count, a float a duration in ms by itself


class Title(NamedTuple):
    """The heading of a section."""

    text: str


class Prose(NamedTuple):
    """A paragraph. Style: "", "bold", "dim", "accent", or a layer, which tells it apart from the others."""

    text: str
    indent: int = 0  # columns
    hanging: int = 0  # columns more of all lines but the first
    style: str = ""


class Item(NamedTuple):
    """An entry of a list."""

    text: str
    indent: int = 0
    style: str = ""


class Command(NamedTuple):
    """A line for the shell behind a label; a remark for one who pastes it begins with "#"."""

    label: str
    command: str
    indent: int = 0


class Table(NamedTuple):
    """Rows below headers, which may be none. Of each column a letter: l left, r right, d decimal points below each
    other; the first column is words."""

    align: str
    headers: Sequence[str]
    rows: Sequence[Sequence[Cell]]
    last: str = ""  # the last column takes what room is left: "wrapped" in several lines, or "cut" at its left
    narrower: Table | None = None  # in place of this one where it has no room as it is
    styles: Sequence[str] = ()  # of the rows, as of `Prose`; none: all are plain


class Histogram(NamedTuple):
    """Counts of each side by buckets: (label, side -> count)."""

    title: str
    sides: Sequence[str]
    rows: Sequence[tuple[str, dict[str, int]]]


class Advice(NamedTuple):
    """What to do about a finding. Without a setting to suggest, `knob` and `how` say what to look at."""

    knob: str = ""
    suggested: str = ""
    now: str = ""
    how: Sequence[str] = ()  # commands and remarks
    takes_effect: str = ""
    verify: str = ""
    risk: str = ""
    sources: Sequence[str] = ()


class RankedFinding(NamedTuple):
    """A finding with its rank, 0 for one of little weight."""

    number: int
    code: str
    layer: str
    confidence: str
    explains: str
    text: str
    advice: Advice
    manual: tuple[tuple[str, str], ...] = ()  # question and answer; pages have room for it


class Gap(Record):
    """An empty line in text, unless there is one."""


class Lines(NamedTuple):
    """Drawn in characters."""

    lines: Sequence[str]


class Fitted(NamedTuple):
    """What is put together in another way for each width of the text; pages show the same in their own way."""

    blocks: Callable[[int], Iterable[Block]]


Block = Title | Prose | Item | Command | Table | Histogram | RankedFinding | Gap | Lines | Fitted


def cell_text(cell: Cell) -> str:
    """What a cell shows, without its place."""
    match cell:
        case Label(text) | Figure(text):
            return text
        case float():
            return ms(cell)
        case int():
            return count(cell)
    return cell or ""


def indented(text: str, depth: int) -> Label:
    """A table's label, `depth` steps to the right."""
    return Label(plain(text), depth)
