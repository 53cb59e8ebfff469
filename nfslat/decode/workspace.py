"""Capture arguments -> what one run works with: an engine, the sources, a progress bar, a scratch directory."""

from __future__ import annotations

import contextlib
import os
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from functools import cache
from pathlib import Path
from threading import Lock

from nfslat.decode.capture import Source
from nfslat.decode.engine import Engine, choose
from nfslat.decode.tools import Tools, find_tools
from nfslat.errors import InputError, UsageError
from nfslat.model.record import Record
from nfslat.model.segments import Wanted


class Workspace(Record):
    """Everything in it lives as long as the `open_workspace` block."""

    engine: Engine
    sources: tuple[Source, ...]
    progress: Callable[[int], None]  # takes what was read since the last call, in the engine's unit
    close_progress: Callable[[], None]


@contextlib.contextmanager
def open_workspace(
    captures: Sequence[str],
    *,
    engine: str | None,
    quiet: bool,
    rereads: bool = False,
    segments: Wanted = Wanted.NONE,
    files: bool = True,
) -> Iterator[Workspace]:
    """Choose the engine, resolve the captures, and show progress on standard error if that is a terminal.

    `rereads`: the captures are looked at once more after they were decoded, so that standard input is kept in a file.
    `segments`: which of TCP connections are wanted; `files`: whether what replies say of files is.
    The scratch directory (what only tshark needs, what is kept of a pipe) is gone when the block ends, come what may.
    Raises ``UsageError`` for standard input given twice, ``InputError`` for one file given twice, and what `choose`
    and the engine raise.
    """
    if list(captures).count("-") > 1:
        raise UsageError("standard input ('-') can be only one of the two captures")
    with contextlib.ExitStack() as stack:
        scratch = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="nfslat-")))

        tools = _once(lambda: find_tools(scratch))
        chosen = choose(engine, tools, scratch, rereads=rereads, segments=segments, files=files)
        sources = tuple(chosen.open(capture) for capture in captures)
        _refuse_one_file_twice(sources)
        progress, close = (
            _bar(stack, chosen, sources)
            if not quiet and sys.stderr is not None and sys.stderr.isatty()
            else (_silent, _closed)
        )
        yield Workspace(chosen, sources, progress, close)


def _once(find: Callable[[], Tools]) -> Callable[[], Tools]:
    """Ask one time, whichever of the threads asks first: starting tshark takes a while."""
    lock = Lock()
    cached = cache(find)

    def tools() -> Tools:
        with lock:
            return cached()

    return tools


def _bar(
    stack: contextlib.ExitStack, engine: Engine, sources: Sequence[Source]
) -> tuple[Callable[[int], None], Callable[[], None]]:
    from tqdm import tqdm  # noqa: PLC0415  (late: most runs show no bar, and its import takes time)

    bar = stack.enter_context(
        tqdm(
            total=sum(map(engine.total, sources)) or None,
            desc="reading",
            unit=engine.unit,
            unit_scale=True,
            leave=False,
            file=sys.stderr,
        )
    )
    lock = Lock()  # two captures are read at once

    def progress(amount: int) -> None:
        with lock:
            bar.update(amount)

    return progress, bar.close


def _silent(_: int) -> None:
    """No bar."""


def _closed() -> None:
    """No bar to close."""


def _refuse_one_file_twice(sources: Sequence[Source]) -> None:
    if len(sources) < 2:
        return
    first = {os.path.realpath(file.path): file.name for file in sources[0].files}
    for file in sources[1].files:
        if os.path.realpath(file.path) in first:
            raise InputError(
                f"{file.name} is given twice; give the capture taken on the server and the one taken on the client"
            )
