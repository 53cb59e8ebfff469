"""Bytes that are unpacked, or come by a pipe -> a file in the scratch folder, as long as there is room and reason."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterable
from pathlib import Path

from nfslat.confined import number_of
from nfslat.errors import InputError

RESERVE_BYTES = 16 << 20  # of the scratch disk, for whoever else writes there
_LOOK_BYTES = 64 << 20  # between two looks at the disk
# As `native/src/source.rs` has them. Captures of nothing but zeros come to some 600 times their packed size.
_ANY_BYTES, _RATIO, _RATIO_NAME = 1 << 30, 2000, "NFSLAT_UNPACK_RATIO"


def keep(chunks: Iterable[bytes], target: Path, name: str, packed_bytes: int | None = None) -> None:
    """Write `chunks` to `target`; `name` is what the user calls their source, of `packed_bytes` (None: not packed).

    Raises ``InputError`` where the disk would be full, or where so much comes out of so little that it is no capture.
    """
    ratio = number_of(_RATIO_NAME, _RATIO)
    written, looked = 0, -_LOOK_BYTES
    with target.open("wb") as out:
        for chunk in chunks:
            written += len(chunk)
            if written - looked >= _LOOK_BYTES:
                refuse_no_room(len(chunk) + min(_LOOK_BYTES, written), target.parent, name)
                looked = written
            if packed_bytes is not None and written > max(_ANY_BYTES, ratio * packed_bytes):
                raise InputError(
                    f"unpacks to over {ratio:,} times its size; if it is a capture all the same, set {_RATIO_NAME}",
                    about=name,
                )
            out.write(chunk)


def refuse_no_room(size: int, folder: Path, name: str) -> None:
    """Raise ``InputError`` where `size` bytes more would not leave the reserve."""
    free = shutil.disk_usage(folder).free - RESERVE_BYTES
    if size > free:
        raise InputError(
            f"{f'needs {size >> 20:,} MiB' if size >> 20 else 'does not fit'} in {tempfile.gettempdir()}, which has "
            f"{max(free, 0) >> 20:,} MiB; set TMPDIR to a folder with more",
            about=name,
        )
