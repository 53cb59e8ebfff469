"""Matched ops, window by window -> the slowest 1 % of all of them, in bounded memory.

The slowest rows are kept, up to `_MOST`, which is 1 % of some 26 million ops. Of more ops every second one is looked
at, then every fourth, and so on: what is kept is the slowest 1 % of an even sample.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Self

import numpy as np
import numpy.typing as npt

from nfslat.decompose import PART_NAMES
from nfslat.model.protocol import NULL
from nfslat.model.tables import I64
from nfslat.results import Analysis

_MOST = 1 << 18
_SHARE = 0.01
# Rows of `Slowest.columns`.
CLIENT, SERVER, QUEUE, CALL_WAIT, REPLY_WAIT, STRETCH, ORDER, PARTS = range(8)
_ROWS = PARTS + len(PART_NAMES)


class Slowest:
    """`columns` has a row for each of the above, then for each of `PART_NAMES`; int64, ns but for the numbers of
    stretches and of ops. A wait for a thread that is not known is NULL."""

    def __init__(self, most: int = _MOST, *, is_even: bool = False) -> None:
        """Of no ops; `most` are kept. `is_even`: of an even sample all, so that it can be merged with others."""
        self._most = most
        self._share = 1.0 if is_even else _SHARE
        self._kept: I64 = np.zeros((_ROWS, 0), dtype=np.int64)
        self._ops = 0
        self._each = 1  # one of so many is looked at

    def add(self, c: Analysis, stretch: I64) -> None:
        """The matched ops of one more window; `stretch` is the number of that which each is in."""
        rows = np.arange(-self._ops % self._each, len(c.matched), self._each)
        first, self._ops = self._ops, self._ops + len(c.matched)
        if self._kept.shape[1] == self._most:
            rows = rows[c.client_srt_ns[rows] > self._kept[CLIENT].min()]
        if len(rows) > self._most:
            rows = np.sort(rows[np.argpartition(c.client_srt_ns[rows], -self._most)[-self._most :]])
        found = np.empty((_ROWS, len(rows)), dtype=np.int64)
        found[CLIENT], found[SERVER] = c.client_srt_ns[rows], c.server_srt_ns[rows]
        load = c.inflight.load
        found[QUEUE] = NULL if load.threads.cannot else load.queue_ns[c.matched.server[rows]]
        for column, waits in zip((CALL_WAIT, REPLY_WAIT), c.retrans_waits_ns or (None, None), strict=True):
            of_all = np.zeros(len(c.matched), dtype=np.int64)
            if waits is not None:
                of_all[waits.row] = waits.ns
            found[column] = of_all[rows]
        found[STRETCH], found[ORDER] = stretch[rows], first + rows
        found[PARTS:] = c.parts.all_ns(rows)
        self._kept = np.concatenate([self._kept, found], axis=1)
        while self._ops * self._share / self._each > self._most:
            self._each *= 2
            self._kept = self._kept[:, self._kept[ORDER] % self._each == 0]
        if self._kept.shape[1] > self._most:
            slowest = np.argpartition(self._kept[CLIENT], -self._most)[-self._most :]
            self._kept = self._kept.take(slowest, axis=1)

    @classmethod
    def merge(cls, some: Sequence[Self]) -> Self:
        """Of even samples, in their order: as even as the one that is thinnest."""
        whole = cls(sum(one._most for one in some), is_even=True)
        whole._each = max(one._each for one in some)
        parts = []
        for one in some:
            kept = one._kept[:, one._kept[ORDER] % whole._each == 0]
            kept[ORDER] += whole._ops
            whole._ops += one._ops
            parts.append(kept)
        whole._kept = np.concatenate(parts, axis=1)
        return whole

    @property
    def ops(self) -> int:
        """How many the slowest 1 % are."""
        return max(int(self._ops * _SHARE), min(self._ops, 1))

    def columns(self) -> npt.NDArray[np.int64]:
        """Of the slowest 1 %, or of an even sample of them, one op at least where there are any, slowest first."""
        count = max(int(-(-self._ops // self._each) * _SHARE), min(self._ops, 1))
        order = np.lexsort((self._kept[ORDER], -self._kept[CLIENT]))[:count]
        return self._kept[:, order]
