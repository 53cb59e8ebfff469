"""A value -> a file of the run's own, which all of its processes map: no copy for each of them.

What is unpickled was written by the run's own processes, into a folder that is theirs and nobody else's.
"""

from __future__ import annotations

import mmap
import os
import pickle
import struct
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

_ALIGN = 64
_TAIL = struct.Struct("<Q")


@dataclass(frozen=True)
class Kept:
    """A result that only other tasks need."""

    path: str

    def value(self) -> Any:
        """It, with arrays that cannot be written to."""
        return read(self.path)


def keep(value: Any, folder: Path) -> Kept:
    """Write it there, under a name of its own."""
    out = tempfile.NamedTemporaryFile(dir=folder, prefix="kept-", delete=False)  # noqa: SIM115  (closed below)
    try:
        with out:
            write(value, out)  # type: ignore[arg-type]  # a BinaryIO in all but name
    except BaseException as problem:
        os.unlink(out.name)
        if isinstance(problem, OSError) and problem.errno is not None:
            raise OSError(problem.errno, os.strerror(problem.errno), str(folder)) from problem
        raise
    return Kept(out.name)


def write(value: Any, out: BinaryIO) -> None:
    """The arrays, one behind the other, then all else, pickled, and where that begins."""
    buffers: list[pickle.PickleBuffer] = []
    head = pickle.dumps(value, protocol=5, buffer_callback=buffers.append)
    spans = []
    at = 0
    for buffer in buffers:
        raw = buffer.raw()
        at += out.write(bytes(-at % _ALIGN))
        spans.append((at, at + raw.nbytes))
        at += out.write(raw)
    out.write(pickle.dumps((head, spans)))
    out.write(_TAIL.pack(at))


def read(path: str) -> Any:
    """What was written there."""
    with open(path, "rb") as file:
        mapped = memoryview(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ))
    (at,) = _TAIL.unpack(mapped[-_TAIL.size :])
    head, spans = pickle.loads(mapped[at : -_TAIL.size])  # noqa: S301  (see above)
    return pickle.loads(head, buffers=[mapped[begin:end] for begin, end in spans])  # noqa: S301
