"""The folder or URL of a run: names in, bytes out. Everything that the run makes is kept there, whole or not at all.

A name appears only when all of it is written, so that what is there can be believed by the next run, and by other
workers at the same time; two that write one name write the same.
"""

from __future__ import annotations

import contextlib
import errno
import json
import os
import shutil
import tempfile
import uuid
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO, cast

import fsspec

from nfslat.errors import InputError
from nfslat.export.output import private_folder
from nfslat.fleet.run.remote import is_url

FULL = (errno.ENOSPC, errno.EDQUOT)
COPY_BYTES = 4 << 20


@dataclass(frozen=True)
class Store:
    """`url`: an absolute path, or what fsspec opens."""

    url: str
    kept: bool = True  # False: it goes with the run, so nothing of it is found again
    near: str = ""  # folder of the run's own, which all workers see and nobody else does; "": there is none
    is_twice: bool = True  # what is kept is there, too
    work: str = "work"  # folder for what tasks leave for each other, which goes with the run
    is_ours: bool = False  # nobody else writes there, so that no folder in it is a link

    @property
    def own(self) -> Store:
        """Where that folder is."""
        return Store(self.near, is_ours=True) if self.near else self

    def new(self) -> str:
        """A name in it that nothing else has."""
        return f"{self.work}/{uuid.uuid4().hex}"

    @property
    def is_local(self) -> bool:
        """Is it a folder that this machine sees as one?"""
        return not is_url(self.url)

    def place(self, name: str) -> str:
        """Path or URL of `name`. Raises ``InputError`` for one that leads out of here: whoever gave us the folder may
        have written it into its files, or made a link of a folder in it."""
        place = f"{self.url.rstrip('/')}/{name}"
        parts = name.split("/")
        is_inside = not {"", ".", ".."}.intersection(parts) and name.isprintable() and "\\" not in name
        if is_inside and self.is_local and len(parts) > 1 and not self.is_ours:
            folders = (os.path.realpath(self.url), os.path.realpath(os.path.dirname(place)))
            is_inside = os.path.commonpath(folders) == folders[0]
        if not is_inside:
            raise InputError(f"holds a name that leads out of it ({name!r}); make the run anew", about=self.url)
        return place

    @contextlib.contextmanager
    def writing(self, name: str) -> Iterator[BinaryIO]:
        """A stream whose bytes become `name` when the block is done, and are gone where it fails.

        An ``OSError`` says which place it is about: that a disk is full is no news without.
        """
        try:
            with self._local_writing(name) if self.is_local else self._remote_writing(name) as out:
                yield out
        except OSError as problem:
            if problem.errno is None or isinstance(problem, BrokenPipeError):
                raise
            raise OSError(problem.errno, os.strerror(problem.errno), self.place(name)) from problem

    @contextlib.contextmanager
    def _remote_writing(self, name: str) -> Iterator[BinaryIO]:
        # An object appears when it is closed; what was not closed well is taken away.
        fs, path = fsspec.core.url_to_fs(self.place(name))
        with contextlib.suppress(OSError, NotImplementedError):
            fs.makedirs(path.rpartition("/")[0], exist_ok=True)
        with fs.transaction, fs.open(path, "wb") as out:
            yield cast(BinaryIO, out)

    @contextlib.contextmanager
    def _local_writing(self, name: str) -> Iterator[BinaryIO]:
        target = Path(self.place(name))
        private_folder(target.parent)
        # Not gone when it is closed; and its name is known to who is to write there by itself.
        file = tempfile.NamedTemporaryFile(dir=target.parent, prefix=f".{target.name}-", delete=False)  # noqa: SIM115
        try:
            try:
                yield cast(BinaryIO, file)
            finally:
                file.close()  # for the last of it, too, there may be no room
            os.replace(file.name, target)
        except BaseException:
            with contextlib.suppress(OSError):
                os.unlink(file.name)
            raise

    def check(self) -> None:
        """Raises ``InputError`` where nothing can be written, or what was written is not there."""
        name = f"tried-{uuid.uuid4().hex}"
        try:
            if self.is_local:
                private_folder(Path(self.url))
            self.write_json(name, name)
            if self.read_json(name) != name:
                raise InputError(f"--out {self.url}: what is written there cannot be read again; name another place")
        except InputError:
            raise
        except OSError as problem:
            why = problem.strerror or str(problem)
            todo = "make room, or name" if problem.errno in FULL else "name"
            raise InputError(f"--out {self.url}: cannot be written ({why}); {todo} another place") from None
        except Exception as problem:  # each file system has its own
            why = " ".join(str(problem).split()) or type(problem).__name__
            raise InputError(f"--out {self.url}: cannot be written ({why}); name another place") from None
        finally:
            self.remove([name])

    def write_json(self, name: str, value: Any) -> None:
        """`value` as JSON."""
        with self.writing(name) as out:
            out.write(json.dumps(value, separators=(",", ":"), allow_nan=False).encode())

    def read_json(self, name: str) -> Any:
        """What `write_json` wrote; None where it is not there, or is damaged."""
        try:
            with fsspec.open(self.place(name), "rb") as file:
                return json.loads(file.read())
        except (OSError, ValueError):
            return None

    def has(self, name: str) -> bool:
        """Is it there?"""
        if self.is_local:
            return os.path.exists(self.place(name))
        fs, path = fsspec.core.url_to_fs(self.place(name))
        return bool(fs.exists(path))

    def read(self, name: str, begin: int = 0, end: int | None = None) -> bytes:
        """Some of its bytes."""
        if end is not None and end <= begin:  # which not every file system understands
            return b""
        if self.is_local:
            with open(self.place(name), "rb") as file:
                file.seek(begin)
                return file.read(-1 if end is None else end - begin)
        fs, path = fsspec.core.url_to_fs(self.place(name))
        return bytes(fs.cat_file(path, start=begin, end=end))

    def remove(self, names: Iterable[str]) -> None:
        """Take them away, as far as they are there, and what is in them."""
        for name in names:
            with contextlib.suppress(Exception):  # each file system has its own
                fs, path = fsspec.core.url_to_fs(self.place(name))
                fs.rm(path, recursive=True)

    @contextlib.contextmanager
    def scratch(self) -> Iterator[Path]:
        """A folder for what `local` copies. Where it copies nothing none is made: to make one, and to take it away,
        takes longer than to read a small capture."""
        if self.is_local:
            yield Path(tempfile.gettempdir())
            return
        with tempfile.TemporaryDirectory(prefix="nfslat-") as folder:
            yield Path(folder)

    @contextlib.contextmanager
    def local(self, name: str, scratch: Path) -> Iterator[Path]:
        """A file of this machine with the bytes of `name`."""
        if self.is_local:
            yield Path(self.place(name))
            return
        with tempfile.NamedTemporaryFile(dir=scratch) as copy, fsspec.open(self.place(name), "rb") as file:
            shutil.copyfileobj(file, copy, COPY_BYTES)
            copy.flush()
            yield Path(copy.name)
