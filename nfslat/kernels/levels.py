"""Starts and ends of ops, in order -> how many were in flight, for how long, and what ended and began there."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from nfslat.kernels.compiled import native
from nfslat.model.tables import F64, I64


class Events(NamedTuple):
    """Starts and ends of ops, each ascending; ns after the first start. At one time ends come before starts."""

    starts: I64
    ends: I64


def in_order(starts: I64, ends: I64) -> Events:
    """Of ops in any order. One that ends before it starts ends as it starts."""
    return Events(*native.in_order(np.ascontiguousarray(starts), np.ascontiguousarray(ends)))


def time_and_ends(events: Events) -> tuple[I64, I64]:
    """Of each level k: ns with exactly k ops in flight, and ops that ended there (`inflight.levels.Levels`)."""
    time_ns, ended = native.levels(*events)
    return time_ns, ended


def turnarounds_ns(events: Events, low: int, high: int) -> I64:
    """From a reply to the call right behind it, for the calls that make it `low` to `high` in flight."""
    return np.asarray(native.turnarounds(*events, max(low - 1, 0), high))


def windows_of(events: Events, width_ns: int, windows: int) -> tuple[F64, F64, F64]:
    """Of each window: ends, time, and time multiplied with the ops in flight."""
    ended, time_ns, area = native.windows(*events, width_ns, windows)
    return ended, time_ns, area
