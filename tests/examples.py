"""How many examples a property is tried with: few by day, a thousand at night (tests/conftest.py)."""

from __future__ import annotations

from hypothesis import settings


def examples(of_hundred: int) -> int:
    """The profile's number for a property that takes longer than others, or has to look longer for what it seeks.

    The profile is chosen before a test module is imported.
    """
    return max(settings.default.max_examples * of_hundred // 100, 1)  # type: ignore[union-attr]
