"""What passes between pairs of hosts, window by window -> a row for each pair, and what is said of it in all."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass, field

import numpy as np

from nfslat import pipeline
from nfslat.answer import model
from nfslat.clock.clock import Clock
from nfslat.evidence.known import Known
from nfslat.figures.findings import Judged
from nfslat.figures.host_pairs import PairTold, limited, plain_rows
from nfslat.flow.judged import Judgement
from nfslat.flow.judged import told as judged
from nfslat.host_pairs import HostPair, host_pairs
from nfslat.results import Analysis
from nfslat.tally.clock import ClockTally


@dataclass
class _Pair:
    """Of one pair of hosts, in one window or more."""

    pair: HostPair
    ops: int = 0
    client_ms: float = 0.0  # of all ops
    server_ms: float = 0.0
    judged: Judgement | None = None  # where it has enough ops
    clocks: ClockTally = field(default_factory=ClockTally.empty)
    slots: int | None = None  # where it has most ops, `most`
    most: int = 0

    def join(self, other: _Pair) -> None:
        self.ops += other.ops
        self.client_ms += other.client_ms
        self.server_ms += other.server_ms
        both = [one for one in (self.judged, other.judged) if one is not None]
        self.judged = Judgement.merge(both) if both else None
        self.clocks += other.clocks
        if other.most > self.most:
            self.most, self.slots = other.most, other.slots


class Hosts:
    """Of all windows so far."""

    def __init__(self) -> None:
        """Of none."""
        self._pairs: dict[tuple[str, str], _Pair] = {}

    def add(
        self,
        c: Analysis,
        found: Judged | None,
        flown: model.InFlight,
        transport: list[model.Transport] | None,
        when_ns: tuple[int, int],
        number: int,
    ) -> None:
        """One more window, whose first stretch is `number`; `found` and `flown` are what is said of all of it."""
        rows, told = pipeline.pairs_of(c, Known(), transport)
        if not rows:
            (pair,) = host_pairs(c.server.ops, c.client.ops, c.matched).pairs
            rows = plain_rows(c, [pair], np.zeros(len(c.matched), dtype=np.int64))
            rows = [limited(rows[0], flown)]
            if found is not None:
                told = [PairTold(pair, rows[0], found.causes, found.verdict, found, c.clock)]
        by_ends = {(one.pair.client, one.pair.server): one for one in told}
        for row in rows:
            one = by_ends.get((row.client, row.server))
            self._join(_of(row, one, when_ns, number))

    def join(self, other: Hosts) -> None:
        """Windows behind these."""
        for one in other._pairs.values():
            self._join(one)

    def _join(self, now: _Pair) -> None:
        ends = now.pair.client, now.pair.server
        if ends not in self._pairs:
            self._pairs[ends] = _Pair(now.pair)  # its own: `now` may be joined with others, too
        self._pairs[ends].join(now)

    def told(self) -> tuple[list[model.HostPair], list[PairTold]]:
        """As `nfslat.pipeline.pairs_of`; nothing where there is only one."""
        if len(self._pairs) < 2:
            return [], []
        whole_ms = max(sum(one.client_ms for one in self._pairs.values()), 1e-9)
        rows, told = [], []
        for one in sorted(self._pairs.values(), key=lambda pair: -pair.client_ms):
            row = _row(one, whole_ms)
            if one.judged is not None:
                every = one.judged
                slow = dict.fromkeys(every.stretches, 1 / len(every.stretches))
                causes, verdict = judged(every, every.mean, None, slow)
                row = dataclasses.replace(
                    row,
                    outcome=verdict.outcome,
                    layer=verdict.layer,
                    largest_layer=verdict.largest_layer,
                    cause=verdict.cause,
                    text=verdict.text,
                )
                told.append(PairTold(one.pair, row, causes, verdict))
            rows.append(row)
        return rows, told


def _of(row: model.HostPair, one: PairTold | None, when_ns: tuple[int, int], number: int) -> _Pair:
    """Of one window."""
    pair = HostPair(row.client, row.server, "", row.ops)
    client_ms = row.ops * row.client_ms
    now = _Pair(pair, row.ops, client_ms, row.ops * row.server_ms, slots=row.slots, most=row.ops)
    if one is not None and one.judged is not None:
        now.judged = Judgement.of(one.judged, number, when_ns, row.ops, client_ms * 1e6, row.threads_estimate)
    if one is not None and isinstance(one.clock, Clock):
        now.clocks = ClockTally.of(one.clock)
    return now


def _row(one: _Pair, whole_ms: float) -> model.HostPair:
    clock = one.clocks.rows()
    return model.HostPair(
        client=one.pair.client,
        server=one.pair.server,
        ops=one.ops,
        time_share=one.client_ms / whole_ms,
        client_ms=one.client_ms / one.ops,
        server_ms=one.server_ms / one.ops,
        network_ms=(one.client_ms - one.server_ms) / one.ops,
        theta_ms=clock.theta_ms,
        theta_bound_ms=clock.bound_ms,
        threads_estimate=None if one.judged is None else one.judged.threads,
        slots=one.slots,
        outcome=None,
        layer=None,
        largest_layer=None,
        cause=None,
        text=None,
    )
