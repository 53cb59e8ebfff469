"""An Oracle 10046 trace -> waits by event: count, mean, 99th percentile, blocks for each wait, and places in files.

A line (levels 8 and 12; Millsap and Holt, "Oracle System Performance Analysis Using Oracle Event 10046"; My Oracle
Support note 39817.1):

    WAIT #140: nam='db file sequential read' ela= 50213 file#=5 block#=12 blocks=1 obj#=97027 tim=1330623405569521

Oracle 9i has p1= p2= p3= in place of the names and no tim=; direct path waits have "file number=", "first dba=" and
"block cnt=". ela is in microseconds from 9i on and in centiseconds before.
"""

from __future__ import annotations

import re
from array import array
from collections.abc import Iterable

import numpy as np

from nfslat.errors import InputError
from nfslat.evidence.records import FILE_EVENTS, Evidence, Latency, file_event
from nfslat.model.blocks import rank
from nfslat.model.record import Record

# What follows ela has to be there: a number that the end of the file has cut is another number.
_WAIT = re.compile(r"WAIT #\d{1,20}: ?nam='([^']{1,64})' ela= ?(-?\d{1,15})\s(?=\s*\S)")
_BLOCKS = re.compile(r" (?:blocks|block cnt)=(\d{1,9})(?!\d)")
# 9i: which parameter counts blocks (V$EVENT_NAME).
_BLOCKS_9I = {
    name: re.compile(rf" {'p2' if 'log file' in name or 'parallel read' in name else 'p3'}=(\d{{1,9}})(?!\d)")
    for name in FILE_EVENTS
    if name not in ("db file parallel write", "control file parallel write")
}
# Of 10g and later: whose bytes, and when the wait had ended.
_PLACE = re.compile(r" file#=(\d{1,6}) block#=(\d{1,10}) blocks=(\d{1,6})(?!\d).{0,400} tim=(\d{1,19})\s*$")
_IN_PLACE = ("db file sequential read", "db file scattered read", "db file single write")
_MOST_PLACES, _MOST_BLOCKS = 2_000_000, 1 << 16
_LATEST_US = 1 << 52  # the year 2112: what is later is no time, and its nanoseconds have room in 64 bits
_BEFORE_9I = re.compile(r"Oracle(?:7|8i?)\b.{0,80}Release [78]\.")
_US_PER_CS = 10_000
_MOST_EVENTS = 4096  # 23ai knows about 2,000
_MOST_ELA = 10**11  # in us more than a day, in centiseconds thirty years: no wait
_MOST_FILES = 100_000
_FILE = re.compile(r'[\s"|,;]{0,40}(\d{1,6})[\s"|,;]{1,40}([/+][^"|,;\t\r\n]{1,1000}?)["\s|,;]{0,400}$', re.ASCII)


class Wait(Record):
    """A wait for bytes of a file; us by the clock of ``tim``."""

    event: str
    writes: bool
    file: int
    block: int
    blocks: int
    begin_us: int
    end_us: int


def trace(lines: Iterable[str], name: str) -> Evidence:
    """Reads and writes of files, one latency an event: first those whose wait is the I/O, the longest total first.

    Raises ``InputError`` where the trace holds no waits.
    """
    waits: dict[str, array[int]] = {}
    blocks: dict[str, tuple[int, int]] = {}  # waits that tell them, and their sum
    unreadable, centiseconds, direct_nfs = 0, False, False
    places: list[Wait] = []
    for line in lines:
        if not line.startswith("WAIT #"):
            centiseconds = centiseconds or ("Oracle" in line and _BEFORE_9I.search(line) is not None)
            # The banner of the ODM library, messages of channels; kgnfs is the module's name in call stacks.
            direct_nfs = direct_nfs or "Direct NFS" in line or "kgnfs" in line
            continue
        wait = _WAIT.match(line)
        ela = int(wait[2]) if wait else -1
        if wait is None or not 0 <= ela < _MOST_ELA or (wait[1] not in waits and len(waits) == _MOST_EVENTS):
            unreadable += 1
            continue
        event, begin = wait[1], wait.end() - 1
        waits.setdefault(event, array("q")).append(ela)
        if event in _IN_PLACE and len(places) < _MOST_PLACES and (place := _place(event, ela, line, begin)):
            places.append(place)
        old = _BLOCKS_9I.get(event)
        if counted := _BLOCKS.search(line, begin) or (old.search(line, begin) if old else None):
            number, total = blocks.get(event, (0, 0))
            blocks[event] = number + 1, total + int(counted[1])
    if not waits:
        raise InputError("a 10046 trace without waits: trace at level 8 or 12 (waits => TRUE)")
    ela_us = {
        event: np.frombuffer(each, np.int64) * (_US_PER_CS if centiseconds else 1) for event, each in waits.items()
    }
    means = {event: total / number for event, (number, total) in blocks.items()}
    files = [(event, kind) for event in ela_us if (kind := file_event(event))]
    files.sort(key=lambda file: -int(ela_us[file[0]].sum()))
    notes = []
    for event, kind in files:
        if not kind.blocking:
            notes.append(f"{event}: the I/O is asynchronous, a wait is only the part of it that the session waited")
        elif means.get(event, 0) > 1:
            notes.append(
                f"{event}: {means[event]:.1f} blocks a wait: what is larger than rsize or wsize is several RPCs"
            )
    if direct_nfs:
        notes.append("Direct NFS is in use: it bypasses the kernel's NFS client, its slots and its mountstats")
    if centiseconds:
        notes.append("Oracle 8 or before counts in centiseconds: waits below 10 ms are 0")
    if unreadable:
        notes.append(f"WAIT lines that could not be read: {unreadable}")
    latencies = tuple(
        Latency(
            layer="application",
            op=kind.op,
            mean_ms=int(ela_us[event].sum()) / len(ela_us[event]) / 1e3,
            count=len(ela_us[event]),
            source=f"10046 trace {name}, {event}",
            p99_ms=int(np.sort(ela_us[event])[rank(len(ela_us[event]), 99)]) / 1e3,
            max_ms=int(ela_us[event].max()) / 1e3,
            blocks=means.get(event),
        )
        for event, kind in sorted(files, key=lambda file: not file[1].blocking)
    )
    return Evidence(latencies, tuple(notes), () if centiseconds else tuple(places))


def _place(event: str, ela_us: int, line: str, begin: int) -> Wait | None:
    place = _PLACE.search(line, begin)
    if place is None or not 0 < int(place[3]) <= _MOST_BLOCKS or int(place[4]) > _LATEST_US:
        return None
    file, block, count, end = (int(text) for text in place.groups())
    return Wait(event, "write" in event, file, block, count, end - ela_us, end)


def data_files(lines: Iterable[str], _: str) -> Evidence:
    """What ``select file#, name from v$datafile`` prints, in columns or with commas or bars; ``InputError`` without."""
    paths: dict[int, str] = {}
    for line in lines:
        row = _FILE.match(line[:2048])
        if row and len(paths) < _MOST_FILES:
            paths.setdefault(int(row[1]), row[2].strip())
    if not paths:
        raise InputError("no number and path of a data file: give what select file#, name from v$datafile prints")
    return Evidence(record=paths)
