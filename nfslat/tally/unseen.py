"""Ops that one capture knows of and does not show, beside those that it shows."""

from __future__ import annotations

from typing import Self

import numpy as np

from nfslat.answer import model
from nfslat.answer.figures import matters
from nfslat.model.blocks import together
from nfslat.model.record import Record
from nfslat.model.tables import Miss
from nfslat.model.units import to_ms
from nfslat.results import Analysis
from nfslat.wire.unseen import Unseen


class UnseenTally(Record):
    """The sums of one capture; None where it is not known to hide any op, and those that it shows are not counted."""

    sums: Unseen | None = None
    others: int = 0  # ops that it shows and the other capture does not, though it has their connection
    others_ns: int = 0  # their response times, summed

    @classmethod
    def empty(cls) -> Self:
        """The tally of no block at all."""
        return cls()

    @classmethod
    def of(cls, c: Analysis, name: str) -> Self:
        """One side of a block. Where the capture hides nothing of it, what it shows counts all the same: the share of
        what is hidden is of all blocks."""
        is_server = name == "server"
        ops, compared = (c.server if is_server else c.client).ops, c.compared(name)
        miss = Miss.NOT_CAPTURED_AT_CLIENT if is_server else Miss.NOT_CAPTURED_AT_SERVER
        spans = (ops.t1, ops.t2) if is_server else (ops.t0, ops.t3)
        others, shown = (np.flatnonzero(some) for some in (compared & (c.missed(name) == miss), compared))
        others_ns, shown_ns = (int((spans[1][at] - spans[0][at]).sum()) for at in (together(others), together(shown)))
        sums = c.unseen[name] or Unseen(len(shown), float(shown_ns), 0, 0, 0, 0.0, 0.0)
        return cls(sums, len(others), others_ns)

    def __add__(self, later: Self) -> Self:
        """This one, and a later block's."""
        others = self.others + later.others, self.others_ns + later.others_ns
        if self.sums is None or later.sums is None:
            return type(self)(later.sums if self.sums is None else self.sums, *others)
        return type(self)(self.sums.plus(later.sums), *others)

    @property
    def ops(self) -> int | None:
        """Ops that the capture knows of and does not show; None: it is not known to hide any."""
        return None if self.sums is None or not self.sums.ops else self.sums.ops

    @property
    def share(self) -> float:
        """Of all ops, those."""
        return 0.0 if self.sums is None else self.sums.share

    def rows(self) -> model.Unseen | None:
        """The figures of the capture, where it hides any op."""
        sums = self.sums
        if sums is None or not sums.ops:
            return None
        seen_ms = float(to_ms(sums.seen_ns / max(sums.seen, 1)))
        low_ns, high_ns = sums.mean_ns
        mean_ms = float(to_ms(low_ns)), float(to_ms(high_ns))
        is_far = matters(seen_ms, mean_ms, sums.share_of_time)
        return model.Unseen.like(sums, seen_mean_ms=seen_ms, mean_ms=mean_ms, matters=is_far)
