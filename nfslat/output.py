"""The name of an output file -> a stream to write to; nothing but a complete report ever takes the place of a file."""

from __future__ import annotations

import contextlib
import os
import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TextIO, cast

from nfslat.errors import InputError, UsageError

_OURS = (b'{\n  "sch', b"xid,progr", b"side,reason")  # how the files that nfslat writes begin


@contextlib.contextmanager
def output(name: str | None, captures: Sequence[str]) -> Iterator[TextIO | None]:
    """The stream that an output option names; ``-`` is standard output.

    A file appears under its name only when all of it is written, so that an error leaves the old one as it was. Raises
    ``UsageError`` for a file that is a capture of this run, or holds something that nfslat did not write.
    """
    if name is None or name == "-":
        yield sys.stdout if name else None
        return
    path = Path(name)
    if path.exists() and not path.is_file():  # a pipe, /dev/stdout: nothing to replace
        with path.open("w", encoding="utf-8", newline="") as out:
            yield out
        return
    if any(path.exists() and os.path.exists(capture) and path.samefile(capture) for capture in captures):
        raise UsageError(f"{name}: is one of the captures; name another file to write to")
    if path.exists() and path.stat().st_size and not _is_ours(path):
        raise UsageError(f"{name}: exists and was not written by nfslat; name another file, or remove it")
    try:
        target = tempfile.NamedTemporaryFile(  # noqa: SIM115 - it is renamed, not closed and gone
            "w", dir=path.parent, prefix=f".{path.name}-", delete=False, encoding="utf-8", newline=""
        )
    except OSError as problem:
        raise InputError(f"{name}: cannot be written ({problem.strerror})") from problem
    try:
        with target as out:
            yield cast(TextIO, out)
        os.chmod(target.name, 0o666 & ~_umask())
        os.replace(target.name, path)
    except BaseException:
        Path(target.name).unlink(missing_ok=True)
        raise


def _is_ours(path: Path) -> bool:
    with path.open("rb") as stream:
        return stream.read(16).startswith(_OURS)


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask
