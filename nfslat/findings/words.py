"""Durations, counts and texts with figures in them as findings and the verdict say them."""

from __future__ import annotations

import re

from nfslat.answer.words import ms, percent

__all__ = ["filled", "lowered", "ms", "percent", "span", "times"]


def times(number: int, noun: str) -> str:
    """``1 thread``, ``16 threads``."""
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


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


def lowered(text: str) -> str:
    """A sentence as a part of another; a name of capitals keeps them."""
    return text if text[:2].isupper() else text[:1].lower() + text[1:]
