"""What is kept of windows, and how it becomes one: rows, gaps, clocks, causes."""

from __future__ import annotations

import dataclasses
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from nfslat.answer import model
from nfslat.decode.xid_gaps import Calls, missing_of
from nfslat.findings.diagnosis import Diagnosis, Evidence
from nfslat.findings.layers import Layers
from nfslat.findings.verdict import Ground
from nfslat.windows import clocks, gaps
from nfslat.windows.fold import RULES, check, fold, folded, weighted
from nfslat.windows.judged import Judgement, told

S = 1_000_000_000


@pytest.mark.parametrize("of", RULES, ids=lambda of: of.__name__)
def test_every_field_has_a_rule(of: type) -> None:
    """A field that is added to a row of the report is refused until somebody says what becomes of it."""
    check(of)


def test_a_field_without_a_rule_is_refused() -> None:
    """So that none is lost without a word."""

    @dataclasses.dataclass(frozen=True)
    class More(model.TcpAmount):
        new: int = 0

    RULES[More] = RULES[model.TcpAmount]
    try:
        with pytest.raises(TypeError, match="new"):
            folded([More(1, 1, 1), More(2, 2, 2)])
    finally:
        del RULES[More]


def _way(client: str, lost: int | None, bytes_so_far: int, *caveats: str) -> model.Transport:
    none = model.TcpAmount(0, None if lost is None else 0, 0)
    return model.Transport(
        client=client,
        server="s:2049",
        way="call",
        bytes=bytes_so_far,
        sent_again=model.TcpAmount(lost or 0, lost, 10 * (lost or 0)),
        arrived_again=none,
        arrived_late=none,
        lost_bytes=10 * (lost or 0),
        lost_segments=lost,
        ops_hit=lost or 0,
        caveats=list(caveats),
    )


def test_what_tcp_did_is_added_up() -> None:
    """Losses of a connection are those of all windows, its bytes those of the last; what is not known stays so."""
    a, b = fold([_way("a", 2, 100, "partial"), _way("b", None, 5), _way("a", 3, 250), _way("b", 1, 9)])
    assert (a.lost_segments, a.lost_bytes, a.sent_again.packets, a.bytes, a.caveats) == (5, 50, 5, 250, ["partial"])
    assert (b.lost_segments, b.lost_bytes, b.bytes) == (None, 10, 9)


@given(
    st.lists(st.tuples(st.sampled_from("abc"), st.integers(0, 9), st.integers(0, 99)), max_size=30), st.integers(0, 30)
)
def test_folding_may_be_done_in_steps(rows: list[tuple[str, int, int]], cut: int) -> None:
    """Window by window, or all at once: the same."""
    ways = [_way(*row) for row in rows]
    assert fold([*fold(ways[:cut]), *ways[cut:]]) == fold(ways)


def test_a_mean_is_of_what_is_known() -> None:
    """By weight; of nothing there is none."""
    assert weighted([1.0, None, 4.0], [2, 50, 1]) == 2.0
    assert weighted([None], [1]) is None
    assert weighted([], []) is None


def _decoded(rows: list[tuple[int, int]]) -> Any:
    """(XID, when it was sent, ns) of ops."""
    calls = Calls(
        np.zeros(len(rows), dtype=np.int32),
        np.array([xid for xid, _ in rows], dtype=np.uint32),
        np.ones(len(rows), dtype=np.bool_),
        ["10.0.0.1"],
    )
    return SimpleNamespace(ops=SimpleNamespace(t0=np.array([t for _, t in rows], dtype=np.int64)), calls=calls)


@pytest.fixture
def gaps_of(monkeypatch: pytest.MonkeyPatch) -> gaps.Gaps:
    """That takes what `_decoded` makes."""
    monkeypatch.setattr(gaps, "calls_of", lambda decoded: decoded.calls)
    monkeypatch.setattr(gaps, "unanswered", lambda _: SimpleNamespace(first_ns=np.zeros(0, dtype=np.int64)))
    return gaps.Gaps()


