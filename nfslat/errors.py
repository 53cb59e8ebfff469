"""Every way in which a run can end early: one exception for each exit status."""

from __future__ import annotations


class NfslatError(Exception):
    """A problem that the user can act on; its text is one line that says what to do.

    ``exit_status`` is what the process returns: 2 for usage, 3 for input (README).
    """

    exit_status = 3


class UsageError(NfslatError):
    """The command line asks for something that makes no sense."""

    exit_status = 2


class InputError(NfslatError):
    """A capture cannot be read, or there is nothing in it to correlate."""


class ToolError(NfslatError):
    """tshark (or one of its companions) is missing, too old, or failed."""
