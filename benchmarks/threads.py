"""Holds the inference of server threads against simulated servers whose number of threads is known.

What it prints is Markdown: for each kind of server and load the estimates, how often the stated range holds the truth,
and how far off the mean wait for a thread is. Loads are drawn from seeds, so two runs print the same. It takes some
minutes.
"""

import argparse
import sys
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))

from queues import GETATTR, MEAN_NS, Traffic, ops, simulate  # the simulator of the tests

from nfslat.inflight.server import ServerLoad, server_load
from nfslat.model.tables import Loose
from nfslat.select import is_reverse

THREADS = (1, 2, 3, 4, 8, 16, 32, 64, 128)
CONNECTIONS = (1, 2, 8)
LAWS: dict[str, dict[str, Any]] = {
    "exponential": {"law": "exponential"},
    "log-normal, sigma 1": {"law": "lognormal", "sigma": 1.0},
    "log-normal, sigma 0.3": {"law": "lognormal", "sigma": 0.3},
    "constant, cv 0.02": {"law": "constant", "cv": 0.02},
}
MIXES = {"with GETATTR": {"READ": 0.7, "WRITE": 0.2, GETATTR: 0.1}, "READ only": {"READ": 1.0}}
# Synchronous workers for each thread; where there are no more workers than threads nothing ever waits. Then loads that
# are no limit for other reasons: threads that are half idle, and storage that takes a fourth of what the threads bring.
LOADS = (0.8, 1.2, 2.0, 4.0)
IDLE, STORAGE = "half idle, calls at random", "slow storage"
SIZES = (600, 4_000, 20_000)


@dataclass(frozen=True)
class Case:
    """One simulated server, and how it is loaded; `arguments` are those of ``queues.simulate``."""

    law: str
    mix: str
    threads: int
    connections: int
    load: float | str
    count: int
    seed: int

    @property
    def arguments(self) -> dict[str, Any]:
        """Of the simulator."""
        own: dict[str, Any] = {"threads": self.threads, "workers": 4 * self.threads}
        if self.load == IDLE:
            # Without a limit the rate is what half of the threads get done.
            work_s = sum(share * MEAN_NS[name] for name, share in MIXES[self.mix].items()) / 1e9
            own = {"threads": self.threads, "rate_per_s": self.threads / 2 / work_s}
        elif self.load == STORAGE:
            own |= {"threads": 4 * self.threads, "disks": self.threads}
        elif isinstance(self.load, float):
            least = 1 if self.load <= 1 else self.threads + 1
            own["workers"] = max(round(self.load * self.threads), least)
        own["connections"] = min(self.connections, own.get("workers", self.connections))
        return own | {"count": self.count, "mix": MIXES[self.mix], "seed": self.seed} | LAWS[self.law]


@dataclass(frozen=True)
class Outcome:
    """What was found; ms."""

    case: Case
    is_limit: bool  # calls really wait for more than 5 % of the server's time
    estimate: int | None
    low: int | None
    high: int | None
    limited: bool
    cannot: str
    bound: int
    queue_ms: float  # found
    true_queue_ms: float
    server_ms: float

    @property
    def exact(self) -> bool:
        """The very number."""
        return self.estimate == self.case.threads

    @property
    def covered(self) -> bool:
        """The number is in the range that was stated."""
        return self.low is not None and self.high is not None and self.low <= self.case.threads <= self.high

    @property
    def queue_error(self) -> float:
        """Share of the server's time that was booked wrongly, as a mean."""
        return abs(self.queue_ms - self.true_queue_ms) / self.server_ms


def infer(traffic: Traffic) -> ServerLoad:
    """What nfslat makes of the server's capture of `traffic`."""
    table = ops(traffic, "server")
    nothing: dict[str, list[int]] = {name: [] for name in Loose.columns()}
    loose = Loose.from_columns(nothing, kinds=table.kinds, connections=table.connections)
    return server_load(table, loose, is_reverse(table))


def run(case: Case) -> Outcome:
    """Simulate, infer, compare."""
    traffic = simulate(**case.arguments)
    found = infer(traffic)
    server_ns, queue_ns = float(traffic.server_ns.mean()), float(traffic.queue_ns.mean())
    t = found.threads
    return Outcome(
        case=case,
        is_limit=queue_ns > 0.05 * server_ns,
        estimate=t.estimate,
        low=t.low,
        high=t.high,
        limited=t.limited,
        cannot=t.cannot,
        bound=t.bound.threads,
        queue_ms=float(found.queue_ns.mean()) / 1e6,
        true_queue_ms=queue_ns / 1e6,
        server_ms=server_ns / 1e6,
    )


