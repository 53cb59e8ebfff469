"""The matched ops, waits for a thread taken off -> those that are slow at times, and how they come; no words."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from nfslat.figures.late_calls import late_beside_ms
from nfslat.figures.matched import unstable_writes
from nfslat.findings.facts import SlowOps
from nfslat.inflight.changes import median
from nfslat.inflight.coming import coming, meanwhile
from nfslat.inflight.split import APART, FEWEST, slow_from
from nfslat.model.protocol import IN_MEMORY_OPS
from nfslat.model.tables import I64
from nfslat.model.units import NS_PER_S, to_ms, utc
from nfslat.results import Analysis
from nfslat.select import op_labels
from nfslat.tally.stats import slowest

_SOME = 0.1  # of the time in the server: operations that take less are not looked at
_LEAST_NS, _OF_ALL = 1_000_000, 0.05  # where longer ones make less of the time, none is said to be slow
_QUARTER = 0.25  # of it, by slow ops of all kinds together
# A few, or a single one: each takes so long, and so many times as long as the longest of all others.
_VERY_LONG_NS, _BESIDE_LONG = 1_000_000_000, 20
_MOST = 400_000  # ops that are looked at to see whether they part
# Those that go by a name meet the disk where nobody has read that directory lately.
_LIGHT = IN_MEMORY_OPS - {"LOOKUP", "OPEN"}


def slow_ops_of(c: Analysis, rows: I64, own_ns: I64, how_late: Callable[[], I64 | None]) -> SlowOps | None:
    """Slow ops among the matched ops `rows`, in ascending order; how they come is seen in those of all. `own_ns` are
    `in_thread_ns`; `how_late`: see `late_calls`."""
    some = _some(rows)
    if not len(rows) or not _may_be(own_ns[some], c.client_srt_ns[some]):
        return None
    labels = np.array(op_labels(c.client.ops.kinds))
    names, of_kind = np.unique(labels, return_inverse=True)
    op = of_kind[c.kind]
    parted = _parting(own_ns[some], op[some]) or late_of_all(own_ns[some], op[some])
    least_ns = parted or very_long(own_ns, op)
    if not least_ns:
        return None
    said = np.isin(np.arange(len(names)), [*least_ns])
    from_ns = np.full(len(names), np.iinfo(np.int64).max)
    for at, least in least_ns.items():
        from_ns[at] = math.ceil(least)
    among = np.zeros(len(op), dtype=np.bool_)
    among[rows] = said[op[rows]]
    slow = among & (own_ns >= from_ns[op])
    if np.count_nonzero(slow) < (FEWEST if parted else 1):
        return None
    at_server, at_client = c.matched.rows(slice(None))
    begin, end = c.clock.on_client(at_client, c.server.ops.t1[at_server], c.server.ops.t2[at_server])
    order = np.argsort(begin, kind="stable")
    light = np.isin(labels, [*_LIGHT])[c.kind]
    beside = meanwhile(begin[order], end[order], slow[order], light[order], min(least_ns.values()))
    order = order[among[order]]
    come = coming(begin[order], end[order], slow[order])
    tail = slowest(c.client_srt_ns)
    usual_ns = np.median(own_ns[slow])
    part = None
    if come.part_ns is not None:
        first, last = come.part_ns
        part = (
            "" if first - usual_ns <= begin[order[0]] else utc(first, digits=3),
            "" if last + usual_ns >= begin[order[-1]] else utc(last, digits=3),
        )
    return SlowOps(
        ops=tuple(map(str, names[said])),
        slow=int(np.count_nonzero(slow)),
        of=int(np.count_nonzero(among)),
        slow_ms=float(to_ms(usual_ns)),
        others_ms=float(to_ms(np.median(own_ns[among & ~slow]))),
        mean_ms=float(to_ms(own_ns[slow].sum() / len(rows))),
        slowest_ms=float(to_ms(own_ns[tail][slow[tail]].sum() / len(tail))),
        part=part,
        stalls=come.stalls,
        stall_ms=float(to_ms(come.stall_ns)),
        every_s=come.every_ns / NS_PER_S,
        alone=come.alone,
        overtaken=beside.overtaken,
        light_quick=beside.light_quick,
        light_slow=beside.light_slow,
        unstable=float(np.mean(unstable_writes(c)[slow])),
        late_ms=None if (late := how_late()) is None else late_beside_ms(c, late, slow),
    )


def _some(rows: I64) -> I64:
    return rows[:: -(-len(rows) // _MOST)]


def _may_be(own_ns: I64, client_srt_ns: I64) -> bool:
    return bool(own_ns[own_ns >= _LEAST_NS].sum() >= _OF_ALL * client_srt_ns.sum())


def _parting(own_ns: I64, op: I64) -> dict[int, float]:
    """From how many ns on an op is one of its kind's slow ones, by kind: of those with much of the time that have
    such."""
    sums = np.bincount(op, own_ns)
    found = {}
    for at in np.argsort(-sums, kind="stable").tolist():
        if sums[at] < _SOME * sums.sum():
            break
        from_ns = slow_from(own_ns[op == at])
        if from_ns is not None:
            found[at] = from_ns
    return found


def very_long(own_ns: I64, op: I64) -> dict[int, float]:
    """The same of a few, or one, that take a second or more and have a quarter of all the time, where all others are
    quick beside each of them. What has no others of its kind (a COPY of a large file) may take as long by nature."""
    if own_ns.max(initial=0) < _VERY_LONG_NS:
        return {}
    is_long = own_ns >= _VERY_LONG_NS
    is_long &= (np.bincount(op[~is_long], minlength=int(op.max()) + 1) >= FEWEST)[op]
    if not is_long.any() or own_ns[is_long].sum() < _QUARTER * own_ns.sum():
        return {}
    shortest_ns = own_ns[is_long].min()
    if own_ns[~is_long].max() > shortest_ns / _BESIDE_LONG:
        return {}
    return dict.fromkeys(np.unique(op[is_long]).tolist(), shortest_ns / 2)


def late_of_all(own_ns: I64, op: I64) -> dict[int, float]:
    """The same of those that are slow beside all others, where no kind alone has enough of them: what stalls for half a
    second with a few workers keeps one op of each kind waiting.

    Quicker than the slowest kind's median is all the same here, so that a slow kind of ops is not taken for slow ones.
    """
    usual_ns = max(median(own_ns[op == at]) for at in np.flatnonzero(np.bincount(op)))
    least_ns = _QUARTER * own_ns.sum()
    if own_ns[own_ns >= APART * usual_ns].sum() < least_ns:
        return {}
    from_ns = slow_from(np.maximum(own_ns, int(usual_ns)), of_the_time=0.0)
    late = own_ns >= (np.inf if from_ns is None else from_ns)
    if from_ns is None or own_ns[late].sum() < least_ns:
        return {}
    return dict.fromkeys(np.unique(op[late]).tolist(), from_ns)
