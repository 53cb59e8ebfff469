"""A program that takes apart what a stranger wrote -> the same program, which can do little else.

Everywhere: no core dump, and limits of time, memory and the size of files. On Linux, as far as its kernel knows how:
nothing is written outside of one folder, no socket is opened, no signal is sent to anybody else, no set-user-ID program
gains rights (`native/src/python/confine.rs`).
"""

from __future__ import annotations

import contextlib
import errno
import os
import shutil
import signal
import subprocess
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from nfslat.errors import ToolError, UsageError

SECONDS, GIB = (
    "NFSLAT_TOOL_SECONDS",
    "NFSLAT_TOOL_GIB",
)  # in the environment: what a program may take, instead of what is said here
_LEAST_SECONDS, _BYTES_A_SECOND = 120, 20_000  # of what may be packed tenfold; a slow machine takes a tenth of that
_LEAST_GIB = 4
_PATIENCE = 120, 10  # seconds of the clock, and more for each of the processor, which may be busy with others
_BLOCK = 512  # of `ulimit -f`
# By a shell, which sets them before the program begins, on every Unix; what it cannot set it leaves as it is. Of the
# time there is a soft limit, whose signal says what happened, and a hard one behind it.
_SCRIPT = """
limit() { [ "$2" = - ] || ulimit "$1" "$2" 2>/dev/null || :; }
limit -c 0; limit -v "$2"; limit -f "$3"
[ "$1" = - ] || { limit -St "$1"; limit -Ht $(($1 + 10)); }
shift 3
exec "$@"
"""
_OWN_END = (signal.SIGPIPE, signal.SIGTERM, signal.SIGINT, signal.SIGHUP)  # ours, or the user's


@dataclass(frozen=True)
class Limits:
    """What a program may take; None is as much as there is. `folder` is the only one in which it may write."""

    seconds: int | None = None  # of the processor
    memory: int | None = None  # bytes
    folder: Path | None = None
    file: int | None = None  # bytes
    is_confined: bool = True  # False: nothing but the limits


def limits(reads: Sequence[Path], writes: Path | None = None, *, reserve: int = 0) -> Limits:
    """Of a program that goes through the files `reads`, and writes to the folder `writes`.

    The more there is to be read, the longer it may take. `reserve` bytes of the folder's disk stay free. Raises
    ``UsageError`` for an environment that says no number.
    """
    size = sum(path.stat().st_size for path in reads if path.is_file())
    try:
        memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (ValueError, OSError):  # not every Unix knows
        memory = 0
    gib = number_of(GIB, 0)
    return Limits(
        seconds=number_of(SECONDS, _LEAST_SECONDS + size // _BYTES_A_SECOND),
        memory=gib << 30 if gib else max(memory, _LEAST_GIB << 30),
        folder=writes,
        file=None if writes is None else max(shutil.disk_usage(writes).free - reserve, 0),
    )


def number_of(name: str, otherwise: int) -> int:
    """A whole number above 0 in the environment. ``UsageError`` where it is something else."""
    said = os.environ.get(name)
    if not said:
        return otherwise
    if not (said.isascii() and said.isdigit() and 0 < int(said) < 10**9):
        raise UsageError(f"{name} in the environment takes a whole number, not {said}")
    return int(said)


def start(command: Sequence[str], may: Limits, **streams: Any) -> subprocess.Popen[Any]:
    """As ``subprocess.Popen``. ``OSError`` where there is no such program."""
    if shutil.which(command[0]) is None:
        raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), command[0])
    asked = (may.seconds, may.memory and may.memory >> 10, may.file and may.file // _BLOCK)
    words = ["/bin/sh", "-c", _SCRIPT, "sh", *("-" if one is None else str(one) for one in asked), *command]

    def begin() -> subprocess.Popen[Any]:
        if may.is_confined:
            _restrict_this_thread(may.folder)
        return subprocess.Popen(words, **streams)

    # What a thread may do its children may do: one that ends with this leaves all others as they are.
    with ThreadPoolExecutor(1) as pool:
        return pool.submit(begin).result()


def _restrict_this_thread(folder: Path | None) -> None:
    try:
        from nfslat._native import confine  # noqa: PLC0415  (absent where it is not Linux)
    except ImportError:
        return
    with contextlib.suppress(OSError):
        confine([] if folder is None else [os.fspath(folder)])


def run(
    command: Sequence[str], may: Limits, about: str = "", *, name: str = "", given: bytes = b"", **streams: Any
) -> subprocess.CompletedProcess[bytes]:
    """As ``subprocess.run`` with ``capture_output``; `given` is its standard input, `name` what users know it by.

    Raises ``ToolError`` as `refuse_ended` does, and where it does not start, or waits for something without end.
    """
    pipe, name = subprocess.PIPE, name or Path(command[0]).name
    longest = None if may.seconds is None else _PATIENCE[0] + _PATIENCE[1] * may.seconds
    try:
        with start(command, may, stdin=pipe, stdout=pipe, stderr=pipe, **streams) as process:
            try:
                out, err = process.communicate(given, longest)
            except subprocess.TimeoutExpired:
                process.kill()
                raise ToolError(
                    f"{name} was not done after {longest:,} s and was ended; {SECONDS} gives it more", about
                ) from None
            except BaseException:
                process.kill()
                raise
    except OSError as problem:
        raise ToolError(f"{command[0]} does not start ({problem.strerror})", about) from problem
    refuse_ended(name, process.returncode, may, about)
    return subprocess.CompletedProcess(list(command), process.returncode, out, err)


def refuse_ended(name: str, status: int, may: Limits, about: str = "") -> None:
    """Raise ``ToolError`` where a signal ended it that was not ours: what was it, and what can be done?"""
    if status >= 0 or -status in _OWN_END:
        return
    if -status == signal.SIGXCPU:
        raise ToolError(
            f"{name} was still busy after {may.seconds:,} s of processor time and was ended; {SECONDS} gives it more",
            about,
        )
    if -status == signal.SIGXFSZ:
        where = may.folder.parent if may.folder else "the disk"
        raise ToolError(
            f"what {name} makes of it does not fit in {where}; set TMPDIR to a folder with more room", about
        )
    try:
        what = signal.Signals(-status).name
    except ValueError:
        what = f"signal {-status}"
    most = "" if may.memory is None else f" (it may have {may.memory / 2**30:.0f} GiB; {GIB} changes that)"
    raise ToolError(f"{name} died of {what}: memory was short{most}, or it does not survive what it was given", about)
