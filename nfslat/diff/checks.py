"""Thresholds of --check and two runs -> which are crossed; what cannot be decided is said, and does not pass."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from nfslat.diff import judge
from nfslat.diff.coarse import compare as compare_summaries
from nfslat.diff.kinds import kinds
from nfslat.diff.model import Change, Check
from nfslat.diff.runs import Run, Single
from nfslat.diff.statistics import SLICES, Estimate, Sample, mean_difference, percentile_difference
from nfslat.errors import UsageError
from nfslat.model.tables import I64
from nfslat.model.thresholds import ALL, Threshold, parse_threshold

_SHARE = {"p50": 0.50, "p99": 0.99}


def parse_check(text: str) -> Threshold:
    """By how much a figure of B may exceed that of A: ms, or a share. Raises ``UsageError`` for anything else."""
    threshold = parse_threshold(text, "--check", shares=True)
    if threshold.figure not in ("mean", *_SHARE):
        raise UsageError(f"--check {text}: runs are compared by mean, p50 and p99")
    return threshold


def decide(thresholds: Sequence[Threshold], a: Run, b: Run) -> list[Check]:
    """In the order given."""
    return [_decide(one, a, b) for one in thresholds]


def _decide(one: Threshold, a: Run, b: Run) -> Check:
    found = _figure(one, a, b)
    if isinstance(found, str):
        return Check(one.text, None, None, None, None, "undecided", found)
    change, reason = found
    limit = one.limit if one.share is None else one.share * max(change.a, 0.0)
    figures = (change.a, change.b, change.difference, limit)
    if reason:
        return Check(one.text, *figures, "undecided", reason)
    if change.difference <= limit:
        return Check(one.text, *figures, "passed", "")
    if change.low is not None and change.low <= 0:
        return Check(one.text, *figures, "undecided", "the rise is within what chance makes (95 % CI)")
    return Check(one.text, *figures, "crossed", "")


def _figure(one: Threshold, a: Run, b: Run) -> tuple[Change, str] | str:
    """The change and why it says nothing, if so; a text where there is no figure."""
    if a.single is not None and b.single is not None:
        return _of_single(one, a.single, b.single)
    return _of_figures(one, a, b)


def _of_single(one: Threshold, a: Single, b: Single) -> tuple[Change, str] | str:
    found = kinds(a, b)
    names = [kind for kind, (op, _) in enumerate(found.names) if one.op in (ALL, op)]
    counts = found.counts
    both = [kind for kind in names if counts[0][kind] and counts[1][kind]]
    if not both:
        return _nothing(one)
    columns = [_column(side, one.side) for side in (a, b)]
    if one.figure == "mean":
        # At the same mix: a load with more of the slow ops is not a slower system.
        samples = [
            [run.sample(column, found.rows(side, kind)) for kind in both]
            for side, run, column in (("a", a, columns[0]), ("b", b, columns[1]))
        ]
        shares = [counts[0][kind] / len(a) + counts[1][kind] / len(b) for kind in both]
        weights = [share / sum(shares) for share in shares]
        values = [math.fsum(w * s.mean for w, s in zip(weights, side, strict=True)) for side in samples]
        estimate: Estimate | None = mean_difference(samples[0], samples[1], weights)
        enough = all(_pooled(side).enough for side in samples)
    else:
        share = _SHARE[one.figure]
        pooled = [
            run.sample(column, np.flatnonzero(np.isin(getattr(found, side), both)))
            for side, run, column in (("a", a, columns[0]), ("b", b, columns[1]))
        ]
        values = [sample.percentile(share) for sample in pooled]
        estimate = percentile_difference(pooled[0], pooled[1], share)
        enough = all(sample.enough for sample in pooled) and estimate is not None
    change = judge.change(values[0], values[1], estimate)
    return change, "" if enough else "too few ops"


def _pooled(samples: Sequence[Sample]) -> Sample:
    return Sample(np.concatenate([s.values for s in samples]), np.concatenate([s.slices for s in samples]))


def _column(run: Single, side: str) -> I64:
    server = run.parts["server"]
    return {"client": run.client_ns, "server": server, "network": run.client_ns - server}[side]


def _of_figures(one: Threshold, a: Run, b: Run) -> tuple[Change, str] | str:
    compared = compare_summaries(a, b)
    if one.op == ALL and one.figure == "mean":
        if compared.mix.same_mix is None:
            return _nothing(one)
        if one.side == "client":
            change: Change | None = compared.mix.same_mix
        else:
            return f"a report has the {one.side}'s time by operation only: --check OP.{one.text}"
        return (change, "" if change.low is not None else "too few ops") if change is not None else _nothing(one)
    if one.op == ALL:
        return f"a report has percentiles by operation only: --check OP.{one.text}"
    row = next((row for row in compared.rows if row.op.split(" ")[0] == one.op and row.mean is not None), None)
    if row is None:
        return _nothing(one)
    if one.figure == "mean":
        change = {"client": row.mean, "server": row.server, "network": row.network}[one.side]
        return (change, "" if change.low is not None else "too few ops") if change is not None else _nothing(one)
    summaries = [
        getattr(getattr(next(figure for figure in run.figures if figure.op == row.op), one.side), one.figure)
        for run in (a, b)
    ]
    needed = SLICES / (1 - _SHARE[one.figure])
    few = min(row.count_a, row.count_b) < needed
    change = judge.change(summaries[0], summaries[1], None)
    return change, "too few ops" if few else ""


def _nothing(one: Threshold) -> str:
    return f"no {'operation' if one.op == ALL else one.op} in both runs"
