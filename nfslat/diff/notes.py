"""Two runs and what was found of them -> what the reader has to know of how it was found, and of the captures."""

from __future__ import annotations

from nfslat.diff import judge, reports
from nfslat.diff.compare import Compared
from nfslat.diff.runs import Run
from nfslat.diff.statistics import LEAST_OPS, SLICES

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


def notes(a: Run, b: Run, found: Compared, method: str) -> list[str]:
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
