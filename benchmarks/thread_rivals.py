"""Holds the inference of server threads against servers on which something else makes calls wait.

What it prints is Markdown: for each kind of server how often a number of threads was said where threads are the limit,
and where they are not, by how sure the answer is: certain where calls that need no disk wait as long as the others,
else likely. Loads are drawn from seeds, so two runs print the same. A seed takes some four minutes.
"""

from __future__ import annotations

import argparse
import sys
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))

from rivals import commits, line, shared, simulate
from threads import infer

LAWS: tuple[dict[str, Any], ...] = (
    {"law": "exponential"},
    {"law": "lognormal", "sigma": 1.0},
    {"law": "lognormal", "sigma": 0.3},
    {"law": "constant", "cv": 0.05},
)
LOADS = ((8, 0.02), (20, 3.0), (20, 15.0), (32, 0.02))  # workers, and how long each thinks, ms
CONNECTIONS = (1, 8)
_FREELY = shared(float("inf"))
_CPU: dict[str, Any] = {"READ": [("cpu", 1.0)], "GETATTR": [("cpu", 0.1)]}
_DISK: dict[str, Any] = {"READ": [("cpu", 0.1), ("disk", 3.0)], "GETATTR": [("cpu", 0.05)]}
_READ: dict[str, Any] = {"READ": _DISK["READ"]}
_WORK: dict[str, Any] = {"READ": [("cpu", 0.1), ("wait", 4.0)], "GETATTR": [("cpu", 0.05)]}
_SHORT: dict[str, Any] = {"READ": [("cpu", 0.2), ("wait", 1.0)], "GETATTR": [("cpu", 0.05)]}
# A disk behind a timer: what it has done by then is answered at each tick, one call after another.
_TICKS: dict[str, Any] = {"READ": [("cpu", 0.06), ("disk", 4.0), ("cpu", 0.06)], "GETATTR": [("cpu", 0.06)]}
_TIMER: dict[str, Any] = {"tick_ms": 10.0, "ticking": "disk"}
_MIXED: dict[str, Any] = {
    "READ": [("cpu", 0.1), ("wait", 6.0)], "WRITE": [("cpu", 0.2), ("wait", 3.0)], "GETATTR": [("cpu", 0.05)],
    "CREATE": [("cpu", 0.3), ("wait", 2.8)], "LOOKUP": [("cpu", 0.1)],
}  # fmt: skip
_MIXED_ON_DISK = {name: [(at.replace("wait", "disk"), ms) for at, ms in way] for name, way in _MIXED.items()}
_METADATA: dict[str, Any] = {name: [("wait", 2.8)] for name in ("CREATE", "REMOVE", "RENAME", "SETATTR")}
_METADATA |= {"LOOKUP": [("cpu", 0.4)], "GETATTR": [("cpu", 0.2)]}
_JOURNAL: dict[str, Any] = {"WRITE": [("cpu", 0.1), ("journal", 4.0)], "GETATTR": [("cpu", 0.05)]}
_LOGGED = {"WRITE": 0.9, "GETATTR": 0.1}
_SOME, _FEW = {"READ": 0.9, "GETATTR": 0.1}, {"READ": 0.98, "GETATTR": 0.02}


