"""Durations, counts and texts with figures in them as findings and the verdict say them."""

from __future__ import annotations

import re


def ms(value: float) -> str:
    """At least three significant digits, never an exponent."""
    return f"{value:.1f}" if abs(value) >= 100 else f"{value:.2f}" if abs(value) >= 1 else f"{value:.3f}"


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
