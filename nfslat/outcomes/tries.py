"""Ops of one side -> requests that the server put off, and that the client sent again as new calls: tries, joined.

RPC knows nothing of it: each try is a call with a reply of its own, and what passes between two of them is in no
response time. Tries of one request come from one client for one user, and ask the same server for the same operation
on the same file, name and offset; who owns a lock is not decoded. So where several callers ask for the same, which of
them sent a try is not known; the sum of their waits does not depend on it, as long as it is known how many wait. That
is counted low: what comes in the time in which a client tries again is taken for another try.
"""

from __future__ import annotations

import itertools
from collections import deque
from collections.abc import Mapping
from enum import IntEnum
from typing import NamedTuple

import numpy as np
from msgspec import Struct

from nfslat.model.blocks import each_block
from nfslat.model.details import Details, Names
from nfslat.model.protocol import NULL, NULL32
from nfslat.model.statuses import Says
from nfslat.model.tables import I64, Bool, Ops
from nfslat.model.units import NS_PER_MS, NS_PER_S
from nfslat.outcomes.counts import meanings, operation

_SAYS = list(Says)
PUT_OFF = (Says.GRACE, Says.DELAY, Says.LOCKED, Says.STATE)
# Between a failed try and the next one. Linux waits NFS4_POLL_RETRY_MIN (0.1 s), doubled up to NFS4_POLL_RETRY_MAX
# (15 s) after GRACE and DELAY (fs/nfs/nfs4proc.c), NFS_JUKEBOX_RETRY_TIME (5 s) with NFSv3 (fs/nfs/nfs3proc.c), for a
# lock NFS4_LOCK_MINTIMEOUT (1 s) doubled up to NFS4_LOCK_MAXTIMEOUT (30 s); after lost state until it has recovered it.
# FreeBSD (NFS_TRYLATERDEL) and Solaris wait up to 15 s, too. What comes sooner is of another caller; an application
# that asks for a lock by itself, again and again, waits as long as it likes.
_SOONEST_NS = {Says.GRACE: 50 * NS_PER_MS, Says.DELAY: 50 * NS_PER_MS}
_LATEST_NS = {Says.LOCKED: 35 * NS_PER_S}
_LATEST_OF_OTHERS_NS = 20 * NS_PER_S
_LATEST_OF_ALL_NS = max(_LATEST_OF_OTHERS_NS, *_LATEST_NS.values())
_SEVERAL, _EVEN = 3, 4  # waits; the longest of them over the shortest
# They ask for no file; of all others without a handle it was not captured.
_WITHOUT_FILE = frozenset(
    "SEQUENCE RENEW EXCHANGE_ID CREATE_SESSION DESTROY_SESSION BIND_CONN_TO_SESSION RECLAIM_COMPLETE SETCLIENTID "
    "SETCLIENTID_CONFIRM DESTROY_CLIENTID FREE_STATEID TEST_STATEID RELEASE_LOCKOWNER SECINFO_NO_NAME".split()
)
_HASH_BITS = 22
# DENIED is what LOCKT asks for; for the others nobody waits: the client gives state back by itself.
_ASKING = frozenset("LOCKT CLOSE FREE_STATEID RELEASE_LOCKOWNER DELEGRETURN LAYOUTRETURN".split())


class Outcome(IntEnum):
    """How a request ended."""

    SUCCEEDED = 0
    FAILED = 1  # with a status that is no reason to come again
    OPEN = 2  # put off to the end of the capture
    LEFT = 3  # no further try is seen, though the capture goes on: given up, or it is another call now


class Request(NamedTuple):
    """One request with at least one try that was put off; row numbers are those of Ops."""

    tries: tuple[int, ...]
    says: tuple[Says, ...]  # of each try that was put off: all, or all but the last
    waits_ns: tuple[int, ...]  # behind each of them but the last of a request that is open or left: until the next one
    outcome: Outcome
    waited_ns: int  # from the first try's call to the last one's reply: where it is open, at least that long

    @property
    def between_ns(self) -> int:
        """Of that, what no response time holds."""
        return sum(self.waits_ns)

    @property
    def reason(self) -> Says:
        """What put it off for the most time; for most tries where there was no second one."""
        spent = dict.fromkeys(self.says, 0)
        for one, wait in zip(self.says, self.waits_ns, strict=False):
            spent[one] += wait
        return max(spent, key=lambda one: (spent[one], self.says.count(one)))


class _Open(Struct, eq=False):
    """A request while it is put off."""

    begin_ns: int
    heard_ns: int = 0  # the last reply's end
    tries: list[int] = []
    says: list[Says] = []
    waits_ns: list[int] = []


