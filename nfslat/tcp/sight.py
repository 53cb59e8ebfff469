"""A conversation in one trace, or in two -> where each analysis looks: a direction at its sender's end, turns at the
asker's.

What a sender waited for is seen as it was at its own end, and the asker is who the turns keep waiting; so with two
captures it does not matter which of them was named first.
"""

from __future__ import annotations

import numpy as np

from nfslat.model.record import Record
from nfslat.tcp.both import Both, Pair
from nfslat.tcp.packets import Talk, Trace
from nfslat.tcp.passage import Passage
from nfslat.tcp.shared import Shared
from nfslat.tcp.turn_shape import who_asks


class Sight(Record):
    """Directions are those of `main`. `at_sender` has for each the conversation at its sender's end, and what the
    direction is called there."""

    main: Shared  # at the asker's end
    at_sender: tuple[tuple[Shared, int], tuple[Shared, int]]
    trace: int  # which of the traces `main` is of
    ends: BothEnds | None  # with two traces

    @property
    def talk(self) -> Talk:
        """The packets at the asker's end."""
        return self.main.talk


class BothEnds(Record):
    """What a second trace adds; directions are those of `Sight.main`."""

    pair: Pair
    other: Shared  # the other end
    passages: tuple[Passage, Passage]


def alone(trace: Trace, row: int) -> Sight:
    """With one trace its packets must do for both ends."""
    shared = Shared(trace.talk(row))
    return Sight(shared, ((shared, 0), (shared, 1)), 0, None)


def paired(both: Both, pair: Pair) -> Sight:
    """The conversation `pair` from both ends."""
    none = np.zeros(0, dtype=np.int64)
    ends = [
        Shared(trace.talk(row), np.concatenate([none, *(one.needless for one in pair.passages if one.sender == side)]))
        for side, (trace, row) in enumerate(zip(both.traces, pair.rows, strict=True))
    ]
    asker, _ = who_asks(ends[0])
    side = pair.passages[asker].sender
    first, second = pair.passages
    passages = (second, first) if side == 1 and pair.is_turned else (first, second)
    there, back = (
        (ends[one.sender], 1 - way if one.sender != side and pair.is_turned else way)
        for way, one in enumerate(passages)
    )
    return Sight(ends[side], (there, back), side, BothEnds(pair, ends[1 - side], passages))
