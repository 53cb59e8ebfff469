"""Memory: how much there may be, and what was freed back to the system."""

from __future__ import annotations

import contextlib
import ctypes
import math
import os
import sys
from pathlib import Path

_ARENA_MAX, _MMAP_THRESHOLD = -8, -3  # M_ARENA_MAX and M_MMAP_THRESHOLD of malloc.h
_LARGE_BYTES = 1 << 22  # of a column, which goes back to the system when it is freed
_CONTAINERS = ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes")  # cgroups(7), 2 and 1


def container_memory() -> float:
    """Bytes that the container which this runs in may have; infinite where there is no limit."""
    least = math.inf
    for name in _CONTAINERS:
        with contextlib.suppress(OSError, ValueError):  # not there; "max"
            least = min(least, int(Path(name).read_text()))
    return least


def available_memory() -> float:
    """Bytes that may still be taken without swapping, as the kernel estimates it (proc(5): MemAvailable)."""
    with contextlib.suppress(OSError, ValueError, IndexError, StopIteration):
        lines = Path("/proc/meminfo").read_text().splitlines()
        kb = next(line.split()[1] for line in lines if line.startswith("MemAvailable:"))
        return min(float(kb) * 1024, container_memory())
    return min(float(os.sysconf("SC_PHYS_PAGES")) * os.sysconf("SC_PAGE_SIZE"), container_memory())


def resident_memory() -> int:
    """Bytes that this process has in memory; 0 where the kernel does not say (proc(5): statm)."""
    with contextlib.suppress(OSError, ValueError, IndexError):
        return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    return 0


def give_back() -> None:
    """Where much was freed and much more will be asked for; elsewhere than with glibc nothing happens."""
    if sys.platform == "linux" and (trim := getattr(ctypes.CDLL(None), "malloc_trim", None)):
        trim(0)


def share_arena() -> None:
    """With glibc all threads take memory from one place: what one of them freed another one takes, and some threads do
    not wait for each other there. What is large has a place of its own. To be called before there are threads."""
    if sys.platform == "linux" and (tune := getattr(ctypes.CDLL(None), "mallopt", None)):
        tune(_ARENA_MAX, 1)
        tune(_MMAP_THRESHOLD, _LARGE_BYTES)
