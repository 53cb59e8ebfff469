"""Captures that are being made, or of any length -> stretches of time, each as soon as it is over, with what was judged
of it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from nfslat import __version__, pipeline
from nfslat.answer.model import Report, Tool
from nfslat.decode.capture import Source
from nfslat.decode.tools import Tools
from nfslat.decode.windows import Windows
from nfslat.evidence.known import Known
from nfslat.live.kept import Kept, Noted
from nfslat.live.rows import SRT, Row, row_of
from nfslat.results import Analysis
from nfslat.select import Filters
from nfslat.windows.analysed import analysed
from nfslat.windows.pairs import Pair, pairs
from nfslat.windows.whole import SIDES


@dataclass(frozen=True)
class Stretch:
    """What ended in it. Without an op in both captures there is no analysis of it, and no report."""

    pair: Pair
    row: Row
    report: Report | None
    analysis: Analysis | None


class Watch:
    """An iterator over stretches. It holds some of them in memory, never all; what it handed out is the caller's."""

    def __init__(
        self, sources: Sequence[Source], tools: Callable[[], Tools], width_ns: int, keep_ns: int, ring_bytes: int = 0
    ) -> None:
        """Reading begins at once. `sources`: the server's capture, then the client's; `width_ns`: of a stretch. So
        many ns of stretches are in `kept`, and so many bytes of the newest packets of all captures can be written."""
        each = ring_bytes // len(sources)
        self._windows = [Windows(source, tools, width_ns, ring_bytes=each) for source in sources]
        self.kept = Kept(keep_ns)

    def __iter__(self) -> Iterator[Stretch]:
        """Each stretch, until the captures end. Raises ``InputError`` where one of them cannot be read, or the two have
        nothing in common."""
        sides = {name: Noted(one, name) for name, one in zip(SIDES, self._windows, strict=True)}
        gaps = {name: side.gaps for name, side in sides.items()}
        for pair in pairs(sides["server"], sides["client"], SRT):
            if pair.is_rest and not len(pair.client.ops):
                continue
            c = None if pair.found is None else analysed(pair.found, pair, gaps)
            self.kept.add(pair, c, sides)
            report = None if c is None else report_of(c)
            stretch = Stretch(pair, row_of(pair, report), report, c)
            del pair, c, report  # memory has room for one of them
            yield stretch
            del stretch

    def close(self) -> None:
        """No more is read."""
        for one in self._windows:
            one.close()


def report_of(c: Analysis) -> Report:
    """The report on one stretch."""
    return pipeline.report(c, Tool(__version__, c.engine, "nfslat live", c.srt), Filters(), Known())
