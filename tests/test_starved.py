"""Made loads on a server whose host waits for a processor -> that its storage is not blamed; and on slow disks -> that
it is."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from queue_captures import write_captures
from starved import Draw, lognormal, never, no_more_than, simulate, slices

import nfslat
from nfslat.answer.model import Verdict

_MIXES = {
    "mostly reads": {"READ": 0.7, "WRITE": 0.2, "GETATTR": 0.1},
    "mostly writes": {"READ": 0.2, "WRITE": 0.7, "GETATTR": 0.1},
    "no light ops": {"READ": 0.6, "WRITE": 0.4},
}


def _exponential(ms: float) -> Draw:
    return lambda rng: float(rng.exponential(ms))


def _about(ms: float) -> Draw:
    return lambda rng: float(rng.normal(ms, ms / 20))


def _at_times(rng: np.random.Generator) -> float:
    return float(rng.normal(100, 5) if rng.random() < 0.02 else rng.exponential(0.3))


_QUICK = _exponential(0.3)
_HEALTHY = {"READ": [_QUICK], "WRITE": [_QUICK] * 5, "GETATTR": []}
_SLOW = {
    "10 ms": {"READ": [_about(10)], "WRITE": [_about(10)], "GETATTR": []},
    "10 ms, exponential": {"READ": [_exponential(10)], "WRITE": [_exponential(10)], "GETATTR": []},
    "100 ms at times": {"READ": [_at_times], "WRITE": [_at_times], "GETATTR": []},
}
_BUSY = {
    "a third of its wakes, up to 6 ms": slices(0.3, 6),
    "half of them, up to 8 ms": slices(0.5, 8),
    "as guests of the lab did": no_more_than(40, lognormal(0.2, 2.0)),
}
_CALM = {"never": never, "hardly": no_more_than(30, lognormal(0.05, 1.5))}


def _verdict(folder: Path, waits_ms: Draw, disk: dict[str, list[Draw]], mix: str, seed: int) -> Verdict:
    """Of a run of 10 or of 3 s."""
    traffic = simulate(waits_ms=waits_ms, steps=disk, mix=_MIXES[mix], seconds=(10, 3)[seed % 2], seed=seed)
    verdict = nfslat.correlate(*write_captures(traffic, folder)).summary.verdict
    assert verdict is not None
    return verdict


@pytest.mark.parametrize("mix", _MIXES)
@pytest.mark.parametrize("waits", _BUSY)
def test_storage_is_not_blamed_for_a_host_that_waits_for_a_processor(tmp_path: Path, waits: str, mix: str) -> None:
    """The disk takes 0.3 ms. Operations take up to some 10, since the host has to be woken again and again: nothing is
    said to be at fault, or nothing but the host, and the next measurement is the scheduler's."""
    for seed in (21, 22):
        verdict = _verdict(tmp_path, _BUSY[waits], _HEALTHY, mix, seed)
        assert verdict.cause not in ("server-storage", "server-slow-ops", "server-threads"), verdict.text
        assert verdict.cause != "server-queue-unknown" or "perf sched" in str(verdict.next)


@pytest.mark.parametrize("mix", _MIXES)
@pytest.mark.parametrize("waits", _CALM)
@pytest.mark.parametrize("disk", _SLOW)
def test_a_slow_disk_is_named_where_the_host_has_its_processor(tmp_path: Path, disk: str, waits: str, mix: str) -> None:
    """And where it waits for one as little as any host does."""
    verdict = _verdict(tmp_path, _CALM[waits], _SLOW[disk], mix, 31)
    assert (verdict.outcome, verdict.cause) == ("fault", "server-storage")


@pytest.mark.parametrize("mix", ["mostly reads", "no light ops"])
def test_a_disk_that_is_never_quick_is_named_beside_a_busy_processor(tmp_path: Path, mix: str) -> None:
    """No READ takes less than some 10 ms, and the host must have been prompt with some, as it was with calls."""
    verdict = _verdict(tmp_path, _BUSY["a third of its wakes, up to 6 ms"], _SLOW["10 ms"], mix, 41)
    assert (verdict.outcome, verdict.cause) == ("fault", "server-storage")
