"""The exchanges of a host pair -> far's clock on near's: for each segment of far the earliest instant that it can have
left at, moved to where it arrives without a queue.

Causality bounds theta, far's clock minus near's, as with two captures (`nfslat.clock.theta`): far cannot have
acknowledged what was not sent, and nothing arrives before it was sent. Each segment of far says both, to within a tick.
All connections of a host go by one clock, so that they have one rate; but each has an offset of its own (Linux draws
one at random for each pair of addresses and ports, net/core/secure_seq.c).
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import NamedTuple

import numpy as np

from nfslat.clock.envelope import Points
from nfslat.clock.runs import MOST_RUNS, Run, find_runs, possible
from nfslat.clock.theta import slope_of
from nfslat.kernels.heard import Said, places
from nfslat.model.protocol import NULL
from nfslat.model.tables import F64, I64
from nfslat.peer.heard import Exchange

_SAMPLE = 1 << 15  # points of either kind by which lines are found; of more the tightest of each stretch


class Departures(NamedTuple):
    """When the segments of far (rows of `Heard`) left it, on near's clock and moved by the shortest way to near: not
    before `earliest`, and less than `tick_ns` behind it. NaN where no line explains a segment.
    """

    earliest: F64
    tick_ns: int
    slope: float  # far's clock less near's, per time
    contradicting: int


class _Seen(NamedTuple):
    exchange: Exchange
    tick_ns: int
    begins: list[int]  # rows of the exchange by which a run begins
    runs: list[Run]
    x0_ns: int


class FarClock(NamedTuple):
    """Far's clock in one connection; the departures by it take memory, and are made when they are asked for."""

    seen: _Seen
    slopes: tuple[float, float, float] | None

    @property
    def tick_ns(self) -> int:
        return self.seen.tick_ns

    def departures(self) -> Departures:
        return _departures(self.seen, self.slopes)


def clocks(exchanges: Sequence[Exchange]) -> list[FarClock | None]:
    """Of the connections between two hosts; None of those without time stamps."""
    ticks = [one.tick_ns for one in exchanges if one.tick_ns is not None]
    if not ticks:
        return [None] * len(exchanges)
    usual = max(set(ticks), key=ticks.count)
    seen = [_seen(one, one.tick_ns or usual) if one.is_stamped else None for one in exchanges]
    slopes = _common_slope([run for one in seen if one is not None for run in one.runs])
    return [None if one is None else FarClock(one, slopes) for one in seen]


def _seen(exchange: Exchange, tick_ns: int) -> _Seen | None:
    heard = exchange.heard
    if not len(heard):
        return None
    x0_ns = int(heard.t_ns[0])
    far_ns = heard.ticks * tick_ns
    sent = first_sent(exchange.said, heard.ack)
    known = (heard.ack > 0) & (sent != NULL)
    # What was acknowledged before was sent before.
    last = np.maximum.accumulate(np.where(known, np.arange(len(heard)), -1))
    if last[-1] < 0:
        return _Seen(exchange, tick_ns, [], [], x0_ns)
    first = int(np.argmax(known))
    over_x, under_x = sent[last[first:]] - x0_ns, heard.t_ns[first:] - x0_ns
    over_y, under_y = far_ns[first:] + tick_ns - over_x, far_ns[first:] - under_x
    begins = np.arange(first, len(heard))
    if len(begins) > _SAMPLE:
        cuts = np.linspace(0, len(begins), _SAMPLE, endpoint=False).astype(np.int64)
        high, low = _least_of(over_y, cuts), _least_of(-under_y, cuts)
        begins = begins[cuts]
        over_x, over_y, under_x, under_y = over_x[high], over_y[high], under_x[low], under_y[low]
    over, under = (
        Points(x.astype(np.float64), y.astype(np.float64)) for x, y in ((over_x, over_y), (under_x, under_y))
    )
    runs = find_runs(over, under)
    if len(runs) > MOST_RUNS:
        runs = []
    return _Seen(exchange, tick_ns, [int(begins[run.begin]) for run in runs], runs, x0_ns)


def first_sent(said: Said, position: I64) -> I64:
    """When the segment that ends at, or first behind, each position was sent first; NULL where none was seen."""
    ends, times = said.end, said.t_ns
    if said.again.any():
        ends, times = ends[~said.again], times[~said.again]
    if (ends[1:] < ends[:-1]).any():
        order = np.argsort(ends, kind="stable")
        ends, times = ends[order], times[order]
    return np.append(times, NULL)[places(ends, position)]


def _least_of(values: I64, cuts: I64) -> I64:
    """The row of the least value of each stretch that begins at `cuts`."""
    least = np.minimum.reduceat(values, cuts)
    of = np.repeat(np.arange(len(cuts)), np.diff(cuts, append=len(values)))
    hits = np.flatnonzero(values == least[of])
    return hits[np.diff(of[hits], prepend=NULL) > 0]


def _common_slope(runs: list[Run]) -> tuple[float, float, float] | None:
    """The rate that all runs can have, from least to most, and that of the run that tells best."""
    if not runs:
        return None
    widths = [run.lines.steepness[1] - run.lines.steepness[0] for run in runs]
    best = runs[int(np.argmin(widths))].lines
    least, most = best.steepness
    for run in runs:
        low, high = run.lines.steepness
        if max(least, low) <= min(most, high):
            least, most = max(least, low), min(most, high)
    return least, most, min(max(slope_of(best), least), most)


def _departures(seen: _Seen, slopes: tuple[float, float, float] | None) -> Departures:
    heard, far_ns = seen.exchange.heard, seen.exchange.heard.ticks * seen.tick_ns
    x = (heard.t_ns - seen.x0_ns).astype(np.float64)
    earliest = np.full(len(heard), np.nan)
    slope = 0.0 if slopes is None else slopes[2]
    bounds = [0, *seen.begins[1:], len(heard)] if seen.runs else [0, len(heard)]
    for at, (begin, end) in enumerate(pairwise(bounds)):
        part = slice(begin, end)
        own = slope
        if seen.runs:
            low, high = seen.runs[at].lines.steepness
            own = min(max(slope, low), high)
        fits = np.ones(end - begin, dtype=np.bool_)
        if seen.runs:  # beside a clock that was set, segments of the other run
            fits = possible(seen.runs[at].lines, Points(x[part], far_ns[part] - x[part]), -1)
        if fits.any():
            # The line with this rate below which no segment arrives.
            lag = x[part] * (1 + own) - far_ns[part]
            own_ns = (far_ns[part] + lag[fits].min()) / (1 + own) + seen.x0_ns
            earliest[part] = np.where(fits, own_ns, np.nan)
    return Departures(earliest, seen.tick_ns, slope, sum(run.contradicting for run in seen.runs))