def cases(seeds: int, threads: tuple[int, ...], sizes: tuple[int, ...]) -> Iterator[Case]:
    """All of them."""
    loads = (*LOADS, IDLE, STORAGE)
    for law, mix, t, connections, load, count in product(LAWS, MIXES, threads, CONNECTIONS, loads, sizes):
        if load == STORAGE and GETATTR not in MIXES[mix]:
            continue  # nothing but READs, first come, first served: on the wire that is a server with few threads
        for seed in range(1, seeds + 1):
            yield Case(law, mix, t, connections, load, count, seed)


def _percent(part: int, whole: int) -> str:
    return f"{100 * part / whole:.1f} %" if whole else "-"


def summary(title: str, outcomes: list[Outcome]) -> str:
    """One row of a table."""
    limits = [one for one in outcomes if one.is_limit]
    others = [one for one in outcomes if not one.is_limit]
    told = [one for one in limits if one.limited]
    silent = [one for one in limits if one.cannot]
    missed = len(limits) - len(told) - len(silent)
    errors = [one.queue_error for one in told]
    cells = [
        title,
        f"{len(limits):,}",
        _percent(sum(one.exact for one in told), len(told)),
        _percent(sum(one.covered for one in told), len(told)),
        _percent(len(silent), len(limits)),
        _percent(missed, len(limits)),
        f"{100 * float(np.mean(errors)):.1f} %" if errors else "-",
        f"{sum(one.limited for one in others)} of {len(others):,}",
    ]
    return "| " + " | ".join(cells) + " |"


HEAD = (
    "| {} | limits | exact | in range | cannot tell | missed | mean error of the wait | false limits |\n"
    "|---|---:|---:|---:|---:|---:|---:|---:|"
)


def table(name: str, outcomes: list[Outcome], value: Any) -> str:
    """One row for each value of something."""
    values = dict.fromkeys(value(one) for one in outcomes)
    rows = [summary(str(key), [one for one in outcomes if value(one) == key]) for key in values]
    return "\n".join([HEAD.format(name), *rows])


def main() -> None:
    """Print the tables, and the worst."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=1, help="loads drawn for each combination (%(default)s)")
    parser.add_argument("--threads", type=int, nargs="+", default=THREADS, metavar="T")
    parser.add_argument("--sizes", type=int, nargs="+", default=SIZES, metavar="OPS")
    parser.add_argument("--worst", type=int, default=20, help="wrong answers to print, the most harmful first")
    parser.add_argument("--jobs", type=int, default=2, help="processes (%(default)s)")
    given = parser.parse_args()
    todo = list(cases(given.seeds, tuple(given.threads), tuple(given.sizes)))
    with ProcessPoolExecutor(given.jobs) as pool:
        outcomes = list(pool.map(run, todo, chunksize=8))
    print(HEAD.format("all"), summary("all", outcomes), sep="\n")
    for name, value in (
        ("service", lambda one: one.case.law),
        ("ops asked", lambda one: one.case.mix),
        ("threads", lambda one: one.case.threads),
        ("connections", lambda one: one.case.connections),
        ("workers a thread, or load", lambda one: one.case.load),
        ("ops", lambda one: one.case.count),
    ):
        print("", table(name, outcomes, value), sep="\n")
    wrong = [one for one in outcomes if one.limited and not (one.covered and one.is_limit)]
    wrong.sort(key=lambda one: (one.is_limit, -one.queue_error))
    print(
        "\nWrong answers, the most harmful first: estimate, range, share of the server's time booked wrongly, call.\n"
    )
    for one in wrong[: given.worst]:
        arguments = ", ".join(f"{name}={value!r}" for name, value in one.case.arguments.items())
        kind = "" if one.is_limit else "FALSE LIMIT "
        print(
            f"- {kind}{one.estimate} ({one.low} to {one.high}), bound {one.bound}, {100 * one.queue_error:.0f} %: "
            f"`simulate({arguments})`"
        )


if __name__ == "__main__":
    main()
