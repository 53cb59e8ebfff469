"""Slow ops among the others of their kind, in the order of time -> how they come, where that is more than chance.

- in one part of the time: 90 % of them within it, and there five times as often as in the rest;
- in stalls: several at a time, one after the other, and hardly a quick one of their kind between them;
- regularly: what comes together comes every so many seconds;
- alone: where they stand in the order of all is as if drawn (runs of slow and quick ones, A. Wald and J. Wolfowitz,
  Ann. Math. Stat. 11, 1940; and the largest distance from an even spread, Kolmogorov and Smirnov).

Positions are counted in ops, for a load that comes and goes has its slow ops where it is high.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from nfslat.model.tables import I64, Bool

_CLUSTERED, _BY_CHANCE = -4.0, 2.5  # standard deviations of the number of runs
_MOST, _OFTEN, _PART = 0.9, 5.0, 0.75  # of the slow ones; times the rest's; of the time
_NATS = 12.0  # of that part, beside the same number everywhere
_EDGES = 200  # between which parts are looked for
_SOME, _TOGETHER = 10, 3  # slow ops; in a stall
_LONG = 3.0  # times what a slow op takes: no stall, but a time in which ops are slow
_FEWEST_TIMES, _EVEN = 5, 0.2  # of their distances: standard deviation beside the mean
_KS = 1.36  # by chance once in twenty
_QUICK, _HALF = 0.1, 0.5  # of the time that is left


class Coming(NamedTuple):
    """Nothing of it: how they come cannot be said. Instants are on the clock of what went in."""

    part_ns: tuple[int, int] | None = None  # in which they come
    stalls: int = 0  # in which they come together
    stall_ns: int = 0  # how long these last, median
    every_ns: int = 0  # from one time to the next
    alone: bool = False


def coming(begin_ns: I64, end_ns: I64, slow: Bool) -> Coming:
    """Rows are ops of the kinds that are slow at times, in the order of `begin_ns`."""
    at = np.flatnonzero(slow)
    begin, end = begin_ns[at], end_ns[at]
    usual_ns = float(np.median(end - begin))
    # Groups of those that are under way together.
    latest = np.maximum.accumulate(end)
    first = np.flatnonzero(np.append(True, begin[1:] > latest[:-1]))
    sizes = np.diff(np.append(first, len(at)))
    lasts_ns = np.append(latest[first[1:] - 1], latest[-1]) - begin[first]
    runs = _runs(slow)
    if runs < _CLUSTERED and _are_stalls(sizes, lasts_ns, at, first, usual_ns):
        many = sizes >= _TOGETHER
        return Coming(
            stalls=int(np.count_nonzero(many)),
            stall_ns=int(np.median(lasts_ns[many])),
            every_ns=_every_ns(begin[first[many]]),
        )
    at_once = np.maximum(sizes * usual_ns / np.maximum(lasts_ns, 1), 1.0)
    if (part := _part(begin_ns, slow, float((sizes * at_once).sum() / sizes.sum()))) is not None:
        return Coming(part_ns=(int(begin_ns[part[0]]), int(latest[np.searchsorted(at, part[1])])))
    if len(at) >= _FEWEST_TIMES and (every_ns := _every_ns(begin[first])):
        return Coming(every_ns=every_ns)
    even = np.abs((at + 0.5) / len(slow) - (np.arange(len(at)) + 0.5) / len(at)).max()
    return Coming(alone=bool(len(at) >= _SOME and abs(runs) < _BY_CHANCE and even < _KS / np.sqrt(len(at))))


def _runs(slow: Bool) -> float:
    """Of slow and quick ones in turn: how far their number is from what chance makes, in standard deviations."""
    some, others, both = np.count_nonzero(slow), np.count_nonzero(~slow), len(slow)
    usual = 2 * some * others / both + 1
    spread = np.sqrt((usual - 1) * (usual - 2) / (both - 1))
    return float((np.count_nonzero(slow[1:] != slow[:-1]) + 1 - usual) / spread) if spread else 0.0


def _are_stalls(sizes: I64, lasts_ns: I64, at: I64, first: I64, usual_ns: float) -> bool:
    many = sizes >= _TOGETHER
    if sizes[many & (lasts_ns <= _LONG * usual_ns)].sum() < _MOST * sizes.sum():
        return False
    spans = at[np.append(first[1:], len(at)) - 1] - at[first] + 1  # in ops of all
    return bool(sizes[many].sum() >= 0.5 * spans[many].sum())


def _every_ns(times_ns: I64) -> int:
    """0: not regularly."""
    gaps = np.diff(times_ns)
    if len(times_ns) < _FEWEST_TIMES or gaps.std() > _EVEN * gaps.mean():
        return 0
    return int(gaps.mean())


def _part(begin_ns: I64, slow: Bool, at_once: float) -> tuple[int, int] | None:
    """Positions of the first and the last op of the part of the time that holds nearly all slow ones, if one does.

    Those that are under way `at_once` are that much less of a witness.
    """
    at = np.flatnonzero(slow)
    if len(at) < _SOME:
        return None
    every = np.unique(np.linspace(0, len(at) - 1, _EDGES).astype(np.int64))
    left, right = np.meshgrid(every, every, indexing="ij")
    held = right - left + 1
    inside = at[right] - at[left] + 1
    outside = np.maximum(len(slow) - inside, 1)
    rate, rest = held / np.maximum(inside, 1), (len(at) - held) / outside
    span_ns = begin_ns[at[right]] - begin_ns[at[left]]
    ok = (held >= np.maximum(_MOST * len(at), 1)) & (rate >= _OFTEN * rest) & (inside < len(slow))
    ok &= span_ns <= _PART * (begin_ns[-1] - begin_ns[0])
    if not ok.any():
        return None
    mean = len(at) / len(slow)
    left, right, held, inside, outside = (one[ok] for one in (left, right, held, inside, outside))
    nats = (_nats(held, inside, mean) + _nats(len(at) - held, outside, mean)) / at_once
    best = int(np.argmax(nats))
    return (int(at[left[best]]), int(at[right[best]])) if nats[best] >= _NATS else None


def _nats(some: I64, of: I64, mean: float) -> npt.NDArray[np.float64]:
    """How much better their own share explains `some` of `of` than `mean` does."""
    share = np.clip(some / of, 1e-12, 1 - 1e-12)
    return np.asarray(some * np.log(share / mean) + (of - some) * np.log((1 - share) / (1 - mean)))


class Meanwhile(NamedTuple):
    """Other ops that came while slow ones were under way, and for as long as a slow op takes were to be so."""

    overtaken: (
        float  # of the slow ones: share of those that others, which came later, were answered before, and quickly
    )
    light_quick: int  # of operations that need neither data nor a name: answered at once
    light_slow: int  # of the same: that waited until then, or for half of it


def meanwhile(begin_ns: I64, end_ns: I64, slow: Bool, light: Bool, from_ns: float) -> Meanwhile:
    """Rows are all ops, in the order of `begin_ns`; the slow ones take `from_ns` or more."""
    at = np.flatnonzero(slow)
    latest = np.maximum.accumulate(end_ns[at])
    last = np.searchsorted(at, np.arange(len(slow)), side="right") - 1
    left_ns = np.where(last >= 0, latest[last] - begin_ns, -1)
    rows = np.flatnonzero(~slow & (left_ns >= from_ns))
    took_ns = (end_ns - begin_ns)[rows]
    quick, waits = took_ns <= _QUICK * left_ns[rows], took_ns >= _HALF * left_ns[rows]
    passed = np.append(end_ns[rows[quick]], np.iinfo(np.int64).max)
    overtaken = passed[np.searchsorted(rows[quick], at)] <= end_ns[at]
    return Meanwhile(
        float(overtaken.mean()),
        int(np.count_nonzero(quick & light[rows])),
        int(np.count_nonzero(waits & light[rows])) + int(np.count_nonzero(slow & light)),
    )
