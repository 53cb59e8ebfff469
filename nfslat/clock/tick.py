"""The stamps of a capture -> the tick of the clock that made them, where it is coarser than what it measures.

Old kernels, virtual machines without a clock of their own, and Windows stamp packets by a clock that goes in steps of
1, 4, 10 or 15.625 ms; some file formats have room for seconds only. Then all stamps are some phase and a multiple of
the step, to within how they were rounded and how the clock was slewed.
"""

from __future__ import annotations

import dataclasses
import itertools
import math
from typing import NamedTuple

import numpy as np

from nfslat.model.tables import I64, Bool, Ops

LEAST_TICK_NS = 400_000  # no clock of a kernel or of a file's format has a shorter one that is coarse
_LEAST_SLEWED_NS = 400_000  # below that, what rounding and slewing leave free is too much of a tick
_WHOLE_NS = (1_000_000_000, 100_000_000, 10_000_000, 1_000_000)
_SECOND_NS = 1_000_000_000
_EXACT_SHARE = 0.999  # of the stamps
_ROUNDED_NS, _SLEWED = 2_000, 2e-4  # stamps of microseconds; of a gap
_NEAR_TICKS = 32  # gaps of more may have been slewed by too much
_LEAST_GAPS, _LEAST_NEAR, _LEAST_PACKETS = 8, 24, 32  # between instants; of few ticks; packets
_ON_ONE_INSTANT = 2  # packets, on average, that leave no doubt
_AT_ONCE = 0.01  # of the ops
_LEAST_KINDS, _MOST_ALIKE = 4, 0.98  # of gaps, as they are in ticks; of all gaps
_OFTEN, _BESIDE = 0.1, 0.01  # of all gaps; of gaps of as many ticks, those with one more or less
_BLOCKS, _BLOCK_OPS = 8, 2048  # a sample of the ops, side by side
_MOST_CONNECTIONS = 32  # that are looked at by themselves
_DRAWS, _DRAWN = 8, 24  # gaps whose common divisor is sought


class Tick(NamedTuple):
    """The tick of stamps, ns, 0 where they are as fine as what they measure; and the share of ops with such stamps."""

    ns: int
    share: float


FINE = Tick(0, 0.0)
# Ticks that ops take on average: then what they wait for can be told as ever; with what has to be inferred, hardly.
_FINE_ENOUGH, _FINE_ENOUGH_ALONE = 100, 10_000
_LEAST_SHARE = 0.05  # of the ops
_SPREADS = 2  # standard errors
# As a part of a tick, or of the durations if they are less: in the lab disks of 20 and 100 ms kept step with ticks of
# 10 ms, and means were off by 0.2 of a tick, 0.32 at the worst.
_UNEVEN = 0.2
_IN_STEP = 0.9  # of ops, from one to the next
_USUAL = 2  # ticks from the median: what is beyond is no matter of ticks
_STRETCHES = 32  # of the time


def bears_means(tick_ns: float, mean_ns: float) -> bool:
    """Do stamps with this tick tell no more than means of durations that are so long on average?"""
    return tick_ns * _FINE_ENOUGH > mean_ns


def is_coarse(tick: Tick, mean_ns: float, *, alone: bool) -> bool:
    """Do stamps tick so slowly that only means are known of ops which take so long? `alone`: of one capture."""
    return tick.ns * (_FINE_ENOUGH_ALONE if alone else _FINE_ENOUGH) > mean_ns and tick.share >= _LEAST_SHARE


def mean_error_ns(tick: Tick, durations_ns: I64, begins_ns: I64) -> float:
    """How far the mean of durations with such stamps may be off; no more than a tick.

    Where ops begin as often in each part of a tick their mean is right, and the square of what each is off by is a
    sixth of the tick's on average. Ops that begin within one tick are parts of one burst, and loads may go in step with
    the clock: these are off by the same, and count as so many fewer as their durations differ from time to time by more
    than by chance; of a load by a timer nothing is known to less than a tick. That begins are spread evenly over ticks
    no such stamps show: a part is for that.
    """
    count = len(durations_ns)
    if not tick.ns or not count:
        return 0.0
    if _is_by_timer(begins_ns):
        return float(tick.ns)
    alike = _as_one(tick.ns, durations_ns, begins_ns)
    by_chance = _SPREADS * math.sqrt(tick.share * alike / (6 * count))
    uneven = _UNEVEN * min(float(durations_ns.mean()) / tick.ns, 1.0)
    return float(tick.ns * min(math.hypot(by_chance, uneven), 1.0))


def _is_by_timer(begins_ns: I64) -> bool:
    apart, count = np.unique(np.diff(np.sort(begins_ns)), return_counts=True)
    return bool(len(apart) and apart[count.argmax()] > 0 and count.max() >= _IN_STEP * (len(begins_ns) - 1))


