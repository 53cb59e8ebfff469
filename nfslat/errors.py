"""Every way in which a run can end early: one exception for each exit status.

What is decided by an exception is decided by its type and its fields, never by what it says.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from typing import Self


class NfslatError(Exception):
    """A problem that the user can act on; its text is one line that says what to do.

    ``exit_status`` is what the process returns: 2 for usage, 3 for input (docs/use.md). ``about`` names the file or
    host in question, "" where there is none, and stands in front of ``why`` in the text.
    """

    exit_status = 3

    def __init__(self, why: str, about: str | os.PathLike[str] = "") -> None:
        super().__init__(why, os.fspath(about))  # what pickle makes it anew from, in another process
        self.why, self.about = why, os.fspath(about)

    def __str__(self) -> str:
        return f"{self.about}: {self.why}" if self.about else self.why

    def named(self, about: str) -> Self:
        """The same, of what the user knows by another name."""
        return type(self)(self.why, about)

    def beside(self, name: str) -> str:
        """What it says where `name` stands beside it: not the name once more."""
        return self.why if self.about == name else str(self)


class UsageError(NfslatError):
    """The command line asks for something that makes no sense."""

    exit_status = 2


class InputError(NfslatError):
    """A capture cannot be read, or there is nothing in it to correlate."""


class NoPacketsError(InputError):
    """A capture file that is whole and holds no packet, as one that rotation had just begun."""


class ToolError(NfslatError):
    """tshark (or one of its companions) is missing, too old, or failed."""


class PictureError(NfslatError):
    """What draws pictures failed; everything else of a report can still be had."""


def nearest(word: str, names: Iterable[str]) -> str | None:
    """The one of `names` that `word` may have been meant to be."""
    import difflib  # noqa: PLC0415  (for what is misspelt only)

    return next(iter(difflib.get_close_matches(word, list(names), n=1)), None)
