"""The name of an output file -> a stream to write to; nothing but a complete report ever takes the place of a file.

What is written has names of hosts, users and files in it: only who runs nfslat may read a new file.
"""

from __future__ import annotations

import contextlib
import glob
import gzip
import io
import os
import shutil
import stat
import sys
import tempfile
import zlib
from collections.abc import Iterator, Sequence
from enum import Enum
from pathlib import Path
from typing import IO, Any, BinaryIO, TextIO, cast

from nfslat.errors import InputError, UsageError


class Kind(Enum):
    """What an output is: how files of it that nfslat has written begin; or what form they have, and what they name."""

    JSON = (b"", b'{\n  "schema": "nfslat.')
    LINES = (b"", b'{"schema": "nfslat.')
    CSV = (b"", b"xid,program,version,op,client,client_port,server,server_port,")
    MISSED = (b"", b"side,reason,program,version,op,xid,client,client_port,")
    FILES = (b"", b"time,seconds,client,server,uid,op,version,path,to_path,")
    HTML = (b"", b"<!doctype html>\n<!-- nfslat ")
    PERFETTO = (b"", b'{"otherData":{"nfslat":{"format":"nfslat.')
    OPS = (b"PAR1", b"nfslat.ops/")
    SIDE = (b"PAR1", b"nfslat.side/")
    PACKETS = (b"\x0a\x0d\x0d\x0a", b"nfslat")
    PICTURE = (b"\x89PNG", b"Software\0nfslat")


_HEAD = 64
_GZIP = b"\x1f\x8b"
_SECTION_BYTES = 4096  # in which a pcapng file says who wrote it, and a picture
_FOOTER_BYTES = 8  # of a Parquet file: the length of the metadata in front of it, and the magic
# Standard output has these names, too. As a file it would be replaced behind the back of who reads it.
_STANDARD = ("-", "/dev/stdout", "/dev/fd/1", "/proc/self/fd/1")


def is_standard(name: str | None) -> bool:
    """Does an output option name standard output?"""
    return name in _STANDARD


@contextlib.contextmanager
def output(name: str | None, kind: Kind, inputs: Sequence[str], *, overwrite: bool = False) -> Iterator[TextIO | None]:
    """The text stream that an output option names; ``-`` is standard output, None none.

    A file appears under its name only when all of it is written, so that an error leaves the old one as it was. Raises
    ``UsageError`` for a file that is among `inputs` (files, globs or lists of them), and, unless `overwrite`, for one
    that nfslat did not write as the same kind of output.
    """
    if name is None or is_standard(name):
        if name and isinstance(sys.stdout, io.TextIOWrapper):
            sys.stdout.reconfigure(encoding="utf-8")  # as in a file, whatever the terminal takes
        yield sys.stdout if name else None
        return
    with _file(name, kind, inputs, "w", overwrite=overwrite) as out:
        yield cast(TextIO, out)


@contextlib.contextmanager
def lines_output(
    name: str | None, kind: Kind, inputs: Sequence[str], *, overwrite: bool = False
) -> Iterator[TextIO | None]:
    """The same for lines that are of use as they come, and however the run ends: they are put behind those that a file
    of the kind has, or in their place with `overwrite`."""
    if name is None or is_standard(name):
        with output(name, kind, inputs) as out:
            yield out
        return
    _refuse_no_name(name)
    path = Path(name)
    _refuse(name, path, kind, inputs, overwrite=overwrite)
    with writing_to(name):
        path.touch(0o600)
        stream = path.open("w" if overwrite else "a", encoding="utf-8", newline="")
    with _closed(name, stream) as appended:
        yield cast(TextIO, appended)


@contextlib.contextmanager
def binary_output(
    name: str | None, kind: Kind, inputs: Sequence[str], *, overwrite: bool = False
) -> Iterator[BinaryIO | None]:
    """The same for a format that is not text."""
    if name is None or is_standard(name):
        if name and sys.stdout.isatty():
            raise UsageError(
                "a terminal cannot show this format; name a file, or pipe standard output to what reads it"
            )
        yield sys.stdout.buffer if name else None
        return
    with _file(name, kind, inputs, "wb", overwrite=overwrite) as out:
        yield cast(BinaryIO, out)


@contextlib.contextmanager
def output_directory(name: str, kind: Kind, inputs: Sequence[str], *, overwrite: bool = False) -> Iterator[Path]:
    """A directory whose files go to the one that an output option names, all of them, when the block is done.

    That one is made if it is not there. Raises ``UsageError`` for a file, and where a file in it has one of the names
    and is none to be replaced (`output`); ``InputError`` where nothing can be written there.
    """
    _refuse_no_name(name)
    path = Path(name)
    if path.exists() and not path.is_dir():
        raise UsageError(f"{name}: is a file; name a directory, which is made if it is not there")
    made = [one for one in (path, *path.parents) if not one.exists()]
    scratch = None
    try:
        try:
            private_folder(path)
            scratch = Path(tempfile.mkdtemp(prefix=".nfslat-", dir=path))
        except OSError as problem:
            raise InputError(f"{name}: cannot be written ({problem.strerror})") from problem
        yield scratch
        places = {file: path / file.name for file in sorted(scratch.iterdir())}
        for place in places.values():
            _refuse(str(place), place, kind, inputs, overwrite=overwrite)
        for file, place in places.items():
            file.chmod(_access(place))
            os.replace(file, place)
    finally:
        if scratch is not None:
            shutil.rmtree(scratch, ignore_errors=True)
        with contextlib.suppress(OSError):  # it holds something
            for one in made:
                one.rmdir()


