"""Rows -> lines for a terminal, in the manner of vmstat: headings again and again, and what began when it does."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import groupby

from nfslat.answer.words import ms
from nfslat.live.rows import Row
from nfslat.report.text_layout import count, count_of, wrap

_HEADINGS = (
    "           ops/s   MB/s client    p99   net-   wait     in",
    "time                    SRT ms     ms   work thread thread lost answer",
)
_EVERY = 20  # rows between headings
_NAMED = 4
_TENTHS = 1000  # MB/s: from there on they are none
_NO_FAULT = "no fault"


@dataclass
class Lines:
    """Prints rows as they come."""

    width: int
    _rows: list[Row] = field(default_factory=list)
    _said: str = ""

    def of(self, row: Row) -> Iterator[str]:
        """The lines of the next row."""
        if len(self._rows) % _EVERY == 0:
            yield from _HEADINGS
        self._rows.append(row)
        yield _line(row)
        answer = _answer(row)
        if row.outcome == "fault" and answer != self._said:
            text = row.text.split(". ")[0].rstrip(".") + f" (confidence {row.confidence})."
            yield from wrap(text, self.width, indent=4)
        self._said = answer

    def end(self) -> Iterator[str]:
        """What there was, in how many windows, and when."""
        if not self._rows:
            yield "no operation ended while nfslat looked"
            return
        ops = sum(row.ops for row in self._rows)
        yield ""
        span = f"{_clock(self._rows[0].begin)} to {_clock(self._rows[-1].end)} UTC"
        yield f"{_count(len(self._rows))}, {count_of(ops, 'operation')}, {span}"
        for answer, runs in _told(self._rows):
            spans = ", ".join(f"{_clock(run[0].begin)} to {_clock(run[-1].end)}" for run in runs[:_NAMED])
            more = f", and {count(len(runs) - _NAMED)} times more" if len(runs) > _NAMED else ""
            windows = _count(sum(map(len, runs)))
            yield from wrap(f"{answer}: {windows}, {spans}{more}", self.width, hanging=2)


def _count(stretches: int) -> str:
    return f"{count(stretches)} stretch{'' if stretches == 1 else 'es'}"


def _told(rows: Sequence[Row]) -> list[tuple[str, list[list[Row]]]]:
    """Answers, that of most windows first, and the runs of windows that have it."""
    runs = [(answer, list(run)) for answer, run in groupby(rows, _answer)]
    answers = {answer: [run for other, run in runs if other == answer] for answer, _ in runs}
    return sorted(answers.items(), key=lambda one: -sum(map(len, one[1])))


def _answer(row: Row) -> str:
    if row.outcome == "no-fault":
        return _NO_FAULT
    if not row.ops:
        return "idle"
    return (row.cause or "") if row.outcome == "fault" else "cannot tell"


def _line(row: Row) -> str:
    in_thread = None if row.server_ms is None or row.queue_ms is None else row.server_ms - row.queue_ms
    if row.server_ms is not None and row.queue_ms is None:
        in_thread = row.server_ms
    cells = [
        f"{_clock(row.begin):<8}",
        f"{row.ops_per_s:>7,.0f}",
        f"{row.mb_per_s:>6.{1 if row.mb_per_s < _TENTHS else 0}f}",
        *(f"{_ms(one):>6}" for one in (row.client_ms, row.client_p99_ms, row.network_ms, row.queue_ms, in_thread)),
        f"{'-' if row.lost_segments is None else row.lost_segments:>4}",
        _answer(row),
    ]
    return " ".join(cells).rstrip()


def _ms(value: float | None) -> str:
    return "-" if value is None else ms(value, 3)


def _clock(moment: str) -> str:
    """``14:03:20.5`` of an ISO 8601 moment: tenths where there are any."""
    text = moment[11:21]
    return text.removesuffix(".0")
