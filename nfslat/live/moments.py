"""Conditions that are met -> the report and the packets of that moment, in a folder of their own; a command is told."""

from __future__ import annotations

import dataclasses
import json
import re
import shutil
import tempfile
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from nfslat.answer.model import Report
from nfslat.errors import NfslatError, PictureError, UsageError
from nfslat.export.output import private_folder
from nfslat.live.baseline import Baseline
from nfslat.live.conditions import Condition
from nfslat.live.course import Lasting
from nfslat.live.held import Captures
from nfslat.live.told import Command
from nfslat.live.watch import Event, Stretch, Watched
from nfslat.model.units import NS_PER_S, iso
from nfslat.report import text
from nfslat.report.html import page

SCHEMA = "nfslat.moment/1"
_DAY_NS = 86_400 * NS_PER_S
_WIDTH = 100


@dataclass
class _Awaited:
    condition: Condition
    lasting: Lasting


class Moments:
    """Of one run of `nfslat live`. Files are written beside the reading; what there is to say of them comes later."""

    def __init__(
        self,
        watch: Watched,
        conditions: Sequence[Condition],
        folder: Path | None,
        *,
        at_most: int,
        command: Command | None,
        baseline: Baseline | None,
        tell: Callable[[str], None],
        client: str | None = None,
    ) -> None:
        """`folder`: where files go; `at_most` so many times a day. `tell` has a line for the user. `client`: which one
        it is, where there are several."""
        self._tell, self._client = tell, client
        self._watch, self._folder, self._at_most = watch, folder, at_most
        self._command, self._baseline = command, baseline
        self._watched = [_Awaited(one, Lasting(one.text, round(one.for_s * NS_PER_S))) for one in conditions]
        self._writer = ThreadPoolExecutor(1)
        self._writing: deque[Future[str]] = deque()
        self._days: deque[int] = deque()  # when something was written

    def add(self, stretch: Stretch) -> None:
        """One more."""
        row = dataclasses.replace(stretch.row, cause=None) if stretch.is_mixed else stretch.row
        for one in self._watched:
            holds = one.condition.holds(row, stretch.report)
            if not stretch.row.ops or stretch.row.gap is not None:
                continue
            if one.lasting.began(stretch.pair, holds=holds) and one.lasting.event is not None:
                self._tell(f"{one.condition.text}: met since {iso(one.lasting.event.begin_ns)[11:19]} UTC")
                self._begin(one.condition, one.lasting.event, stretch)
            if (over := one.lasting.ended(holds=holds)) is not None:
                self._tell(f"{one.condition.text}: no longer met; it was for {over.seconds:,.0f} s")
        self._say()

    def now(self) -> None:
        """The report on all that is kept is written, because somebody asks for it."""
        span_ns = self._watch.span_ns
        if span_ns is None:
            self._tell("nothing is kept yet, and nothing is written")
            return
        self._write(Event("asked", *span_ns), None)
        self._say()

    def end(self) -> None:
        """Waits for what is being written, and for commands."""
        self._writer.shutdown()
        if self._command is not None:
            self._command.end()
        self._say()

    def _begin(self, condition: Condition, event: Event, stretch: Stretch) -> None:
        while self._days and self._days[0] <= event.end_ns - _DAY_NS:
            self._days.popleft()
        if len(self._days) >= self._at_most:
            self._tell(f"not written: there were {self._at_most} within a day (--at-most)")
            return
        self._days.append(event.end_ns)
        self._write(event, stretch)
        if self._command is not None:
            folder = None if self._folder is None else str(self._folder / self._name(event))
            self._command.tell(_told(condition, event, stretch, self._baseline, folder))

    def _write(self, event: Event, stretch: Stretch | None) -> None:
        """Packets at once, as long as they are held; the report on them beside the reading."""
        if self._folder is None:
            return
        span_ns = self._span_ns(event, stretch)
        folder = self._folder / self._name(event)
        try:
            private_folder(self._folder)
            part = Path(tempfile.mkdtemp(prefix=f".{folder.name}-", suffix=".part", dir=self._folder))
        except OSError as problem:
            self._tell(f"{folder}: not written: {problem.strerror}")
            return
        try:
            captures = self._watch.write_packets(span_ns, part)
        except OSError as problem:
            shutil.rmtree(part, ignore_errors=True)
            self._tell(f"{folder}: not written: {problem.strerror}")
            return
        self._writing.append(self._writer.submit(_written, folder, part, captures, self._baseline))

    def _span_ns(self, event: Event, stretch: Stretch | None) -> tuple[int, int]:
        """Packets of a moment: those that the stretch was held against, where it is all of the moment."""
        if stretch is not None and stretch.on_packets is not None and event.begin_ns >= stretch.pair.begin_ns:
            return stretch.on_packets.span_ns
        report = None if stretch is None else stretch.report
        return self._watch.moment_spans_ns(event.begin_ns, event.end_ns, report)[0]

    def _name(self, event: Event) -> str:
        stamp = re.sub(r"[^0-9T]", "", iso(event.begin_ns)[:19])
        words = event.what if self._client is None else f"{self._client} {event.what}"
        return f"{stamp}Z-" + re.sub(r"[^A-Za-z0-9.]+", "-", words).strip("-")

    def _say(self) -> None:
        while self._writing and self._writing[0].done():
            done = self._writing.popleft()
            problem = done.exception()  # of which none is a reason to end
            self._tell(done.result() if problem is None else f"not written: {problem!r}")
        for said in self._command.said() if self._command is not None else ():
            self._tell(said)


def _written(folder: Path, part: Path, captures: Captures, baseline: Baseline | None) -> str:
    """What there is to say. `part` gets the name of `folder` when all of it is written."""
    try:
        try:
            words = f"report; {captures.words}{_write_report(part, captures.report(pictures=True), baseline)}"
        except NfslatError as problem:
            words = f"no report: {problem}; {captures.words}"
        place = next(place for place in _places(folder) if not place.exists())
        part.rename(place)
    except OSError as problem:
        return f"{folder}: not written: {problem.strerror}"
    finally:
        shutil.rmtree(part, ignore_errors=True)
    return f"{place}: {words}"


def _write_report(folder: Path, report: Report, baseline: Baseline | None) -> str:
    """In three forms; what there is to say of it."""
    report = report if baseline is None else baseline.told(report)
    (folder / "report.txt").write_text(text.render(report, full=True, width=_WIDTH), encoding="utf-8")
    with (folder / "report.json").open("w", encoding="utf-8") as out:
        report.write_json(out)
    try:
        (folder / "report.html").write_text(page.render(report), encoding="utf-8")
    except (PictureError, UsageError) as problem:
        return f"; no page: {problem}"
    return ""


def _places(folder: Path) -> Iterator[Path]:
    yield folder
    number = 2
    while True:
        yield folder.with_name(f"{folder.name}.{number}")
        number += 1


def _told(condition: Condition, event: Event, stretch: Stretch, baseline: Baseline | None, folder: str | None) -> str:
    new = [] if baseline is None or stretch.answer is None else baseline.new_in(stretch.answer)
    return json.dumps(
        {
            "schema": SCHEMA,
            "when": condition.text,
            "begin": iso(event.begin_ns),
            "folder": folder,
            "new": None if baseline is None else [one.code for one in new],
            "stretch": dataclasses.asdict(stretch.row),
        },
        allow_nan=False,
    )
