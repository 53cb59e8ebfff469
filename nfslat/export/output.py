"""The name of an output file -> a stream to write to; nothing but a complete report ever takes the place of a file."""

from __future__ import annotations

import contextlib
import gzip
import io
import os
import shutil
import stat
import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import IO, Any, BinaryIO, TextIO, cast

from nfslat.errors import InputError, UsageError

# How the files that nfslat writes begin.
_OURS = (
    b'{\n  "sch',
    b"xid,progr",
    b"side,reason",
    b"time,second",
    b"<!doctype html>\n<!-- nfslat",
    b'{"otherData":{"nfslat',
)
_HEAD = 64
_GZIP, _PARQUET, _PCAPNG, _PNG = b"\x1f\x8b", b"PAR1", b"\x0a\x0d\x0d\x0a", b"\x89PNG"
_SECTION_BYTES = 4096  # in which a pcapng file says who wrote it
_FOOTER_BYTES = 8  # of a Parquet file: the length of the metadata in front of it, and the magic
# Standard output has these names, too. As a file it would be replaced behind the back of who reads it.
_STANDARD = ("-", "/dev/stdout", "/dev/fd/1", "/proc/self/fd/1")


def is_standard(name: str | None) -> bool:
    """Does an output option name standard output?"""
    return name in _STANDARD


@contextlib.contextmanager
def output(name: str | None, captures: Sequence[str]) -> Iterator[TextIO | None]:
    """The text stream that an output option names; ``-`` is standard output, None none.

    A file appears under its name only when all of it is written, so that an error leaves the old one as it was. Raises
    ``UsageError`` for a file that is a capture of this run, or holds something that nfslat did not write.
    """
    if name is None or is_standard(name):
        if name and isinstance(sys.stdout, io.TextIOWrapper):
            sys.stdout.reconfigure(encoding="utf-8")  # as in a file, whatever the terminal takes
        yield sys.stdout if name else None
        return
    with _file(name, captures, "w") as out:
        yield cast(TextIO, out)


@contextlib.contextmanager
def binary_output(name: str | None, captures: Sequence[str]) -> Iterator[BinaryIO | None]:
    """The same for a format that is not text."""
    if name is None or is_standard(name):
        if name and sys.stdout.isatty():
            raise UsageError(
                "a terminal cannot show this format; name a file, or pipe standard output to what reads it"
            )
        yield sys.stdout.buffer if name else None
        return
    with _file(name, captures, "wb") as out:
        yield cast(BinaryIO, out)


@contextlib.contextmanager
def output_directory(name: str) -> Iterator[Path]:
    """A directory whose files go to the one that an output option names, all of them, when the block is done.

    That one is made if it is not there. Raises ``UsageError`` for a file, and where a file in it has one of the names
    and was not written by nfslat; ``InputError`` where nothing can be written there.
    """
    _refuse_no_name(name)
    path = Path(name)
    if path.exists() and not path.is_dir():
        raise UsageError(f"{name}: is a file; name a directory, which is made if it is not there")
    made = [one for one in (path, *path.parents) if not one.exists()]
    scratch = None
    try:
        try:
            path.mkdir(parents=True, exist_ok=True)
            scratch = Path(tempfile.mkdtemp(prefix=".nfslat-", dir=path))
        except OSError as problem:
            raise InputError(f"{name}: cannot be written ({problem.strerror})") from problem
        yield scratch
        places = {file: path / file.name for file in sorted(scratch.iterdir())}
        for place in places.values():
            _refuse_foreign(str(place), place)
        for file, place in places.items():
            os.replace(file, place)
    finally:
        if scratch is not None:
            shutil.rmtree(scratch, ignore_errors=True)
        with contextlib.suppress(OSError):  # it holds something
            for one in made:
                one.rmdir()


@contextlib.contextmanager
def _file(name: str, captures: Sequence[str], mode: str) -> Iterator[object]:
    _refuse_no_name(name)
    path = Path(os.path.realpath(name))  # a link stays one
    form = {} if "b" in mode else {"encoding": "utf-8", "newline": ""}
    if path.exists() and not path.is_file() and not path.is_dir():  # a pipe, /dev/stdout: nothing to replace
        with _closed(name, path.open(mode, **form)) as out:  # type: ignore[call-overload]
            yield out
        return
    if any(path.exists() and os.path.exists(capture) and path.samefile(capture) for capture in captures):
        raise UsageError(f"{name}: is one of the captures; name another file to write to")
    _refuse_foreign(name, path)
    access = stat.S_IMODE(path.stat().st_mode) if path.exists() else 0o666 & ~_umask()
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


def _refuse_foreign(name: str, path: Path) -> None:
    if path.is_dir():
        raise InputError(f"{name}: cannot be written (it is a directory); name a file in it")
    if path.exists() and path.stat().st_size and not _is_ours(path):
        raise UsageError(f"{name}: exists and was not written by nfslat; name another file, or remove it")


def _is_ours(path: Path) -> bool:
    with path.open("rb") as stream:
        head = stream.read(_HEAD)
        if head.startswith(_GZIP):
            try:
                with gzip.open(path) as unpacked:
                    return unpacked.read(_HEAD).startswith(_OURS)
            except (OSError, EOFError):
                return False
        if head.startswith(_PNG):
            return b"Software\0nfslat" in head
        if head.startswith(_PCAPNG):
            return b"nfslat" in head + stream.read(_SECTION_BYTES)
        if head.startswith(_PARQUET):
            size = stream.seek(0, os.SEEK_END)
            stream.seek(-min(_FOOTER_BYTES, size), os.SEEK_END)
            length = int.from_bytes(stream.read(4), "little")
            stream.seek(max(size - _FOOTER_BYTES - length, 0))
            return b"nfslat." in stream.read(length)
    return head.startswith(_OURS)


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask
