"""An `Analysis` -> the spans of time in which its ops are alike, and a row for each with what is said of it."""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from nfslat.answer import model
from nfslat.figures.pivots import begins_ns
from nfslat.findings.diagnosis import Diagnosis
from nfslat.findings.put_off import PUT_OFF_CODES
from nfslat.inflight.changes import changes
from nfslat.model.units import iso, to_ms, utc
from nfslat.results import Analysis

_LEADS = 0.5  # of the time: what is said of that phase is said first
_DIGITS = 3


@dataclass(frozen=True)
class Span:
    """From the first call of a phase to that of the next one, ns on the client's clock; None: the capture's edge."""

    begin_ns: int | None
    end_ns: int | None

    @property
    def words(self) -> str:
        """``from 2026-02-03 14:15:16.123 UTC on``."""
        if self.begin_ns is None:
            return "" if self.end_ns is None else f"until {utc(self.end_ns, _DIGITS)}"
        if self.end_ns is None:
            return f"from {utc(self.begin_ns, _DIGITS)} on"
        return f"from {utc(self.begin_ns, _DIGITS)} to {utc(self.end_ns, _DIGITS)}"


@dataclass(frozen=True)
class Told:
    """What the findings say of one phase."""

    span: Span
    row: model.Phase
    causes: list[Diagnosis]
    verdict: model.Verdict


def spans_of(c: Analysis) -> list[Span]:
    """Empty where nothing changes for long; by the times of the operation that takes most of the time, for another mix
    of operations is no other state of the hosts."""
    if not len(c.matched):
        return []
    begins = begins_ns(c)
    main = np.flatnonzero(c.kind == np.argmax(np.bincount(c.kind, np.maximum(c.client_srt_ns, 0))))
    rows = main[np.argsort(begins[main], kind="stable")]
    server = c.server_srt_ns[rows]
    cuts = changes([server, c.client_srt_ns[rows] - server])
    if not cuts:
        return []
    edges = [None, *(int(begins[rows[cut]]) for cut in cuts), None]
    return [Span(begin, end) for begin, end in itertools.pairwise(edges)]


def phase_row(c: Analysis, of: Analysis, span: Span, verdict: model.Verdict, inflight: model.InFlight) -> model.Phase:
    """`of` is what of `c` is in `span`."""
    begins = begins_ns(of)
    server = inflight.server
    return model.Phase(
        begin=iso(int(begins.min()) if span.begin_ns is None else span.begin_ns),
        end=iso(int(begins.max()) if span.end_ns is None else span.end_ns),
        ops=len(of.matched),
        time_share=float(of.client_srt_ns.sum() / max(c.client_srt_ns.sum(), 1)),
        client_ms=float(to_ms(of.client_srt_ns.mean())),
        server_ms=float(to_ms(of.server_srt_ns.mean())),
        network_ms=float(to_ms((of.client_srt_ns - of.server_srt_ns).mean())),
        layer=verdict.layer,
        cause=verdict.cause,
        threads_estimate=server.threads_estimate if server.limited else None,
        text=verdict.text,
    )


def leading(phases: Sequence[Told], whole: model.Verdict | None, threads: int | None) -> Told | None:
    """The phase that makes most of the time, where that is half of it or more, and what is said of the whole is not
    what is said of it. `threads` is what calls of the whole were found to wait for."""
    if not phases or whole is None or whole.cause in PUT_OFF_CODES:
        return None  # what passes between tries is in no phase's response times
    most = max(phases, key=lambda one: one.row.time_share)
    of_whole = whole.layer, whole.cause, threads
    if most.row.time_share < _LEADS or of_whole == (most.verdict.layer, most.verdict.cause, most.row.threads_estimate):
        return None
    share = f"{most.row.time_share * 100:.0f} % of the time"
    when = most.span.words
    text = f"{when[0].upper()}{when[1:]} ({share}): {most.verdict.text[0].lower()}{most.verdict.text[1:]}"
    causes = [dataclasses.replace(one, text=f"{when} {one.text}") for one in most.causes]
    return dataclasses.replace(most, causes=causes, verdict=dataclasses.replace(most.verdict, text=text))
