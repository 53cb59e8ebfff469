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
from nfslat.flow import gaps
from nfslat.flow.fold import RULES, check, fold, folded, weighted
from nfslat.flow.judged import Judgement, told

S = 1_000_000_000


@pytest.mark.parametrize("of", RULES, ids=lambda of: of.__name__)
def test_every_field_has_a_rule(of: type) -> None:
    """A field that is added to a row of the report is refused until somebody says what becomes of it."""
    check(of)


def test_a_field_without_a_rule_is_refused() -> None:
    """So that none is lost without a word."""

    @dataclasses.dataclass(frozen=True)
    class More(model.AuditNote):
        new: int = 0

    RULES[More] = RULES[model.AuditNote]
    try:
        with pytest.raises(TypeError, match="new"):
            folded([More("a", "info", "", 1), More("a", "info", "", 2)])
    finally:
        del RULES[More]


@given(st.lists(st.tuples(st.sampled_from("abc"), st.integers(1, 9)), max_size=30), st.integers(0, 30))
def test_folding_may_be_done_in_steps(rows: list[tuple[str, int]], cut: int) -> None:
    """Window by window, or all at once: the same."""
    notes = [model.AuditNote(code, "info", code, count) for code, count in rows]
    assert fold([*fold(notes[:cut]), *notes[cut:]]) == fold(notes)


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
