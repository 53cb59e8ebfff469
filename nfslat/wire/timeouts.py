"""Ops and loose messages of a side -> ops whose call RPC sent again by its timer (timeo), on the same connection."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from nfslat.model.tables import I64, Bool, Loose, Ops, State

_SPREAD = 0.1  # of the median: a timer is regular
_REGULAR = 0.8  # of the ops


class Timeouts(NamedTuple):
    """Rows of ops, how long after the first transmission the second came, and whether the server answered twice."""

    row: I64
    after_ns: I64
    answered_twice: Bool


def timeouts(ops: Ops, loose: Loose, asked: Bool, sent_anew: Bool) -> Timeouts | None:
    """Timeouts of the ops in `asked`, but for those in `sent_anew` (on a new connection).

    None where no timer shows: the times are not about the same.
    """
    again = (loose.state == State.RETRANSMITTED) & (loose.op >= 0)
    calls, replies = np.flatnonzero(again & (loose.is_reply == 0)), loose.op[again & (loose.is_reply == 1)]
    rows = loose.op[calls]
    mine = asked[rows] & ~sent_anew[rows] & (loose.conn[calls] == ops.conn[rows])
    mine &= loose.first_ns[calls] < ops.t2[rows]  # else the reply was lost
    rows, first_ns = rows[mine], loose.first_ns[calls[mine]]
    order = np.lexsort((first_ns, rows))
    row, at = np.unique(rows[order], return_index=True)
    after_ns = first_ns[order][at] - ops.t0[row]
    if not len(row):
        return None
    median_ns = float(np.median(after_ns))
    if np.mean(np.abs(after_ns - median_ns) <= _SPREAD * median_ns) < _REGULAR:
        return None
    return Timeouts(row.astype(np.int64), after_ns, np.isin(row, replies))
