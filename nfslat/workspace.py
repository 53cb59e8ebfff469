"""Capture arguments -> what one run works with: Wireshark's tools, the sources, a progress bar, a scratch directory."""

from __future__ import annotations

import contextlib
import os
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from threading import Lock

from tqdm import tqdm

from nfslat.decode.capture import Source, open_source
from nfslat.decode.tools import Tools, find_tools
from nfslat.errors import InputError, UsageError


@dataclass(frozen=True)
class Workspace:
    """Everything in it lives as long as the `open_workspace` block."""

    tools: Tools
    sources: tuple[Source, ...]
    progress: Callable[[int], None]  # takes the number of packets read since the last call
    close_progress: Callable[[], None]


@contextlib.contextmanager
def open_workspace(captures: Sequence[str], *, quiet: bool) -> Iterator[Workspace]:
    """Find the tools, resolve the captures, and show progress on standard error if that is a terminal.

    The scratch directory (decompressed bzip2 and xz, standard input) is gone when the block ends, whatever happens.
    Raises ``UsageError`` for standard input given twice, ``InputError`` for one file given twice, and what
    `find_tools` and `open_source` raise.
    """
    if list(captures).count("-") > 1:
        raise UsageError("standard input ('-') can be only one of the two captures")
    with contextlib.ExitStack() as stack:
        scratch = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="nfslat-")))
        tools = find_tools(scratch)
        sources = tuple(open_source(capture, tools, scratch) for capture in captures)
        _refuse_one_file_twice(sources)
        bar = stack.enter_context(
            tqdm(
                total=sum(source.packets for source in sources),
                desc="reading",
                unit=" packets",
                unit_scale=True,
                leave=False,
                disable=quiet or not sys.stderr.isatty(),
                file=sys.stderr,
            )
        )
        lock = Lock()  # two captures are read at once

        def progress(packets: int) -> None:
            with lock:
                bar.update(packets)

        yield Workspace(tools, sources, progress, bar.close)


def _refuse_one_file_twice(sources: Sequence[Source]) -> None:
    if len(sources) < 2:
        return
    first = {os.path.realpath(file.path): file.name for file in sources[0].files}
    for file in sources[1].files:
        if os.path.realpath(file.path) in first:
            raise InputError(
                f"{file.name} is given twice; give the capture taken on the server and the one taken on the client"
            )
