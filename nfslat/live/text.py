"""Rows -> lines for a terminal, in the manner of vmstat: headings again and again, and what began when it does."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from nfslat.answer.words import ms
from nfslat.findings.client import SLOT_CODES
from nfslat.live.held import held_from
from nfslat.live.rows import Row
from nfslat.live.together import Whole
from nfslat.live.watch import Stretch
from nfslat.model.units import iso
from nfslat.report.text_layout import count, count_of, wrap

HEADINGS = (
    "           ops/s   MB/s client    p99   net-   wait     in",
    "time                    SRT ms     ms   work thread thread lost answer",
)
_EVERY = 20  # rows between headings
_NAMED = 4
_PROMPT_S = 5.0  # a host without traffic is waited for
_TENTHS = 1000  # MB/s: from there on they are none
_NO_FAULT, _GAP = "no fault", "no packets"


@dataclass
class Run:
    """Stretches in a row with one answer."""

    answer: str
    begin: str
    end: str

    @property
    def span(self) -> str:
        """From when to when."""
        return f"{clock(self.begin)} to {clock(self.end)}"


@dataclass
class _Told:
    """All stretches with one answer; of the runs of them the first ones."""

    stretches: int = 0
    runs: int = 0
    first: list[Run] = field(default_factory=list)


@dataclass
class Lines:
    """Prints stretches as they come, and keeps of them what the end says."""

    width: int
    has_headings: bool = True
    _run: Run | None = None
    _begin: str = ""
    _told: dict[str, _Told] = field(default_factory=dict)
    _stretches: int = 0
    _ops: int = 0
    _inferred: str | None = None

    def of(self, stretch: Stretch) -> Iterator[str]:
        """The lines of the next one."""
        row = stretch.row
        if self.has_headings and self._stretches % _EVERY == 0:
            yield from HEADINGS
        if row.inferred is not None and row.inferred != self._inferred:
            self._inferred = row.inferred
            yield from wrap(
                f"One capture: times of the {row.inferred} and of the network (~) are inferred.", self.width
            )
        begins = self.add(row)
        client = "" if row.client is None else f"  {row.client}"
        yield " ".join(cells_of(row)).rstrip() + (" (new)" if stretch.is_new else "") + client
        if row.dropped:
            yield f"    {count_of(row.dropped, 'packet')} dropped by the kernel of a host that captures"
        if (behind := behind_of(row)) != "":
            yield from self.note(f"{behind}: packets come late, or are more than nfslat can judge in time")
        if row.gap is not None and begins:
            yield from wrap(row.text, self.width, indent=4)
        if stretch.began:
            said = ". ".join(row.text.split(". ")[: _sentences(stretch)]).rstrip(".")
            yield from self.note(f"{said} (confidence {row.confidence}).")
            if stretch.on_packets is not None and stretch.on_packets.from_ns is not None:
                yield from self.note(f"its packets are {held_from(stretch.on_packets.from_ns)}")
        for one in stretch.ended:
            span = f"{clock(iso(one.begin_ns))} to {clock(iso(one.end_ns))}"
            yield from self.note(f"{one.what} has ended: {span}, {one.seconds:,.0f} s")

    def note(self, text: str) -> Iterator[str]:
        """Something else, between two of them."""
        yield from wrap(text, self.width, indent=4)

    def end(self) -> Iterator[str]:
        """What there was, in how many windows, and when."""
        if self._run is None:
            yield "no operation ended while nfslat looked"
            return
        yield ""
        whole = Run("", self._begin, self._run.end)
        yield f"{_count(self._stretches)}, {count_of(self._ops, 'operation')}, {whole.span} UTC"
        for answer, told in sorted(self._told.items(), key=lambda one: -one[1].stretches):
            spans = ", ".join(run.span for run in told.first)
            more = f", and {count_of(told.runs - _NAMED, 'time')} more" if told.runs > _NAMED else ""
            yield from wrap(f"{answer}: {_count(told.stretches)}, {spans}{more}", self.width, hanging=2)

    def add(self, row: Row) -> bool:
        """Count one for the end, and say whether its answer is another than the last one's."""
        answer = answer_of(row)
        begins = self._run is None or self._run.answer != answer
        told = self._told.setdefault(answer, _Told())
        if self._run is None or begins:
            self._begin = self._begin or row.begin
            self._run = Run(answer, row.begin, row.end)
            told.runs += 1
            if told.runs <= _NAMED:
                told.first.append(self._run)
        self._run.end = row.end
        told.stretches += 1
        self._stretches += 1
        self._ops += row.ops
        return begins


class ManyLines:
    """The same of several clients."""

    def __init__(self, width: int, clients: Sequence[str]) -> None:
        """They are named behind their rows."""
        self._width = width
        self._each = {one: Lines(width, has_headings=False) for one in clients}
        self._rows = 0

    def of(self, stretch: Stretch) -> Iterator[str]:
        """The lines of the next one, of whichever client."""
        if self._rows % (_EVERY // len(self._each) * len(self._each) or len(self._each)) == 0:
            yield from HEADINGS
        self._rows += 1
        yield from self._each[stretch.row.client or ""].of(stretch)

    def note(self, text: str) -> Iterator[str]:
        """Something else, between two of them."""
        yield from wrap(text, self._width, indent=4)

    def end(self) -> Iterator[str]:
        """What there was, of each."""
        for client, lines in self._each.items():
            yield f"\n{client}:"
            yield from (line for line in lines.end() if line)


def words_of(whole: Whole) -> str:
    """What is said of all clients."""
    mean = "" if whole.client_ms is None else f", {ms(whole.client_ms, 3)} ms"
    answer = {"fault": whole.cause, "no-fault": _NO_FAULT}.get(whole.outcome, "cannot tell")
    share = "" if whole.time_share is None else f", {100 * whole.time_share:.1f} % of the time"
    of = f" of {', '.join(whole.of)}{share}" if whole.of else ""
    return f"all: {whole.ops_per_s:,.0f} ops/s{mean}: {answer}{of}"


def _sentences(stretch: Stretch) -> int:
    """Of the verdict, those up to its cause: what may keep requests from the wire is said in front of that."""
    verdict = None if stretch.answer is None else stretch.answer.verdict
    return 1 if verdict is None or verdict.share is None or not {*verdict.also[:1]} & {*SLOT_CODES} else 2


def _count(stretches: int) -> str:
    return f"{count(stretches)} stretch{'' if stretches == 1 else 'es'}"


def behind_of(row: Row) -> str:
    """Where it comes so late that the next one is over already."""
    return "" if row.lag_s is None or row.lag_s <= max(row.seconds, _PROMPT_S) else f"{row.lag_s:,.0f} s behind"


def answer_of(row: Row) -> str:
    """In a word."""
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
        *(
            f"{_ms(one, inferred=row.inferred in of):>6}"
            for one, of in (
                (row.client_ms, ("client",)),
                (row.client_p99_ms, ("client",)),
                (row.network_ms, ("server", "client")),
                (row.queue_ms, ("server",)),
                (in_thread, ("server",)),
            )
        ),
        f"{'-' if row.lost_segments is None else row.lost_segments:>4}",
        answer_of(row),
    ]


def _ms(value: float | None, *, inferred: bool) -> str:
    return "-" if value is None else ms(value, 3) if not inferred else "~" + ms(value, 3)


def clock(moment: str) -> str:
    """``14:03:20.5`` of an ISO 8601 moment: tenths where there are any."""
    text = moment[11:21]
    return text.removesuffix(".0")
