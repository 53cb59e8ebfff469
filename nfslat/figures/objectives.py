"""What the user calls slow (``READ.p99>20ms``), and response times -> whether it is."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from nfslat.answer.model import Objective, Unanswered
from nfslat.errors import UsageError
from nfslat.evidence.known import Known
from nfslat.model.thresholds import ALL as ALL_OPS
from nfslat.model.thresholds import Threshold, parse_threshold
from nfslat.model.units import to_ms
from nfslat.tally.durations import CLIENT
from nfslat.tally.keys import ALL, names_of
from nfslat.tally.ops import OpFigures, OpSums


def parse_slo(text: str) -> Threshold:
    """``READ.p99>20ms``, or ``READ>5ms`` for the mean. Raises ``UsageError`` for anything else."""
    threshold = parse_threshold(text, "--slo", sides=("client",))
    if not threshold.limit:
        raise UsageError(f"--slo {text}: whatever takes time would be too slow")
    return threshold


def objectives_of(
    sums: OpSums,
    known: Known,
    asked: Sequence[Threshold],
    *,
    hidden_share: float,
    unanswered: Sequence[Unanswered] = (),
    off_ms: Callable[[Threshold], float] = lambda _: -1.0,
) -> list[Objective]:
    """In the order given; `sums` are by operation. The application's mean counts where it is known, else the response
    time at the client; a call without a reply takes as long as it waited at the least. `hidden_share` of the ops are in
    a capture known of and not shown; `off_ms`: by so much a figure may be off, less than none where it is right.
    """
    if not asked:
        return []
    figures = {row.label: row for some in (sums.by(lambda key: names_of(key)[1]), sums.total()) for row in some.rows()}
    return [
        _measured(
            figures.get(ALL if slo.op == ALL_OPS else slo.op),
            [calls for calls in unanswered if slo.op in (ALL_OPS, calls.op)],
            known,
            slo,
            hidden_share,
            off_ms,
        )
        for slo in asked
    ]


_MOST_PERCENT = 99
_SOME_HIDDEN = 0.05  # of the ops: what those took may be what was asked for


def _measured(
    figures: OpFigures | None,
    waits: Sequence[Unanswered],
    known: Known,
    asked: Threshold,
    hidden_share: float,
    off_ms: Callable[[Threshold], float],
) -> Objective:
    means = known.request_ms or known.app_ms
    application = means.get("" if asked.op == ALL_OPS else asked.op) if asked.figure == "mean" else None
    measured = application
    if application is None:
        measured = _with_waits(figures, waits, asked.figure)
    met = None if measured is None else measured <= asked.limit
    if measured is not None and application is None and abs(measured - asked.limit) <= off_ms(asked):
        met = None
    if met and hidden_share > _SOME_HIDDEN and application is None:
        met = None
    of = "client" if application is None else "application"
    return Objective(asked.text, asked.op, asked.figure, of, asked.limit, measured, met)


def _with_waits(figures: OpFigures | None, waits: Sequence[Unanswered], figure: str) -> float | None:
    """The least that it can be with calls that still wait; None where there are neither ops nor calls."""
    calls, waited_ms = sum(some.calls for some in waits), sum(some.total_ms for some in waits)
    summary = None if figures is None else figures.summary(CLIENT)
    if figures is None or summary is None:
        longest_ms = max((some.longest_ms for some in waits), default=0.0)
        return None if not calls else longest_ms if figure == "max" else waited_ms / calls
    if not calls:
        return float(getattr(summary, figure))
    every = figures.count + calls
    if figure == "mean":
        return (summary.mean * figures.count + waited_ms) / every
    if figure == "max":
        return max(summary.max, *(some.longest_ms for some in waits))
    percent = int(int(figure[1:]) * every / figures.count)  # of those that were answered, which are quicker
    within_ns = figures.percentile_ns(CLIENT, percent) if percent <= _MOST_PERCENT else None
    return waited_ms / calls if within_ns is None else to_ms(within_ns)
