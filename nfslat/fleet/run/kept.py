"""What a task leaves for others -> a file of the run's own. Here all processes map it: none has a copy.

What is unpickled was written by the run's own processes: here into a folder that is theirs and nobody else's, on a
cluster with a hash that came from who wrote it.
"""

from __future__ import annotations

import hashlib
import mmap
import pickle
import struct
from dataclasses import dataclass
from typing import Any, BinaryIO

from nfslat.errors import InputError
from nfslat.fleet.run.store import Store

_ALIGN = 64
_SMALL_BYTES = 4096  # is not worth a place of its own
_TAIL = struct.Struct("<Q")


@dataclass(frozen=True)
class Kept:
    """Where it is."""

    store: Store
    name: str
    hash: str  # "": in a folder that nobody else sees

    def value(self) -> Any:
        """It, with arrays that cannot be written to. Raises ``InputError`` where it is not what was written."""
        if not self.hash:
            return read(self.store.place(self.name))
        content = self.store.read(self.name)
        if hashlib.sha256(content).hexdigest() != self.hash:
            raise InputError("is not what this run wrote", about=self.store.place(self.name))
        return _loaded(memoryview(content))


def keep(value: Any, store: Store) -> Kept:
    """Write it to what is the run's own in `store`."""
    name = store.new()
    with store.own.writing(name) as out:
        hashed = _Hashed(out)
        write(value, out if store.near else hashed)  # type: ignore[arg-type]  # a BinaryIO as far as `write` goes
    return Kept(store.own, name, "" if store.near else hashed.hash.hexdigest())


class _Hashed:
    def __init__(self, out: BinaryIO) -> None:
        self._out, self.hash = out, hashlib.sha256()

    def write(self, part: bytes) -> int:
        self.hash.update(part)
        return self._out.write(part)


def write(value: Any, out: BinaryIO) -> None:
    """The arrays, one behind the other, then all else, pickled, and where that begins."""
    buffers: list[pickle.PickleBuffer] = []

    def aside(buffer: pickle.PickleBuffer) -> bool:
        is_small = buffer.raw().nbytes < _SMALL_BYTES
        if not is_small:
            buffers.append(buffer)
        return is_small  # then it goes with all else

    head = pickle.dumps(value, protocol=5, buffer_callback=aside)
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
        return _loaded(memoryview(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)))


def _loaded(content: memoryview) -> Any:
    (at,) = _TAIL.unpack(content[-_TAIL.size :])
    head, spans = pickle.loads(content[at : -_TAIL.size])  # noqa: S301  (see above)
    return pickle.loads(head, buffers=[content[begin:end] for begin, end in spans])  # noqa: S301
