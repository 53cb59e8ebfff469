"""An `Analysis` -> the spans of time in which its ops are alike, and a row for each with what is said of it."""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Sequence
from typing import NamedTuple, Protocol

import numpy as np

from nfslat.answer import model
from nfslat.figures.findings import Judged
from nfslat.figures.matched import begins_ns
from nfslat.findings.catalogue import CAUSE
from nfslat.findings.diagnosis import Diagnosis, Gain
from nfslat.findings.facts import MATTERS
from nfslat.findings.layers import Layers
from nfslat.findings.leads import VAGUE
from nfslat.findings.network import BETWEEN
from nfslat.findings.put_off import PUT_OFF_CODES
from nfslat.findings.rank import ranked
from nfslat.findings.server import THREADS, UNKNOWN
from nfslat.findings.slow_ops import SLOW_OPS, STORAGE
from nfslat.findings.verdict import where_it_goes
from nfslat.findings.words import lowered, percent
from nfslat.inflight.changes import changes
from nfslat.model.blocks import largest
from nfslat.model.tables import I64
from nfslat.model.units import iso, to_ms, utc
from nfslat.results import Analysis

_LEADS = 0.5  # of the time: what is said of that phase is said first
_NAMES = 1 / 3  # where of the whole only that some ops are slow is known, and the phase knows why
_VAGUE = (SLOW_OPS, BETWEEN, UNKNOWN)
_EDGE = 0.05  # of a phase: where it borders on another one, calls of both are under way
_DIGITS = 3


class Span(NamedTuple):
    """From the first call of a phase to that of the next one, ns on the client's clock; None: the capture's edge."""

    begin_ns: int | None
    end_ns: int | None
    edge_ns: int  # of it, where it borders on another one

    @property
    def inside_ns(self) -> tuple[int | None, int | None]:
        """Begin and end of it without what borders on other phases."""
        return (
            None if self.begin_ns is None else self.begin_ns + self.edge_ns,
            None if self.end_ns is None else self.end_ns - self.edge_ns,
        )

    @property
    def words(self) -> str:
        """``from 2026-02-03 14:15:16.123 UTC on``."""
        if self.begin_ns is None:
            return "" if self.end_ns is None else f"until {utc(self.end_ns, _DIGITS)}"
        if self.end_ns is None:
            return f"from {utc(self.begin_ns, _DIGITS)} on"
        return f"from {utc(self.begin_ns, _DIGITS)} to {utc(self.end_ns, _DIGITS)}"


class Told(NamedTuple):
    """What the findings say of one phase."""

    span: Span
    row: model.Phase
    causes: list[Diagnosis]
    verdict: model.Verdict
    judged: Judged | None = None  # what they rest on

    @property
    def words(self) -> str:
        """When it was."""
        return self.span.words

    @property
    def said(self) -> tuple[str | None, str | None, int | None]:
        """Layer, cause, and how many threads its calls wait for."""
        return self.verdict.largest_layer, self.verdict.cause, self.row.threads_estimate


def spans_of(c: Analysis, borders: Sequence[int] | None = None) -> list[Span]:
    """Empty where nothing changes for long. `borders` are where phases begin, ns on the client's clock, if that is
    known already; those that have no op are left out."""
    if not len(c.matched):
        return []
    begins = begins_ns(c)
    borders = _borders(c, begins) if borders is None else borders
    if not borders:
        return []
    first, last = int(begins.min()), int(begins.max())
    spans = []
    for begin, end in itertools.pairwise([None, *borders, None]):
        low, high = first if begin is None else max(begin, first), last if end is None else min(end - 1, last)
        if ((begins >= low) & (begins <= high)).any():
            spans.append(Span(begin, end, int(_EDGE * (high - low))))
    return spans


def _borders(c: Analysis, begins: I64) -> list[int]:
    """By the times of the operation that takes most of the time, for another mix of operations is no other state of the
    hosts."""
    main = np.flatnonzero(c.kind == largest(c.kind, lambda at: np.maximum(c.client_srt_ns[at], 0)))
    rows = main[np.argsort(begins[main], kind="stable")]
    server = c.server_srt_ns[rows]
    return [int(begins[rows[cut]]) for cut in changes([server, c.client_srt_ns[rows] - server])]


