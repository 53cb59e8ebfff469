"""Windows of one capture, one after the other -> calls that it does not show, as a whole capture has them.

A window holds what ended in it, so that XIDs of calls which are still open leave gaps. Calls are looked at one window
later, by when they were sent: by then nearly all of them have ended. What lies between those that are looked at
together and the next ones leaves no gap: the more at a time, the fewer are overlooked, and the later it is known.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from nfslat.decode.blocks import Blocks
from nfslat.decode.capture import Source
from nfslat.decode.windows import Window, Windows
from nfslat.decode.xid_gaps import Calls, calls_of, missing_of, unanswered
from nfslat.kernels.exact import longer
from nfslat.model.decoded import Decoded
from nfslat.model.tables import I64


class Gaps:
    """Of one capture."""

    def __init__(self, least_calls: int = 0) -> None:
        """Nothing was sent; so many calls are looked at together."""
        self._least_calls = least_calls
        self.found: I64 = np.zeros(0, dtype=np.int64)  # of each connection
        self._told = self.found
        self._held: tuple[Calls, I64] | None = None
        self._until_ns: int | None = None  # what was sent before has been looked at

    def add(self, decoded: Decoded, begin_ns: int) -> None:
        """One more window, which began then: what is missing among calls that were sent before it is found.

        Those that took longer, or never had an answer, were missing before, and are taken off.
        """
        calls, sent_ns = calls_of(decoded), np.concatenate([decoded.ops.t0, unanswered(decoded).first_ns])
        late = np.zeros(len(calls.clients), dtype=np.int64)
        if self._until_ns is not None:
            is_late = sent_ns < self._until_ns
            late = np.bincount(calls.conn[is_late], minlength=len(late))
            calls, sent_ns = calls.take(~is_late), sent_ns[~is_late]
        if self._held is not None:
            before, before_ns = self._held
            calls, sent_ns = _joined(before, calls), np.concatenate([before_ns, sent_ns])
        is_due = sent_ns < begin_ns
        if np.count_nonzero(is_due) < self._least_calls:
            self._held, self.found = (calls, sent_ns), longer(self.found, -late)
            return
        self._held = calls.take(~is_due), sent_ns[~is_due]
        self._until_ns = begin_ns if self._until_ns is None else max(begin_ns, self._until_ns)
        self.found = longer(self.found, missing_of(calls.take(is_due)) - late)

    def end(self) -> None:
        """There are no more windows: what is missing among calls sent in the last one is found."""
        held, self._held = self._held, None
        if held is not None:
            self.found = longer(self.found, missing_of(held[0]))

    def told(self, connections: int) -> I64:
        """Those that were found since this was asked for last, of so many connections."""
        new = np.maximum(longer(self.found, -self._told), 0)
        self._told = longer(self._told, new)
        return longer(new[:connections], np.zeros(connections, dtype=np.int64))


class Gapped:
    """An iterator over the windows of one capture, which keeps track of its gaps."""

    def __init__(self, windows: Windows | Blocks, *, least_calls: int = 0) -> None:
        """None was read; gaps are looked for in so many calls at a time."""
        self.gaps = Gaps(least_calls)
        self._windows = windows

    @property
    def source(self) -> Source:
        """What is read; when all of it was, with what is known of its files."""
        return self._windows.source

    def is_ready(self) -> bool:
        """Does the next one come, or the end, within some ms?"""
        return self._windows.is_ready()

    def __iter__(self) -> Iterator[Window]:
        """It is its own."""
        return self

    def __next__(self) -> Window:
        """Waits for it."""
        try:
            window = next(self._windows)
        except StopIteration:
            self.gaps.end()
            raise
        self.gaps.add(window.decoded, window.begin_ns)
        return window


def _joined(before: Calls, now: Calls) -> Calls:
    """A connection's number is the same in later windows, which know of more."""
    return now._replace(
        conn=np.concatenate([before.conn, now.conn]),
        xid=np.concatenate([before.xid, now.xid]),
        is_nfs=np.concatenate([before.is_nfs, now.is_nfs]),
    )
