"""What a task leaves for others -> a file of the run's own. Here all processes map it: none has a copy.

What is unpickled was written by the run's own processes: here into a folder that is theirs and nobody else's, on a
cluster with a hash that came from who wrote it.
"""

from __future__ import annotations

import hashlib
import io
import mmap
import pickle
import struct
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, BinaryIO

import numpy as np

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
        return _loaded(memoryview(content), "")


def keep(value: Any, store: Store) -> Kept:
    """Write it to what is the run's own in `store`."""
    name = store.new()
    with store.own.writing(name) as out:
        hashed = _Hashed(out)
        write({"": value}, out if store.near else hashed)  # type: ignore[arg-type]  # a BinaryIO as far as `write` goes
    return Kept(store.own, name, "" if store.near else hashed.hash.hexdigest())


class _Hashed:
    def __init__(self, out: BinaryIO) -> None:
        self._out, self.hash = out, hashlib.sha256()

    def write(self, part: bytes) -> int:
        self.hash.update(part)
        return self._out.write(part)


class _Pickler(pickle.Pickler):
    """Columns are told in half of the time that numpy's own way takes, which asks for shape and order, too."""

    def reducer_override(self, value: Any) -> Any:
        if type(value) is not np.ndarray or value.ndim != 1 or value.dtype.isbuiltin != 1:
            return NotImplemented
        if not len(value):
            return np.empty, (0, value.dtype.str)
        return np.frombuffer, (pickle.PickleBuffer(np.ascontiguousarray(value).data), value.dtype.str)


def write(values: Mapping[str, Any], out: BinaryIO) -> None:
    """Of each the arrays, one behind the other, then all else, pickled; at the end where that is, by name."""
    places: dict[str, tuple[int, int]] = {}
    at = 0
    for name, value in values.items():
        buffers: list[pickle.PickleBuffer] = []
        head = _pickled(value, buffers.append)
        spans = []
        for buffer in buffers:
            raw = buffer.raw()
            at += out.write(bytes(-at % _ALIGN))
            spans.append((at, at + raw.nbytes))
            at += out.write(raw)
        begin, at = at, at + out.write(pickle.dumps((head, spans)))
        places[name] = begin, at
    out.write(pickle.dumps(places))
    out.write(_TAIL.pack(at))


def _pickled(value: Any, aside: Callable[[pickle.PickleBuffer], None]) -> bytes:
    def is_small(buffer: pickle.PickleBuffer) -> bool:
        if buffer.raw().nbytes < _SMALL_BYTES:
            return True  # then it goes with all else
        aside(buffer)
        return False

    with io.BytesIO() as head:
        _Pickler(head, 5, buffer_callback=is_small).dump(value)
        return head.getvalue()


def read(path: str, name: str = "") -> Any:
    """What was written there by that name."""
    with open(path, "rb") as file:
        return _loaded(memoryview(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)), name)


def _loaded(content: memoryview, name: str) -> Any:
    (at,) = _TAIL.unpack(content[-_TAIL.size :])
    begin, end = pickle.loads(content[at : -_TAIL.size])[name]  # noqa: S301  (see above)
    head, spans = pickle.loads(content[begin:end])  # noqa: S301
    return pickle.loads(head, buffers=[content[begin:end] for begin, end in spans])  # noqa: S301
