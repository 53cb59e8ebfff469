"""A `Clock` by few ops, and more instants of both clocks -> the `Clock` that both allow."""

from __future__ import annotations

import numpy as np
from msgspec import structs

from nfslat.clock.clock import Clock, Segment
from nfslat.clock.envelope import Points
from nfslat.clock.runs import explain
from nfslat.clock.theta import slope_of
from nfslat.model.tables import F64, I64

_NEAR_NS = 1_000_000_000  # clocks part by less than 100 us within that
_WRONG = 0.05


def narrowed(clock: Clock, called: tuple[I64, I64], answered: tuple[I64, I64]) -> Clock:
    """Packets of the client bound theta from above, the server's from below: when each was in the server's capture, and
    in the client's. What contradicts the clock is left aside; so is all of it, where that is more than a few."""
    if len(clock.segments) != 1 or clock.steps:
        return clock
    (was,) = clock.segments
    over, under = (_points(was, *instants) for instants in (called, answered))
    more = len(over) + len(under)
    found = explain(was.lines, _with(was.lines.over, over), _with(was.lines.under, under)) if more else None
    if found is None or found[1] > _WRONG * more:
        return clock
    lines = found[0]
    slope = min(max(was.slope, lines.b[0]), lines.b[-1]) if was.slope else slope_of(lines)
    if not lines.b[0] <= slope <= lines.b[-1]:
        return clock
    low, high = lines.a_range(slope)
    theta_ns = was.y0_ns + round((low + high) / 2 + slope * (was.t_ns - was.x0_ns))
    narrowest = _narrowest(lines.over, lines.under)
    floor_ns = was.floor_ns if np.isinf(narrowest) else min(was.floor_ns, int(np.ceil(max(narrowest, 0.0) / 2)))
    now = was._replace(theta_ns=theta_ns, slope=slope, lines=lines, floor_ns=floor_ns)
    return structs.replace(clock, segments=(now,), rough_ns=theta_ns)


def _points(segment: Segment, server_ns: I64, client_ns: I64) -> Points:
    inside = (client_ns >= segment.begin_ns) & (client_ns <= segment.end_ns)
    x, y = client_ns[inside] - segment.x0_ns, (server_ns - client_ns)[inside] - segment.y0_ns
    return Points(x.astype(np.float64), y.astype(np.float64))


def _with(one: Points, other: Points) -> Points:
    x, y = np.concatenate([one.x, other.x]), np.concatenate([one.y, other.y])
    order = np.lexsort((y, x))
    return Points(x[order], y[order])


def _narrowest(over: Points, under: Points) -> float:
    """What points above and below the lines leave free within a short time; of all corners of the hulls."""
    apart: F64 = np.abs(over.x[:, None] - under.x)
    return float(np.where(apart <= _NEAR_NS, over.y[:, None] - under.y, np.inf).min())
