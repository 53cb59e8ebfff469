"""Memory: how much there may be, and what was freed back to the system."""

from __future__ import annotations

import contextlib
import ctypes
import math
import sys
from pathlib import Path

_CONTAINERS = ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes")  # cgroups(7), 2 and 1


def container_memory() -> float:
    """Bytes that the container which this runs in may have; infinite where there is no limit."""
    least = math.inf
    for name in _CONTAINERS:
        with contextlib.suppress(OSError, ValueError):  # not there; "max"
            least = min(least, int(Path(name).read_text()))
    return least


def give_back() -> None:
    """Where much was freed and much more will be asked for; elsewhere than with glibc nothing happens."""
    if sys.platform == "linux" and (trim := getattr(ctypes.CDLL(None), "malloc_trim", None)):
        trim(0)
