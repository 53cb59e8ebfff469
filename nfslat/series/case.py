"""What the runs of a series show, put together once: disparity by load, its shape, what grows, and what limits it."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np

from nfslat.diff import judge, reports
from nfslat.findings.catalogue import explaining
from nfslat.model.record import Record
from nfslat.series.fit import Data, Shapes, shapes
from nfslat.series.model import PARTS, Growth, Point
from nfslat.series.points import Measured

FAR = 3.0  # standard errors: a run that lies so far above those before it is no chance
MOST = 0.5  # of the growth: a part with so much makes it
_TOLERANCE = 0.01  # of the latency: so much a run may be off a shape by more than its own chance
_FLAT, _STEEP = 0.1, 1.5  # slots: calls in flight grow by no more, though the load grows by so much


class Limit(Record):
    """What holds the calls of the highest load."""

    part: str  # the part that grows with it
    number: int
    load: float | None  # at which so many calls are there at once


class Case(Record):
    """`points` and `runs` are by load, and each has one."""

    points: Sequence[Point]
    runs: Sequence[Measured]
    top: str
    bottom: str
    unit: str
    data: Data
    shape: Shapes | None  # None: fewer than three loads
    level: float  # the highest load up to which the disparity is like that of the lowest
    above: float | None  # the next load, where all from there on are above; None: there is none
    limit: Limit | None
    growth: list[Growth]

    @property
    def first(self) -> float:
        """The lowest load."""
        return float(self.data.loads[0])

    @property
    def last(self) -> float:
        """The highest load."""
        return float(self.data.loads[-1])

    @property
    def grows(self) -> bool:
        """Does the disparity grow, certainly?"""
        if self._by_limit:
            return True
        if self.shape is None:
            return self.above is not None
        return self.shape.grows and (self.above is not None or self.data.errors is None)

    @property
    def part(self) -> str | None:
        """What makes most of the growth."""
        return next((one.part for one in self.growth if one.share is not None and one.share >= MOST), None)

    @property
    def _by_limit(self) -> bool:
        """Reports tell no errors, but the wait for a thread is one that their packets prove."""
        if self.data.errors is not None or self.limit is None or self.limit.part != "queue":
            return False
        waits = [one.part_ms("queue", self.bottom) for one in (self.runs[0], self.runs[-1])]
        grown = self.points[-1].disparity_ms - self.points[0].disparity_ms
        return self.points[0].threads is None and waits[1] - waits[0] >= MOST * grown > judge.RELEVANT_MS


def case(points: Sequence[Point], runs: Sequence[Measured], top: str, bottom: str, unit: str) -> Case:
    """Of two loads or more."""
    data = data_of(points, [point.disparity_ms for point in points])
    shape = shapes(data)
    level, above = _bracket(data)
    before = level if above is not None else float(data.loads[0])
    if shape is not None and shape.bends:
        before = max(load for load in data.loads.tolist() if load <= max(shape.bend.from_load or 0.0, data.loads[0]))
    limit, growth = _limit(points, top), _growth(points, runs, before, top, bottom)
    return Case(points, runs, top, bottom, unit, data, shape, level, above, limit, growth)


def data_of(points: Sequence[Point], values: Sequence[float]) -> Data:
    """`values` by load, as well known as the disparity is."""
    found = []
    for point, value in zip(points, values, strict=True):
        error, whole = point.disparity_error_ms, point.application_ms or point.client_ms
        found.append((point.load or 0.0, value, None if error is None else math.hypot(error, _TOLERANCE * whole)))
    return Data.of(found)


def with_idle_threads(runs: Sequence[Measured]) -> list[Measured]:
    """Where a run tells nothing of a wait for a thread, and never had as many calls at the server as another run shows
    threads, there was none."""
    servers = [one.run.report.inflight.server for one in runs if one.run.report is not None and one.run.report.inflight]
    told = [one.threads_estimate for one in servers if one.limited and one.threads_estimate is not None]
    return [
        replace(one, queue_ms=0.0) if told and one.queue_ms is None and 0 < _most(one) <= min(told) else one
        for one in runs
    ]


def cause(of: Case) -> str | None:
    """The finding about the part that grows, which grew most from the load before the growth to the highest one."""
    at = of.level if of.above is not None else of.first
    before = next((run for run in of.runs if (run.asked.load or 0.0) >= at), of.runs[0])
    a, b = before.run.report, of.runs[-1].run.report
    if of.part is None or a is None or b is None:
        return None
    layer = {"above": "client", "network": "network"}.get(of.part, "server")
    found = {}
    for one in reports.findings(a, b):
        more = one.ms_b - one.ms_a if one.ms_a is not None and one.ms_b is not None else 0.0
        is_new = one.change == "new" and of.part == "above"  # what waits there has no share of the packets' time
        if (one.code in explaining(of.part) or one.layer == layer) and (more > 0 or is_new):
            found[one.code] = more
    return max(found, key=lambda code: found[code], default=None)


def _most(one: Measured) -> int:
    report = one.run.report
    return 0 if report is None or report.inflight is None else report.inflight.server.max


def _bracket(data: Data) -> tuple[float, float | None]:
    """The highest load that is like those below, and the next one, from which on all are above them."""
    if data.errors is None:
        return float(data.loads[0]), None
    for place in range(1, len(data)):
        weights = 1 / data.errors[:place] ** 2
        base = float(data.ms[:place] @ weights / weights.sum())
        more = data.ms[place:] - base
        away = more / np.hypot(data.errors[place:], 1 / math.sqrt(float(weights.sum())))
        if bool((away > FAR).all()) and float(more.min()) >= judge.RELEVANT_MS:
            return float(data.loads[place - 1]), float(data.loads[place])
    return float(data.loads[-1]), None


def _limit(points: Sequence[Point], top: str) -> Limit | None:
    """Threads where calls wait for them, or slots where more users have no more calls in flight: a number that grows
    with the users is that of the users."""
    threads = [one.threads for one in points if one.threads is not None]
    if threads:
        return Limit("queue", threads[-1], _reached(points, threads[-1], lambda one: one.server_ms / one.client_ms))
    slots = [one for one in points if one.slots is not None]
    if len(slots) < 2 or slots[-1] is not points[-1]:
        return None
    before, last = slots[-2], slots[-1]
    steep = (last.load or 0.0) >= _STEEP * (before.load or 0.0)
    flat = (last.in_flight or 0.0) <= (1 + _FLAT) * (before.in_flight or 0.0)
    if not (steep and flat and last.slots is not None):
        return None
    asked = _reached(points, last.slots, lambda one: (one.application_ms or one.client_ms) / one.client_ms)
    return Limit("above", last.slots, asked if top == "application" else None)


def _reached(points: Sequence[Point], number: int, share: Callable[[Point], float]) -> float | None:
    """The load at which so many calls are in a place at once, on a straight line between two runs; `share` is how long
    they are there, of their time on the client's wire."""
    known = [(one.load or 0.0, one.in_flight * share(one)) for one in points if one.in_flight and one.client_ms]
    for (x0, y0), (x1, y1) in itertools.pairwise([(0.0, 0.0), *known]):
        if y0 < number <= y1:
            return float(x0 + (x1 - x0) * (number - y0) / (y1 - y0))
    return None


def _growth(points: Sequence[Point], runs: Sequence[Measured], before: float, top: str, bottom: str) -> list[Growth]:
    low = [run for point, run in zip(points, runs, strict=True) if (point.load or 0.0) <= before]
    high = [run for point, run in zip(points, runs, strict=True) if point.load == points[-1].load]
    left_out = {"above": top != "application", "beyond": bottom != "storage", "queue": bottom == "server"}
    means = {
        name: [math.fsum(one.part_ms(name, bottom) for one in side) / len(side) for side in (low, high)]
        for name in PARTS
        if not left_out.get(name)
    }
    whole = math.fsum(after - was for name, (was, after) in means.items() if name != "in_thread")
    return [
        Growth(name, was, after, (after - was) / whole if whole > 0 and name != "in_thread" else None)
        for name, (was, after) in means.items()
    ]
