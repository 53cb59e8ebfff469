"""The slowest operations: those of all, however the operations come."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from nfslat.model.tables import I64, Matched
from nfslat.tally.slowest import CLIENT, ORDER, Slowest


def _analysis(srt_ns: I64) -> Any:
    """As much of an `Analysis` as the slowest are taken from."""
    rows = np.arange(len(srt_ns), dtype=np.int32)
    load = SimpleNamespace(tells=True, queue_ns=srt_ns // 4)
    return SimpleNamespace(
        matched=Matched(rows, rows),
        client=SimpleNamespace(ops=SimpleNamespace(kinds=())),
        client_srt_ns=srt_ns,
        server_srt_ns=srt_ns // 2,
        inflight=SimpleNamespace(load=load),
        clock=SimpleNamespace(fits=False),
        retrans_waits_ns=None,
        parts=SimpleNamespace(all_ns=lambda at: (srt_ns[at] // 8,) * 5),
    )


_PARTS = st.lists(st.lists(st.integers(1, 10_000), max_size=400), min_size=1, max_size=6)


@given(_PARTS)
def test_the_slowest_are_those_of_all(parts: list[list[int]]) -> None:
    """However the ops come: the slowest 1 %, one at least, in the order of a whole capture."""
    kept = Slowest.empty(40)
    for part in parts:
        kept = kept.with_ops(_analysis(np.array(part, dtype=np.int64)))
    every = np.array([value for part in parts for value in part], dtype=np.int64)
    count = max(int(len(every) * 0.01), min(len(every), 1))
    slowest = np.argsort(-every, kind="stable")[:count]
    found = kept.columns()
    assert found[CLIENT].tolist() == every[slowest].tolist()
    assert every[found[ORDER]].tolist() == found[CLIENT].tolist()


def test_of_very_many_an_even_sample_is_kept() -> None:
    """More than 1 % of which fits: the slowest of every second op, fourth ..., and no more rows than are allowed."""
    kept, rng = Slowest.empty(20), np.random.default_rng(7)
    every = rng.lognormal(10, 1, 20_000).astype(np.int64)
    for part in np.array_split(every, 40):
        kept = kept.with_ops(_analysis(part))
    found = kept.columns()[CLIENT]
    assert 10 <= len(found) <= 20
    assert kept.ops == 200
    assert (found >= np.quantile(every, 0.985)).all()


def test_what_was_sent_again_is_not_known_of_all_where_it_is_not_of_some() -> None:
    """Nor is the mean wait for it 0."""
    some = Slowest.empty().with_ops(_analysis(np.array([1, 2, 3])))
    assert some.row(None).parts_ms.call_retrans_wait is None