def _as_one(tick_ns: int, durations_ns: I64, begins_ns: I64) -> float:
    """How many durations are off by the same, on average: those that begin in one tick, and more by the design effect
    of statistics: by how much means of these, or of stretches of time, vary more than if they were drawn by lot."""
    middle = np.median(durations_ns)
    usual = np.clip(durations_ns, middle - _USUAL * tick_ns, middle + _USUAL * tick_ns).astype(np.float64)
    spread = float(usual.var())
    if not spread:
        return float(len(usual) / len(np.unique(begins_ns // tick_ns)))
    order = np.argsort(begins_ns, kind="stable")
    stretch = np.empty(len(order), dtype=np.int64)
    stretch[order] = np.arange(len(order)) * _STRETCHES // len(order)
    _, bursts = np.unique(begins_ns // tick_ns, return_inverse=True)
    effects: list[float] = [len(usual) / (bursts.max() + 1.0)]
    for group in (stretch, bursts):
        count = np.bincount(group)
        if 1 < len(count) < len(usual):
            means = np.bincount(group, weights=usual) / np.maximum(count, 1)
            between = float((count * (means - usual.mean()) ** 2).sum()) / (len(count) - 1)
            effects.append(between / spread)
    return float(max(effects))


def at_the_latest(ops: Ops, tick: Tick, *, calls: bool) -> Ops:
    """With calls, or replies, stamped when they came at the latest: a stamp is the begin of its tick."""
    if not tick.ns:
        return ops
    names = ("t0", "t1") if calls else ("t2", "t3")
    return dataclasses.replace(ops, **{name: getattr(ops, name) + tick.ns for name in names})


def tick_of(ops: Ops) -> Tick:
    """The tick of a capture, on the clock that stamped it. One way may be stamped by another clock, and so may
    connections, where several files were made one: then the longest tick is told."""
    if len(ops) * 2 < _LEAST_PACKETS:
        return FINE
    blocks = _sample(len(ops))
    return _tick_of(ops, blocks) if _happens_at_once(ops, blocks) else FINE


def _happens_at_once(ops: Ops, blocks: list[slice]) -> bool:
    """Do things that come one after the other have one stamp: a call and its reply, or a reply and the next call on
    its connection? Without any a load may just keep to a grid of time, as one that somebody made up does."""
    at_once = count = 0
    for at in blocks:
        conn, begin, end = (column[at].astype(np.int64) for column in (ops.conn, ops.t0, ops.t3))
        order = np.lexsort((begin, conn))
        conn, begin, end = conn[order], begin[order], end[order]
        follows = (conn[1:] == conn[:-1]) & (begin[1:] == end[:-1])
        at_once += int(np.count_nonzero(begin == end)) + int(np.count_nonzero(follows & (begin[:-1] != end[:-1])))
        count += len(conn)
    return at_once >= _AT_ONCE * count


def _tick_of(ops: Ops, blocks: list[slice]) -> Tick:
    if whole_ns := _of_blocks(ops, blocks, None, calls=True, replies=True):
        return FINE if _take_all_the_same(ops, blocks, whole_ns) else Tick(whole_ns, 1.0)
    of_ways = [_of_blocks(ops, blocks, None, calls=way, replies=not way) for way in (True, False)]
    if any(of_ways) and of_ways[0] != of_ways[1]:  # two clocks with one tick are one: a load that keeps time
        return Tick(max(of_ways), 1.0)
    return _of_connections(ops, blocks)


def _take_all_the_same(ops: Ops, blocks: list[slice], tick_ns: int) -> bool:
    """Do all ops take as many ticks, one at the least? Nothing does that by a clock that ticks slowly."""
    took = np.concatenate([ops.t3[at] - ops.t0[at] for at in blocks]) // tick_ns
    times, count = np.unique(took, return_counts=True)
    return bool(times[count.argmax()] > 0 and count.max() >= _MOST_ALIKE * len(took))


def _of_connections(ops: Ops, blocks: list[slice]) -> Tick:
    if len(ops.connections) < 2:
        return FINE
    number = np.concatenate([ops.conn[at] for at in blocks])
    counts = np.bincount(number, minlength=len(ops.connections))
    longest_ns, coarse = 0, 0
    for conn in np.argsort(-counts, kind="stable")[:_MOST_CONNECTIONS].tolist():
        if counts[conn] * 2 < _LEAST_PACKETS:
            break
        if tick_ns := _of_blocks(ops, blocks, conn, calls=True, replies=True):
            longest_ns, coarse = max(longest_ns, tick_ns), coarse + int(counts[conn])
    return Tick(longest_ns, coarse / max(len(number), 1)) if longest_ns else FINE


def _sample(count: int) -> list[slice]:
    if count <= _BLOCKS * _BLOCK_OPS:
        return [slice(0, count)]
    begins = np.linspace(0, count - _BLOCK_OPS, _BLOCKS).astype(np.int64).tolist()
    return [slice(begin, begin + _BLOCK_OPS) for begin in begins]


def _of_blocks(ops: Ops, blocks: list[slice], conn: int | None, *, calls: bool, replies: bool) -> int:
    """Nearly all blocks have to show it: in one of many a clock may have been set."""
    ticks_ns = []
    ways = [(("t0", "call_first_frame"), ("t1", "call_last_frame"))] if calls else []
    ways += [(("t2", "reply_first_frame"), ("t3", "reply_last_frame"))] if replies else []
    for at in blocks:
        rows: slice | Bool = slice(None) if conn is None else ops.conn[at] == conn
        stamps, frames = (
            np.concatenate([getattr(ops, column)[at][rows] for column in columns])
            for columns in zip(*itertools.chain.from_iterable(ways), strict=True)
        )
        most = len(stamps) // 2
        if most >= _LEAST_PACKETS or len(blocks) == 1:
            # Messages may share a packet; what is fine by the most that there may be needs no counting.
            is_fine = not tick_of_stamps(stamps, most)
            ticks_ns.append(0 if is_fine else tick_of_stamps(stamps, len(np.unique(frames))))
    if not ticks_ns:
        return 0
    ticks_ns.sort()
    return ticks_ns[1] if len(ticks_ns) == _BLOCKS else ticks_ns[0]


def tick_of_stamps(stamps: I64, packets: int) -> int:
    """The tick of the instants of so many packets, in any order, ns; 0: they are fine, or too few to say."""
    if packets < _LEAST_PACKETS:
        return 0
    at, count = np.unique(stamps, return_counts=True)
    gaps = np.diff(at)
    is_crowded = packets >= _ON_ONE_INSTANT * len(at)
    if not is_crowded and len(gaps) < _LEAST_GAPS:
        return 0
    if not len(gaps):
        return next((whole for whole in _WHOLE_NS if at[0] % whole == 0), 0)
    tick_ns = _exact(at, count, gaps) or _slewed(gaps)
    return tick_ns if tick_ns and (is_crowded or _is_by_chance(gaps, tick_ns)) else 0


def _is_by_chance(gaps: I64, tick_ns: int) -> bool:
    """Is there more than the few intervals at which a load by a timer, or one that somebody made up, does things? What
    takes no whole number of ticks is seen as one or the other beside it."""
    times, count = np.unique(np.rint(gaps / tick_ns).astype(np.int64), return_counts=True)
    if len(count) < _LEAST_KINDS or count.max() > _MOST_ALIKE * len(gaps):
        return False
    beside = _counts(times, count, times - 1) + _counts(times, count, times + 1)
    is_often = count >= _OFTEN * len(gaps)
    return bool((beside[is_often] >= _BESIDE * count[is_often]).all())


def _counts(times: I64, count: I64, asked: I64) -> I64:
    """Of times in order, each of which has a count, those of others; 0 of what is not among them."""
    at = np.minimum(np.searchsorted(times, asked), len(times) - 1)
    return np.where(times[at] == asked, count[at], 0)


def _exact(at: I64, count: I64, gaps: I64) -> int:
    """The tick of which stamps are multiples to the nanosecond, or 0."""
    draw = np.random.default_rng(0)
    best = 0
    for _ in range(_DRAWS):
        drawn = gaps if len(gaps) <= _DRAWN else draw.choice(gaps, _DRAWN, replace=False)
        divisor = int(np.gcd.reduce(drawn))
        if divisor <= best or divisor < LEAST_TICK_NS:
            continue
        phases, of = np.unique(at % divisor, return_inverse=True)
        most = np.bincount(of, weights=count, minlength=len(phases)).max()
        best = divisor if most >= _EXACT_SHARE * count.sum() else best
    return _SECOND_NS if best > _SECOND_NS and best % _SECOND_NS == 0 else best


def _slewed(gaps: I64) -> int:
    """The same to within what stamps of microseconds, and a clock that is slewed, are off."""
    in_order = np.sort(gaps)
    least = int(in_order[int(len(gaps) * (1 - _EXACT_SHARE))])
    near = in_order[in_order < _NEAR_TICKS * least].astype(np.float64)
    if least < _LEAST_SLEWED_NS or len(near) < _LEAST_NEAR:
        return 0
    tick = float(near[near < 1.5 * least].mean())
    times = np.rint(near / tick)
    tick = float(near.sum() / max(times.sum(), 1.0))
    off = np.abs(near - np.rint(near / tick) * tick)
    fits = np.mean(off <= _ROUNDED_NS + _SLEWED * near) >= _EXACT_SHARE
    return round(tick) if fits else 0
