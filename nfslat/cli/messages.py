"""What is to be said -> lines on standard error that steer no terminal; an unforeseen error -> a report of it."""

from __future__ import annotations

import contextlib
import shlex
import sys
from collections.abc import Sequence

from nfslat import __version__
from nfslat.report.text_layout import visible

STATUS_INTERNAL = 70  # EX_SOFTWARE of sysexits.h


def say(text: str) -> None:
    """One line on standard error, if there is one that takes it: names of files in it may be anything."""
    if sys.stderr is not None:
        with contextlib.suppress(OSError):
            sys.stderr.write(f"nfslat: {visible(text)}\n")
            sys.stderr.flush()


def report_crash(problem: Exception, arguments: Sequence[str]) -> int:
    """Say that nfslat is at fault, in a line, and where the rest is written; returns the exit status."""
    import platform  # noqa: PLC0415  (these take longer than all that a run says)
    import tempfile  # noqa: PLC0415
    import traceback  # noqa: PLC0415

    last = traceback.extract_tb(problem.__traceback__)[-1:]
    where = "".join(f" at {one.filename.rpartition('/')[2]}:{one.lineno}" for one in last)
    what = f"internal error: {type(problem).__name__}{where}"
    text = (
        f"nfslat {__version__}, Python {platform.python_version()}, {platform.platform()}\n"
        f"{shlex.join(['nfslat', *arguments])}\n\n{''.join(traceback.format_exception(problem))}"
    )
    try:
        with tempfile.NamedTemporaryFile("w", prefix="nfslat-error-", suffix=".txt", delete=False) as file:
            file.write(text.encode("ascii", "backslashreplace").decode())
    except OSError:
        say(f"{what}; there is no room for a report of it")
    else:
        say(f"{what}; {file.name} says more: send it with the bug (it holds names of files, no packets)")
    return STATUS_INTERNAL