def phase_row(
    c: Analysis, inner: Analysis, span: Span, verdict: model.Verdict, inflight: model.InFlight
) -> model.Phase:
    """Of the ops of `c` in `span`; `inner` are those that do not border on another phase, and means are theirs."""
    every = begins_ns(c)
    in_it = np.ones(len(every), dtype=np.bool_)
    if span.begin_ns is not None:
        in_it &= every >= span.begin_ns
    if span.end_ns is not None:
        in_it &= every < span.end_ns
    begins = every[in_it]
    server = inflight.server
    return model.Phase(
        begin=iso(int(begins.min()) if span.begin_ns is None else span.begin_ns),
        end=iso(int(begins.max()) if span.end_ns is None else span.end_ns),
        ops=len(begins),
        time_share=float(c.client_srt_ns[in_it].sum() / max(c.client_srt_ns.sum(), 1)),
        client_ms=float(to_ms(inner.client_srt_ns.mean())),
        server_ms=float(to_ms(inner.server_srt_ns.mean())),
        network_ms=float(to_ms((inner.client_srt_ns - inner.server_srt_ns).mean())),
        outcome=verdict.outcome,
        layer=verdict.layer,
        largest_layer=verdict.largest_layer,
        cause=verdict.cause,
        threads_estimate=server.threads_estimate if server.limited else None,
        text=verdict.text,
    )


def leading(phases: Sequence[Told], whole: model.Verdict | None, threads: int | None) -> Told | None:
    """The phase that makes most of the time, where it and those of which the same is said make half of it or more, and
    what is said of the whole is not what is said of it; less where it names a cause on the same layer, and of the whole
    only some ops are known to be slow. `threads` is what calls of the whole were found to wait for."""
    if not phases or whole is None or whole.cause in PUT_OFF_CODES:
        return None  # what passes between tries is in no phase's response times
    if whole.objectives and whole.outcome == "no-fault":
        return None  # what is met is met, whatever a part of the time took
    most = max(phases, key=lambda one: one.row.time_share)
    if most.verdict.outcome != "fault" and whole.outcome == "fault":
        return None  # the rest of the time has a fault
    of_whole = whole.largest_layer, whole.cause, threads
    is_named = whole.cause is not None and _names(most, whole)
    time_share = sum(one.row.time_share for one in phases if one.said == most.said)
    if time_share < (_NAMES if is_named else _LEADS) or of_whole == most.said:
        return None
    share = f"{percent(most.row.time_share)} of the time"
    when = most.words
    text = f"{when[0].upper()}{when[1:]} ({share}): {lowered(most.verdict.text)}"
    causes = [dataclasses.replace(one, text=f"{when} {one.text}") for one in most.causes]
    verdict = dataclasses.replace(most.verdict, text=text, objectives=whole.objectives)
    others, verdict = with_others(phases, most, verdict, "all response times")
    return most._replace(causes=ranked([*causes, *others], most.row.client_ms), verdict=verdict)


class _Row(Protocol):
    @property
    def ops(self) -> int: ...
    @property
    def client_ms(self) -> float: ...
    @property
    def time_share(self) -> float: ...


class Part(Protocol):
    """Of the ops: a phase, a pair of hosts."""

    @property
    def words(self) -> str:
        """Which ops these are."""

    @property
    def row(self) -> _Row:
        """Their figures."""

    @property
    def causes(self) -> list[Diagnosis]:
        """What was found of them."""

    @property
    def verdict(self) -> model.Verdict:
        """What is said of them."""


