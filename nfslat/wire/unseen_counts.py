"""Packets with replies that nobody sees, and how long replies are -> how many replies each stretch of the packets can
hold, and what the times of all of them add up to, at least and at most.

A stretch is made of whole replies. Where those that are seen have few lengths, its bytes leave few numbers of them, and
often a single one; all stretches together hold as many as there are calls without a reply.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from nfslat.model.tables import I64, Bool
from nfslat.wire.unseen_fit import Fit, Rows, behind_calls, steps

Size = tuple[int, int]  # bytes of a reply, at least and at most

_MOST_COUNTED = 64  # replies in a stretch that are counted by their lengths; of more only their bytes are divided
_MOST_SUMS = 4096  # different sums of lengths


class _Counts(NamedTuple):
    """Replies in each stretch, at least and at most."""

    least: I64
    most: I64


def fit_all(rows: Rows, called_ns: I64, sizes: Sequence[Size], *, ends: bool) -> Fit | None:
    """The sum of the times, ns, of the replies to all calls, sent at `called_ns` at the earliest: of the replies' last
    bytes (`ends`), or of their first ones. None where so many replies of `sizes` cannot be all of the bytes."""
    count = len(called_ns)
    if not count or not len(rows.bytes) or not sizes:
        return None
    shortest = min(least for least, _ in sizes)
    counts = _counts(rows.room, sizes, count)
    if counts is None:
        return None
    starts = np.flatnonzero(np.diff(rows.stretch, prepend=-1))
    lengths = np.diff(np.append(starts, len(rows.stretch)))
    least, most = (np.repeat(one, lengths) for one in (counts.least, counts.most))
    all_bytes = np.repeat(rows.room, lengths)
    all_before = np.cumsum(rows.bytes)
    until = all_before - np.repeat(all_before[starts] - rows.bytes[starts], lengths)
    last = np.append(starts[1:], len(until)) - 1
    early = until // shortest if ends else (until - 1) // shortest + 1
    early = np.minimum(early, most)
    early[last] = counts.most
    # Behind a packet lie no more replies than its stretch's other bytes have room for, and the one that is cut there.
    late = np.maximum(least - (all_bytes - until) // shortest - 1, 0)
    late[last] = counts.least

    # A reply that came before what is in front of it in the stream counts where it is.
    begin_ns = np.concatenate([_from_behind(one) for one in np.split(rows.begin_ns, starts[1:])])
    end_ns = np.concatenate([np.maximum.accumulate(one) for one in np.split(rows.end_ns, starts[1:])])
    order = np.argsort(begin_ns, kind="stable")
    done = np.cumsum(steps(early, starts)[order])
    called = np.searchsorted(np.sort(called_ns), np.maximum.accumulate(rows.end_ns[order]), "right")
    whole = np.zeros_like(most)
    whole[last] = counts.most
    done = behind_calls(done, np.cumsum(whole[order]), called)
    still = int(counts.least.sum()) + np.cumsum(steps(np.maximum(least - early, 0), starts, counts.least)[order])
    done = np.minimum(done, count - still)
    if done[-1] < count:
        return None
    low = _sum(np.minimum(done, count), begin_ns[order])
    order = np.argsort(end_ns, kind="stable")
    room = most - late
    room[last] = 0
    left = int(counts.most.sum()) + np.cumsum(steps(room, starts, counts.most)[order])
    done = np.maximum(np.cumsum(steps(late, starts)[order]), count - left)
    high = _sum(np.clip(done, 0, count), end_ns[order])
    return Fit(count, low, high) if low <= high else None


def replies_at_least(rows: Rows, sizes: Sequence[Size]) -> int:
    """How many replies of `sizes` the packets hold at least; 0 where they do not explain the bytes."""
    if not len(rows.bytes) or not sizes:
        return 0
    fits = _fits(rows.room, sizes)
    return int((fits.argmax(axis=0) + 1).sum()) if fits.any(axis=0).all() else 0


def _from_behind(times: I64) -> I64:
    return np.asarray(np.minimum.accumulate(times[::-1])[::-1])


def _sum(done: I64, at_ns: I64) -> float:
    """`done` replies by each of the instants, in their order."""
    done = np.maximum.accumulate(done)
    return float((np.diff(done, prepend=0) * at_ns).sum())


def _counts(room: I64, sizes: Sequence[Size], count: int) -> _Counts | None:
    """Of stretches with `room` bytes each, `count` replies in all; None: there are no such numbers."""
    fits, shortest = _fits(room, sizes), min(least for least, _ in sizes)
    by_bytes = room > _MOST_COUNTED * shortest  # may be more replies than are counted
    if not (fits.any(axis=0) | by_bytes).all():
        return None  # some have other lengths, and may be anywhere
    least = np.where(fits.any(axis=0), fits.argmax(axis=0) + 1, _MOST_COUNTED)
    most = np.where(by_bytes, room // shortest, _last(fits))
    while True:
        spare, short = count - int(least.sum()), int(most.sum()) - count
        if spare < 0 or short < 0:
            return None
        at_most = np.minimum(most, least + spare)
        at_least = np.maximum(least, most - short)
        closer = _within(fits, at_least, at_most)
        if (closer.least > closer.most).any():
            return None
        if np.array_equal(closer.least, least) and np.array_equal(closer.most, most):
            return closer
        least, most = closer.least, closer.most


def _last(fits: Bool) -> I64:
    return np.asarray(len(fits) - fits[::-1].argmax(axis=0))


def _within(fits: Bool, least: I64, most: I64) -> _Counts:
    """The numbers of replies that fit, from `least` to `most`; beyond those that were counted any does."""
    numbers = np.arange(1, len(fits) + 1)[:, np.newaxis]
    inside = fits & (numbers >= least) & (numbers <= most)
    there, beyond = inside.any(axis=0), most > len(fits)
    first = np.where(there, inside.argmax(axis=0) + 1, np.where(beyond, np.maximum(least, len(fits)), most + 1))
    return _Counts(first.astype(np.int64), np.where(there & ~beyond, _last(inside), most).astype(np.int64))


def _fits(room: I64, sizes: Sequence[Size]) -> Bool:
    """Row n - 1: which of the stretches can be n replies. Lengths add up: sums of n of them are kept as ranges."""
    out = np.zeros((_MOST_COUNTED, len(room)), dtype=np.bool_)
    least, most = (np.array(one, dtype=np.int64) for one in zip(*sorted(set(sizes)), strict=True))
    low = high = np.zeros(1, dtype=np.int64)
    largest = int(room.max())
    for n in range(_MOST_COUNTED):
        low, high = (np.add.outer(one, each).ravel() for one, each in ((low, least), (high, most)))
        low, high = _joined(low[low <= largest], high[low <= largest])
        if not len(low):
            break
        if len(low) > _MOST_SUMS:
            out[n:] = (room >= (n + 1) * least.min()) & (room <= _MOST_COUNTED * most.max())
            break
        at = np.searchsorted(low, room, "right") - 1
        out[n] = (at >= 0) & (room <= high[at])
    return out


def _joined(low: I64, high: I64) -> tuple[I64, I64]:
    """Ranges in their order; those that touch as one."""
    if not len(low):
        return low, high
    order = np.argsort(low, kind="stable")
    low, high = low[order], np.maximum.accumulate(high[order])
    first = np.flatnonzero(np.append(True, low[1:] > high[:-1]))
    return low[first], high[np.append(first[1:], len(low)) - 1]
