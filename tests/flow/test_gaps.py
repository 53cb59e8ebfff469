"""Calls that a capture does not show, found window by window: those of the whole."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from nfslat.decode.xid_gaps import Calls, missing_of
from nfslat.flow import gaps


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
