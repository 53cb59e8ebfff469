"""Durations, counts and texts with figures in them as findings and the verdict say them."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence

from nfslat.answer.words import ms

__all__ = ["filled", "lowered", "ms", "percent", "span", "summed", "times"]


def times(number: int, noun: str) -> str:
    """``1 thread``, ``16 threads``."""
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def percent(share: float) -> str:
    """Of a share of 0 to 1: ``80 %``, ``1.3 %``, ``0.06 %``."""
    return f"{share * 100:.{0 if share >= 0.1 else 1 if share >= 0.01 else 2}f} %"


def filled(text: str, figures: object, **words: str) -> str:
    """`text` with `words`, fields and properties of `figures` for the names in braces; a name in ``_ms`` is ms."""

    def of(match: re.Match[str]) -> str:
        name = match[1]
        if name in words:
            return words[name]
        value = getattr(figures, name)
        return ms(value) if name.endswith("_ms") else str(value)

    return re.sub(r"\{(\w+)\}", of, text)


def span(value_ms: float) -> str:
    """A length of time that may be long: ``60.2 s``, ``12.0 ms``."""
    return f"{value_ms / 1e3:.1f} s" if value_ms >= 1e3 else f"{ms(value_ms)} ms"


def summed(parts: Sequence[float]) -> tuple[list[str], str]:
    """Durations in ms and their sum, as printed numbers that add up to the last digit."""
    whole = abs(math.fsum(parts))
    decimals = 1 if whole >= 100 else 2 if whole >= 1 else 3
    scaled = [one * 10**decimals for one in parts]
    units = [math.floor(one) for one in scaled]
    left = round(math.fsum(scaled)) - sum(units)
    for at in sorted(range(len(parts)), key=lambda i: units[i] - scaled[i])[:left]:
        units[at] += 1
    return [f"{one / 10**decimals:.{decimals}f}" for one in units], f"{sum(units) / 10**decimals:.{decimals}f}"


def lowered(text: str) -> str:
    """A sentence as a part of another; a name of capitals keeps them."""
    return text if text[:2].isupper() else text[:1].lower() + text[1:]
