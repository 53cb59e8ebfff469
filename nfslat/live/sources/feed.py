"""One side's packets as they come, whatever they come from -> pipes that decoders read, and what was missed."""

from __future__ import annotations

import os
import threading
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass

from nfslat.errors import NfslatError
from nfslat.live.sources.splice import Splice
from nfslat.model.units import NS_PER_S

_MOST_GAPS = 64  # kept: later ones push earlier ones out, which rows have passed
_PAUSE_S = 1.0  # without a packet, and the clock of the decoder is moved on
_DELAY_NS = 3 * NS_PER_S  # by which that clock is late: tcpdump is given packets in blocks of a second


@dataclass
class Gap:
    """A time of which there are no packets, on the clock of the capture."""

    begin_ns: int
    end_ns: int | None  # None: it goes on
    why: str


class Feed:
    """A pipe, or several for as many readers, into which one thread writes."""

    def __init__(self, side: str, name: str, readers: int = 1) -> None:
        """`side`: "server" or "client"; `name` is for messages."""
        self.side, self.name = side, name
        self.gaps: deque[Gap] = deque(maxlen=_MOST_GAPS)
        self.dropped: int | None = None  # packets that the kernel had no room for, so far; None: not known
        self.dropped_share = 0.0  # of what came by, when that was asked for last
        self.cpu_percent: int | None = None  # of a processor, lately
        self.failed: NfslatError | None = None  # why nothing comes any more
        self.when_failed: Callable[[], None] = lambda: None
        pipes = [os.pipe() for _ in range(readers)]
        self._ends = [end for end, _ in pipes]
        self.paths = [f"/dev/fd/{end}" for end in self._ends]  # where it can be read
        self.splice = Splice([out for _, out in pipes], name)
        self._came = time.monotonic()  # when packets did last
        self._ticked_ns = 0
        self._is_lost = False
        self._lock = threading.Lock()

    def begin(self) -> None:
        """Another capture of it follows."""
        self.splice.begin()
        self._is_lost = False

    def take(self, data: bytes) -> None:
        """The next bytes. Raises as `Splice.take` does."""
        self.splice.take(data)
        self._came = time.monotonic()
        self._close_gap()

    def lose(self, why: str) -> None:
        """No packets come, from the last one on; unless that is known."""
        with self._lock:
            self._is_lost = True
            if self.splice.last_ns is not None and not (self.gaps and self.gaps[-1].end_ns is None):
                self.gaps.append(Gap(self.splice.last_ns, None, why))

    def _close_gap(self) -> None:
        with self._lock:
            if not self._is_lost and self.gaps and self.gaps[-1].end_ns is None and self.splice.first_ns is not None:
                self.gaps[-1].end_ns = self.splice.first_ns

    def tick(self) -> None:
        """Where nothing comes, stretches end all the same. Raises ``OSError`` where nobody reads any more."""
        quiet_s = time.monotonic() - self._came
        last_ns = self.splice.last_ns
        if last_ns is None or quiet_s < _PAUSE_S:
            return
        t_ns = last_ns + int(quiet_s * NS_PER_S) - _DELAY_NS
        if t_ns > max(last_ns, self._ticked_ns):
            self._ticked_ns = t_ns
            self.splice.tick(t_ns)

    def end(self, failed: NfslatError | None = None) -> None:
        """Nothing comes any more: the decoder finds the end."""
        self.failed = self.failed or failed
        self.splice.close()
        if failed is not None:
            self.when_failed()

    def close(self) -> None:
        """Nobody reads any more; who writes gets an ``OSError``."""
        with self._lock:
            while self._ends:
                os.close(self._ends.pop())
