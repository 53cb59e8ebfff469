"""What the user calls slow (``READ.p99=20ms``), and response times -> whether it is."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import NamedTuple

from nfslat.answer.model import Objective
from nfslat.errors import UsageError
from nfslat.evidence.known import Known
from nfslat.select import parse_ops
from nfslat.tally.durations import CLIENT
from nfslat.tally.keys import ALL, names_of
from nfslat.tally.ops import OpFigures, OpSums

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


def objectives_of(sums: OpSums, known: Known, asked: Sequence[Slo], *, hidden_share: float) -> list[Objective]:
    """In the order given; `sums` are by operation. The application's mean counts where it is known, else the response
    time at the client. `hidden_share` of the ops are in a capture known of and not shown."""
    if not asked:
        return []
    figures = {row.label: row for some in (sums.by(lambda key: names_of(key)[1]), sums.total()) for row in some.rows()}
    return [_measured(figures.get(ALL if one.op == _ALL else one.op), known, one, hidden_share) for one in asked]


_SOME_HIDDEN = 0.05  # of the ops: what those took may be what was asked for


def _measured(figures: OpFigures | None, known: Known, asked: Slo, hidden_share: float) -> Objective:
    application = known.app_ms.get(asked.op if asked.op != _ALL else "") if asked.figure == "mean" else None
    measured = application
    if application is None and figures is not None:
        measured = float(getattr(figures.summary(CLIENT), asked.figure))
    met = None if measured is None else measured <= asked.limit_ms
    if met and hidden_share > _SOME_HIDDEN and application is None:
        met = None
    of = "client" if application is None else "application"
    return Objective(asked.text, asked.op, asked.figure, of, asked.limit_ms, measured, met)
