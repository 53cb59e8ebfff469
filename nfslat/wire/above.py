"""Ops of a client, and times in which no request could leave it -> how long requests may have waited for that, at most.

A host that does not run, a connection that has ended, a closed window, lost data: what an application asks for
meanwhile stands above the wire, where no capture shows it. It is no more than the requests that were open, less those
on the wire, for as long as it lasted. Open are as many as were on the wire at once near by, or as many as the
application has open on average by Little's law, whichever is more: those that piled up all leave as soon as they can.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum
from typing import NamedTuple

import numpy as np

from nfslat.model.protocol import NULL
from nfslat.model.tables import I64, Bool, Ops
from nfslat.wire.charges.claims import exclusive


class Why(StrEnum):
    """What keeps requests in their client. Where two do so at once, the one that stands first here has the time."""

    HOST_PAUSE = "pause"  # which also stops the application: nothing piles up
    NO_CONNECTION = "no connection"
    CONNECTING = "connecting"  # the first SYN of a new one is not answered, and is sent again
    WINDOW = "window"  # of the server: closed, or too small for the next segment
    LOSS = "loss"  # the client's TCP waits until it sends again what was lost: its congestion window is full


_MOST_NS = float(1 << 62)  # of all ops together; more is of clocks that were set by years


class Stops(NamedTuple):
    """Times in which nothing could leave a connection (its number), or any at all (NULL); client's clock."""

    why: Why
    conn: I64
    begin_ns: I64
    end_ns: I64


class Kept(NamedTuple):
    """Times of one kind, in order, of which no two of a mount meet, and the wait that they may have made."""

    begin_ns: I64
    end_ns: I64
    waits_ns: I64  # of all requests together, at most


def kept_above(ops: Ops, mask: Bool, stops: Sequence[Stops], sessions: float | None) -> dict[Why, Kept]:
    """What each kind of `stops` may have made requests wait for above the wire.

    `mask` has the ops that the client called; `sessions` is how many requests the application has open on average, None
    where that is not known.
    """
    stops = [one for one in stops if len(one.conn)]
    if not stops or not mask.any():
        return {}
    mount_of = _mounts(ops, mask)
    kinds = list(Why)
    key, why, begin, end = [], [], [], []
    every = np.unique(mount_of[mount_of != NULL])
    for one in stops:
        of_all = one.conn == NULL
        known = np.flatnonzero(~of_all & (mount_of[one.conn] != NULL))
        rows = np.concatenate([known, np.repeat(np.flatnonzero(of_all), len(every))])
        key.append(np.concatenate([mount_of[one.conn[known]], np.tile(every, int(of_all.sum()))]))
        why.append(np.full(len(rows), kinds.index(one.why), dtype=np.int8))
        begin.append(one.begin_ns[rows])
        end.append(one.end_ns[rows])
    found = exclusive(*map(np.concatenate, (key, why, begin, end)))
    rows = np.flatnonzero(mask)
    of_op = mount_of[ops.conn[rows]]
    kept: dict[Why, list[Kept]] = {}
    for mount in np.unique(np.concatenate([one.key for one in found.values()])).tolist() if found else ():
        mine = rows[of_op == mount]
        open_then = _Open.of(ops.t0[mine], ops.t3[mine], (sessions or 0.0) * len(mine) / len(rows))
        for number, stretches in found.items():
            a, b = np.searchsorted(stretches.key, [mount, mount + 1]).tolist()
            if a < b:
                times = _joined(stretches.begin_ns[a:b], stretches.end_ns[a:b])
                kept.setdefault(kinds[number], []).append(open_then.kept(kinds[number], *times))
    return {why: _in_order(kept[why]) for why in kinds if why in kept}


def _mounts(ops: Ops, mask: Bool) -> I64:
    """Of each connection a number for its client's and its server's address; NULL where `mask` has no call on it."""
    numbers: dict[tuple[str, str, int], int] = {}
    out = np.full(len(ops.connections), NULL, dtype=np.int64)
    ways = ops.conn[mask].astype(np.int64) * 2 + ops.direction[mask]
    for way in np.flatnonzero(np.bincount(ways)).tolist():
        ends = ops.connections[way >> 1]
        named = ends.source(way & 1)[0], *ends.destination(way & 1)
        out[way >> 1] = numbers.setdefault(named, len(numbers))
    return out


def _joined(begin: I64, end: I64) -> tuple[I64, I64]:
    """Times in order, with those as one that touch."""
    new = np.append(True, begin[1:] > end[:-1])
    return begin[new], end[np.append(new[1:], True)]


def _in_order(parts: list[Kept]) -> Kept:
    begin, end, waits = (np.concatenate([getattr(one, n) for one in parts]) for n in ("begin_ns", "end_ns", "waits_ns"))
    order = np.lexsort((end, begin))
    return Kept(begin[order], end[order], waits[order])


class _Open(NamedTuple):
    """How many ops of a mount are on the wire, over time."""

    begins: I64  # of all ops, in order
    ends: I64
    level: I64  # as each begins, itself included
    sums: tuple[I64, I64]  # of `begins` and of `ends` in front of each
    sessions: float  # requests that are open on average, on the wire or above it

    @classmethod
    def of(cls, t0: I64, t3: I64, sessions: float) -> _Open:
        """From first and last instants, in any order."""
        begins, ends = np.sort(t0), np.sort(t3)
        level = np.arange(1, len(begins) + 1) - np.searchsorted(ends, begins, "right")
        # Of all numbers of 64 bits that wrap differences are exact as long as they fit themselves.
        summed = [np.concatenate([[0], np.cumsum(some)]) for some in (begins, ends)]
        return cls(begins, ends, level, (summed[0], summed[1]), sessions)

    def kept(self, why: Why, begin: I64, end: I64) -> Kept:
        """What requests may have waited above the wire in times that are apart."""
        long = end - begin
        # What piled up is on the wire right behind it; but a host that stands still asks for nothing more.
        stands = why is Why.HOST_PAUSE
        most = self._most(begin - long, begin if stands else end + long).astype(np.float64)
        if not stands:
            most = np.maximum(most, self.sessions)
        on_wire = self._spent(end) - self._spent(begin)
        return Kept(begin, end, np.maximum(np.rint(np.minimum(most * long, _MOST_NS)).astype(np.int64) - on_wire, 0))

    def _most(self, since: I64, until: I64) -> I64:
        """The most ops at once within each of some times."""
        a, b = np.searchsorted(self.begins, since), np.searchsorted(self.begins, until, "right")
        before = a - np.searchsorted(self.ends, since, "right")
        peaks = np.maximum.reduceat(np.append(self.level, 0), np.stack([a, b]).T.ravel())[::2]
        return np.asarray(np.maximum(before, np.where(b > a, peaks, 0)))

    def _spent(self, t_ns: I64) -> I64:
        """Time of all ops on the wire up to `t_ns`, but for a number that is the same for each."""
        a, b = np.searchsorted(self.begins, t_ns), np.searchsorted(self.ends, t_ns)
        return (a - b) * t_ns - self.sums[0][a] + self.sums[1][b]