def requests(ops: Ops, details: Details, mask: Bool, end_ns: int) -> list[Request]:
    """Of the ops in `mask`, which a client called, by their first try; `end_ns` is the capture's end."""
    bad = np.flatnonzero(ops.status > 0)
    bad = bad[mask[bad]]
    if not len(bad):
        return []
    bad = bad[_puts_off(ops, bad)]
    if not len(bad):
        return []
    rows = _alike(ops, mask, bad)
    key = _keys(ops, details, rows)
    rows, key = _near(ops, rows, key, np.isin(rows, bad))
    columns = rows, ops.t0[rows], ops.t3[rows], meanings(ops, rows), np.isin(rows, bad)
    answers = [_Answer(*one) for one in zip(*(column.tolist() for column in columns), strict=True)]
    edges = np.flatnonzero(np.concatenate([[True], key[1:] != key[:-1], [True]])).tolist()
    done = [one for begin, end in itertools.pairwise(edges) for one in _of_key(answers[begin:end], end_ns)]
    return sorted(done, key=lambda one: one.tries[0])


class _Answer(NamedTuple):
    """Of an op."""

    row: int
    t0: int
    t3: int
    says: int  # a number in the order of `Says`
    is_bad: bool  # put off


def _of_key(answers: list[_Answer], end_ns: int) -> list[Request]:
    found = _joined(answers, _SOONEST_NS, end_ns)
    if sum(len(one.waits_ns) > 0 for one in found) < _SEVERAL:
        return found
    # Several who wait as Linux does come at about the same time; one who waits less than that comes at even steps.
    alone = _joined(answers, {}, end_ns)
    return alone if all(_is_even(one) for one in alone) else found


def _is_even(one: Request) -> bool:
    waits = one.waits_ns
    return len(waits) >= _SEVERAL and max(waits) < min(_SOONEST_NS.values()) and max(waits) <= _EVEN * min(waits)


def _joined(answers: list[_Answer], soonest_ns: Mapping[Says, int], end_ns: int) -> list[Request]:
    done: list[Request] = []
    waiting: deque[_Open] = deque()
    for row, t0, t3, number, is_bad in answers:
        while waiting and t0 - waiting[0].heard_ns > _latest_ns(waiting[0]):
            done.append(_ended(waiting.popleft(), end_ns))
        one = next((one for one in waiting if t0 - one.heard_ns >= soonest_ns.get(one.says[-1], 0)), None)
        if one is None and not is_bad:
            continue  # it was never put off
        if one is None:
            one = _Open(t0)
        else:
            waiting.remove(one)
            one.waits_ns.append(t0 - one.heard_ns)
        one.tries.append(row)
        one.heard_ns = t3
        if is_bad:
            one.says.append(_SAYS[number])
            waiting.append(one)
        else:
            done.append(_answered(one, _SAYS[number]))
    return done + [_ended(one, end_ns) for one in waiting]


def _puts_off(ops: Ops, rows: I64) -> Bool:
    """Mask of those of `rows` that are tried again as a rule."""
    asks = np.array([operation(kind) in _ASKING for kind in ops.kinds], dtype=np.bool_)
    says = meanings(ops, rows)
    of_state = np.isin(says, [_SAYS.index(one) for one in PUT_OFF])
    return np.asarray(of_state & ~asks[ops.kind[rows]] & (ops.t3[rows] != NULL))


def _alike(ops: Ops, mask: Bool, bad: I64) -> I64:
    """Rows of the ops in `mask` that may ask for the same as one of `bad`; few others among them.

    To sort all ops by what they ask for would take seconds where there are millions: a table of hashes takes none.
    """
    title = _titles(ops)
    wanted = np.zeros(1 << _HASH_BITS, dtype=np.bool_)
    wanted[_hashes(ops, title, bad)] = True
    found = each_block(len(ops), lambda at: at.start + np.flatnonzero(mask[at] & wanted[_hashes(ops, title, at)]))
    return np.concatenate(found)


def _hashes(ops: Ops, title: I64, rows: I64 | slice) -> I64:
    """By operation, file, offset and size: multiples of odd numbers (that of Fibonacci hashing, and primes)."""
    mixed = title[ops.kind[rows]].astype(np.uint64) + ops.fh[rows] * np.uint64(0x9E3779B97F4A7C15)
    mixed ^= ops.offset[rows].astype(np.uint64) * np.uint64(0xC2B2AE3D27D4EB4F)
    mixed ^= ops.size[rows] * np.uint64(0x165667B19E3779F9)
    mixed ^= mixed >> np.uint64(29)
    return (mixed * np.uint64(0x9E3779B97F4A7C15) >> np.uint64(64 - _HASH_BITS)).astype(np.int64)


