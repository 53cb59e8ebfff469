"""What is known of theta, the server's clock minus the client's: instants of one clock in, of the other out."""

from __future__ import annotations

from functools import cached_property
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
from msgspec import structs

from nfslat.clock.envelope import Lines
from nfslat.model.record import Record
from nfslat.model.tables import I32, I64, Bool, Matched, Ops


class Segment(NamedTuple):
    """theta while both clocks run evenly: ``theta_ns + slope * (t - t_ns)`` at time t on the client's clock.

    It holds for the client's ops from row `first_row` on. `lines` are all that are possible: of x, the client's clock
    less `x0_ns`, to y, theta less `y0_ns`.
    """

    first_row: int
    begin_ns: int  # first and last instant that it rests on, client's clock
    end_ns: int
    t_ns: int
    theta_ns: int
    slope: float
    lines: Lines
    x0_ns: int
    y0_ns: int
    floor_ns: int = 0  # least error: half of what calls and replies leave free within a short time

    def theta_at(self, t_ns: int) -> int:
        """Estimate at an instant of the client's clock."""
        return self.theta_ns + round(self.slope * (t_ns - self.t_ns))

    def bounds_at(self, t_ns: float) -> tuple[int, int]:
        """What theta is between at an instant of the client's clock."""
        low, high = self.lines.at(float(t_ns - self.x0_ns))
        # Since y0_ns: theta itself, of hosts that are months apart, is more than a float holds to the nanosecond.
        estimate = self.theta_ns - self.y0_ns + self.slope * (t_ns - self.t_ns)
        least, most = estimate - self.floor_ns, estimate + self.floor_ns
        return (
            self.y0_ns + min(int(np.floor(low[0])), int(np.floor(least))),
            self.y0_ns + max(int(np.ceil(high[0])), int(np.ceil(most))),
        )

    def errors_at(self, since_ns: npt.ArrayLike) -> npt.NDArray[np.float64]:
        """How far the estimate may be off, ns, at times since `t_ns`; for a mean over instants, at their mean."""
        since = np.atleast_1d(np.asarray(since_ns, dtype=np.float64))
        low, high = self.lines.at(since + (self.t_ns - self.x0_ns))
        estimate = self.theta_ns - self.y0_ns + self.slope * since
        return np.asarray(np.maximum(np.maximum(high - estimate, estimate - low), self.floor_ns))

    def on_client(self, server_ns: I64) -> I64:
        """Instants of the server's clock on the client's, rounded to ns. Exact where the slope is 0."""
        shifted = server_ns - self.theta_ns
        if self.slope == 0:
            return shifted
        since = (shifted - self.t_ns).astype(np.float64)
        return np.asarray(shifted - np.rint(since * (self.slope / (1 + self.slope))).astype(np.int64), dtype=np.int64)


class Step(NamedTuple):
    """A clock was set: theta jumped by `jump_ns`, at a moment between two instants of the client's clock."""

    after_ns: int
    before_ns: int
    within_ns: int  # the time between the two, by the clock that was not set
    jump_ns: int
    jump_bounds_ns: tuple[int, int]
    clock: str | None  # "server" or "client", the one that was set; None where the packets do not tell
    set_by_ns: int | None  # by how much that one was


