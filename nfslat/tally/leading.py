"""Rows of blocks that are one row of the whole: that of the block in which it counts most, and how much in all."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping
from typing import Any, Generic, NamedTuple, TypeVar

RowT = TypeVar("RowT")


class Leading(NamedTuple, Generic[RowT]):
    """The row of the block in which it counts most, how much there, and in all blocks."""

    row: RowT
    most: Any  # in order
    total: float


Rows = Mapping[Hashable, Leading[RowT]]


def rows_by(rows: Iterable[Any], weight: str, *key: str) -> Rows[Any]:
    """Rows of a block, each by the fields `key`, which counts by the field `weight`."""
    weights = ((tuple(getattr(row, name) for name in key), row, getattr(row, weight)) for row in rows)
    return {ends: Leading(row, count, count) for ends, row, count in weights}


def added_rows(before: Rows[RowT], later: Rows[RowT]) -> Rows[RowT]:
    """Rows of both, those of a later block behind; of such that count as much the first."""
    rows = dict(before)
    for key, now in later.items():
        known = rows.get(key, Leading(now.row, now.most, 0.0))
        row, most, _ = now if now.most > known.most else known
        rows[key] = Leading(row, most, known.total + now.total)
    return rows
