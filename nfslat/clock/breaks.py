"""Matched ops -> the points that bound theta; two runs of them -> when theta broke, by how much, whose clock was set.

See `nfslat.clock.theta` for what the points are, and docs/method.md for what a step is.
"""

from __future__ import annotations

from typing import NamedTuple, Self

import numpy as np
from msgspec import structs

from nfslat.clock.clock import Segment, Step
from nfslat.clock.envelope import STEEPEST, Points
from nfslat.clock.runs import Run, possible
from nfslat.model.blocks import together
from nfslat.model.record import Record
from nfslat.model.tables import I32, I64, Bool, Matched, Ops

_LEAST_STEP_NS = 100_000  # stamps are out of order by so much; ntpd steps by 128 ms or more, chronyd by its makestep
_NEAR = 64  # ops on either side of a step
_ROUND_TRIPS = 2  # the lines of two rates may miss each other by as much
_UNUSUAL = 3  # times the longest silence near by: a gap in the traffic that is none
_REORDERED_NS = 1_000_000  # time that runs back by less may be that of packets out of order


class Seen(Record):
    """The tighter of the two points of each op's call, and of its reply, in the order of the client's ops."""

    row: I64  # of the client's Ops
    over: Points  # x: client's clock since x0_ns; y: server's minus client's, less y0_ns
    under: Points
    over_frame: I32  # in the client's capture, whose order is that of events
    under_frame: I32
    x0_ns: int
    y0_ns: int

    @classmethod
    def of(cls, server: Ops, client: Ops, matched: Matched, rows: slice, near: Self | None = None) -> Self:
        """The points of matched ops, with the origin of `near` or that of the first."""
        row = matched.client[rows]
        s, c = together(matched.server[rows]), together(row)

        def points(first: str, last: str, first_frame: I32, last_frame: I32, sign: int) -> tuple[I64, I64, I32]:
            x, x_last = getattr(client, first)[c], getattr(client, last)[c]
            y, y_last = getattr(server, first)[s] - x, getattr(server, last)[s] - x_last
            is_last = sign * y_last < sign * y
            frame = np.where(is_last, last_frame[c], first_frame[c])
            return np.where(is_last, x_last, x), np.where(is_last, y_last, y), frame

        ox, oy, over_frame = points("t0", "t1", client.call_first_frame, client.call_last_frame, 1)
        ux, uy, under_frame = points("t2", "t3", client.reply_first_frame, client.reply_last_frame, -1)
        x0_ns, y0_ns = (near.x0_ns, near.y0_ns) if near else (int(ox[0]), int(oy[0]))
        over, under = (
            Points((x - x0_ns).astype(np.float64), (y - y0_ns).astype(np.float64)) for x, y in ((ox, oy), (ux, uy))
        )
        return cls(row.astype(np.int64), over, under, over_frame, under_frame, x0_ns, y0_ns)

    def __len__(self) -> int:
        return len(self.row)

    def take(self, rows: slice | I64 | Bool) -> Self:
        """Those rows."""
        over, under = (Points(points.x[rows], points.y[rows]) for points in (self.over, self.under))
        frames = self.over_frame[rows], self.under_frame[rows]
        return structs.replace(
            self, row=self.row[rows], over=over, under=under, over_frame=frames[0], under_frame=frames[1]
        )

    @property
    def is_possible(self) -> Bool:
        """Is there a theta that explains both call and reply? Else a stamp is wrong, or a clock was set in between."""
        lack, apart = self.under.y - self.over.y, np.abs(self.under.x - self.over.x)
        return np.asarray(lack <= STEEPEST * apart)


_Event = tuple[int, float, float]  # frame in the client's capture, x, y


