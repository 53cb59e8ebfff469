"""Rows -> lines for a terminal, in the manner of vmstat: headings again and again, and what began when it does."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from nfslat.answer.figures import GROUP_FIGURES, figures_of
from nfslat.answer.words import ms
from nfslat.live.held import held_from
from nfslat.live.rows import Row
from nfslat.live.together import Whole
from nfslat.live.watch import Stretch
from nfslat.model.units import iso
from nfslat.report.text_layout import count, count_of, wrap

# Columns of their own have the wait for a thread and the rest; others of a group follow.
_OTHER_FIGURES = tuple(figure for figure in GROUP_FIGURES if not figure.stands_apart)
HEADINGS = (
    "           ops/s   MB/s client    p99   net-   wait     in"
    + "".join(f" {figure.head[:6]:>6}" for figure in _OTHER_FIGURES),
    "time                    SRT ms     ms   work thread thread"
    + "".join(f" {figure.unit:>6}" for figure in _OTHER_FIGURES)
    + " lost answer",
)
_ROWS_A_HEADING = 20
_RUNS_LISTED = 4
_PROMPT_S = 5.0  # a host without traffic is waited for
_TENTHS_BELOW_MB = 1000  # a second
_NO_FAULT, _GAP = "no fault", "no packets"


@dataclass
class Run:
    """Stretches in a row with one answer."""

    answer: str
    begin: str
    end: str

    @property
    def span(self) -> str:
        """It in words, from when to when."""
        return f"{clock(self.begin)} to {clock(self.end)}"


@dataclass
class _Answer:
    """What had one answer: stretches, and runs of them, of which the first ones are listed."""

    stretches: int = 0
    runs: int = 0
    listed: list[Run] = field(default_factory=list)


class _Summary:
    """What the end says of a client."""

    inferred: str | None = None  # side of which that was said

    def __init__(self) -> None:
        self._run = Run("", "", "")
        self._begin = ""
        self._answers: defaultdict[str, _Answer] = defaultdict(_Answer)
        self._stretches = self._ops = 0

    def add(self, row: Row) -> bool:
        """One more; is its answer another than that of the last one?"""
        of, begins = self._answers[answer_of(row)], answer_of(row) != self._run.answer
        if begins:
            self._begin = self._begin or row.begin
            self._run = Run(answer_of(row), row.begin, row.end)
            of.runs += 1
            of.listed += [self._run] if of.runs <= _RUNS_LISTED else []
        self._run.end = row.end
        of.stretches += 1
        self._stretches += 1
        self._ops += row.ops
        return begins

    def lines(self, width: int) -> Iterator[str]:
        if not self._stretches:
            yield "no operation ended while nfslat looked"
            return
        span = Run("", self._begin, self._run.end).span
        yield f"{_count(self._stretches)}, {count_of(self._ops, 'operation')}, {span} UTC"
        for answer, of in sorted(self._answers.items(), key=lambda item: -item[1].stretches):
            spans = ", ".join(run.span for run in of.listed)
            more = f", and {count_of(of.runs - _RUNS_LISTED, 'time')} more" if of.runs > _RUNS_LISTED else ""
            yield from wrap(f"{answer}: {_count(of.stretches)}, {spans}{more}", width, hanging=2)


class Lines:
    """Prints stretches as they come, and keeps of them what the end says."""

    def __init__(self, width: int, clients: Sequence[str] = ()) -> None:
        """Where there are several clients, they are named behind their rows."""
        self._width, self._rows = width, 0
        self._summaries = {client: _Summary() for client in clients or ("",)}
        several = len(self._summaries)
        self._rows_a_heading = max(_ROWS_A_HEADING // several, 1) * several

    def add(self, row: Row) -> bool:
        """Count one for the end; is its answer another than the last one's of its client?"""
        return self._summaries[row.client or ""].add(row)

    def of(self, stretch: Stretch) -> Iterator[str]:
        """The lines of the next one."""
        row = stretch.row
        if self._rows % self._rows_a_heading == 0:
            yield from HEADINGS
        self._rows += 1
        summary = self._summaries[row.client or ""]
        if row.inferred not in (None, summary.inferred):
            summary.inferred = row.inferred
            yield from wrap(
                f"One capture: times of the {row.inferred} and of the network (~) are inferred.", self._width
            )
        begins = self.add(row)
        client = "" if row.client is None else f"  {row.client}"
        yield " ".join(cells_of(row)).rstrip() + (" (new)" if stretch.is_new else "") + client
        if row.dropped:
            yield f"    {count_of(row.dropped, 'packet')} dropped by the kernel of a host that captures"
        if behind := behind_of(row):
            yield from self.note(f"{behind}: packets come late, or are more than nfslat can judge in time")
        if row.gap is not None and begins:
            yield from self.note(row.text)
        if stretch.began:
            answer = row.text.split(". ")[0].rstrip(".")
            yield from self.note(f"{answer} (confidence {row.confidence}).")
            if stretch.on_packets is not None and stretch.on_packets.from_ns is not None:
                yield from self.note(f"its packets are {held_from(stretch.on_packets.from_ns)}")
        for over in stretch.ended:
            span = Run("", iso(over.begin_ns), iso(over.end_ns)).span
            yield from self.note(f"{over.what} has ended: {span}, {over.seconds:,.0f} s")

    def note(self, text: str) -> Iterator[str]:
        """Something else, between two of them."""
        yield from wrap(text, self._width, indent=4)

    def end(self) -> Iterator[str]:
        """What there was, of each client, in how many stretches, and when."""
        for client, summary in self._summaries.items():
            lines = list(summary.lines(self._width))
            yield from [f"\n{client}:"] if client else [""] if len(lines) > 1 else []
            yield from lines


