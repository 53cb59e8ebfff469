"""What is known of two clocks in each block, joined: one continuous estimate, and where a clock was set."""

from __future__ import annotations

from typing import Self

from nfslat.answer import model
from nfslat.clock.clock import Clock, Segment, Step
from nfslat.model.record import Record
from nfslat.model.units import iso, to_ms

PPM = 1e6
FASTEST_DRIFT = 500e-6  # of a clock that runs by itself: 100 ppm of a quartz, or what NTP slews it by (RFC 5905)


class Theta(Record):
    """theta at an instant of the client's clock, ns."""

    t_ns: int
    low_ns: int
    high_ns: int
    theta_ns: int
    drift: tuple[float, float, float]  # as far as its block tells: least, estimate and most

    @classmethod
    def of(cls, segment: Segment) -> Self:
        """The estimate in the middle of a segment."""
        least, most = segment.lines.steepness
        bounds = segment.bounds_at(segment.t_ns)
        return cls(segment.t_ns, *bounds, segment.theta_ns, (least, segment.slope, most))

    @property
    def width_ns(self) -> int:
        """How much is left free."""
        return self.high_ns - self.low_ns


class ClockTally(Record):
    """The clocks of blocks in their order; fields that are None are not known."""

    fits: bool = True
    rate_changes: int = 0
    messages: int = 0
    contradicting: int = 0
    steps: tuple[model.ClockStep, ...] = ()
    ends: tuple[Theta, Theta] | None = None  # of the first segment and of the last one
    since_step: tuple[Theta, Theta] | None = None  # of the first block since the last step, and of the last one
    best: Theta | None = None
    worst_error_ns: int = 0  # how far a one-way time may be off at most

    @classmethod
    def empty(cls) -> Self:
        """The tally of no block at all."""
        return cls()

    @classmethod
    def of(cls, clock: Clock) -> Self:
        """The clocks of a block."""
        steps = tuple(_row_of(step) for step in clock.steps)
        counts = clock.rate_changes, clock.messages, clock.contradicting
        if not clock.fits:
            return cls(False, *counts, steps)
        main, last = clock.main, clock.segments[-1]
        is_behind = not clock.steps or main.begin_ns > clock.steps[-1].after_ns
        since_step = Theta.of(main if is_behind else last)
        return cls(
            True,
            *counts,
            steps,
            ends=(Theta.of(clock.segments[0]), Theta.of(last)),
            since_step=(since_step, since_step),
            best=Theta.of(main),
            worst_error_ns=clock.worst_error_ns,
        )

    def __add__(self, later: Self) -> Self:
        """This one, and a later block's."""
        between = _step_between(self.ends[1], later.ends[0]) if self.ends and later.ends else None
        steps = (*self.steps, *([] if between is None else [between]), *later.steps)
        ends, since_step = self.ends or later.ends, self.since_step or later.since_step
        if self.ends and later.ends:
            ends = self.ends[0], later.ends[1]
        if self.since_step and later.since_step:
            is_set = between is not None or later.steps
            since_step = later.since_step[0] if is_set else self.since_step[0], later.since_step[1]
        return type(self)(
            fits=self.fits and later.fits,
            rate_changes=self.rate_changes + later.rate_changes,
            messages=self.messages + later.messages,
            contradicting=self.contradicting + later.contradicting,
            steps=steps,
            ends=ends,
            since_step=since_step,
            best=min((one for one in (self.best, later.best) if one), key=lambda one: one.width_ns, default=None),
            worst_error_ns=max(self.worst_error_ns, later.worst_error_ns),
        )

    @property
    def theta_ns(self) -> tuple[int, int] | None:
        """theta in the first block and in the last; None where it is not known, or a clock was set in between."""
        if not self.fits or self.steps or self.since_step is None:
            return None
        return self.since_step[0].theta_ns, self.since_step[1].theta_ns

    def rows(self) -> model.Clock:
        """The section of the report. theta is that of the block which knows it best."""
        counts = self.rate_changes, self.messages, self.contradicting
        best = self.best
        if not self.fits or best is None or self.since_step is None:
            return model.Clock(False, None, None, None, None, None, list(self.steps), *counts)
        least, drift, most = _drift(*self.since_step) or best.drift
        return model.Clock(
            fits=True,
            theta_ms=to_ms(best.theta_ns),
            bound_ms=(to_ms(best.low_ns), to_ms(best.high_ns)),
            at=iso(best.t_ns),
            drift_ppm=drift * PPM,
            drift_bound_ppm=(least * PPM, most * PPM),
            steps=list(self.steps),
            rate_changes=counts[0],
            messages=counts[1],
            contradicting=counts[2],
        )


def _row_of(step: Step) -> model.ClockStep:
    return model.ClockStep(
        at=iso(step.after_ns),
        within_ms=to_ms(step.within_ns),
        ms=to_ms(step.jump_ns),
        bound_ms=(to_ms(step.jump_bounds_ns[0]), to_ms(step.jump_bounds_ns[1])),
        clock=step.clock,
        set_by_ms=None if step.set_by_ns is None else to_ms(step.set_by_ns),
    )


def _drift(first: Theta, last: Theta) -> tuple[float, float, float] | None:
    """Least, estimate and most, from one block to another; the estimate is 0 where none can be seen."""
    took_ns = last.t_ns - first.t_ns
    if took_ns <= 0:
        return None
    least, most = (last.low_ns - first.high_ns) / took_ns, (last.high_ns - first.low_ns) / took_ns
    return least, 0.0 if least <= 0 <= most else (last.theta_ns - first.theta_ns) / took_ns, most


def _step_between(before: Theta, now: Theta) -> model.ClockStep | None:
    """Where two blocks allow no theta that both have, and no drift makes up for it, a clock was set between them."""
    took_ns = max(now.t_ns - before.t_ns, 0)
    least, most = now.low_ns - before.high_ns, now.high_ns - before.low_ns
    # A clock that is seen to drift faster, as those of some virtual machines do, does so between them, too.
    fastest = max(one.drift[2] if one.drift[0] > FASTEST_DRIFT else FASTEST_DRIFT for one in (before, now))
    slowest = min(one.drift[0] if one.drift[2] < -FASTEST_DRIFT else -FASTEST_DRIFT for one in (before, now))
    if least <= fastest * took_ns and most >= slowest * took_ns:
        return None
    return model.ClockStep(
        at=iso(before.t_ns),
        within_ms=to_ms(took_ns),
        ms=to_ms(now.theta_ns - before.theta_ns),
        bound_ms=(to_ms(least), to_ms(most)),
        clock=None,
        set_by_ms=None,
    )
