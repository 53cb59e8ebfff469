"""What was judged of windows, or of stretches of them -> causes and verdict of all: what each explains is added up.

A cause keeps the words of the stretch in which it explains most, which it names. What is seen once and explains no
share of the mean (a pause, a lost connection) is of the whole; a limit has to be at work for half of the time.
"""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Self

from nfslat.answer import model
from nfslat.figures.findings import Judged
from nfslat.findings.catalogue import row
from nfslat.findings.diagnosis import Diagnosis
from nfslat.findings.facts import MATTERS
from nfslat.findings.layers import Layers
from nfslat.findings.rank import ranked
from nfslat.findings.server import Queue
from nfslat.findings.unseen import WithUnseen
from nfslat.findings.verdict import Ground, verdict
from nfslat.findings.words import percent
from nfslat.model.units import utc
from nfslat.windows.fold import weighted

_AT_WORK = 0.5  # of the time: a limit that was seen for less is not the whole's
_CERTAIN = 0.9  # of what a cause explains
_DIGITS = 3


@dataclass(frozen=True)
class Cause:
    """A finding of one or more windows."""

    most: Diagnosis  # as the window has it in which it explains most
    most_ms: float  # there, of all ops' time
    begin_ns: int  # of that window
    end_ns: int
    ns: float  # of the client's time in the windows that have it
    ms: float | None  # that it explains, of all ops' time; None: not known
    certain_ms: float  # of that, where it is certain
    tail: tuple[tuple[int, float], ...]  # stretch, and its share of the slowest there

    @classmethod
    def of(cls, found: Diagnosis, judged: Judgement) -> Self:
        """Of one window."""
        explains = None if found.share is None else found.share * judged.mean.total_ms * judged.ops
        weight = judged.client_ns / 1e6 if explains is None else explains
        return cls(
            most=found,
            most_ms=weight,
            begin_ns=judged.begin_ns,
            end_ns=judged.end_ns,
            ns=judged.client_ns,
            ms=explains,
            certain_ms=weight if found.confidence == "certain" else 0.0,
            tail=() if found.slowest is None else ((judged.stretches.start, found.slowest),),
        )

    @classmethod
    def merge(cls, some: Sequence[Self]) -> Self:
        """Of the same finding in several windows."""
        most = max(some, key=lambda one: one.most_ms)
        known = [one.ms for one in some if one.ms is not None]
        return dataclasses.replace(
            most,
            ns=sum(one.ns for one in some),
            ms=sum(known) if known else None,
            certain_ms=sum(one.certain_ms for one in some),
            tail=tuple(itertools.chain.from_iterable(one.tail for one in some)),
        )


@dataclass(frozen=True)
class Judgement:
    """What was judged of one window, or of several in a row."""

    begin_ns: int  # client's clock
    end_ns: int
    stretches: range  # their numbers
    ops: int
    client_ns: float  # of all of them
    mean: Layers
    ground: Ground
    said: tuple[str | None, str | None, int | None, str]  # largest layer, cause, threads, outcome
    most_ns: float  # of the stretch that has most of the time, and speaks for all
    threads: int | None  # for which calls wait
    causes: dict[str, Cause] = field(default_factory=dict)
    unseen_ns: float = 0.0  # of the ops where those that are not shown matter

    @classmethod
    def of(
        cls, found: Judged, number: int, when_ns: tuple[int, int], ops: int, client_ns: float, threads: int | None
    ) -> Self:
        """Of one stretch."""
        verdict = found.verdict
        now = cls(
            begin_ns=when_ns[0],
            end_ns=when_ns[1],
            stretches=range(number, number + 1),
            ops=ops,
            client_ns=client_ns,
            mean=found.mean,
            ground=found.ground,
            said=(verdict.largest_layer, verdict.cause, threads, verdict.outcome),
            most_ns=client_ns,
            threads=threads,
            unseen_ns=0.0 if found.ground.unseen is None else client_ns,
        )
        return now.with_causes(found.causes)

    @property
    def rests_on(self) -> Ground:
        """Ops that are not shown matter to all of it where they do for half of the time."""
        return self.ground if self.unseen_ns >= _AT_WORK * self.client_ns else self.ground._replace(unseen=None)

    def with_causes(self, found: Sequence[Diagnosis]) -> Self:
        """The same, and what was found besides."""
        more = {f"{one.code} {one.layer}": Cause.of(one, self) for one in found}
        return dataclasses.replace(self, causes=self.causes | more)

    @classmethod
    def merge(cls, some: Sequence[Self]) -> Self:
        """Of windows in a row. Raises ``ValueError`` where there are none."""
        if len(some) == 1:
            return some[0]
        ops = [one.ops for one in some]
        time = [one.client_ns for one in some]
        most = max(some, key=lambda one: one.most_ns)
        codes = dict.fromkeys(itertools.chain.from_iterable(one.causes for one in some))
        return dataclasses.replace(
            most,
            begin_ns=min(one.begin_ns for one in some),
            end_ns=max(one.end_ns for one in some),
            stretches=range(some[0].stretches.start, some[-1].stretches.stop),
            ops=sum(ops),
            client_ns=sum(time),
            mean=_mean([one.mean for one in some], ops),
            ground=_ground([one.ground for one in some], ops),
            unseen_ns=sum(one.unseen_ns for one in some),
            causes={code: Cause.merge([one.causes[code] for one in some if code in one.causes]) for code in codes},
        )


