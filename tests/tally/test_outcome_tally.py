"""What the server answered in blocks, joined: the same however the blocks are joined, and as of one block."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nfslat.answer.outcomes import Recovery
from nfslat.model.protocol import NFS
from nfslat.model.statuses import Says
from nfslat.model.tables import Kind
from nfslat.outcomes.counts import Answered
from nfslat.outcomes.tries import Outcome
from nfslat.tally import outcomes
from nfslat.tally.outcomes import OutcomeTally, Retries

counts = st.integers(1, 9)
retries = st.builds(
    Retries,
    requests=counts,
    tries=counts,
    ended=st.dictionaries(st.sampled_from(Outcome), counts).map(Counter),
    statuses=st.dictionaries(st.sampled_from(["NFS4ERR_DELAY", "NFS4ERR_GRACE"]), counts).map(Counter),
    waited_ns=counts,
    longest_ns=counts,
    between_ns=counts,
    first_ns=counts,
    last_ns=counts,
    back_off_fits=counts,
    back_off_of=counts,
)
recoveries = st.builds(lambda at: Recovery(f"2026-01-01T00:00:0{at}Z", 1.0, {"RENEW": 1}, 1, 0), st.integers(0, 9))


@st.composite
def statuses(draw: st.DrawFn) -> outcomes.Statuses:
    """READs and WRITEs of NFSv4, some of which failed."""
    found = {}
    for op, status in draw(st.sets(st.tuples(st.sampled_from([25, 38]), st.sampled_from([0, 13, 10008])))):
        kind = Kind(NFS, 4, 1, op, draw(st.sampled_from([(53, 22), (53, 22, op)])))
        found[kind[:4], status, -1] = Answered(kind, status, -1, draw(counts))
    return found


tallies = st.builds(
    OutcomeTally,
    statuses=st.dictionaries(st.sampled_from(["server", "client"]), statuses()),
    retries=st.dictionaries(st.tuples(st.sampled_from(["READ", "OPEN"]), st.just("4.1"), st.just(Says.DELAY)), retries),
    recoveries=st.lists(recoveries, max_size=4).map(tuple),
)


@given(tallies, tallies, tallies)
def test_blocks_are_joined_in_any_grouping(a: OutcomeTally, b: OutcomeTally, c: OutcomeTally) -> None:
    """(a + b) + c is a + (b + c), in rows, too, and nothing added changes nothing."""
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(outcomes, "MOST_RECOVERIES", 5)
        assert (a + b) + c == a + (b + c)
        assert ((a + b) + c).rows() == (a + (b + c)).rows()
        assert a + OutcomeTally.empty() == a == OutcomeTally.empty() + a


@given(tallies, tallies)
def test_no_answer_is_lost(a: OutcomeTally, b: OutcomeTally) -> None:
    """Ops and requests of two blocks are those of both together; what went well comes first."""
    both = (a + b).rows()
    parts = a.rows(), b.rows()
    for side, rows in both.statuses.items():
        assert sum(row.count for row in rows) == sum(row.count for part in parts for row in part.statuses.get(side, []))
        assert [row.status != 0 for row in rows] == sorted(row.status != 0 for row in rows)
    for name in ("requests", "tries", "succeeded", "failed", "open", "left"):
        assert sum(getattr(row, name) for row in both.tried_again) == sum(
            getattr(row, name) for part in parts for row in part.tried_again
        )
