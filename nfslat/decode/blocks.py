"""A source -> its operations in blocks, each as soon as it has been read; and all blocks of a capture -> the capture.

A block is a window of the capture's clock that holds so many operations at least (`Windows`). The first one may hold
`nfslat.decode.capture.MOST_JOINED_OPS`, so that nearly all captures are one block, and nothing has to be joined. Joined
blocks are, table by table, what one block of the whole capture is: how a capture was cut changes nothing.
"""

from __future__ import annotations

import dataclasses
import os
from collections import deque
from collections.abc import Callable, Iterator

import numpy as np
from msgspec import structs

from nfslat.decode.capture import UNBOUNDED, Source, refuse_empty
from nfslat.decode.in_line import in_line
from nfslat.decode.tools import Tools
from nfslat.decode.windows import Window, Windows
from nfslat.errors import UsageError
from nfslat.model.decoded import Decoded
from nfslat.model.segments import Wanted
from nfslat.model.tables import CALL_SHOWN_LAST, REPLY_SHOWN_LAST
from nfslat.model.units import NS_PER_S

BLOCK_OPS = "NFSLAT_BLOCK_OPS"  # in the environment, for experiments and tests: operations of a block, at least
_FLAT_COLUMNS = ("direction", "transmissions", "status", "accept", "flags")  # columns that no compiled loop reads
_WIDTH_NS = NS_PER_S
_ASKED_WIDTH_NS = NS_PER_S // 1000  # of a block that the environment asks for


def block_ops() -> int | None:
    """How many operations a block is asked to have; None: nobody asks. Raises ``UsageError`` for what is no number."""
    text = os.environ.get(BLOCK_OPS, "")
    if not text:
        return None
    if not text.isascii() or not text.isdigit() or not int(text):
        raise UsageError(f"{BLOCK_OPS}={text}: give a number of operations, 200000 for example")
    return int(text)


class Blocks:
    """The blocks of one capture. They can be held as they come, to be joined, or to be handed out later.

    Reading begins at once.
    """

    def __init__(
        self,
        source: Source,
        tools: Callable[[], Tools],
        *,
        segments: Wanted = Wanted.NONE,
        files: bool = True,
        first_ops: int = UNBOUNDED,
    ) -> None:
        """`segments`, `files`: as of `Windows`. `first_ops`: of the first block, at least."""
        least_ops = block_ops()
        self._windows = Windows(
            source,
            tools,
            _WIDTH_NS if least_ops is None else _ASKED_WIDTH_NS,
            first_ops=least_ops or first_ops,
            least_ops=least_ops or 0,
            segments=segments,
            files=files,
        )
        self._held: deque[Window] = deque()
        self.ops = 0  # of those that are held

    @property
    def source(self) -> Source:
        """The capture; when all of it was read, with what is known of its files."""
        return self._windows.source

    @property
    def bytes(self) -> int:
        """How much was read so far, compressed as the files are."""
        return self._windows.bytes

    @property
    def is_over(self) -> bool:
        """Was all of it read?"""
        return self._windows.is_over

    @property
    def facts(self) -> dict[str, object]:
        """When all was read, what its files tell: fields of `nfslat.model.decoded.Facts`."""
        return self._windows.facts

    def is_ready(self) -> bool:
        """Does the next one come, or the end, within some ms?"""
        return bool(self._held) or self._windows.is_ready()

    def can_hold(self) -> bool:
        """Does the next one that is not held come, or the end, within some ms?"""
        return self._windows.is_ready()

    def hold(self) -> None:
        """Read one more, or the end; it waits for either. Raises ``InputError`` where the source cannot be read on."""
        window = next(self._windows, None)
        if window is not None:
            self._held.append(window)
            self.ops += len(window.decoded.ops)

    def __iter__(self) -> Iterator[Window]:
        """Those that are held come first."""
        return self

    def __next__(self) -> Window:
        """It waits for the next one."""
        if not self._held:
            return next(self._windows)
        window = self._held.popleft()
        self.ops -= len(window.decoded.ops)
        return window

    def whole(self) -> tuple[Source, Decoded]:
        """All blocks as one capture, when all of it was read; they are held no longer. Raises ``InputError`` where it
        has no packets."""
        if not self.source.files:
            refuse_empty(self.source.name)
        parts = [window.decoded for window in self._held]
        self._held.clear()
        decoded = structs.replace(in_line(parts), **self._windows.facts)
        parts.clear()
        details = structs.replace(decoded.details, callers=decoded.details.callers.compact("uid"))
        decoded = structs.replace(decoded, ops=decoded.ops.compact(*_FLAT_COLUMNS), details=details)
        is_cut = any(file.snaplen is not None for file in self.source.files)
        return self.source, _as_shown(decoded, is_cut=is_cut)

    def close(self) -> None:
        """No more of it is read."""
        self._windows.close()


def decode(
    source: Source,
    tools: Callable[[], Tools],
    progress: Callable[[int], None],
    *,
    segments: Wanted = Wanted.NONE,
    files: bool = True,
) -> tuple[Source, Decoded]:
    """Decode all of `source`; `progress` is called with the bytes read so far, and may raise to end it. `segments`:
    which of its TCP connections are wanted; `files`: whether `Details.files` is.

    Returns the source with what is known of its files now. Raises ``InputError`` where nothing can be read.
    """
    blocks = Blocks(source, tools, segments=segments, files=files)
    try:
        while not blocks.is_over:
            while not blocks.can_hold():
                progress(blocks.bytes)
            blocks.hold()
        progress(blocks.bytes)
        return blocks.whole()
    finally:
        blocks.close()


def _as_shown(decoded: Decoded, *, is_cut: bool) -> Decoded:
    """A dissector that puts a message together shows it where it is complete; one that sees cut packets, where it
    begins. Only the end of a capture tells whether packets of it are cut."""
    both = CALL_SHOWN_LAST | REPLY_SHOWN_LAST
    flags = decoded.ops.flags
    right = flags & ~np.uint8(both) if is_cut else flags | np.uint8(both)
    if np.array_equal(right, flags):
        return decoded
    return dataclasses.replace(decoded, ops=dataclasses.replace(decoded.ops, flags=right))
