"""Matched ops, window by window -> the ones with the longest client SRT, each with all that is known of it."""

from __future__ import annotations

import numpy as np
from msgspec import structs

from nfslat.answer.pictures import SlowOp
from nfslat.figures.pictures.bins import Bins
from nfslat.figures.pictures.slow import slow_ops
from nfslat.model.units import to_ms
from nfslat.results import Analysis


class SlowOps:
    """`ops` are those of all windows so far, slowest first."""

    def __init__(self, most: int, *, has_frames: bool = True) -> None:
        """`most` are kept. `has_frames`: a frame's number says in which file it is; of sets of files that are still
        read nobody knows how many each has."""
        self.ops: list[SlowOp] = []
        self._most = most
        self._has_frames = has_frames
        self._begin_ns: int | None = None

    def add(self, c: Analysis) -> None:
        """One more window."""
        if not len(c.matched):
            return
        if self._begin_ns is None:
            self._begin_ns = int(c.client.ops.t0[c.matched.client].min())
        is_full = len(self.ops) >= self._most
        least_ms = self.ops[-1].client_ms if is_full and self.ops else -np.inf
        count = min(int(np.count_nonzero(to_ms(c.client_srt_ns) > least_ms)), self._most)
        found = slow_ops(c, Bins(self._begin_ns, 1, 1), count, None)
        if not self._has_frames:
            found = [structs.replace(one, timeline=[], wireshark={}) for one in found]
        self.ops = sorted([*self.ops, *found], key=lambda one: -one.client_ms)[: self._most]
