"""Stretches of time -> the last minutes of them as what adds up of each, and the report on any of them in a row.

It is the report that `nfslat` makes of captures that are judged in stretches (docs/windows.md), with
percentiles of the slowest 1 % from an even sample.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from nfslat import __version__
from nfslat.answer.model import Report, Tool
from nfslat.decode.native import NAME
from nfslat.decode.windows import Window, Windows
from nfslat.errors import InputError
from nfslat.flow.counts import Counts
from nfslat.flow.gaps import Gapped, Gaps, longer
from nfslat.flow.pairs import Pair
from nfslat.flow.report import report_of
from nfslat.flow.whole import Whole
from nfslat.live.rows import SRT
from nfslat.results import Analysis
from nfslat.tally.durations import MOST_EXACT

_MOST_SLOW = 1 << 13  # ops of a stretch of which the slowest of all are sought
_MOST_STRETCHES = 1000  # some 100 KB to 1 MB each
_GAPS_IN = 50_000  # calls


@dataclass(frozen=True)
class _Noted:
    """What was counted in a window of one capture, on its clock."""

    begin_ns: int
    counts: Counts


class Noted(Gapped):
    """An iterator over the windows of one capture, which keeps what is counted in them until it is taken."""

    def __init__(self, windows: Windows, role: str, idle: Callable[[], None]) -> None:
        """`role`: server or client. `idle` is called while nothing comes."""
        super().__init__(windows)
        self._idle = idle
        self._all_gaps = Gaps(_GAPS_IN)
        self._counts = Counts(role, SRT)
        self._noted: deque[_Noted] = deque()

    def is_ready(self) -> bool:
        """Does the next one come, or the end, within some ms?"""
        self._idle()
        return super().is_ready()

    def __next__(self) -> Window:
        """Waits for it."""
        window = super().__next__()
        before = self._all_gaps.found
        self._all_gaps.add(window.decoded, window.begin_ns)
        counts = self._counts.fresh()
        counts.add(window.decoded, self.source)
        counts.missing = longer(self._all_gaps.found, -before)
        self._counts = counts
        self._noted.append(_Noted(window.begin_ns, counts))
        return window

    def taken(self, end_ns: int) -> Counts:
        """Of all windows that began before, and were not taken."""
        parts = []
        while self._noted and self._noted[0].begin_ns < end_ns:
            parts.append(self._noted.popleft().counts)
        return Counts.merge(parts) if parts else self._counts.fresh()


@dataclass(frozen=True)
class _Part:
    begin_ns: int  # client's clock
    end_ns: int
    whole: Whole


class Kept:
    """The last `keep_ns` of stretches."""

    def __init__(self, keep_ns: int) -> None:
        """None of them yet."""
        self._keep_ns = keep_ns
        self._parts: deque[_Part] = deque()
        self._stretches = 0

    def add(self, pair: Pair, c: Analysis | None, sides: Mapping[str, Noted]) -> None:
        """One more stretch, its analysis where it has ops in both captures, and what is read by."""
        counts = {
            "server": sides["server"].taken(pair.end_ns - pair.later_ns),
            "client": sides["client"].taken(pair.end_ns),
        }
        whole = Whole(counts, self._stretches, _MOST_SLOW)
        whole.add(pair, c)
        if whole.matched + sum(one.whole.matched for one in self._parts) > MOST_EXACT:
            whole.keep_less()
        self._stretches = whole.stretches
        if self._parts:
            for one in self._parts[-1].whole.sides.values():
                one.forget_connections()
        self._parts.append(_Part(pair.begin_ns, pair.end_ns, whole))
        while self._parts[0].end_ns <= pair.end_ns - self._keep_ns or len(self._parts) > _MOST_STRETCHES:
            self._parts.popleft()

    def forget(self) -> None:
        """All of it: numbers of connections mean others from now on."""
        self._parts.clear()

    @property
    def span_ns(self) -> tuple[int, int] | None:
        """What is kept, on the client's clock."""
        return (self._parts[0].begin_ns, self._parts[-1].end_ns) if self._parts else None

    def report(self, begin_ns: int | None = None) -> Report:
        """On all that is kept, or on what ended after `begin_ns`. Raises ``InputError`` where no op of that time is in
        both captures."""
        parts = [one for one in self._parts if begin_ns is None or one.end_ns > begin_ns]
        if not parts:
            raise InputError("nothing of that time is kept")
        return report_of(_merged(parts), Tool(__version__, NAME, "nfslat live", SRT))


def _merged(parts: Sequence[_Part]) -> Whole:
    whole = Whole.merge([one.whole for one in parts])
    whole.end()
    return whole
