"""Figures that sentences and tables share -> words: all that say them say them so."""

from __future__ import annotations

import math
from collections.abc import Mapping

_NEARLY_ALL = 0.95  # from here on two decimals tell how much is missing


def ms(value: float) -> str:
    """A duration in a sentence: at least three significant digits, never an exponent."""
    return f"{value:.1f}" if abs(value) >= 100 else f"{value:.2f}" if abs(value) >= 1 else f"{value:.3f}"


def complete(share: float, *, inferred: bool = False, missing: str = "") -> str:
    """How many of the operations of the time have figures: ``all of the operations of this time are in both captures``.

    ``99.98 %``, ``83 %``: never rounded up. `missing` is why not the others, as of `missing_ops`.
    """
    digits = 2 if share >= _NEARLY_ALL else 0
    floored = math.floor(share * 100 * 10**digits + 1e-6) / 10**digits
    some = "all" if share >= 1 else f"{min(floored, 99.99):g} %"
    have = "have inferred times" if inferred else "are in both captures"
    return f"{some} of the operations of this time {have}{f': {missing}' if missing else ''}"


def missing_ops(missing: Mapping[str, int]) -> str:
    """``12 not in the server's capture, 1,058 whole in neither capture``; "" where nothing is missing."""
    return ", ".join(f"{ops:,} {why}" for why, ops in missing.items() if ops)
