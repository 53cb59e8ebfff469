"""Response times by group, of which percentiles are told: `Durations`, which add up.

They are kept as they were measured; where parts are joined, more than `MOST_EXACT` of a group become sketches.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, Self

import numpy as np
import numpy.typing as npt

from nfslat.answer.figures import Summary
from nfslat.kernels.order import ranked
from nfslat.model.blocks import compact
from nfslat.model.record import Record
from nfslat.model.tables import I32, I64
from nfslat.model.units import to_ms
from nfslat.tally.columns import Column
from nfslat.tally.sketch import Sketch
from nfslat.tally.stats import percentiles

MOST_EXACT = 1_000_000  # response times of a group: 16 MB
CLIENT, SERVER, NETWORK = "client", "server", "network"
SIDES = (CLIENT, SERVER)  # the network's are the difference


class _Part(NamedTuple):
    """Response times side by side by group: those of group g stand from `begins[g]` to `ends[g]`, and nothing else is
    in the columns. The network's are the difference of the two others, and are made when they are asked for."""

    columns: Mapping[str, I32 | I64]
    begins: I64
    ends: I64

    def of(self, side: str, group: int) -> I32 | I64:
        at = slice(self.begins[group], self.ends[group])
        if side == NETWORK:
            return np.subtract(self.columns[CLIENT][at], self.columns[SERVER][at], dtype=np.int64)
        return self.columns[side][at]

    def placed(self, at: npt.NDArray[np.integer[Any]], groups: int) -> _Part:
        """The same by other groups: those at `at` of `groups`, of which several may be the same."""
        sizes = self.ends - self.begins
        new = np.bincount(at, sizes, groups).astype(np.int64)
        columns = self.columns
        # Those of a new group stand side by side where the groups that it is made of do.
        order = np.argsort(self.begins, kind="stable")
        there = at[order[sizes[order] > 0]]
        if int(np.count_nonzero(np.diff(there))) + 1 > max(int(np.count_nonzero(new)), 1):
            by_group = np.lexsort((self.begins, at))
            rows = np.concatenate([np.arange(self.begins[one], self.ends[one]) for one in by_group.tolist()])
            columns = {side: ns[rows] for side, ns in columns.items()}
            begins = np.cumsum(new) - new
            return _Part(columns, begins, begins + new)
        begins = np.full(groups, np.iinfo(np.int64).max)
        some = sizes > 0
        np.minimum.at(begins, at[some], self.begins[some])
        begins[new == 0] = 0
        return _Part(columns, begins, begins + new)

    def without(self, groups: Sequence[int]) -> _Part:
        """A copy without these, so that the memory that they took is free."""
        sizes = self.ends - self.begins
        sizes[list(groups)] = 0
        kept = np.flatnonzero(sizes)
        ends = np.cumsum(sizes)
        columns = {
            side: np.concatenate([ns[:0], *(ns[self.begins[one] : self.ends[one]] for one in kept.tolist())])
            for side, ns in self.columns.items()
        }
        return _Part(columns, ends - sizes, ends)


class Durations(Record, eq=False):
    """`sides` says of which there are any; `parts` are exact, and each group is there or in `sketches`."""

    sides: tuple[str, ...]
    parts: tuple[_Part, ...]
    sketches: Mapping[int, Mapping[str, Sketch]]

    @classmethod
    def of(cls, columns: Mapping[str, Column], rows: int, order: I32 | None, spans: Sequence[slice]) -> Self:
        """Of `rows` ops, by side; `order` puts those of a group side by side (None: they are in one), at `spans`."""

        def placed(column: Column) -> I32 | I64:
            return compact(rows, lambda at: column(at if order is None else order[at].astype(np.int64)))

        begins, ends = np.array([[at.start, at.stop] for at in spans], dtype=np.int64).reshape(-1, 2).T
        sides = (*columns, *([NETWORK] if {CLIENT, SERVER} <= columns.keys() else []))
        return cls(sides, (_Part({side: placed(one) for side, one in columns.items()}, begins, ends),), {})

    def placed(self, at: npt.NDArray[np.integer[Any]], groups: int) -> Self:
        """The same by other groups: those at `at` of `groups`, of which several may be the same."""
        parts = tuple(part.placed(at, groups) for part in self.parts)
        sketches: dict[int, Mapping[str, Sketch]] = {}
        for group, own in self.sketches.items():
            to = int(at[group])
            sketches[to] = _joined([sketches[to], own]) if to in sketches else own
        return type(self)(self.sides, parts, sketches)._without_mixed()

    def __add__(self, other: Self) -> Self:
        """Both; their groups are the same."""
        sketches = dict(self.sketches)
        for group, own in other.sketches.items():
            sketches[group] = _joined([sketches[group], own]) if group in sketches else own
        whole = type(self)(self.sides, self.parts + other.parts, sketches)
        counts = sum((part.ends - part.begins for part in whole.parts), np.zeros(1, dtype=np.int64))
        return whole._sketched(np.flatnonzero(counts > MOST_EXACT).tolist())._without_mixed()

    @property
    def exact(self) -> int:
        """Response times that are kept as they were measured, of a side."""
        return sum(int((part.ends - part.begins).sum()) for part in self.parts)

    def as_sketches(self) -> Self:
        """The same in little memory, so that percentiles are to within `nfslat.tally.sketch.RELATIVE_ERROR`."""
        some = {group for part in self.parts for group in np.flatnonzero(part.ends > part.begins).tolist()}
        return self._sketched(sorted(some))

    def _without_mixed(self) -> Self:
        """What is exact of a group that has a sketch gets into that."""
        return self._sketched(
            [one for one in self.sketches if any(part.ends[one] > part.begins[one] for part in self.parts)]
        )

    def _sketched(self, groups: Sequence[int]) -> Self:
        if not groups:
            return self
        sketches = dict(self.sketches)
        for group in groups:
            some = [sketches[group]] if group in sketches else []
            some += [
                {side: Sketch.of(part.of(side, group).astype(np.int64)) for side in self.sides}
                for part in self.parts
                if part.ends[group] > part.begins[group]
            ]
            sketches[group] = _joined(some)
        parts = [part.without(groups) for part in self.parts]
        return type(self)(self.sides, tuple(one for one in parts if one.ends.any()), sketches)

    def exact_ns(self, side: str, group: int) -> I32 | I64 | None:
        """Those of a group, in any order; None: there is but a sketch."""
        if group in self.sketches:
            return None
        some = [one for part in self.parts if len(one := part.of(side, group))]
        return some[0] if len(some) == 1 else np.concatenate([np.zeros(0, dtype=np.int64), *some])

    def percentile(self, side: str, group: int, percent: int) -> int:
        """Of those of a group, ns. Raises ``ValueError`` where there are none."""
        exact = self.exact_ns(side, group)
        return self.sketches[group][side].quantile(percent) if exact is None else ranked(exact, percent)

    def summary(self, side: str, group: int, mean_ns: float) -> Summary:
        """Of those of a group. Raises ``ValueError`` where there are none."""
        exact = self.exact_ns(side, group)
        of = self.sketches[group][side].percentiles() if exact is None else percentiles(exact)
        p50, p95, p99, most = (to_ms(ns) for ns in of)
        return Summary(mean=to_ms(mean_ns), p50=p50, p95=p95, p99=p99, max=most)


def _joined(some: Sequence[Mapping[str, Sketch]]) -> Mapping[str, Sketch]:
    if len(some) == 1:
        return some[0]
    return {side: Sketch.merge([one[side] for one in some]) for side in some[0]}
