"""What is known of the two clocks in each window -> the same of all of them, as one continuous estimate."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self

from nfslat.answer.model import Clock, ClockStep
from nfslat.clock.clock import Clock as Known
from nfslat.figures.clock import clock_of
from nfslat.model.units import iso, to_ms

_PPM = 1e6
_MOST_DRIFT = 500e-6  # of a clock that runs by itself: 100 ppm of a quartz, or what NTP slews it by (RFC 5905)


@dataclass(frozen=True)
class _At:
    """theta at an instant of the client's clock, ns."""

    t_ns: int
    low_ns: int
    high_ns: int
    theta_ns: int
    drift: tuple[float, float, float]  # as far as this window tells: least, estimate and most

    @property
    def width_ns(self) -> int:
        """How much is left free."""
        return self.high_ns - self.low_ns


class Clocks:
    """Of all windows so far."""

    def __init__(self) -> None:
        """Of none."""
        self._fits = True
        self._counts = [0, 0, 0]
        self._steps: list[ClockStep] = []
        self._first: _At | None = None  # since the last step
        self._last: _At | None = None
        self._best: _At | None = None
        self.worst_error_ns = 0  # how far a one-way time may be off at most

    def add(self, clock: Known) -> None:
        """One more window."""
        one = Clocks()
        one._counts = [clock.rate_changes, clock.messages, clock.contradicting]
        one._fits = clock.fits
        if clock.fits:
            one.worst_error_ns = clock.worst_error_ns
            one._steps = clock_of(clock).steps
            one._first = one._last = one._best = _at(clock)
        self.join(one)

    def join(self, other: Self) -> None:
        """More windows, which are later."""
        self._counts = [own + more for own, more in zip(self._counts, other._counts, strict=True)]
        self._fits &= other._fits
        self.worst_error_ns = max(self.worst_error_ns, other.worst_error_ns)
        first, last, best = other._first, other._last, other._best
        if first is None or last is None or best is None:
            return
        between = None if self._last is None or other._steps else _step(self._last, first)
        self._steps = [*self._steps, *other._steps, *([] if between is None else [between])]
        if self._first is None or other._steps or between is not None:
            self._first = first
        self._last = last
        if self._best is None or best.width_ns < self._best.width_ns:
            self._best = best

    @property
    def theta_ns(self) -> tuple[int, int] | None:
        """In the first window and in the last; None where it is not known, or was set in between."""
        if not self._fits or self._steps or self._first is None or self._last is None:
            return None
        return self._first.theta_ns, self._last.theta_ns

    def report(self) -> Clock:
        """All of them. theta is that of the window which knows it best."""
        rate_changes, messages, contradicting = self._counts
        best, first, last = self._best, self._first, self._last
        if not self._fits or best is None or first is None or last is None:
            return Clock(False, None, None, None, None, None, self._steps, rate_changes, messages, contradicting)
        drift = _drift(first, last)
        return Clock(
            fits=True,
            theta_ms=to_ms(best.theta_ns),
            bound_ms=(to_ms(best.low_ns), to_ms(best.high_ns)),
            at=iso(best.t_ns),
            drift_ppm=drift[1] * _PPM,
            drift_bound_ppm=(drift[0] * _PPM, drift[2] * _PPM),
            steps=self._steps,
            rate_changes=rate_changes,
            messages=messages,
            contradicting=contradicting,
        )


def _at(clock: Known) -> _At:
    main = clock.main
    least, most = main.lines.steepness
    return _At(main.t_ns, *main.bounds_at(main.t_ns), main.theta_ns, (least, main.slope, most))


def _drift(first: _At, last: _At) -> tuple[float, float, float]:
    """Least, estimate and most; the estimate is 0 where none can be seen."""
    took_ns = last.t_ns - first.t_ns
    if took_ns <= 0:
        return last.drift
    least, most = (last.low_ns - first.high_ns) / took_ns, (last.high_ns - first.low_ns) / took_ns
    return least, 0.0 if least <= 0 <= most else (last.theta_ns - first.theta_ns) / took_ns, most


def _step(before: _At, now: _At) -> ClockStep | None:
    """Where two windows allow no theta that both have, and no drift makes up for it, a clock was set between them."""
    took_ns = max(now.t_ns - before.t_ns, 0)
    least, most = now.low_ns - before.high_ns, now.high_ns - before.low_ns
    # A clock that is seen to drift faster, as those of some virtual machines do, does so between them, too.
    fastest = max(one.drift[2] if one.drift[0] > _MOST_DRIFT else _MOST_DRIFT for one in (before, now))
    slowest = min(one.drift[0] if one.drift[2] < -_MOST_DRIFT else -_MOST_DRIFT for one in (before, now))
    if least <= fastest * took_ns and most >= slowest * took_ns:
        return None
    return ClockStep(
        at=iso(before.t_ns),
        within_ms=to_ms(took_ns),
        ms=to_ms(now.theta_ns - before.theta_ns),
        bound_ms=(to_ms(least), to_ms(most)),
        clock=None,
        set_by_ms=None,
    )
