"""Arguments of the command line in, the files that they name out, and what is wrong with those that cannot be read.

A problem with one does not stop the others. The order of the files is that of the arguments; which file is whose, and
which came first, is for `nfslat.fleet.run.points` to find in the packets.
"""

from __future__ import annotations

import glob
import os
import re
import stat
import tempfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from nfslat.decode.bundle import is_bundle
from nfslat.errors import InputError
from nfslat.fleet.run import remote
from nfslat.kernels.compiled import native as _native

_FIRST_BYTES = 1 << 16  # of what is elsewhere: they say what it is
_DIGITS = re.compile(r"(\d+)")
_CAPTURE = re.compile(r"\.(pcap|pcapng|cap|snoop)\d*(\.(gz|bz2|xz|zst|lz4))?$")  # what captures are called


@dataclass(frozen=True)
class Input:
    """One file with packets, or a tar with such files."""

    url: str  # absolute path on this host, or fsspec URL
    name: str  # as the user knows it
    size_bytes: int
    token: str  # identifies the content without reading it; of local files device, inode, size and mtime
    is_tar: bool = False  # of capture.sh

    @property
    def is_remote(self) -> bool:
        """Is it read through fsspec?"""
        return remote.is_url(self.url)

    @property
    def identity(self) -> str:
        """Equal for two names of one file."""
        return self.url if self.is_remote else os.path.realpath(self.url)


@dataclass(frozen=True)
class Problem:
    """What was left out, and what to do about it, in one line."""

    name: str
    why: str
    fatal: bool = True  # False: nothing is lost by it


@dataclass(frozen=True)
class Given:
    """What arguments name."""

    files: tuple[Input, ...]
    problems: tuple[Problem, ...]


def expand(arguments: Sequence[str]) -> Given:
    """Files, directories, globs and fsspec URLs -> files, each once, in the order in which they are named."""
    return merged(*(_one(argument) for argument in arguments))


def merged(*given: Given) -> Given:
    """All of them, each file once."""
    files: dict[str, Input] = {}
    for one in given:
        for file in one.files:
            files.setdefault(file.identity, file)
    problems = dict.fromkeys(problem for one in given for problem in one.problems)
    return Given(tuple(files.values()), tuple(problems))


def by_numbers(name: str) -> tuple[tuple[int, str], ...]:
    """A key that sorts the numbers in names as numbers: cap2 in front of cap10."""
    return tuple((int(part), part) if part.isdecimal() else (-1, part) for part in _DIGITS.split(name))


def _one(argument: str) -> Given:
    if not argument:
        return _left_out("''", "an empty name was given; name a file, a directory, a pattern or a URL")
    argument = argument.removeprefix("file://")
    if remote.is_url(argument) and not os.path.lexists(argument):
        return _at_url(argument)
    if "\0" in argument:
        return _left_out(repr(argument), "no file has such a name")
    if os.path.lexists(argument) or not glob.has_magic(argument):
        return _at_path(argument)
    return _several(argument, glob.glob(argument, recursive=True), _at_path)


def _left_out(name: str, why: str) -> Given:
    return Given((), (Problem(name, why),))


def _either(found: Input | Problem) -> Given:
    return Given((), (found,)) if isinstance(found, Problem) else Given((found,), ())


def _several(pattern: str, found: Sequence[str], at: Callable[[str], Given]) -> Given:
    """What a pattern matches."""
    if not found:
        return _left_out(pattern, "no file matches; check the pattern")
    return _forgiving(merged(*map(at, sorted(found, key=by_numbers))))


def _forgiving(given: Given) -> Given:
    """An empty file among others is no loss: a running tcpdump has just begun it."""
    if not given.files:
        return given
    return Given(given.files, tuple(Problem(p.name, p.why, p.fatal and p.why != _EMPTY) for p in given.problems))


_EMPTY = "the file is empty; was the capture stopped before it was written out?"
_NO_CAPTURE = (
    "neither pcap, pcapng, snoop, ERF nor a tar of capture.sh; write other formats as pcapng (editcap -F pcapng)"
)


def _at_path(path: str) -> Given:
    try:
        mode = os.stat(path).st_mode
    except OSError as problem:
        missing = isinstance(problem, FileNotFoundError)
        why = "no such file" if missing else f"cannot be read ({problem.strerror}); check its permissions"
        return _left_out(path, why)
    return _in_directory(path) if stat.S_ISDIR(mode) else _either(_at_file(path))


def _at_file(path: str) -> Input | Problem:
    try:
        # Asked before it is opened: to open a pipe would wait for somebody to write into it.
        facts = os.stat(path)
        if not stat.S_ISREG(facts.st_mode):
            return Problem(path, "neither a file nor a directory; write the capture to a file first")
        with open(path, "rb"):
            pass
    except OSError as problem:
        return Problem(path, f"cannot be read ({problem.strerror}); check its permissions")
    token = f"{facts.st_dev:x}-{facts.st_ino:x}-{facts.st_size}-{facts.st_mtime_ns}"
    return _input(Input(os.path.abspath(path), path, facts.st_size, token), Path(path), facts.st_size)


