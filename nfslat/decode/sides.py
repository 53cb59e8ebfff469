"""Capture files -> what was decoded of each, on one clock: one side, or both at once."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from queue import Empty, SimpleQueue
from threading import Event

from nfslat.decode.capture import Source
from nfslat.decode.directions import find_directions, on_one_clock
from nfslat.decode.engine import Engine
from nfslat.decode.protocols import has_other_calls, refuse_without_nfs
from nfslat.model.decoded import Decoded

_AWAKE_S = 0.2

Progress = Callable[[int], None]  # is told how much more was read, in the engine's unit
Read = tuple[Source, Decoded]


def decode(source: Source, engine: Engine, progress: Progress, *, all_programs: bool = False) -> Read:
    """One capture. Raises ``InputError`` where it holds no NFS, nor, with `all_programs`, calls of another program."""
    seen = 0

    def more(amount: int) -> None:
        nonlocal seen
        progress(amount - seen)
        seen = amount

    source, decoded = engine.decode(source, more)
    if not (all_programs and has_other_calls(decoded)):
        refuse_without_nfs(source, decoded, engine.tools)
    return source, of_one_clock(decoded)


def of_one_clock(decoded: Decoded) -> Decoded:
    """The same, where the file has two clocks for what was sent and what was received; else `decoded`."""
    if decoded.directions is None and (directions := find_directions(decoded.ops)) is not None:
        return on_one_clock(decoded, directions)
    return decoded


class _Stopped(Exception):
    """The other side failed, or the user has had enough."""


def decode_both(
    server: Source, client: Source, engine: Engine, progress: Progress, *, all_programs: bool = False
) -> tuple[Read, Read]:
    """Each in a thread of its own; the first problem of either, or Ctrl-C, stops the other, too."""
    stop = Event()
    ended: SimpleQueue[bool] = SimpleQueue()  # whether it was read

    def checked(amount: int) -> None:
        if stop.is_set():
            raise _Stopped
        progress(amount)

    def read(source: Source) -> Read:
        is_read = False
        try:
            found = decode(source, engine, checked, all_programs=all_programs)
            is_read = True
            return found
        finally:
            ended.put(is_read)

    with ThreadPoolExecutor(max_workers=2) as pool:
        try:
            sides = [pool.submit(read, source) for source in (server, client)]
            if not all(_awaited(ended) for _ in sides):
                stop.set()
        except BaseException:
            stop.set()
            raise
    for side in sides:
        problem = side.exception()
        if problem is not None and not isinstance(problem, _Stopped):
            raise problem
    return sides[0].result(), sides[1].result()


def _awaited(ended: SimpleQueue[bool]) -> bool:
    """The next of them. A signal that comes just before a wait without a limit would not be heard until that is over;
    and one that comes within a lock of Python's own leaves it locked, which this queue has not."""
    while True:
        try:
            return ended.get(timeout=_AWAKE_S)
        except Empty:
            pass
