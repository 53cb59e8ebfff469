"""What says when and where it was measured, and what a tool of a host printed over some time: how these are told."""

from __future__ import annotations

from nfslat.evidence import host_statistics, sockets
from nfslat.evidence.host_statistics import HostStatistics
from nfslat.evidence.oracle_waits import Waits
from nfslat.evidence.records import Evidence
from nfslat.evidence.sockets import Sockets

_HEAD, _LONGEST = 50, 1 << 14  # lines of a file that tell what it is; characters of each


def is_dated(found: Evidence) -> bool:
    """Is it judged by when and where it was measured?"""
    has_time = isinstance(found.record, Waits) and (found.record.database is not None or found.record.instances)
    return found.span is not None or bool(has_time) or isinstance(found.record, (HostStatistics, Sockets))


def is_recording(path: str) -> bool:
    """Is it what a tool of a host printed over some time, and no snapshot?"""
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            head = [line for _, line in zip(range(_HEAD), iter(lambda: file.readline(_LONGEST), ""), strict=False)]
    except (OSError, ValueError):
        return False  # which is said when it is read
    if not head or head[0].startswith("# nfslat snapshot"):
        return False
    return any(host_statistics.belongs(line) or sockets.belongs(line) for line in head)
