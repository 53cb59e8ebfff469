"""Correlates an NFS server's capture with a client's and says where the latency arises.

`correlate` takes two captures, `inspect` one; both give a `Report`. Whatever goes wrong that a user can mend is an
`NfslatError` of one line: `UsageError`, `InputError` or `ToolError`. `nfslat.api` says more.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from nfslat.errors import InputError, NfslatError, ToolError, UsageError

if TYPE_CHECKING:
    from nfslat.api import Report, correlate, inspect

__version__ = "0.1.0"
__all__ = [
    "InputError",
    "NfslatError",
    "Report",
    "ToolError",
    "UsageError",
    "__version__",
    "correlate",
    "inspect",
]


def __getattr__(name: str) -> Any:
    # Late: the command line's help and its errors do not wait for numpy.
    if name in ("Report", "correlate", "inspect"):
        from nfslat import api  # noqa: PLC0415

        return getattr(api, name)
    raise AttributeError(f"module 'nfslat' has no attribute {name!r}")


def __dir__() -> list[str]:
    return __all__
