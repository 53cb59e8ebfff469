"""Pairs of windows, one after the other -> what is kept of all of them, in memory that does not grow with the ops."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from functools import reduce
from operator import add
from typing import Self

import numpy as np

from nfslat import pipeline
from nfslat.answer import model
from nfslat.evidence.known import Known
from nfslat.figures.audit.again import again_notes
from nfslat.figures.audit.pair import above_the_wire, pair_notes
from nfslat.figures.findings import findings_of_hangs, judge
from nfslat.figures.matched import begins_ns, matched_ops, part_times, sums_by_operation
from nfslat.findings.diagnosis import Diagnosis
from nfslat.flow.alone import Alone, alone_and_outside, by_connection, of_clients
from nfslat.flow.counts import Counts
from nfslat.flow.flying import Flying
from nfslat.flow.fold import fold
from nfslat.flow.hosts import Hosts
from nfslat.flow.judged import Judgement
from nfslat.flow.pairs import Pair
from nfslat.model.protocol import NULL
from nfslat.model.tables import I64, Miss
from nfslat.results import Analysis
from nfslat.tally.charges import MOST_SLOW_OPS, ChargeTally
from nfslat.tally.clock import ClockTally
from nfslat.tally.durations import Durations
from nfslat.tally.hangs import HangTally
from nfslat.tally.ops import OpSums
from nfslat.tally.outcomes import OutcomeTally
from nfslat.tally.slowest import Slowest
from nfslat.tally.transport import TransportTally
from nfslat.tally.unseen import UnseenTally

SIDES = ("server", "client")
_OF_A_PAIR = ("captures-overlap", "no-overlap")  # notes on the time that two captures have in common
_NOT_CAPTURED = {"server": Miss.NOT_CAPTURED_AT_CLIENT, "client": Miss.NOT_CAPTURED_AT_SERVER}
_KNOWN = (Miss.OUTSIDE_OVERLAP, Miss.AMBIGUOUS)  # of those that have no partner: why, at once
_MOST_RUNS = 512
_ENOUGH = 1000  # ops of a part of a window that is judged by itself


class Whole:
    """Of all windows so far; fields are what `nfslat.flow.report` makes the report of."""

    def __init__(self, sides: Mapping[str, Counts], first: int = 0, most_slow: int | None = None) -> None:
        """Of none; `sides` are what is counted of both captures, by side. Its stretches are numbered from `first` on.
        `most_slow`: of so many ops all are kept, so that what is slowest can be told of several that are merged."""
        self.sides = sides
        self.windows = 0  # with matched ops
        self.stretches = first  # of windows in which response times change, each
        self.matched = 0
        self.untimed = 0
        self.unmatched: dict[str, Counter[str]] = {name: Counter() for name in SIDES}
        # Of each side, those that only the other side's addresses select, less those that only its own do.
        self.agreed: Counter[str] = Counter()
        self._filters = sides["client"].filters
        self.alone: Counter[str] = Counter()  # ops by side, of those that the other capture should have and has not
        self._alone = {name: Alone() for name in SIDES}
        self.conns: dict[str, set[int]] = {name: set() for name in SIDES}  # connections with matched ops
        self.by_op = OpSums.empty()
        self.parts: Durations | None = None
        self.slowest = Slowest.empty() if most_slow is None else Slowest.empty(most_slow, is_even=True)
        self.runs: list[Judgement] = []  # windows in a row of which the same is said
        self.clocks = ClockTally.empty()
        self.flying = Flying()
        self.charges = ChargeTally.empty()
        self._most_slow = MOST_SLOW_OPS if most_slow is None else most_slow
        self.transport = TransportTally.empty()
        self.hangs = HangTally.empty()
        self.outcomes = OutcomeTally.empty()  # but for statuses, which `sides` have
        self.audit: list[model.AuditNote] = []
        self.audits: dict[str, list[model.AuditNote]] = {name: [] for name in SIDES}
        self.unseen = dict.fromkeys(SIDES, UnseenTally.empty())
        self.remarks: list[str] = []  # of the window that has most of the time, what holds beyond it
        self.hosts = Hosts()
        self._most_ns = 0.0

    def add(self, pair: Pair, c: Analysis | None) -> None:
        """One more window; `c` is its analysis, where it has ops in both captures."""
        self._alone["server"].add(pair.unmatched)
        self.unmatched["server"][Miss.OUTSIDE_OVERLAP.name] += pair.outside
        if c is None or pair.found is None:
            self._add_unmatched(pair)
            return
        # Of `pair.found`: a call that hangs was sent in an earlier window.
        hangs = HangTally.of(pair.found, self._filters)
        self.hangs += hangs
        transport = TransportTally.of(c)
        self.transport += transport
        self._add_fates(c)
        if not len(c.matched):  # filters left none
            self.clocks += ClockTally.of(c.clock)
            return
        stretch = self._judge(c, transport.rows(), findings_of_hangs(hangs.rows()), (pair.begin_ns, pair.end_ns))
        self._add_ops(c, stretch)
        self.charges += ChargeTally.of(c, self._most_slow)
        self.outcomes += OutcomeTally.of({}, c.client, c.tried_again, c.recoveries)
        self.windows += 1

    def keep_less(self) -> None:
        """From now on percentiles of these ops are to within `nfslat.tally.sketch.RELATIVE_ERROR`."""
        self.by_op = self.by_op.as_sketches()
        self.parts = None if self.parts is None else self.parts.as_sketches()

    def end(self, outside: int = 0) -> None:
        """What has no partner is counted; `outside`: ops that the server's capture has beyond the client's."""
        self.unmatched["server"][Miss.OUTSIDE_OVERLAP.name] += outside
        for name, other in (("server", "client"), ("client", "server")):
            told = self._alone[name].told(self.sides[name].connections, self.sides[other].connections)
            self.unmatched[name][_NOT_CAPTURED[name].name] += told.not_captured
            self.unmatched[name][Miss.CONNECTION_UNMATCHED.name] += told.of_others
            self.alone[name] += told.not_captured + told.of_others - told.of_strangers

    @classmethod
    def merge(cls, some: Sequence[Self]) -> Self:
        """Of windows in their order, each with its own `first` and with `most_slow`; none of them has ended. Raises
        ``IndexError`` where there are none."""
        whole = cls({name: Counts.merge([one.sides[name] for one in some]) for name in SIDES})
        for one in some:
            whole._join(one)
        whole.slowest = reduce(add, [one.slowest for one in some])
        return whole

    def _join(self, other: Self) -> None:
        """What is not merged at once."""
        self.windows += other.windows
        self.matched += other.matched
        self.untimed += other.untimed
        self.alone += other.alone
        self.agreed.update(other.agreed)
        for name in SIDES:
            self.unmatched[name] += other.unmatched[name]
            self._alone[name].join(other._alone[name])
            self.conns[name] |= other.conns[name]
            self.audits[name] = fold([*self.audits[name], *other.audits[name]])
            self.unseen[name] += other.unseen[name]
        for now in other.runs:
            self._keep(now)
        self.clocks += other.clocks
        self.flying.join(other.flying)
        self.by_op += other.by_op
        if other.parts is not None:
            self.parts = other.parts if self.parts is None else self.parts + other.parts
        self.hosts.join(other.hosts)
        self.charges += other.charges
        self.transport += other.transport
        self.hangs += other.hangs
        self.outcomes += other.outcomes
        self.audit = fold([*self.audit, *other.audit])
        if other._most_ns > self._most_ns:
            self._most_ns, self.remarks = other._most_ns, other.remarks

    def _add_unmatched(self, pair: Pair) -> None:
        """No op of the client's is in the server's capture."""
        ops, ran_ns = pair.client.ops, pair.server_ran_ns or (0, np.iinfo(np.int64).max)
        alone, outside = alone_and_outside(ops, ran_ns, self._filters)
        self._alone["client"].add(alone)
        self.unmatched["client"][Miss.OUTSIDE_OVERLAP.name] += outside

    def _add_fates(self, c: Analysis) -> None:
        """What becomes of the ops of either side."""
        self.matched += len(c.matched)
        self.untimed += c.untimed
        for name in SIDES:
            fates, compared = c.missed(name), c.compared(name)
            self.unmatched[name] += Counter(
                {one.name: int(np.count_nonzero(compared & (fates == one))) for one in _KNOWN}
            )
            self.alone[name] += int(np.count_nonzero(compared & (fates == Miss.AMBIGUOUS)))
            side, rows = (c.server, c.matched.server) if name == "server" else (c.client, c.matched.client)
            self.conns[name].update(np.unique(side.ops.conn[rows]).tolist())
            of_link = c.matching.links.server if name == "server" else c.matching.links.client
            self._alone[name].link(np.flatnonzero(of_link != NULL).tolist())
            open_ones = compared & ((fates == _NOT_CAPTURED[name]) | (fates == Miss.CONNECTION_UNMATCHED))
            self._alone[name].add(by_connection(side.ops, open_ones))
            self.agreed[name] += int(np.count_nonzero(compared)) - int(
                np.count_nonzero(of_clients(side.ops, self._filters))
            )
            notes = again_notes(side)
            self.audits[name] = fold([*self.audits[name], *(one for one in notes if one.count)])
            self.unseen[name] += UnseenTally.of(c, name)

    def _add_ops(self, c: Analysis, stretch: I64) -> None:
        self.by_op += sums_by_operation(c)
        parts = part_times(c)
        self.parts = parts if self.parts is None else self.parts + parts
        self.slowest = self.slowest.with_ops(c, stretch)
        self.clocks += ClockTally.of(c.clock)
        self.audit = fold([*self.audit, *(one for one in pair_notes(c) if one.code not in _OF_A_PAIR)])

    def _judge(
        self,
        c: Analysis,
        transport: list[model.Transport] | None,
        hanging: list[Diagnosis],
        when_ns: tuple[int, int],
    ) -> I64:
        """The number of the stretch that each matched op is in: of the window, or, where response times change, of the
        part before or behind."""
        flown = self.flying.add(c)
        found = judge(c, Known(), matched_ops(c), flown, transport, hanging)
        first, begins = self.stretches, begins_ns(c)
        self.hosts.add(c, found, flown, transport, when_ns, first)
        if found is None:
            return np.full(len(begins), first)
        if c.client_srt_ns.sum() > self._most_ns:
            self._most_ns, self.remarks = float(c.client_srt_ns.sum()), above_the_wire(c)
        threads = flown.server.threads_estimate if flown.server.limited else None
        phases = pipeline.phases_of(c, Known())
        if any(one.row.ops < _ENOUGH for one in phases):
            phases = []
        borders = [one.span.begin_ns for one in phases[1:]]
        stretch = np.searchsorted(np.array(borders, dtype=np.int64), begins, side="right")
        parts = [(one.judged, one.span.begin_ns, one.span.end_ns, one.row.threads_estimate) for one in phases]
        for number, (part, begin, end, limit) in enumerate(parts or [(found, None, None, threads)]):
            mine = stretch == number
            if part is None or not mine.any():
                continue
            when = begin or when_ns[0], end or when_ns[1]
            ops, client_ns = int(np.count_nonzero(mine)), float(c.client_srt_ns[mine].sum())
            now = Judgement.of(part, first + number, when, ops, client_ns, limit)
            self._keep(now if number else now.with_causes(hanging))
        self.stretches += max(len(parts), 1)
        return stretch + first

    def _keep(self, now: Judgement) -> None:
        """Windows of which the same is said become one; and where that changes too often, neighbours do."""
        if self.runs and self.runs[-1].said == now.said:
            self.runs[-1] = Judgement.merge([self.runs[-1], now])
            return
        self.runs.append(now)
        if len(self.runs) > _MOST_RUNS:
            self.runs = [Judgement.merge(self.runs[at : at + 2]) for at in range(0, len(self.runs), 2)]
