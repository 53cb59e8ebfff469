"""Ops of a client -> calls that ask one after the other, each as the answer before has come: one caller, as ls -l is.

Nothing was in flight between the two hosts when such a call left, and the reply before had come right before that. Many
in a row are no accident: several callers who know nothing of each other would meet.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from nfslat.model.blocks import each_block
from nfslat.model.details import Callers, Names
from nfslat.model.protocol import NULL, NULL32, op_name
from nfslat.model.tables import I64, Bool, Ops
from nfslat.model.units import NS_PER_MS, NS_PER_S

# They ask what a file is, and change nothing.
_ASKING = frozenset("GETATTR ACCESS LOOKUP READLINK READDIR READDIRPLUS".split())
_BEHIND_NS = NS_PER_MS  # an answer goes through the file system and to the next system call in some 10 us
_IN_A_ROW, _FEW = 20, 100
_MOST = 0.5  # of all response times: where it is less, something else is to be looked at
_CACHED_NS = 3 * NS_PER_S  # acregmin: so long at least a Linux client takes attributes for known (nfs(5))


class Serial(NamedTuple):
    """Calls in rows of 20 and more that ask."""

    calls: int
    spent_ns: int  # their response times
    all_ns: int  # those of all ops
    elapsed_ns: int  # from the first call to the last reply of each row
    files: int  # handles that they ask for
    again: int  # of the calls, those that ask what was answered less than 3 s before, to the same user
    listings: int  # READDIRs of NFSv3 and v2, whose replies hold no attributes


def serial_calls(ops: Ops, names: Names, callers: Callers, mask: Bool) -> Serial | None:
    """Of the ops in `mask`, which clients called; None where they are less than half of the time, or hardly any."""
    asks = np.array([op_name(kind.program, kind.version, kind.op) in _ASKING for kind in ops.kinds], dtype=np.bool_)
    if int(ops.classes.count[asks[ops.classes.kind]].sum()) < _FEW:
        return None
    all_ns = sum(each_block(len(ops), lambda at: _spent_ns(ops, mask, at)))
    asking = np.flatnonzero(asks[ops.kind] & mask & (ops.t3 != NULL))
    if int((ops.t3[asking] - ops.t0[asking]).sum()) < _MOST * all_ns:
        return None
    rows = np.flatnonzero(mask & (ops.t3 != NULL))
    rows = rows[np.argsort(ops.t0[rows], kind="stable")]
    mount = _mounts(ops)[ops.conn[rows]]
    order = np.argsort(mount, kind="stable")
    rows, mount = rows[order], mount[order]
    t0, t3 = ops.t0[rows], ops.t3[rows]
    first = np.append(True, mount[1:] != mount[:-1])
    # Of each mount the latest reply so far: mounts are put one behind the other, so that none reaches into the next.
    shift = np.cumsum(first) * (int(t3.max()) - int(t0.min()) + 1)
    heard = np.append(0, np.maximum.accumulate(t3 - int(t0.min()) + shift)[:-1]) - shift + int(t0.min())
    behind = ~first & (t0 >= heard) & (t0 - heard <= _BEHIND_NS) & asks[ops.kind[rows]]
    edges = np.flatnonzero(np.diff(np.concatenate([[False], behind, [False]]).astype(np.int8)))
    begin, end = edges[::2], edges[1::2]
    long = end - begin >= _IN_A_ROW
    if not long.any():
        return None
    inside = np.zeros(len(rows) + 1, dtype=np.int64)
    np.add.at(inside, begin[long], 1)
    np.add.at(inside, end[long], -1)
    mine = rows[np.cumsum(inside[:-1]) > 0]
    spent_ns = int((ops.t3[mine] - ops.t0[mine]).sum())
    if len(mine) < _FEW or spent_ns < _MOST * all_ns:
        return None
    listing = np.array(
        [kind.version < 4 and op_name(kind.program, kind.version, kind.op) == "READDIR" for kind in ops.kinds]
    )
    return Serial(
        calls=len(mine),
        spent_ns=spent_ns,
        all_ns=all_ns,
        elapsed_ns=int((t3[end[long] - 1] - t0[begin[long]]).sum()),
        files=len(np.unique(ops.fh[mine])),
        again=_asked_before(ops, names, callers, mine),
        listings=int(np.count_nonzero(listing[ops.kind[mine]])),
    )


def _spent_ns(ops: Ops, mask: Bool, at: slice) -> int:
    """Response times of the ops in `mask` among the rows `at`."""
    return int(np.where(mask[at] & (ops.t3[at] != NULL), ops.t3[at] - ops.t0[at], 0).sum())


def _asked_before(ops: Ops, names: Names, callers: Callers, rows: I64) -> int:
    """How many of `rows` ask for the same of the same file as one that was answered well shortly before."""
    known = rows[(ops.fh[rows] != NULL32) & (ops.status[rows] == 0)]
    name = np.full(len(known), NULL, dtype=np.int64)
    if len(names):
        at = np.minimum(np.searchsorted(names.op, known), len(names) - 1)
        name = np.where(names.op[at] == known, names.name[at], NULL)
    uid = callers.uid[known] if len(callers) == len(ops) else np.zeros(len(known), dtype=np.uint32)
    # What lists a directory goes on with another cookie, which is not decoded.
    lists = np.array(
        [op_name(kind.program, kind.version, kind.op).startswith("READDIR") for kind in ops.kinds], dtype=np.bool_
    )
    columns = (ops.conn[known], ops.kind[known], ops.fh[known], name, uid)
    order = np.lexsort((ops.t0[known], *columns))
    known = known[order]
    same = np.ones(max(len(known) - 1, 0), dtype=np.bool_)
    for column in columns:
        ordered = column[order]
        same &= ordered[1:] == ordered[:-1]
    soon = ops.t0[known[1:]] - ops.t3[known[:-1]] < _CACHED_NS
    return int(np.count_nonzero(same & soon & ~lists[ops.kind[known[1:]]]))


def _mounts(ops: Ops) -> I64:
    """Of each connection a number for both its hosts."""
    numbers: dict[tuple[str, ...], int] = {}
    hosts = [tuple(sorted((ends.addr_a, ends.addr_b))) for ends in ops.connections]
    return np.array([numbers.setdefault(both, len(numbers)) for both in hosts], dtype=np.int64)
