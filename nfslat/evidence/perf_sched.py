"""Lines of `perf sched latency` -> one record a task: run time, switches, how long it waited for a processor.

    nfsd:(8)              |    123.456 ms |      789 | avg:   0.524 ms | max:   1.069 ms | max at: 254752.314960 s

Formats: Linux tools/perf/builtin-sched.c, output_lat_thread: the last column is "max:" in the first versions, then
"max at:", and "max start:" and "max end:" in those since 2020. A task is "comm:pid", or "comm:(n)" for n of one name.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

from nfslat.errors import InputError
from nfslat.evidence.records import Evidence

_ROW = re.compile(
    r"\s*([\d.]{1,20}) ms \|\s*(\d{1,15}) \|\s*avg:\s*([\d.]{1,20}) ms \|\s*max:\s*([\d.]{1,20}) ms(?=\s|$)"
)
_TASK = re.compile(r"(.{1,64}?):(?:\((\d{1,9})\)|(-?\d{1,10}))$")
_MOST_TASKS = 100_000


@dataclass(frozen=True)
class Task:
    """A task, or all tasks of one name, while perf recorded."""

    name: str  # "nfsd", "kworker/0:1-xprtiod", "oracle_42_db1"
    pid: int | None  # None: several of them
    tasks: int  # so many have this name and are added up
    runtime_ms: float
    switches: int
    mean_delay_ms: float  # woken to running
    max_delay_ms: float


@dataclass(frozen=True)
class Sched:
    """What `perf sched latency` printed."""

    tasks: tuple[Task, ...]  # in the order of the table
    unreadable: int  # rows that are cut or make no sense


def belongs(line: str) -> bool:
    """Whether only `perf sched latency` prints such a line."""
    return " ms |" in line and "| avg:" in line and "| max:" in line


def evidence(lines: Iterable[str], _: str) -> Evidence:
    """Notes, and no latencies; raises ``InputError`` where the file holds nothing."""
    sched = parse(lines)
    return Evidence((), notes(sched), sched)


def parse(lines: Iterable[str]) -> Sched:
    """Read the table; raises ``InputError`` where it has no rows."""
    tasks: list[Task] = []
    unreadable = 0
    for line in lines:
        if not belongs(line):
            continue
        left, _, right = line.partition("|")
        task, row = _TASK.match(left.strip()[:100]), _ROW.match(right[:300])
        try:
            if task is None or row is None or len(tasks) == _MOST_TASKS:
                raise ValueError
            tasks.append(
                Task(
                    name=task[1],
                    pid=int(task[3]) if task[3] else None,
                    tasks=int(task[2] or 1),
                    runtime_ms=float(row[1]),
                    switches=int(row[2]),
                    mean_delay_ms=float(row[3]),
                    max_delay_ms=float(row[4]),
                )
            )
        except ValueError:
            unreadable += 1
    if not tasks:
        raise InputError("no task of `perf sched latency` can be read: give the whole table, as perf prints it")
    return Sched(tuple(tasks), unreadable)


def notes(sched: Sched) -> tuple[str, ...]:
    """The tasks of NFS and of Oracle that waited longest for a processor, and what could not be read."""
    names = ("nfsd", "kworker", "ora", "rpciod", "xprtiod", "fio")
    known = [task for task in sched.tasks if task.name.startswith(names)]
    known.sort(key=lambda task: -task.mean_delay_ms)
    said = [
        f"{task.name} waited {task.mean_delay_ms:.3f} ms for a processor (mean of {task.switches} switches, "
        f"at most {task.max_delay_ms:.3f} ms)"
        for task in known[:3]
    ]
    if sched.unreadable:
        said.append(f"rows that could not be read: {sched.unreadable}")
    return tuple(said)
