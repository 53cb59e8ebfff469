"""When ops were called and what they took -> the instants at which the state of the hosts changes: where phases begin.

Four views are looked at, one after the other, each within what the ones before it left whole:

- the shortest time on the network, which is the path's;
- the times of the operation that takes most of the time, at the server and on the network;
- the times of all operations, each as a multiple of the usual one of its own operation, so that every operation has a
  vote and their mix has none;
- the pace: for how long calls were in flight in a piece of time, beside how long those that were answered in it usually
  take. Where throughput falls with as many callers, it rises, however few of an operation there are.

What the last two show is a change only where operations that are on both its sides, with half of the time, say so each
by itself, and where it makes some of all the time. So another mix of operations is no other state, nor is idle time.
"""

from __future__ import annotations

import itertools
from typing import NamedTuple

import numpy as np

from nfslat.inflight.changes import MOST, Jump, changes, median, nearest_row, steps
from nfslat.model.blocks import largest
from nfslat.model.tables import F64, I16, I64

_SAMPLE = 60_000  # ops that the views of all operations look at
_PIECES, _OPS = 60, 5  # of time at most; answers in each on average, at least
_IN_FLIGHT = 0.05  # calls on average; in a piece with less nothing is going on
_OPS_OF_PHASE = 60  # in a phase of the last two views: what fewer show is an event
_OPS_TO_VOTE = 5  # of an operation on either side
_FACTOR = 1.0  # of two: by so much an operation has to have moved, log2
_FLOOR_FACTOR = 1.5  # of the shortest way of two pieces: lab3/half_net goes from 8 to 16 ms in two steps
_MAJORITY = 0.5  # of the time of operations that are on both sides
_MATTERS = 0.10  # of the time of all ops: what a change makes of it
_LEAST_NS = 200_000.0  # an op, on average: less is no phase worth a line

_SCALE_NS = 1_000_000.0  # what the usual time counts as, where times are multiples of it


class Calls(NamedTuple):
    """Ops in any order, one row each; `kind` numbers the operation."""

    begin_ns: I64
    kind: I16
    server_ns: I64
    network_ns: I64

    def part(self, rows: slice | I64) -> Calls:
        """Some of them."""
        return Calls(self.begin_ns[rows], self.kind[rows], self.server_ns[rows], self.network_ns[rows])

    @property
    def in_order(self) -> Calls:
        """The same, the first call first."""
        if (np.diff(self.begin_ns) >= 0).all():
            return self
        return self.part(np.argsort(self.begin_ns, kind="stable"))

    @property
    def client_ns(self) -> I64:
        """From call to reply at the client; no less than nothing."""
        return np.asarray(np.maximum(self.server_ns + self.network_ns, 0))


