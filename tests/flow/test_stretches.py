"""What is said of stretches by themselves, and of all of them."""

from __future__ import annotations

import dataclasses

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nfslat.answer.model import Phase
from nfslat.findings.diagnosis import Diagnosis, Evidence
from nfslat.findings.layers import Layers
from nfslat.findings.stretches import Stretch, causes_of, ground_of, in_pairs, in_runs, joined, mean_of, with_verdict
from nfslat.findings.verdict import Ground, verdict

S = 1_000_000_000


class _Shown(Evidence, kw_only=True):
    """What headlines of the findings below name."""

    level: int = 16
    lost: str = "A connection was lost"
    share_slowest: float | None = None


def _cause(code: str, share: float | None, confidence: str = "certain", slowest: float | None = None) -> Diagnosis:
    return Diagnosis(code, "server", "warning", share, slowest, confidence, f"{code} is so", _Shown(), None)


def _stretch(number: int, ops: int, *causes: Diagnosis, ms: float = 10.0, slowest_ms: float = 50.0) -> Stretch[Phase]:
    mean, slowest = Layers(0.9 * ms, 0.1 * ms), Layers(slowest_ms, 0.0)
    ground = Ground(ops, 1.0, "", 0, clock_fits=True)
    said = verdict(mean, slowest, ground, causes)
    figures = Phase("", "", ops, 0.0, ms, 0.9 * ms, 0.1 * ms, None, None, None, "", "no-fault", None)
    when = number * S, (number + 1) * S
    return Stretch("", with_verdict(figures, said), list(causes), said, mean, slowest, ground, *when)


def _causes(*stretches: Stretch[Phase]) -> list[Diagnosis]:
    return causes_of(stretches, mean_of(stretches))


def test_what_a_finding_explains_is_added_up() -> None:
    """Half of a third of the time, and all of another one: its share of all, and where it is most."""
    (found,) = _causes(
        _stretch(0, 1000, _cause("net-loss", 0.5)), _stretch(1, 1000), _stretch(2, 1000, _cause("net-loss", 1.0))
    )
    assert found.share == pytest.approx(0.5)
    assert found.confidence == "certain"
    assert "with 66.7 % of the time, and most from 1970-01-01 00:00:02.000 UTC" in found.text


def test_the_slowest_are_those_of_the_stretch_that_is_slow() -> None:
    """A stall of one stretch in ten explains nearly all of the slowest operations of all."""
    calm = [_stretch(number, 1000, slowest_ms=20.0) for number in range(9)]
    (found,) = _causes(*calm, _stretch(9, 1000, _cause("net-loss", 0.1, slowest=1.0), slowest_ms=5000.0))
    assert found.slowest == pytest.approx(5000 / 5180)
    assert found.evidence.as_dict()["share_slowest"] == found.slowest
    assert found.severity == "warning"


def test_a_finding_is_as_sure_as_it_is_in_most_of_its_time() -> None:
    """Certain where it explains half of the time, likely where it explains the other half: likely."""
    both = _stretch(0, 1000, _cause("net-loss", 0.5)), _stretch(1, 1000, _cause("net-loss", 0.5, "likely"))
    assert [found.confidence for found in _causes(*both)] == ["likely"]


def test_a_limit_has_to_be_at_work_for_half_of_the_time() -> None:
    """Of a limit no share is known; seen for a third of the time it is not the whole's, but what is seen once is."""
    limit, event = _cause("connection-cap", None), _cause("reconnect", None, "likely")
    causes = _causes(_stretch(0, 1000, limit, event), _stretch(1, 1000), _stretch(2, 1000))
    assert {found.code: found.severity for found in causes} == {"connection-cap": "info", "reconnect": "warning"}
    causes = _causes(_stretch(0, 1000, limit), _stretch(1, 1000, limit), _stretch(2, 1000))
    assert [found.severity for found in causes] == ["warning"]


def test_what_speaks_against_one_stretch_speaks_against_all() -> None:
    """A clock that does not fit, and a capture that stamps late, lower the confidence of the whole."""
    good, bad = _stretch(0, 9000), _stretch(1, 100)
    ground = bad.ground._replace(clock_fits=False, late=["server"], negative=7)
    found = ground_of([good, dataclasses.replace(bad, ground=ground)])
    assert (found.clock_fits, found.late, found.negative, found.ops) == (False, ["server"], 7, 9100)


def test_stretches_in_a_row_that_say_the_same_become_one() -> None:
    """Two calm ones, one with a loss, and a calm one again: three phases, with the operations of all."""
    loss = _cause("net-loss", 0.9)
    runs = in_runs([_stretch(0, 500), _stretch(1, 1500), _stretch(2, 1000, loss), _stretch(3, 1000)])
    assert [run.row.ops for run in runs] == [2000, 1000, 1000]
    assert [(run.begin_ns, run.end_ns) for run in runs] == [(0, 2 * S), (2 * S, 3 * S), (3 * S, 4 * S)]
    assert [run.verdict.cause for run in runs] == [None, "net-loss", None]


windows = st.lists(st.tuples(st.integers(20, 5000), st.floats(0, 1), st.floats(1, 99)), min_size=2, max_size=8)


@given(windows, st.integers(1, 7))
def test_stretches_may_be_joined_in_steps(some: list[tuple[int, float, float]], cut: int) -> None:
    """Those that were joined before give the same causes and means."""
    parts = [_stretch(at, ops, _cause("net-loss", share), ms=ms) for at, (ops, share, ms) in enumerate(some)]
    at = min(cut, len(parts) - 1)
    whole, steps = joined(parts), joined([joined(parts[:at]), joined(parts[at:])])
    assert steps.causes[0].share == pytest.approx(whole.causes[0].share)
    assert steps.mean.server_ms == pytest.approx(whole.mean.server_ms)
    assert steps.row.client_ms == pytest.approx(whole.row.client_ms)
    assert (steps.row.ops, steps.begin_ns, steps.end_ns) == (whole.row.ops, whole.begin_ns, whole.end_ns)
    assert sum(pair.row.ops for pair in in_pairs(parts)) == whole.row.ops
