"""Two runs -> all that is said of them, as `nfslat diff` prints it."""

from __future__ import annotations

from collections.abc import Sequence

from nfslat import __version__
from nfslat.diff import checks, judge, model, notes, reports, split, verdict
from nfslat.diff.runs import Run


def answer(a: Run, b: Run, thresholds: Sequence[checks.Threshold] = ()) -> model.Diff:
    """What is to be said of two runs; `thresholds` are of `checks.parse_check`."""
    found, findings, method, said = verdict.between(a, b)
    untold = said.change == "unknown" and method == "slices" and judge.held_back(found.mix.same_mix) is None
    level = untold or said.change in ("slower", "faster", "mixed")
    said, shifts = split.with_shifts(said, a, b)
    return model.Diff(
        schema=model.SCHEMA,
        nfslat=__version__,
        a=_info(a, found.mix.raw.a),
        b=_info(b, found.mix.raw.b),
        method=method,
        verdict=said,
        load=found.load,
        mix=found.mix,
        rows=found.rows,
        layers=found.layers,
        parts=found.parts,
        causes=found.causes,
        events=[*shifts, *reports.events(a.report, b.report, findings, level=level)],
        findings=findings,
        settings=reports.settings(a.report, b.report),
        transport=reports.transport(a.report, b.report),
        stack=reports.stack(a.report, b.report),
        checks=checks.decide(thresholds, a, b),
        notes=notes.notes(a, b, found, method),
    )


def _info(run: Run, mean_ms: float) -> model.RunInfo:
    said = run.report.verdict
    ops = int(run.summaries.count.sum())
    return model.RunInfo(run.name, run.kind, ops, mean_ms, None if said is None else said.text)