def _titles(ops: Ops) -> I64:
    """Of each kind a number: COMPOUNDs with other operations around the same one are the same request."""
    numbers: dict[tuple[int, int, int], int] = {}
    return np.array([numbers.setdefault((k.program, k.version, k.op), len(numbers)) for k in ops.kinds], dtype=np.int64)


def _keys(ops: Ops, details: Details, rows: I64) -> I64:
    """Of each row a number: the same where two may be tries of one request; NULL where the file is not known."""
    names: dict[tuple[str, str], int] = {}
    way = ops.conn[rows].astype(np.int64) * 2 + ops.direction[rows]
    mount = np.zeros(2 * len(ops.connections), dtype=np.int64)
    for one in np.unique(way).tolist():
        ends = ops.connections[one >> 1]
        mount[one] = names.setdefault((ends.source(one & 1)[0], ends.destination(one & 1)[0]), len(names))
    uid = details.callers.uid[rows] if len(details.callers) == len(ops) else np.full(len(rows), NULL32)
    title = _titles(ops)[ops.kind[rows]]
    columns = (mount[way], title, ops.fh[rows], ops.offset[rows], ops.size[rows], _names(details.names, rows), uid)
    order = np.lexsort(columns[::-1])
    new = np.zeros(len(rows), dtype=np.bool_)
    for column in columns:
        ordered = column[order]
        new[1:] |= ordered[1:] != ordered[:-1]
    out = np.empty(len(rows), dtype=np.int64)
    out[order] = np.cumsum(new)
    no_file = [operation(kind) in _WITHOUT_FILE for kind in ops.kinds]
    unknown = (ops.fh[rows] == NULL32) & ~np.array(no_file, dtype=np.bool_)[ops.kind[rows]]
    return np.where(unknown, NULL, out)


def _names(names: Names, rows: I64) -> I64:
    out = np.full(len(rows), NULL, dtype=np.int64)
    if len(names):
        at = np.minimum(np.searchsorted(names.op, rows), len(names) - 1)
        known = names.op[at] == rows
        out[known] = names.name[at[known]]
    return out


def _near(ops: Ops, rows: I64, key: I64, is_bad: Bool) -> tuple[I64, I64]:
    """Rows and keys in the order of keys and time, without those that no failed try stands shortly before."""
    known = key != NULL
    rows, key, is_bad = rows[known], key[known], is_bad[known]
    order = np.lexsort((ops.t0[rows], key))
    rows, key, is_bad = rows[order], key[order], is_bad[order]
    place = np.arange(len(rows))
    before = np.maximum.accumulate(np.where(is_bad, place, NULL))
    at = np.maximum(before, 0)
    follows = (before != NULL) & (key[at] == key) & (ops.t0[rows] - ops.t3[rows[at]] <= _LATEST_OF_ALL_NS)
    keep = is_bad | follows
    return rows[keep], key[keep]


def _latest_ns(one: _Open) -> int:
    return _LATEST_NS.get(one.says[-1], _LATEST_OF_OTHERS_NS)


def _answered(one: _Open, says: Says) -> Request:
    outcome = {Says.DONE: Outcome.SUCCEEDED, Says.UNKNOWN: Outcome.LEFT}.get(says, Outcome.FAILED)
    return _made(one, outcome)


def _ended(one: _Open, end_ns: int) -> Request:
    """Nothing came any more: the capture ended within the time in which something might have."""
    return _made(one, Outcome.OPEN if end_ns - one.heard_ns <= _latest_ns(one) else Outcome.LEFT)


def _made(one: _Open, outcome: Outcome) -> Request:
    return Request(tuple(one.tries), tuple(one.says), tuple(one.waits_ns), outcome, one.heard_ns - one.begin_ns)


def fits_back_off(request: Request) -> tuple[int, int]:
    """Of the waits behind GRACE and DELAY, how many a client's back-off makes; and how many there are.

    Linux's: 0.1 s, doubled up to 15 s; 5 s each with NFSv3. Timers run late, and a recovery in between begins anew.
    """
    fit = count = 0
    before = 0
    for says, wait in zip(request.says, request.waits_ns, strict=False):
        if says in _SOONEST_NS:
            doubled = 1.5 * before <= wait <= 2.6 * before
            known = any(0.9 * ns <= wait <= 1.3 * ns for ns in _STEPS_NS)
            fit += doubled or known
            count += 1
        before = wait
    return fit, count


_STEPS_NS = (100 * NS_PER_MS, 5 * NS_PER_S, 15 * NS_PER_S)
