"""Correlates an NFS server's capture with a client's and says where the latency arises.

`correlate` takes two captures, `inspect` one; both give a `Report` (`nfslat.api`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from nfslat.api import Report, correlate, inspect

__version__ = "0.1.0"
__all__ = ["Report", "__version__", "correlate", "inspect"]


def __getattr__(name: str) -> Any:
    # Late: the command line's help and its errors do not wait for numpy.
    if name in ("Report", "correlate", "inspect"):
        from nfslat import api  # noqa: PLC0415

        return getattr(api, name)
    raise AttributeError(f"module 'nfslat' has no attribute {name!r}")
