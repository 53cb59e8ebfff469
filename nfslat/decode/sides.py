"""Capture files -> what was decoded of each, on one clock: one side, or both at once."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Sequence
from functools import partial
from queue import Empty, SimpleQueue
from threading import Event, Thread
from typing import TYPE_CHECKING

from nfslat.decode.capture import Source
from nfslat.decode.directions import find_directions, on_one_clock
from nfslat.decode.engine import Engine
from nfslat.decode.protocols import has_other_calls, refuse_without_nfs
from nfslat.model.decoded import Decoded

if TYPE_CHECKING:
    from nfslat.decode.blocks import Blocks

_AWAKE_S = 0.2
_STOP_S = 2.0  # until a decoder that was stopped has ended

Progress = Callable[[int], None]  # is told how much more was read, in the engine's unit
Read = tuple[Source, Decoded]


def decode(source: Source, engine: Engine, progress: Progress, *, all_programs: bool = False) -> Read:
    """One capture. Raises ``InputError`` where it holds no NFS, nor, with `all_programs`, calls of another program."""
    seen = 0

    def more(amount: int) -> None:
        nonlocal seen
        progress(amount - seen)
        seen = amount

    return _checked(engine.decode(source, more), engine, all_programs=all_programs)


def _checked(read: Read, engine: Engine, *, all_programs: bool) -> Read:
    """On one clock. Raises ``InputError`` as `decode` does."""
    source, decoded = read
    if not (all_programs and has_other_calls(decoded)):
        refuse_without_nfs(source, decoded, engine.tools)
    return source, of_one_clock(decoded)


def of_one_clock(decoded: Decoded) -> Decoded:
    """The same, where the file has two clocks for what was sent and what was received; else `decoded`."""
    if decoded.directions is None and (directions := find_directions(decoded.ops)) is not None:
        return on_one_clock(decoded, directions)
    return decoded


class TooManyOpsError(Exception):
    """Two captures hold more operations than were to be joined: those that were read are held by `blocks`, of the
    server's capture and the client's, which go on; `again` reads either of them once more, in as large blocks."""

    def __init__(self, blocks: tuple[Blocks, Blocks], again: Callable[[Source], Blocks]) -> None:
        super().__init__("too many operations")
        self.blocks, self.again = blocks, again


def decode_up_to(
    most_ops: int,
    server: Source,
    client: Source,
    engine: Engine,
    progress: Progress,
    *,
    all_programs: bool = False,
) -> tuple[Read, Read]:
    """`decode_both`, as long as both captures hold `most_ops` at most. Raises `TooManyOpsError` where they hold more;
    what an engine that reads captures as a whole decodes, what was decoded before, and tars have no bound."""
    if engine.blocks is None or any(side.stored or side.bundle for side in (server, client)):
        return decode_both(server, client, engine, progress, all_programs=all_programs)
    blocks_of = partial(engine.blocks, first_ops=most_ops)
    blocks = blocks_of(server), blocks_of(client)
    try:
        _hold(blocks, most_ops, progress)
        sides = [side.whole() for side in blocks] if all(side.is_over for side in blocks) else None
    except BaseException:
        for side in blocks:
            side.close()
        raise
    if sides is None:
        raise TooManyOpsError(blocks, blocks_of)
    of_server, of_client = (_checked(side, engine, all_programs=all_programs) for side in sides)
    return of_server, of_client


def _hold(blocks: Sequence[Blocks], most_ops: int, progress: Progress) -> None:
    """Whichever side has a block gives it, so that none who writes into a pipe is left waiting."""
    read = 0
    while open_ones := [side for side in blocks if not side.is_over]:
        for side in open_ones:
            if side.can_hold():
                side.hold()
        now = sum(side.bytes for side in blocks)
        progress(now - read)
        read = now
        if max(side.ops for side in blocks) > most_ops:
            return


class _Stopped(Exception):
    """The other side failed, or the user has had enough."""


def decode_both(
    server: Source, client: Source, engine: Engine, progress: Progress, *, all_programs: bool = False
) -> tuple[Read, Read]:
    """Each in a thread of its own; the first problem of either, or Ctrl-C, stops the other, too."""
    stop = Event()
    # Ctrl-C may leave a lock of Python's own locked, as those of its pools are, so that who waits for it waits for
    # ever; and before a wait without a limit it is not heard. This queue has no such lock.
    ended: SimpleQueue[tuple[int, Read | BaseException]] = SimpleQueue()
    found: dict[int, Read | BaseException] = {}

    def checked(amount: int) -> None:
        if stop.is_set():
            raise _Stopped
        progress(amount)

    def read(number: int, source: Source) -> None:
        try:
            ended.put((number, decode(source, engine, checked, all_programs=all_programs)))
        except BaseException as problem:  # is raised where it is waited for
            ended.put((number, problem))

    running = 0
    try:
        for number, source in enumerate((server, client)):
            Thread(target=read, args=(number, source), daemon=True).start()
            running += 1
        while running:
            with contextlib.suppress(Empty):
                number, one = ended.get(timeout=_AWAKE_S)
                found[number], running = one, running - 1
                if isinstance(one, BaseException):
                    stop.set()
    except BaseException:
        stop.set()
        for _ in range(running):
            with contextlib.suppress(Empty):
                ended.get(timeout=_STOP_S)
        raise
    sides: list[Read] = []
    for number in (0, 1):
        one = found[number]
        if not isinstance(one, BaseException):
            sides.append(one)
        elif not isinstance(one, _Stopped):
            raise one
    return sides[0], sides[1]
