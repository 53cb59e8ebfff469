"""Thresholds of --check and two runs -> which are crossed; what cannot be decided is said, and does not pass."""

from __future__ import annotations

from collections.abc import Sequence

from nfslat.diff.compare import Pair
from nfslat.diff.model import Change, Check
from nfslat.diff.runs import Run, comparable
from nfslat.errors import UsageError
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
    pair = Pair(*comparable(a, b))
    # Of a report with several versions of NFS operations are "READ v3".
    at = [kind for kind in pair.kinds.both if one.op in (ALL, pair.kinds.names[kind][0].split(" ")[0])]
    if not at:
        return f"no {'operation' if one.op == ALL else one.op} in both runs"
    if one.figure == "mean":
        # At the same mix: a load with more of the slow ops is not a slower system.
        change = pair.change(one.side, at)
        return change, "too few ops" if change.low is None else ""
    found = pair.percentile(one.side, at, _SHARE[one.figure])
    if found is None:
        return f"a report has percentiles by operation only: --check OP.{one.text}"
    return found[0], "" if found[1] else "too few ops"