def with_others(
    parts: Sequence[Part], most: Part, verdict: model.Verdict, of: str, wire: float = 1.0
) -> tuple[list[Diagnosis], model.Verdict]:
    """Causes of other parts than the one that leads, where that has them not and they matter to the whole; and
    `verdict` with them. `wire` is how much of the whole is on it."""
    found: dict[str, Diagnosis] = {}
    mean_ms = sum(one.row.ops * one.row.client_ms for one in parts) / sum(one.row.ops for one in parts)
    codes = {one.code for one in most.causes}
    for part in sorted(parts, key=lambda one: -one.row.time_share):
        cause = next((one for one in part.causes if one.code == part.verdict.cause), None)
        if part is most or part.verdict.outcome != "fault" or cause is None or cause.code in {*codes, *found}:
            continue
        share = (cause.share or 0.0) * part.row.time_share * wire
        if share >= MATTERS:
            when = part.words
            text = f"{when} {cause.text}"
            found[cause.code] = dataclasses.replace(
                cause,
                share=share,
                slowest=None,
                text=text,
                evidence=cause.evidence.of_part,
                gain=Gain(share * mean_ms / wire, "bound"),
            )
            said = f"{when[0].upper()}{when[1:]}: {lowered(cause.headline)}, {percent(share)} of {of}."
            verdict = dataclasses.replace(verdict, text=f"{verdict.text} {said}", also=[*verdict.also, cause.code])
    return list(found.values()), verdict


def named_by_phase(
    phases: Sequence[Told], causes: list[Diagnosis], verdict: model.Verdict, mean: Layers
) -> tuple[list[Diagnosis], model.Verdict]:
    """`causes` and `verdict` of a whole whose `mean` holds what the application measured, which no phase has: where
    they only know that the layer is slow, and the phase that makes most of the time knows why, its cause is theirs."""
    most = max(phases, key=lambda one: one.row.time_share, default=None)
    if most is None or most.row.time_share < _NAMES or most.verdict.outcome != "fault":
        return causes, verdict
    # A limit above the wire leads a phase without a share; beside the application's time it needs one.
    able = [one for one in most.causes if one.share is not None and one.share >= CAUSE and one.code not in VAGUE]
    cause = next((one for one in able if one.code == most.verdict.cause), next(iter(able), None))
    if cause is None or cause.share is None or verdict.cause == cause.code:
        return causes, verdict
    when = most.words
    wire = (mean.server_ms + mean.network_ms) / mean.total_ms
    share = cause.share * most.row.time_share * wire
    # Of the whole a wait for a thread was not told from the work in one, and of the phase it is.
    is_split = cause.code == THREADS and verdict.cause == STORAGE
    leads = _names(most, verdict) or is_split or share > (verdict.share or 0.0)
    if not leads and not (verdict.outcome == "undecided" and share >= CAUSE):
        also = f"{verdict.text} {when[0].upper()}{when[1:]}: {lowered(cause.headline)}, {percent(share)} of the mean."
        return causes, dataclasses.replace(verdict, text=also, also=[*verdict.also, cause.code])
    told = dataclasses.replace(cause, share=share, text=f"{when} {cause.text}", gain=None)
    same_time = (*_VAGUE, STORAGE) if is_split else _VAGUE
    others = [one for one in causes if one.code not in same_time or one.layer != verdict.largest_layer]
    sure = "low" if most.verdict.confidence == "low" else "medium"
    whole = f"{mean.said(mean.total_ms)} ms of the application's time"
    much = f"{mean.said(share * mean.total_ms)} of {whole} ({percent(share)})"
    text = f"{when[0].upper()}{when[1:]}: {lowered(cause.headline)}: {much}. {where_it_goes(mean)}"
    reasons = [*verdict.reasons, "the application's mean is of all of the time, and the cause of a part of it"]
    named = dataclasses.replace(
        most.verdict,
        layer=cause.layer,
        cause=cause.code,
        also=[],
        share=share,
        share_slowest=None,
        confidence=sure,
        text=text,
        reasons=reasons,
        largest_layer=verdict.largest_layer,
        largest_share=verdict.largest_share,
        largest_share_slowest=None,
        objectives=verdict.objectives,
        proof=verdict.proof,
    )
    more, named = with_others(phases, most, named, "the application's time", wire)
    return ranked([told, *others, *more], mean.total_ms), named


def _names(phase: Told, whole: model.Verdict) -> bool:
    """Does the phase have a cause, and the whole only a layer, the same?"""
    vague = (None, *_VAGUE)
    is_same = phase.verdict.largest_layer == whole.largest_layer and phase.verdict.outcome == "fault"
    return is_same and whole.cause in vague and phase.verdict.cause not in vague