def private_folder(path: Path) -> None:
    """Make it where it is not there, and what is missing above it, for its owner alone."""
    for one in reversed([one for one in (path, *path.parents) if not one.exists()]):
        one.mkdir(mode=0o700, exist_ok=True)


@contextlib.contextmanager
def _file(name: str, kind: Kind, inputs: Sequence[str], mode: str, *, overwrite: bool) -> Iterator[object]:
    _refuse_no_name(name)
    path = Path(os.path.realpath(name))  # a link stays one
    form = {} if "b" in mode else {"encoding": "utf-8", "newline": ""}
    if path.exists() and not path.is_file() and not path.is_dir():  # a pipe, /dev/stdout: nothing to replace
        with _closed(name, path.open(mode, **form)) as out:  # type: ignore[call-overload]
            yield out
        return
    _refuse(name, path, kind, inputs, overwrite=overwrite)
    access = _access(path)
    try:
        target = tempfile.NamedTemporaryFile(  # type: ignore[call-overload] # noqa: SIM115 - it is renamed, not closed and gone
            mode, dir=path.parent, prefix=f".{path.name}-", delete=False, **form
        )
    except OSError as problem:
        raise InputError(f"{name}: cannot be written ({problem.strerror})") from problem
    try:
        with _closed(name, target) as out:
            yield out
        os.chmod(target.name, access)
        os.replace(target.name, path)
    except BaseException:
        Path(target.name).unlink(missing_ok=True)
        raise


def _refuse_no_name(name: str) -> None:
    if not name:
        raise UsageError("an output option has an empty name; name what to write to")


@contextlib.contextmanager
def writing_to(name: str) -> Iterator[None]:
    """An ``OSError`` of a full disk, which names no file, becomes an ``InputError`` that does; not a broken pipe."""
    try:
        yield
    except BrokenPipeError:
        raise
    except OSError as problem:
        raise InputError(f"{name}: cannot be written ({problem.strerror or problem})") from problem


@contextlib.contextmanager
def _closed(name: str, stream: IO[Any]) -> Iterator[IO[Any]]:
    """`stream`, closed in the end: for the last of it, too, there may be no room."""
    try:
        yield stream
    except BaseException:
        with contextlib.suppress(OSError):
            stream.close()
        raise
    with writing_to(name):
        stream.close()


def _refuse(name: str, path: Path, kind: Kind, inputs: Sequence[str], *, overwrite: bool) -> None:
    if path.is_dir():
        raise InputError(f"{name}: cannot be written (it is a directory); name a file in it")
    if not path.exists():
        return
    if any(path.samefile(one) for given in inputs for one in _named(given)):
        raise UsageError(f"{name}: is one of the captures, or another file that is read; name another file to write to")
    if path.stat().st_size and not overwrite and not _is_of(kind, path):
        raise UsageError(
            f"{name}: exists and was not written by nfslat as the same kind of output; name another file, or say "
            "--overwrite"
        )


def _named(given: str) -> list[str]:
    """Files that are there, of an argument that may be a file, a glob, or a list of them (`decode.capture.expand`)."""
    if os.path.exists(given):
        return [given]
    parts = given.split(",")
    return [one for part in parts for one in ([part] if os.path.exists(part) else glob.glob(part))]


def _is_of(kind: Kind, path: Path) -> bool:
    form, mark = kind.value
    with path.open("rb") as stream:
        head = stream.read(_HEAD)
        if not form:
            return (_unpacked(path) if head.startswith(_GZIP) else head).startswith(mark)
        if not head.startswith(form):
            return False
        if kind not in (Kind.OPS, Kind.SIDE):
            return mark in head + stream.read(_SECTION_BYTES)
        size = stream.seek(0, os.SEEK_END)
        stream.seek(-min(_FOOTER_BYTES, size), os.SEEK_END)
        length = int.from_bytes(stream.read(4), "little")
        stream.seek(max(size - _FOOTER_BYTES - length, 0))
        return mark in stream.read(length)


def _unpacked(path: Path) -> bytes:
    try:
        with gzip.open(path) as unpacked:
            return unpacked.read(_HEAD)
    except (OSError, EOFError, zlib.error):
        return b""


def _access(path: Path) -> int:
    """Who may read what is written there: as before, or else its owner only."""
    return stat.S_IMODE(path.stat().st_mode) if path.exists() else 0o600
