"""Two runs -> all that is said of them, as `nfslat diff` prints it."""

from __future__ import annotations

from collections.abc import Sequence

from nfslat import __version__
from nfslat.diff import checks, coarse, compare, judge, model, notes, reports, split, verdict
from nfslat.diff.runs import Run
from nfslat.model.thresholds import Threshold


def answer(a: Run, b: Run, thresholds: Sequence[Threshold] = ()) -> model.Diff:
    """What is to be said of two runs; `thresholds` are of `checks.parse_check`."""
    if a.single is not None and b.single is not None:
        method, found = "slices", compare.compare(a.single, b.single)
    else:
        method, found = "summaries", coarse.compare(a, b)
    both = (a.report, b.report) if a.report is not None and b.report is not None else None
    findings = reports.findings(*both) if both else []
    said = verdict.verdict(found, findings, method)
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
        events=[*shifts, *(reports.events(*both, findings, level=level) if both else [])],
        findings=findings,
        settings=reports.settings(*both) if both else [],
        transport=reports.transport(*both) if both else [],
        stack=reports.stack(*both) if both else [],
        checks=checks.decide(thresholds, a, b),
        notes=notes.notes(a, b, found, method),
    )


def _info(run: Run, mean_ms: float) -> model.RunInfo:
    ops = sum(one.count for one in run.figures)
    said = None if run.report is None or run.report.verdict is None else run.report.verdict.text
    return model.RunInfo(run.name, run.kind, ops, mean_ms, said)
