"""Blocks of a section -> what macros.html shows: entries joined to lists, cells with the numbers behind them."""

from __future__ import annotations

from collections.abc import Iterable

from msgspec import Struct

from nfslat.model.record import Record
from nfslat.report.blocks import Block, Cell, Command, Figure, Item, Label, Prose, Table, Title, cell_text


class CellOf(Record):
    """A cell: what is shown, the number behind it as JSON has it, whether it is words, and its indentation."""

    text: str
    value: str | None
    words: bool
    depth: int = 0


class Shown(Struct):
    """One thing on the page: `kind` is title, prose, list, command or table; `depth` steps to the right."""

    kind: str
    text: str = ""
    depth: int = 0
    items: list[str] = []
    headers: list[tuple[str, bool]] = []  # and whether words are below it
    rows: list[list[CellOf]] = []


def shown(blocks: Iterable[Block]) -> list[Shown]:
    """The blocks in their order; empty lines, and what only a terminal draws, are left out."""
    found: list[Shown] = []
    for block in blocks:
        match block:
            case Title(text):
                found.append(Shown("title", text))
            case Prose(text, indent):
                found.append(Shown("prose", text, indent // 2))
            case Item(text) if found and found[-1].kind == "list":
                found[-1].items.append(text)
            case Item(text, indent):
                found.append(Shown("list", items=[text], depth=indent // 2))
            case Command(_, command, indent):
                found.append(Shown("command", command, indent // 2))
            case Table(align, headers, rows):
                cells = [[_cell(cell, letter == "l") for cell, letter in zip(row, align, strict=True)] for row in rows]
                heads = [(head.replace("\n", " "), letter == "l") for head, letter in zip(headers, align, strict=False)]
                found.append(Shown("table", headers=heads, rows=cells))
    return found


def _cell(cell: Cell, words: bool) -> CellOf:
    value = cell.value_ms if isinstance(cell, Figure) else cell if isinstance(cell, int | float) else None
    depth = cell.depth if isinstance(cell, Label) else 0
    return CellOf(cell_text(cell), None if value is None else repr(value), words and value is None, depth)
