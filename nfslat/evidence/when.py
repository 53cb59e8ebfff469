"""When something was measured, by the wall clock of its host -> whether that is the time of the captures."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from enum import Enum

from nfslat.model.record import Record

_QUARTER_S = 900
_ZONES = range(-12 * 4, 14 * 4 + 1)  # quarters of an hour that a wall clock may be ahead of UTC
_ENOUGH = 0.5  # of the shorter of both


class Fit(Enum):
    """Whether it was measured while the captures ran."""

    SURE = "it was"
    OPEN = "it may have been: the zone of its clock is not known"
    NOT = "it was not"


class Span(Record):
    """From when to when, by a clock without a zone."""

    begin: datetime
    end: datetime
    zone_min: int | None = None  # minutes that this clock is ahead of UTC; None: not told

    def fits(self, first_ns: int, last_ns: int, zone_min: int | None = None) -> Fit:
        """Against captures from `first_ns` to `last_ns`; `zone_min` is that of the host, where this does not tell."""
        begin_s, end_s = (seconds_of(one) for one in (self.begin, self.end))
        captured = first_ns / 1e9, last_ns / 1e9
        zone = self.zone_min if self.zone_min is not None else zone_min
        if zone is not None:
            return Fit.SURE if _overlap(begin_s - 60 * zone, end_s - 60 * zone, *captured) else Fit.NOT
        shifts = (_QUARTER_S * quarter for quarter in _ZONES)
        return Fit.OPEN if any(_overlap(begin_s - one, end_s - one, *captured) for one in shifts) else Fit.NOT

    def is_about(self, first_ns: int, last_ns: int) -> bool:
        """Does it hold half of the captures, and they half of it? Only where its zone is told."""
        if self.zone_min is None:
            return False
        begin, end = (seconds_of(one) - 60 * self.zone_min for one in (self.begin, self.end))
        first, last = first_ns / 1e9, last_ns / 1e9
        # Instants of snapshots are whole seconds.
        shared = min(end + 1, last) - max(begin - 1, first)
        return shared >= _ENOUGH * (last - first) and shared + 2 >= _ENOUGH * (end - begin)

    def __str__(self) -> str:
        zone = "" if self.zone_min is None else f" {self.zone_min // 60:+03d}:{self.zone_min % 60:02d}"
        return f"{self.begin:%Y-%m-%d %H:%M:%S} to {self.end:%Y-%m-%d %H:%M:%S}{zone}"


def seconds_of(one: datetime) -> float:
    """Since 1970, of a wall clock at UTC."""
    return (one.replace(tzinfo=UTC) - datetime(1970, 1, 1, tzinfo=UTC)) / timedelta(seconds=1)


def _overlap(begin: float, end: float, first: float, last: float) -> bool:
    shared = min(end, last) - max(begin, first)
    return shared >= 0 and shared >= _ENOUGH * min(end - begin, last - first)


def zone_of(text: str) -> int | None:
    """``+0130``, ``-08:00``, ``Z``, ``UTC`` and ``GMT`` in minutes; other names stand for several zones: None."""
    text = text.strip()
    if text in ("Z", "UTC", "GMT"):
        return 0
    digits = text[1:].replace(":", "")
    if text[:1] not in ("+", "-") or len(digits) != 4 or not (digits.isascii() and digits.isdigit()):
        return None
    minutes = int(digits[:2]) * 60 + int(digits[2:])
    return minutes if text[0] == "+" else -minutes