def segments(calls: Calls, *, is_measured: bool = True) -> list[int]:
    """Instants, ascending, at which another state begins: that of the first call of each but the first, ns; fewer than
    `MOST`. `is_measured`: what they take on the network is, and not inferred from one capture."""
    rows = len(calls.begin_ns)
    if not rows:
        return []
    sample = calls.part(slice(None, None, max(rows // _SAMPLE, 1))).in_order
    borders = [int(sample.begin_ns[cut]) for cut in _of_floor(sample)] if is_measured else []
    parts = [calls]
    if borders:
        number = np.searchsorted(borders, calls.begin_ns, side="right")
        parts = [calls.part(np.flatnonzero(number == at)) for at in range(len(borders) + 1)]
    borders = sorted({*borders, *itertools.chain.from_iterable(map(_of_main, parts))})[: MOST - 1]
    every_ns = float(sample.client_ns.sum())
    for view in (_of_all, _of_pace):
        edges = [0, *np.searchsorted(sample.begin_ns, borders).tolist(), len(sample.begin_ns)]
        more = []
        for begin, end in itertools.pairwise(edges):
            some = sample.part(slice(begin, end))
            more += [int(some.begin_ns[cut]) for cut in _that_matter(some, view(some), every_ns)]
        borders = sorted({*borders, *more})[: MOST - 1]
    return [border for border in borders if border > sample.begin_ns[0]]


def _of_floor(calls: Calls) -> list[int]:
    """Rows from which on the path is longer, or shorter. What is shortest of a few calls has met no queue, so that less
    of a step is one."""
    return changes([calls.network_ns], Jump(factor=_FLOOR_FACTOR), level=lambda times: float(times.min()))


def _of_main(calls: Calls) -> list[int]:
    most = largest(calls.kind, lambda at: calls.part(at).client_ns)
    main = calls.part(np.flatnonzero(calls.kind == most)).in_order
    return [int(main.begin_ns[cut]) for cut in changes([main.server_ns, main.network_ns])]


def _of_all(calls: Calls) -> list[int]:
    columns = [_as_usual(times, _usual_ns(times, calls.kind)) for times in (calls.server_ns, calls.network_ns)]
    return changes(columns, Jump(0.0))


def _of_pace(calls: Calls) -> list[int]:
    """Cuts between pieces of time in which calls are in flight."""
    pieces = min(_PIECES, len(calls.begin_ns) // _OPS)
    if pieces < 2:
        return []
    took_ns = calls.client_ns
    end_ns = calls.begin_ns + took_ns
    edges = np.linspace(int(calls.begin_ns[0]), int(calls.begin_ns[-1]) + 1, pieces + 1)
    in_flight_ns = np.diff(_time_until(edges, calls.begin_ns) - _time_until(edges, np.sort(end_ns)))
    usual_ns = _usual_ns(took_ns, calls.kind)
    at = np.searchsorted(edges, end_ns, side="right") - 1
    answered_ns = np.bincount(at[at < pieces], usual_ns[at < pieces], pieces)
    busy = np.flatnonzero(in_flight_ns >= _IN_FLIGHT * np.diff(edges))
    if not len(busy):
        return []
    least_ns = float(np.median(usual_ns))
    pace = in_flight_ns[busy] / np.maximum(answered_ns[busy], least_ns)
    begins = np.searchsorted(calls.begin_ns, edges)
    cuts = [int(busy[cut]) for cut in steps(pace[None, :] * _SCALE_NS, Jump(0.0))]
    return [nearest_row([_as_usual(took_ns, usual_ns)], begins, cut) for cut in cuts]


def _time_until(edges: F64, when_ns: I64) -> F64:
    """Summed over `when_ns`, ascending: for how long it had been at each of `edges`."""
    count = np.searchsorted(when_ns, edges)
    sums = np.append(0.0, np.cumsum(when_ns - when_ns[0], dtype=np.float64))
    return np.asarray(count * (edges - float(when_ns[0])) - sums[count])


def _usual_ns(times: I64, kind: I16) -> F64:
    """For each op the median of its kind, at least 1."""
    usual = np.ones(int(kind.max(initial=0)) + 1)
    for number in np.flatnonzero(np.bincount(kind)).tolist():
        usual[number] = max(median(times[kind == number]), 1.0)
    return np.asarray(usual[kind])


def _as_usual(times: I64, usual_ns: F64) -> I64:
    """Of each op what it took as a multiple of the usual time of its kind, which counts as `_SCALE_NS`."""
    return np.asarray(np.maximum(times, 0) / usual_ns * _SCALE_NS, dtype=np.int64)


def _that_matter(calls: Calls, cuts: list[int], every_ns: float) -> list[int]:
    """Those of `cuts` on both of whose sides operations have other times, and that make some of `every_ns`."""
    while cuts:
        edges = [0, *cuts, len(calls.begin_ns)]
        parts = [calls.part(slice(begin, end)) for begin, end in itertools.pairwise(edges)]
        makes = [
            _makes_ns(before, after) if min(len(before.kind), len(after.kind)) >= _OPS_OF_PHASE else 0.0
            for before, after in itertools.pairwise(parts)
        ]
        least = int(np.argmin(makes))
        if makes[least] >= _MATTERS * every_ns:
            return cuts
        cuts = [*cuts[:least], *cuts[least + 1 :]]
    return []


def _makes_ns(before: Calls, after: Calls) -> float:
    """What the slower side of a cut takes longer than the other one, as far as operations that are on both sides tell;
    0 where they do not say the same, or it is too little an op."""
    both = np.intersect1d(before.kind, after.kind).tolist()
    rows = [(before.kind == number, after.kind == number) for number in both]
    rows = [sides for sides in rows if min(map(np.count_nonzero, sides)) >= _OPS_TO_VOTE]
    columns = (before.server_ns, after.server_ns), (before.network_ns, after.network_ns)
    return max(_takes_longer_ns([(first[early], then[late]) for early, late in rows]) for first, then in columns)


def _takes_longer_ns(kinds: list[tuple[I64, I64]]) -> float:
    """The same of the times before and after a cut, by operation."""
    weight, votes = 0.0, 0.0
    ops, more_ns = np.zeros(2), np.zeros(2)
    for sides in kinds:
        levels = np.array([max(float(np.median(times)), 1.0) for times in sides])
        counts = np.array([len(times) for times in sides])
        step = float(np.log2(levels[1] / levels[0]))
        time_ns = float(sum(np.maximum(times, 0).sum() for times in sides))
        weight += time_ns
        votes += time_ns * np.sign(step) * (abs(step) >= _FACTOR)
        ops += counts
        more_ns += counts * (levels - levels[::-1])
    slower = int(votes > 0)
    if not weight or abs(votes) < _MAJORITY * weight or more_ns[slower] < _LEAST_NS * ops[slower]:
        return 0.0
    return float(more_ns[slower])
