"""A result that only other tasks need -> a file of the run's own, which all of its processes map: no copy for each."""

from __future__ import annotations

import mmap
import os
import pickle
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

_ALIGN = 64


@dataclass(frozen=True)
class Kept:
    """Where it is. The folder is the run's own and nobody else's: what is unpickled was written by its processes."""

    path: str
    head: bytes  # pickled, without the arrays
    spans: tuple[tuple[int, int], ...]  # of the arrays, in bytes

    def value(self) -> Any:
        """It, with arrays that cannot be written to."""
        mapped = memoryview(b"")
        if any(end > begin for begin, end in self.spans):  # an empty file cannot be mapped
            with open(self.path, "rb") as file:
                mapped = memoryview(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ))
        arrays = [mapped[begin:end] for begin, end in self.spans]
        return pickle.loads(self.head, buffers=arrays)  # noqa: S301  (see above)


def keep(value: Any, folder: Path) -> Kept:
    """Write it there."""
    buffers: list[pickle.PickleBuffer] = []
    head = pickle.dumps(value, protocol=5, buffer_callback=buffers.append)
    spans = []
    out = tempfile.NamedTemporaryFile(dir=folder, prefix="kept-", delete=False)  # noqa: SIM115  (closed below)
    try:
        with out:
            for buffer in buffers:
                out.write(bytes(-out.tell() % _ALIGN))
                begin = out.tell()
                out.write(buffer.raw())
                spans.append((begin, out.tell()))
    except BaseException as problem:
        os.unlink(out.name)
        if isinstance(problem, OSError) and problem.errno is not None:
            raise OSError(problem.errno, os.strerror(problem.errno), str(folder)) from problem
        raise
    return Kept(out.name, head, tuple(spans))