class Break(NamedTuple):
    """Between two runs: the last event that only the earlier one explains, and the first that only the later does."""

    frames: tuple[int, int]  # of the two in the client's capture; the smaller number first
    client_ns: tuple[int, int]
    within_ns: int  # the time between the two, by the clock that was not set
    jump_bounds_ns: tuple[int, int]
    is_step: bool  # theta jumped; else only the rate of a clock changed
    clock: str | None  # whose was set, if one was

    @classmethod
    def between(cls, seen: Seen, torn: Seen, before: Run, after: Run, back_ns: dict[str, int]) -> Self:
        """Look at all that is in the two runs or between them; what no run explains is no evidence.

        Of the ops that no theta explains those are, whose call only the first run explains, and the reply the second.
        `back_ns` is by how much the time of each file runs back there.
        """
        rows = np.arange(before.begin, after.end)
        torn = torn.take((torn.row >= seen.row[before.begin]) & (torn.row <= seen.row[after.end - 1]))
        last: list[_Event] = []  # that only `before` explains
        first: list[_Event] = []
        for points, frame, sign in ((seen.over, seen.over_frame, 1), (seen.under, seen.under_frame, -1)):
            own, own_frame = Points(points.x[rows], points.y[rows]), frame[rows]
            early, late = possible(before.lines, own, sign), possible(after.lines, own, sign)
            only_early = np.flatnonzero(early & ~late & (rows < after.begin))
            only_late = np.flatnonzero(late & ~early & (rows >= before.end))
            for found, only, chosen in ((last, only_early, np.argmax), (first, only_late, np.argmin)):
                if len(only):
                    at = only[chosen(own_frame[only])]
                    found.append((int(own_frame[at]), float(own.x[at]), float(own.y[at])))
        call, reply = (
            (possible(before.lines, points, sign), possible(after.lines, points, sign))
            for points, sign in ((torn.over, 1), (torn.under, -1))
        )
        for at in np.flatnonzero(call[0] & ~call[1] & reply[1] & ~reply[0]):
            last.append((int(torn.over_frame[at]), float(torn.over.x[at]), float(torn.over.y[at])))
            first.append((int(torn.under_frame[at]), float(torn.under.x[at]), float(torn.under.y[at])))
        # Each run has such an event where the two are not one; else what stands next to the break must do.
        ends = [
            (int(seen.over_frame[at]), float(seen.over.x[at]), float(seen.over.y[at]))
            for at in (before.end - 1, after.begin)
        ]
        (frame_a, xa, ya), (frame_b, xb, yb) = max(last, default=ends[0]), min(first, default=ends[1])
        client_ns = seen.x0_ns + int(xa), seen.x0_ns + int(xb)
        server_ns = client_ns[0] + seen.y0_ns + int(ya), client_ns[1] + seen.y0_ns + int(yb)
        gaps = {"client": client_ns[1] - client_ns[0], "server": server_ns[1] - server_ns[0]}
        # Either one clock was set back, which its file shows where there is traffic, or the other one forward.
        jump_ns = gaps["server"] - gaps["client"]
        back, forward = ("client", "server") if jump_ns > 0 else ("server", "client")
        clock = None
        if back_ns[back] > max(_REORDERED_NS, 2 * back_ns[forward]):
            clock = back
        elif abs(gaps[back]) < abs(jump_ns) // 2 and gaps[forward] > _UNUSUAL * _usual_gap(seen, before, after):
            clock = forward
        # The clock that was not set shows how much time went by.
        within = gaps["server" if clock == "client" else "client"] if clock else min(gaps.values(), key=abs)
        (low_a, high_a), (low_b, high_b) = before.lines.at([xa, xa + within]), after.lines.at([xb - within, xb])
        bounds_ns = int(np.floor((low_b - high_a).min())), int(np.ceil((high_b - low_a).max()))
        # The bounds are concave, and convex: what holds at both ends holds in between.
        # A jump that a short time leaves room for may be a clock that was slewed, too.
        sides = _beside(before, after)
        round_trip = min(float((seen.over.y[side] - seen.under.y[side]).min()) for side in sides)
        room = max(_ROUND_TRIPS * round_trip, (before.narrowest + after.narrowest) / 2, _LEAST_STEP_NS)
        is_step = bool((low_b - high_a > room).all() or (low_a - high_b > room).all())
        return cls((min(frame_a, frame_b), max(frame_a, frame_b)), client_ns, within, bounds_ns, is_step, clock)

    def under_way(self, client: Ops, matched: Matched) -> I64:
        """Client rows of the matched ops that neither ended before the break nor began behind it."""
        rows = matched.client.astype(np.int64)
        is_before = client.reply_last_frame[rows] <= self.frames[0]
        is_behind = client.call_first_frame[rows] >= self.frames[1]
        return rows[~(is_before | is_behind)]

    def step(self, before: Segment, after: Segment) -> Step:
        """What happened, by the estimates of theta on both sides."""
        ends = ((0, -self.within_ns), (self.within_ns, 0))
        jumps = [after.theta_at(self.client_ns[1] + b) - before.theta_at(self.client_ns[0] + a) for a, b in ends]
        jump_ns = sum(jumps) // 2
        set_by_ns = {"client": -jump_ns, "server": jump_ns}.get(self.clock or "")
        return Step(*self.client_ns, abs(self.within_ns), jump_ns, self.jump_bounds_ns, self.clock, set_by_ns)


def _beside(before: Run, after: Run) -> tuple[slice, slice]:
    """The last rows of the one, and the first of the other."""
    return slice(max(before.end - _NEAR, before.begin), before.end), slice(
        after.begin, min(after.begin + _NEAR, after.end)
    )


def _usual_gap(seen: Seen, before: Run, after: Run) -> float:
    """How long it is between two calls near a break at most, but for one in twenty, by the client's clock."""
    gaps = np.concatenate([np.abs(np.diff(seen.over.x[side])) for side in _beside(before, after)])
    return float(np.quantile(gaps, 0.95)) if len(gaps) else 0.0


def runs_back(server: Ops, client: Ops, matched: Matched, row: int) -> dict[str, int]:
    """By how much the stamps of each file run back at most, in the order of its packets, near a row of the client."""
    at = int(np.searchsorted(matched.client, row))
    s, c = matched.rows(slice(max(at - _NEAR, 0), at + _NEAR))
    found = {}
    for name, ops, rows in (("server", server, s), ("client", client, c)):
        frames = np.concatenate([ops.call_first_frame[rows], ops.call_last_frame[rows], ops.reply_last_frame[rows]])
        times = np.concatenate([ops.t0[rows], ops.t1[rows], ops.t3[rows]])[np.argsort(frames, kind="stable")]
        found[name] = int((np.maximum.accumulate(times) - times).max(initial=0))
    return found
