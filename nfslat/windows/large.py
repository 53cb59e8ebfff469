"""The files of captures -> would they take most of the memory, all at once? It is asked before each run."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from nfslat.decode.capture import Source
from nfslat.kernels.memory import available_memory

# Bytes of memory for a byte of a capture: 0.25 of whole packets, 0.45 of those cut at 96 bytes (docs/scale.md).
_MEMORY, _PACKED = 0.45, 8  # times as large as the file
_MOST_OF_MEMORY = 0.6
_MAGIC = (b"\x1f\x8b", b"\x28\xb5\x2f\xfd", b"BZh", b"\xfd7zX", b"\x04\x22\x4d\x18")  # gzip, zstd, bzip2, xz, lz4


def are_too_large(sources: Sequence[Source]) -> bool:
    """Would captures, all at once, take most of the memory that there is?"""
    paths = [file.path for source in sources for file in source.files]
    needs = sum(
        path.stat().st_size * _MEMORY * (_PACKED if _is_packed(path) else 1) for path in paths if path.is_file()
    )
    return needs > _MOST_OF_MEMORY * available_memory()


def _is_packed(path: Path) -> bool:
    with path.open("rb") as stream:
        return stream.read(4).startswith(_MAGIC)
