"""``READ.p99>20ms for 30s`` -> a condition that stretches of time meet or not.

condition  = clause {"and" clause} ["for" duration]
clause     = "fault" ["=" cause] | "undecided" | threshold
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from nfslat.answer.model import MatchedRow, Report
from nfslat.findings.catalogue import CODES
from nfslat.live.rows import Row
from nfslat.model.thresholds import ALL, Threshold, Words

_EXAMPLES = "READ.p99>20ms for 30s, fault"
# Figures of the stretch, plain numbers.
_PLAIN: dict[str, Callable[[Row], float | None]] = {
    "ops/s": lambda row: row.ops_per_s,
    "MB/s": lambda row: row.mb_per_s,
    "lost": lambda row: row.lost_segments,
    "retransmitted": lambda row: row.retransmitted,
    "in-flight": lambda row: row.in_flight,
}


@dataclass(frozen=True)
class Verdict:
    """What a stretch was judged to be."""

    outcome: str
    cause: str | None = None

    def holds(self, row: Row, _: Report | None) -> bool:
        """Is it so in this stretch?"""
        if self.outcome == "undecided":
            return row.outcome == "undecided" and row.ops > 0
        return row.outcome == "fault" and row.confidence != "low" and self.cause in (None, row.cause)


@dataclass(frozen=True)
class Figure:
    """A figure of the stretch, and its limit."""

    threshold: Threshold

    def holds(self, row: Row, report: Report | None) -> bool:
        """Is it so in this stretch? What is not known is not."""
        value, limit = self._value(row, report), self.threshold.limit
        return value is not None and (value > limit if self.threshold.is_above else value < limit)

    def _value(self, row: Row, report: Report | None) -> float | None:
        op, figure = self.threshold.op, self.threshold.figure
        if figure in _PLAIN:
            return _PLAIN[figure](row)
        if report is None or report.matched is None or report.matched.total is None:
            return None
        if op == ALL:
            return row.queue_ms if figure == "wait" else self._of_ops(report.matched.total)
        values = [self._of_ops(of_op) for of_op in report.matched.by_op if of_op.op == op]
        return max((value for value in values if value is not None), default=None)

    def _of_ops(self, row: MatchedRow) -> float | None:
        if self.threshold.figure == "wait":
            return row.queue_ms
        value: float | None = getattr(getattr(row, f"{self.threshold.side}_ms"), self.threshold.figure)
        return value


Clause = Verdict | Figure


@dataclass(frozen=True)
class Condition:
    """Clauses that are met together, for so long without a break."""

    text: str
    clauses: tuple[Clause, ...]
    for_s: float = 0.0

    def holds(self, row: Row, report: Report | None) -> bool:
        """Is it so in this stretch?"""
        return all(clause.holds(row, report) for clause in self.clauses)


def parse_condition(text: str) -> Condition:
    """Raises ``UsageError`` that says what was expected, and where."""
    words = Words(text, "--when", _EXAMPLES)
    clauses = [_clause(words)]
    while words.is_next("and"):
        clauses.append(_clause(words))
    for_s = words.duration_s() if words.is_next("for") else 0.0
    words.end('"and", "for" or the end')
    return Condition(words.text, tuple(clauses), for_s)


def _clause(words: Words) -> Clause:
    if words.is_next("fault"):
        cause = words.known(words.name("a cause"), CODES, "cause") if words.is_next("=") else None
        return Verdict("fault", cause)
    return Verdict("undecided") if words.is_next("undecided") else Figure(words.threshold())
