"""Inputs, wherever they are -> paths that the native decoder reads one after the other.

What is remote comes through named pipes and is on no disk as a whole; only a tar of capture.sh, which has to be
unpacked, is written to the scratch folder first.
"""

from __future__ import annotations

import contextlib
import errno
import os
import shutil
import tempfile
import threading
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from io import FileIO
from pathlib import Path

from nfslat import _native
from nfslat.decode import bundle
from nfslat.decode.capture import Bundle
from nfslat.errors import InputError
from nfslat.fleet.run import remote
from nfslat.fleet.run.inputs import Input

HEAD_BYTES = 2 << 20
_PIECE_BYTES = 4 << 20
_PIPE_BYTES = 1 << 20  # Linux's limit for whoever is not root
_STOP_S, _AGAIN_S = 2.0, 0.005


@contextlib.contextmanager
def readable(inputs: Sequence[Input], scratch: Path) -> Iterator[list[Path]]:
    """Paths with the bytes of `inputs`, none of them a tar, to be read from the first to the last, each once.

    Pipes are gone when the block ends, and so is the thread that feeds them. Raises
    ``InputError``, at the end of the block at the latest, where a file cannot be read to its end.
    """
    # To make a folder and take it away again takes longer than to read a small capture.
    has_folder = any(one.is_remote for one in inputs)
    folder = Path(tempfile.mkdtemp(prefix="fetch-", dir=scratch)) if has_folder else scratch
    paths: list[Path] = []
    feed = _Feed([])
    try:
        for number, one in enumerate(inputs):
            if one.is_remote:
                pipe = folder / f"{number}.pipe"
                os.mkfifo(pipe, 0o600)
                feed.pipes.append((pipe, one))
                paths.append(pipe)
            else:
                paths.append(Path(one.url))
        feed.start()
        try:
            yield paths
        except Exception:
            # What a reader says of a file that ended too early is a consequence of why it did.
            feed.end()
            raise
        feed.end()
    finally:
        feed.stop()
        if has_folder:
            shutil.rmtree(folder, ignore_errors=True)


def head(one: Input, scratch: Path, size_bytes: int = HEAD_BYTES) -> Path:
    """A file with the first `size_bytes` of a capture (of a tar, of the first one in it).

    Raises ``InputError`` where it cannot be read.
    """
    if not one.is_tar and not one.is_remote and one.size_bytes <= size_bytes:
        return Path(one.url)
    source = one.url
    if one.is_tar:
        folder = Path(tempfile.mkdtemp(prefix="head-", dir=scratch))
        source = str(unpacked(one, folder)[0][0])
    handle, path = tempfile.mkstemp(prefix="head-", dir=scratch)
    with os.fdopen(handle, "wb") as out, _said_of(one), remote.open_stream(source) as stream:
        left = size_bytes
        while left and (piece := stream.read(min(left, _PIECE_BYTES))):
            out.write(piece)
            left -= len(piece)
    if one.is_tar:
        shutil.rmtree(folder, ignore_errors=True)
    return Path(path)


def tail(one: Input, size_bytes: int) -> bytes:
    """The last bytes of a file; none of those that can only be read from the beginning."""
    if one.is_tar or one.url.startswith(("http://", "https://")):
        return b""
    begin = max(one.size_bytes - size_bytes, 0)
    with _said_of(one):
        if one.is_remote:
            fs, path = remote.file_system(one.url)
            return bytes(fs.cat_file(path, start=begin, end=one.size_bytes))
        with remote.open_stream(one.url) as stream:
            stream.seek(begin)
            return stream.read(one.size_bytes - begin)


@dataclass
class _Feed:
    """A thread that writes remote files into pipes, in order."""

    pipes: list[tuple[Path, Input]]
    failure: Exception | None = None
    _stop: threading.Event = field(default_factory=threading.Event)
    _thread: threading.Thread | None = None

    def start(self) -> None:
        if self.pipes:
            self._thread = threading.Thread(target=self._run, name="fetch", daemon=True)
            self._thread.start()

    def stop(self) -> None:
        """Wait for its end; where the remote end does not answer, it comes by the time limit of that."""
        self._stop.set()
        end_s = time.monotonic() + _STOP_S
        while self._thread is not None and self._thread.is_alive() and time.monotonic() < end_s:
            for path, _ in self.pipes:  # that it waits for a reader of
                with contextlib.suppress(OSError):
                    os.close(os.open(path, os.O_RDONLY | os.O_NONBLOCK))
            self._thread.join(timeout=_AGAIN_S)

    def end(self) -> None:
        """Raises ``InputError`` where a file could not be read."""
        self.stop()
        if self.failure is not None:
            raise self.failure

    def _run(self) -> None:
        for path, one in self.pipes:
            if self._stop.is_set():
                return
            try:
                with path.open("wb", buffering=0) as pipe:
                    # After a failure the others are opened all the same, or their reader would wait for ever.
                    if self.failure is None:
                        _enlarge(pipe.fileno())
                        self._feed(pipe, one)
            except Exception as problem:  # it is raised by `end`, in the thread that asked for the file
                self.failure = problem

    def _feed(self, pipe: FileIO, one: Input) -> None:
        with _said_of(one), remote.open_stream(one.url) as stream:
            sent = 0
            while not self._stop.is_set() and (piece := memoryview(stream.read(_PIECE_BYTES))):
                sent += len(piece)
                try:
                    while piece:
                        piece = piece[pipe.write(piece) :]
                except BrokenPipeError:
                    return  # the reader has had enough of this one
            if not self._stop.is_set() and sent < one.size_bytes:
                raise InputError(f"ended after {sent:,} of {one.size_bytes:,} bytes; copy it again", about=one.name)


def _enlarge(pipe: int) -> None:
    import fcntl  # noqa: PLC0415  (late: for pipes only)

    with contextlib.suppress(OSError, AttributeError):  # a convenience, and Linux only
        fcntl.fcntl(pipe, fcntl.F_SETPIPE_SZ, _PIPE_BYTES)


def unpacked(one: Input, folder: Path) -> tuple[list[Path], Bundle]:
    """The captures of a tar as files in `folder`, in time order, and what else is in it."""
    path = Path(one.url)
    if one.is_remote:
        path = folder / "remote.tar"
        with path.open("wb") as out, _said_of(one), remote.open_stream(one.url) as stream:
            shutil.copyfileobj(stream, out, _PIECE_BYTES)
    captures, rest = bundle.unpack(one.name, path, folder)
    if one.is_remote:
        path.unlink()

    def first_ns(capture: Path) -> int:
        with contextlib.suppress(OSError, ValueError):
            return _native.peek(capture)[1] or 0
        return 0

    return (sorted(captures, key=first_ns) if len(captures) > 1 else captures), rest


@contextlib.contextmanager
def _said_of(one: Input) -> Iterator[None]:
    """Whatever a file system raises, as an ``InputError`` that names the file."""
    try:
        yield
    except InputError:
        raise
    except Exception as problem:  # each file system has its own
        raise InputError(_why(one, problem), about=one.name) from problem


def _why(one: Input, problem: Exception) -> str:
    if isinstance(problem, FileNotFoundError):
        return "is gone; was it moved while nfslat ran?"
    if isinstance(problem, OSError) and problem.errno in (errno.ENOSPC, errno.EDQUOT):
        return (
            f"there is no room for a part of it in {tempfile.gettempdir()}; make some, or set TMPDIR to another folder"
        )
    if not one.is_remote and isinstance(problem, OSError):
        return f"cannot be read ({problem.strerror}); check the file and its permissions"
    return f"cannot be fetched: {remote.one_line(problem)}; try again, or copy it here first"
