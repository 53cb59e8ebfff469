"""What is known of the two clocks -> findings: steps, drift, or that nothing fits."""

from __future__ import annotations

from nfslat.answer.model import Clock, ClockStep, Finding
from nfslat.findings.diagnosis import Diagnosis, Evidence

# A quartz is off by up to 100 ppm; beyond that a clock is being slewed, or its tick is set wrong.
_UNUSUAL_PPM = 100
_MOST_STEPS = 3  # that are named one by one


class Step(Evidence, frozen=True, kw_only=True):
    """Of clock-step."""

    ms: float
    bound_ms: tuple[float, float]
    at: str


class MoreSteps(Evidence, frozen=True, kw_only=True):
    """Of clock-step: those that are not named one by one."""

    count: int


class NoFit(Evidence, frozen=True, kw_only=True):
    """Of clock-unknown."""

    contradicting: int  # calls and replies that agree with no offset that the others allow


class Drift(Evidence, frozen=True, kw_only=True):
    """Of clock-drift."""

    drift_ppm: float
    bound_ppm: tuple[float, float]


def clock_findings(clock: Clock) -> list[Finding]:
    """The gravest first. Client SRT, server SRT and their difference need no clock, so no answer hangs on them."""
    found = [_step(step) for step in clock.steps[:_MOST_STEPS]]
    if len(clock.steps) > _MOST_STEPS:
        text = (
            f"and {len(clock.steps) - _MOST_STEPS} times more; a host whose clock is set this often gives no "
            "reliable figures"
        )
        found.append(_finding("clock-step", "warning", text, MoreSteps(count=len(clock.steps) - _MOST_STEPS)))
    if not clock.fits:
        text = (
            f"no offset of the two clocks explains the ops: {clock.contradicting} of {clock.messages} calls and "
            "replies contradict every offset that the others allow, or the clocks drift apart by 1 % or more; time "
            "stamps or matches are wrong"
        )
        found.append(_finding("clock-unknown", "warning", text, NoFit(contradicting=clock.contradicting)))
    if clock.drifts and clock.drift_ppm is not None and clock.drift_bound_ppm is not None:
        text = (
            f"the two clocks run at different rates: theta changes by {clock.drift_ppm:+,.1f} ppm "
            f"({clock.drift_ppm * 3.6:+,.1f} ms an hour); all times are converted to the client's clock"
        )
        severity = "warning" if abs(clock.drift_ppm) > _UNUSUAL_PPM else "info"
        evidence = Drift(drift_ppm=clock.drift_ppm, bound_ppm=clock.drift_bound_ppm)
        found.append(_finding("clock-drift", severity, text, evidence))
    return found


def _step(step: ClockStep) -> Finding:
    if step.clock is None or step.set_by_ms is None:
        what = f"one of the clocks was set by {abs(step.ms):,.3f} ms"
    else:
        way = "forward" if step.set_by_ms > 0 else "back"
        what = f"the {step.clock}'s clock was set {way} by {abs(step.set_by_ms):,.3f} ms"
    text = (
        f"{what} at {step.at}; operations in flight at that moment have a wrong SRT in the raw data and are left out "
        "of all other figures"
    )
    return _finding("clock-step", "warning", text, Step(ms=step.ms, bound_ms=step.bound_ms, at=step.at))


def _finding(code: str, severity: str, text: str, evidence: Evidence) -> Finding:
    return Diagnosis(code, "capture", severity, None, None, "certain", text, evidence, None).as_finding()
