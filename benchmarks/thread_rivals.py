"""Holds the inference of server threads against servers on which something else makes calls wait.

What it prints is Markdown: for each kind of server how often a number of threads was said where threads are the limit,
and where they are not. Loads are drawn from seeds, so two runs print the same. A seed takes some three minutes.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import Any

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
_SOME, _FEW = {"READ": 0.9, "GETATTR": 0.1}, {"READ": 0.98, "GETATTR": 0.02}


def kinds() -> Iterator[tuple[str, dict[str, Any]]]:
    """A title, and the arguments of `rivals.simulate`."""
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


@dataclass(frozen=True)
class Answer:
    """To one load."""

    title: str
    is_limit: bool  # calls wait for a thread for more than 5 % of the server's time
    said: bool  # that calls wait for one of so many
    exact: bool
    in_range: bool
    proven: bool  # as certain: witnesses


def run(case: tuple[int, int, int, int, int]) -> Answer:
    """Simulate, infer, compare; a case is the places of its kind, law, load and connections, and a seed."""
    kind, law, load, connections, seed = case
    title, arguments = list(kinds())[kind]
    workers, think_ms = LOADS[load]
    made = simulate(
        **arguments, **LAWS[law], workers=workers, think_ms=think_ms, connections=CONNECTIONS[connections], seed=seed
    )
    found = infer(made)
    t = found.threads
    truth = arguments["threads"]
    within = t.low is not None and t.high is not None and t.low <= truth <= t.high
    is_limit = bool(made.queue_ns.mean() > 0.05 * made.server_ns.mean())
    return Answer(title, is_limit, t.limited, t.estimate == truth, within, t.limited and found.witnesses >= 5)


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, nargs="+", default=[1], metavar="SEED")
    parser.add_argument("--jobs", type=int, default=2, help="processes (%(default)s)")
    given = parser.parse_args()
    places = (range(len(one)) for one in (list(kinds()), LAWS, LOADS, CONNECTIONS))
    with ProcessPoolExecutor(given.jobs) as pool:
        answers = list(pool.map(run, product(*places, given.seeds), chunksize=8))
    print("| server | threads are the limit | said | exact | in range | they are not | said | said as certain |")
    print("|---|--:|--:|--:|--:|--:|--:|--:|")
    for title in [*dict.fromkeys(one.title for one in answers), "all"]:
        rows = [one for one in answers if title in (one.title, "all")]
        limits, others = [one for one in rows if one.is_limit], [one for one in rows if not one.is_limit]
        cells = [
            len(limits), sum(one.said for one in limits), sum(one.said and one.exact for one in limits),
            sum(one.said and one.in_range for one in limits), len(others), sum(one.said for one in others),
            sum(one.proven for one in others),
        ]  # fmt: skip
        print(f"| {title} | " + " | ".join(map(str, cells)) + " |")
    print(
        "\n(*) The packets cannot tell these from threads: that so many are worked on at once is all there is to say."
    )


if __name__ == "__main__":
    main()
