"""Nanoseconds since 1970 -> the time as people and programs read it, in UTC."""

from __future__ import annotations

from datetime import UTC, datetime


def iso(ns: int) -> str:
    """ISO 8601: ``2026-02-03T14:15:16.123456789Z``."""
    return f"{datetime.fromtimestamp(ns // 10**9, UTC):%Y-%m-%dT%H:%M:%S}.{ns % 10**9:09d}Z"


def utc(ns: int, digits: int = 9) -> str:
    """``2026-02-03 14:15:16.123 UTC``, cut off behind so many digits."""
    fraction = f"{ns % 10**9:09d}"[:digits]
    return f"{datetime.fromtimestamp(ns // 10**9, UTC):%Y-%m-%d %H:%M:%S}.{fraction} UTC"
