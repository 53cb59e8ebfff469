"""Ops of a side and its failed COMPOUNDs -> how many ops of each kind were answered with which status."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from nfslat.model.blocks import tally
from nfslat.model.details import Failures
from nfslat.model.protocol import MOUNT, NFS, NFSACL, NLM, NULL, is_callback_program, op_name
from nfslat.model.statuses import Says, says
from nfslat.model.tables import I8, I64, Bool, Kind, Ops

_MOST_STATUSES = 1 << 16  # an int16


class Answered(NamedTuple):
    """Ops that were answered alike."""

    kind: Kind  # `ops` are those of one of them
    status: int  # NULL: not captured, or a program without any
    failed: int  # operation of the COMPOUND that failed; NULL: none did, there is none, or it is not known
    ops: int


def whose_statuses(kind: Kind) -> int:
    """Whose statuses the replies to `kind` have, as `model.statuses` numbers them; 0: they have none."""
    if is_callback_program(kind.program):
        return 4
    return {NFS: kind.version, NFSACL: kind.version, MOUNT: MOUNT, NLM: NLM}.get(kind.program, 0)


def operation(kind: Kind) -> str:
    """Its name, as printed; with that of NLM where it is of NLM, whose LOCK is not NFSv4's."""
    return "NLM " * (kind.program == NLM) + op_name(kind.program, kind.version, kind.op)


def answered(ops: Ops, failures: Failures, mask: Bool) -> list[Answered]:
    """Counts of the ops in `mask`, which sum to them: the most frequent first, and what went well first of all."""
    every = bool(mask.all())
    kind = ops.kind if every else ops.kind[mask]
    status = ops.status if every else ops.status[mask]
    total = tally(len(kind), len(ops.kinds), lambda at: kind[at])
    bad = np.flatnonzero(status if every else np.where(mask, ops.status, 0))
    of_kind, of_status = ops.kind[bad].astype(np.int64), ops.status[bad].astype(np.int64)
    failed = failed_operation(ops, failures, bad)
    key = (of_kind * _MOST_STATUSES + (of_status & (_MOST_STATUSES - 1))) * _MOST_STATUSES + (failed + 1)
    _, first, counts = np.unique(key, return_index=True, return_counts=True)
    well = total - np.bincount(of_kind, minlength=len(ops.kinds)) if len(bad) else total
    found: dict[tuple[tuple[int, ...], int, int], Answered] = {}

    def add(one: Kind, status: int, failed: int, count: int) -> None:
        at = one[:4], status, failed
        before = found[at].ops if at in found else 0
        found[at] = Answered(one, status, failed, before + count)

    for one, count in zip(ops.kinds, well.tolist(), strict=True):
        if count:
            add(one, 0, NULL, count)
    for at, count in zip(first.tolist(), counts.tolist(), strict=True):
        add(ops.kinds[of_kind[at]], int(of_status[at]), int(failed[at]), count)
    return sorted(found.values(), key=lambda one: (one.status != 0, -one.ops, one.kind[:4], one.status, one.failed))


def failed_operation(ops: Ops, failures: Failures, rows: I64) -> I64:
    """Number of the operation that failed in the COMPOUNDs in `rows`; NULL where that is not known."""
    out = np.full(len(rows), NULL, dtype=np.int64)
    if not len(failures) or not len(rows):
        return out
    at = np.minimum(np.searchsorted(failures.op, rows), len(failures) - 1)
    known = failures.op[at] == rows
    last = failures.results[at].astype(np.int64) - 1  # the last that ran (RFC 8881 section 16.2.3)
    for kind in np.unique(ops.kind[rows[known]]).tolist():
        numbers = np.array(ops.kinds[kind].ops, dtype=np.int64)
        mine = np.flatnonzero(known & (ops.kind[rows] == kind) & (last >= 0) & (last < len(numbers)))
        out[mine] = numbers[last[mine]]
    return out


def meanings(ops: Ops, rows: I64) -> I8:
    """What the statuses of the ops in `rows` say: a number in the order of `Says`."""
    numbers = {one: number for number, one in enumerate(Says)}
    pair = ops.kind[rows].astype(np.int64) * _MOST_STATUSES + (ops.status[rows].astype(np.int64) + 1)
    found, of_row = np.unique(pair, return_inverse=True)
    known = [says(whose_statuses(ops.kinds[one // _MOST_STATUSES]), one % _MOST_STATUSES - 1) for one in found.tolist()]
    return np.array([numbers[one] for one in known], dtype=np.int8)[of_row]
