"""Words of a line -> counters, and the difference of two readings of them; else ``InputError``."""

from __future__ import annotations

import re
from collections.abc import Sequence

from nfslat.errors import InputError

# 64 bits have 20 digits. An idle time can be printed as a negative number.
_COUNTER = re.compile(r"-?[0-9]{1,20}")


def counters(words: Sequence[str], at_least: int, where: str) -> list[int]:
    """`words` as integers, `at_least` so many; `where` is the place that an ``InputError`` names."""
    if len(words) < at_least:
        raise InputError(f"{where}: {len(words)} numbers where {at_least} are printed: is the text cut short?")
    for word in words:
        if not _COUNTER.fullmatch(word):
            raise InputError(f"{where}: {word[:40]!r} is not a counter")
    return [int(word) for word in words]


def grown(before: Sequence[int], after: Sequence[int]) -> list[int] | None:
    """Growth of each counter; None where a counter went back, which means that they began anew in between."""
    growth = [new - old for old, new in zip(before, after, strict=True)]
    return None if any(each < 0 for each in growth) else growth
