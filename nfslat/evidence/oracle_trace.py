"""Lines of an Oracle 10046 trace -> waits by event: count, sum, percentiles, histogram, blocks for each wait.

A line (levels 8 and 12; Millsap and Holt, "Oracle System Performance Analysis Using Oracle Event 10046"; My Oracle
Support note 39817.1):

    WAIT #140: nam='db file sequential read' ela= 50213 file#=5 block#=12 blocks=1 obj#=97027 tim=1330623405569521

Oracle 9i has p1= p2= p3= in place of the names and no tim=; direct path waits have "file number=", "first dba=" and
"block cnt=". ela is in microseconds from 9i on and in centiseconds before.
"""

from __future__ import annotations

import re
from array import array
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import numpy as np

from nfslat.errors import InputError
from nfslat.evidence.oracle_events import FILE_EVENTS, file_event
from nfslat.evidence.records import Evidence, Latency
from nfslat.model.blocks import rank
from nfslat.model.tables import I64

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
_PLACE = re.compile(r" file#=(\d{1,6}) block#=(\d{1,10}) blocks=(\d{1,6})(?!\d)")
_TIM = re.compile(r" tim=(\d{1,19})\s*$")
_IN_PLACE = ("db file sequential read", "db file scattered read", "db file single write")
_MOST_PLACES, _MOST_BLOCKS = 2_000_000, 1 << 16
_LATEST_US = 1 << 52  # the year 2112: what is later is no time, and its nanoseconds have room in 64 bits
_BEFORE_9I = re.compile(r"Oracle(?:7|8i?)\b.{0,80}Release [78]\.")
_US_PER_CS = 10_000
_MOST_EVENTS = 4096  # 23ai knows about 2,000
_MOST = 10**11  # in us more than a day, in centiseconds thirty years: no wait


@dataclass(frozen=True)
class Wait:
    """A wait for bytes of a file; us by the clock of ``tim``."""

    event: str
    writes: bool
    file: int
    block: int
    blocks: int
    begin_us: int
    end_us: int


@dataclass(frozen=True)
class EventWaits:
    """All waits of one event in a trace."""

    count: int
    total_us: int
    p50_us: int  # percentiles are nearest-rank: waits that were measured
    p99_us: int
    max_us: int
    histogram: tuple[tuple[int, int], ...]  # (bound, a power of two in us; waits up to it and above half of it)
    mean_blocks: float | None  # blocks of the database for each wait; None: not told

    @property
    def mean_us(self) -> float:
        """Mean wait."""
        return self.total_us / self.count


@dataclass(frozen=True)
class Trace10046:
    """A 10046 trace."""

    events: Mapping[str, EventWaits]  # by name, the longest total first
    centiseconds: bool  # a trace of Oracle 8 or before: every time is a multiple of 10 ms
    direct_nfs: bool
    unreadable: int  # WAIT lines that are cut or make no sense
    places: tuple[Wait, ...] = ()  # those that say file, block and time


def belongs(line: str) -> bool:
    """Whether only a 10046 trace has such a line."""
    return line.startswith(("WAIT #", "PARSING IN CURSOR #"))


def evidence(lines: Iterable[str], name: str) -> Evidence:
    """What the file `name` says; raises ``InputError`` where it holds nothing."""
    trace = parse(lines)
    return Evidence(latencies(trace, name), notes(trace), trace)


