"""A replay with the number of threads that fits best -> whether a pool of threads fits at all, or what is told instead.

The best of many numbers may still be wrong: whatever makes calls wait (a processor, a disk, a journal that commits in
groups, a host that stands still) looks like some number of threads. A pool of T threads has marks that do not hang on
how long the work is (docs/method.md, "Server threads"):

- calls that arrive while fewer than T are in flight meet an idle thread: their times do not grow with their number;
- work does not know how many wait: what is left when the waits are taken off does not grow with that;
- so calls that waited work as long as those that did not;
- all calls wait in one line, those that need no data, too;
- each thread answers by itself: answers do not come in groups.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from nfslat.inflight.ranks import BLOCKS, grows_by, rank_correlation, spearman
from nfslat.kernels.dispatch import Work
from nfslat.model.protocol import NULL
from nfslat.model.tables import I64, Bool

_RARELY = 10  # times that the bound is seen: then it is no sign of a limit
_POOLED, _TWICE = 4.0, 2.0  # standard errors; of the time
_SURE = 4.0  # standard errors of the mean over the blocks
# Rank correlations. Of 1,000 simulated servers, pools of threads have -0.05 to 0.06 where nothing is shared behind
# them; processors, disks, bursts that were taken for one have 0.15 to 0.94 (benchmarks/thread_rivals.py).
_GROWS = 0.15
_WORK_GROWS = 0.1
# Ranks and distributions say how sure a difference is, not how large: of work that is done at the ticks of a clock, or
# takes the same time to a thousandth, what is sure may be next to nothing. Threads that answer together take the next
# calls one after another, while the line gets shorter, and those calls end together, too: the first of them takes
# longest, by up to 5 % for that. Where nothing but this speaks against threads that are not the limit, it is 10 %.
_BY_MUCH = 0.07  # of the mean
_SOME = 20  # calls that met an idle thread
_APART = 0.35  # largest distance of two distributions (Kolmogorov and Smirnov)
_LIGHT = 5  # calls without data that should have waited
_OFTEN, _MORE_OFTEN = 0.2, 5  # of those are answered without a thread; than the others
_SLOW_NS, _HALF = 1_000_000, 0.5  # work; of it
_BEHIND = "calls that need no data do not wait: what the others wait for lies beyond the threads"
_EARLY, _MOST = 0.25, 0.5  # of the wait of the call before; of those calls
_TOGETHER = 0.2
_OF_ALL, _FEW_TIMES, _MUCH = 0.4, 3, 0.15  # of what is in flight; groups; of the time in which calls stand
_LONG, _MOSTLY = 8, 0.6  # times the mean work; of the waits
_NEARLY_ALL = 0.9  # of the calls
_OF_ONE_SIZE = 0.7  # of the calls are answered in groups of one size


@dataclass(frozen=True, eq=False)
class Replay:
    """What `threads` threads had to do. Rows are those of `work`."""

    work: Work
    threads: int
    start_ns: I64  # NULL: answered without a thread
    depth: I64  # in flight on arrival, itself included; beyond all where that is not known
    main: Bool  # of the operation that takes most of the time
    light: Bool  # of operations that need neither data nor a name
    plain: Bool  # sent once, as far as can be told
    bound_seen: int  # how often as many were at work as are known to exist

    @cached_property
    def forced(self) -> Bool:
        """Answered without a thread."""
        return np.asarray(self.start_ns == NULL)

    @cached_property
    def worked(self) -> Bool:
        """Calls of the main operation that had a thread."""
        return self.main & ~self.forced

    @cached_property
    def taken_ns(self) -> I64:
        """When each call was taken; its reply where it had no thread."""
        return np.where(self.forced, self.work.reply_ns, self.start_ns)

    @property
    def wait_ns(self) -> I64:
        """Of each call for a thread."""
        return self.taken_ns - self.work.arrival_ns

    @cached_property
    def service_ns(self) -> I64:
        """Of each call in a thread."""
        return self.work.reply_ns - self.taken_ns

    @property
    def server_ns(self) -> I64:
        """Both."""
        return self.work.reply_ns - self.work.arrival_ns


def misfit(replay: Replay) -> str:
    """Which mark is missing; empty: none."""
    if not replay.worked.any():
        return ""
    return next((why for why in (mark(replay) for mark in _MARKS) if why), "")


def in_lockstep(replay: Replay) -> int:
    """So many threads as answer together, again and again, while more is in flight; 0: they do not.

    Threads that wait for one clock (a disk with a timer) are answered at one time, and then all take the next calls:
    with fewer threads that looks like work of no time and of all the time in turn, which is regular, too.
    """
    if replay.plain.mean() < _NEARLY_ALL:
        return 0  # what is sent again is answered again, right behind the first answer
    first, size, in_flight = _groups(replay)
    calls = np.bincount(size, size)
    usual = int(np.argmax(calls)) if len(calls) else 0
    if usual < 2 or calls[usual] < _OF_ONE_SIZE * len(replay.start_ns) or len(first) < _SOME:
        return 0
    # A journal takes all that has gathered, which is half of what is in flight.
    return usual if np.median(in_flight[size == usual]) > 2 * usual else 0


def _groups(replay: Replay) -> tuple[I64, I64, I64]:
    """Answers that come together: position of the first among the answers, how many, and how many calls were in flight.

    Together are those that are nearer than a fifth of the usual time from an answer to the next.
    """
    work, ok = replay.work, replay.worked
    reply = work.reply_ns[work.by_reply]
    usual_ns = float(replay.service_ns[ok].mean()) / replay.threads if ok.any() else 0.0
    first = np.flatnonzero(np.append(True, np.diff(reply) > _TOGETHER * usual_ns))
    in_flight = np.searchsorted(work.arrival_ns, reply[first], side="right") - first
    return first, np.diff(np.append(first, len(reply))), in_flight


def _grows_at_all(depth: I64, server_ns: I64, few: int) -> bool:
    """Over all of the time, in which the load may have changed for other reasons, too."""
    grows = spearman(depth, server_ns) or 0.0
    slower = np.median(server_ns[depth > few]) >= _TWICE * np.median(server_ns[depth <= few])
    return bool(slower and grows >= _GROWS and grows * np.sqrt(len(depth)) > _POOLED)


def _answered_together(replay: Replay) -> str:
    work = replay.work
    first, size, in_flight = _groups(replay)
    reply = work.reply_ns[work.by_reply]
    stood_ns = np.diff(reply[first], prepend=reply[0]) * in_flight
    at_once = (size > replay.threads + 1) & (size >= _OF_ALL * in_flight)
    if np.count_nonzero(at_once) < _FEW_TIMES or stood_ns[at_once].sum() < _MUCH * stood_ns.sum():
        return ""
    return (
        "more calls are repeatedly answered at one moment than threads could answer: a journal that commits in "
        "groups, a timer, or a stalled host"
    )


def _grows_below(replay: Replay) -> str:
    arrival_ns = replay.work.arrival_ns
    server_ns = replay.server_ns
    # What TCP lets through at one moment is in the order of its answers (`jobs.find_jobs`), which grow with that.
    at_once = np.append(False, np.diff(arrival_ns) == 0)
    at_once[:-1] |= at_once[1:]
    below = np.flatnonzero(replay.main & ~at_once & (replay.depth <= replay.threads))
    depth = replay.depth[below]
    few = max(int(np.median(depth)), 1) if len(depth) else 1
    if min(np.count_nonzero(depth <= few), np.count_nonzero(depth > few)) < _SOME:
        return ""
    grows, error = rank_correlation(depth, server_ns[below])
    if not (grows >= _GROWS and grows > _SURE * error) and not (
        replay.bound_seen < _RARELY
        and len(np.unique(below * BLOCKS // len(server_ns))) >= BLOCKS / 2  # not only while a load begins
        and _grows_at_all(depth, server_ns[below], few)
    ):
        return ""
    return (
        "calls take longer the more of them are in flight, long before all threads would be busy: they share "
        "something beyond the threads (processors, a disk, a lock)"
    )


def _stands_still(replay: Replay) -> str:
    work, ok = replay.work, replay.worked
    reply = work.reply_ns[work.by_reply]
    gap_ns = np.diff(reply)
    long_ns = np.where(gap_ns >= _LONG * replay.service_ns[ok].mean(), gap_ns, 0)
    # How long nothing was answered until each moment.
    until_ns = np.append(0, np.cumsum(long_ns))
    still_ns = np.interp(replay.taken_ns, reply, until_ns) - np.interp(work.arrival_ns, reply, until_ns)
    if np.count_nonzero(long_ns) < _FEW_TIMES or still_ns[ok].sum() < _MOSTLY * replay.wait_ns[ok].sum():
        return ""
    return "they wait while nothing at all is answered: the whole server, or what is behind it, is stalled"


def _work_grows(replay: Replay) -> str:
    rows = np.flatnonzero(replay.worked)
    start, work = replay.start_ns[rows], replay.work
    in_flight = np.searchsorted(work.arrival_ns, start, side="right")
    in_flight -= np.searchsorted(work.reply_ns[work.by_reply], start, side="right")
    service_ns = replay.service_ns[rows]
    grows, error = rank_correlation(in_flight, service_ns)
    if not (grows >= _WORK_GROWS and grows > _SURE * error and grows_by(in_flight, service_ns) >= _BY_MUCH):
        return ""
    return (
        "what remains after subtracting the waits for a thread still grows with the number of waiting calls, as "
        "work does not: something else makes them wait"
    )


def _unlike_the_unqueued(replay: Replay) -> str:
    met_idle = replay.depth <= replay.threads
    alone = np.sort(replay.service_ns[replay.worked & met_idle])
    waited = np.sort(replay.service_ns[replay.worked & ~met_idle])
    if min(len(alone), len(waited)) < _SOME:
        return ""
    at = np.concatenate((alone, waited))
    apart = np.abs(
        np.searchsorted(alone, at, side="right") / len(alone) - np.searchsorted(waited, at, side="right") / len(waited)
    ).max()
    if apart < _APART + 1.63 * np.sqrt(1 / len(alone) + 1 / len(waited)):  # by chance once in a hundred
        return ""
    if abs(np.median(waited) - np.median(alone)) < _BY_MUCH * np.median(alone):
        return ""
    return "calls that found an idle thread take a different time from what the others would spend in one"


def _light_forced(replay: Replay) -> str:
    light = replay.forced[replay.light & (replay.depth > replay.threads)]
    others = replay.forced[replay.main & (replay.depth > replay.threads)]
    usual = others.mean() if len(others) else 0.0
    if np.count_nonzero(light) < _LIGHT or light.mean() < max(_OFTEN, _MORE_OFTEN * usual):
        return ""
    return _BEHIND


def _light_as_slow(replay: Replay) -> str:
    light, usual_ns = replay.light & ~replay.main & ~replay.forced, np.median(replay.service_ns[replay.worked])
    if np.count_nonzero(light) < _SOME or usual_ns < _SLOW_NS:
        return ""
    if np.median(replay.service_ns[light]) < _HALF * usual_ns:
        return ""
    return (
        "calls that need no data would take nearly as long as the others: all wait for something unseen, such as "
        "threads taken by calls that are not captured"
    )


def _light_overtake(replay: Replay) -> str:
    work = replay.work
    mains = np.flatnonzero(replay.worked)
    should_wait = np.flatnonzero(replay.light & (replay.depth > replay.threads))
    before = np.searchsorted(mains, should_wait) - 1
    should_wait, before = should_wait[before >= 0], mains[before[before >= 0]]
    wait_ns = replay.start_ns[before] - work.arrival_ns[should_wait]
    waits = wait_ns > 0
    if np.count_nonzero(waits) < _LIGHT:
        return ""
    early = replay.server_ns[should_wait[waits]] < _EARLY * wait_ns[waits]
    if early.mean() <= _MOST:
        return ""
    return _BEHIND


# The gravest first.
_MARKS = (
    _light_forced,
    _light_overtake,
    _light_as_slow,
    _grows_below,
    _answered_together,
    _stands_still,
    _work_grows,
    _unlike_the_unqueued,
)
