"""What the user calls slow (``READ.p99=20ms``), and an `Analysis` -> whether it is."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from nfslat.answer.model import Objective, Unanswered
from nfslat.clock.tick import FINE, mean_error_ns
from nfslat.errors import UsageError
from nfslat.evidence.known import Known
from nfslat.model.tables import I64
from nfslat.model.units import NS_PER_MS, to_ms
from nfslat.results import Analysis
from nfslat.select import parse_ops
from nfslat.tally.stats import summary_of

_FORM = r"(?:(?P<op>[A-Za-z0-9_-]+?)(?:\.(?P<figure>mean|p50|p95|p99|max))?)=(?P<value>\d+(?:\.\d+)?)(?P<unit>us|ms|s)?"
_MS = {None: 1.0, "us": 1e-3, "ms": 1.0, "s": 1e3}
_ALL = "all"


class Slo(NamedTuple):
    """One --slo."""

    text: str
    op: str  # "all", or an operation
    figure: str
    limit_ms: float


def parse_slo(text: str) -> Slo:
    """Raises ``UsageError`` for anything but ``OP=LIMIT`` and ``OP.FIGURE=LIMIT``."""
    found = re.fullmatch(_FORM, text.strip())
    if found is None or float(found["value"]) <= 0:
        raise UsageError(f"--slo {text}: give an operation and what is too slow: READ=5ms, READ.p99=20ms, all=10ms")
    op = found["op"]
    name = _ALL if op.lower() == _ALL else next(iter(parse_ops([op], "--slo")))
    return Slo(text.strip(), name, found["figure"] or "mean", float(found["value"]) * _MS[found["unit"]])


def objectives_of(
    c: Analysis, known: Known, asked: Sequence[Slo], unanswered: Sequence[Unanswered] = ()
) -> list[Objective]:
    """In the order given. The application's mean counts where it is known, else the response time at the client; a call
    without a reply takes as long as it waited at the least.
    """
    hidden = any(one is not None and one.share > _SOME_HIDDEN for one in c.unseen.values())
    return [_measured(c, known, one, unanswered, hidden=hidden) for one in asked]


_SOME_HIDDEN = 0.05  # of the ops: what those took may be what was asked for


def _measured(c: Analysis, known: Known, asked: Slo, unanswered: Sequence[Unanswered], *, hidden: bool) -> Objective:
    rows = np.arange(len(c.matched)) if asked.op == _ALL else c.rows_of({asked.op})
    application = known.app_ms.get(asked.op if asked.op != _ALL else "") if asked.figure == "mean" else None
    measured = application
    waits = [row for row in unanswered if asked.op in (_ALL, row.op)]
    if application is None and (len(rows) or waits):
        waited_ns = [round(row.total_ms / row.calls * NS_PER_MS) for row in waits for _ in range(row.calls)]
        every_ns = np.concatenate([c.client_srt_ns[rows], np.array(waited_ns, dtype=np.int64)])
        measured = float(getattr(summary_of(every_ns), asked.figure))
        measured = max([measured, *(row.longest_ms for row in waits)]) if asked.figure == "max" else measured
    met = None if measured is None else measured <= asked.limit_ms
    if measured is not None and application is None and abs(measured - asked.limit_ms) <= _off_ms(c, asked, rows):
        met = None
    if met and hidden and application is None:
        met = None
    of = "client" if application is None else "application"
    return Objective(asked.text, asked.op, asked.figure, of, asked.limit_ms, measured, met)


def _off_ms(c: Analysis, asked: Slo, rows: I64) -> float:
    """By so much a figure may be off where the client's stamps tick slowly: any duration by a tick."""
    tick = c.ticks.get("client" if c.inferred is None else c.inferred.near, FINE)
    if not tick.ns:
        return -1.0
    begins_ns = c.client.ops.t0[c.matched.client[rows]]
    return float(to_ms(mean_error_ns(tick, c.client_srt_ns[rows], begins_ns) if asked.figure == "mean" else tick.ns))
