"""Calls and a number of threads -> how regular the work would be, in nats, so that numbers can be compared."""

from __future__ import annotations

import numpy as np

from nfslat.kernels.dispatch import Order, Work, starts
from nfslat.kernels.order import spacings
from nfslat.model.protocol import NULL
from nfslat.model.tables import F64, I16, I64

RULED_OUT = 1e3  # nats
RESOLUTION_NS = 2_000.0  # times of work that are closer are the same: stamps are in us
SURE = 3.0  # standard errors
_BLOCKS = 24  # of time
_FORCED = 7.0  # nats that a call costs which is answered without a thread: e^-7, one in a thousand
_MOST_FORCED = 0.03  # of the calls, in half of the blocks; with the right number it is well below 1 %
_NEARLY_ALL = 22  # of the blocks; by chance so many agree once in 50,000
_FEW = 8  # calls of one operation; fewer have no density


class Scores:
    """Entropy of the times in a thread by the number of threads, each looked at once."""

    def __init__(self, samples: list[tuple[Work, I16]], order: Order, one_stream: bool) -> None:
        self._samples, self.order, self._one_stream = samples, order, one_stream
        kind = np.concatenate([kind for _, kind in samples])
        by_kind = np.argsort(kind, kind="stable")
        self._groups = np.split(by_kind, np.flatnonzero(np.diff(kind[by_kind])) + 1)
        self._block = np.arange(len(kind)) * _BLOCKS // len(kind)
        self._calls = np.bincount(self._block, minlength=_BLOCKS)
        server_ns = np.concatenate([work.server_ns for work, _ in samples])
        # As if no call ever waited. What is forced costs more than that, or an operation of which all calls are
        # forced would be cheap.
        self._unqueued = [float(log_spacing(server_ns[rows]).mean()) for rows in self._groups]
        self.known: dict[int, F64] = {}
        self._forced: dict[int, F64] = {}  # what of that is for forced calls

    def __call__(self, threads: int) -> float:
        if threads not in self.known:
            self.known[threads], self._forced[threads] = self._by_block(threads)
        return float(self.known[threads].mean())

    def as_good_as(self, best: int) -> list[int]:
        """Those that were looked at and are not clearly worse than `best`, ascending."""
        return sorted(threads for threads in self.known if self._is_as_good(threads, best))

    def halves_apart(self) -> float:
        """By how many doublings the numbers differ that are best in either half of the time; one thread is nothing."""
        middle = _BLOCKS // 2
        low, high = sorted(
            min(self.known, key=lambda threads: float(self.known[threads][half].mean()))
            for half in (slice(middle), slice(middle, None))
        )
        return float(np.log2(high / min(low + 1, high)))

    def _is_as_good(self, one: int, best: int) -> bool:
        worse = self.known[one] - self.known[best]
        if self._one_stream:
            return not is_worse(worse)
        # Of several connections some calls are forced because turns were guessed wrong.
        return not (is_worse(worse) and is_worse(worse - self._forced[one] + self._forced[best]))

    def _by_block(self, threads: int) -> tuple[F64, F64]:
        services, forced = [], []
        for work, _ in self._samples:
            start = starts(work, threads, self.order)
            forced.append(start == NULL)
            services.append(work.reply_ns - start)
        without = np.concatenate(forced)
        calls = self._calls
        share = np.bincount(self._block, without, _BLOCKS) / calls
        # Turns that got out of step force many calls for a while, a wrong number forces some all the time. How wrong
        # it is is of no interest: with as many threads as calls are in flight none is forced.
        if np.median(share) > _MOST_FORCED:
            return np.full(_BLOCKS, RULED_OUT), share * _FORCED
        nats, service = np.empty(len(self._block)), np.concatenate(services)
        for rows, unqueued in zip(self._groups, self._unqueued, strict=True):
            away = without[rows]
            there = rows[~away] if away.any() else rows
            nats[there] = log_spacing(service[there]) if len(there) >= _FEW else unqueued
            if len(there) < len(rows):
                nats[rows[away]] = unqueued + _FORCED
        return np.bincount(self._block, nats, _BLOCKS) / calls, share * _FORCED


def is_worse(nats: F64) -> bool:
    """Is what costs so many nats more, block by block, clearly worse?"""
    # One odd block (a load that begins) makes a large error of the mean; all the others may agree.
    nearly_all = np.count_nonzero(nats > 0) >= _NEARLY_ALL and nats.mean() > 0
    return bool(nats.mean() > SURE * nats.std(ddof=1) / np.sqrt(_BLOCKS) or nearly_all)


def log_spacing(times: I64) -> F64:
    """Minus the log density at each of `times`, from how far its neighbours are; 0 where there are too few."""
    count = len(times)
    if count < _FEW:
        return np.zeros(count)
    return np.log(spacings(times, max(int(np.sqrt(count)), 2), RESOLUTION_NS))
