"""Sections of the text report -> paragraphs, lists, tables and commands, which a template makes HTML of."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from nfslat.report.text_layout import Cell, Page, count, ms

_STEP = "\ue000"  # stands for a step of indentation in a label, see text_layout.indented
_WIDE = 1_000_000  # columns: nothing is wrapped or shortened for want of room


@dataclass
class Block:
    """One thing on the page: `kind` is title, prose, list, command or table; `depth` steps to the right."""

    kind: str
    text: str = ""
    depth: int = 0
    items: list[str] = field(default_factory=list)
    headers: list[tuple[str, bool]] = field(default_factory=list)  # and whether words are below it
    rows: list[list[CellOf]] = field(default_factory=list)


@dataclass(frozen=True)
class CellOf:
    """A cell: what is shown, the number behind it as JSON has it, whether it is words, and its indentation."""

    text: str
    value: str | None
    words: bool
    depth: int = 0


class Blocks(Page):
    """A page of the text report that keeps what it is given as blocks, in place of lines of text."""

    def __init__(self) -> None:
        super().__init__(_WIDE, color=False)
        self.prose_width = _WIDE
        self.blocks: list[Block] = []

    def title(self, text: str) -> None:
        self.blocks.append(Block("title", text))

    def gap(self) -> None:
        pass

    def lines(self, lines: Sequence[str]) -> None:
        self.blocks += [Block("prose", line) for line in lines]

    def prose(self, text: str, *, indent: int = 0, hanging: int = 0, style: str = "") -> None:
        if not text.startswith("- "):
            self.blocks.append(Block("prose", text, indent // 2))
        elif self.blocks and self.blocks[-1].kind == "list":
            self.blocks[-1].items.append(text[2:])
        else:
            self.blocks.append(Block("list", items=[text[2:]], depth=indent // 2))

    def command(self, label: str, command: str, *, indent: int = 0) -> None:
        self.blocks.append(Block("command", command, indent // 2))

    def table(self, align: str, headers: Sequence[str], rows: Sequence[Sequence[Cell]]) -> None:
        cells = [[_cell(cell, letter == "l") for cell, letter in zip(row, align, strict=True)] for row in rows]
        shown = [(header.replace("\n", " "), letter == "l") for header, letter in zip(headers, align, strict=False)]
        self.blocks.append(Block("table", headers=shown, rows=cells))


def blocks_of(section: Callable[..., None], *arguments: Any) -> list[Block]:
    """What a section of the text report puts onto its page."""
    page = Blocks()
    section(page, *arguments)
    return page.blocks


def _cell(cell: Cell, words: bool) -> CellOf:
    if isinstance(cell, float):
        return CellOf(ms(cell), repr(cell), words=False)
    if isinstance(cell, int):
        return CellOf(count(cell), repr(cell), words=False)
    text = cell or ""
    label = text.lstrip(_STEP)
    return CellOf(label, None, words, (len(text) - len(label)) // 2)
