"""A replay with the number of threads that fits best -> how likely it is that calls wait for a pool of so many threads.

The best of many numbers may still be wrong: whatever makes calls wait (a processor, a disk, a journal that commits in
groups, a host that stands still) looks like some number of threads. A pool of T threads leaves marks that do not hang
on how long the work is (docs/method.md, "Server threads"). Each is a figure, and says by how much that figure is more
likely with threads than without; what all say is added up. No mark refutes by itself: hosts that other hosts hold up,
loads that change and clocks with ticks blur every one of them.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from typing import NamedTuple

import numpy as np
from msgspec import structs

from nfslat.inflight.ranks import rank_correlation
from nfslat.inflight.weights import INTERCEPT, WEIGHTS
from nfslat.kernels.dispatch import Work, in_flight
from nfslat.model.record import Record
from nfslat.model.tables import I32, I64, Bool

LIKELY, CERTAIN = 0.75, 0.97  # probability from which a limit is told, and told as certain
_MOST_CALLS = 60_000  # in a row, those that wait longest: more say the same of a mark, and take longer
_FEWEST_CALLS, _FEWEST_LIGHT = 20, 5  # of a kind that a mark compares; fewer are chance
_SLOW_WORK_NS = 1_000_000  # work of the main operation; below, calls without data take as long
_PREEMPTED_NS = 3_000_000  # work that a short call overtakes on a processor (base_slice_ns of Linux's scheduler)
_TOGETHER = 0.2  # of the usual time from an answer to the next: answers that are nearer are one group
_STANDSTILL = 8  # times the mean work, in which nothing is answered
_FARTHEST = 256  # calls back in the order of arrival that may still be open
_OF_ONE_SIZE = 0.7  # of the calls, answered in groups of one size: threads in lockstep


class Replay(Record, eq=False, dict=True):
    """What `threads` threads had to do. Rows are those of `work`."""

    work: Work
    threads: int
    taken_ns: I64  # when each call was taken; its reply where it had no thread
    forced: Bool  # answered without a thread
    depth: I32  # in flight on arrival, itself included; beyond all where that is not known
    main: Bool  # of the operation that takes most of the time
    light: Bool  # of other operations, that need neither data nor a name
    seen: int  # at work at once, at least ...
    times_seen: int  # ... and how often
    gain_nats: float  # a call: by how much its work is more regular than if nothing waited
    below_nats: float  # and by how much more with fewer threads than were seen at work; at least 0
    halves: float  # by how many doublings the numbers differ that fit each half of the time best

    @cached_property
    def worked(self) -> Bool:
        """Calls of the main operation that had a thread."""
        return self.main & ~self.forced

    @property
    def wait_ns(self) -> I64:
        """Of each call for a thread."""
        return self.taken_ns - self.work.arrival_ns

    @cached_property
    def service_ns(self) -> I64:
        """Of each call in a thread."""
        return self.work.reply_ns - self.taken_ns

    @cached_property
    def usual_ns(self) -> float:
        """Work of the main operation, median."""
        return float(np.median(self.service_ns[self.worked])) if self.worked.any() else 0.0


def fit(replay: Replay) -> tuple[float, str]:
    """How likely a pool is what calls wait for, and what speaks most against it."""
    figures = marks(replay)
    seen = [mark for mark in MARKS if mark.instead and figures[mark.name] is not None]
    return probability(figures), min(seen, key=lambda mark: log_odds(mark.name, figures[mark.name])).instead


def probability(figures: dict[str, float | None]) -> float:
    """The probability that threads are the limit, and that their number is right."""
    return float(1 / (1 + np.exp(-INTERCEPT - sum(log_odds(name, figure) for name, figure in figures.items()))))


def marks(replay: Replay) -> dict[str, float | None]:
    """The figure of each mark; None: there is too little to see it."""
    if len(replay.taken_ns) > _MOST_CALLS:
        waits = np.append(0.0, np.cumsum(replay.wait_ns, dtype=np.float64))
        begin = int(np.argmax(waits[_MOST_CALLS:] - waits[:-_MOST_CALLS]))
        rows = slice(begin, begin + _MOST_CALLS)
        columns = {name: getattr(replay, name)[rows] for name in ("taken_ns", "forced", "depth", "main", "light")}
        replay = structs.replace(replay, work=replay.work.part(rows), **columns)
    return {mark.name: mark.of(replay) for mark in MARKS}


def log_odds(name: str, figure: float | None) -> float:
    """What a mark's figure adds, between the knots of its table."""
    weight = WEIGHTS[name]
    return weight.unseen if figure is None else float(np.interp(figure, weight.knots, weight.log_odds))


