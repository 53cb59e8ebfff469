"""The windows of one capture -> those that were asked for, while the other capture's are not left waiting.

Whoever writes a capture into a pipe stops where nobody reads, and then its kernel drops packets. So while one capture
brings nothing, windows of the other one are taken in, up to a bound.
"""

from __future__ import annotations

from collections import deque

from nfslat.decode.in_line import in_line, parted
from nfslat.decode.windows import Window
from nfslat.flow.gaps import Gapped
from nfslat.model.decoded import Decoded
from nfslat.model.tables import Ops

_MOST_AHEAD = 5_000_000  # ops that are taken in before they are asked for


class Reader:
    """What was read of a capture and is not done with is in `held`."""

    def __init__(self, windows: Gapped) -> None:
        """All that ended before `end_ns` was read, from `begin_ns` on; None: nothing so far. First and last are those
        of packets."""
        self.source = windows.source
        self.held: list[Decoded] = []
        self.begin_ns: int | None = None
        self.end_ns: int | None = None
        self.first_ns: int | None = None
        self.last_ns = 0
        self.is_over = self._has_all = False
        self.dropped: list[Ops] = []  # that were not held until somebody asked for them
        self._windows = windows
        self._ahead: deque[Window | None] = deque()
        self._other: Reader | None = None

    def beside(self, other: Reader) -> None:
        """Take in windows of `other` while this one waits."""
        self._other = other

    def read(self) -> Window | None:
        """One window more; None where there is none."""
        window = self._next()
        if window is None:
            self.is_over = True
            return None
        self.held.append(window.decoded)
        self.begin_ns = window.begin_ns if self.begin_ns is None else self.begin_ns
        self.end_ns = window.end_ns
        self.first_ns = window.decoded.first_ns if self.first_ns is None else self.first_ns
        self.last_ns = window.decoded.last_ns
        self._has_all = window.is_last
        return window

    def read_to(self, end_ns: int, held_ns: int) -> None:
        """All that ended before; what ended more than `held_ns` before that is dropped."""
        while not self.is_over and (self.end_ns is None or self.end_ns < end_ns):
            self.read()
            # What the last pair left may have no ops, and still what TCP did since.
            first = 0 if len(self.held[0].ops) else 1
            while len(self.held) > first + 1 and _newest_ns(self.held[first]) < end_ns - held_ns:
                self.dropped.append(self.held.pop(first).ops)

    def forget(self, before_ns: int) -> None:
        """Ops that ended before are dropped."""
        for at, one in enumerate(self.held):
            is_old = one.ops.t3 < before_ns
            if is_old.any():
                self.dropped.append(one.ops.take(is_old))
                self.held[at] = parted(one, ~is_old)[0]

    def joined(self) -> Decoded:
        """What is held as one table, which it stays."""
        self.held = [in_line(self.held)]
        return self.held[0]

    @property
    def ops(self) -> int:
        """Held."""
        return sum(len(one.ops) for one in self.held)

    @property
    def ran_ns(self) -> tuple[int, int]:
        """From when to when packets were captured, as far as is known."""
        return self.first_ns or 0, self.last_ns if self._has_all else max(self.end_ns or 0, self.last_ns)

    def _next(self) -> Window | None:
        if self._ahead:
            return self._ahead.popleft()
        while not self._windows.is_ready():
            if self._other is not None:
                self._other._take_in()
        return self._read()

    def _take_in(self) -> None:
        taken = sum(len(one.decoded.ops) for one in self._ahead if one is not None)
        is_at_end = bool(self._ahead) and self._ahead[-1] is None
        if not is_at_end and not self.is_over and taken < _MOST_AHEAD and self._windows.is_ready():
            self._ahead.append(self._read())

    def _read(self) -> Window | None:
        try:
            return next(self._windows)
        except StopIteration:
            return None


def _newest_ns(decoded: Decoded) -> int:
    return int(decoded.ops.t3.max()) if len(decoded.ops) else decoded.last_ns
