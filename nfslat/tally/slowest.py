"""Matched ops, block by block -> the slowest 1 % of all of them, in bounded memory: `Slowest`.

The slowest rows are kept, up to `MOST_ROWS`, which is 1 % of some 26 million ops. Of more ops every second one is
looked at, then every fourth, and so on: what is kept is the slowest 1 % of an even sample.
"""

from __future__ import annotations

from typing import Self

import numpy as np
import numpy.typing as npt

from nfslat.answer.model import MatchedRow
from nfslat.decompose import PART_NAMES
from nfslat.model.record import Record
from nfslat.model.tables import I64
from nfslat.results import Analysis
from nfslat.tally.columns import NOT_TOLD, OpColumns
from nfslat.tally.durations import SIDES
from nfslat.tally.ops import EVERYTHING, OpSums
from nfslat.tally.stats import longest

MOST_ROWS = 1 << 18
_SHARE = 0.01
# Rows of `Slowest.columns`.
CLIENT, SERVER, WAIT, CALL_WAIT, REPLY_WAIT, ORDER, PARTS = range(7)
_ROWS = PARTS + len(PART_NAMES)


class Slowest(Record, eq=False):
    """`kept` has a row for each of the above, then for each of `PART_NAMES`; int64, ns but for the numbers of the ops,
    which count from the first of all. `WAIT` is as `OpColumns.wait_ns`."""

    kept: I64
    all_ops: int  # that it is of
    each: int = 1  # one of so many is looked at
    most: int = MOST_ROWS
    knows_resent: bool = True

    @classmethod
    def empty(cls, most: int = MOST_ROWS) -> Self:
        """Of no ops; `most` are kept."""
        return cls(np.zeros((_ROWS, 0), dtype=np.int64), 0, most=most)

    def with_ops(self, c: Analysis) -> Self:
        """With the matched ops of `c`, which come behind the others."""
        rows = np.arange(-self.all_ops % self.each, len(c.matched), self.each)
        if self.kept.shape[1] == self.most:
            rows = rows[c.client_srt_ns[rows] > self.kept[CLIENT].min()]
        if len(rows) > self.most:
            rows = np.sort(rows[longest(c.client_srt_ns[rows], self.most)])
        knows_resent = c.retrans_waits_ns is not None and c.clock.fits
        more = _of(c, rows)
        more[ORDER] += self.all_ops
        kept, each, all_ops = np.concatenate([self.kept, more], axis=1), self.each, self.all_ops + len(c.matched)
        while all_ops * _SHARE / each > self.most:
            each *= 2
            kept = kept[:, kept[ORDER] % each == 0]
        if kept.shape[1] > self.most:
            kept = kept.take(_slowest_first(kept)[: self.most], axis=1)
        return type(self)(kept, all_ops, each, self.most, self.knows_resent and knows_resent)

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


def _of(c: Analysis, rows: I64) -> I64:
    columns, whole = OpColumns.of(c, rows), slice(0, len(rows))
    out = np.zeros((_ROWS, len(rows)), dtype=np.int64)
    out[CLIENT], out[SERVER] = c.client_srt_ns[rows], c.server_srt_ns[rows]
    out[WAIT] = NOT_TOLD if columns.wait_ns is None else columns.wait_ns(whole)
    if columns.resent_ns is not None:
        out[CALL_WAIT], out[REPLY_WAIT] = columns.resent_ns(whole)
    out[ORDER] = rows
    out[PARTS:] = c.parts.all_ns(rows)
    return out


def _slowest_first(kept: I64) -> I64:
    return np.lexsort((kept[ORDER], -kept[CLIENT]))
