"""A source -> what ended in it, window by window of its clock: captures of any length, or still being made."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from nfslat import _native
from nfslat.decode.capture import Source, refuse_stored
from nfslat.decode.native import decoded, facts_of, readable, refused, was_read
from nfslat.decode.tools import Tools
from nfslat.model.decoded import Decoded
from nfslat.model.protocol import RANK_ACTION, op_ranks


@dataclass(frozen=True)
class Window:
    """What ended from `begin_ns` on, and before `end_ns`, on the clock of the capture. Calls that wait come later; the
    last window has what was never answered.

    Connections, kinds, names and sessions are those of all windows so far, with the same numbers. TCP's table, and what
    was lost, is of all packets so far; what else is counted is of this window.
    """

    begin_ns: int
    end_ns: int
    decoded: Decoded


class Windows:
    """An iterator over the windows of a source, each as soon as packets are some seconds later.

    Reading begins at once, so that who writes into a FIFO need not wait. Where the source cannot be read on, the next
    one is an ``InputError``.
    """

    def __init__(self, source: Source, tools: Callable[[], Tools], width_ns: int) -> None:
        """`width_ns`: of a window, in ns of the capture's clock."""
        refuse_stored(source)
        self.source = source  # when all was read, with what is known of its files
        self.facts: dict[str, Any] = {}  # then: fields of `nfslat.model.decoded.Facts` that files tell
        self._stack = contextlib.ExitStack()
        job = self._job = _native.Job()
        paths = [self._stack.enter_context(readable(file, tools)) for file in source.files]
        self._stack.callback(job.stop)
        ranks = op_ranks(callback=False), op_ranks(callback=True)
        self._stream = _native.Windows(paths, width_ns, *ranks, RANK_ACTION, job)

    @property
    def bytes(self) -> int:
        """Read so far, compressed as the files are."""
        return self._job.bytes

    def is_ready(self) -> bool:
        """Does the next one come, or the end, within some ms?"""
        return self._stream.ready()

    def __iter__(self) -> Iterator[Window]:
        """It is its own."""
        return self

    def __next__(self) -> Window:
        """Waits for it."""
        try:
            taken = self._stream.take()
        except (OSError, ValueError) as problem:
            self.close()
            raise refused(self.source, problem) from problem
        if taken is None:
            if files := self._stream.files:
                self.source = was_read(self.source, files)
                self.facts = facts_of(self.source, files) if self.source.files else {}
            self.close()
            raise StopIteration
        begin_ns, end_ns, found = taken
        facts = {"first_ns": found.first_ns, "last_ns": found.last_ns, "cut_short": False}
        return Window(begin_ns, end_ns, decoded(found, **facts))

    def close(self) -> None:
        """No more of it is read."""
        self._stack.close()
