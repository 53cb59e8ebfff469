"""The windows of one capture -> the same, joined until they hold enough ops, and counted (`nfslat.windows.counts`)."""

from __future__ import annotations

from nfslat.decode.in_line import in_line
from nfslat.decode.windows import Window, Windows
from nfslat.select import Filters
from nfslat.windows.counts import Counts
from nfslat.windows.gaps import Gapped, Gaps

_SOON, _ALL = 1000, 50_000  # calls in which gaps are looked for: to judge a window by, and to count them


class Counted(Gapped):
    """An iterator over the windows of one capture, which counts what is in them."""

    def __init__(
        self,
        windows: Windows,
        role: str,
        srt: str,
        *,
        filters: Filters | None = None,
        least_ops: int = 0,
        least_ns: int = 0,
    ) -> None:
        """`role`: server or client; windows are joined until they hold `least_ops`, and `least_ns`."""
        super().__init__(windows, least_calls=_SOON)
        self.counts = Counts(role, srt, filters)
        self._gaps = Gaps(_ALL)
        self._least_ops, self._least_ns = least_ops, least_ns
        self._parts: list[Window] = []

    def is_ready(self) -> bool:
        """Does the next one come, or the end, within some ms?"""
        while self._windows.is_ready():
            if not self._take() or self._is_enough():
                return True
        return False

    def __next__(self) -> Window:
        """Waits for it."""
        while not self._is_enough() and self._take():
            pass
        if not self._parts:
            raise StopIteration
        parts, self._parts = self._parts, []
        joined = in_line([one.decoded for one in parts])
        return Window(min(one.begin_ns for one in parts), parts[-1].end_ns, joined)

    def drain(self) -> int:
        """Read what is left; the ops in it that an NFS client called."""
        before = self.counts.ops
        while self._take():
            self._parts.clear()
        return self.counts.ops - before

    def _is_enough(self) -> bool:
        if not self._parts:
            return False
        took_ns = self._parts[-1].end_ns - min(one.begin_ns for one in self._parts)
        return took_ns >= self._least_ns and sum(len(one.decoded.ops) for one in self._parts) >= self._least_ops

    def _take(self) -> bool:
        try:
            window = super().__next__()
        except StopIteration:
            self._gaps.end()
            self.counts.missing = self._gaps.found
            self.counts.source, self.counts.files = self.source, self._windows.facts
            return False
        self._gaps.add(window.decoded, window.begin_ns)
        self.counts.add(window.decoded, self.source)
        self._parts.append(window)
        return True
