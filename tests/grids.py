"""Several parameters -> cases by day in which any two values meet, and all that there are by night."""

from __future__ import annotations

import itertools
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest
from captures import id_of


def grid(**axes: Iterable[Any]) -> pytest.MarkDecorator:
    """A parametrization by all combinations; those that show no new pair of values are marked long."""
    columns = [list(values) for values in axes.values()]
    pairs = list(itertools.combinations(range(len(columns)), 2))
    todo = {(a, b, i, j) for a, b in pairs for i in range(len(columns[a])) for j in range(len(columns[b]))}
    rows = list(itertools.product(*(range(len(column)) for column in columns)))
    by_day: set[tuple[int, ...]] = set()
    while todo:
        best = max(rows, key=lambda row: len(_pairs(row, pairs) & todo))
        by_day.add(best)
        todo -= _pairs(best, pairs)
    return pytest.mark.parametrize(
        list(axes),
        [
            pytest.param(
                *(column[at] for column, at in zip(columns, row, strict=True)),
                marks=() if row in by_day else pytest.mark.long,
            )
            for row in rows
        ],
        ids=lambda value: id_of(value) if isinstance(value, Path) else None,
    )


def _pairs(row: tuple[int, ...], pairs: list[tuple[int, int]]) -> set[tuple[int, int, int, int]]:
    return {(a, b, row[a], row[b]) for a, b in pairs}
