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
_FEW = 20  # names that are all listed
# Of one operation, or of all of them.
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
# Of the stretch: durations in ms, and plain numbers.
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
        """In this stretch. What is not known holds not."""
        if self.figure == "fault":
            return row.outcome == "fault" and row.confidence != "low" and self.cause in (None, row.cause)
        if self.figure == "undecided":
            return row.outcome == "undecided" and row.ops > 0
        value = self._value(row, report)
        return value is not None and (value > self.limit if self.is_above else value < self.limit)

    def _value(self, row: Row, report: Report | None) -> float | None:
        if self.figure in _PLAIN:
            return _PLAIN[self.figure](row)
        matched = None if report is None else report.matched
        if matched is None or matched.total is None:
            return None
        if self.op == _ALL:
            return row.queue_ms if self.figure == "wait" else _OF_OPS[self.figure](matched.total)
        rows = [one for one in matched.by_op if one.op == self.op]
        return max((value for one in rows if (value := _OF_OPS[self.figure](one)) is not None), default=None)


@dataclass(frozen=True)
class Condition:
    """All clauses, for so long without a break."""

    text: str
    clauses: tuple[Clause, ...]
    for_s: float = 0.0

    def holds(self, row: Row, report: Report | None) -> bool:
        """In this stretch."""
        return all(one.holds(row, report) for one in self.clauses)


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
        for_s = self._duration() if self._is_next("for") else 0.0
        if self._at < len(self._tokens):
            raise self._wrong('"and", "for" or the end')
        return Condition(" ".join(self._text.split()), tuple(clauses), for_s)

    def _clause(self) -> Clause:
        first = self._name("a figure, an operation or fault")
        if first == "fault":
            return Clause("fault", cause=self._cause() if self._is_next("=") else None)
        if first == "undecided":
            return Clause("undecided")
        op = _ALL
        if self._is_next("."):
            op = _ALL if first.lower() == _ALL else self._known(first.upper(), op_names(), "operation")
            first = self._name(f"a figure of {op}")
        figure = self._known(first, _FIGURES, "figure")
        if op != _ALL and figure in _PLAIN:
            raise UsageError(f"--when {self._text}: {figure} is of all operations: write {figure}")
        if not (is_above := self._is_next(">")) and not self._is_next("<"):
            raise self._wrong("> or <")
        number, unit = self._number()
        if figure in _PLAIN:
            if unit:
                raise UsageError(f"--when {self._text}: {figure} has no unit")
            return Clause(figure, is_above=is_above, limit=number)
        if unit not in _MS:
            raise UsageError(f"--when {self._text}: {figure} is a duration: write {number:g}ms, {number:g}us or ...s")
        return Clause(figure, op, is_above, number * _MS[unit])

    def _cause(self) -> str:
        return self._known(self._name("a cause"), CODES, "cause")

    def _duration(self) -> float:
        number, unit = self._number()
        if unit not in _SECONDS:
            raise UsageError(f"--when {self._text}: for how long? write {number:g}s, {number:g}m or {number:g}h")
        return number * _SECONDS[unit]

    def _number(self) -> tuple[float, str]:
        if self._at == len(self._tokens) or self._tokens[self._at][0] != "number":
            raise self._wrong("a number")
        _, text, unit = self._tokens[self._at]
        self._at += 1
        return float(text), unit

    def _name(self, what: str) -> str:
        if self._at == len(self._tokens) or self._tokens[self._at][0] != "name":
            raise self._wrong(what)
        self._at += 1
        return self._tokens[self._at - 1][1]

    def _is_next(self, text: str) -> bool:
        found = self._at < len(self._tokens) and self._tokens[self._at][1] == text
        self._at += found
        return found

    def _known(self, name: str, names: Collection[str], what: str) -> str:
        if name in names:
            return name
        meant = nearest(name, names)
        hint = f"; {meant}?" if meant else f"; there are {', '.join(names)}" if len(names) < _FEW else ""
        raise UsageError(f"--when {self._text}: no {what} {name}{hint}")

    def _wrong(self, expected: str) -> UsageError:
        before = "".join(text + unit for _, text, unit in self._tokens[: self._at])
        where = f" after {before}" if before else ""
        return UsageError(f"--when {self._text}: {expected} is expected{where} (READ.p99>20ms for 30s, fault)")


def _tokens(text: str) -> Iterator[tuple[str, str, str]]:
    at, text = 0, text.rstrip()
    while at < len(text):
        found = _TOKEN.match(text, at)
        if found is None:
            raise UsageError(f"--when {text}: what is {text[at:].split()[0]}?")
        at = found.end()
        kind = str(found.lastgroup if found.lastgroup != "unit" else "number")
        yield kind, found[kind], found["unit"] or ""
