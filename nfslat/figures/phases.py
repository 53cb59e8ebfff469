"""An `Analysis` -> the spans of time in which its ops are alike, and a row for each with what is said of it."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from nfslat.answer import model
from nfslat.figures.matched import begins_ns
from nfslat.inflight.segments import Calls, segments
from nfslat.model.tables import I64
from nfslat.model.units import iso, to_ms, utc
from nfslat.results import Analysis

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


def borders_of(c: Analysis, begins: I64) -> list[int]:
    """When phases begin, ns on the client's clock; `begins` are the calls of the matched ops."""
    calls = Calls(begins, c.kind, c.server_srt_ns, c.client_srt_ns - c.server_srt_ns)
    return segments(calls, is_measured=c.inferred is None)


def spans_of(c: Analysis, borders: Sequence[int] | None = None) -> list[Span]:
    """Empty where nothing changes for long. `borders` are where phases begin, ns on the client's clock, if that is
    known already; those that have no op are left out."""
    if not len(c.matched):
        return []
    begins = begins_ns(c)
    borders = borders_of(c, begins) if borders is None else borders
    if not borders:
        return []
    first, last = int(begins.min()), int(begins.max())
    spans = []
    for begin, end in itertools.pairwise([None, *borders, None]):
        low, high = first if begin is None else max(begin, first), last if end is None else min(end - 1, last)
        if ((begins >= low) & (begins <= high)).any():
            spans.append(Span(begin, end, int(_EDGE * (high - low))))
    return spans


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
