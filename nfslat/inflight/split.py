"""Times of ops of one kind -> where they part into quick and slow ones; None where they are of one kind, or fade out.

A tail that fades out (exponential, log-normal, a power law) has the fewer ops the longer they take, on a scale of
logarithms, too. Two kinds of ops leave a valley between them, beyond which there are more again. How empty that is
beside the densest place on either side is judged as a likelihood (Bernoulli's), which needs the more ops the narrower
it is.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
from numpy.lib.stride_tricks import sliding_window_view

from nfslat.model.tables import I64

_LEAST_NS = 1_000  # stamps are no finer
_WIDTH = np.log(1.8)  # of the narrowest valley, and of the places that it is held against
_STEPS = 12  # cells of the scale in that
_WIDEST = 12  # valleys are up to so many times as wide
_EMPTY = 0.35  # of their density, at most
_SURE = 9.0  # nats: by chance once in 8,000
APART = 5.0  # medians
_MOST_SLOW = 0.75  # of the ops; more are the usual, and the others the exception
FEWEST = 5  # slow ones


def slow_from(own_ns: I64, *, of_the_time: float = 0.5) -> float | None:
    """From how many ns on an op is one of the slow ones, which take that share of the time of all or more.

    `own_ns` is what each op took, in any order.
    """
    times = np.sort(np.maximum(own_ns, _LEAST_NS))
    if len(times) < 2 * FEWEST or times[-1] < APART * times[0]:
        return None
    cell = _WIDTH / _STEPS
    edges = np.arange(np.log(times[0]) - cell, np.log(times[-1]) + cell * (_STEPS + 1), cell)
    below = np.searchsorted(np.log(times), edges)
    peaks = below[_STEPS:] - below[:-_STEPS]  # of the window that begins at each edge
    before = np.concatenate((np.zeros(_STEPS, np.int64), np.maximum.accumulate(peaks)))  # of windows that end there
    behind = np.append(np.maximum.accumulate(peaks[::-1])[::-1], np.zeros(_STEPS, np.int64))
    sums = np.append(0.0, np.cumsum(times, dtype=np.float64))
    # A row for each width of a valley, in which it begins at each edge; what reaches beyond the last one is not empty.
    cells = np.arange(_STEPS, _STEPS * _WIDEST + 1)[:, None]
    inside, peak = _at_end_of(below, 1 << 40) - below, np.minimum(before, _at_end_of(behind, 0))
    width, begin = np.nonzero(inside * _STEPS <= _EMPTY * peak * cells)
    wide = cells[width, 0]
    sure = _surprise(inside[width, begin], peak[width, begin], wide / (wide + _STEPS))
    best, found = _SURE, None
    for at in np.flatnonzero(sure > best).tolist():
        if sure[at] <= best:
            continue
        # What lies in the valley belongs to the nearer side.
        from_ns = float(np.exp(edges[begin[at]] + wide[at] * cell / 2))
        if _are_apart(times, sums, int(np.searchsorted(times, from_ns)), of_the_time):
            best, found = float(sure[at]), from_ns
    return found


def _at_end_of(of_edge: I64, beyond: int) -> I64:
    """For each width of a valley, and each edge at which it begins, the value of the edge at which it ends."""
    widest = _STEPS * _WIDEST
    return sliding_window_view(np.append(of_edge, np.full(widest, beyond)), len(of_edge))[_STEPS:]


def _surprise(inside: I64, peak: I64, expected: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    """Nats by which `inside` of both is fewer than the share `expected`; 0 where it is more."""
    both = np.maximum(inside + peak, 1)
    share = inside / both
    nats = inside * np.log(np.maximum(share, 1e-12) / expected) + peak * np.log(
        np.maximum(1 - share, 1e-12) / (1 - expected)
    )
    return np.asarray(np.where(share < expected, nats, 0.0))


def _are_apart(times: I64, sums: npt.NDArray[np.float64], first: int, of_the_time: float) -> bool:
    slow = len(times) - first
    if not (slow >= FEWEST and first >= FEWEST and slow <= _MOST_SLOW * len(times)):
        return False
    if sums[-1] - sums[first] < of_the_time * sums[-1]:
        return False
    return bool(times[first + slow // 2] >= APART * times[first // 2])
