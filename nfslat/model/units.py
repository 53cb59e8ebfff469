"""Nanoseconds -> the units that people and programs read: ms, s, and the time of day in UTC; and what people write."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, overload

if TYPE_CHECKING:
    from decimal import Decimal

    import numpy as np
    import numpy.typing as npt

# Integers, so that a product of integers stays exact.
NS_PER_US = 1_000
NS_PER_MS = 1_000_000
NS_PER_S = 1_000_000_000
DURATIONS = {"us": NS_PER_US, "ms": NS_PER_MS, "s": NS_PER_S, "m": 60 * NS_PER_S, "h": 3600 * NS_PER_S}  # unit -> ns
_MOST_S = 10**10  # until 2286
_DURATION = re.compile(rf"(?P<number>(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d\d?)?)(?P<unit>{'|'.join(DURATIONS)})?", re.ASCII)


@overload
def to_ms(ns: float | np.floating[Any] | np.integer[Any]) -> float: ...
@overload
def to_ms(ns: npt.NDArray[Any]) -> npt.NDArray[np.float64]: ...
def to_ms(ns: Any) -> Any:
    """A length of time, or an array of them, in ms."""
    return ns / 1e6


@overload
def to_s(ns: float | np.floating[Any] | np.integer[Any]) -> float: ...
@overload
def to_s(ns: npt.NDArray[Any]) -> npt.NDArray[np.float64]: ...
def to_s(ns: Any) -> Any:
    """A length of time, or an array of them, in s."""
    return ns / 1e9


def parse_duration(text: str, unit: str) -> Decimal | None:
    """``50ms``, ``2s``, ``1.5m`` in seconds, exactly; a bare number is in `unit`, or none where that is "". None: it is
    no duration."""
    from decimal import Decimal  # noqa: PLC0415  (few runs have one to read)

    found = _DURATION.fullmatch(text)
    if found is None or not (found["unit"] or unit):
        return None
    seconds = Decimal(found["number"]) * DURATIONS[found["unit"] or unit] / NS_PER_S
    return seconds if seconds < _MOST_S else None


def iso(ns: int) -> str:
    """ISO 8601: ``2026-02-03T14:15:16.123456789Z``."""
    return f"{datetime.fromtimestamp(ns // NS_PER_S, UTC):%Y-%m-%dT%H:%M:%S}.{ns % NS_PER_S:09d}Z"


def unix_s(moment: str) -> float:
    """The same moment, in seconds, to a microsecond."""
    return datetime.fromisoformat(moment[:26] + "+00:00").timestamp()


def utc(ns: int, digits: int = 9) -> str:
    """``2026-02-03 14:15:16.123 UTC``, cut off behind so many digits."""
    fraction = f"{ns % NS_PER_S:09d}"[:digits]
    return f"{datetime.fromtimestamp(ns // NS_PER_S, UTC):%Y-%m-%d %H:%M:%S}.{fraction} UTC"
