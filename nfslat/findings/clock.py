"""What is known of the two clocks -> findings: steps, drift, or that nothing fits."""

from __future__ import annotations

from nfslat.answer.model import Clock, ClockStep, Finding

# A quartz is off by up to 100 ppm; beyond that a clock is being slewed, or its tick is set wrong.
_UNUSUAL_PPM = 100
_MOST_STEPS = 3  # that are named one by one


def clock_findings(clock: Clock) -> list[Finding]:
    """The gravest first. Client SRT, server SRT and their difference need no clock, so no answer hangs on them."""
    found = [_step(step) for step in clock.steps[:_MOST_STEPS]]
    if len(clock.steps) > _MOST_STEPS:
        text = (
            f"and {len(clock.steps) - _MOST_STEPS} times more; a host whose clock is set so often gives no good figures"
        )
        found.append(_finding("clock-step", "warning", text, {"count": len(clock.steps) - _MOST_STEPS}))
    if not clock.fits:
        text = (
            f"no offset of the two clocks explains the ops: {clock.contradicting} of {clock.messages} calls and "
            "replies agree with none that the others allow, or the clocks run apart by 1 % or more; time stamps or "
            "matches are wrong"
        )
        found.append(_finding("clock-unknown", "warning", text, {"contradicting": clock.contradicting}))
    if clock.drift_ppm and clock.drift_bound_ppm:
        text = (
            f"the two clocks run at different rates: theta changes by {clock.drift_ppm:+,.1f} ppm "
            f"({clock.drift_ppm * 3.6:+,.1f} ms an hour); all times are put on the client's clock"
        )
        severity = "warning" if abs(clock.drift_ppm) > _UNUSUAL_PPM else "info"
        evidence = {"drift_ppm": clock.drift_ppm, "bound_ppm": list(clock.drift_bound_ppm)}
        found.append(_finding("clock-drift", severity, text, evidence))
    return found


def _step(step: ClockStep) -> Finding:
    if step.clock is None or step.set_by_ms is None:
        what = f"one of the clocks was set by {abs(step.ms):,.3f} ms"
    else:
        way = "forward" if step.set_by_ms > 0 else "back"
        what = f"the {step.clock}'s clock was set {way} by {abs(step.set_by_ms):,.3f} ms"
    text = (
        f"{what} at {step.at}; ops that were under way then have a wrong SRT in the raw data, and are left out of all "
        "other figures"
    )
    return _finding("clock-step", "warning", text, {"ms": step.ms, "bound_ms": list(step.bound_ms), "at": step.at})


def _finding(code: str, severity: str, text: str, evidence: dict[str, object]) -> Finding:
    return Finding(code, "capture", severity, None, "certain", text, evidence, {})
