"""Claims on an op's time, which may overlap -> charges, which do not, and lie within the parts; exact, in ns."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import cached_property
from typing import NamedTuple, Protocol, Self

import numpy as np

from nfslat.decompose import ClientClock
from nfslat.model.causes import CAUSES, CHARGES, code
from nfslat.model.tables import I8, I64, Bool, Matched, Ops
from nfslat.wire.charges.places import AFTER, BEFORE, PLACES, place

_PARTS = 5
_FAR_NS = 1 << 62
WAITS = len(CAUSES)  # in place of a cause: for what went on in front of it, as `Ahead` says


class Instants(Protocol):
    """Where the parts of matched ops begin and end."""

    def edges_ns(self, rows: I64) -> I64:
        """c0, c1, s1, s2, s3, c3 of the matched ops in `rows`, on the client's clock: six rows of int64 ns."""
        ...


class Ahead(Protocol):
    """What went on in front of claims of `WAITS`."""

    def spent_ns(self, cause: int, rows: I64, begin_ns: I64, end_ns: I64) -> I64:
        """Of each of these stretches (client's clock) of the matched ops in `rows`, what went to `cause`; what went to
        all causes together is no more than the stretch."""
        ...


class Claims(NamedTuple):
    """Matched ops (rows), that wait for `cause` from `begin_ns` to `end_ns`, client's clock; only what lies within the
    place counts. Codes as in `causes`."""

    row: I64
    place: I8
    cause: I8
    begin_ns: I64
    end_ns: I64

    @classmethod
    def of(cls, row: I64, place_code: int, cause: int | I8, begin_ns: I64, end_ns: I64) -> Self:
        """Claims in one place; for one cause, or one each."""
        causes = np.broadcast_to(np.asarray(cause, dtype=np.int8), len(row))
        return cls(row, np.full(len(row), place_code, dtype=np.int8), causes, begin_ns, end_ns)

    @classmethod
    def joined(cls, several: Iterable[Claims]) -> Self:
        """All of them."""
        all_of_them = list(several)
        if not all_of_them:
            nothing, codes = np.zeros(0, dtype=np.int64), np.zeros(0, dtype=np.int8)
            return cls(nothing, codes, codes, nothing, nothing)
        return cls(*(np.concatenate(column) for column in zip(*all_of_them, strict=True)))

    def only(self, mask: Bool) -> Claims:
        """Those that `mask` chooses."""
        return Claims(self.row[mask], self.place[mask], self.cause[mask], self.begin_ns[mask], self.end_ns[mask])


class Charges(NamedTuple):
    """Time of matched ops by place and cause; at most one row for each three of them, in that order; ns > 0."""

    row: I64
    place: I8
    cause: I8
    ns: I64

    def only(self, mask: Bool) -> Charges:
        """Those that `mask` chooses."""
        return Charges(self.row[mask], self.place[mask], self.cause[mask], self.ns[mask])


def charged(claims: Claims, instants: Instants, ahead: Ahead | None = None) -> Charges:
    """What of the claims stands: within its place, and where several meet, the cause that is first in `CAUSES`.

    `ahead` is asked where claims have `WAITS` as their cause. So a reply behind many others is one claim, not as many.
    """
    begin, end = _within(claims, instants)
    kept = end > begin
    claims, begin, end = claims.only(kept), begin[kept], end[kept]
    if not len(claims.row):
        nothing, codes = np.zeros(0, dtype=np.int64), np.zeros(0, dtype=np.int8)
        return Charges(nothing, codes, codes, nothing)
    where, group = np.unique(claims.row * len(PLACES) + claims.place, return_inverse=True)
    sweep = _Sweep.of(group, claims.cause, begin, end)
    waits = np.flatnonzero(sweep.claimed(WAITS)) if ahead is not None else np.zeros(0, dtype=np.int64)
    rows, begins, ends = where[sweep.group[waits]] // len(PLACES), sweep.edge[waits], sweep.next_edge[waits]
    left = sweep.next_edge - sweep.edge
    found = []
    for cause in map(code, CHARGES):
        took = np.where(sweep.claimed(cause), left, 0)
        if ahead is not None and len(waits):
            spent = np.minimum(ahead.spent_ns(cause, rows, begins, ends), left[waits])
            took[waits] = np.maximum(took[waits], spent)
        left -= took
        ns = np.zeros(len(where), dtype=np.int64)
        np.add.at(ns, sweep.group, took)
        some = np.flatnonzero(ns)
        found.append((where[some], np.full(len(some), cause, dtype=np.int8), ns[some]))
    at, cause_of, total = (np.concatenate(column) for column in zip(*found, strict=True))
    order = np.lexsort((cause_of, at))
    row, place_of = np.divmod(at[order], len(PLACES))
    return Charges(row, place_of.astype(np.int8), cause_of[order], total[order])


