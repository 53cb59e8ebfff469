"""``READ.p99>20ms for 30s`` -> a condition that stretches of time meet or not.

condition  = clause {"and" clause} ["for" duration]
clause     = "fault" ["=" cause] | "undecided" | [operation "."] figure (">" | "<") number [unit]
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass

from nfslat.answer.model import MatchedRow, Report
from nfslat.errors import UsageError, nearest
from nfslat.findings.catalogue import CODES
from nfslat.live.rows import Row
from nfslat.model.protocol import op_names

_TOKEN = re.compile(
    r"\s*(?:(?P<number>\d+(?:\.\d+)?)(?:\s*(?P<unit>us|ms|s|m|h)\b)?|(?P<name>[A-Za-z][\w/-]*)|(?P<sign>[<>=.]))"
)
_MS = {"us": 1e-3, "ms": 1.0, "s": 1e3}
_SECONDS = {"s": 1, "m": 60, "h": 3600}
_ALL = "all"
_MOST_LISTED = 20  # names
# Figures of one operation, or of all of them.
_OF_OPS: dict[str, Callable[[MatchedRow], float | None]] = {
    "mean": lambda row: row.client_ms.mean,
    "p50": lambda row: row.client_ms.p50,
    "p95": lambda row: row.client_ms.p95,
    "p99": lambda row: row.client_ms.p99,
    "max": lambda row: row.client_ms.max,
    "network": lambda row: row.network_ms.mean,
    "server": lambda row: row.server_ms.mean,
    "wait": lambda row: row.queue_ms,
}
# Figures of the stretch, plain numbers.
_PLAIN: dict[str, Callable[[Row], float | None]] = {
    "ops/s": lambda row: row.ops_per_s,
    "MB/s": lambda row: row.mb_per_s,
    "lost": lambda row: row.lost_segments,
    "retransmitted": lambda row: row.retransmitted,
    "in-flight": lambda row: row.in_flight,
}
_FIGURES = (*_OF_OPS, *_PLAIN)


@dataclass(frozen=True)
class Clause:
    """One thing that is looked at."""

    figure: str  # "fault", "undecided" or one of the figures
    op: str = _ALL
    is_above: bool = True
    limit: float = 0.0
    cause: str | None = None

    def holds(self, row: Row, report: Report | None) -> bool:
        """Is it so in this stretch? What is not known is not."""
        if self.figure == "fault":
            return row.outcome == "fault" and row.confidence != "low" and self.cause in (None, row.cause)
        if self.figure == "undecided":
            return row.outcome == "undecided" and row.ops > 0
        value = self._value(row, report)
        return value is not None and (value > self.limit if self.is_above else value < self.limit)

    def _value(self, row: Row, report: Report | None) -> float | None:
        if self.figure in _PLAIN:
            return _PLAIN[self.figure](row)
        if report is None or report.matched is None or report.matched.total is None:
            return None
        if self.op == _ALL:
            return row.queue_ms if self.figure == "wait" else _OF_OPS[self.figure](report.matched.total)
        values = [_OF_OPS[self.figure](of_op) for of_op in report.matched.by_op if of_op.op == self.op]
        return max((value for value in values if value is not None), default=None)


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
    return _Parser(text).condition()


class _Parser:
    def __init__(self, text: str) -> None:
        self._text = text
        self._tokens = list(_tokens(text))
        self._at = 0

    def condition(self) -> Condition:
        clauses = [self._clause()]
        while self._is_next("and"):
            clauses.append(self._clause())
        for_s = 0.0
        if self._is_next("for"):
            number, unit = self._number()
            if unit not in _SECONDS:
                raise self._refusal(f"for how long? write {number:g}s, {number:g}m or {number:g}h")
            for_s = number * _SECONDS[unit]
        if self._at < len(self._tokens):
            raise self._expected('"and", "for" or the end')
        return Condition(" ".join(self._text.split()), tuple(clauses), for_s)

    def _clause(self) -> Clause:
        name = self._name("a figure, an operation or fault")
        if name == "fault":
            cause = self._known(self._name("a cause"), CODES, "cause") if self._is_next("=") else None
            return Clause("fault", cause=cause)
        if name == "undecided":
            return Clause("undecided")
        op = _ALL
        if self._is_next("."):
            op = _ALL if name.lower() == _ALL else self._known(name.upper(), op_names(), "operation")
            name = self._name(f"a figure of {op}")
        figure = self._known(name, _FIGURES, "figure")
        if op != _ALL and figure in _PLAIN:
            raise self._refusal(f"{figure} is of all operations: write {figure}")
        if not (is_above := self._is_next(">")) and not self._is_next("<"):
            raise self._expected("> or <")
        number, unit = self._number()
        if figure in _PLAIN and unit:
            raise self._refusal(f"{figure} has no unit")
        if figure not in _PLAIN and unit not in _MS:
            raise self._refusal(f"{figure} is a duration: write {number:g}ms, {number:g}us or ...s")
        return Clause(figure, op, is_above, number * _MS.get(unit, 1.0))

    def _number(self) -> tuple[float, str]:
        _, number, unit = self._next("number", "a number")
        return float(number), unit

    def _name(self, what: str) -> str:
        return self._next("name", what)[1]

    def _next(self, kind: str, what: str) -> tuple[str, str, str]:
        if self._at == len(self._tokens) or self._tokens[self._at][0] != kind:
            raise self._expected(what)
        self._at += 1
        return self._tokens[self._at - 1]

    def _is_next(self, text: str) -> bool:
        is_next = self._at < len(self._tokens) and self._tokens[self._at][1] == text
        self._at += is_next
        return is_next

    def _known(self, name: str, names: Collection[str], what: str) -> str:
        if name in names:
            return name
        meant = nearest(name, names)
        hint = f"; {meant}?" if meant else f"; there are {', '.join(names)}" if len(names) < _MOST_LISTED else ""
        raise self._refusal(f"no {what} {name}{hint}")

    def _expected(self, what: str) -> UsageError:
        before = "".join(text + unit for _, text, unit in self._tokens[: self._at])
        where = f" after {before}" if before else ""
        return self._refusal(f"{what} is expected{where} (READ.p99>20ms for 30s, fault)")

    def _refusal(self, problem: str) -> UsageError:
        return UsageError(f"--when {self._text}: {problem}")


def _tokens(text: str) -> Iterator[tuple[str, str, str]]:
    at, text = 0, text.rstrip()
    while at < len(text):
        token = _TOKEN.match(text, at)
        if token is None:
            raise UsageError(f"--when {text}: what is {text[at:].split()[0]}?")
        at = token.end()
        kind = str(token.lastgroup if token.lastgroup != "unit" else "number")
        yield kind, token[kind], token["unit"] or ""