def in_lockstep(replay: Replay) -> int:
    """So many threads as answer together, again and again, while more is in flight; 0: they do not.

    Threads that wait for one clock (a disk with a timer) are answered at one time, and then all take the next calls:
    with fewer threads that looks like work of no time and of all the time in turn, which is regular, too.
    """
    first, size, in_flight = _groups(replay)
    calls = np.bincount(size, size)
    usual = int(np.argmax(calls)) if len(calls) else 0
    if usual < 2 or calls[usual] < _OF_ONE_SIZE * len(replay.taken_ns) or len(first) < _FEWEST_CALLS:
        return 0
    # A journal takes all that has gathered, which is half of what is in flight.
    return usual if np.median(in_flight[size == usual]) > 2 * usual else 0


def _groups(replay: Replay) -> tuple[I64, I64, I64]:
    """Answers that come together: position of the first among the answers, how many, and calls in flight then."""
    work, ok = replay.work, replay.worked
    reply = work.reply_ns[work.by_reply]
    usual_ns = float(replay.service_ns[ok].mean()) / replay.threads if ok.any() else 0.0
    first = np.flatnonzero(np.append(True, np.diff(reply) > _TOGETHER * usual_ns))
    in_flight = np.searchsorted(work.arrival_ns, reply[first], side="right") - first
    return first, np.diff(np.append(first, len(reply))), in_flight


def _answered_in_turn(replay: Replay) -> float | None:
    """While more calls than threads are in flight: how much oftener than by chance at most T - 1 of the calls that came
    before an answered one are open. 1: always, as in a pool; 0: as if any call could be the next. Turns of more
    connections than threads hide it, and that speaks against nothing: 1."""
    if len(np.unique(replay.work.stream)) > replay.threads:
        return 1.0
    work, reply, threads = replay.work, replay.work.reply_ns, replay.threads
    open_before = np.zeros(len(reply), dtype=np.int64)
    for back in range(1, min(len(reply), 2 * int(in_flight(work).max()), _FARTHEST)):
        open_before[back:] += reply[:-back] > reply[back:]
    there = np.searchsorted(work.arrival_ns, reply) - np.searchsorted(reply[work.by_reply], reply)
    waits = there > threads
    if np.count_nonzero(waits) < _FEWEST_CALLS:
        return None
    chance = float((threads / there[waits]).mean())
    return (float((open_before[waits] < threads).mean()) - chance) / (1 - chance)


def _bound_reached(replay: Replay) -> float | None:
    """How often as many threads as fit were seen at work, log10; else what is missing of them, below 0. One is always
    seen."""
    if replay.threads == 1:
        return None
    return min(replay.seen / replay.threads - 1, 0.0) or float(np.log10(max(replay.times_seen, 1)))


def _answered_together(replay: Replay) -> float:
    """The share of the time that calls stand that ends as more of the main operation are answered at one moment than
    threads could answer."""
    first, _, in_flight = _groups(replay)
    work = replay.work
    reply = work.reply_ns[work.by_reply]
    size = np.add.reduceat(replay.main[work.by_reply].astype(np.int64), first)
    stood_ns = np.diff(reply[first], prepend=reply[0]) * in_flight
    return float(stood_ns[size > replay.threads + 1].sum() / max(stood_ns.sum(), 1))


def _grows_below(replay: Replay) -> float | None:
    """Rank correlation of what calls take with how many are in flight, where no more are than there are threads; less
    twice its error."""
    # What TCP lets through at one moment is in the order of its answers (`jobs.find_jobs`), which grow with that.
    at_once = np.append(False, np.diff(replay.work.arrival_ns) == 0)
    at_once[:-1] |= at_once[1:]
    below = np.flatnonzero(replay.main & ~at_once & (replay.depth <= replay.threads))
    depth = replay.depth[below]
    few = max(int(np.median(depth)), 1) if len(depth) else 1
    if min(np.count_nonzero(depth <= few), np.count_nonzero(depth > few)) < _FEWEST_CALLS:
        return None
    grows, error = rank_correlation(depth, replay.work.server_ns[below])
    return float(np.clip(grows - 2 * error, 0.0, 1.0))


def _stands_still(replay: Replay) -> float:
    """The share of the waits in which nothing at all is answered for long."""
    work, ok = replay.work, replay.worked
    reply = work.reply_ns[work.by_reply]
    gap_ns = np.diff(reply)
    long_ns = np.where(gap_ns >= _STANDSTILL * (replay.service_ns[ok].mean() if ok.any() else 0.0), gap_ns, 0)
    # How long nothing was answered until each moment.
    until_ns = np.append(0, np.cumsum(long_ns))
    still_ns = np.interp(replay.taken_ns, reply, until_ns) - np.interp(work.arrival_ns, reply, until_ns)
    return float(still_ns[ok].sum() / max(replay.wait_ns[ok].sum(), 1))


