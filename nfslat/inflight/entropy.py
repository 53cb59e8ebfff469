"""Calls and a number of threads -> how regular the work would be, in nats, so that numbers can be compared."""

from __future__ import annotations

import numpy as np

from nfslat.kernels.compiled import native
from nfslat.kernels.dispatch import Order, Work, played
from nfslat.model.tables import F64, I16

RULED_OUT = 1e3  # nats
RESOLUTION_NS = 2_000.0  # times of work that are closer are the same: stamps are in us
SURE = 3.0  # standard errors
_BLOCKS = 24  # of time
_NEARLY_ALL = 22  # of the blocks; by chance so many agree once in 50,000


class Scores:
    """Entropy of the times in a thread by the number of threads, each looked at once."""

    def __init__(self, samples: list[tuple[Work, I16]], order: Order, one_stream: bool) -> None:
        self.order, self._one_stream = order, one_stream
        self._pieces = [played(work, order) for work, _ in samples]
        kind = np.concatenate([kind for _, kind in samples])
        by_kind = np.argsort(kind, kind="stable")
        self._groups = np.split(by_kind, np.flatnonzero(np.diff(kind[by_kind])) + 1)
        server_ns = np.concatenate([work.server_ns for work, _ in samples])
        # As if no call ever waited. What is forced costs more than that, or an operation of which all calls are
        # forced would be cheap.
        self._unqueued = [float(native.log_spacings(server_ns[rows], RESOLUTION_NS).mean()) for rows in self._groups]
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
        by_answer, leaving = self.order is Order.TURNS_BY_ANSWER, self.order is Order.LEAVING
        found = native.regularity(
            self._pieces, self._groups, self._unqueued, RESOLUTION_NS, _BLOCKS, threads, by_answer, leaving
        )
        return found or (np.full(_BLOCKS, RULED_OUT), np.zeros(_BLOCKS))


def is_worse(nats: F64) -> bool:
    """Is what costs so many nats more, block by block, clearly worse?"""
    # One odd block (a load that begins) makes a large error of the mean; all the others may agree.
    nearly_all = np.count_nonzero(nats > 0) >= _NEARLY_ALL and nats.mean() > 0
    return bool(nats.mean() > SURE * nats.std(ddof=1) / np.sqrt(_BLOCKS) or nearly_all)
