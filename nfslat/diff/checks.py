"""Thresholds of --check and two runs -> which are crossed; what cannot be decided is said, and does not pass."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from nfslat.diff.compare import Pair
from nfslat.diff.model import Change, Check
from nfslat.diff.runs import Run, comparable
from nfslat.errors import UsageError
from nfslat.select import parse_ops

_FORM = re.compile(
    r"(?:(?P<op>[A-Za-z_]+)\.)??(?:(?P<side>client|server|network)\.)?(?P<figure>mean|p50|p99)"
    r"=\+?(?P<value>\d+(?:\.\d+)?)(?P<unit>%|us|ms|s)"
)
_MS = {"us": 1e-3, "ms": 1.0, "s": 1e3}
_SHARE = {"p50": 0.50, "p99": 0.99}
_HOW = (
    "give [OP.][client.|server.|network.]mean, p50 or p99, = and %, us, ms or s: mean=10%, READ.p99=5ms, "
    "server.mean=20%"
)


@dataclass(frozen=True)
class Threshold:
    """By how much a figure of B may exceed that of A."""

    text: str
    op: str | None
    side: str  # client, server, network
    figure: str  # mean, p50, p99
    value: float  # ms, or a share of A's figure
    is_share: bool


def parse_check(text: str) -> Threshold:
    """Raises ``UsageError`` for anything but ``[OP.][SIDE.]FIGURE=LIMIT``."""
    found = _FORM.fullmatch(text)
    if found is None:
        raise UsageError(f"--check {text}: not understood; {_HOW}")
    op = found["op"]
    if op is not None:
        op = next(iter(parse_ops([op], "--check")))
    is_share = found["unit"] == "%"
    value = float(found["value"]) * (0.01 if is_share else _MS[found["unit"]])
    return Threshold(text, op, found["side"] or "client", found["figure"], value, is_share)


def decide(thresholds: Sequence[Threshold], a: Run, b: Run) -> list[Check]:
    """In the order given."""
    return [_decide(one, a, b) for one in thresholds]


def _decide(one: Threshold, a: Run, b: Run) -> Check:
    found = _figure(one, a, b)
    if isinstance(found, str):
        return Check(one.text, None, None, None, None, "undecided", found)
    change, reason = found
    limit = one.value * max(change.a, 0.0) if one.is_share else one.value
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
    at = [kind for kind in pair.kinds.both if one.op in (None, pair.kinds.names[kind][0].split(" ")[0])]
    if not at:
        return f"no {one.op or 'operation'} in both runs"
    if one.figure == "mean":
        # At the same mix: a load with more of the slow ops is not a slower system.
        change = pair.change(one.side, at)
        return change, "too few ops" if change.low is None else ""
    found = pair.percentile(one.side, at, _SHARE[one.figure])
    if found is None:
        return f"a report has percentiles by operation only: --check OP.{one.text}"
    return found[0], "" if found[1] else "too few ops"
