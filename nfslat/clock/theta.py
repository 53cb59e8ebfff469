"""Matched ops -> the `Clock`: what theta, the server's clock minus the client's, can have been at each instant.

Causality bounds theta (docs/method.md): no call arrives before it was sent, no reply either. Over the client's clock t,
each call is a point (t, server's time - client's time) that theta(t) cannot be above, each reply one that it cannot be
below (V. Paxson, "On calibrating measurements of packet transit times", 1998). Clocks run evenly for minutes, so theta
is a straight line between these points (`clock.envelope`), and a new one begins where no line is left (`clock.runs`):
a clock was set, or its rate changed. A few points that contradict all others are wrong stamps or wrong matches.
"""

from __future__ import annotations

from itertools import pairwise

import numpy as np

from nfslat.clock.breaks import Break, Seen, runs_back
from nfslat.clock.clock import Clock, Segment
from nfslat.clock.envelope import STEEPEST, Lines, Points
from nfslat.clock.runs import MOST_RUNS, Run, explain, find_runs
from nfslat.model.blocks import each_block
from nfslat.model.tables import I64, Matched, Ops

_SAMPLE = 1 << 16  # ops in which breaks are looked for; of more, so many that are evenly spread
_AGREED = 4.0  # calls and replies tell of one drift where what they say differs by less than a fourth of it
_MOST_CONTRADICT, _FEW = 0.05, 4
_TOO_STEEP = 0.9
_LEAST_DRIFT = 1e-6  # less than that calls and replies agree about by chance


