"""A source -> what ended in it, window by window of its clock: captures of any length, or still being made."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from nfslat import _native
from nfslat.decode.capture import Source, refuse_stored
from nfslat.decode.native import decoded, readable, refused
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


def windows(source: Source, tools: Callable[[], Tools], width_ns: int) -> Iterator[Window]:
    """Each as soon as packets are some seconds later. Raises ``InputError`` where the source cannot be read on."""
    refuse_stored(source)
    job = _native.Job()
    with contextlib.ExitStack() as stack:
        paths = [stack.enter_context(readable(file, tools)) for file in source.files]
        stack.callback(job.stop)
        ranks = op_ranks(callback=False), op_ranks(callback=True)
        stream = _native.Windows(paths, width_ns, *ranks, RANK_ACTION, job)
        try:
            while (taken := stream.take()) is not None:
                begin_ns, end_ns, found = taken
                facts = {"first_ns": found.first_ns, "last_ns": found.last_ns, "cut_short": False}
                yield Window(begin_ns, end_ns, decoded(found, **facts))
        except (OSError, ValueError) as problem:
            raise refused(source, problem) from problem
