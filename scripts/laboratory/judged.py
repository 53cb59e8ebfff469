"""What was judged: answers, figures, and the counts of both, which sum."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from laboratory.measured import OFF, OK, UNKNOWN, Number

RIGHT, WRONG, NOT_JUDGED = "right", "wrong", "not judged"


@dataclass(frozen=True)
class Answer:
    """What nfslat says, knowing what `known` names, and whether that is right."""

    known: str
    state: str
    outcome: str | None = None  # fault, no-fault, undecided
    layer: str | None = None  # of a fault whose it is, else the layer that adds most
    cause: str | None = None
    also: list[str] = field(default_factory=list)  # what else the headline names
    decides: list[str] = field(default_factory=list)  # causes that the next measurement proves or refutes
    headline: str = ""
    lines: int = 0  # of the default report
    share: float | None = None
    confidence: str | None = None
    threads: int | None = None
    threads_of_phases: list[int] = field(default_factory=list)
    slots: int | None = None
    queue_ms: float | None = None  # mean wait for a thread
    findings: list[tuple[str, float | None, str]] = field(default_factory=list)  # code, share, confidence; ranked
    why: list[str] = field(default_factory=list)  # not right: "expected ..., got ..."


@dataclass(frozen=True)
class Judged:
    """One pair, judged."""

    name: str
    injected: str
    truth: str  # what application, kernel and disk say
    answers: list[Answer]
    numbers: list[Number]

    @property
    def state(self) -> str:
        """Wrong where any answer is, right where one is right."""
        states = [one.state for one in self.answers]
        return WRONG if WRONG in states else RIGHT if RIGHT in states else NOT_JUDGED

    @property
    def off(self) -> list[Number]:
        """Figures that are not what was measured."""
        return [one for one in self.numbers if one.state == OFF]


@dataclass(frozen=True)
class Account:
    """How many of what; each group sums to its total."""

    answers: dict[str, int]
    not_judged: dict[str, int]  # why; they sum to answers["not judged"]
    numbers: dict[str, int]
    scenarios: dict[str, int]

    @property
    def status(self) -> int:
        """What the process returns."""
        return 1 if self.answers[WRONG] or self.numbers[OFF] else 0


def account(judged: Sequence[Judged]) -> Account:
    """Counts that sum: of answers, of figures, of pairs."""
    answers = [answer for one in judged for answer in one.answers]
    states = Counter(answer.state for answer in answers)
    figures = Counter(number.state for one in judged for number in one.numbers)
    pairs = Counter(one.state for one in judged)
    return Account(
        {state: states[state] for state in (RIGHT, WRONG, NOT_JUDGED)},
        dict(sorted(Counter("; ".join(answer.why) for answer in answers if answer.state == NOT_JUDGED).items())),
        {state: figures[state] for state in (OK, OFF, UNKNOWN)},
        {state: pairs[state] for state in (RIGHT, WRONG, NOT_JUDGED)},
    )


def as_json(judged: Sequence[Judged]) -> dict[str, Any]:
    """All of it; ``nfslat.judged/1``."""

    def of(one: Judged) -> dict[str, Any]:
        figures = [{**asdict(number), "state": number.state} for number in one.numbers]
        return {**asdict(one), "numbers": figures, "state": one.state}

    return {"schema": "nfslat.judged/1", "account": asdict(account(judged)), "scenarios": [of(one) for one in judged]}