def _mean(some: Sequence[Layers], ops: Sequence[float]) -> Layers:
    """Over the ops of all. What the application measured is of no window, and is not there."""
    layers = sorted(set(itertools.chain.from_iterable(one.moved_ms for one in some)))
    return Layers(
        server_ms=weighted([one.server_ms for one in some], ops) or 0.0,
        network_ms=weighted([one.network_ms for one in some], ops) or 0.0,
        moved_ms={layer: weighted([one.moved_ms.get(layer, 0.0) for one in some], ops) or 0.0 for layer in layers},
        kept_ms=_by_layer([one.kept_ms for one in some], ops),
        put_off_ms=_by_layer([one.put_off_ms for one in some], ops),
        queue_ms=weighted([one.queue_ms for one in some], ops),
    )


def _by_layer(some: Sequence[object], ops: Sequence[float]) -> dict[str, float]:
    known: list[dict[str, float]] = [dict(one) for one in some]  # type: ignore[call-overload]
    layers = sorted(set(itertools.chain.from_iterable(known)))
    return {layer: weighted([one.get(layer, 0.0) for one in known], ops) or 0.0 for layer in layers}


def _ground(some: Sequence[Ground], ops: Sequence[int]) -> Ground:
    unseen = [one.unseen for one in some if one.unseen is not None]
    share = [one.complete for one in some]
    return Ground(
        ops=sum(ops),
        complete=weighted(share, ops) or 0.0,
        incomplete="",
        negative=sum(one.negative for one in some),
        clock_fits=all(one.clock_fits for one in some),
        late=sorted(set(itertools.chain.from_iterable(one.late for one in some))),
        all_late=any(one.all_late for one in some),
        lacks_files=any(one.lacks_files for one in some),
        long_ms=weighted([one.long_ms for one in some], ops) or 0.0,
        idle=weighted([one.idle for one in some], ops) or 0.0,
        unseen_explain=any(one.unseen_explain for one in some),
        unseen=_unseen(unseen) if unseen else None,
    )


def _unseen(some: Sequence[WithUnseen]) -> WithUnseen:
    """Over the windows in which ops that are not shown matter."""
    ops = [one.ops / one.share if one.share else one.ops or 1 for one in some]  # with those that are shown

    def bounds(pairs: Sequence[tuple[float, float]]) -> tuple[float, float]:
        low, high = (weighted([one[end] for one in pairs], ops) or 0.0 for end in (0, 1))
        return low, high

    return WithUnseen(
        ops=sum(one.ops for one in some),
        share=weighted([one.share for one in some], ops) or 0.0,
        share_of_time=bounds([one.share_of_time for one in some]),
        seen=_mean([one.seen for one in some], ops),
        wire_ms=bounds([one.wire_ms for one in some]),
        server_ms=bounds([one.server_ms for one in some]),
    )


def told(
    of: Judgement,
    mean: Layers,
    slowest: Layers | None,
    slow: dict[int, float],
    objectives: Sequence[model.Objective] = (),
) -> tuple[list[Diagnosis], model.Verdict]:
    """Its causes, ranked, and the verdict. `slow`: which share of the time of the slowest ops is in which stretch."""
    found = ranked((_as_one(one, of, mean, slow) for one in of.causes.values()), mean.total_ms)
    return found, verdict(mean, slowest, of.rests_on, found, objectives)


def _as_one(cause: Cause, of: Judgement, mean: Layers, slow: dict[int, float]) -> Diagnosis:
    found = cause.most
    if len(of.stretches) == 1:
        return found
    share = None if cause.ms is None else cause.ms / max(of.ops * mean.total_ms, 1e-9)
    slowest = sum(slow.get(stretch, 0.0) * one for stretch, one in cause.tail) if cause.tail else None
    known = [one for one in (share, slowest) if one is not None]
    matters = max(known) >= MATTERS if known else bool(row(found.code).event) or cause.ns >= _AT_WORK * of.client_ns
    explained = cause.ms if cause.ms is not None else sum([cause.ns]) / 1e6
    is_certain = explained > 0 and cause.certain_ms >= _CERTAIN * explained
    when = f"{utc(cause.begin_ns, _DIGITS)} to {utc(cause.end_ns, _DIGITS)}"
    where = f"in windows with {percent(cause.ns / max(of.client_ns, 1.0))} of the time, and most from {when}: "
    evidence = found.evidence
    if slowest is not None and hasattr(evidence, "share_slowest"):
        evidence = dataclasses.replace(evidence, share_slowest=slowest)  # type: ignore[call-arg]  # see `Evidence`
    if isinstance(evidence, Queue) and mean.queue_ms is not None:
        evidence = dataclasses.replace(
            evidence,
            queue_ms=mean.queue_ms,
            in_thread_ms=mean.server_ms - mean.queue_ms,
            server_ms=mean.server_ms,
        )
    return dataclasses.replace(
        found,
        severity="warning" if matters else "info",
        share=share,
        slowest=slowest,
        confidence="certain" if is_certain else "likely",
        text=where + found.text,
        evidence=evidence,
        gain=None,
    )