def _input(file: Input, path: Path, size_bytes: int) -> Input | Problem:
    """`file`, where what is at `path`, its first bytes at least, begins as a capture does, or a tar of capture.sh."""
    if not size_bytes:
        return Problem(file.name, _EMPTY)
    if is_bundle(path):
        return replace(file, is_tar=True)
    try:
        _native.peek(path)
    except _native.NotACapture:
        return Problem(file.name, _NO_CAPTURE)
    except (OSError, ValueError):
        pass  # it is damaged, and the decoder says how; or more than the first bytes is needed to look into it
    return file


def _in_directory(path: str) -> Given:
    """Its captures, and those below; other files are none of our business, unless there is nothing else."""
    problems: list[Problem] = []

    def note(problem: OSError) -> None:
        name = str(problem.filename or path)
        problems.append(Problem(name, f"cannot be read ({problem.strerror}); check its permissions"))

    names = sorted(_below(path, note), key=by_numbers)
    return _of_folder(path, [(name, _at_file(name)) for name in names], problems)


def _of_folder(name: str, found: Sequence[tuple[str, Input | Problem]], problems: Sequence[Problem]) -> Given:
    """`found` are its files by their names, `problems` are with the folder itself."""
    files = tuple(one for _, one in found if isinstance(one, Input))
    bad = [
        one
        for path, one in found
        if isinstance(one, Problem) and (one.why == _EMPTY or "cannot be" in one.why or _CAPTURE.search(path))
    ]
    if files or bad or problems:
        return _forgiving(Given(files, (*problems, *bad)))
    why = f"none of its {len(found):,} files is a capture" if found else "the directory is empty"
    return _left_out(name, f"{why}; give the one that holds what tcpdump -w wrote")


def _below(path: str, note: Any) -> Iterator[str]:
    for folder, folders, names in os.walk(path, onerror=note):
        folders[:] = [name for name in folders if not name.startswith(".")]
        for name in names:
            full = os.path.join(folder, name)
            # Pipes, sockets and links to nowhere are no captures, unless they are called so.
            if not name.startswith(".") and (os.path.isfile(full) or _CAPTURE.search(name)):
                yield full


def _at_url(url: str) -> Given:
    name = remote.shown(url)
    try:
        fs, path = remote.file_system(url)
        return _found_at(url, fs, path)
    except InputError as problem:
        return _left_out(name, problem.beside(name))
    except Exception as problem:  # each file system has its own
        return _left_out(name, _why_unreachable(problem))


def _found_at(url: str, fs: Any, path: str) -> Given:
    is_http = url.startswith(("http://", "https://"))
    # In a URL "?" begins a query, "[" is no letter: the pattern there is "*".
    if "*" in path or (not is_http and glob.has_magic(path) and not fs.exists(path)):
        return _several(remote.shown(url), fs.glob(path), lambda one: _below_url(fs, one))
    return _below_url(fs, path)


def _below_url(fs: Any, path: str) -> Given:
    name = remote.shown(fs.unstrip_protocol(path))
    try:
        info = fs.info(path)
        # Over HTTP a directory is a page with links.
        is_page = path.startswith(("http://", "https://")) and path.endswith("/")
        if info["type"] != "directory" and not is_page:
            return _either(_remote_file(fs, path, info))
        names = [one for one in sorted(fs.find(path), key=by_numbers) if "/." not in one[len(path.rstrip("/")) :]]
        below = [(one, _remote_file(fs, one, fs.info(one))) for one in names]
    except Exception as problem:  # each file system has its own
        return _left_out(name, _why_unreachable(problem))
    return _of_folder(name, below, ())


def _remote_file(fs: Any, path: str, info: dict[str, Any]) -> Input | Problem:
    url = fs.unstrip_protocol(path)
    name = remote.shown(url)
    try:
        with remote.open_stream(url) as stream, tempfile.NamedTemporaryFile(prefix="nfslat-") as head:
            while head.tell() < _FIRST_BYTES and (part := stream.read(_FIRST_BYTES - head.tell())):
                head.write(part)
            head.flush()
            file = Input(url, name, int(info.get("size") or 0), remote.token_of(fs, path, info))
            return _input(file, Path(head.name), head.tell())
    except InputError as problem:
        return Problem(name, problem.beside(name))
    except Exception as problem:  # each file system has its own
        return Problem(name, _why_unreachable(problem))


def _why_unreachable(problem: Exception) -> str:
    if isinstance(problem, FileNotFoundError):
        return "no such file, or the other end does not answer; check the URL"
    return f"cannot be reached: {remote.one_line(problem)}; check the URL and the credentials"