@pytest.mark.parametrize("seed", range(5))
def test_calls_that_are_missing_are_those_of_the_whole(seed: int, gaps_of: gaps.Gaps) -> None:
    """XIDs of calls that end in a later window leave a gap in theirs, and are no call that the capture lacks."""
    rng = np.random.default_rng(seed)
    xids = np.arange(5000, 9000)[rng.random(4000) > 0.02]
    sent = xids * 1_000_000
    ended = sent + rng.exponential(20e6, len(xids)).astype(np.int64)
    ended[rng.random(len(xids)) < 0.005] += 600_000_000  # slow ones, and calls that never have an answer
    whole = missing_of(_decoded(list(zip(xids.tolist(), sent.tolist(), strict=True))).calls)
    told = 0
    for begin in range(int(sent[0]), int(ended.max()) + 1, 250_000_000):
        mine = (ended >= begin) & (ended < begin + 250_000_000)
        gaps_of.add(_decoded(list(zip(xids[mine].tolist(), sent[mine].tolist(), strict=True))), begin)
        told += int(gaps_of.told(1).sum())
    gaps_of.end()
    gaps_of.end()
    assert int(gaps_of.found.sum()) == pytest.approx(int(whole.sum()), abs=3)
    assert told + int(gaps_of.told(1).sum()) >= int(gaps_of.found.sum())


def _known(
    t_s: float,
    low_ms: float,
    high_ms: float,
    steps: tuple[Any, ...] = (),
    *,
    drift: tuple[float, float] = (-1e-6, 1e-6),
) -> Any:
    """A clock of a window, as much of it as is looked at."""
    main = SimpleNamespace(
        t_ns=int(t_s * S),
        theta_ns=int((low_ms + high_ms) / 2 * 1e6),
        bounds_at=lambda _: (int(low_ms * 1e6), int(high_ms * 1e6)),
        slope=sum(drift) / 2,
        lines=SimpleNamespace(steepness=drift),
    )
    return SimpleNamespace(
        fits=True, main=main, steps=steps, rate_changes=0, messages=10, contradicting=1, worst_error_ns=5
    )


def test_one_clock_of_many_windows() -> None:
    """theta is that of the window which knows it best; the drift is from the first to the last; counts are added."""
    found = clocks.Clocks()
    for at in range(11):
        width = 0.01 if at == 4 else 0.1
        found.add(_known(100 * at, 7 + 0.005 * at - width, 7 + 0.005 * at + width))
    clock = found.report()
    assert clock.theta_ms == pytest.approx(7.02)
    assert clock.drift_ppm == 0.0  # 0.05 ms in 1000 s lie within the bounds
    assert clock.drift_bound_ppm == pytest.approx((-0.15, 0.25), abs=1e-4)
    assert (clock.messages, clock.contradicting, clock.steps) == (110, 11, [])


def test_a_drift_that_only_many_windows_show() -> None:
    """0.5 ppm, of which no single window knows."""
    found = clocks.Clocks()
    for at in range(11):
        found.add(_known(1000 * at, 7 + 0.5 * at - 0.1, 7 + 0.5 * at + 0.1))
    assert found.report().drift_ppm == pytest.approx(0.5)
    assert found.report().drifts


def test_a_clock_that_is_set_between_two_windows() -> None:
    """No drift makes up for it, so that it is a step; the drift is of what came behind it."""
    found = clocks.Clocks()
    for at, theta in enumerate([7, 7, 7, 3007, 3007]):
        found.add(_known(10 * at, theta - 0.1, theta + 0.1))
    clock = found.report()
    assert [(step.ms, step.within_ms) for step in clock.steps] == [(3000.0, 10_000.0)]
    assert clock.drift_ppm == 0.0


def test_the_drift_of_one_window() -> None:
    """A single one, or one behind a step, tells of it by itself."""
    found = clocks.Clocks()
    found.add(_known(0, 6, 8, drift=(2e-6, 4e-6)))
    assert found.report().drift_ppm == pytest.approx(3)
    assert found.report().drift_bound_ppm == pytest.approx((2, 4))


def test_a_clock_that_drifts_fast_is_not_set() -> None:
    """5000 ppm within each window are no step between two."""
    found = clocks.Clocks()
    for at in range(3):
        found.add(_known(2 * at, 10 * at - 1, 10 * at + 1, drift=(4e-3, 6e-3)))
    assert found.report().steps == []
    assert found.report().drift_ppm == pytest.approx(5000)


