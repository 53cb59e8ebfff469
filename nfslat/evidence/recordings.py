"""What says when and where it was measured, and what a tool of a host printed over some time: how these are told."""

from __future__ import annotations

from nfslat.evidence.host_statistics import HostStatistics
from nfslat.evidence.kinds import KINDS
from nfslat.evidence.records import DatabaseReport, Evidence
from nfslat.evidence.sockets import Sockets

_HEAD, _LONGEST = 50, 1 << 14  # lines of a file that tell what it is; characters of each


def is_dated(found: Evidence) -> bool:
    """Is it judged by when and where it was measured?"""
    report = found.record
    has_time = isinstance(report, DatabaseReport) and (report.time is not None or bool(report.instances))
    return found.span is not None or has_time or isinstance(report, (HostStatistics, Sockets))


def is_recording(path: str) -> bool:
    """Is it what a tool of a host printed over some time, and no snapshot?"""
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            head = [line for _, line in zip(range(_HEAD), iter(lambda: file.readline(_LONGEST), ""), strict=False)]
    except (OSError, ValueError):
        return False  # which is said when it is read
    if not head or head[0].startswith("# nfslat snapshot"):
        return False
    kinds = [kind for kind in KINDS if kind.name in ("host statistics", "ss")]
    return any(kind.belongs(line) for line in head for kind in kinds)
