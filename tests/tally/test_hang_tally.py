"""What hangs in blocks, joined: the same however the blocks are joined, and the worst comes first."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nfslat.answer import model
from nfslat.tally import hangs
from nfslat.tally.hangs import HangTally


def _hang(ms: float, cut: str) -> model.Hang:
    return model.Hang(
        capture="server",
        awaits="ack",
        side="server",
        waiter="s:2049",
        other="c:700",
        since="2026-01-01T00:00:00Z",
        ms=ms,
        tries=3,
        last_try_ms=ms,
        frame=1,
        bytes=9,
        heard=None,
        cut=cut,
        calls=0,
    )


tallies = st.none() | st.lists(st.builds(_hang, st.integers(1, 4), st.sampled_from(["nothing", "reset"])), max_size=6)


@given(st.tuples(tallies, tallies, tallies))
def test_blocks_are_joined_in_any_grouping(blocks: tuple[list[model.Hang] | None, ...]) -> None:
    """(a + b) + c is a + (b + c), also where more hang than are listed, and nothing added changes nothing."""
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(hangs, "MOST_HANGS", 5)
        a, b, c = (HangTally.empty() + HangTally(block) for block in blocks)
        assert (a + b) + c == a + (b + c)
        assert a + HangTally.empty() == a
        rows = (a + b + c).rows()
        if None in blocks:
            assert rows is None
        else:
            every = [hang for block in blocks for hang in block or ()]
            assert rows == sorted(every, key=lambda hang: (hang.cut != "nothing", -hang.ms))[:5]