class Clock(Record):
    """What is known of theta over the whole of both captures. `segments` is empty where nothing fits."""

    segments: tuple[Segment, ...]
    steps: tuple[Step, ...]
    rate_changes: int  # breaks that are no step
    messages: int  # calls and replies that it rests on
    contradicting: int  # of these, those that no line agrees with
    under_way: I64  # client rows of matched ops that were, or may have been, when a clock was set
    rough_ns: int  # about what theta is, even where nothing fits
    known: tuple[int, int] = (0, 0)  # client rows, from the first to behind the last one that the segments are about

    def of_rows(self, rows: I64) -> Clock:
        """The same for a table that has only these rows of the client's, ascending."""
        first, last = np.searchsorted(rows, self.known).tolist()
        starts = np.searchsorted(rows, [segment.first_row for segment in self.segments]).tolist()
        return structs.replace(
            self,
            segments=tuple(one._replace(first_row=row) for one, row in zip(self.segments, starts, strict=True)),
            under_way=np.flatnonzero(np.isin(rows, self.under_way)),
            known=(first, last),
        )

    @property
    def fits(self) -> bool:
        """Is there a theta for each instant?"""
        return bool(self.segments)

    @property
    def drifts(self) -> bool:
        """Do the clocks run at different rates?"""
        return any(segment.slope for segment in self.segments)

    @property
    def main(self) -> Segment:
        """The longest segment; raises ``ValueError`` where nothing fits."""
        return max(self.segments, key=lambda segment: segment.end_ns - segment.begin_ns)

    @property
    def ahead_at_end_ns(self) -> int:
        """Theta at the end; about that, where nothing fits."""
        return self.segments[-1].theta_ns if self.fits else self.rough_ns

    @property
    def worst_error_ns(self) -> int:
        """How far theta may be off at most, over the time that both captures show."""
        ends = [[segment.begin_ns - segment.t_ns, segment.end_ns - segment.t_ns] for segment in self.segments]
        errors = [segment.errors_at(since).max() for segment, since in zip(self.segments, ends, strict=True)]
        return int(np.ceil(max(errors)))

    def pieces(self, client_rows: I32 | I64) -> list[tuple[Segment, slice | Bool]]:
        """Which of `client_rows` each segment is for; those without any are left out."""
        if len(self.segments) < 2:
            return [(segment, slice(None)) for segment in self.segments]
        starts = [segment.first_row for segment in self.segments[1:]]
        number = np.searchsorted(starts, client_rows, side="right")
        masks = [(segment, number == at) for at, segment in enumerate(self.segments)]
        return [(segment, mask) for segment, mask in masks if mask.any()]

    def on_client(self, client_rows: I32 | I64, *server_ns: I64) -> list[I64]:
        """Instants of the server's ops that match `client_rows`, on the client's clock; about so where nothing fits."""
        if not self.segments:
            return [ns - self.rough_ns for ns in server_ns]
        pieces = self.pieces(client_rows)
        if len(pieces) == 1:
            return [pieces[0][0].on_client(ns) for ns in server_ns]
        out = [ns.copy() for ns in server_ns]
        for segment, mask in pieces:
            for ns, made in zip(server_ns, out, strict=True):
                made[mask] = segment.on_client(ns[mask])
        return out

    def errors_ns(self, client: Ops, client_rows: I64) -> I64:
        """How far call_net and reply_net of each of these of the client's ops may be off."""
        out = np.zeros(len(client_rows), dtype=np.int64)
        for times in (client.t0[client_rows], client.t3[client_rows]):
            for segment, mask in self.pieces(client_rows):
                error = np.ceil(segment.errors_at(times[mask] - segment.t_ns))
                out[mask] = np.maximum(out[mask], error)
        return out


class ServerTimes(Record, dict=True):
    """A `Clock` for any of the server's ops: those without a partner go by the matched op next to them."""

    clock: Clock
    matched: Matched
    server_rows: int
    client_rows: int
    ticks_ns: int = 0  # of the stamps of both: by so much they may be off

    @property
    def error_ns(self) -> int | None:
        """How far it may be off at most, while both captures ran; None where nothing is known."""
        return self.clock.worst_error_ns + self.ticks_ns if self.clock.fits else None

    def is_sure(self, rows: I64) -> Bool:
        """Does that hold for the server's ops in `rows`? Not where a clock was set, nor outside the segments."""
        if not len(rows) or (len(self.clock.segments) == 1 and self.clock.known == (0, self.client_rows)):
            return np.ones(len(rows), dtype=np.bool_)
        before, behind = self._neighbours
        inside = (before[rows] >= self.clock.known[0]) & (behind[rows] < self.clock.known[1])
        if len(self.clock.segments) == 1:
            return np.asarray(inside)
        starts = [segment.first_row for segment in self.clock.segments[1:]]
        number, other = (np.searchsorted(starts, side[rows], side="right") for side in (before, behind))
        unsure = np.isin(before[rows], self.clock.under_way) | np.isin(behind[rows], self.clock.under_way)
        return np.asarray((number == other) & ~unsure & inside)

    def on_client_ns(self, rows: I64, t_ns: I64) -> I64:
        """Instants `t_ns` on the server's clock, one of each of its ops in `rows`, on the client's clock."""
        if len(self.clock.segments) == 1:
            return self.clock.segments[0].on_client(t_ns)
        return self.clock.on_client(self._neighbours[0][rows], t_ns)[0]

    @cached_property
    def _neighbours(self) -> tuple[I64, I64]:
        """The client's rows of the matched ops at or before, and at or behind, each of the server's ops."""
        order = np.argsort(self.matched.server, kind="stable")
        known, client = self.matched.server[order], self.matched.client[order].astype(np.int64)
        rows = np.arange(self.server_rows)
        before = np.maximum(np.searchsorted(known, rows, side="right") - 1, 0)
        behind = np.minimum(np.searchsorted(known, rows, side="left"), len(known) - 1)
        return client[before], client[behind]