class _Sweep(NamedTuple):
    """Beginnings and ends of intervals, by group and time; from each to the next one nothing changes."""

    group: I64
    edge: I64
    next_edge: I64  # behind the last one of a group nothing is claimed any more
    step: I64  # 1 or -1
    cause: I8

    @classmethod
    def of(cls, group: I64, cause: I8, begin: I64, end: I64) -> Self:
        """Intervals, in no order."""
        edge = np.concatenate([begin, end])
        step = np.repeat(np.array([1, -1], dtype=np.int64), len(begin))
        groups, causes = np.tile(group, 2), np.tile(cause, 2)
        order = np.lexsort((edge, groups))
        edge, groups = edge[order], groups[order]
        behind = np.append(edge[1:], edge[-1:])
        behind[:-1][groups[1:] != groups[:-1]] = edge[:-1][groups[1:] != groups[:-1]]
        return cls(groups, edge, behind, step[order], causes[order])

    def claimed(self, cause: int) -> Bool:
        """Is there an interval of this cause from this edge to the next?"""
        of_cause = self.cause == cause
        if not of_cause.any():
            return np.asarray(of_cause)
        return np.asarray(np.cumsum(np.where(of_cause, self.step, 0)) > 0)


class Stretches(NamedTuple):
    """Times of several keys; of each key they are apart from each other and in order."""

    key: I64
    begin_ns: I64
    end_ns: I64

    def within_ns(self, key: I64, begin_ns: I64, end_ns: I64) -> I64:
        """How much of each interval is covered by the stretches of its key."""
        out = np.zeros(len(key), dtype=np.int64)
        summed = np.concatenate([[0], np.cumsum(self.end_ns - self.begin_ns)])
        for one, rows in of_each(key):
            a, b = np.searchsorted(self.key, [one, one + 1]).tolist()
            begins, ends, sums = self.begin_ns[a:b], self.end_ns[a:b], summed[a : b + 1]
            for times, sign in ((end_ns[rows], 1), (begin_ns[rows], -1)):
                at = np.searchsorted(begins, times, "right")
                beyond = np.maximum(ends[at - 1] - times, 0) if b > a else 0
                out[rows] += sign * (sums[at] - np.where(at > 0, beyond, 0))
        return out


def exclusive(key: I64, cause: I8, begin: I64, end: I64) -> dict[int, Stretches]:
    """Intervals that may meet -> for each cause its stretches, none of which meets another one of its key; where
    several met, the cause that is first in `CAUSES` has it."""
    kept = end > begin
    if not kept.any():
        return {}
    sweep = _Sweep.of(key[kept], cause[kept], begin[kept], end[kept])
    free = sweep.next_edge > sweep.edge
    out = {}
    for one in np.unique(cause[kept]).tolist():
        claimed = sweep.claimed(one) & free
        free &= ~claimed
        out[one] = Stretches(sweep.group[claimed], sweep.edge[claimed], sweep.next_edge[claimed])
    return out


def of_each(key: I64) -> Iterator[tuple[int, I64]]:
    """Each key with its rows, both in order."""
    order = np.argsort(key, kind="stable")
    begins = np.flatnonzero(np.diff(key[order], prepend=key[order[:1]] - 1))
    for rows in np.split(order, begins[1:]) if len(key) else ():
        yield int(key[rows[0]]), rows


