"""The matched ops -> how late calls came to their server's capture while that showed nothing at all; no words.

A host that waits for a processor takes what comes when it has one, and until then its capture shows neither calls nor
replies. What waits on the path comes late while others pass.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from nfslat.answer.model import MatchedRow
from nfslat.clock.one_way import mean_error_ns
from nfslat.findings.facts import LONG_MS, STORAGE_OPS, WAKES, WAKES_OF_A_CHANGE, LateCalls
from nfslat.model.causes import FROM_OUTSIDE, code
from nfslat.model.tables import I64, Bool
from nfslat.model.units import to_ms
from nfslat.results import Analysis
from nfslat.wire.charges.places import place

_SILENT_NS = 200_000  # messages of a burst that is worked off have less between them
_FEWEST = 5  # calls; fewer tell nothing of what goes on meanwhile


def late_ns(c: Analysis) -> I64 | None:
    """Of each matched op, but for the distance, what TCP and the path explain, and how far clocks may be off; None:
    not known."""
    if c.charges is None or not c.clock.fits:
        return None
    rare = c.charges.rare
    late = c.charges.net_ns["call_net"] - c.charges.distance_ns("call_net")
    known = (rare.place == place("call_net")) & np.isin(rare.cause, [*map(code, FROM_OUTSIDE)])
    np.subtract.at(late, rare.row[known], rare.ns[known])
    late -= mean_error_ns(c.clock, c.client.ops, c.matched.client)
    rows = np.flatnonzero(late >= _SILENT_NS)
    out = np.zeros(len(late), dtype=np.int64)
    if len(rows):
        ops = c.server.ops
        came = ops.t1[c.matched.server[rows]]
        seen = np.sort(np.concatenate([ops.t0, ops.t1, ops.t2, ops.t3]))
        out[rows] = _silent_ns(seen, came - late[rows], came)
    return out


def late_calls(
    c: Analysis, rows: I64, by_op: Sequence[MatchedRow], own_ns: I64, how_late: Callable[[], I64 | None]
) -> LateCalls | None:
    """Late calls among the matched ops `rows`. They are looked for only where data take long in the server: in one of
    `by_op`. `own_ns` are `in_thread_ns`.

    `how_late` gives `late_ns`, which is found once for all who ask."""
    data = [row for row in by_op if row.op in STORAGE_OPS]
    if all(row.server_ms.mean < LONG_MS for row in data) or (late := how_late()) is None:
        return None
    op = max(data, key=lambda row: row.count * row.server_ms.mean).op
    took_ms = to_ms(own_ns[c.rows_of({op})])
    prompt = float((late[rows] == 0).mean())
    quick = prompt ** (WAKES if op == "READ" else WAKES_OF_A_CHANGE) / 2
    return LateCalls(
        mean_ms=float(to_ms(late[rows].mean())),
        op_ms=float(took_ms.mean()),
        quickest_ms=float(np.quantile(took_ms, quick)) if quick * len(took_ms) >= _FEWEST else None,
    )


def late_beside_ms(c: Analysis, late: I64, slow: Bool) -> float | None:
    """Mean of `late` over the calls that were due while the server had one of the `slow` ops in hand; None: too few."""
    ops, rows = c.server.ops, c.matched.server
    order = np.argsort(ops.t1[rows[slow]], kind="stable")
    begin, end = ops.t1[rows[slow]][order], np.maximum.accumulate(ops.t2[rows[slow]][order])
    due = ops.t1[rows] - late
    last = np.searchsorted(begin, due) - 1
    beside = (last >= 0) & (end[last] > due)
    return float(to_ms(late[beside].mean())) if np.count_nonzero(beside) >= _FEWEST else None


def _silent_ns(seen_ns: I64, begin_ns: I64, end_ns: I64) -> I64:
    """How much of each time from `begin_ns` to `end_ns` lies between two of `seen_ns` (ascending) far apart."""
    at = np.flatnonzero(np.diff(seen_ns) >= _SILENT_NS)
    begins, ends = seen_ns[at], seen_ns[at + 1]
    before = np.append(0, np.cumsum(ends - begins))
    begins = np.append(begins, np.iinfo(np.int64).max)

    def until(t_ns: I64) -> I64:
        which = np.searchsorted(ends, t_ns)
        return np.asarray(before[which] + np.maximum(t_ns - begins[which], 0))

    return until(end_ns) - until(begin_ns)