def kinds() -> Iterator[tuple[str, dict[str, Any]]]:
    """A title, and the arguments of `rivals.simulate`; with them what the capture does not have: the share `late` at
    the beginning, and so many connections (`strangers`)."""
    for processors in (1, 4):
        stations = {"cpu": shared(processors)}
        yield f"{processors} shared processors", {"ways": _CPU, "stations": stations, "threads": 64, "shares": _SOME}
    yield "1 processor, in turn (*)", {"ways": _CPU, "stations": {"cpu": line(1)}, "threads": 64, "shares": _SOME}
    for disks in (1, 3, 6):
        stations = {"cpu": line(1), "disk": line(disks)}
        own = {"stations": stations, "threads": 64}
        yield f"{disks} disks, 10 % GETATTR", own | {"ways": _DISK, "shares": _SOME}
        yield f"{disks} disks, 2 % GETATTR", own | {"ways": _DISK, "shares": _FEW}
        yield f"{disks} disks, READ only (*)", own | {"ways": _READ}
        own |= {"stations": {"cpu": line(1), "disk": line(disks)}} | _TIMER
        yield f"{disks} disks with a timer, 10 % GETATTR", own | {"ways": _TICKS, "shares": _SOME}
    stations = {"cpu": line(1), "disk": _FREELY}
    yield "a disk with a timer", {"ways": _TICKS, "stations": stations, "threads": 64, "shares": _SOME} | _TIMER
    yield "page cache and a disk", {
        "ways": {"READ": [("cpu", 0.1), ("disk", 0.01)], "GETATTR": [("cpu", 0.05)]},
        "stations": {"cpu": line(1), "disk": line(1)}, "rare": {"disk": (0.1, 8.0)}, "threads": 16, "shares": _SOME,
    }  # fmt: skip
    yield "journal", {
        "ways": {"WRITE": [("cpu", 0.1), ("journal", 4.0)]}, "stations": {"cpu": line(1), "journal": commits()},
        "threads": 64,
    }  # fmt: skip
    yield "bursts", {
        "ways": {"READ": [("cpu", 0.3), ("wait", 0.5)], "GETATTR": [("cpu", 0.1)]}, "together": True, "threads": 64,
        "stations": {"cpu": line(1), "wait": _FREELY}, "shares": _SOME,
    }  # fmt: skip
    yield "stalls", {
        "ways": _SHORT, "stations": {"cpu": line(1), "wait": _FREELY}, "threads": 64, "shares": _SOME,
        "stall_every_ms": 400.0, "stall_ms": 100.0,
    }  # fmt: skip
    for threads in (1, 2, 4, 8):
        own = {"threads": threads, "shares": _SOME}
        yield f"{threads} threads", own | {"ways": _WORK, "stations": {"cpu": shared(4), "wait": _FREELY}}
        disks = max(threads // 2, 1)
        stations = {"cpu": shared(2), "disk": line(disks)}
        yield f"{threads} threads, {disks} disks", own | {"ways": _DISK, "stations": stations}
        yield f"{threads} threads, 1 processor", own | {"ways": _CPU, "stations": {"cpu": shared(1)}}
        yield f"{threads} threads, READ only", {"threads": threads, "ways": {"READ": [("wait", 4.0)]},
                                                "stations": {"wait": _FREELY}}  # fmt: skip
        stations = {"cpu": line(1), "disk": _FREELY}
        yield f"{threads} threads, a disk with a timer", own | {"ways": _TICKS, "stations": stations} | _TIMER
    for threads in (2, 4):
        own = {"threads": threads, "shares": _SOME, "ways": _WORK, "stations": {"cpu": shared(4), "wait": _FREELY}}
        yield f"{threads} threads, in lockstep", own | {"tick_ms": 10.0}
        yield f"{threads} threads, a fifth of the clients not seen", own | {"connections": 5, "strangers": 1}
        yield (
            f"{threads} threads, 60 connections, from the middle",
            own | {"connections": 60, "workers": 90, "late": 0.5},
        )
    yield from _mixed_kinds()


def _mixed_kinds() -> Iterator[tuple[str, dict[str, Any]]]:
    """Servers that do more than one thing, or for whom something changes."""
    free = {"cpu": shared(4), "wait": _FREELY}
    for disks in (1, 3):
        stations = {"cpu": shared(2), "disk": line(disks)}
        yield f"{disks} disks, mixed operations", {"ways": _MIXED_ON_DISK, "stations": stations, "threads": 64}
        own = {"ways": _DISK, "stations": stations, "threads": 64, "shares": _SOME}
        yield f"{disks} disks that get slow", own | {"slower": 6.0}
        yield f"{disks} disks, one client hogs", own | {"connections": 5, "hog": 0.6, "turns": True}
    own = {"stations": {"cpu": shared(2), "wait": _FREELY}, "threads": 64, "slower": 6.0}
    yield "a disk for each call, gets slow", own | {"ways": _WORK, "shares": _SOME}
    yield "stalls, READ only", own | {
        "ways": {"READ": _WORK["READ"]}, "stall_every_ms": 300.0, "stall_ms": 100.0, "slower": 1.0,
    }  # fmt: skip
    yield "two pools", {
        "ways": {"READ": [("a", 4.0)], "WRITE": [("b", 6.0)], "GETATTR": [("cpu", 0.05)]}, "threads": 64,
        "stations": {"a": line(2), "b": line(4), "cpu": shared(4)},
    }  # fmt: skip
    yield "journal and GETATTR", {
        "ways": _JOURNAL, "stations": {"cpu": shared(4), "journal": commits()}, "threads": 64, "shares": _LOGGED,
    }  # fmt: skip
    for threads in (1, 2, 4, 8):
        own = {"threads": threads, "stations": free, "turns": True}
        yield f"{threads} threads, mixed operations", own | {"ways": _MIXED}
        yield f"{threads} threads, metadata", own | {"ways": _METADATA}
        own |= {"ways": _WORK, "shares": _SOME}
        yield f"{threads} threads, one client hogs", own | {"connections": 5, "hog": 0.6}
        yield f"{threads} threads, something behind gets slow", own | {"slower": 6.0}
        yield f"{threads} threads, stalls", own | {"stall_every_ms": 400.0, "stall_ms": 60.0}
        yield f"{threads} threads, bursts", own | {"together": True}
        stations = {"cpu": shared(4), "journal": commits()}
        alike = {"CREATE": [("wait", 3.0)], "RENAME": [("wait", 4.0)], "GETATTR": [("wait", 3.0)]}
        yield f"{threads} threads, calls without data as slow", own | {"ways": alike, "shares": None}
        if threads > 2:
            own |= {"turns": False, "workers": 40}
            yield f"{threads} threads, 2 of 10 clients not seen", own | {"connections": 10, "strangers": 2}
        read = {"threads": threads, "ways": {"READ": [("cpu", 0.1), ("wait", 4.0)]}, "stations": free}
        yield f"{threads} threads, READ only, stalls", read | {"stall_every_ms": 300.0, "stall_ms": 100.0}
        yield f"{threads} threads, READ only, gets slow", read | {"slower": 8.0, "law": "lognormal", "sigma": 0.6}
        yield f"{threads} threads before a journal", own | {
            "ways": _JOURNAL, "stations": stations, "shares": _LOGGED,
        }  # fmt: skip


@dataclass(frozen=True)
class Answer:
    """To one load."""

    title: str
    is_limit: bool  # calls wait for a thread for more than 5 % of the server's time
    sure: str  # "certain", "likely", or "" where nothing is said
    right: bool  # the number, or the range around it, is the threads'


def run(case: tuple[int, int, int, int, int]) -> Answer:
    """Simulate, infer, compare; a case is the places of its kind, law, load and connections, and a seed."""
    kind, law, load, connections, seed = case
    title, own = list(kinds())[kind]
    late, strangers = own.pop("late", 0.0), own.pop("strangers", 0)
    workers, think_ms = LOADS[load]
    drawn = {"workers": workers, "think_ms": think_ms, "connections": CONNECTIONS[connections], "seed": seed}
    made = simulate(**(drawn | LAWS[law] | own))
    seen = made.take(np.flatnonzero((made.conn >= strangers) & (np.arange(len(made.conn)) >= late * len(made.conn))))
    found = infer(seen)
    t = found.threads
    truth = own["threads"]
    within = t.low is not None and t.high is not None and t.low <= truth <= t.high
    is_limit = bool(seen.queue_ns.mean() > 0.05 * seen.server_ns.mean())
    sure = "" if not t.limited else "certain" if found.witnesses >= 5 else "likely"
    return Answer(title, is_limit, sure, t.estimate == truth or within)


def cases(seeds: list[int]) -> list[tuple[int, int, int, int, int]]:
    """All loads."""
    places = [range(len(one)) for one in (list(kinds()), LAWS, LOADS, CONNECTIONS)]
    fixed = {place for place, (_, own) in enumerate(kinds()) if "connections" in own}
    return [one for one in product(*places, seeds) if one[0] not in fixed or one[3] == 0]


def _cells(rows: list[Answer]) -> list[int]:
    """Loads, and what is said of them; the parts sum to the loads."""
    said = Counter((one.sure, one.right) for one in rows)
    parts = [said["certain", True], said["certain", False], said["likely", True], said["likely", False]]
    return [len(rows), *parts, len(rows) - sum(parts)]


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, nargs="+", default=[1], metavar="SEED")
    parser.add_argument("--jobs", type=int, default=2, help="processes (%(default)s)")
    given = parser.parse_args()
    with ProcessPoolExecutor(given.jobs) as pool:
        answers = list(pool.map(run, cases(given.seeds), chunksize=8))
    said = "certain, right | certain, wrong | likely, right | likely, wrong | nothing"
    print(f"| server | threads are the limit | {said} | they are not | certain | likely | nothing |")
    print("|---|" + "--:|" * 10)
    for title in [*dict.fromkeys(one.title for one in answers), "all"]:
        rows = [one for one in answers if title in (one.title, "all")]
        limits = _cells([one for one in rows if one.is_limit])
        count, *others, nothing = _cells([one for one in rows if not one.is_limit])
        cells = [*limits, count, others[0] + others[1], others[2] + others[3], nothing]
        print(f"| {title} | " + " | ".join(map(str, cells)) + " |")
    print(
        "\n(*) The packets cannot tell these from threads: that so many are worked on at once is all there is to say."
    )


if __name__ == "__main__":
    main()