def test_no_clock_where_a_window_fits_none() -> None:
    """Then nothing is said of any."""
    found = clocks.Clocks()
    found.add(_known(0, 1, 2))
    found.add(SimpleNamespace(fits=False, rate_changes=0, messages=4, contradicting=4))
    assert (found.report().fits, found.report().theta_ms, found.report().messages) == (False, None, 14)


def _judged(number: int, ops: int, *causes: Diagnosis, ms: float = 10.0) -> Judgement:
    now = Judgement(
        begin_ns=number * S,
        end_ns=(number + 1) * S,
        stretches=range(number, number + 1),
        ops=ops,
        client_ns=ops * ms * 1e6,
        mean=Layers(0.9 * ms, 0.1 * ms),
        ground=Ground(ops, 1.0, "", 0, clock_fits=True),
        said=("server", None, None, "no-fault"),
        most_ns=ops * ms * 1e6,
        threads=None,
    )
    return now.with_causes(causes)


@dataclasses.dataclass(frozen=True, kw_only=True)
class _Shown(Evidence):
    """What headlines of the findings below name."""

    level: int = 16
    lost: str = "A connection was lost"


def _cause(code: str, share: float | None, confidence: str = "certain") -> Diagnosis:
    return Diagnosis(code, "server", "warning", share, None, confidence, f"{code} is so", _Shown(), None)


def _told(*some: Judgement) -> tuple[list[Diagnosis], model.Verdict]:
    whole = Judgement.merge(some)
    return told(whole, whole.mean, None, {})


def test_what_a_cause_explains_is_added_up() -> None:
    """Half of a third of the time, and all of another one: its share of all, and where it is most."""
    found, _ = _told(
        _judged(0, 1000, _cause("net-loss", 0.5)), _judged(1, 1000), _judged(2, 1000, _cause("net-loss", 1.0))
    )
    assert found[0].share == pytest.approx(0.5)
    assert found[0].confidence == "certain"
    assert "with 66.7 % of the time, and most from 1970-01-01 00:00:02.000 UTC" in found[0].text


def test_a_cause_is_as_sure_as_it_is_in_most_of_its_time() -> None:
    """Certain where it explains half of the time, likely where it explains the other half: likely."""
    both = _judged(0, 1000, _cause("net-loss", 0.5)), _judged(1, 1000, _cause("net-loss", 0.5, "likely"))
    found, _ = _told(*both)
    assert found[0].confidence == "likely"


def test_a_limit_has_to_be_at_work_for_half_of_the_time() -> None:
    """Of a limit no share is known; seen for a third of the time it is not the whole's, but what is seen once is."""
    limit, event = _cause("connection-cap", None), _cause("reconnect", None, "likely")
    found, verdict = _told(_judged(0, 1000, limit, event), _judged(1, 1000), _judged(2, 1000))
    assert {one.code: one.severity for one in found} == {"connection-cap": "info", "reconnect": "warning"}
    assert verdict.cause != "connection-cap"
    found, verdict = _told(_judged(0, 1000, limit), _judged(1, 1000, limit), _judged(2, 1000))
    assert [one.severity for one in found] == ["warning"]
    assert verdict.cause == "connection-cap"


@given(st.lists(st.tuples(st.integers(20, 5000), st.floats(0, 1)), min_size=2, max_size=8), st.integers(1, 7))
def test_merging_may_be_done_in_steps(windows: list[tuple[int, float]], cut: int) -> None:
    """Runs of windows that were merged before give the same causes and means."""
    some = [_judged(at, ops, _cause("net-loss", share)) for at, (ops, share) in enumerate(windows)]
    at = min(cut, len(some) - 1)
    whole, steps = Judgement.merge(some), Judgement.merge([Judgement.merge(some[:at]), Judgement.merge(some[at:])])
    assert steps.causes["net-loss server"].ms == pytest.approx(whole.causes["net-loss server"].ms)
    assert steps.mean.server_ms == pytest.approx(whole.mean.server_ms)
    assert (steps.ops, steps.stretches, steps.begin_ns, steps.end_ns) == (
        whole.ops,
        whole.stretches,
        whole.begin_ns,
        whole.end_ns,
    )
