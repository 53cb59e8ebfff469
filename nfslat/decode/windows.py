"""A source -> what ended in it, window by window of its clock: captures of any length, or still being made."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from nfslat.decode.capture import Source, refuse_stored
from nfslat.decode.native import decoded, facts_of, readable, refused, was_read
from nfslat.decode.tools import Tools
from nfslat.kernels.compiled import native as _native
from nfslat.model.decoded import Decoded
from nfslat.model.protocol import RANK_ACTION, op_ranks
from nfslat.model.record import Record
from nfslat.model.segments import Wanted


class Window(Record):
    """What ended from `begin_ns` on, and before `end_ns`, on the clock of the capture. Calls that wait come later; the
    last window has what was never answered.

    Connections, kinds, names and sessions are those of all windows so far, with the same numbers. TCP's table, and what
    was lost, is of all packets so far; what else is counted is of this window.
    """

    begin_ns: int
    end_ns: int
    decoded: Decoded


class Written(Record):
    """Packets that were written, and when the first and the last of them were captured."""

    packets: int
    first_ns: int
    last_ns: int


class Windows:
    """An iterator over the windows of a source, each as soon as packets are some seconds later.

    It ends where `renew` takes effect, too: then it goes on with windows whose numbers are others (`is_over`).

    Reading begins at once, so that who writes into a FIFO need not wait. Where the source cannot be read on, the next
    one is an ``InputError``.
    """

    def __init__(
        self,
        source: Source,
        tools: Callable[[], Tools],
        width_ns: int,
        *,
        ring_bytes: int | None = None,
        first_ops: int = 0,
        least_ops: int = 0,
        segments: Wanted = Wanted.NONE,
        files: bool = True,
    ) -> None:
        """`width_ns`: of a window, in ns of the capture's clock. `ring_bytes`: of the newest packets, which can be
        written; None: none are, and nothing can be renewed. Windows are as many widths long as it takes for the first
        one to hold `first_ops` operations, and each other `least_ops`. The last one has the `segments`, of all
        windows."""
        refuse_stored(source)
        self.source = source  # when all was read, with what is known of its files
        self.facts: dict[str, Any] = {}  # then: fields of `nfslat.model.decoded.Facts` that files tell
        self.is_over = False
        self.renewals = 0  # ends that were none of the source
        self._is_renewed = False
        self._stack = contextlib.ExitStack()
        job = self._job = _native.Job()
        paths = [self._stack.enter_context(readable(file, tools)) for file in source.files]
        self._stack.callback(job.stop)
        ranks = op_ranks(callback=False), op_ranks(callback=True)
        self._stream = _native.Windows(
            paths, width_ns, *ranks, RANK_ACTION, job, ring_bytes, first_ops, least_ops, segments, files
        )

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
        if self._is_renewed:
            self._is_renewed = False
            self.renewals += 1
            raise StopIteration
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
            self.is_over = True
            raise StopIteration
        begin_ns, end_ns, self._is_renewed, found = taken
        facts = {"first_ns": found.first_ns, "last_ns": found.last_ns, "cut_short": False}
        return Window(begin_ns, end_ns, decoded(found, **facts))

    @property
    def newest_ns(self) -> int | None:
        """Time of the newest packet that was read."""
        return self._stream.newest_ns

    @property
    def is_worn(self) -> bool:
        """Was so much read that what is known of connections and packets has no room one day?"""
        return self._stream.is_worn

    def renew(self, t_ns: int) -> None:
        """With the first packet of this time all that is known of connections begins anew, and so do numbers."""
        self._stream.renew(t_ns)

    def write_packets(self, path: Path, span_ns: tuple[int, int], later_ns: int, name: str) -> Written:
        """Those of this time that are still held, as pcapng with times so much later, on interfaces of this name."""
        return Written(*self._stream.write_packets(path, *span_ns, later_ns, name))

    def close(self) -> None:
        """No more of it is read."""
        self._stack.close()
