"""What the runs show -> the verdict: from which load the latency leaves the storage's, what makes it, how sure."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence

import numpy as np

from nfslat.answer.words import ms
from nfslat.diff import judge
from nfslat.model.record import Record
from nfslat.series.case import Case, case, cause, data_of
from nfslat.series.fit import CERTAIN, shapes
from nfslat.series.model import Fit, Growth, Point, Verdict
from nfslat.series.points import Measured
from nfslat.series.words import WHAT, amount, below, between, limited, of_loads

_OPEN = 0.2  # of the latency: growth that may be so large, and is not certain, leaves the question open
_NARROW = 1.5  # times the lower bound of the load: the upper one, of what is well known
_FEW = 3  # loads through which a bend can always be laid
_SINGLE_OPS = "captures or --csv files of these runs, as reports hold no single ops"
_NEAR = 0.1  # of a load: two ways to tell it agree


class Found(Record):
    """All that is said of the loads."""

    verdict: Verdict
    growth: list[Growth]
    fits: list[Fit]


def verdict(points: Sequence[Point], runs: Sequence[Measured], top: str, bottom: str, unit: str) -> Found:
    """Of runs by load; `top` and `bottom` are where the disparity begins and ends."""
    of = case(points, runs, top, bottom, unit)
    fits = [] if of.shape is None else [of.shape.level, of.shape.line, of.shape.bend, of.shape.soft]
    return Found(_growing(of) if of.grows else _not_growing(of), of.growth, fits)


def _growing(of: Case) -> Verdict:
    shape, limit = of.shape, of.limit if of.limit is not None and of.limit.part == of.part else None
    bent = shape is not None and shape.bends
    fits = shape is not None and (shape.best.p is None or shape.best.p >= CERTAIN)
    low, high = (of.level, of.above) if of.above is not None else (of.first, of.last)
    estimate = None
    outcome, sure = "from-load", "medium"
    if shape is not None and bent and fits and len(of.data) > _FEW:
        (low, high), estimate = shape.bend_between, shape.best.from_load
    at = None if limit is None else limit.load
    if shape is not None and not bent and shape.bend_between[0] <= of.first:
        # A line goes with it as well as any bend does: no load shows below which it is level, unless a limit does.
        latest = min(shape.bend_between[1], of.last)
        if at is None or not of.first < at <= latest:
            outcome, low, high = "throughout", of.first, latest
    agrees = at is not None and low * (1 - _NEAR) <= at <= high * (1 + _NEAR)
    if outcome == "from-load" and estimate is None:
        if agrees and at is not None:
            estimate = min(max(at, low), high)
        elif high > 2 * low:
            outcome = "cannot-tell"
    if outcome == "cannot-tell" or (at is not None and not agrees and outcome == "from-load"):
        sure = "low"
    elif of.data.errors is None:
        sure = "medium" if agrees else "low"
    elif len(of.data) > _FEW and (outcome == "throughout" or high <= _NARROW * low):
        sure = "high"
    per = None if shape is None else shape.best.per_load_ms if bent else shape.line.per_load_ms
    step = None
    if sure != "high" and outcome != "throughout":
        step = _SINGLE_OPS if of.data.errors is None else _between_runs(low, high, of)
    number = None if limit is None else limit.number
    text = _said(of, outcome, estimate, (low, high), per, about=sure != "high")
    return Verdict(outcome, sure, estimate, low, high, per, of.part, cause(of), number, at, step, text)


def _said(
    of: Case, outcome: str, estimate: float | None, interval: tuple[float, float], per: float | None, *, about: bool
) -> str:
    what = f"{between(of.top)} grows away from {below(of.bottom)}"
    summed = [one for one in of.growth if one.share is not None]
    was, now = (math.fsum(getattr(one, side) for one in summed) for side in ("before_ms", "after_ms"))
    low, high = interval
    if outcome == "throughout":
        text = f"{_capital(what)} from the first load on"
        text += f" (or from one up to {of_loads(high, of.unit)})" if high > of.first else ""
    elif outcome == "cannot-tell":
        text = (
            f"{_capital(what)} between {amount(low)} and {of_loads(high, of.unit)}: from where, these runs cannot tell"
        )
    elif estimate is None:
        text = f"Above {amount(low)} to {of_loads(high, of.unit)} {what}"
    else:
        text = f"Above {'about ' * about}{of_loads(estimate, of.unit)} ({amount(low)} to {amount(high)}) {what}"
    each = "" if per is None or per <= 0 else f", by {ms(per)} ms for each more"
    text += f"{each}: {ms(was)} ms before, {ms(now)} ms with {of_loads(of.last, of.unit)}."
    if of.part is None:
        shares = sorted(((one.share or 0.0, one.part) for one in summed), reverse=True)
        listed = ", ".join(f"{WHAT[name]} {share * 100:.0f} %" for share, name in shares if share >= _NEAR)
        text += f" No part makes half of that: {listed}."
    else:
        share = next(min(one.share or 0.0, 1.0) for one in summed if one.part == of.part)
        limit = of.limit if of.limit is not None and of.limit.part == of.part else None
        text += f" {limited(of.part, None if limit is None else limit.number)} makes {share * 100:.0f} % of that"
        at = None if limit is None else limit.load
        text += "." if at is None else f": so many calls are there at once from {of_loads(at, of.unit)} on."
    base = next(one for one in of.growth if one.part == "in_thread")
    if base.after_ms - base.before_ms >= max(_OPEN * base.before_ms, judge.RELEVANT_MS):
        text += f" {_capital(below(of.bottom))} grows, too: {ms(base.before_ms)} to {ms(base.after_ms)} ms."
    return text


def _not_growing(of: Case) -> Verdict:
    what, whole = f"{between(of.top)}", of.points[0].application_ms or of.points[0].client_ms
    span = f"from {amount(of.first)} to {of_loads(of.last, of.unit)}"
    shape, step = of.shape, None
    most = _between_two(of) if shape is None else shape.slope[1] * (of.last - of.first)
    if shape is not None and shape.level.p is not None and shape.level.p < CERTAIN:
        if most < 0:
            outcome, sure = "falls", "medium"
            ends = f"{ms(float(of.data.ms[0]))} to {ms(float(of.data.ms[-1]))} ms above it"
            text = f"{_capital(what)} comes nearer to {below(of.bottom)} {span}: {ends}."
        else:
            odd = float(of.data.loads[int(np.argmax(np.abs(of.data.ms - float(np.median(of.data.ms)))))])
            outcome, sure = "cannot-tell", "low"
            text = f"The runs differ, but not as load makes it: that with {of_loads(odd, of.unit)} stands out."
            step = f"the run with {of_loads(odd, of.unit)} and those beside it once more"
    elif (most := max(most, _highest(of))) <= max(_OPEN * whole, judge.RELEVANT_MS):
        outcome, sure = "none", "high" if most <= judge.RELEVANT * whole + judge.RELEVANT_MS else "medium"
        text = (
            f"{_capital(what)} does not grow away from {below(of.bottom)} {span}: by {ms(max(most, 0.0))} ms at most."
        )
    else:
        outcome, sure = "cannot-tell", "low"
        bound = f"it may, by up to {ms(most)} ms" if math.isfinite(most) else "nothing bounds it"
        text = f"Whether {what} grows away from {below(of.bottom)} {span}, these runs cannot tell: {bound}."
        step = _SINGLE_OPS
        if of.data.errors is not None:
            step = f"longer runs, and one above {of_loads(of.last, of.unit)}"
    if of.limit is not None and of.limit.part == "above" and of.top != "application":
        outcome, sure, step = "cannot-tell", "low", "the application's latency at each load (app_ms)"
        text += f" But the client's {of.limit.number} slots are in use, and what waits for them is in no packet."
    elif outcome in ("none", "falls") and (grown := _below_grows(of)):
        outcome, text = "storage", f"{grown} {text}"
    return Verdict(outcome, sure, None, None, None, None, None, None, None, None, step, text)


def _highest(of: Case) -> float:
    """So far a load is above all others: a line hardly takes notice of one that is badly known."""
    if of.shape is None:
        return 0.0
    others = [np.delete(of.data.ms, place) for place in range(1, len(of.data))]
    return max(float(own - np.median(rest)) for own, rest in zip(of.data.ms[1:], others, strict=True))


def _between_two(of: Case) -> float:
    """By how much it may grow between two loads: 95 % interval."""
    errors = of.data.errors
    return math.inf if errors is None else float(of.data.ms[-1] - of.data.ms[0] + 1.96 * np.hypot(*errors))


def _below_grows(of: Case) -> str:
    """Where the storage itself becomes slower: all above it does, too, and no disparity grows."""
    data = data_of(of.points, [run.part_ms("in_thread", of.bottom) for run in of.runs])
    shape, before, after = shapes(data), float(data.ms[0]), float(data.ms[-1])
    if shape is None or not shape.grows or after - before < _OPEN * before:
        return ""
    span = f"from {amount(of.first)} to {of_loads(of.last, of.unit)}"
    return f"It is {below(of.bottom)} that grows {span}: {ms(before)} to {ms(after)} ms."


def _between_runs(low: float, high: float, of: Case) -> str:
    """Where a run would tell most: in the largest gap, by ratio."""
    inside = [low, *(load for load in of.data.loads.tolist() if low < load < high), high]
    start, end = max(itertools.pairwise(inside), key=lambda gap: gap[1] / max(gap[0], 1e-9))
    middle = math.sqrt(start * end) if start > 0 else end / 2
    return f"a run with {of_loads(float(round(middle)) if end - start > 2 else middle, of.unit)}"


def _capital(text: str) -> str:
    return text[0].upper() + text[1:]
