"""A file that is being written, or a set of them as `tcpdump -C`, `-G`, `-W` and `dumpcap -b` write -> its packets.

Files follow one another in the order of their first packets, and the last one grows. Each is read to its end before the
next one is begun. A file that is written anew counts as another one; what was overwritten or deleted unread is a gap.
"""

from __future__ import annotations

import contextlib
import glob
import os
import threading
from dataclasses import dataclass
from pathlib import Path

from nfslat.errors import InputError
from nfslat.live.sources.feed import Feed
from nfslat.live.sources.splice import Splice

_LOOK_S = 0.2
_CHUNK_BYTES = 1 << 20
_HEAD_BYTES = 1 << 16  # in which the first packet begins
_MARK_BYTES = 40  # of a file, by which it is known: its header, and when its first packet came
_PACKED = (".gz", ".bz2", ".xz", ".zst", ".lz4")  # by what rotates them: their packets were in a file that was read

_Stat = tuple[int, int, int, int]


@dataclass(frozen=True, order=True)
class _File:
    """One that has a packet. The same name may be another one later."""

    first_ns: int
    path: str
    inode: tuple[int, int]


class Follower:
    """Reads the files of one side."""

    def __init__(self, side: str, argument: str, readers: int = 1) -> None:
        """Begin to read: a file, a folder, or a pattern. Raises ``InputError``."""
        path = Path(argument)
        self._is_one = path.is_file() or not (path.is_dir() or glob.has_magic(argument))
        if self._is_one and not path.is_file():
            problem = "is no file that could grow" if path.exists() else "no such file"
            raise InputError(f"{problem}; --follow takes a file, a folder, or a pattern", about=argument)
        self.feed = Feed(side, argument, readers)
        self._pattern = os.path.join(glob.escape(argument), "*") if path.is_dir() else argument
        self._known: dict[str, tuple[_Stat, int | None]] = {}  # of a file as it was then, its first packet
        self._now: _File | None = None  # is read, or was last
        self._waiting: frozenset[_File] = frozenset()
        self._is_over = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True, name=f"follows the {side}")
        self._thread.start()

    def close(self) -> None:
        """Nothing is read any more."""
        self._is_over.set()
        self.feed.close()
        self._thread.join(_LOOK_S * 10)

    def _run(self) -> None:
        problem = None
        try:
            while not self._is_over.is_set():
                self._look()
                if self._waiting:
                    self._now = min(self._waiting)
                    self._waiting -= {self._now}
                    self._read(self._now)
                else:
                    self._is_over.wait(_LOOK_S)
        except InputError as caught:
            problem = caught
        except OSError:  # nobody reads any more
            pass
        self.feed.end(problem)

    def _read(self, file: _File) -> None:
        """Read all of a file, until another one follows it."""
        with contextlib.ExitStack() as stack:
            try:
                stream = stack.enter_context(open(file.path, "rb"))
                mark = os.pread(stream.fileno(), _MARK_BYTES, 0)
            except OSError as problem:
                self.feed.lose(f"{file.path}: {problem.strerror}")
                return
            self.feed.begin()
            is_followed = False
            while not self._is_over.is_set():
                chunk = stream.read(_CHUNK_BYTES)
                if os.pread(stream.fileno(), _MARK_BYTES, 0) != mark:
                    self.feed.lose(f"{file.path} was written anew before all of it was read")
                    return
                if chunk:
                    self.feed.take(chunk)
                elif is_followed:  # and nothing came since that was seen
                    return
                else:
                    self._look()
                    is_followed = bool(self._waiting)
                    if not is_followed:
                        self._is_over.wait(_LOOK_S)

    def _look(self) -> None:
        """Which files wait. Raises ``InputError`` where the only one is no capture."""
        names = [self._pattern] if self._is_one else glob.glob(self._pattern)
        files: set[_File] = set()
        known, self._known = self._known, {}
        for name in names:
            if name.endswith(_PACKED):
                continue
            with contextlib.suppress(OSError):
                at = os.stat(name)
                stat = at.st_dev, at.st_ino, at.st_size, at.st_mtime_ns
                was = known.get(name)
                first_ns = was[1] if was is not None and was[0] == stat else self._first_ns(name)
                self._known[name] = stat, first_ns
                if first_ns is not None:
                    files.add(_File(first_ns, name, stat[:2]))
        if not self._is_one and (gone := min(self._waiting - files, default=None)) is not None:
            self.feed.lose(f"{gone.path} was deleted, or written anew, before it was read")
        # What is older than that which is read now is none of the set, or was read before.
        self._waiting = frozenset(file for file in files if self._now is None or file.first_ns > self._now.first_ns)

    def _first_ns(self, name: str) -> int | None:
        """When its first packet was captured; None while there is none, or for what is no capture."""
        splice = Splice([os.open(os.devnull, os.O_WRONLY)], name)
        try:
            with open(name, "rb") as stream:
                splice.take(stream.read(_HEAD_BYTES))
        except InputError:
            if self._is_one:
                raise
        finally:
            splice.close()
        return splice.first_ns
