"""Matched ops and what is known of theta -> what the ops of each stretch of time say of it, beside the estimate."""

from __future__ import annotations

import numpy as np

from nfslat.answer.pictures import EnvelopePoint
from nfslat.clock.clock import Segment
from nfslat.clock.theta import sound
from nfslat.figures.pictures.bins import Bins
from nfslat.model.blocks import each_block
from nfslat.model.tables import I64
from nfslat.model.units import to_ms, to_s
from nfslat.results import Correlation

_FAR_NS = np.iinfo(np.int64).max


def envelope(c: Correlation, bins: Bins) -> list[EnvelopePoint]:
    """A point for each bin in which theta is known or an op says something of it; two where a clock was set in one.

    Each call says that theta is at most the server's time less the client's, each reply that it is at least that. Where
    the clocks drift, what is said is moved to the point's time along the estimate.
    """
    segments = c.clock.segments
    middles = bins.edges_ns[:-1] + bins.width_ns // 2
    least, most = _said_ns(c, bins, middles)
    in_effect = np.searchsorted([segment.begin_ns for segment in segments[1:]], middles, side="right").tolist()
    points = []
    for at, middle_ns in enumerate(middles.tolist()):
        for number in range(len(least)):
            says = int(most[number, at]) != _FAR_NS
            if says or (segments and number == in_effect[at]):
                said = (int(least[number, at]), int(most[number, at])) if says else None
                at_s = to_s(middle_ns - bins.begin_ns)
                points.append(_point(at_s, middle_ns, said, segments[number] if segments else None))
    return points


def _said_ns(c: Correlation, bins: Bins, middles: I64) -> tuple[I64, I64]:
    """Row a segment (one, where no theta fits), column a bin: the largest lower and the smallest upper bound of theta.

    Ops that are not wholly in both captures, or were sent again, do not count where there are others.
    """
    matched = sound(c.server.ops, c.client.ops, c.matched)
    segments = c.clock.segments
    starts = [segment.first_row for segment in segments[1:]]
    slopes = np.array([segment.slope for segment in segments] or [0.0])
    least, most = (np.full(len(slopes) * bins.count, far) for far in (-_FAR_NS, _FAR_NS))
    server, client = c.server.ops, c.client.ops

    def look(at: slice) -> None:
        s, rows = matched.rows(at)
        t0 = client.t0[rows]
        time = bins.of(t0)
        number = np.searchsorted(starts, rows, side="right") if starts else np.zeros(1, dtype=np.int64)
        cell = number * bins.count + time

        def said(name: str, t_ns: I64) -> I64:
            apart = getattr(server, name)[s] - t_ns
            moved = np.rint(slopes[number] * (t_ns - middles[time])).astype(np.int64) if slopes.any() else 0
            return np.asarray(apart - moved)

        np.minimum.at(most, cell, np.minimum(said("t0", t0), said("t1", client.t1[rows])))
        np.maximum.at(least, cell, np.maximum(said("t2", client.t2[rows]), said("t3", client.t3[rows])))

    each_block(len(matched), look)
    return least.reshape(-1, bins.count), most.reshape(-1, bins.count)


def _point(at_s: float, t_ns: int, said: tuple[int, int] | None, segment: Segment | None) -> EnvelopePoint:
    bounds = None if segment is None else segment.bounds_at(t_ns)
    return EnvelopePoint(
        at_s=at_s,
        least_ms=None if said is None else to_ms(said[0]),
        most_ms=None if said is None else to_ms(said[1]),
        theta_ms=None if segment is None else to_ms(segment.theta_at(t_ns)),
        bound_ms=None if bounds is None else (to_ms(bounds[0]), to_ms(bounds[1])),
    )