def words_of(whole: Whole) -> str:
    """What is said of all clients."""
    mean = "" if whole.client_ms is None else f", {ms(whole.client_ms, 3)} ms"
    answer = {"fault": whole.cause, "no-fault": _NO_FAULT}.get(whole.outcome, "cannot tell")
    share = "" if whole.time_share is None else f", {100 * whole.time_share:.1f} % of the time"
    of = f" of {', '.join(whole.of)}{share}" if whole.of else ""
    return f"all: {whole.ops_per_s:,.0f} ops/s{mean}: {answer}{of}"


def _count(stretches: int) -> str:
    return f"{count(stretches)} stretch{'' if stretches == 1 else 'es'}"


def behind_of(row: Row) -> str:
    """Where it comes so late that the next one is over already."""
    return "" if row.lag_s is None or row.lag_s <= max(row.seconds, _PROMPT_S) else f"{row.lag_s:,.0f} s behind"


def answer_of(row: Row) -> str:
    """Its answer in a word."""
    if row.gap is not None:
        return _GAP
    if row.outcome == "no-fault":
        return _NO_FAULT
    if not row.ops and row.named is None:
        return "idle"
    return (row.cause or "") if row.outcome == "fault" else "cannot tell"


def cells_of(row: Row) -> list[str]:
    """What stands below the headings."""
    in_thread = None if row.server_ms is None else row.server_ms - (row.queue_ms or 0.0)
    at_client = [_ms(value, inferred=row.inferred == "client") for value in (row.client_ms, row.client_p99_ms)]
    at_server = [_ms(value, inferred=row.inferred == "server") for value in (row.queue_ms, in_thread)]
    more = [_ms(figures_of(row)[figure.name], inferred=bool(row.inferred)) for figure in _OTHER_FIGURES]
    return [
        f"{clock(row.begin):<8}",
        f"{row.ops_per_s:>7,.0f}",
        f"{row.mb_per_s:>6.{1 if row.mb_per_s < _TENTHS_BELOW_MB else 0}f}",
        *(f"{cell:>6}" for cell in (*at_client, _ms(row.network_ms, inferred=bool(row.inferred)), *at_server, *more)),
        f"{'-' if row.lost_segments is None else row.lost_segments:>4}",
        answer_of(row),
    ]


def _ms(value: float | None, *, inferred: bool) -> str:
    return "-" if value is None else ms(value, 3) if not inferred else "~" + ms(value, 3)


def clock(moment: str) -> str:
    """``14:03:20.5`` of an ISO 8601 moment: tenths where there are any."""
    text = moment[11:21]
    return text.removesuffix(".0")
