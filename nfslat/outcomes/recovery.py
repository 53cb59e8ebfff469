"""Ops of one side -> times in which a client made its client ID, session or leases anew, for its server had lost them.

A mount does the same calls; a recovery is one in which a reply says that state is gone (RFC 8881 sections 8.4, 2.10.13;
RFC 7530 section 9.6).
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from nfslat.model.protocol import NULL
from nfslat.model.statuses import Says
from nfslat.model.tables import I64, Bool, Ops
from nfslat.model.units import NS_PER_S
from nfslat.outcomes.counts import meanings, operation
from nfslat.outcomes.tries import Request

_MAKES_STATE = frozenset(
    "EXCHANGE_ID CREATE_SESSION DESTROY_SESSION BIND_CONN_TO_SESSION RECLAIM_COMPLETE SETCLIENTID SETCLIENTID_CONFIRM "
    "DESTROY_CLIENTID".split()
)
_APART_NS = 5 * NS_PER_S  # calls of one recovery follow each other; a server that is slow to start is asked again


class Recovery(NamedTuple):
    """One of them; row numbers are those of Ops, in time order."""

    begin_ns: int  # the first reply that says that state is gone, or call that makes state
    end_ns: int  # the last reply of a call that makes state
    rows: tuple[int, ...]  # the calls that make state, and those in between that were told that it is gone
    calls: int  # all calls of the client in that time
    waited: int  # requests that were put off before its end, and tried again after its begin


def recoveries(ops: Ops, mask: Bool, requests: list[Request]) -> list[Recovery]:
    """Of all clients of the ops in `mask`, in time order; `requests` are those that were tried again."""
    gone = np.flatnonzero((ops.status > 0) & mask)
    gone = gone[meanings(ops, gone) == list(Says).index(Says.STATE)] if len(gone) else gone
    if not len(gone):
        return []
    makes = np.array([operation(kind) in _MAKES_STATE for kind in ops.kinds], dtype=np.bool_)
    made = np.flatnonzero(makes[ops.kind] & mask & (ops.t3 != NULL))
    client = _clients(ops)
    found = []
    for one in np.unique(client[ops.conn[gone]]).tolist():
        mine = made[client[ops.conn[made]] == one]
        lost = gone[client[ops.conn[gone]] == one]
        rows = np.union1d(mine, lost)
        rows = rows[np.argsort(ops.t0[rows], kind="stable")]
        ends = np.maximum.accumulate(ops.t3[rows])
        for some in np.split(rows, np.flatnonzero(ops.t0[rows][1:] - ends[:-1] > _APART_NS) + 1):
            if np.isin(some, lost).any() and np.isin(some, mine).any():
                found.append(_of(ops, mask & (client[ops.conn] == one), some, np.isin(some, mine), requests))
    return sorted(found, key=lambda one: one.begin_ns)


def _of(ops: Ops, mask: Bool, rows: I64, makes: Bool, requests: list[Request]) -> Recovery:
    rows = rows[: int(np.flatnonzero(makes)[-1]) + 1]  # what comes later is told of another state
    learnt = np.where(makes[: len(rows)], ops.t0[rows], ops.t3[rows])
    begin, end = int(learnt.min()), int(ops.t3[rows].max())
    calls = int(np.count_nonzero(mask & (ops.t0 >= begin) & (ops.t0 <= end)))
    mine = set(rows.tolist())
    waited = [
        one
        for one in requests
        if ops.t0[one.tries[0]] <= end and ops.t0[one.tries[-1]] >= end and not mine.issuperset(one.tries)
    ]
    return Recovery(begin, end, tuple(rows.tolist()), calls, sum(bool(mask[one.tries[0]]) for one in waited))


def _clients(ops: Ops) -> I64:
    """Of each connection a number for both its hosts."""
    numbers: dict[tuple[str, ...], int] = {}
    hosts = [tuple(sorted((ends.addr_a, ends.addr_b))) for ends in ops.connections]
    return np.array([numbers.setdefault(both, len(numbers)) for both in hosts], dtype=np.int64)
