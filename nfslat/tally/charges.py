"""What TCP, the hosts and the path made of the ops' time, by part and cause: of all of them, and of the slowest 1 %."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Self

import numpy as np
from msgspec import field

from nfslat.answer import model
from nfslat.answer.figures import UNEXPLAINED
from nfslat.decompose import PART_NAMES
from nfslat.model.causes import CAUSES, Cause, code
from nfslat.model.record import Record
from nfslat.model.tables import I64
from nfslat.model.units import to_ms
from nfslat.results import Analysis
from nfslat.tally.stats import longest
from nfslat.wire.charges.analysis import NET, Charged, Sum
from nfslat.wire.charges.places import AFTER, BEFORE, PLACES, place

SLOWEST_SHARE = 0.01
MOST_SLOW_OPS = 1 << 18  # 1 % of some 26 million
Sums = Mapping[tuple[str, Cause | None], Sum]  # by place and cause; None: what no cause explains of a part


class SlowOps(Record, eq=False):
    """The slowest ops, at most so many, slowest first; ns."""

    most: int
    srt_ns: I64
    parts_ns: I64  # [part, op]
    op: I64  # of each charge: which of these ops it is of
    key: I64  # place and cause
    ns: I64

    @classmethod
    def empty(cls) -> Self:
        """Room for no op."""
        none = np.zeros(0, dtype=np.int64)
        return cls(0, none, np.zeros((len(PART_NAMES), 0), dtype=np.int64), none, none, none)

    @classmethod
    def of(cls, c: Analysis, charges: Charged, most: int, longer_than_ns: int) -> Self:
        """The slowest ops of a block."""
        rows = longest(c.client_srt_ns, most)
        rows = rows[c.client_srt_ns[rows] > longer_than_ns]
        op_of = np.full(len(c.matched), -1)
        op_of[rows] = np.arange(len(rows))
        rare = charges.rare
        columns = [(op_of[rare.row], rare.place.astype(np.int64) * len(CAUSES) + rare.cause, rare.ns)]
        for part in NET:
            key = np.full(len(rows), place(part) * len(CAUSES) + code(Cause.DISTANCE))
            columns.append((np.arange(len(rows)), key, charges.distance_ns(part, rows)))
        op, key, ns = (np.concatenate(column) for column in zip(*columns, strict=True))
        some = (op >= 0) & (ns != 0)
        return cls(most, c.client_srt_ns[rows], np.array(c.parts.all_ns(rows)), op[some], key[some], ns[some])

    def __add__(self, later: Self) -> Self:
        """The slowest of these and of a later block's; of ops that took as long those of the first come first."""
        most = min(self.most + later.most, MOST_SLOW_OPS)
        srt_ns = np.concatenate([self.srt_ns, later.srt_ns])
        rows = np.argsort(-srt_ns, kind="stable")[:most]
        op_of = np.full(len(srt_ns), -1)
        op_of[rows] = np.arange(len(rows))
        op = op_of[np.concatenate([self.op, later.op + len(self.srt_ns)])]
        some = op >= 0
        key, ns = np.concatenate([self.key, later.key]), np.concatenate([self.ns, later.ns])
        parts_ns = np.concatenate([self.parts_ns, later.parts_ns], axis=1)[:, rows]
        return type(self)(most, srt_ns[rows], parts_ns, op[some], key[some], ns[some])

    def sums(self, count: int) -> tuple[int, dict[tuple[str, Cause | None], int]]:
        """The SRTs of the slowest `count`, and what they are charged with, ns."""
        some = self.op < count
        charged: dict[tuple[str, Cause | None], int] = {}
        left_ns = dict(zip(PART_NAMES, self.parts_ns[:, :count].sum(axis=1).tolist(), strict=True))
        for key in np.unique(self.key[some]).tolist():
            where, cause = PLACES[key // len(CAUSES)], CAUSES[key % len(CAUSES)]
            charged[where, cause] = ns = int(self.ns[some & (self.key == key)].sum())
            if where in left_ns:
                left_ns[where] -= ns
        return int(self.srt_ns[:count].sum()), charged | {(part, None): ns for part, ns in left_ns.items()}


class ChargeTally(Record, eq=False):
    """Charges of matched ops; None where the clocks, or what TCP did, are not known."""

    ops: int = 0
    srt_ns: int = 0
    sums: Sums | None = {}
    slow: SlowOps = field(default_factory=SlowOps.empty)

    @classmethod
    def empty(cls) -> Self:
        """The tally of no block at all."""
        return cls()

    @classmethod
    def of(cls, c: Analysis, most_slow: int = MOST_SLOW_OPS, longer_than_ns: int = -1) -> Self:
        """The charges of a block, of which the `most_slow` slowest ops are kept, of those that took longer."""
        if c.charges is None:
            return cls(sums=None)
        slow = SlowOps.of(c, c.charges, most_slow, longer_than_ns)
        return cls(len(c.matched), int(c.client_srt_ns.sum()), c.charges.sums(), slow)

    def __add__(self, later: Self) -> Self:
        """This one, and a later block's."""
        if self.sums is None or later.sums is None:
            return type(self)(sums=None)
        sums, none = dict(self.sums), Sum(0, 0)
        for key, more in later.sums.items():
            before = sums.get(key, none)
            sums[key] = Sum(before.ns + more.ns, before.ops + more.ops)
        return type(self)(self.ops + later.ops, self.srt_ns + later.srt_ns, sums, self.slow + later.slow)

    @property
    def longer_than_ns(self) -> int:
        """Ops of later blocks that take no longer are none of the slowest that are kept."""
        srt_ns = self.slow.srt_ns
        return int(srt_ns[-1]) if len(srt_ns) >= MOST_SLOW_OPS else -1

    def rows(self) -> list[model.Charge] | None:
        """In the order of the parts, the largest of each first."""
        sums = self.sums
        if sums is None:
            return None
        slow_ops = min(max(1, int(self.ops * SLOWEST_SHARE)), len(self.slow.srt_ns))
        slow_srt_ns, of_slow = self.slow.sums(slow_ops)

        def order(key: tuple[str, Cause | None]) -> tuple[int, bool, int, bool, int]:
            where, cause = key
            ties = (False, 0) if cause is None else (cause == Cause.DISTANCE, code(cause))
            return PLACES.index(where), cause is None, -sums[key].ns, *ties

        rows = []
        for where, cause in sorted(sums, key=order):
            ns, ops = sums[where, cause]
            slow_ns = of_slow.get((where, cause), 0) / slow_ops
            in_srt = where not in (BEFORE, AFTER)
            rows.append(
                model.Charge(
                    part=where,
                    cause=UNEXPLAINED if cause is None else cause.value,
                    ops=ops,
                    total_ms=to_ms(ns),
                    mean_ms=to_ms(ns / self.ops),
                    share=ns / self.ops / (self.srt_ns / self.ops) if in_srt and self.srt_ns > 0 else None,
                    slowest_ms=to_ms(slow_ns),
                    slowest_share=slow_ns / (slow_srt_ns / slow_ops) if in_srt and slow_srt_ns > 0 else None,
                )
            )
        return rows
