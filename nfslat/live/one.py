"""One capture that is being made -> stretches of time, with what its packets tell of the other host.

The packets of a stretch, with some before and behind it, are read once more as a capture by itself (`nfslat CAPTURE`,
docs/one_capture.md): the other host's clock is told by those before, too. Where they tell too little of it, more of
what went before is read.
"""

from __future__ import annotations

import dataclasses
import tempfile
from collections.abc import Iterator
from pathlib import Path

from msgspec import structs

from nfslat import pipeline
from nfslat.answer.model import Report
from nfslat.decode.windows import Window
from nfslat.decode.workspace import open_workspace
from nfslat.errors import InputError
from nfslat.flow.pairs import Pair
from nfslat.live.held import MORE
from nfslat.live.rows import SRT
from nfslat.live.watch import LEAD_NS, PACKETS_BEHIND_NS, Stretch, Watched, slowest_op_ns
from nfslat.model.segments import Wanted
from nfslat.results import Correlation
from nfslat.select import Filters

_MOST_STRETCHES_BEFORE = 16


class WatchOne(Watched):
    """One capture. An op is in the stretch in which it was called."""

    _before = 1  # stretches that are read with one, to tell of the other host

    def _until_renewal(self) -> Iterator[Stretch]:
        (windows,) = self._windows.values()
        for window in iter(self._read, None):
            if len(window.decoded.ops) or not windows.is_over:
                yield self._stretch(window)

    def _read(self) -> Window | None:
        (windows,) = self._windows.values()
        while not windows.is_ready():
            pass
        return next(windows, None)

    def _stretch(self, window: Window) -> Stretch:
        span_ns = window.begin_ns, window.end_ns
        both = self._inferred(span_ns) if len(window.decoded.ops) else "no operation ended"
        if isinstance(both, str):
            stretch = Stretch.of(Pair(*span_ns, window.decoded, None))
            if not len(window.decoded.ops):
                return stretch
            row = structs.replace(stretch.row, text=f"Nothing is inferred of the other host: {both}.")
            return dataclasses.replace(stretch, row=row)
        c = pipeline.within(both, *span_ns)
        return Stretch.of(Pair(*span_ns, window.decoded, both, analysis=c if len(c.matched) else None))

    def _inferred(self, span_ns: tuple[int, int]) -> Correlation | str:
        """With as little of what went before as tells of the other host; or why nothing does."""
        why = ""
        while self._before <= _MOST_STRETCHES_BEFORE:
            both = self._of_packets((span_ns[0] - self._before * self._width_ns, span_ns[1] + PACKETS_BEHIND_NS))
            if not isinstance(both, str):
                return both
            why = why or both
            self._before *= 4
        self._before = 1
        return why

    def _of_packets(self, span_ns: tuple[int, int]) -> Correlation | str:
        (windows,) = self._windows.values()
        with tempfile.TemporaryDirectory(prefix="nfslat-") as folder:
            captures = self.write_packets(span_ns, Path(folder))
            ((path, packets),) = captures.packets.items()
            if not packets:
                return f"its packets are no longer held: {MORE}"
            try:
                with open_workspace([str(path)], engine="native", quiet=True, segments=Wanted.ALL) as work:
                    side = pipeline.inspect(work.sources[0], work.engine, filters=Filters(), progress=lambda _: None)
            except InputError as problem:
                return str(problem)
        source = structs.replace(side.source, name=windows.source.name)
        return pipeline.infer_other(structs.replace(side, source=source), filters=Filters(), srt=SRT)

    def moment_spans_ns(self, begin_ns: int, end_ns: int, report: Report | None) -> list[tuple[int, int]]:
        """With what goes before it and tells of the other host's clock."""
        before_ns = max(LEAD_NS + slowest_op_ns(report), self._before * self._width_ns)
        return [(begin_ns - before_ns, end_ns + PACKETS_BEHIND_NS)]
