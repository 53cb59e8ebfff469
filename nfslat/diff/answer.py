"""Two runs -> all that is said of them, as `nfslat diff` prints it."""

from __future__ import annotations

from collections.abc import Sequence

from nfslat import __version__
from nfslat.diff import checks, judge, model, reports, split, verdict
from nfslat.diff.compare import Compared
from nfslat.diff.runs import Run
from nfslat.diff.statistics import LEAST_OPS, SLICES
from nfslat.model.thresholds import Threshold

_SLICES = (
    f"Intervals are of 95 % confidence for one figure, from {SLICES} stretches of each run (ops in a queue are slow "
    "together, so each op is not evidence of its own). A change is called one where chance, over all figures that were "
    f"looked at, makes it in less than {judge.CERTAIN * 100:.0f} of 100 diffs, where it is more than the "
    "normal variation within the runs, and where it is at least "
    f"{judge.RELEVANT * 100:.0f} % and {judge.RELEVANT_MS * 1e3:.0f} us. "
    f"It takes {LEAST_OPS} ops of a kind in each run."
)
_SUMMARIES = (
    f"A report holds no single ops: sizes are not compared, and intervals are as wide as if no more than {SLICES} "
    "ops of each run were independent. Percentiles and parts have none. Captures say more."
)


def answer(a: Run, b: Run, thresholds: Sequence[Threshold] = ()) -> model.Diff:
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
        notes=_notes(a, b, found, method),
    )


def _info(run: Run, mean_ms: float) -> model.RunInfo:
    said = run.report.verdict
    ops = int(run.summaries.count.sum())
    return model.RunInfo(run.name, run.kind, ops, mean_ms, None if said is None else said.text)


def _notes(a: Run, b: Run, found: Compared, method: str) -> list[str]:
    """How it was found first."""
    said = [_SLICES if method == "slices" else _SUMMARIES]
    level = found.load.in_flight
    if method == "summaries" and level is not None and level.relevant:
        said.append(
            f"Calls in flight: {level.a:.1f} -> {level.b:.1f}. Whether that is the cause or the effect of the "
            "response times, a report cannot tell."
        )
    for name, run in (("A", a), ("B", b)):
        host, error_ms = run.inferred
        if host:
            other = "client" if host == "server" else "server"
            said.append(
                f"{name} is a capture of the {other} alone: the {host}'s times are inferred, means to within "
                f"{error_ms:.3g} ms, by which intervals of what rests on them are wider."
            )
        said += reports.notes(name, run.report)
    return said