def parse(lines: Iterable[str]) -> Trace10046:
    """Read a trace; raises ``InputError`` where it holds no waits."""
    waits: dict[str, array[int]] = {}
    blocks: dict[str, list[int]] = {}
    unreadable, centiseconds, direct_nfs = 0, False, False
    places: list[Wait] = []
    for line in lines:
        if not line.startswith("WAIT #"):
            if "Oracle" in line:
                centiseconds = centiseconds or _BEFORE_9I.search(line) is not None
            # The banner of the ODM library, messages of channels; kgnfs is the module's name in call stacks.
            direct_nfs = direct_nfs or "Direct NFS" in line or "kgnfs" in line
            continue
        found = _WAIT.match(line)
        ela = int(found[2]) if found else -1
        if found is None or not 0 <= ela < _MOST or (found[1] not in waits and len(waits) == _MOST_EVENTS):
            unreadable += 1
            continue
        name = found[1]
        waits.setdefault(name, array("q")).append(ela)
        if name in _IN_PLACE and len(places) < _MOST_PLACES and (place := _place(name, ela, line, found.end() - 1)):
            places.append(place)
        if told := _BLOCKS.search(line, found.end() - 1) or _blocks_9i(name, line, found.end() - 1):
            counted = blocks.setdefault(name, [0, 0])
            counted[0] += 1
            counted[1] += int(told[1])
    if not waits:
        raise InputError("a 10046 trace without waits: trace at level 8 or 12 (waits => TRUE)")
    scale = _US_PER_CS if centiseconds else 1
    events = {name: _event(np.frombuffer(ela, np.int64) * scale, blocks.get(name)) for name, ela in waits.items()}
    return Trace10046(
        events=dict(sorted(events.items(), key=lambda item: -item[1].total_us)),
        centiseconds=centiseconds,
        direct_nfs=direct_nfs,
        unreadable=unreadable,
        places=() if centiseconds else tuple(places),
    )


def _place(name: str, ela_us: int, line: str, begin: int) -> Wait | None:
    place, tim = _PLACE.search(line, begin), _TIM.search(line, begin)
    if place is None or tim is None or not 0 < int(place[3]) <= _MOST_BLOCKS or int(tim[1]) > _LATEST_US:
        return None
    end = int(tim[1])
    return Wait(name, "write" in name, int(place[1]), int(place[2]), int(place[3]), end - ela_us, end)


def latencies(trace: Trace10046, name: str) -> tuple[Latency, ...]:
    """Reads and writes of files, one latency an event: first those whose wait is the I/O, the longest total first."""
    files = [(event, waits, kind) for event, waits in trace.events.items() if (kind := file_event(event))]
    return tuple(
        Latency(
            layer="application",
            op=kind.op,
            mean_ms=waits.mean_us / 1e3,
            count=waits.count,
            source=f"10046 trace {name}, {event}",
            p99_ms=waits.p99_us / 1e3,
            max_ms=waits.max_us / 1e3,
            blocks=waits.mean_blocks,
        )
        for event, waits, kind in sorted(files, key=lambda file: not file[2].blocking)
    )


def notes(trace: Trace10046) -> tuple[str, ...]:
    """What a reader of the figures has to know."""
    said = []
    for event, waits in trace.events.items():
        kind = file_event(event)
        if kind and not kind.blocking:
            said.append(f"{event}: the I/O is asynchronous, a wait is only the part of it that the session waited")
        elif kind and waits.mean_blocks is not None and waits.mean_blocks > 1:
            said.append(
                f"{event}: {waits.mean_blocks:.1f} blocks a wait: what is larger than rsize or wsize is several RPCs"
            )
    if trace.direct_nfs:
        said.append("Direct NFS is in use: it bypasses the kernel's NFS client, its slots and its mountstats")
    if trace.centiseconds:
        said.append("Oracle 8 or before counts in centiseconds: waits below 10 ms are 0")
    if trace.unreadable:
        said.append(f"WAIT lines that could not be read: {trace.unreadable}")
    return tuple(said)


def _blocks_9i(name: str, line: str, begin: int) -> re.Match[str] | None:
    pattern = _BLOCKS_9I.get(name)
    return pattern.search(line, begin) if pattern else None


def _event(ela_us: I64, blocks: list[int] | None) -> EventWaits:
    ordered = np.sort(ela_us)
    count = len(ordered)
    # Exact up to 2^53 us, which is 285 years.
    mantissa, exponent = np.frexp(np.maximum(ordered, 1).astype(np.float64))
    powers, waits = np.unique(exponent - (mantissa == 0.5), return_counts=True)
    return EventWaits(
        count=count,
        total_us=int(ordered.sum()),
        p50_us=int(ordered[rank(count, 50)]),
        p99_us=int(ordered[rank(count, 99)]),
        max_us=int(ordered[-1]),
        histogram=tuple((1 << power, tally) for power, tally in zip(powers.tolist(), waits.tolist(), strict=True)),
        mean_blocks=blocks[1] / blocks[0] if blocks else None,
    )
