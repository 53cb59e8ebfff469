"""Stretches of time -> what began and what ended in them: a condition that is met, a cause; and how long it lasts."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from nfslat.answer.model import Report
from nfslat.errors import NfslatError
from nfslat.findings import catalogue
from nfslat.findings.words import lowered
from nfslat.flow.pairs import Pair
from nfslat.live.baseline import Baseline
from nfslat.live.rows import Row
from nfslat.live.watch import Event, Stretch, Watched

_OVER = 2  # stretches in a row without it: it has ended. After one it may go on
_MOST = 0.5  # of the mean: what explains as much is seen in what its layer takes
_AS_BEFORE = 0.5  # of the time that its layer took when it was named last
_EVENTS = frozenset(("pause", "no-connection"))  # over when they are not seen, whatever operations take


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

    def ended(self, *, holds: bool, may_go_on: bool = False) -> Event | None:
        """What has ended, with this stretch; not with one in which it may go on."""
        if holds or self.event is None:
            return None
        self._without += 1
        if self._without < _OVER or may_go_on:
            return None
        over, self.event = self.event, None
        return over


class Course:
    """Causes that began and ended."""

    def __init__(self) -> None:
        """None is there."""
        self._causes: dict[str, _Named] = {}
        self._before: str | None = None  # what the stretch before named

    def is_news(self, row: Row) -> bool:
        """Does a stretch name a cause that does not last yet, or an event, each of which is one by itself?"""
        cause = _cause_of(row)
        return cause is not None and (not self._lasts(cause) or _event_of(row) in _EVENTS)

    def is_mixed(self, row: Row) -> bool:
        """Does it name a cause for the first time while another one lasts? That one may end in it, and what is left of
        it and what came after it may look like anything. An event is seen by itself, whatever else there is."""
        cause = _cause_of(row)
        if cause is None or self._lasts(cause) or cause == self._before or _event_of(row) in _EVENTS:
            return False
        return any(named.lasting.event is not None for named in self._causes.values())

    def add(self, pair: Pair, row: Row, report: Report | None = None) -> tuple[list[Event], list[Event]]:
        """What began with a stretch, and what ended."""
        if not row.ops or row.gap is not None:
            return [], []
        now, is_mixed, is_over = _cause_of(row), self.is_mixed(row), _ends_in(row.cause, report)
        self._before = now
        if now is not None:
            self._causes.setdefault(now, _Named(Lasting(now))).see(row, report)
        began, ended = [], []
        for cause, named in list(self._causes.items()):
            is_named = cause == now
            if named.lasting.began(pair, holds=is_named and not is_mixed) and named.lasting.event is not None:
                began.append(named.lasting.event)
            over = named.lasting.ended(holds=is_named and not is_over, may_go_on=named.may_go_on(row, report))
            if over is not None:
                ended.append(over)
                del self._causes[cause]
        return began, ended

    def _lasts(self, cause: str) -> bool:
        named = self._causes.get(cause)
        return named is not None and named.lasting.event is not None


def _cause_of(row: Row) -> str | None:
    """What a stretch names."""
    is_judged = row.ops > 0 and row.gap is None
    return row.cause if is_judged and row.outcome == "fault" and row.confidence != "low" else None


def _ends_in(cause: str | None, report: Report | None) -> bool:
    """Is a cause in an earlier part of the stretch alone, and the last one healthy?"""
    phases = [] if report is None else report.phases
    return bool(phases) and phases[-1].outcome == "no-fault" and any(phase.cause == cause for phase in phases[:-1])


@dataclass
class _Named:
    """A cause, and what its layer took when it was named last, if that tells whether it is there."""

    lasting: Lasting
    layer: str | None = None
    layer_ms: float | None = None

    def see(self, row: Row, report: Report | None) -> None:
        """A stretch in which it leads."""
        verdict = None if report is None else report.verdict
        is_most = verdict is not None and (verdict.share or 0.0) >= _MOST and _event_of(row) not in _EVENTS
        self.layer, self.layer_ms = row.layer, _of_layer(row.layer, row) if is_most else None

    def may_go_on(self, row: Row, report: Report | None) -> bool:
        """In a stretch of which it cannot be told what is at fault: does it show the cause as well, or is its layer as
        slow as before?"""
        if self.lasting.event is None or row.outcome != "undecided":
            return False
        shown = () if report is None else [one.code for one in report.findings if one.severity == "warning"]
        if self.lasting.event.what in shown:
            return True
        took_ms = _of_layer(self.layer, row)
        return took_ms is not None and self.layer_ms is not None and took_ms >= _AS_BEFORE * self.layer_ms


def _event_of(row: Row) -> str:
    """What its cause is in a chart."""
    return "" if row.cause is None else catalogue.row(row.cause).event


def _of_layer(layer: str | None, row: Row) -> float | None:
    """What an operation spends there, ms, where packets show it."""
    return {"network": row.network_ms, "server": row.server_ms}.get(layer or "")


def followed(
    stretches: Iterable[Stretch], baseline: Baseline | None = None, watch: Watched | None = None
) -> Iterator[Stretch]:
    """The same, each with the causes that began and ended with it, and whether the baseline has its cause. A cause that
    is new is held against the packets that `watch` holds."""
    course = Course()
    for plain in stretches:
        is_held_against = watch is not None and course.is_news(plain.row)
        stretch = held_against_packets(plain, watch) if watch is not None and is_held_against else plain
        is_mixed = course.is_mixed(stretch.row)
        began, ended = course.add(stretch.pair, stretch.row, stretch.answer)
        is_new = baseline is not None and stretch.row.outcome == "fault" and baseline.is_new(stretch.row.cause)
        yield dataclasses.replace(stretch, began=tuple(began), ended=tuple(ended), is_new=is_new, is_mixed=is_mixed)
        del plain, stretch


def held_against_packets(stretch: Stretch, watch: Watched) -> Stretch:
    """The same with the verdict of the report that a moment has which begins here. Where that finds no fault, none is
    named, unless packets of the stretch are missing; where there is no such report, it stays what it is."""
    pair, own = stretch.pair, stretch.row
    tried = []
    for span_ns in watch.moment_spans_ns(pair.begin_ns, pair.end_ns, stretch.report):
        try:
            on_packets = watch.on_packets(span_ns)
        except (NfslatError, OSError):
            continue
        row = _answered(own, on_packets.report)
        if row.outcome != "fault" and (on_packets.from_ns or 0) > pair.begin_ns:
            continue
        tried.append(dataclasses.replace(stretch, row=row, on_packets=on_packets))
        if _cause_of(row) == own.cause:
            return tried[-1]
    return tried[0] if tried else stretch


def _answered(row: Row, report: Report) -> Row:
    """A row of a fault, with what the report on packets says of that."""
    verdict = report.verdict
    if verdict is not None and verdict.outcome == "fault":
        return dataclasses.replace(
            row,
            outcome=verdict.outcome,
            layer=verdict.layer,
            cause=verdict.cause,
            confidence=verdict.confidence,
            text=verdict.text,
        )
    other = "no verdict follows" if verdict is None else lowered(verdict.text)
    text = f"By itself this stretch says: {lowered(row.text)} With the packets before and behind it: {other}"
    return dataclasses.replace(row, outcome="undecided", layer=None, cause=None, confidence="low", text=text)
