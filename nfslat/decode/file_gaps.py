"""A set of files -> the times between two of them in which a file is missing: no packet is there, and TCP went on."""

from __future__ import annotations

import re
from itertools import pairwise
from pathlib import Path

import numpy as np

from nfslat.decode.capture import Source
from nfslat.model.decoded import Decoded
from nfslat.model.details import TcpEvent
from nfslat.model.record import Record
from nfslat.model.units import NS_PER_S

# What tcpdump -C and dumpcap -b number files by.
_NUMBER = re.compile(r"(?:cap|pcapng|snoop)([0-9]{1,6})(?:\.[a-z0-9]+)?$|_([0-9]{5})_[0-9]{8,14}", re.IGNORECASE)
# Where no number is missing: while one file is closed and the next one opened, packets go.
_LEAST_GAP_NS = NS_PER_S // 2
_SOON_NS = NS_PER_S  # a connection goes on within so long, or as long as the gap


class FileGap(Record):
    """What is not there between two files: the ends of the time, their names, and the holes in TCP's data."""

    begin_ns: int
    end_ns: int
    before: str
    behind: str
    ranges: int
    bytes: int


def file_gaps(source: Source, decoded: Decoded) -> list[FileGap]:
    """The gaps of a set, in the order of time."""
    events = decoded.details.events
    holes = events.take(np.flatnonzero(events.kind == TcpEvent.GAP))
    found = []
    for before, behind in pairwise(source.files):
        gap_ns = behind.first_ns - before.last_ns
        skipped = _skipped(before.name, behind.name)
        if gap_ns <= 0 or (gap_ns < _LEAST_GAP_NS and not skipped):
            continue
        until_ns = behind.first_ns + max(_SOON_NS, gap_ns)
        here = holes.take(np.flatnonzero((holes.t_ns >= behind.first_ns) & (holes.t_ns < until_ns)))
        # The first hole of each direction of a connection is that of the gap.
        _, first = np.unique(here.conn.astype(np.int64) * 2 + here.direction, return_index=True)
        if len(first):
            ends = before.last_ns, behind.first_ns
            found.append(FileGap(*ends, before.name, behind.name, len(first), int(here.value[first].sum())))
    return found


def _skipped(before: str, behind: str) -> bool:
    """Do the names have numbers, and is one between them missing?"""
    one, other = (_number(Path(name).name) for name in (before, behind))
    return one is not None and other is not None and other - one > 1


def _number(name: str) -> int | None:
    found = _NUMBER.search(name)
    return None if found is None else int(found[1] or found[2])
