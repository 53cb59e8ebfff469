"""Ops that one capture knows of and does not show, beside those that it shows."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import Self

import numpy as np

from nfslat.answer import model
from nfslat.answer.figures import matters
from nfslat.model.units import to_ms
from nfslat.results import Analysis
from nfslat.wire.unseen import Unseen


@dataclass(frozen=True)
class UnseenTally:
    """The sums of one capture; None where it is not known to hide any op, and those that it shows are not counted."""

    sums: Unseen | None = None

    @classmethod
    def empty(cls) -> Self:
        """The tally of no block at all."""
        return cls()

    @classmethod
    def of(cls, c: Analysis, name: str) -> Self:
        """One side of a block. Where the capture hides nothing of it, what it shows counts all the same: the share of
        what is hidden is of all blocks."""
        if (sums := c.unseen[name]) is not None:
            return cls(sums)
        ops = (c.server if name == "server" else c.client).ops
        rows = np.flatnonzero(c.compared(name))
        took_ns = ops.t2[rows] - ops.t1[rows] if name == "server" else ops.t3[rows] - ops.t0[rows]
        return cls(Unseen(len(rows), float(took_ns.sum()), 0, 0, 0, 0.0, 0.0))

    def __add__(self, later: Self) -> Self:
        """This one, and a later block's."""
        if self.sums is None or later.sums is None:
            return later if self.sums is None else self
        pairs = zip(dataclasses.astuple(self.sums), dataclasses.astuple(later.sums), strict=True)
        return type(self)(Unseen(*(before + now for before, now in pairs)))

    def rows(self) -> model.Unseen | None:
        """The figures of the capture, where it hides any op."""
        sums = self.sums
        if sums is None or not sums.ops:
            return None
        seen_ms = float(to_ms(sums.seen_ns / max(sums.seen, 1)))
        low_ns, high_ns = sums.mean_ns
        mean_ms = float(to_ms(low_ns)), float(to_ms(high_ns))
        return model.Unseen(
            ops=sums.ops,
            without_reply=sums.without_reply,
            without_call=sums.without_call,
            without_both=sums.without_both,
            share=sums.share,
            share_of_time=sums.share_of_time,
            seen_mean_ms=seen_ms,
            mean_ms=mean_ms,
            matters=matters(seen_ms, mean_ms, sums.share_of_time),
        )
