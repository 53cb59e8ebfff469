"""Ops of the server's capture + ops of the client's -> matched ops, and a reason for each op that has no partner.

No clock is needed: connections are matched first (`match.connections`), then ops in them by XID, program and version
and, where both captures show them, operation, handle, offset and count (docs/method.md). What a clock adds to that is
in `nfslat.match.settle`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from nfslat.kernels.join import JoinSide, Several, join
from nfslat.match.candidates import Together, agree, in_order, numbered, pairs_of_keys
from nfslat.match.connections import Links, by_ends, revise
from nfslat.match.overlap import nearest
from nfslat.model.blocks import filled
from nfslat.model.details import Tcp
from nfslat.model.protocol import NULL
from nfslat.model.tables import I8, I32, I64, Bool, Matched, Miss, Ops, Unmatched

_UNEVEN_CLOCKS = 100  # one of them may run faster by this part
# When a capture ran, ns on its clock: from its first packet to its last, or that of each of its files.
Ran = tuple[int, int] | Sequence[tuple[int, int]]


class Matching(NamedTuple):
    """Pairs of rows, the fate of every op, and what was found on the way there.

    `several` are the ops with an XID that at least one side has several times in a connection; `by_order` are rows of
    the client that have their partner among those by nothing but the order of the calls.
    """

    matched: Matched
    unmatched: Unmatched
    links: Links
    several: Several
    by_order: I64
    ran: tuple[Ran, Ran]

    def of_part(self, matched: Matched, rows: tuple[I64, I64], conns: tuple[I64, I64], new_row: I64) -> Matching:
        """That of a part of both sides, whose matched ops, in its own row numbers, are `matched`: `rows` and `conns`
        are the server's and the client's that it has, `new_row` the number that each of the client's rows has in its
        part."""
        by_order = self.by_order[np.isin(self.by_order, rows[1])] if len(self.by_order) else self.by_order
        nothing = np.zeros(0, dtype=np.int64)
        return self._replace(
            matched=matched,
            unmatched=Unmatched(self.unmatched.server[rows[0]], self.unmatched.client[rows[1]]),
            links=Links(self.links.server[conns[0]], self.links.client[conns[1]]),
            several=Several(*(nothing,) * 4),  # settled before
            by_order=new_row[by_order],
        )


class Found(NamedTuple):
    """For each row of the client the row of the server that it belongs to, or NULL; and what is in doubt."""

    partner: I32
    by_order: I64  # of the client
    doubt_s: I64  # rows that could be several of the other side
    doubt_c: I64


def match(
    server: Ops,
    client: Ops,
    server_ran: Ran,
    client_ran: Ran,
    tcp: tuple[Tcp, Tcp] | None = None,
    *,
    slack_ns: int = 0,
) -> Matching:
    """Match two sides, without a clock. `tcp` is what is known of the TCP connections of the server and the client;
    durations may be off by `slack_ns`, as the stamps of both tick.

    Each op is in at most one pair, and for each side the counts over `Miss` sum to its ops.
    """
    links = by_ends(server.connections, client.connections)
    found, several, contrary = _pairs(server, client, links, slack_ns)
    better = revise(server, client, links, found.partner, contrary, tcp)
    if better is not links:
        found, several, _ = _pairs(server, client, better, slack_ns)
    return concluded(server, client, better, several, (server_ran, client_ran), found)


def concluded(server: Ops, client: Ops, links: Links, several: Several, ran: tuple[Ran, Ran], found: Found) -> Matching:
    """The matching that has the pairs of `found`, and a reason for every op that is in none."""
    partner = found.partner
    fate_s = _fates(server, links.server, Miss.NOT_CAPTURED_AT_CLIENT)
    fate_c = _fates(client, links.client, Miss.NOT_CAPTURED_AT_SERVER)
    fate_s[found.doubt_s] = fate_c[found.doubt_c] = Miss.AMBIGUOUS
    rows_c = np.flatnonzero(partner != NULL).astype(np.int32)
    rows_s = partner if len(rows_c) == len(partner) else partner[rows_c]
    fate_s[rows_s] = fate_c[rows_c] = Miss.MATCHED
    matched = Matched(rows_s, rows_c)
    if len(matched):
        missed_s, missed_c = np.flatnonzero(fate_s != Miss.MATCHED), np.flatnonzero(fate_c != Miss.MATCHED)
        if len(missed_s):
            order = np.argsort(rows_s, kind="stable")
            near = matched.take(order[nearest(server, missed_s, rows_s[order])])
            _mark_outside(server, missed_s, fate_s, (server, near.server), (client, near.client), ran[1])
        if len(missed_c):
            near = matched.take(nearest(client, missed_c, rows_c))
            _mark_outside(client, missed_c, fate_c, (client, near.client), (server, near.server), ran[0])
    return Matching(matched, Unmatched(fate_s, fate_c), links, several, found.by_order, ran)


def _fates(ops: Ops, link: I32, otherwise: Miss) -> I8:
    """What becomes of each op if nothing better is found."""
    alone = link[ops.classes.conn] == NULL
    return ops.spread(np.where(alone, Miss.CONNECTION_UNMATCHED, otherwise).astype(np.int8))


def _pairs(server: Ops, client: Ops, links: Links, slack_ns: int) -> tuple[Found, Several, I64]:
    """What belongs together; and the client's rows whose only counterpart by XID is another op."""
    number_s, number_c = numbered(server, client, lambda kind: (kind.program, kind.version))
    numbers = 1 + max(int(number.max(initial=0)) for number in (number_s, number_c))
    sides = [
        JoinSide(ops.conn, ops.kind, ops.xid, np.where(link == NULL, NULL, link * numbers), number)
        for ops, link, number in ((server, links.server, number_s), (client, links.client, number_c))
    ]
    partner, several = join(sides[0], sides[1], numbers * max(links.count, 1))
    rows_c = np.flatnonzero(partner != NULL)

    def agreed(at: slice) -> Bool:
        return agree(server, partner[rows_c[at]].astype(np.int64), client, rows_c[at])

    contrary = rows_c[~filled(len(rows_c), np.bool_, agreed)]
    partner[contrary] = NULL
    return _by_order(server, client, several, partner, slack_ns), several, contrary


