"""What a server's threads had to do -> how many there are, whether that is a limit, and each call's wait for one.

Three facts are put together (docs/method.md, "Server threads"):

- **A bound that holds whatever the server is like.** A server takes the calls of one connection in the order of its
  stream, so a call is in a thread no later than when a younger one of its connection is answered. The most calls for
  which that is so at one moment are a number of threads that exists.
- **A replay.** With a candidate number T, `dispatch.starts` says when each call was taken. With too few threads calls
  are answered that have none; with too many, waits are taken for work. Of several connections the order in which they
  have their turns is a guess, so there are three replays, and what they allow together is the range.
- **How regular the work is.** Work does not depend on how many wait, so what a wrong T adds makes the times in a
  thread spread more. Of all T the right one has the least entropy: the mean over the calls of the log density of
  their time in a thread, among calls of the same operation, by m-spacings (Vasicek 1976, J. R. Stat. Soc. B 38:54).
  How much better one T is than another is judged by the spread of the difference over blocks of time.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from nfslat.inflight.entropy import RESOLUTION_NS, RULED_OUT, SURE, Scores, is_worse
from nfslat.inflight.fit import LIKELY, Replay, fit, in_lockstep
from nfslat.kernels.dispatch import Order, Work, in_flight, most_at_once, starts
from nfslat.kernels.order import ranks
from nfslat.model.blocks import largest
from nfslat.model.protocol import NULL
from nfslat.model.tables import F64, I16, I32, I64, Bool

FEWEST = 60  # calls; fewer do not tell a queue from chance
_SAMPLE, _PIECE = 60_000, 10_000  # calls that a search looks at, in pieces of so many that follow each other
_FEWER = 3
_PARTS = 6  # of a multiple of the right number
_FEW_ALONE = 3  # calls that surely met no queue; fewer are no measure of the work
_LONGER = 1.25  # so much longer than those the others must take
_FASTER = 0.8  # of that number of threads: fewer are ruled out
_BELOW = 0.8  # an estimate that is so far below the bound is none
_HALVES_APART = 1.0  # doublings between the numbers that fit each half of the time best
_MOSTLY_PLAIN = 0.9  # of the calls, sent once: what answers together may be threads in lockstep
_AS_LIKELY = 0.5  # probability from which a limit of as many threads as somebody says there are is told
_SOME_WAIT = 0.05  # of the server's time, as a mean over the calls; less is no limit


class Bound(NamedTuple):
    """At least so many calls were in threads at once; and how often that was seen."""

    threads: int
    times: int


class Threads(NamedTuple):
    """What can be said of the threads of a server. NULL in `start_ns` is "not known"."""

    calls: int
    bound: Bound
    most_in_flight: int
    estimate: int | None  # None: nothing shows how many there are
    low: int | None  # what the estimate may be at least ...
    high: int | None  # ... and at most; None: as many as one likes
    limited: bool
    forced_share: float  # of the calls: answered without a thread, in the replay with the estimate
    waiting_share: float  # of the calls: waited for a thread
    start_ns: I64  # when each call was taken by a thread; its arrival where nothing is known to have held it
    low_start_ns: I64  # the same with `low` and with `high` threads: the error of a mean
    high_start_ns: I64
    cannot: str = ""  # why there is no answer
    instead: str = ""  # what speaks against any number of threads, where calls wait as if for some
    fits_best: int | None = None  # the number of which that was asked ...
    probability: float = 0.0  # ... and how likely it is that so many threads are what calls wait for

    def untold(self, cannot: str) -> Threads:
        """The same without an answer, for a reason."""
        return self._replace(
            estimate=None, low=self.bound.threads, high=None, limited=False, forced_share=0.0, waiting_share=0.0,
            cannot=cannot, instead="", probability=0.0,
        )  # fmt: skip

    @property
    def without_rows(self) -> Threads:
        """The same without the columns, which take memory."""
        nothing = np.zeros(0, dtype=np.int64)
        return self._replace(start_ns=nothing, low_start_ns=nothing, high_start_ns=nothing)


def lower_bound(work: Work) -> Bound:
    """The most calls that were in threads at once, whatever the server does with connections.

    Replies that come in one packet count as one after another, the first call first.
    """
    return Bound(*most_at_once(work))


def find_threads(
    work: Work,
    kind: I16,
    plain: Bool | None = None,
    uncalled_ns: I64 | None = None,
    light: Bool | None = None,
    there: int | None = None,
) -> Threads:
    """`kind` numbers the operation of each call: times in a thread are compared within one.

    `plain` masks the calls whose place in the stream is sure (all of them), `uncalled_ns` are the times of replies to
    calls that were not captured, ascending (none), `light` masks calls that need neither data nor a name (none).
    `there` are so many threads, as somebody says: where packets do not tell another number, a limit of these is told if
    it is as likely as not.
    """
    bound = lower_bound(work if plain is None or plain.all() else work.part(np.flatnonzero(plain)))
    depth = in_flight(work)
    most = int(depth.max(initial=0))
    # Whether a call came before or after a reply of the same stamp is not known.
    bound = bound._replace(threads=min(bound.threads, most))
    if len(depth) < FEWEST:
        return _unknown(work, bound, most, f"only {len(depth)} calls: too few to tell")
    if most <= bound.threads or (depth > bound.threads).mean() < _SOME_WAIT / 10:
        return _unknown(work, bound, most)  # nothing ever waits
    main = kind == largest(kind, lambda at: work.server_ns[at])
    known = np.where(_is_known(work, uncalled_ns), depth, most + 1)
    alone = _the_unqueued(work, main, known, bound)
    found_by = _searched(work, kind, depth, bound, alone.least)
    light = np.zeros_like(main) if light is None else light & ~main
    is_plain = plain is None or bool(plain.mean() >= _MOSTLY_PLAIN)
    search = _Search(work, bound, most, depth, known, main, light, is_plain, alone, found_by)
    found = search.found()
    return found if there is None else search.with_threads(there, found)


def _unknown(work: Work, bound: Bound, most: int, cannot: str = "", instead: str = "") -> Threads:
    starts_ns = (work.arrival_ns,) * 3
    return Threads(
        len(starts_ns[0]), bound, most, None, bound.threads, None, False, 0.0, 0.0, *starts_ns, cannot, instead
    )


class _Search(NamedTuple):
    """Numbers of threads as they fit the calls, one row each."""

    work: Work
    bound: Bound
    most: int  # in flight
    depth: I32
    known: I32  # the same, beyond all where that is not known
    main: Bool
    light: Bool
    is_plain: bool  # nearly all calls were sent once
    alone: _Unqueued
    found_by: list[tuple[Scores, int]]  # the number that fits best by each order of turns

    def found(self) -> Threads:
        """What the packets alone tell of the threads."""
        work, bound, most = self.work, self.bound, self.most
        score, best = min(self.found_by, key=lambda one: one[0](one[1]))
        allowed = _allowed(self.found_by, score, best)
        if most in score.as_good_as(best):
            # Nothing waits, or the work is so regular that a wait looks like work: calls that surely met no queue tell.
            by_little = _by_little(work, self.depth, bound, self.alone, score)
            if isinstance(by_little, str):
                return _unknown(work, bound, most, by_little)
            best = by_little
            if best >= most:
                return _unknown(work, bound, most)  # nothing ever waits
            allowed = set(score.as_good_as(best))
        allowed = {threads for threads in allowed if threads < most}
        low, high = min(allowed), max(allowed)
        replay = self.replay(score, best)
        if not _is_queue(replay):
            return _unknown(work, bound, most)
        # The halves of the time fit different numbers, and that of all is a compromise; as many as were seen may be
        # both's.
        if bound.threads in allowed - {best} and replay.halves >= _HALVES_APART:
            fewer = self.replay(score, bound.threads)
            if fit(fewer)[0] > fit(replay)[0]:
                replay = fewer
        # Calls that are sent again are answered again, right behind the first answer: they make groups.
        together = in_lockstep(replay) if self.is_plain else 0
        if replay.threads < together < most and score(together) < RULED_OUT / 2:
            low = high = together
            replay = self.replay(score, together)
        probability, instead = fit(replay)
        if probability >= LIKELY:
            return self.limit(score, replay, probability, (low, high))
        return _unknown(work, bound, most, instead=instead)._replace(fits_best=replay.threads, probability=probability)

    def with_threads(self, there: int, found: Threads) -> Threads:
        """`found`, or a limit of so many threads as are `there`, where it says no other number."""
        is_other = found.limited and found.high is not None and not (found.low or 1) <= there <= found.high
        if is_other or not self.bound.threads <= there < self.most:
            return found
        score, _ = min(self.found_by, key=lambda one: one[0](one[1]))
        replay = self.replay(score, there)
        probability, _ = fit(replay)
        if probability < _AS_LIKELY or not _is_queue(replay):
            return found
        return self.limit(score, replay, probability, (there, there))

    def replay(self, score: Scores, threads: int) -> Replay:
        """The calls as so many threads would have taken them."""
        taken_ns, forced = _taken_ns(self.work, threads, score.order)
        return Replay(
            work=self.work,
            threads=threads,
            taken_ns=taken_ns,
            forced=forced,
            depth=self.known,
            main=self.main,
            light=self.light,
            seen=self.bound.threads,
            times_seen=self.bound.times,
            gain_nats=self.found_by[0][0](self.most) - score(threads),
            below_nats=_better_below(score, threads, self.bound.threads),
            halves=score.halves_apart(),
        )

    def limit(self, score: Scores, replay: Replay, probability: float, between: tuple[int, int]) -> Threads:
        """Calls wait for one of so many, or of some number `between` two."""
        low, high = between
        return Threads(
            calls=len(self.depth),
            bound=self.bound,
            most_in_flight=self.most,
            estimate=replay.threads,
            low=low,
            high=high,
            limited=True,
            fits_best=replay.threads,
            probability=probability,
            forced_share=float(replay.forced.mean()),
            waiting_share=float((replay.wait_ns > 0).mean()),
            start_ns=replay.taken_ns,
            low_start_ns=_taken_ns(self.work, low, score.order)[0],
            high_start_ns=_taken_ns(self.work, high, score.order)[0],
        )


def _is_queue(replay: Replay) -> bool:
    """Do calls wait for long enough?"""
    return bool(replay.wait_ns.mean() >= _SOME_WAIT * replay.work.server_ns.mean())


def regularity(work: Work, kind: I16) -> F64:
    """How regular the work is with the number of threads that fits best, or without a limit: nats, by block of time.
    There must be `FEWEST` calls."""
    depth, bound = in_flight(work), lower_bound(work)
    bound = bound._replace(threads=min(bound.threads, int(depth.max())))
    score, best = min(_searched(work, kind, depth, bound, bound.threads), key=lambda one: one[0](one[1]))
    return score.known[best]


def _searched(work: Work, kind: I16, depth: I32, bound: Bound, least: int) -> list[tuple[Scores, int]]:
    """The number of threads that fits best by each order of turns."""
    samples, most = list(_pieces(work, kind, depth)), int(depth.max())
    one_stream = bool((work.stream == work.stream[0]).all())
    found_by: list[tuple[Scores, int]] = []
    for order in [Order.TURNS_BY_START] if one_stream else Order:
        score = Scores(samples, order, one_stream)
        if order is Order.LEAVING:
            found_by.append((score, _near(score, found_by[0][1], bound.threads)))
        else:
            found_by.append((score, _search(score, bound.threads, least, most)))
    return found_by


def _better_below(score: Scores, best: int, seen: int) -> float:
    """Fewer threads than were seen at work cannot be right. By how many nats a call they fit clearly better all the
    same; 0: they do not."""
    fewer = [threads for threads in {max(seen * part // 4, 1) for part in (1, 2, 3)} | {seen - 1} if 0 < threads < seen]
    clearly = [at for at in fewer if score(at) < score(best) and is_worse(score.known[best] - score.known[at])]
    return max([0.0, *(score(best) - score(at) for at in clearly)])


def _allowed(found_by: list[tuple[Scores, int]], score: Scores, best: int) -> set[int]:
    """What fits by each order that fits; by start and by answer are one, of which it is not known how it began."""
    allowed = set(score.as_good_as(best))
    for other, its_best in found_by:
        both_turns = {score.order, other.order} <= {Order.TURNS_BY_START, Order.TURNS_BY_ANSWER}
        if both_turns or not is_worse(other.known[its_best] - score.known[best]):
            allowed.update(other.as_good_as(its_best))
    return allowed


def _is_known(work: Work, uncalled_ns: I64 | None) -> Bool:
    """Calls at whose arrival nothing can have been in flight that the capture does not show.

    Not those before the first reply, where the capture begins in the middle of a load; nor those before the reply to a
    call that was not captured, as far back as any call took.
    """
    arrival = work.arrival_ns
    known = arrival > work.reply_ns.min(initial=np.iinfo(np.int64).max)
    if uncalled_ns is not None and len(uncalled_ns):
        longest = int((work.reply_ns - arrival).max())
        after = np.append(uncalled_ns, np.iinfo(np.int64).max)[np.searchsorted(uncalled_ns, arrival)]
        known &= after - arrival > longest
    return np.asarray(known)


class _Unqueued(NamedTuple):
    """What calls take that surely met no queue, of the operation that takes most of the time."""

    calls: int
    work_ns: float  # median
    most_ns: float  # what that may be at most
    others: Bool  # the other calls of that operation
    least: int  # threads: with fewer the others would have to work faster than those


def _the_unqueued(work: Work, main: Bool, depth: I32, bound: Bound) -> _Unqueued:
    """A call that arrives while no more are in flight than threads are known to exist waits for none."""
    server_ns = work.server_ns
    alone, others = main & (depth <= bound.threads), main & (depth > bound.threads)
    count = int(np.count_nonzero(alone))
    if count < _FEW_ALONE or not others.any():
        return _Unqueued(count, 0.0, 0.0, others, bound.threads)
    least_ns, work_ns, most_ns = _median(server_ns[alone])
    # Little's law: what is in flight times the share of its time that it is in a thread.
    threads = float(depth[others].mean() * least_ns / server_ns[others].mean())
    return _Unqueued(count, work_ns, most_ns, others, max(bound.threads, int(threads * _FASTER)))


def _median(times: I64) -> tuple[float, float, float]:
    """The median, between what it is at least and at most: as many ranks off as chance may be; of few times, all."""
    count = len(times)
    off = SURE * np.sqrt(count) / 2
    low, high = max(int(count / 2 - off), 0), min(int(np.ceil(count / 2 + off)), count - 1)
    least, *middle, most = ranks(times, [low, (count - 1) // 2, count // 2, high])
    return float(least), sum(middle) / 2, float(most)


def _by_little(work: Work, depth: I32, bound: Bound, alone: _Unqueued, score: Scores) -> int | str:
    """The T of those that fit that explains best why calls take longer than unqueued ones; text: why there is none."""
    server_ns = work.server_ns[alone.others]
    if alone.calls < _FEW_ALONE:
        return "the work is too regular, and no call certainly found an idle thread: a wait would look like work"
    if not len(server_ns) or np.median(server_ns) < max(_LONGER * alone.work_ns, alone.most_ns):
        return ""
    near = float(depth[alone.others].mean() * alone.work_ns / server_ns.mean())
    if near < _BELOW * bound.threads:
        return ""  # they overtake each other, so what they share is behind the threads
    for threads in range(max(int(near / _LONGER), bound.threads), int(near * _LONGER) + 2):
        score(threads)

    def misfit(threads: int) -> float:
        taken_ns, _ = _taken_ns(work, threads, score.order)
        service_ns = np.maximum(work.reply_ns - taken_ns, RESOLUTION_NS)[alone.others]
        return abs(float(np.log(np.median(service_ns) / alone.work_ns)))

    best: int = min(score.known, key=score)
    return min(score.as_good_as(best), key=misfit)


def _taken_ns(work: Work, threads: int, order: Order) -> tuple[I64, Bool]:
    """The start of each call, its reply where it was answered without a thread; and whether it was."""
    start_ns = starts(work, threads, order)
    forced = start_ns == NULL
    return np.where(forced, work.reply_ns, start_ns), np.asarray(forced)


def _pieces(work: Work, kind: I16, depth: I32) -> Iterator[tuple[Work, I16]]:
    """What the search looks at: all, or the pieces in which most is in flight.

    Of one connection it is known whose turn it is wherever a piece begins. Of several it is not, until the queue that
    was there has been worked off, and by then a tenth of a short piece may have gone by: so they get one long piece.
    """
    rows = len(depth)
    if rows <= _SAMPLE:
        yield work, kind
        return
    begins = np.arange(0, rows, _PIECE)
    sums = np.add.reduceat(depth, begins, dtype=np.int64)
    if (work.stream == work.stream[0]).all():
        means = sums / np.diff(np.append(begins, rows))
        chosen, length = np.sort(begins[np.argsort(-means, kind="stable")[: _SAMPLE // _PIECE]]), _PIECE
    else:
        together = np.convolve(sums, np.ones(_SAMPLE // _PIECE), mode="valid")
        chosen, length = begins[[int(np.argmax(together))]], _SAMPLE
    for begin in chosen.tolist():
        piece = slice(begin, begin + length)
        yield work.part(piece), kind[piece]


def _search(score: Scores, seen: int, least: int, most: int) -> int:
    """The T with the least entropy, `least` to `most`, or `seen`: a coarse grid first, then what is around its best.

    `seen` threads were seen at work, and few calls say what `least` is: where a disk begins slowly, it is too much.

    Regular work has a needle at the right T and others at its multiples, so the parts of what was found are tried, too.
    """
    grid = {seen, *range(least, min(least + 8, most) + 1), most}
    step = float(least + 8)
    while step < most:
        grid.add(int(step))
        step *= 1.12
    best = _around(score, min(sorted(grid), key=score))
    while True:
        parts = {best // part + more for part in range(2, _PARTS + 1) for more in (0, 1)}
        better = min((threads for threads in parts if threads >= least), key=score, default=best)
        if score(better) >= score(best):
            return best
        best = _around(score, better)


def _near(score: Scores, found: int, seen: int) -> int:
    """The T with the least entropy near that of another order: connections that leave have one or two fewer."""
    return min(range(max(found - _FEWER, seen), max(found + 1, seen) + 1), key=score)


def _around(score: Scores, best: int) -> int:
    """The best between `best` and its neighbours among those that were looked at, nearer and nearer."""
    while True:
        known = sorted(score.known)
        at = known.index(best)
        near = range(known[max(at - 1, 0)], known[min(at + 1, len(known) - 1)] + 1)
        fresh = [threads for threads in near if threads not in score.known]
        if not fresh:
            return best
        for threads in fresh[:: max(len(fresh) // 8, 1)]:
            score(threads)
        best = min((threads for threads in near if threads in score.known), key=score)
