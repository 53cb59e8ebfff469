"""Clocks of blocks, joined: the same however the blocks are joined; drift and steps that no single block shows."""

from __future__ import annotations

import functools
import operator
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nfslat.answer import model
from nfslat.model.units import NS_PER_MS, NS_PER_S
from nfslat.tally.clock import ClockTally


def _segment(t_s: float, low_ms: float, high_ms: float, drift: tuple[float, float] = (-1e-6, 1e-6)) -> Any:
    return SimpleNamespace(
        begin_ns=int(t_s * NS_PER_S),
        t_ns=int(t_s * NS_PER_S),
        theta_ns=int((low_ms + high_ms) / 2 * NS_PER_MS),
        bounds_at=lambda _: (int(low_ms * NS_PER_MS), int(high_ms * NS_PER_MS)),
        slope=sum(drift) / 2,
        lines=SimpleNamespace(steepness=drift),
    )


def _clock(*segments: Any, main: int = 0, steps: tuple[Any, ...] = ()) -> Any:
    return SimpleNamespace(
        fits=bool(segments),
        segments=segments,
        main=segments[main] if segments else None,
        steps=steps,
        rate_changes=0,
        messages=10,
        contradicting=1,
        worst_error_ns=5,
    )


def _joined(*clocks: Any) -> ClockTally:
    return functools.reduce(operator.add, map(ClockTally.of, clocks), ClockTally.empty())


def _step(after_s: float, ms: float) -> Any:
    jump_ns = int(ms * NS_PER_MS)
    return SimpleNamespace(
        after_ns=int(after_s * NS_PER_S),
        within_ns=1000,
        jump_ns=jump_ns,
        jump_bounds_ns=(jump_ns - 1, jump_ns + 1),
        clock="client",
        set_by_ns=None,
    )


@st.composite
def blocks(draw: st.DrawFn) -> list[Any]:
    """Clocks of blocks behind each other; some fit nothing, in some a clock was set."""
    theta = st.sampled_from([7.0, 7.0, 7.2, 3007.0])
    clocks = []
    for number in range(3):
        kind = draw(st.sampled_from(["even", "even", "set", "fits nothing"]))
        width, value = draw(st.sampled_from([0.01, 0.1])), draw(theta)
        first, then = (_segment(10 * number + at, value - width, value + width) for at in (0, 5))
        if kind == "even":
            clocks.append(_clock(first))
        elif kind == "set":
            clocks.append(_clock(first, then, main=draw(st.integers(0, 1)), steps=(_step(10 * number + 3, 0.0),)))
        else:
            clocks.append(_clock())
    return clocks


@given(blocks())
def test_blocks_are_joined_in_any_grouping(clocks: list[Any]) -> None:
    """(a + b) + c is a + (b + c), and nothing added changes nothing."""
    a, b, c = map(ClockTally.of, clocks)
    assert (a + b) + c == a + (b + c)
    assert a + ClockTally.empty() == a == ClockTally.empty() + a


def test_one_clock_of_many_blocks() -> None:
    """theta is that of the block which knows it best; the drift is from the first to the last; counts are added."""
    widths = [0.01 if at == 4 else 0.1 for at in range(11)]
    segments = [_segment(100 * at, 7 + 0.005 * at - w, 7 + 0.005 * at + w) for at, w in enumerate(widths)]
    clock = _joined(*map(_clock, segments)).rows()
    assert clock.theta_ms == pytest.approx(7.02)
    assert clock.drift_ppm == 0.0  # 0.05 ms in 1000 s lie within the bounds
    assert clock.drift_bound_ppm == pytest.approx((-0.15, 0.25), abs=1e-4)
    assert (clock.messages, clock.contradicting, clock.steps) == (110, 11, [])


def test_a_drift_that_only_many_blocks_show() -> None:
    """0.5 ppm, of which no single block knows."""
    clock = _joined(*(_clock(_segment(1000 * at, 6.9 + 0.5 * at, 7.1 + 0.5 * at)) for at in range(11))).rows()
    assert clock.drift_ppm == pytest.approx(0.5)
    assert clock.drifts


def _steps(clock: model.Clock) -> list[tuple[float, float]]:
    return [(step.ms, step.within_ms) for step in clock.steps]


def test_a_clock_that_is_set_between_two_blocks() -> None:
    """No drift makes up for it, so that it is a step; the drift is of what came behind it."""
    thetas = enumerate([7, 7, 7, 3007, 3007])
    tally = _joined(*(_clock(_segment(10 * at, theta - 0.1, theta + 0.1)) for at, theta in thetas))
    assert _steps(tally.rows()) == [(3000.0, 10_000.0)]
    assert tally.rows().drift_ppm == 0.0
    assert tally.theta_ns is None


def test_a_clock_that_is_set_within_a_block_is_set_once() -> None:
    """Whichever side of the step is most of the block, neither of its neighbours sees a step of its own."""
    for main in (0, 1):
        within = _clock(_segment(10, 6.9, 7.1), _segment(15, 3006.9, 3007.1), main=main, steps=(_step(12, 3000),))
        clock = _joined(_clock(_segment(0, 6.9, 7.1)), within, _clock(_segment(20, 3006.9, 3007.1))).rows()
        assert _steps(clock) == [(3000.0, 0.001)]
        assert clock.drift_ppm == 0.0


def test_the_drift_of_one_block() -> None:
    """A single one tells of it by itself."""
    clock = _joined(_clock(_segment(0, 6, 8, drift=(2e-6, 4e-6)))).rows()
    assert clock.drift_ppm == pytest.approx(3)
    assert clock.drift_bound_ppm == pytest.approx((2, 4))


def test_a_clock_that_drifts_fast_is_not_set() -> None:
    """5000 ppm within each block are no step between two."""
    clock = _joined(*(_clock(_segment(2 * at, 10 * at - 1, 10 * at + 1, (4e-3, 6e-3))) for at in range(3))).rows()
    assert clock.steps == []
    assert clock.drift_ppm == pytest.approx(5000)


def test_no_clock_where_a_block_fits_none() -> None:
    """Then nothing is known of any."""
    clock = _joined(_clock(_segment(0, 1, 2)), _clock()).rows()
    assert (clock.fits, clock.theta_ms, clock.messages) == (False, None, 20)