def _by_order(server: Ops, client: Ops, several: Several, partner: I32, slack_ns: int) -> Found:
    """One XID, several ops (XID reuse): those with equal arguments belong together, in order, if they are as many.

    Both sides are in call order, and a connection keeps the order of its calls. Fills in `partner`.
    """
    if not len(several.server):
        none = np.zeros(0, dtype=np.int64)
        return Found(partner, none, none, none)

    def agreed(i: I64, j: I64) -> Bool:
        return agree(server, several.server[i], client, several.client[j])

    i, j, looked_at = pairs_of_keys(several, agreed)
    found = in_order(i, j, len(several.server), len(several.client))
    kept = _is_possible(server, client, several, found, slack_ns)
    found_s, found_c = found.one[kept], found.two[kept]
    partner[several.client[found_c]] = several.server[found_s]
    doubt_s, doubt_c = ~looked_at[several.server_key], ~looked_at[several.client_key]
    doubt_s[i] = doubt_c[j] = True
    doubt_s[found_s] = doubt_c[found_c] = False
    _, which, sizes = np.unique(found.group[kept], return_inverse=True, return_counts=True)
    by_order = several.client[found_c[sizes[which] > 1]]
    return Found(partner, by_order, several.server[doubt_s], several.client[doubt_c])


def _is_possible(server: Ops, client: Ops, several: Several, found: Together, slack_ns: int) -> Bool:
    """Which of the pairs `found` can be true, by the times that each side shows by itself?

    What took longer than an op with its XID can have is put together of two: the call of one, the reply of another,
    and what was in between is not in the capture. And the ops of a group must be as far from each other at both sides,
    but for what the way may have taken: if not, each side lacks a different one, and the whole order is wrong.
    """
    rows_s, rows_c = several.server[found.one], several.client[found.two]
    took_s, took_c = (ops.t3[rows] - ops.t0[rows] for ops, rows in ((server, rows_s), (client, rows_c)))
    wrong = took_s - slack_ns > _longest(client, several.client, several.client_key)[found.two]
    wrong |= took_c - slack_ns > _longest(server, several.server, several.server_key)[found.one]
    apart_s, apart_c = np.diff(server.t0[rows_s]), np.diff(client.t0[rows_c])
    took = np.maximum(took_s, took_c)
    on_the_way = np.maximum(took[1:], took[:-1]) + np.maximum(np.abs(apart_s), np.abs(apart_c)) // _UNEVEN_CLOCKS
    wrong[1:] |= (found.group[1:] == found.group[:-1]) & (np.abs(apart_s - apart_c) > on_the_way + slack_ns)
    return ~np.isin(found.group, found.group[wrong])


def _longest(ops: Ops, rows: I64, key: I64) -> I64:
    """How long the op in each of `rows` can have taken at the other side, ns, by those with its XID before and behind:
    an XID is used again when its op is complete."""
    longest = np.full(len(rows), np.iinfo(np.int64).max)
    again = key[1:] == key[:-1]
    for t, at in ((ops.t0[rows], longest[:-1]), (ops.t3[rows], longest[1:])):
        at[again] = np.minimum(at[again], np.diff(t)[again])
    return longest


def _mark_outside(ops: Ops, rows: I64, fate: I8, near: tuple[Ops, I32], near_there: tuple[Ops, I32], ran: Ran) -> None:
    """OUTSIDE_OVERLAP for those of `rows`, ops without a partner, of which the other capture saw no file's time.

    Call and reply are taken to have travelled as those of the nearest matched op did.
    """
    (here, at), (there, at_there) = near, near_there
    began = ops.t0[rows] + (there.t0[at_there] - here.t0[at])
    ended = ops.t3[rows] + (there.t3[at_there] - here.t3[at])
    fate[rows[_is_outside(began, ran) | _is_outside(ended, ran)]] = Miss.OUTSIDE_OVERLAP


def _is_outside(t_ns: I64, ran: Ran) -> Bool:
    files = np.asarray(ran, dtype=np.int64).reshape(-1, 2)
    first, last = np.sort(files[:, 0]), np.maximum.accumulate(files[np.argsort(files[:, 0], kind="stable"), 1])
    file = np.searchsorted(first, t_ns, side="right") - 1
    return np.asarray((file < 0) | (t_ns > last[np.maximum(file, 0)]))
