"""What is known of the two clocks -> the report's figures of them."""

from __future__ import annotations

from nfslat.answer import model
from nfslat.clock.clock import Clock
from nfslat.model.units import iso, to_ms

_PPM = 1e6


def clock_of(clock: Clock) -> model.Clock:
    """theta, how far it may be off, and where a clock was set or changed its rate."""
    steps = [
        model.ClockStep(
            at=iso(step.after_ns),
            within_ms=to_ms(step.within_ns),
            ms=to_ms(step.jump_ns),
            bound_ms=(to_ms(step.jump_bounds_ns[0]), to_ms(step.jump_bounds_ns[1])),
            clock=step.clock,
            set_by_ms=None if step.set_by_ns is None else to_ms(step.set_by_ns),
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
        theta_ms=to_ms(main.theta_ns),
        bound_ms=(to_ms(low_ns), to_ms(high_ns)),
        at=iso(main.t_ns),
        drift_ppm=main.slope * _PPM,
        drift_bound_ppm=(least * _PPM, most * _PPM),
        steps=steps,
        rate_changes=counts[0],
        messages=counts[1],
        contradicting=counts[2],
    )
