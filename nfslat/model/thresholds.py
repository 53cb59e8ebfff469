"""``READ.p99>20ms`` -> which figure of which operations, and the limit that it is held against.

threshold  = path (">" | "<" | "=") number [unit | "%"]
path       = [operation "."] [("client" | "server" | "network") "."] figure | operation

A bare number is in ms where the figure is a duration; "=" is read as ">".
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator
from typing import NamedTuple

from nfslat.errors import UsageError, nearest
from nfslat.model.protocol import op_names
from nfslat.model.units import DURATIONS, parse_duration

ALL = "all"  # operations
SIDES = ("client", "server", "network")
DISTRIBUTION = ("mean", "p50", "p95", "p99", "max")  # figures of each side's response times
_WAIT = "wait"  # for a thread, mean
# Figures of a stretch of time, plain numbers.
PLAIN = ("ops/s", "MB/s", "lost", "retransmitted", "in-flight")
_PATH = (*DISTRIBUTION, *SIDES, _WAIT, *PLAIN)
_TOKEN = re.compile(
    rf"\s*(?:(?P<number>\d+(?:\.\d+)?(?:\s*(?:(?:{'|'.join(DURATIONS)})\b|%))?)|(?P<name>[A-Za-z][\w/-]*)"
    r"|(?P<sign>[<>=.]))"
)
_MOST_LISTED = 20  # names
_EXAMPLES = "READ.p99>20ms"


class Threshold(NamedTuple):
    """A figure of operations, and its limit."""

    text: str
    op: str = ALL
    side: str = "client"
    figure: str = "mean"
    is_above: bool = True  # crossed above the limit; else below it
    limit: float = 0.0  # ms; of `PLAIN` a number
    share: float | None = None  # of another figure, instead of the limit: "10%" is 0.1


def parse_ops(names: Iterable[str], option: str) -> frozenset[str]:
    """Names of operations, upper case. Raises ``UsageError`` for a name that no operation has."""
    out = frozenset(name.strip().upper() for name in names if name.strip())
    for name in sorted(out - op_names()):
        near = nearest(name, op_names())
        hint = f"did you mean {near}?" if near else "operations are named as nfsstat does, READ for example"
        raise UsageError(f"{option} {name}: no such operation; {hint}")
    return out


def parse_threshold(text: str, option: str, *, sides: Collection[str] = SIDES, shares: bool = False) -> Threshold:
    """A figure of `sides` that may not exceed a limit; with `shares` it may be a share of another one.

    Raises ``UsageError`` for anything else.
    """
    words = Words(text, option, _EXAMPLES)
    threshold = words.threshold(shares=shares)
    words.end("the end")
    if threshold.side not in sides or threshold.figure not in DISTRIBUTION or not threshold.is_above:
        raise words.refusal(f"give a figure and its limit, as {_EXAMPLES}: one of {', '.join(DISTRIBUTION)}")
    return threshold


class Words:
    """The words of a threshold, one after the other; complaints are ``UsageError`` and say what was expected, where."""

    def __init__(self, text: str, option: str, examples: str) -> None:
        self.text = " ".join(text.split())
        self._option, self._examples = f"{option} {text}", examples
        self._tokens = list(self._split(text.rstrip()))
        self._at = 0

    def threshold(self, *, shares: bool = False) -> Threshold:
        """The next threshold."""
        begin = self._at
        name = self.name("a figure or an operation")
        op, side, figure = ALL, "client", ""
        if name.lower() == ALL or (name not in _PATH and (name.upper() in op_names() or self._next_is("=."))):
            op = ALL if name.lower() == ALL else self.known(name.upper(), op_names(), "operation")
            figure = "" if self.is_next(".") else "mean"
            name = name if figure else self.name(f"a figure of {op}")
        if not figure:
            figure = self.known(name, _PATH, "figure")
        if figure in SIDES:
            side, figure = figure, "mean"
            if self.is_next("."):
                figure = self.known(self.name(f"a figure of the {side}"), DISTRIBUTION, "figure")
        if op != ALL and figure in PLAIN:
            raise self.refusal(f"{figure} is of all operations: write {figure}")
        is_above = self.is_next(">") or self.is_next("=")
        if not is_above and not self.is_next("<"):
            raise self._expected("> or <")
        number = self._next("number", "a number")
        text = "".join(token for _, token in self._tokens[begin : self._at])
        text = self.text if begin == 0 and self._at == len(self._tokens) else text
        if number.endswith("%"):
            if not shares:
                raise self.refusal("a share of what? write a limit, 20ms for example")
            return Threshold(text, op, side, figure, is_above, share=float(number[:-1]) / 100)
        if figure in PLAIN:
            if not number[-1].isdecimal():
                raise self.refusal(f"{figure} has no unit")
            return Threshold(text, op, side, figure, is_above, float(number))
        seconds = parse_duration(number, "ms")
        assert seconds is not None  # noqa: S101 - as tokens are split
        return Threshold(text, op, side, figure, is_above, float(seconds * 1000))

    def duration_s(self) -> float:
        """The next word as a duration with its unit."""
        number = self._next("number", "a number")
        seconds = parse_duration(number, "")
        if seconds is None:
            number = number.rstrip("%")
            raise self.refusal(f"for how long? write {number}s, {number}m or {number}h")
        return float(seconds)

    def name(self, what: str) -> str:
        """The next word, which is a name."""
        return self._next("name", what)

    def is_next(self, text: str) -> bool:
        """Whether that is the next word, which then is read."""
        is_next = self._at < len(self._tokens) and self._tokens[self._at][1] == text
        self._at += is_next
        return is_next

    def end(self, what: str) -> None:
        """Nothing may follow."""
        if self._at < len(self._tokens):
            raise self._expected(what)

    def known(self, name: str, names: Collection[str], what: str) -> str:
        """The name, where it is among `names`."""
        if name in names:
            return name
        meant = nearest(name, names)
        hint = f"; {meant}?" if meant else f"; there are {', '.join(names)}" if len(names) < _MOST_LISTED else ""
        raise self.refusal(f"no {what} {name}{hint}")

    def refusal(self, problem: str) -> UsageError:
        """What is wrong with them."""
        return UsageError(f"{self._option}: {problem}")

    def _next_is(self, signs: str) -> bool:
        return self._at < len(self._tokens) and self._tokens[self._at][1] in signs

    def _next(self, kind: str, what: str) -> str:
        if self._at == len(self._tokens) or self._tokens[self._at][0] != kind:
            raise self._expected(what)
        self._at += 1
        return self._tokens[self._at - 1][1]

    def _expected(self, what: str) -> UsageError:
        before = "".join(text for _, text in self._tokens[: self._at])
        where = f" after {before}" if before else ""
        return self.refusal(f"{what} is expected{where} ({self._examples})")

    def _split(self, text: str) -> Iterator[tuple[str, str]]:
        at = 0
        while at < len(text):
            token = _TOKEN.match(text, at)
            if token is None:
                raise self.refusal(f"what is {text[at:].split(maxsplit=1)[0]}?")
            at = token.end()
            kind = str(token.lastgroup)
            yield kind, "".join(token[kind].split())
