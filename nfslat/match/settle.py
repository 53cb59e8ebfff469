"""Matched ops + a clock -> matched ops that one moment in time allows, and candidates that time tells apart.

The clock rests on what was matched without one. With it two things become plain: a pair whose halves happened at
different times is none, and of several ops with one XID only that one can be it which was under way at the same time.
"""

from __future__ import annotations

from typing import Protocol

import numpy as np

from nfslat.kernels.join import Several
from nfslat.match.candidates import agree, pairs_within
from nfslat.match.match import Found, Matching, concluded
from nfslat.match.shared_ops import sizes
from nfslat.model.blocks import filled
from nfslat.model.protocol import NULL
from nfslat.model.tables import I32, I64, Bool, Ops

_MOST_AT_ONCE = 64  # ops with one XID at about the same time: more cannot be told apart
# Single stamps of a capture may be late (batches, several queues), and a clock does not rest on those. No client comes
# round to an XID that quickly, unless it does so all the time.
_LATE_STAMP_NS = 100_000_000
_ALL_THE_TIME = 0.1  # of the ops of a connection


class OnClient(Protocol):
    """A clock by which the server's instants are read on the client's."""

    @property
    def error_ns(self) -> int | None:
        """How far it may be off at most while both captures ran, ns; None where nothing is known."""

    def is_sure(self, rows: I64) -> Bool:
        """Does that hold for the server's ops in `rows`? Not for what may have been under way when a clock was set."""

    def on_client_ns(self, rows: I64, t_ns: I64) -> I64:
        """Instants `t_ns` on the server's clock, one of each of its ops in `rows`, on the client's clock."""


def settle(server: Ops, client: Ops, matching: Matching, clock: OnClient) -> Matching:
    """`matching`, held against a clock; itself where the clock has nothing to say against it, or nothing at all.

    A pair stays if its two intervals, call's first byte to reply's last, meet at all. Where an XID was used several
    times it is settled anew which op is which: the server's interval has to lie within the client's, to the error of
    the clock, and no other op may do as well. Each reason still counts what it says, and all sum to the ops.
    """
    error_ns = clock.error_ns
    if error_ns is None:
        return matching
    matched, several = matching.matched, matching.several
    strict = _reuses_xids(client, matching)

    def wrong(at: slice) -> Bool:
        s, c = matched.rows(at)
        began, ended = clock.on_client_ns(s, server.t0[s]), clock.on_client_ns(s, server.t3[s])
        t0, t3 = client.t0[c], client.t3[c]
        apart = (ended < t0 - (error_ns + _LATE_STAMP_NS)) | (began > t3 + (error_ns + _LATE_STAMP_NS))
        if strict.any():
            apart |= strict[client.conn[c]] & ((began < t0 - error_ns) | (ended > t3 + error_ns))
        rows = np.flatnonzero(apart)
        apart[rows] = clock.is_sure(s[rows])
        return np.asarray(apart)

    apart = filled(len(matched), np.bool_, wrong)
    if not (apart.any() or len(several.server)):
        return matching
    partner = np.full(len(client), NULL, dtype=np.int32)
    partner[matched.client] = matched.server
    partner[matched.client[apart]] = NULL
    partner[several.client] = NULL
    found = _by_time(server, client, several, clock, error_ns, partner)
    return concluded(server, client, matching.links, several, matching.ran, found)


def _reuses_xids(client: Ops, matching: Matching) -> Bool:
    """The client's connections on which XIDs come again all the time."""
    often = np.bincount(client.conn[matching.several.client], minlength=len(client.connections))
    return np.asarray(often > _ALL_THE_TIME * sizes(client))


def _by_time(server: Ops, client: Ops, several: Several, clock: OnClient, error_ns: int, partner: I32) -> Found:
    """Which of several ops with one XID is which, by the time at which they were under way; fills in `partner`."""
    s, key_s, c, key_c = several
    began, ended = clock.on_client_ns(s, server.t0[s]), clock.on_client_ns(s, server.t3[s])
    order = np.lexsort((client.t0[c], key_c))
    c, key_c = c[order], key_c[order]
    first, last = client.t0[c], client.t3[c]
    # Candidates: of the same key, not begun after the server's op has ended, and not ended before it began.
    end = _places(key_c, first, key_s, ended + error_ns, side="right")
    latest = np.argsort(np.lexsort((last, key_c)), kind="stable")  # rank of `last`; those of later keys are higher
    begin = np.searchsorted(np.maximum.accumulate(latest), _places(key_c, last, key_s, began - error_ns, side="left"))
    unclear_s = (end - begin > _MOST_AT_ONCE) | ~clock.is_sure(s)
    end = np.where(unclear_s, begin, np.maximum(end, begin))

    def meet(i: I64, j: I64) -> Bool:
        return np.asarray((first[j] <= ended[i] + error_ns) & (last[j] >= began[i] - error_ns))

    i, j = pairs_within(begin, end, meet)
    may = (first[j] <= began[i] + error_ns) & (last[j] >= ended[i] - error_ns)
    may &= agree(server, s[i], client, c[j])
    # Whatever was surely under way at the same time: no client has two ops with one XID, so one of them is put
    # together of two.
    surely = (first[j] + error_ns < ended[i]) & (last[j] - error_ns > began[i])
    alone = may.copy()
    for column, rows in ((i, len(s)), (j, len(c))):
        rivals = np.bincount(column[may | surely], minlength=rows)
        alone &= rivals[column] == 1
    partner[c[j[alone]]] = s[i[alone]]
    unclear_c = np.zeros(len(c), dtype=np.bool_)
    unclear = (may | surely) & ~alone
    unclear_s[i[unclear]] = unclear_c[j[unclear]] = True
    return Found(partner, np.zeros(0, dtype=np.int64), s[unclear_s], c[unclear_c])


def _places(keys: I64, values: I64, key: I64, value: I64, *, side: str) -> I64:
    """Where (`key`, `value`) belongs among (`keys`, `values`) in their order: ``searchsorted`` with two columns."""
    asked = np.concatenate([np.zeros(len(keys), dtype=np.int8), np.ones(len(key), dtype=np.int8)])
    tie = asked if side == "right" else 1 - asked
    order = np.lexsort((tie, np.concatenate([values, value]), np.concatenate([keys, key])))
    places = np.empty(len(order), dtype=np.int64)
    places[order] = np.cumsum(1 - asked[order])
    return places[len(keys) :]
