"""Rows -> lines for a terminal, in the manner of vmstat: headings again and again, and what began when it does."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from nfslat.answer.words import ms
from nfslat.live.rows import Row
from nfslat.report.text_layout import count, count_of, wrap

HEADINGS = (
    "           ops/s   MB/s client    p99   net-   wait     in",
    "time                    SRT ms     ms   work thread thread lost answer",
)
_EVERY = 20  # rows between headings
_NAMED = 4
_TENTHS = 1000  # MB/s: from there on they are none
_NO_FAULT, _GAP = "no fault", "no packets"


@dataclass
class Run:
    """Stretches in a row with one answer."""

    answer: str
    begin: str
    end: str
    stretches: int = 1

    @property
    def span(self) -> str:
        """From when to when."""
        return f"{clock(self.begin)} to {clock(self.end)}"


@dataclass
class Lines:
    """Prints rows as they come, and keeps of them what the end says."""

    width: int
    _runs: list[Run] = field(default_factory=list)
    _ops: int = 0

    def of(self, row: Row) -> Iterator[str]:
        """The lines of the next row."""
        if self._stretches % _EVERY == 0:
            yield from HEADINGS
        answer = answer_of(row)
        begins = not self._runs or self._runs[-1].answer != answer
        if begins:
            self._runs.append(Run(answer, row.begin, row.end))
        else:
            self._runs[-1].end = row.end
            self._runs[-1].stretches += 1
        self._ops += row.ops
        yield " ".join(cells_of(row)).rstrip()
        if row.dropped:
            yield f"    {count_of(row.dropped, 'packet')} dropped by the kernel of a host that captures"
        if row.gap is not None and begins:
            yield from wrap(row.text, self.width, indent=4)
        if row.outcome == "fault" and begins:
            text = row.text.split(". ")[0].rstrip(".") + f" (confidence {row.confidence})."
            yield from wrap(text, self.width, indent=4)

    def end(self) -> Iterator[str]:
        """What there was, in how many windows, and when."""
        if not self._runs:
            yield "no operation ended while nfslat looked"
            return
        yield ""
        whole = Run("", self._runs[0].begin, self._runs[-1].end)
        yield f"{_count(self._stretches)}, {count_of(self._ops, 'operation')}, {whole.span} UTC"
        for answer, runs in _told(self._runs):
            spans = ", ".join(run.span for run in runs[:_NAMED])
            more = f", and {count(len(runs) - _NAMED)} times more" if len(runs) > _NAMED else ""
            yield from wrap(f"{answer}: {_count(_sum(runs))}, {spans}{more}", self.width, hanging=2)

    @property
    def _stretches(self) -> int:
        return _sum(self._runs)


def _sum(runs: Sequence[Run]) -> int:
    return sum(run.stretches for run in runs)


def _count(stretches: int) -> str:
    return f"{count(stretches)} stretch{'' if stretches == 1 else 'es'}"


def _told(runs: Sequence[Run]) -> list[tuple[str, list[Run]]]:
    """Answers, that of most stretches first, and the runs that have it."""
    answers: dict[str, list[Run]] = {}
    for run in runs:
        answers.setdefault(run.answer, []).append(run)
    return sorted(answers.items(), key=lambda one: -_sum(one[1]))


def answer_of(row: Row) -> str:
    """In a word or two."""
    if row.gap is not None:
        return _GAP
    if row.outcome == "no-fault":
        return _NO_FAULT
    if not row.ops:
        return "idle"
    return (row.cause or "") if row.outcome == "fault" else "cannot tell"


def cells_of(row: Row) -> list[str]:
    """What stands below the headings."""
    in_thread = None if row.server_ms is None else row.server_ms - (row.queue_ms or 0.0)
    return [
        f"{clock(row.begin):<8}",
        f"{row.ops_per_s:>7,.0f}",
        f"{row.mb_per_s:>6.{1 if row.mb_per_s < _TENTHS else 0}f}",
        *(f"{_ms(one):>6}" for one in (row.client_ms, row.client_p99_ms, row.network_ms, row.queue_ms, in_thread)),
        f"{'-' if row.lost_segments is None else row.lost_segments:>4}",
        answer_of(row),
    ]


def _ms(value: float | None) -> str:
    return "-" if value is None else ms(value, 3)


def clock(moment: str) -> str:
    """``14:03:20.5`` of an ISO 8601 moment: tenths where there are any."""
    text = moment[11:21]
    return text.removesuffix(".0")
