"""One capture that is being made -> stretches of time, with what its packets tell of the other host.

The packets of a stretch, with some before and behind it, are read once more as a capture by itself (`nfslat CAPTURE`,
docs/one_capture.md): the other host's clock is told by those before, too. Where they tell too little of it, more of
what went before is read.
"""

from __future__ import annotations

import dataclasses
import tempfile
from collections import deque
from collections.abc import Callable, Iterator
from pathlib import Path

from nfslat import pipeline
from nfslat.answer.model import Report
from nfslat.decode.capture import Source
from nfslat.decode.tools import Tools
from nfslat.decode.windows import Window, Windows
from nfslat.decode.workspace import open_workspace
from nfslat.errors import InputError
from nfslat.flow.pairs import Pair
from nfslat.kernels.memory import give_back
from nfslat.live.held import Captures
from nfslat.live.rows import SRT, row_of
from nfslat.live.watch import LEAD_NS, PACKETS_BEHIND_NS, Stretch, report_of, slowest_op_ns
from nfslat.model.segments import Wanted
from nfslat.model.units import NS_PER_S
from nfslat.results import Analysis, Correlation
from nfslat.select import Filters

_MOST_BEFORE = 16  # stretches


class WatchOne:
    """An iterator over stretches. Of an op it is told in the stretch in which it was called."""

    def __init__(
        self,
        source: Source,
        tools: Callable[[], Tools],
        width_ns: int,
        *,
        keep_ns: int,
        ring_bytes: int,
        idle: Callable[[], None] = lambda: None,
    ) -> None:
        """Reading begins at once; all else as of `nfslat.live.watch.Watch`."""
        self._windows = Windows(source, tools, width_ns, ring_bytes=ring_bytes)
        self._width_ns, self._keep_ns, self._idle = width_ns, keep_ns, idle
        self._before = 1  # stretches
        self._spans: deque[tuple[int, int]] = deque()

    def __iter__(self) -> Iterator[Stretch]:
        """Raises ``InputError`` where it cannot be read."""
        while True:
            for window in self._read():
                if not len(window.decoded.ops) and self._windows.is_over:
                    continue
                yield self._stretch(window)
                give_back()
                if self._windows.is_worn and (newest_ns := self._windows.newest_ns) is not None:
                    self._windows.renew(newest_ns + NS_PER_S)
            if self._windows.is_over:
                return

    def _read(self) -> Iterator[Window]:
        while True:
            while not self._windows.is_ready():
                self._idle()
            try:
                yield next(self._windows)
            except StopIteration:
                return

    def _stretch(self, window: Window) -> Stretch:
        span_ns = window.begin_ns, window.end_ns
        self._spans.append(span_ns)
        while self._spans[0][1] <= window.end_ns - self._keep_ns:
            self._spans.popleft()
        found = self._inferred(span_ns) if len(window.decoded.ops) else "no operation ended"
        c = None if isinstance(found, str) else _within(found, span_ns)
        pair = Pair(*span_ns, window.decoded, None if isinstance(found, str) else found)
        report = None if c is None else report_of(c)
        row = row_of(pair, report)
        if isinstance(found, str) and len(window.decoded.ops):
            row = dataclasses.replace(row, text=f"Nothing is inferred of the other host: {found}.")
        return Stretch(pair, row, report, c)

    def _inferred(self, span_ns: tuple[int, int]) -> Correlation | str:
        """With as little of what went before as tells of the other host; or why nothing does."""
        said = ""
        while True:
            found = self._of_packets((span_ns[0] - self._before * self._width_ns, span_ns[1] + PACKETS_BEHIND_NS))
            if not isinstance(found, str):
                return found
            said = said or found
            if self._before >= _MOST_BEFORE:
                self._before = 1
                return said
            self._before *= 4

    def _of_packets(self, span_ns: tuple[int, int]) -> Correlation | str:
        with tempfile.TemporaryDirectory(prefix="nfslat-") as folder:
            path = Path(folder, "capture.pcapng")
            if not self._windows.write_packets(path, span_ns, 0, "capture").packets:
                return "its packets are no longer held (--ring)"
            try:
                with open_workspace([str(path)], engine="native", quiet=True, segments=Wanted.ALL) as work:
                    side = pipeline.inspect(work.sources[0], work.engine, filters=Filters(), progress=lambda _: None)
                side = dataclasses.replace(
                    side, source=dataclasses.replace(side.source, name=self._windows.source.name)
                )
                return pipeline.infer_other(side, filters=Filters(), srt=SRT)
            except InputError as problem:
                return str(problem)

    @property
    def span_ns(self) -> tuple[int, int] | None:
        """On the clock of the capture."""
        return (self._spans[0][0], self._spans[-1][1]) if self._spans else None

    def report(self) -> Report:
        """On the packets of what is kept, as far as they are held. Raises ``InputError`` where nothing is kept."""
        return self.report_of_figures()

    def report_of_figures(self, begin_ns: int | None = None) -> Report:
        """On packets, too: of one capture figures of stretches do not add up."""
        if not self._spans:
            raise InputError("nothing of that time is kept")
        span_ns = self._spans[0][0] if begin_ns is None else begin_ns, self._spans[-1][1] + PACKETS_BEHIND_NS
        with tempfile.TemporaryDirectory(prefix="nfslat-") as folder:
            return self.write_packets(span_ns, Path(folder)).report()

    def moment_spans_ns(self, begin_ns: int, end_ns: int, report: Report | None) -> list[tuple[int, int]]:
        """With what goes before it and tells of the other host's clock."""
        before_ns = max(LEAD_NS + slowest_op_ns(report), self._before * self._width_ns)
        return [(begin_ns - before_ns, end_ns + PACKETS_BEHIND_NS)]

    def write_packets(self, span_ns: tuple[int, int], folder: Path) -> Captures:
        """The capture of that time."""
        path = folder / "capture.pcapng"
        written = self._windows.write_packets(path, span_ns, 0, "capture")
        return Captures((path,), f"{written.packets:,} packets", written.packets > 0)

    def close(self) -> None:
        """No more is read."""
        self._windows.close()


def _within(found: Correlation, span_ns: tuple[int, int]) -> Analysis | None:
    """What was called in it; None: nothing that both hosts have."""
    c = pipeline.within(found, *span_ns)
    return c if len(c.matched) else None
