"""Conditions that are met -> the report and the packets of that moment, in a folder of their own; a command is told."""

from __future__ import annotations

import dataclasses
import itertools
import json
import re
import shutil
import tempfile
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path

from msgspec import structs

from nfslat.answer.model import Report
from nfslat.errors import NfslatError, PictureError, UsageError
from nfslat.export.output import private_folder
from nfslat.live.baseline import Baseline
from nfslat.live.commands import Command
from nfslat.live.conditions import Condition
from nfslat.live.course import Lasting
from nfslat.live.held import Captures
from nfslat.live.watch import Event, Stretch, Watched
from nfslat.model.units import NS_PER_S, iso
from nfslat.report import text
from nfslat.report.html import page

SCHEMA = "nfslat.moment/1"
_DAY_NS = 86_400 * NS_PER_S
_WIDTH = 100


class Moments:
    """The moments of one run. Files are written beside the reading; what there is to say of them comes later."""

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
        self._conditions = [(each, Lasting(each.text, round(each.for_s * NS_PER_S))) for each in conditions]
        self._writer = ThreadPoolExecutor(1)
        self._writing: deque[Future[str]] = deque()
        self._begins_ns: deque[int] = deque()  # of what was written within a day

    def add(self, stretch: Stretch) -> None:
        """One more stretch."""
        row = structs.replace(stretch.row, cause=None) if stretch.is_mixed else stretch.row
        for condition, lasting in self._conditions:
            if not row.ops or row.gap is not None:
                continue
            holds = condition.holds(row, stretch.report)
            if (event := lasting.began(stretch.pair, holds=holds)) is not None:
                self._tell(f"{condition.text}: met since {iso(event.begin_ns)[11:19]} UTC")
                self._begin(event, stretch)
            if (over := lasting.ended(holds=holds)) is not None:
                self._tell(f"{condition.text}: no longer met; it was for {over.seconds:,.0f} s")
        self._say()

    def now(self) -> None:
        """The report on the last stretches is written, because somebody asks for it."""
        if self._watch.span_ns is None:
            self._tell("no stretch of time has ended, and nothing is written")
            return
        self._write(Event("asked", *self._watch.span_ns), None)
        self._say()

    def end(self) -> None:
        """Waits for what is being written, and for commands."""
        self._writer.shutdown()
        if self._command is not None:
            self._command.end()
        self._say()

    def _begin(self, event: Event, stretch: Stretch) -> None:
        while self._begins_ns and self._begins_ns[0] <= event.end_ns - _DAY_NS:
            self._begins_ns.popleft()
        if len(self._begins_ns) >= self._at_most:
            self._tell(f"not written: there were {self._at_most} within a day (--at-most)")
            return
        self._begins_ns.append(event.end_ns)
        self._write(event, stretch)
        if self._command is not None:
            self._command.run(self._as_json(event, stretch))

    def _write(self, event: Event, stretch: Stretch | None) -> None:
        """Packets at once, as long as they are held; the report on them beside the reading."""
        if self._folder is None:
            return
        folder, part = self._folder / self._name(event), None
        try:
            private_folder(self._folder)
            part = Path(tempfile.mkdtemp(prefix=f".{folder.name}-", suffix=".part", dir=self._folder))
            captures = self._watch.write_packets(self._span_ns(event, stretch), part)
        except OSError as problem:
            if part is not None:
                shutil.rmtree(part, ignore_errors=True)
            self._tell(f"{folder}: not written: {problem.strerror}")
            return
        self._writing.append(self._writer.submit(_write_folder, folder, part, captures, self._baseline))

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

    def _as_json(self, event: Event, stretch: Stretch) -> str:
        """What a command gets."""
        new = None
        if self._baseline is not None:
            new = [] if stretch.answer is None else self._baseline.new_in(stretch.answer)
        moment = {
            "schema": SCHEMA,
            "when": event.what,
            "begin": iso(event.begin_ns),
            "folder": None if self._folder is None else str(self._folder / self._name(event)),
            "new": new,
            "stretch": dataclasses.asdict(stretch.row),
        }
        return json.dumps(moment, allow_nan=False)

    def _say(self) -> None:
        while self._writing and self._writing[0].done():
            written = self._writing.popleft()
            problem = written.exception()  # of which none is a reason to end
            self._tell(written.result() if problem is None else f"not written: {problem!r}")
        for line in self._command.lines() if self._command is not None else ():
            self._tell(line)


def _write_folder(folder: Path, part: Path, captures: Captures, baseline: Baseline | None) -> str:
    """Words on what was written. `part` gets the name of `folder` when all of it is."""
    try:
        try:
            words = f"report; {captures.words}{_write_report(part, captures.report(pictures=True), baseline)}"
        except NfslatError as problem:
            if not any(captures.packets.values()):
                return f"{folder}: not written: {problem}"
            words = f"no report: {problem}; {captures.words}"
        names = itertools.chain([folder.name], (f"{folder.name}.{number}" for number in itertools.count(2)))
        place = next(place for name in names if not (place := folder.with_name(name)).exists())
        part.rename(place)
    except OSError as problem:
        return f"{folder}: not written: {problem.strerror}"
    finally:
        shutil.rmtree(part, ignore_errors=True)
    return f"{place}: {words}"


def _write_report(folder: Path, report: Report, baseline: Baseline | None) -> str:
    """Write it in three forms; words on what could not be."""
    report = report if baseline is None else baseline.noted(report)
    (folder / "report.txt").write_text(text.render(report, full=True, width=_WIDTH), encoding="utf-8")
    with (folder / "report.json").open("w", encoding="utf-8") as out:
        report.write_json(out)
    try:
        (folder / "report.html").write_text(page.render(report), encoding="utf-8")
    except (PictureError, UsageError) as problem:
        return f"; no page: {problem}"
    return ""