def _within(claims: Claims, instants: Instants) -> tuple[I64, I64]:
    """The claims' instants, as far as they lie within their places."""
    rows, at = np.unique(claims.row, return_inverse=True)
    edges = instants.edges_ns(rows)
    place_of = claims.place.astype(np.int64)
    part = np.minimum(place_of, _PARTS - 1)
    low, high = edges[part, at], edges[part + 1, at]
    before, after = place_of == place(BEFORE), place_of == place(AFTER)
    low = np.select([before, after], [np.full(len(at), -_FAR_NS), edges[-1, at]], low)
    high = np.select([before, after], [edges[0, at], np.full(len(at), _FAR_NS)], high)
    return np.maximum(claims.begin_ns, low), np.minimum(claims.end_ns, high)


class Pair:
    """The ops of both sides, and which of them are the same, as the stages of this package ask for them."""

    def __init__(self, server: Ops, client: Ops, matched: Matched, clock: ClientClock) -> None:
        self.server, self.client, self.matched, self.clock = server, client, matched, clock

    def edges_ns(self, rows: I64) -> I64:
        """See `Instants`."""
        s, c = self.matched.rows(rows)
        s1, s2, s3 = self.clock.on_client(c, self.server.t1[s], self.server.t2[s], self.server.t3[s])
        return np.stack([self.client.t0[c], self.client.t1[c], s1, s2, s3, self.client.t3[c]])

    def on_client_ns(self, rows: I64, *server_ns: I64) -> list[I64]:
        """Instants of the server's clock, of the matched ops in `rows`, on the client's."""
        return self.clock.on_client(self.matched.client[rows].astype(np.int64), *server_ns)

    def near_on_client_ns(self, *server_ns: I64) -> list[I64]:
        """Any instants of the server's clock on the client's, by the clock as it is at the op next to the first."""
        if not len(server_ns[0]):
            return list(server_ns)
        times, order = self._by_arrival
        near = np.minimum(np.searchsorted(times, server_ns[0]), len(order) - 1)
        return self.on_client_ns(order[near], *server_ns)

    @cached_property
    def _by_arrival(self) -> tuple[I64, I64]:
        """When the calls of the matched ops had come to the server, and their rows, in this order."""
        times = self.server.t1[self.matched.server]
        order = np.argsort(times, kind="stable")
        return times[order], order

    def places_of(self, side: str) -> I64:
        """For each op of `side` its row in `matched`; -1 where it has none."""
        ops, rows = (self.server, self.matched.server) if side == "server" else (self.client, self.matched.client)
        out = np.full(len(ops), -1, dtype=np.int64)
        out[rows] = np.arange(len(rows))
        return out


def overlapping(key: I64, begin: I64, end: I64, asked_key: I64, asked_begin: I64, asked_end: I64) -> tuple[I64, I64]:
    """Rows of two sets of intervals, in pairs: those with the same key that have more than a moment in common."""
    pairs: list[tuple[I64, I64]] = []
    order, asked_order = np.lexsort((begin, key)), np.argsort(asked_key, kind="stable")
    keys, asked_keys = key[order], asked_key[asked_order]
    for one in np.intersect1d(key, asked_key).tolist():
        of_key = order[slice(*np.searchsorted(keys, [one, one + 1]))]
        asked = asked_order[slice(*np.searchsorted(asked_keys, [one, one + 1]))]
        latest = np.maximum.accumulate(end[of_key])
        first = np.searchsorted(latest, asked_begin[asked], "right")
        behind = np.maximum(np.searchsorted(begin[of_key], asked_end[asked], "left"), first)
        counts = behind - first
        which = np.repeat(np.arange(len(asked)), counts)
        within = np.arange(len(which)) - np.repeat(np.cumsum(counts) - counts, counts)
        rows = of_key[np.repeat(first, counts) + within]
        meets = (end[rows] > asked_begin[asked][which]) & (begin[rows] < asked_end[asked][which])
        pairs.append((rows[meets], asked[which[meets]]))
    if not pairs:
        nothing = np.zeros(0, dtype=np.int64)
        return nothing, nothing
    return np.concatenate([p for p, _ in pairs]), np.concatenate([q for _, q in pairs])
