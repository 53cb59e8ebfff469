"""Runs that were asked for -> the answer of `nfslat series`."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import replace

from nfslat import __version__
from nfslat.diff import judge, verdict
from nfslat.diff.read import from_captures, from_file
from nfslat.select import Filters
from nfslat.series import growth
from nfslat.series.case import with_idle_threads
from nfslat.series.inputs import Asked, Listed
from nfslat.series.model import SCHEMA, Fit, Growth, Series, Step, Verdict
from nfslat.series.points import Measured, measured, placed


def read(one: Asked, filters: Filters, *, engine: str | None, quiet: bool) -> Measured:
    """Its file, its folder or its two captures. Raises as `nfslat.diff.read` does."""
    if len(one.files) > 1:
        return measured(from_captures(one.files, filters, engine=engine, quiet=quiet, name=one.name), one)
    return measured(from_file(one.files[0], filters, engine=engine, quiet=quiet), one)


def series(listed: Listed, runs: Sequence[Measured], command: str) -> Series:
    """All that is said of the runs, which are in the order of `listed`."""
    runs = with_idle_threads(runs)
    points = [one.point for one in runs]
    top = "application" if all(one.application_ms is not None for one in points) else "client"
    stored = all(one.storage_ms is not None for one in points)
    waits = all(one.queue_ms is not None for one in points)
    bottom = "storage" if stored else "in_thread" if waits else "server"
    runs = [placed(one, top, bottom) for one in runs]
    steps: list[Step] = []
    grown: list[Growth] = []
    fits: list[Fit] = []
    loads = {one.load for one in points}
    if None in loads or len(loads) < 2:
        steps = [_step(a, b) for a, b in itertools.pairwise(runs)]
        said = _of_steps(steps)
    else:
        said, grown, fits = growth.verdict(runs, top, bottom, listed.unit)
        if _other_mixes(runs):
            said = replace(said, confidence="low")
    return Series(
        schema=SCHEMA,
        nfslat=__version__,
        engine=", ".join(dict.fromkeys(one.run.report.nfslat.engine for one in runs)),
        command=command,
        unit=listed.unit,
        top=top,
        bottom=bottom,
        verdict=said,
        points=[one.point for one in runs],
        growth=grown,
        fits=fits,
        steps=steps,
        notes=_notes(runs, top, bottom, waits=waits),
    )


def _step(a: Measured, b: Measured) -> Step:
    said = verdict.between(a.run, b.run)[-1]
    return Step(a.point.name, b.point.name, said.change, said.layer, said.cause, said.text)


def _of_steps(steps: Sequence[Step]) -> Verdict:
    """Of runs without loads: which of them differ from the one before."""
    moved = [one for one in steps if one.change in ("slower", "faster", "mixed")]
    sure = "high" if moved else "medium"
    named = "; ".join(f"{one.b} is {one.change} than {one.a}" for one in moved[:5])
    named += f"; and {len(moved) - 5} more" if len(moved) > 5 else ""
    text = f"{named}." if moved else "No run is certainly slower or faster than the one before it."
    text += " Without loads that differ nothing can be said of growth: give them (8=RUN)."
    return Verdict("no-loads", sure, None, None, None, None, None, None, None, None, None, text)


def _notes(runs: Sequence[Measured], top: str, bottom: str, *, waits: bool) -> list[str]:
    said = []
    if top == "client" and any(one.point.application_ms is not None for one in runs):
        said.append(
            "The application's latency is known of some runs only, so it is in no sum: give it for all (app_ms)."
        )
    elif top == "client":
        said.append(
            "Without the application's latency (app_ms) what waits above the client's wire, as for a slot, is not seen."
        )
    if bottom != "storage" and any(one.point.storage_ms is not None for one in runs):
        said.append("The storage's latency is known of some runs only: a thread's time stands for it.")
    if not waits:
        names = ", ".join(one.point.name for one in runs if one.point.queue_ms is None)
        said.append(f"Packets do not tell the wait for a thread in: {names}. It is in the time at the server there.")
    if any(one.gap_error_ms is None for one in runs):
        said.append(
            "Reports hold no single ops, and short runs too few: shapes are judged by how the runs scatter about them. "
            "Captures say how well each mean is known."
        )
    said += _other_mixes(runs)
    for one in runs:
        host, error_ms = one.run.inferred
        if host:
            said.append(f"{one.point.name}: the {host}'s times are inferred, means to within {error_ms:.3g} ms.")
    return said


def _other_mixes(runs: Sequence[Measured]) -> list[str]:
    """Runs with operations that the first has not, or without some of its: their means are of something else."""
    said = []
    first = runs[0]
    for one in runs[1:]:
        of = [dict(zip(run.summaries.ops, run.summaries.count.tolist(), strict=True)) for run in (first.run, one.run)]
        labels = list(of[0] | of[1])
        counts = [[counted.get(op, 0) for op in labels] for counted in of]
        for text in judge.other_load(labels, *counts):
            named = text.replace(" of A", f" of {first.point.name}").replace(" of B", f" of {one.point.name}")
            named = named.replace(" in A", f" in {first.point.name}").replace(" in B", f" in {one.point.name}")
            said.append(f"Another mix of operations: {named}.")
    return said
