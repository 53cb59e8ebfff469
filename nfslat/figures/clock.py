"""What is known of the two clocks -> the report's figures of them."""

from __future__ import annotations

from nfslat.answer import model
from nfslat.clock.clock import Clock
from nfslat.model.instants import iso

_NS_PER_MS, _PPM = 1e6, 1e6


def clock_of(clock: Clock) -> model.Clock:
    """theta, how far it may be off, and where a clock was set or changed its rate."""
    steps = [
        model.ClockStep(
            at=iso(step.after_ns),
            within_ms=step.within_ns / _NS_PER_MS,
            ms=step.jump_ns / _NS_PER_MS,
            bound_ms=(step.jump_bounds_ns[0] / _NS_PER_MS, step.jump_bounds_ns[1] / _NS_PER_MS),
            clock=step.clock,
            set_by_ms=None if step.set_by_ns is None else step.set_by_ns / _NS_PER_MS,
        )
        for step in clock.steps
    ]
    counts = clock.rate_changes, clock.messages, clock.contradicting
    if not clock.fits:
        return model.Clock(False, None, None, None, None, None, steps, *counts)
    main = clock.main
    low_ns, high_ns = main.bounds_at(main.t_ns)
    least, most = main.lines.steepness
    return model.Clock(
        fits=True,
        theta_ms=main.theta_ns / _NS_PER_MS,
        bound_ms=(low_ns / _NS_PER_MS, high_ns / _NS_PER_MS),
        at=iso(main.t_ns),
        drift_ppm=main.slope * _PPM,
        drift_bound_ppm=(least * _PPM, most * _PPM),
        steps=steps,
        rate_changes=counts[0],
        messages=counts[1],
        contradicting=counts[2],
    )
