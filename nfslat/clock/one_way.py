"""A `Clock` and ops -> how far means of their one-way times may be off, by group: `ErrorSums`, which add up."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Self

import numpy as np
import numpy.typing as npt

from nfslat.clock.clock import Clock, Segment
from nfslat.kernels.exact import Sums, added, by_blocks, exact_sums, spread
from nfslat.model.blocks import together
from nfslat.model.record import Record
from nfslat.model.tables import I32, I64, Ops


class ErrorSums(Record, eq=False):
    """A row for each of `segments` of clocks, a column for each group: how many ops it has there, and how long behind
    the segment's `t_ns` their calls and their replies were, ns, summed.

    theta is linear in time, so the mean of its errors is its error at the mean time: of calls, and of replies.
    """

    segments: tuple[Segment, ...]
    counts: Sums
    calls_ns: Sums
    replies_ns: Sums

    @classmethod
    def of(
        cls,
        clock: Clock,
        client: Ops,
        rows: int,
        client_rows: Callable[[slice], I32 | I64],
        groups: npt.NDArray[np.integer[Any]] | None = None,
        count: int = 1,
    ) -> Self:
        """`rows` ops, which are the client's `client_rows`; each is in one of `count` groups, or all are in one."""
        starts = [segment.first_row for segment in clock.segments[1:]]
        middles = np.array([segment.t_ns for segment in clock.segments], dtype=np.int64)
        size = len(clock.segments) * count

        def sums(at: slice) -> list[Sums]:
            mine = client_rows(at)
            key = np.zeros(len(mine), dtype=np.int64) if groups is None else groups[at].astype(np.int64)
            middle = middles[0]
            if starts:
                number = np.searchsorted(starts, mine, side="right")
                key, middle = key + number * count, middles[number]
            chosen = together(mine)
            since = [times[chosen] - middle for times in (client.t0, client.t3)]
            return [np.bincount(key, minlength=size), *(exact_sums(key, ns, size) for ns in since)]

        made = by_blocks(rows, sums) or [np.zeros(size, dtype=np.int64)] * 3
        return cls(clock.segments, *(one.reshape(len(clock.segments), count) for one in made))

    @classmethod
    def none(cls, groups: int) -> Self:
        """Of no clock: nothing is known of any op."""
        return cls((), *[np.zeros((0, groups), dtype=np.int64)] * 3)

    def placed(self, at: npt.NDArray[np.integer[Any]], groups: int) -> Self:
        """The same by other groups: those at `at` of `groups`."""
        columns = (
            np.array([spread(row, at, groups) for row in one]).reshape(len(self.segments), groups)
            for one in (self.counts, self.calls_ns, self.replies_ns)
        )
        return type(self)(self.segments, *columns)

    def __add__(self, other: Self) -> Self:
        """Both; their groups are the same."""
        numbers = {_key(segment): at for at, segment in enumerate(self.segments)}
        segments = list(self.segments)
        columns = [list(one) for one in (self.counts, self.calls_ns, self.replies_ns)]
        for segment, *rows in zip(other.segments, other.counts, other.calls_ns, other.replies_ns, strict=True):
            at = numbers.get(_key(segment))
            for column, row in zip(columns, rows, strict=True):
                if at is None:
                    column.append(row)
                else:
                    column[at] = added(column[at], row)
            if at is None:
                segments.append(segment)
        groups = self.counts.shape[1]
        return type(self)(tuple(segments), *(np.array(one).reshape(len(segments), groups) for one in columns))

    @property
    def known(self) -> Sums:
        """Ops of each group that the clocks are known for."""
        return np.asarray(self.counts.sum(axis=0))

    def ns(self) -> list[int]:
        """How far a mean one-way figure of each group may be off; 0 of none."""
        totals = np.zeros((2, self.counts.shape[1]))
        for total, moments in zip(totals, (self.calls_ns, self.replies_ns), strict=True):
            for segment, counts, since_ns in zip(self.segments, self.counts, moments, strict=True):
                some = np.flatnonzero(counts)
                total[some] += counts[some] * segment.errors_at((since_ns[some] / counts[some]).astype(np.float64))
        return [int(one) for one in np.ceil(totals.max(axis=0) / np.maximum(self.known, 1)).tolist()]


def mean_error_ns(clock: Clock, client: Ops, client_rows: I32 | I64) -> int:
    """How far a mean one-way figure over the ops in these of the client's rows may be off."""
    return ErrorSums.of(clock, client, len(client_rows), lambda at: client_rows[at]).ns()[0]


def _key(segment: Segment) -> tuple[object, ...]:
    return tuple(value for name, value in zip(segment._fields, segment, strict=True) if name != "lines")
