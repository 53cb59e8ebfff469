"""Ops that a capture hides in blocks, joined: the same however the blocks are joined, and shares of all ops."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from nfslat.tally.unseen import UnseenTally
from nfslat.wire.unseen import Unseen

counts, sums_ns = st.integers(0, 1000), st.integers(0, 10**9).map(float)
tallies = st.builds(
    UnseenTally, st.none() | st.builds(Unseen, counts, sums_ns, counts, counts, counts, sums_ns, sums_ns)
)


@given(tallies, tallies, tallies)
def test_blocks_are_joined_in_any_grouping(a: UnseenTally, b: UnseenTally, c: UnseenTally) -> None:
    """(a + b) + c is a + (b + c), and nothing added changes nothing."""
    assert (a + b) + c == a + (b + c)
    assert a + UnseenTally.empty() == a == UnseenTally.empty() + a


def test_the_share_of_what_is_hidden_is_of_all_blocks() -> None:
    """10 of 20 ops of one block, and none of 80 of another: a tenth."""
    hiding = UnseenTally(Unseen(10, 1e6, 10, 0, 0, 1e6, 2e6))
    showing = UnseenTally(Unseen(80, 8e6, 0, 0, 0, 0.0, 0.0))
    row = (hiding + showing).rows()
    assert row is not None
    assert (row.ops, row.share) == (10, 0.1)
    assert showing.rows() is None
    assert UnseenTally.empty().rows() is None
