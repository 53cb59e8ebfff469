"""For how long ACKs were held back -> the timers that go with that.

One receiver has one timer, and it goes off a little late or early: times near each other are of one timer, that of
their median. A single ACK that is late by no timer's time was not delayed by one: the path, or a host, held it.
"""

from __future__ import annotations

import numpy as np

from nfslat.model.protocol import NULL
from nfslat.model.tables import I64, Bool
from nfslat.wire.stalls import timer_ms

_APART = 5  # a time that is longer by more than this part of the one before it begins another cluster
_TIMES = 3  # with fewer a time without a name is chance


def timers_ms(held_ns: I64) -> tuple[I64, I64]:
    """For each: the timer's name (`stalls.timer_ms`; NULL: none known), and how many there are of that cluster."""
    timer = np.full(len(held_ns), NULL, dtype=np.int64)
    members = np.zeros(len(held_ns), dtype=np.int64)
    order = np.argsort(held_ns, kind="stable")
    held = held_ns[order]
    cuts = np.flatnonzero(held[1:] - held[:-1] > np.maximum(held[:-1], 0) // _APART) + 1
    for part in np.split(order, cuts):
        if len(part):
            median = int(held_ns[part[(len(part) - 1) // 2]])
            timer[part], members[part] = timer_ms(median) or NULL, len(part)
    return timer, members


def by_timer(held_ns: I64) -> Bool:
    """Which of them a timer can have held: those near a known one, and others that come again and again."""
    timer, members = timers_ms(held_ns)
    return np.asarray((timer != NULL) | (members >= _TIMES))
