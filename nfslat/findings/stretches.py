"""What is said of parts of the operations, each by itself -> causes and verdict of several together.

What a finding explains is added up, and its share is of the time of all operations. It keeps the words of the stretch
in which it explains most. What is seen once and explains no share of the mean (a pause, a lost connection) is of the
whole; a limit has to be at work for half of the time.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from typing import Generic, TypeVar

from msgspec import structs

from nfslat.answer.model import HostPair, Phase, Verdict
from nfslat.findings.catalogue import row
from nfslat.findings.diagnosis import Diagnosis
from nfslat.findings.facts import MATTERS
from nfslat.findings.layers import Layers
from nfslat.findings.rank import ranked
from nfslat.findings.server import Queue
from nfslat.findings.verdict import Ground, verdict
from nfslat.findings.words import percent
from nfslat.model.record import Record
from nfslat.model.units import iso, utc

_AT_WORK = 0.5  # of the time: a limit that was seen for less is not the whole's
_CERTAIN = 0.9  # of what a finding explains
_SLOWEST = 0.01
_DIGITS = 3
RowT = TypeVar("RowT", bound=Phase | HostPair)


class Stretch(Record, Generic[RowT]):
    """Some of the operations, a phase or those of two hosts: a part of all (`nfslat.findings.parts.Part`)."""

    words: str  # which operations these are
    row: RowT
    causes: list[Diagnosis]
    verdict: Verdict
    mean: Layers  # as the verdict has it
    slowest: Layers  # of the slowest 1 %
    ground: Ground
    begin_ns: int = 0  # client's clock; 0: not known
    end_ns: int = 0

    @property
    def time_ms(self) -> float:
        """All response times."""
        return self.row.ops * self.mean.total_ms

    @property
    def slowest_ms(self) -> float:
        """Those of its slowest 1 %."""
        return max(self.row.ops * _SLOWEST, 1.0) * self.slowest.total_ms

    @property
    def said(self) -> tuple[object, ...]:
        """What the next stretch must say to be one with it."""
        return self.verdict.largest_layer, self.verdict.cause, self.row.threads_estimate, self.verdict.outcome


def in_runs(stretches: Sequence[Stretch[RowT]]) -> list[Stretch[RowT]]:
    """Stretches in a row of which the same is said become one."""
    return [joined(list(same)) for _, same in itertools.groupby(stretches, key=lambda stretch: stretch.said)]


def in_pairs(stretches: Sequence[Stretch[RowT]]) -> list[Stretch[RowT]]:
    """Half as many, of which each is two neighbours."""
    return [joined(stretches[at : at + 2]) for at in range(0, len(stretches), 2)]


def joined(stretches: Sequence[Stretch[RowT]]) -> Stretch[RowT]:
    """Several as one. Raises ``IndexError`` where there are none."""
    if len(stretches) == 1:
        return stretches[0]
    ops = [stretch.row.ops for stretch in stretches]
    mean, slowest = (_mean(layers, ops) for layers in zip(*((one.mean, one.slowest) for one in stretches), strict=True))
    causes, ground = causes_of(stretches, mean), ground_of(stretches)
    said = verdict(mean, slowest, ground, causes)
    begin_ns, end_ns = min(one.begin_ns for one in stretches), max(one.end_ns for one in stretches)
    of_all = rows_joined([stretch.row for stretch in stretches])
    if isinstance(of_all, Phase):
        of_all = structs.replace(of_all, begin=iso(begin_ns), end=iso(end_ns))
    of_all, words = with_verdict(of_all, said), stretches[0].words
    return Stretch(words, of_all, causes, said, mean, slowest, ground, begin_ns, end_ns)


def with_verdict(figures: RowT, said: Verdict) -> RowT:
    """The row with what is said of it."""
    return structs.replace(
        figures,
        outcome=said.outcome,
        layer=said.layer,
        largest_layer=said.largest_layer,
        cause=said.cause,
        text=said.text,
    )


def rows_joined(rows: Sequence[RowT]) -> RowT:
    """That with most of the time, with the means of all. Raises ``ValueError`` where there are none."""
    ops = [figures.ops for figures in rows]
    return structs.replace(
        max(rows, key=lambda figures: figures.ops * figures.client_ms),
        ops=sum(ops),
        time_share=sum(figures.time_share for figures in rows),
        client_ms=_weighted([figures.client_ms for figures in rows], ops),
        server_ms=_weighted([figures.server_ms for figures in rows], ops),
        network_ms=_weighted([figures.network_ms for figures in rows], ops),
    )


def mean_of(stretches: Sequence[Stretch[RowT]]) -> Layers:
    """Mean times over the operations of all."""
    return _mean([stretch.mean for stretch in stretches], [stretch.row.ops for stretch in stretches])


def ground_of(stretches: Sequence[Stretch[RowT]]) -> Ground:
    """What a verdict on all of them stands on: that of the one with most of the time, and what speaks against any.
    Operations that are not shown matter where they do for half of the time."""
    ops, some = [stretch.row.ops for stretch in stretches], [stretch.ground for stretch in stretches]
    reckoned = [stretch for stretch in stretches if stretch.ground.unseen is not None]
    is_reckoned = _time_ms(reckoned) >= _AT_WORK * _time_ms(stretches)
    most = max(reckoned if is_reckoned and reckoned else stretches, key=lambda stretch: stretch.time_ms).ground
    return most._replace(
        ops=sum(ops),
        complete=_weighted([ground.complete for ground in some], ops),
        incomplete="",
        negative=sum(ground.negative for ground in some),
        clock_fits=all(ground.clock_fits for ground in some),
        late=sorted(set(itertools.chain.from_iterable(ground.late for ground in some))),
        all_late=any(ground.all_late for ground in some),
        lacks_files=any(ground.lacks_files for ground in some),
        idle=_weighted([ground.idle for ground in some], ops),
        unseen_explain=any(ground.unseen_explain for ground in some),
        unseen=most.unseen if is_reckoned else None,
    )


def causes_of(stretches: Sequence[Stretch[RowT]], mean: Layers) -> list[Diagnosis]:
    """What was found in any of them, ranked; `mean` is over the operations of all."""
    having: dict[tuple[str, str], list[tuple[Stretch[RowT], Diagnosis]]] = {}
    for stretch in stretches:
        for cause in stretch.causes:
            having.setdefault((cause.code, cause.layer), []).append((stretch, cause))
    time_ms, slowest_ms = max(_time_ms(stretches), 1e-9), max(sum(stretch.slowest_ms for stretch in stretches), 1e-9)
    return ranked((_of_all(some, time_ms, slowest_ms, mean) for some in having.values()), mean.total_ms)


def _of_all(
    having: list[tuple[Stretch[RowT], Diagnosis]], time_ms: float, slowest_ms: float, mean: Layers
) -> Diagnosis:
    """A finding, with the stretches that have it; `time_ms` and `slowest_ms` are of all stretches."""
    explained_ms = [stretch.time_ms * (1.0 if cause.share is None else cause.share) for stretch, cause in having]
    most, found = having[max(range(len(having)), key=explained_ms.__getitem__)]
    shares = [(stretch.time_ms, cause.share) for stretch, cause in having if cause.share is not None]
    tails = [(stretch.slowest_ms, cause.slowest) for stretch, cause in having if cause.slowest is not None]
    share = sum(ms * part for ms, part in shares) / time_ms if shares else None
    slowest = sum(ms * part for ms, part in tails) / slowest_ms if tails else None
    there = _time_ms([stretch for stretch, _ in having]) / time_ms
    known = [part for part in (share, slowest) if part is not None]
    matters = max(known) >= MATTERS if known else bool(row(found.code).event) or there >= _AT_WORK
    certain_ms = sum(ms for ms, (_, cause) in zip(explained_ms, having, strict=True) if cause.confidence == "certain")
    when = f"{utc(most.begin_ns, _DIGITS)} to {utc(most.end_ns, _DIGITS)}"
    evidence = found.evidence
    if slowest is not None and hasattr(evidence, "share_slowest"):
        evidence = structs.replace(evidence, share_slowest=slowest)
    if isinstance(evidence, Queue) and mean.queue_ms is not None:
        in_thread_ms = mean.server_ms - mean.queue_ms
        evidence = structs.replace(
            evidence, queue_ms=mean.queue_ms, in_thread_ms=in_thread_ms, server_ms=mean.server_ms
        )
    return structs.replace(
        found,
        severity="warning" if matters else "info",
        share=share,
        slowest=slowest,
        confidence="certain" if certain_ms >= _CERTAIN * sum(explained_ms) > 0 else "likely",
        text=f"in stretches with {percent(there)} of the time, and most from {when}: {found.text}",
        evidence=evidence,
        gain=None,
    )


def _time_ms(stretches: Sequence[Stretch[RowT]]) -> float:
    return sum(stretch.time_ms for stretch in stretches)


def _mean(some: Sequence[Layers], ops: Sequence[int]) -> Layers:
    def by_layer(parts: Sequence[Mapping[str, float]]) -> dict[str, float]:
        layers = dict.fromkeys(itertools.chain.from_iterable(parts))
        return {layer: _weighted([part.get(layer, 0.0) for part in parts], ops) for layer in layers}

    above = [layers.client_ms for layers in some if layers.client_ms is not None]
    waits = [(layers.queue_ms, count) for layers, count in zip(some, ops, strict=True) if layers.queue_ms is not None]
    return Layers(
        server_ms=_weighted([layers.server_ms for layers in some], ops),
        network_ms=_weighted([layers.network_ms for layers in some], ops),
        client_ms=_weighted([layers.client_ms or 0.0 for layers in some], ops) if above else None,
        ops=next((layers.ops for layers in some if layers.ops), ""),
        moved_ms=by_layer([layers.moved_ms for layers in some]),
        kept_ms=by_layer([layers.kept_ms for layers in some]),
        put_off_ms=by_layer([layers.put_off_ms for layers in some]),
        queue_ms=_weighted(*map(list, zip(*waits, strict=True))) if waits else None,
    )


def _weighted(values: Sequence[float], weights: Sequence[float]) -> float:
    """The mean; 0 where nothing has a weight."""
    return sum(value * weight for value, weight in zip(values, weights, strict=True)) / max(sum(weights), 1e-9)
