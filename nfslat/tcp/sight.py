"""A conversation in one trace, or in two -> where each analysis looks: a direction at its sender's end, turns at the
asker's.

What a sender waited for is seen as it was at its own end, and the asker is who the turns keep waiting; so with two
captures it does not matter which of them was named first.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from nfslat.tables import I64
from nfslat.tcp.both import Both, Pair, Passage
from nfslat.tcp.packets import Talk, Trace
from nfslat.tcp.shared import Shared
from nfslat.tcp.turns import take


@dataclass(frozen=True)
class Sight:
    """Directions are those of `main`; `at_sender` has for each the conversation where its sender is, and its number
    there."""

    main: Shared  # at the asker's end
    at_sender: tuple[tuple[Shared, int], tuple[Shared, int]]
    trace: int  # which of the traces `main` is of
    other: Shared | None  # the other end
    pair: Pair | None

    @property
    def talk(self) -> Talk:
        """The packets at the asker's end."""
        return self.main.talk

    def other_way(self, way: int) -> int:
        """What a direction of `main` is called at the other end."""
        return 1 - way if self.pair is not None and self.pair.is_turned else way

    @property
    def passages(self) -> tuple[Passage, Passage] | None:
        """What became of each direction's packets; None with one trace."""
        if self.pair is None:
            return None
        first, second = self.pair.passages
        return (second, first) if self.trace == 1 and self.pair.is_turned else (first, second)


def alone(trace: Trace, row: int) -> Sight:
    """With one trace its packets must do for both ends."""
    shared = Shared(trace.talk(row))
    return Sight(shared, ((shared, 0), (shared, 1)), 0, None, None)


def paired(both: Both, pair: Pair) -> Sight:
    """The conversation `pair` from both ends."""
    ends = [
        Shared(trace.talk(row), _needless(trace, row, [one for one in pair.passages if one.sender == side]))
        for side, (trace, row) in enumerate(zip(both.traces, pair.rows, strict=True))
    ]
    asker = take(ends[0]).asker  # a direction of the first trace
    side = pair.passages[asker].sender
    sight = Sight(ends[side], ((ends[side], 0), (ends[side], 1)), side, ends[1 - side], pair)
    passages = sight.passages
    assert passages is not None
    at = [
        (ends[side], way) if one.sender == side else (ends[1 - side], sight.other_way(way))
        for way, one in enumerate(passages)
    ]
    return Sight(ends[side], (at[0], at[1]), side, ends[1 - side], pair)


def _needless(trace: Trace, row: int, passages: list[Passage]) -> I64:
    """Rows of the conversation's own packets."""
    found = np.concatenate([np.zeros(0, dtype=np.int64), *(one.needless for one in passages)])
    return np.searchsorted(np.flatnonzero(trace.packets.conversation == row), np.sort(found))
