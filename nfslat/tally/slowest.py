"""Matched ops -> the slowest 1 % of all of them, in bounded memory: `Slowest`, which add up.

The slowest rows are kept, up to `MOST_ROWS`, which is 1 % of some 26 million ops. Of more ops every second one is
looked at, then every fourth, and so on: what is kept is the slowest 1 % of an even sample.
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import Self

import numpy as np
import numpy.typing as npt

from nfslat.answer.model import MatchedRow
from nfslat.decompose import PART_NAMES
from nfslat.model.tables import I64
from nfslat.results import Analysis
from nfslat.tally.columns import NOT_TOLD, OpColumns
from nfslat.tally.durations import SIDES
from nfslat.tally.ops import EVERYTHING, OpSums
from nfslat.tally.stats import longest

MOST_ROWS = 1 << 18
_SHARE = 0.01
# Rows of `Slowest.columns`.
CLIENT, SERVER, WAIT, CALL_WAIT, REPLY_WAIT, STRETCH, ORDER, PARTS = range(8)
_ROWS = PARTS + len(PART_NAMES)


@dataclass(frozen=True, eq=False)
class Slowest:
    """`kept` has a row for each of the above, then for each of `PART_NAMES`; int64, ns but for the numbers of stretches
    and of ops, which count from the first of all. `WAIT` is as `OpColumns.wait_ns`."""

    kept: I64
    all_ops: int  # that it is of
    each: int = 1  # one of so many is looked at
    share: float = _SHARE  # 1: all ops of an even sample are kept, so that others can be joined to them
    most: int = MOST_ROWS
    knows_resent: bool = True

    @classmethod
    def empty(cls, most: int = MOST_ROWS, *, is_even: bool = False) -> Self:
        """Of no ops; `most` are kept. `is_even`: of an even sample all, so that parts that come in any order join."""
        return cls(np.zeros((_ROWS, 0), dtype=np.int64), 0, share=1.0 if is_even else _SHARE, most=most)

    def with_ops(self, c: Analysis, stretch: I64) -> Self:
        """With the matched ops of `c`, which come behind the others; `stretch` is the number of that of each."""
        rows = np.arange(-self.all_ops % self.each, len(c.matched), self.each)
        if self.kept.shape[1] == self.most:
            rows = rows[c.client_srt_ns[rows] > self.kept[CLIENT].min()]
        if len(rows) > self.most:
            rows = np.sort(rows[longest(c.client_srt_ns[rows], self.most)])
        knows_resent = c.retrans_waits_ns is not None and c.clock.fits
        more = type(self)(_of(c, rows, stretch), len(c.matched), self.each, knows_resent=knows_resent)
        return self._joined(more, self.all_ops, self.most)

    def __add__(self, other: Self) -> Self:
        """Both, where the ops of `other` come behind these."""
        each = max(self.each, other.each)
        even = [
            dataclasses.replace(one, kept=one.kept[:, one.kept[ORDER] % each == 0], each=each) for one in (self, other)
        ]
        # As many of both are kept where all of an even sample are; numbers stay multiples of what is left out.
        most = self.most + other.most if self.share == 1.0 else self.most
        return even[0]._joined(even[1], -(-self.all_ops // each) * each, most)

    def _joined(self, other: Self, first: int, most: int) -> Self:
        """`other` is as even as this; its ops are numbered from `first` on."""
        more, each, all_ops = other.kept.copy(), self.each, self.all_ops + other.all_ops
        more[ORDER] += first
        kept = np.concatenate([self.kept, more], axis=1)
        while all_ops * self.share / each > most:
            each *= 2
            kept = kept[:, kept[ORDER] % each == 0]
        if kept.shape[1] > most:
            kept = kept.take(_slowest_first(kept)[:most], axis=1)
        return type(self)(kept, all_ops, each, self.share, most, self.knows_resent and other.knows_resent)

    @property
    def ops(self) -> int:
        """How many the slowest 1 % are."""
        return max(int(self.all_ops * _SHARE), min(self.all_ops, 1))

    def columns(self) -> npt.NDArray[np.int64]:
        """Of the slowest 1 %, or of an even sample of them, one op at least where there are any, slowest first."""
        count = max(int(-(-self.all_ops // self.each) * _SHARE), min(self.all_ops, 1))
        return self.kept[:, _slowest_first(self.kept)[:count]]

    def row(self, error_ms: float | None) -> MatchedRow:
        """Their figures; `error_ms` is how far a one-way time may be off. Raises ``ValueError`` without ops."""
        kept = self.columns()
        columns = OpColumns(
            kept.shape[1],
            server_ns=kept[SERVER].__getitem__,
            client_ns=kept[CLIENT].__getitem__,
            wait_ns=kept[WAIT].__getitem__,
            parts_ns=lambda at: list(kept[PARTS:, at]),
            resent_ns=(lambda at: list(kept[CALL_WAIT : REPLY_WAIT + 1, at])) if self.knows_resent else None,
        )
        (row,) = OpSums.of(columns, what=EVERYTHING, percentiles=SIDES).rows()
        return row.matched_row(("", "slowest 1 %", ""), row.parts_with(error_ms))


def _of(c: Analysis, rows: I64, stretch: I64) -> I64:
    columns, whole = OpColumns.of(c, rows), slice(0, len(rows))
    out = np.zeros((_ROWS, len(rows)), dtype=np.int64)
    out[CLIENT], out[SERVER] = c.client_srt_ns[rows], c.server_srt_ns[rows]
    out[WAIT] = NOT_TOLD if columns.wait_ns is None else columns.wait_ns(whole)
    if columns.resent_ns is not None:
        out[CALL_WAIT], out[REPLY_WAIT] = columns.resent_ns(whole)
    out[STRETCH], out[ORDER] = stretch[rows], rows
    out[PARTS:] = c.parts.all_ns(rows)
    return out


def _slowest_first(kept: I64) -> I64:
    return np.lexsort((kept[ORDER], -kept[CLIENT]))
