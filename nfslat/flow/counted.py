"""The windows of one capture -> the same, joined until they hold enough ops, and what is counted in them.

Everything that a window is read with is counted here, before any of it is matched: so that what the report says of a
capture is of all its packets and ops, exactly.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from msgspec import structs

from nfslat.compare import side_of
from nfslat.decode.blocks import Blocks
from nfslat.decode.in_line import in_line
from nfslat.decode.windows import Window, Windows
from nfslat.figures.called import CalledTally
from nfslat.flow.gaps import Gapped, Gaps
from nfslat.model.decoded import Decoded
from nfslat.model.details import no_details
from nfslat.model.tables import I64, Ops
from nfslat.model.units import NS_PER_S
from nfslat.results import Side
from nfslat.select import Filters, select
from nfslat.tally.captures import CaptureTally, SelectedTally
from nfslat.tally.outcomes import OutcomeTally

_PAUSE_NS = NS_PER_S // 5  # without an answer
_MOST_PAUSE_NS = 10 * NS_PER_S  # so much longer a window may become
_SOON, _ALL = 1000, 50_000  # calls in which gaps are looked for: to judge a window by, and to count them
_OPS_TO_TELL_CLOCKS = 1000
_NOT_YET: I64 = np.zeros(0, dtype=np.int64)  # gaps are known when all was read


class Counted(Gapped):
    """An iterator over the windows of one capture, which counts what is in them."""

    def __init__(self, windows: Windows | Blocks, role: str, srt: str, filters: Filters, least_ops: int = 0) -> None:
        """`role`: server or client; windows are joined until they hold `least_ops`."""
        super().__init__(windows, least_calls=_SOON)
        self.outcomes = OutcomeTally.empty()
        self.selected = 0  # ops that an NFS client called, and that filters leave
        self.called = CalledTally()  # where all programs are asked for
        self._role, self._srt, self._filters = role, srt, filters
        self._tally: CaptureTally | None = None  # None: nothing was read
        self._selected: SelectedTally | None = None
        self._later_ns: int | None = None  # None: ops that are selected by time are counted when these are matched
        self._has_one_clock = False
        self._gaps = Gaps(_ALL)
        self._least_ops = least_ops
        self._parts: list[Window] = []
        self._ops = 0  # in them
        self._enough = 0  # so many of them are long enough, and hold enough ops; 0: they do not

    def is_ready(self) -> bool:
        """Does the next one come, or the end, within some ms?"""
        while self._windows.is_ready():
            if not self._take() or self._whole():
                return True
        return False

    def __next__(self) -> Window:
        """Waits for it."""
        while not (count := self._whole()) and self._take():
            pass
        if not self._parts:
            raise StopIteration
        parts = self._clear()
        for one in parts[count or len(parts) :]:
            self._add(one)
        parts = parts[: count or len(parts)]
        joined = in_line([one.decoded for one in parts])
        return Window(min(one.begin_ns for one in parts), parts[-1].end_ns, joined, parts[-1].is_last)

    @property
    def tally(self) -> CaptureTally | None:
        """What was counted; None: nothing was read."""
        if self._tally is None or self._selected is None:
            return self._tally
        return structs.replace(self._tally, selected=self._selected)

    def drain(self, filters: Filters, later_ns: int) -> int:
        """Read what is left; the ops in it that an NFS client called, and that `filters` leave by the client's clock,
        which is so much later."""
        self._filters, self._later_ns = filters, later_ns
        before = self.selected
        while self._take():
            self._clear()
        return self.selected - before

    def _whole(self) -> int:
        """How many of the parts make a window; 0: more have to be read. It does not end while nothing is answered: of a
        host or a path that pauses a window has to show what was before, and what came then."""
        first = count = self._enough
        if not count:
            return count
        newest_ns = _ends_ns(self._parts[:count], max)
        for at, part in enumerate(self._parts[count:], count):
            oldest_ns = _ends_ns([part], min)
            if oldest_ns is None:
                continue
            if newest_ns is None or oldest_ns - newest_ns < _PAUSE_NS:
                return count
            count, newest_ns = at + 1, _ends_ns([part], max)
        is_long = self._parts[-1].end_ns - self._parts[first - 1].end_ns >= _MOST_PAUSE_NS
        return first if newest_ns is None or is_long else 0

    def _add(self, window: Window) -> None:
        """One more part."""
        self._parts.append(window)
        self._ops += len(window.decoded.ops)
        if not self._enough and self._ops >= self._least_ops:
            self._enough = len(self._parts)

    def _clear(self) -> list[Window]:
        """Of the parts, which are none then."""
        parts, self._parts = self._parts, []
        self._ops, self._enough = 0, 0
        return parts

    def _take(self) -> bool:
        try:
            window = super().__next__()
        except StopIteration:
            self._end()
            return False
        self._gaps.add(window.decoded, window.begin_ns)
        self._count(window.decoded)
        self._add(window)
        return True

    def _count(self, decoded: Decoded) -> None:
        if self._has_one_clock and len(decoded.ops):
            side = Side(self.source, decoded, np.zeros(0, dtype=np.int8))
        else:
            side = side_of(self.source, decoded)
            # Whoever stamps what was sent and what was received by two clocks does so from the first packet on.
            self._has_one_clock = len(decoded.ops) >= _OPS_TO_TELL_CLOCKS and side.directions is None
        before_ns = None if self._tally is None else self._tally.shown.ran_ns
        block = CaptureTally.of(side, _NOT_YET, self._role, None, before_ns)
        self._tally = block if self._tally is None else self._tally + block
        if self._filters.all_programs:
            self.called += CalledTally.of_none(side)
        if not self._filters.by_time or self._later_ns is not None:
            self.select(side.ops, decoded, self._filters, self._later_ns or 0)

    def select(self, ops: Ops, of: Decoded, filters: Filters, later_ns: int) -> None:
        """Count ops that `filters` leave by the client's clock, which is so much later."""
        decoded = of if ops is of.ops else structs.replace(of, ops=ops, details=no_details())
        self.count(Side(self.source, decoded, select(ops, filters, ops.t0 + later_ns, 0)))

    def count(self, side: Side) -> None:
        """Count ops that are selected."""
        some = SelectedTally.of(side.ops, side.reasons, self._role, self._srt).as_sketches()
        self._selected = some if self._selected is None else self._selected + some
        self.outcomes += OutcomeTally.of({self._role: side}, side)
        if self._filters.all_programs:
            self.called += CalledTally.of_ops(side)
        self.selected += int(np.count_nonzero(side.forward))

    def _end(self) -> None:
        """What is known when all was read."""
        self._gaps.end()
        if self._tally is not None:
            shown = structs.replace(self._tally.shown, missing=np.maximum(self._gaps.found, 0))
            facts = structs.replace(self._tally.facts, **self._windows.facts)
            self._tally = structs.replace(self._tally, source=self.source, facts=facts, shown=shown)


def _ends_ns(parts: list[Window], pick: Callable[[list[int]], int]) -> int | None:
    """When the first op in them ended, or the last one; None where there are none."""
    ends = [int(getattr(one.decoded.ops.t3, pick.__name__)()) for one in parts if len(one.decoded.ops)]
    return pick(ends) if ends else None
