"""Two columns whose rows are in the order of time -> how surely one grows with the other."""

from __future__ import annotations

import numpy as np

from nfslat.model.tables import F64, I32, I64

BLOCKS = 24  # of time: what changes slowly is no mark of anything
_FEWEST = 20  # rows of a block: what is in flight changes slowly, and in a short one hardly at all


def rank_correlation(x: I32 | I64, y: I64) -> tuple[float, float]:
    """Spearman's, as the mean of that within blocks of time, and its standard error.

    (0, inf) where there are too few.
    """
    by_block = (spearman(x[block], y[block]) for block in _blocks(len(x)))
    found = [one for one in by_block if one is not None]
    if len(found) < BLOCKS / 4:
        return 0.0, float("inf")
    # Of few blocks the spread is not known well, either.
    error = float(np.std(found, ddof=1) / np.sqrt(len(found))) * (1 + 4 / len(found))
    return float(np.mean(found)), error


def spearman(x: I32 | I64, y: I64) -> float | None:
    """None where one of them is constant."""
    a, b = _ranks(x), _ranks(y)
    scale = np.sqrt((a * a).sum() * (b * b).sum())
    return float((a * b).sum() / scale) if scale else None


def _blocks(rows: int) -> list[I64]:
    blocks = min(BLOCKS, rows // _FEWEST)
    return np.array_split(np.arange(rows), blocks) if blocks else []


def _ranks(values: I32 | I64) -> F64:
    """Less their mean; the same for the same values."""
    _, at, counts = np.unique(values, return_inverse=True, return_counts=True)
    ends = np.cumsum(counts)
    ranks = (ends - (counts - 1) / 2)[np.ravel(at)]
    return np.asarray(ranks - ranks.mean())
