"""Stretches of time -> what began and what ended in them: a condition that is met, a cause; and how long it lasts."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Iterator

from nfslat.live.baseline import Baseline
from nfslat.live.rows import Row
from nfslat.live.watch import Event, Stretch
from nfslat.windows.pairs import Pair

_OVER = 2  # stretches in a row without it: it has ended. After one it may go on


class Lasting:
    """One thing that a stretch shows or not. Stretches in which nothing happened say nothing of it."""

    def __init__(self, what: str, for_ns: int = 0) -> None:
        """It has begun when it was there for `for_ns` without a break."""
        self._what, self._for_ns = what, for_ns
        self.event: Event | None = None  # as long as it lasts
        self._since: tuple[int, int] | None = None  # of stretches in a row that show it, before it has begun
        self._without = 0

    def began(self, pair: Pair, *, holds: bool) -> bool:
        """Has it begun with this stretch?"""
        if not holds:
            self._since = None
            return False
        self._since = (self._since or (pair.begin_ns, 0))[0], pair.end_ns
        begin_ns = self._since[0]
        if self.event is not None:
            self.event, self._without = Event(self._what, self.event.begin_ns, pair.end_ns), 0
            return False
        if pair.end_ns - begin_ns < self._for_ns:
            return False
        self.event, self._without = Event(self._what, begin_ns, pair.end_ns), 0
        return True

    def ended(self, *, holds: bool) -> Event | None:
        """What has ended, with this stretch."""
        if holds or self.event is None:
            return None
        self._without += 1
        if self._without < _OVER:
            return None
        over, self.event = self.event, None
        return over


class Course:
    """Causes that began and ended."""

    def __init__(self) -> None:
        """None is there."""
        self._causes: dict[str, Lasting] = {}

    def add(self, pair: Pair, row: Row) -> tuple[list[Event], list[Event]]:
        """Those that began with a stretch, and those that ended."""
        if not row.ops or row.gap is not None:
            return [], []
        now = row.cause if row.outcome == "fault" and row.confidence != "low" else None
        if now is not None:
            self._causes.setdefault(now, Lasting(now))
        began, ended = [], []
        for cause, lasting in list(self._causes.items()):
            if lasting.began(pair, holds=cause == now) and lasting.event is not None:
                began.append(lasting.event)
            over = lasting.ended(holds=cause == now)
            if over is not None:
                ended.append(over)
                del self._causes[cause]
        return began, ended


def followed(stretches: Iterable[Stretch], baseline: Baseline | None = None) -> Iterator[Stretch]:
    """The same, each with the causes that began and ended with it, and whether the baseline has its cause."""
    course = Course()
    for stretch in stretches:
        began, ended = course.add(stretch.pair, stretch.row)
        is_new = baseline is not None and stretch.row.outcome == "fault" and baseline.is_new(stretch.row.cause)
        yield dataclasses.replace(stretch, began=tuple(began), ended=tuple(ended), is_new=is_new)
        del stretch