def find_clock(server: Ops, client: Ops, matched: Matched) -> Clock:
    """theta over the time of both captures; needs a matched op, else raises ``ValueError``.

    Ops that are not wholly in both captures, or were sent again by RPC, do not count where there are others: the last
    byte that was seen need not be the last, and the two sides may have seen different transmissions.
    """
    if not len(matched):
        raise ValueError("no matched op, nothing known of the clocks")
    every, matched = matched, sound(server, client, matched)
    seen = Seen.of(server, client, matched, slice(None, None, -(-len(matched) // _SAMPLE)))
    torn, seen = seen.take(~seen.is_possible), seen.take(seen.is_possible)
    runs = find_runs(seen.over, seen.under)
    runs = runs if len(runs) <= MOST_RUNS else []
    breaks = [
        Break.between(seen, torn, *two, runs_back(server, client, matched, int(seen.row[two[1].begin])))
        for two in pairwise(runs)
    ]
    sets = [one.under_way(client, every) for one in breaks if one.is_step]
    under_way = np.unique(np.concatenate([np.zeros(0, dtype=np.int64), *sets]))
    firsts = [0, *(int(np.searchsorted(client.call_first_frame, one.frames[1])) for one in breaks)]
    left_over = np.delete(seen.row, np.concatenate([np.zeros(0, np.int64), *(np.arange(r.begin, r.end) for r in runs)]))
    contradicting = 2 * len(np.setdiff1d(np.concatenate([torn.row, left_over]), under_way))
    if len(seen) + len(torn) < len(matched):
        runs = _with_all(server, client, matched, seen, runs, firsts, under_way)
    contradicting += sum(run.contradicting for run in runs)
    messages = 2 * len(matched)
    # Lines that are all about as steep as can be: the clocks are further apart than that.
    is_beyond = any(run.lines.is_sloping and min(map(abs, run.lines.steepness)) > _TOO_STEEP * STEEPEST for run in runs)
    if not runs or is_beyond or contradicting > max(_MOST_CONTRADICT * messages, _FEW):
        return Clock((), (), 0, messages, contradicting, np.zeros(0, dtype=np.int64), _rough(server, client, matched))
    known = (
        int(seen.row[runs[0].begin]) if runs[0].begin else 0,
        int(seen.row[runs[-1].end - 1]) + 1 if runs[-1].end < len(seen) else len(client),
    )
    is_steady = all(one.is_step for one in breaks)
    segments = _segments(seen, runs, firsts, is_steady=is_steady)
    steps = [
        one.step(before, after)
        for one, before, after in zip(breaks, segments, segments[1:], strict=False)
        if one.is_step
    ]
    return Clock(
        tuple(segments),
        tuple(steps),
        len(breaks) - len(steps),
        messages,
        contradicting,
        under_way,
        segments[0].theta_ns,
        known,
    )


def _rough(server: Ops, client: Ops, matched: Matched) -> int:
    return int(server.t0[matched.server[0]] - client.t0[matched.client[0]])


def sound(server: Ops, client: Ops, matched: Matched) -> Matched:
    """The matched ops whose instants can be relied on, or all where there is none."""
    of_server, of_client = ((ops.transmissions == 1) & ops.whole for ops in (server, client))
    if of_server.all() and of_client.all():
        return matched
    sound = of_server[matched.server] & of_client[matched.client]
    return matched.take(sound) if sound.any() else matched


def _with_all(
    server: Ops, client: Ops, matched: Matched, sample: Seen, runs: list[Run], firsts: list[int], but: I64
) -> list[Run]:
    """The runs of a sample, held against all ops but some."""
    near: list[tuple[list[Points], list[Points]]] = [([run.lines.over], [run.lines.under]) for run in runs]

    def collect(at: slice) -> None:
        seen = Seen.of(server, client, matched, at, sample)
        possible = seen.is_possible & ~np.isin(seen.row, but) if len(but) else seen.is_possible
        if not possible.all():
            seen = seen.take(possible)
        number = np.searchsorted(firsts[1:], seen.row, side="right")
        for own, run, kept in zip(range(len(runs)), runs, near, strict=True):
            part = seen if len(runs) == 1 else seen.take(number == own)
            for points, hull, sign, out in (
                (part.over, run.lines.over, 1, kept[0]),
                (part.under, run.lines.under, -1, kept[1]),
            ):
                # Behind the hull of the sample no point is a corner of the hull of all.
                outside = sign * points.y < sign * np.interp(points.x, hull.x, hull.y)
                outside |= (points.x < hull.x[0]) | (points.x > hull.x[-1])
                out.append(Points(points.x[outside], points.y[outside]))

    each_block(len(matched), collect)
    out = []
    for run, kinds in zip(runs, near, strict=True):
        over, under = (
            Points(*(np.concatenate(c) for c in zip(*((p.x, p.y) for p in ps), strict=True))) for ps in kinds
        )
        found = explain(run.lines, over, under)
        if found is None:  # what the sample says is true as far as it goes
            found = run.lines, run.contradicting + len(over) + len(under)
        out.append(run._replace(lines=found[0], contradicting=run.contradicting + found[1]))
    return out


def _segments(seen: Seen, runs: list[Run], firsts: list[int], *, is_steady: bool) -> list[Segment]:
    """The runs with an estimate each. `is_steady`: no clock changed its rate, so that all have one slope."""
    lines = [run.lines for run in runs]
    longest = max(range(len(runs)), key=lambda at: seen.over.x[runs[at].end - 1] - seen.over.x[runs[at].begin])
    slopes = [slope_of(one) for one in lines]
    if is_steady:
        least, most = max(one.b[0] for one in lines), min(one.b[-1] for one in lines)
        common = [one.steep_as(least, most) for one in lines]
        if all(common):
            lines = [one for one in common if one]
            slopes = [min(max(slopes[longest], least), most)] * len(runs)
    segments = []
    for run, first, own, slope in zip(runs, firsts, lines, slopes, strict=True):
        begin, end = int(seen.over.x[run.begin]), int(seen.under.x[run.begin : run.end].max())
        middle = (begin + end) // 2
        low, high = own.a_range(slope)
        theta = seen.y0_ns + round((low + high) // 2 + slope * middle)
        ends = seen.x0_ns + begin, seen.x0_ns + end, seen.x0_ns + middle
        floor_ns = int(np.ceil(run.narrowest / (2 if is_steady else 1)))  # beside a change of rate a line may err more
        segments.append(Segment(first, *ends, theta, slope, own, seen.x0_ns, seen.y0_ns, floor_ns))
    return segments


def slope_of(lines: Lines) -> float:
    """The drift, where it is beyond doubt, or where calls and replies tell of the same one; else 0."""
    above, below = lines.trends
    is_agreed = abs(above - below) * _AGREED < abs(above + below) / 2 > _LEAST_DRIFT
    return lines.best_b if lines.is_sloping or is_agreed else 0.0
