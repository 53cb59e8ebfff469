"""The files of captures -> would they take most of the memory, all at once? It is asked before each run, and again
while they are read, for files do not tell how many ops are in them."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from pathlib import Path

from nfslat.decode.capture import Source
from nfslat.errors import InputError
from nfslat.kernels.memory import available_memory, container_memory, resident_memory

# Bytes of memory for a byte of a capture: 0.25 of whole packets, 0.45 of those cut at 96 bytes (docs/scale.md).
_MEMORY, _PACKED = 0.45, 8  # times as large as the file
_MOST_OF_MEMORY = 0.6
_BEHIND = 0.5  # of what was decoded takes the rest of a run besides
_LOOK_S = 0.5
_MAGIC = (b"\x1f\x8b", b"\x28\xb5\x2f\xfd", b"BZh", b"\xfd7zX", b"\x04\x22\x4d\x18")  # gzip, zstd, bzip2, xz, lz4


def are_too_large(sources: Sequence[Source]) -> bool:
    """Would captures, all at once, take most of the memory that there is?"""
    paths = [file.path for source in sources for file in source.files]
    needs = sum(
        path.stat().st_size * _MEMORY * (_PACKED if _is_packed(path) else 1) for path in paths if path.is_file()
    )
    return needs > _MOST_OF_MEMORY * available_memory()


def while_memory_lasts(progress: Callable[[int], None], advice: str) -> Callable[[int], None]:
    """`progress` of reading captures all at once, which raises ``InputError`` with `advice` where what was decoded so
    far leaves too little memory for the rest of the run: better than to be killed without a word."""
    before, looked_s = resident_memory(), time.monotonic()

    def checked(amount: int) -> None:
        nonlocal looked_s
        progress(amount)
        if time.monotonic() < looked_s + _LOOK_S:
            return
        looked_s, now = time.monotonic(), resident_memory()
        free = min(available_memory(), container_memory() - now)
        if _BEHIND * (now - before) > free:
            raise InputError(
                f"memory is short: operations take {(now - before) / 1e9:,.1f} GB so far, and {free / 1e9:,.1f} GB is "
                f"free; {advice}"
            )

    return checked


def _is_packed(path: Path) -> bool:
    with path.open("rb") as stream:
        return stream.read(4).startswith(_MAGIC)
