"""Groups of ops -> columns that every table of groups has: those of `GROUP_FIGURES` that any of its rows knows."""

from __future__ import annotations

from collections.abc import Sequence

from nfslat.answer.figures import GROUP_FIGURES, GroupFigure, GroupFigures
from nfslat.report.blocks import Cell

_DASH = "-"


def columns_of(rows: Sequence[GroupFigures | None]) -> list[GroupFigure]:
    """The figures that are known of any of `rows`; None: a row without any."""
    return [figure for figure in GROUP_FIGURES if any(getattr(row, figure.name, None) is not None for row in rows)]


def cells_of(row: GroupFigures | None, columns: Sequence[GroupFigure]) -> list[Cell]:
    """The cells of a row in these columns."""
    return [or_dash(getattr(row, figure.name, None)) for figure in columns]


def in_full(figure: GroupFigure) -> str:
    """Its head with its unit, on one line."""
    return f"{figure.head} {figure.unit}".rstrip()


def or_dash(value: float | None) -> Cell:
    """A number, or that it is not known."""
    return _DASH if value is None else float(value)
