"""``50ms``, ``2s``, ``1m``: lengths of time as people write them -> seconds."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from decimal import Decimal

UNITS = {"us": 10**3, "ms": 10**6, "s": 10**9, "m": 60 * 10**9, "h": 3600 * 10**9}  # ns
_MOST_S = 10**10  # until 2286
_DURATION = re.compile(rf"(?P<number>(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d\d?)?)(?P<unit>{'|'.join(UNITS)})?", re.ASCII)


def parse_duration(text: str, unit: str) -> Decimal | None:
    """Seconds, exactly; a bare number is in `unit`, or none where that is "". None: it is no length of time."""
    from decimal import Decimal  # noqa: PLC0415  (few runs have one to read)

    found = _DURATION.fullmatch(text)
    if found is None or not (found["unit"] or unit):
        return None
    seconds = Decimal(found["number"]) * UNITS[found["unit"] or unit] / UNITS["s"]
    return seconds if seconds < _MOST_S else None
