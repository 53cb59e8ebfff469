"""Stretches of time -> what began and what ended in them: a condition that is met, a cause; and how long it lasts."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Iterator

from nfslat.answer.model import Report, Verdict
from nfslat.errors import NfslatError
from nfslat.findings import catalogue
from nfslat.findings.words import lowered
from nfslat.flow.pairs import Pair
from nfslat.live.baseline import Baseline
from nfslat.live.rows import Row
from nfslat.live.watch import Event, OnPackets, Stretch, Watched
from nfslat.model.units import NS_PER_S

_STRETCHES_OF_END = 2  # in a row without it: it has ended. After one it may go on
_LEAST_SHARE = 0.5  # of the mean: what explains as much is seen in what its layer takes
_LEAST_SILENCE_NS = 10 * NS_PER_S  # a call that is older leads a verdict
_LEAST_OF_LAYER = 0.5  # of the time that its layer took when it was named last
_EVENTS = frozenset(("pause", "no-connection"))  # over when they are not seen, whatever operations take


class Lasting:
    """What a stretch shows or not. Stretches in which nothing happened say nothing of it."""

    def __init__(self, what: str, for_ns: int = 0) -> None:
        """It has begun when it was there for `for_ns` without a break."""
        self._what, self._for_ns = what, for_ns
        self.event: Event | None = None  # as long as it lasts
        self._since_ns: int | None = None  # when the first of stretches in a row began that show it
        self._without = 0

    def began(self, pair: Pair, *, holds: bool) -> Event | None:
        """What has begun, with this stretch."""
        if not holds:
            self._since_ns = None
            return None
        self._since_ns = pair.begin_ns if self._since_ns is None else self._since_ns
        self._without = 0
        is_new = self.event is None
        begin_ns = self._since_ns if self.event is None else self.event.begin_ns
        if not is_new or pair.end_ns - begin_ns >= self._for_ns:
            self.event = Event(self._what, begin_ns, pair.end_ns)
        return self.event if is_new else None

    def ended(self, *, holds: bool, may_go_on: bool = False) -> Event | None:
        """What has ended, with this stretch; not with one in which it may go on."""
        if holds or self.event is None:
            return None
        self._without += 1
        if self._without < _STRETCHES_OF_END or may_go_on:
            return None
        over, self.event = self.event, None
        return over


class _Cause(Lasting):
    """A cause, and what its layer took when it was named last, if that tells whether it is there."""

    _layer: str | None = None
    _layer_ms: float | None = None

    def see(self, row: Row, report: Report | None) -> None:
        """A stretch in which it leads."""
        verdict = None if report is None else report.verdict
        is_most = verdict is not None and (verdict.share or 0.0) >= _LEAST_SHARE and not _is_event(row)
        self._layer, self._layer_ms = row.layer, _in_layer_ms(row.layer, row) if is_most else None

    def may_go_on(self, row: Row, report: Report | None) -> bool:
        """In a stretch of which it cannot be told what is at fault: does it show the cause as well, or is its layer as
        slow as before?"""
        if self.event is None or row.outcome != "undecided":
            return False
        findings = [] if report is None else report.findings
        if any(finding.code == self.event.what and finding.severity == "warning" for finding in findings):
            return True
        took_ms = _in_layer_ms(self._layer, row)
        return took_ms is not None and self._layer_ms is not None and took_ms >= _LEAST_OF_LAYER * self._layer_ms


class Course:
    """Causes that began and ended."""

    def __init__(self) -> None:
        self._causes: dict[str, _Cause] = {}
        self._before: str | None = None  # what the stretch before named

    def is_news(self, row: Row) -> bool:
        """Does a stretch name a cause that does not last yet, or an event, each of which is one by itself?"""
        return row.named is not None and (not self._lasts(row.named) or _is_event(row))

    def is_mixed(self, row: Row) -> bool:
        """Does it name a cause for the first time while another one lasts? That one may end in it, and what is left of
        it and what came after it may look like anything. An event is seen by itself, whatever else there is."""
        if row.named in (None, self._before) or not self.is_news(row) or _is_event(row):
            return False
        return any(cause.event is not None for cause in self._causes.values())

    def add(self, pair: Pair, row: Row, report: Report | None = None) -> tuple[list[Event], list[Event]]:
        """What began with a stretch, and what ended."""
        if (not row.ops and row.named is None) or row.gap is not None:
            return [], []
        is_mixed, is_over, self._before = self.is_mixed(row), _ends_in(row.cause, report), row.named
        if row.named is not None:
            self._causes.setdefault(row.named, _Cause(row.named)).see(row, report)
        began, ended = [], []
        for name, cause in list(self._causes.items()):
            is_named = name == row.named
            began.append(cause.began(pair, holds=is_named and not is_mixed))
            ended.append(cause.ended(holds=is_named and not is_over, may_go_on=cause.may_go_on(row, report)))
            if ended[-1] is not None:
                del self._causes[name]
        return [event for event in began if event], [event for event in ended if event]

    def _lasts(self, name: str) -> bool:
        return name in self._causes and self._causes[name].event is not None


def _ends_in(cause: str | None, report: Report | None) -> bool:
    """Is a cause in an earlier part of the stretch alone, and the last one healthy?"""
    phases = [] if report is None else report.phases
    return bool(phases) and phases[-1].outcome == "no-fault" and any(phase.cause == cause for phase in phases[:-1])


def _is_event(row: Row) -> bool:
    """Is its cause over when it is not seen?"""
    return row.cause is not None and catalogue.row(row.cause).event in _EVENTS


def _in_layer_ms(layer: str | None, row: Row) -> float | None:
    """What an operation spends there, where packets show it."""
    return {"network": row.network_ms, "server": row.server_ms}.get(layer or "")


def followed(
    stretches: Iterable[Stretch], baseline: Baseline | None = None, watch: Watched | None = None
) -> Iterator[Stretch]:
    """The same, each with the causes that began and ended with it, and whether the baseline has its cause. A cause that
    is new is held against the packets that `watch` holds."""
    course, silence = Course(), _Silence()
    for shown in stretches:
        plain = shown if watch is None else silence.add(shown, watch)
        stretch = plain
        if watch is not None and plain.on_packets is None and course.is_news(plain.row):
            stretch = held_against_packets(plain, watch)
        is_mixed = course.is_mixed(stretch.row)
        began, ended = course.add(stretch.pair, stretch.row, stretch.answer)
        is_new = baseline is not None and stretch.row.outcome == "fault" and baseline.is_new(stretch.row.cause)
        yield dataclasses.replace(stretch, began=tuple(began), ended=tuple(ended), is_new=is_new, is_mixed=is_mixed)
        del shown, plain, stretch


class _Silence:
    """Stretches in a row in which no operation ends: are there calls that nobody answers? Asked where something is
    sent in them, and where nothing is when the silence is `_LEAST_SILENCE_NS` long, twice that, and so on."""

    def __init__(self) -> None:
        self._since_ns: int | None = None  # when the last stretch with operations began
        self._ask_ns = 0  # when it is asked again
        self._hang: tuple[Verdict, OnPackets] | None = None  # as it was named first, and the packets that say so

    def add(self, stretch: Stretch, watch: Watched) -> Stretch:
        """The same, with what hangs by the packets since operations ended last, where that leads."""
        pair, row = stretch.pair, stretch.row
        if row.ops or row.gap is not None:
            self._since_ns, self._hang, self._ask_ns = pair.begin_ns, None, pair.end_ns + _LEAST_SILENCE_NS
            return stretch
        if self._since_ns is None:
            self._since_ns, self._ask_ns = pair.begin_ns, pair.begin_ns + _LEAST_SILENCE_NS
        if self._hang is not None:
            verdict, on_packets = self._hang
            return dataclasses.replace(stretch, row=row.judged(verdict), on_packets=on_packets)
        if not row.payload_bytes and pair.end_ns < self._ask_ns:
            return stretch
        self._ask_ns = max(self._ask_ns, 2 * pair.end_ns - self._since_ns)
        try:
            on_packets = watch.on_packets((self._since_ns, pair.end_ns))
        except (NfslatError, OSError):
            return stretch
        hang = on_packets.report.verdict
        if hang is None or hang.cause not in catalogue.HANGS or hang.outcome != "fault":
            return stretch
        self._hang = hang, on_packets
        return dataclasses.replace(stretch, row=row.judged(hang), on_packets=on_packets)


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
        if row.named == own.cause:
            return tried[-1]
    return tried[0] if tried else stretch


def _answered(row: Row, report: Report) -> Row:
    """A row of a fault, with what the report on packets says of that."""
    verdict = report.verdict
    if verdict is not None and verdict.outcome == "fault":
        return row.judged(verdict)
    other = "no verdict follows" if verdict is None else lowered(verdict.text)
    return row.undecided(
        f"By itself this stretch says: {lowered(row.text)} With the packets before and behind it: {other}"
    )
