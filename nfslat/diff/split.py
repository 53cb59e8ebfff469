"""Captures of one run and a moment -> a run before it and one from it on, and where else response times change."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence

import numpy as np
from msgspec import structs

from nfslat import api, pipeline
from nfslat.answer.words import ms
from nfslat.decode.sides import decode_both
from nfslat.decode.workspace import open_workspace
from nfslat.diff.model import Verdict
from nfslat.diff.read import of_correlation
from nfslat.diff.runs import Run, Shift
from nfslat.errors import InputError
from nfslat.figures.matched import begins_ns
from nfslat.figures.phases import Span, spans_of
from nfslat.model.units import NS_PER_S, iso, to_ms, utc
from nfslat.results import Analysis, Correlation
from nfslat.select import Filters, Moment

_DIGITS = 3


def split(
    captures: Sequence[str], filters: Filters, at: Moment | None, *, engine: str | None, quiet: bool, name: str
) -> tuple[Run, Run]:
    """Before and after a moment; None is the one in front of which half of the ops began.

    Where phases begin is found in the whole, for a half may hold too little of one to show it; what is said of each of
    them is by the ops of its own half alone.
    """
    compare = _comparing(captures, filters, engine, quiet=quiet)
    whole = pipeline.analyse(compare(filters))
    if not len(whole.matched):
        raise InputError(f"{name}: no op is in both captures")
    if at is None:
        begins = np.sort(begins_ns(whole))
        at = Moment(int(begins[len(begins) // 2]), True, "half of the ops")
    at_ns = at.on_clock(whole.client.decoded.first_ns)
    shifts = _shifts(whole, spans_of(whole), at_ns)
    borders = sorted({at_ns if one.is_split else one.at_ns for one in shifts})
    runs = []
    for key, option, label in (("end", "--end", "before"), ("start", "--start", "from")):
        text = {**filters.text, option: at.text}
        part = structs.replace(filters, text=text, **{key: at})
        one = of_correlation(compare(part), part, f"{name}, {label} {at.text}", borders=borders)
        runs.append(structs.replace(one, shifts=[s for s in shifts if (s.off_ns < 0) == (key == "end")]))
    return runs[0], runs[1]


def _comparing(
    captures: Sequence[str], filters: Filters, engine: str | None, *, quiet: bool
) -> Callable[[Filters], Correlation]:
    """What compares the captures with some filters: two are decoded once; one is each time, with what is inferred."""
    if len(captures) == 1:
        return lambda part: api.compared(captures, api.Options(engine=engine, filters=part), quiet=quiet)
    with open_workspace(captures, engine=engine, quiet=quiet) as work:
        decoded = decode_both(
            work.sources[0], work.sources[1], work.engine, work.progress, all_programs=filters.all_programs
        )
    sides = [pipeline.side_of(*one) for one in decoded]
    return lambda part: pipeline.compare(*sides, filters=part, srt="nfslat", may_swap=True)


def _shifts(whole: Analysis, spans: Sequence[Span], at_ns: int) -> list[Shift]:
    """One where each phase begins; it is the split's where both are as near to each other as phases tell."""
    begins = begins_ns(whole)
    means = []
    for span in spans:
        low, high = span.inside_ns
        inside = (begins >= (begins.min() if low is None else low)) & (
            begins <= (begins.max() if high is None else high)
        )
        means.append(float(to_ms(whole.client_srt_ns[inside].mean())) if inside.any() else 0.0)
    shifts = []
    for (before, after), (before_ms, after_ms) in zip(
        itertools.pairwise(spans), itertools.pairwise(means), strict=True
    ):
        off_ns = (after.begin_ns or 0) - at_ns
        is_split = abs(off_ns) <= min(before.edge_ns, after.edge_ns)
        shifts.append(Shift(at_ns + off_ns, off_ns, before_ms, after_ms, is_split))
    return shifts


def with_shifts(said: Verdict, a: Run, b: Run) -> tuple[Verdict, list[str]]:
    """The verdict on two halves, and what there is to say of changes that are not at the split.

    Where the halves hold a change, and the split is at none, that they differ by it cannot be told from drift or load.
    """
    elsewhere = [(name, one) for name, run in (("A", a), ("B", b)) for one in run.shifts if not one.is_split]
    if not elsewhere:
        return said, []
    is_misplaced = len(elsewhere) == len(a.shifts) + len(b.shifts)
    elsewhere.sort(key=lambda of: abs(of[1].off_ns))
    texts = [_text(name, one, advise=is_misplaced and one is elsewhere[0][1]) for name, one in elsewhere]
    if not is_misplaced or said.change not in ("load", "unknown"):
        return said, texts
    first, *rest = texts
    return Verdict("unknown", None, None, f"What changed cannot be told at this split. {first}"), rest


def _text(name: str, one: Shift, *, advise: bool) -> str:
    way = "before" if one.off_ns < 0 else "after"
    advice = f", not at the split: --split {iso(one.at_ns)[: _DIGITS - 10]}Z compares there" if advise else ""
    return (
        f"In {name} response times change at {utc(one.at_ns, _DIGITS)}, {abs(one.off_ns) / NS_PER_S:.2f} s {way} the "
        f"split ({ms(one.before_ms)} -> {ms(one.after_ms)} ms on average){advice}."
    )
