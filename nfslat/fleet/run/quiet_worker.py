"""What Dask loads first into each worker on this machine: nothing that happens there is written over the report.

What a task ends with is told by Dask; what a worker says while it is ended in the middle of its start is no news.
"""

from __future__ import annotations

import os


def dask_setup(_: object) -> None:
    """Standard error goes nowhere."""
    with open(os.devnull, "wb") as nowhere:
        os.dup2(nowhere.fileno(), 2)