def _unlike_the_unqueued(replay: Replay) -> float | None:
    """Largest distance of the distributions of work of calls that met an idle thread and of the others (Kolmogorov and
    Smirnov), beyond chance; no more than their medians are apart."""
    met_idle = replay.depth <= replay.threads
    alone = np.sort(replay.service_ns[replay.worked & met_idle])
    waited = np.sort(replay.service_ns[replay.worked & ~met_idle])
    if min(len(alone), len(waited)) < _FEWEST_CALLS:
        return None
    at = np.concatenate((alone, waited))
    shares = [np.searchsorted(times_ns, at, side="right") / len(times_ns) for times_ns in (alone, waited)]
    apart = np.abs(shares[0] - shares[1]).max()
    chance = 1.63 * np.sqrt(1 / len(alone) + 1 / len(waited))  # once in a hundred
    medians = abs(np.median(waited) - np.median(alone)) / max(float(np.median(alone)), 1.0)
    return float(max(min(apart - chance, medians), 0.0))


def _light_forced(replay: Replay) -> float | None:
    """Share of the calls without data that should have waited, and are answered without a thread, less that of the
    others."""
    should = replay.depth > replay.threads
    light, others = replay.forced[replay.light & should], replay.forced[replay.main & should]
    if len(light) < _FEWEST_LIGHT or not len(others):
        return None
    return float(light.mean() - others.mean())


def _light_as_slow(replay: Replay) -> float | None:
    """Work of the calls without data beside that of the others, medians."""
    light = replay.light & ~replay.forced
    if np.count_nonzero(light) < _FEWEST_CALLS or replay.usual_ns < _SLOW_WORK_NS:
        return None
    return float(np.median(replay.service_ns[light])) / replay.usual_ns


def _light_wait(replay: Replay) -> float | None:
    """Share of the calls of little work that wait at least half as long as the others, of those that should."""
    waits = replay.wait_ns[replay.main & (replay.wait_ns > 0)]
    light = replay.light & (replay.depth > replay.threads) & (replay.service_ns <= replay.usual_ns / 10)
    if replay.usual_ns < _PREEMPTED_NS or np.count_nonzero(light) < _FEWEST_LIGHT or not len(waits):
        return None
    return float((2 * replay.wait_ns[light] >= np.median(waits)).mean())


class Mark(NamedTuple):
    """`sign`: the figure of a pool is large (1), small (-1), or may be either (0)."""

    name: str
    sign: int
    of: Callable[[Replay], float | None]
    instead: str = ""  # what it would be where this speaks most against threads


MARKS = (
    Mark("light calls wait", 1, _light_wait),
    Mark("light calls forced", -1, _light_forced,
         "calls that need no data do not wait: what the others wait for lies beyond the threads"),
    Mark("light calls as slow", -1, _light_as_slow,
         "calls that need no data would take nearly as long as the others: all wait for something unseen, such as "
         "threads taken by calls that are not captured"),
    Mark("times grow below T", -1, _grows_below,
         "calls take longer the more of them are in flight, long before all threads would be busy: they share "
         "something beyond the threads (processors, a disk, a lock)"),
    Mark("answers in groups", -1, _answered_together,
         "more calls are repeatedly answered at one moment than threads could answer: a journal that commits in "
         "groups, a timer, or a stalled host"),
    Mark("standstills", -1, _stands_still,
         "they wait while nothing at all is answered: the whole server, or what is behind it, is stalled"),
    Mark("unlike the unqueued", -1, _unlike_the_unqueued,
         "calls that found an idle thread take a different time from what the others would spend in one"),
    Mark("fewer fit better", -1, lambda replay: replay.below_nats,
         "fewer threads than were seen busy would fit better: calls do not wait for threads"),
    Mark("answers in turn", 1, _answered_in_turn),
    Mark("bound reached", 1, _bound_reached),
    # Where each connection's calls are answered one by one, all that is wrong of one thread is whose turn it was.
    Mark("forced", -1, lambda replay: 0.0 if replay.threads == replay.seen == 1 else float(replay.forced.mean())),
    Mark("nats gained", 1, lambda replay: replay.gain_nats),
    Mark("halves differ", -1, lambda replay: replay.halves),
    Mark("number", -1, lambda replay: float(np.log2(replay.threads))),
)  # fmt: skip
