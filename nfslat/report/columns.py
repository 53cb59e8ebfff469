"""Tables as data: a column is its head, where in a row its cells are, and how these are shown."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from nfslat.answer.figures import GROUP_FIGURES, GroupFigures
from nfslat.answer.words import percent
from nfslat.report.blocks import Cell, Figure, Label, Table
from nfslat.report.text_layout import duration, large, plain, rate

# Alignment, as of `Table`, and what makes a cell of a value that is no text.
_STYLES: dict[str, tuple[str, Callable[[Any], Cell]]] = {
    "text": ("l", plain),
    "as it is": ("l", str),  # not of a terminal
    "right": ("r", str),
    "count": ("r", int),
    "ms": ("d", float),
    "large": ("r", large),
    "rate": ("r", rate),
    "share": ("r", percent),
    "duration": ("r", duration),
    "seconds": ("r", lambda ms: f"{ms / 1e3:.3f}"),
}


class Column(NamedTuple):
    """A column of any writer's table."""

    head: str
    cell: str | Callable[[Any], Any]  # fields, keys or places, with points between; or what makes the value
    style: str = "text"  # a key of `_STYLES`
    goes: int = 0  # where the line has no room those with the least number go first; 0: it stays
    none: str = "-"  # in place of what is not known

    def of(self, row: Any) -> Cell:
        """The cell of a row."""
        value = row
        if not isinstance(self.cell, str):
            value = self.cell(row)
        else:
            for field in self.cell.split("."):
                if isinstance(value, Mapping):
                    value = value.get(field)
                else:
                    value = value[int(field)] if field.isdigit() else getattr(value, field, None)
        if value is None:
            return self.none
        if isinstance(value, Label | Figure) or (isinstance(value, str) and self.style != "text"):
            return value
        return _STYLES[self.style][1](value)


def columns(style: str, *cells: str, none: str = "-") -> list[Column]:
    """Several in a style: of each its fields, and behind a blank its head where that is not their name."""
    found = (cell.partition(" ") for cell in cells)
    return [Column(head if blank else path, path, style, none=none) for path, blank, head in found]


def table(rows: Iterable[Any], columns: Sequence[Column], *, last: str = "", styles: Sequence[str] = ()) -> Table:
    """The rows in these columns, and in fewer of them where the line has no room."""
    rows = list(rows)
    first = min((column.goes for column in columns if column.goes), default=0)
    return Table(
        "".join(_STYLES[column.style][0] for column in columns),
        [column.head for column in columns],
        [[column.of(row) for column in columns] for row in rows],
        last,
        table(rows, [column for column in columns if column.goes != first], last=last) if first else None,
        styles,
    )


def group_columns(
    rows: Sequence[GroupFigures | None], *, of: str = "", between: str | None = None, apart: bool = True
) -> list[Column]:
    """The columns that every table of groups of operations has: figures of `GROUP_FIGURES` that are known of any of its
    rows, which are at `of` in what the table has. Heads are without units, or have them behind `between`; `apart`:
    those that stand apart, too."""
    return [
        Column(
            figure.head if between is None else f"{figure.head}{between}{figure.unit}".rstrip(),
            f"{of}{figure.name}",
            "ms",
        )
        for figure in GROUP_FIGURES
        if any(getattr(row, figure.name, None) is not None for row in rows) and (apart or not figure.stands_apart)
    ]
