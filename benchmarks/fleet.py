"""Measures nfslat fleet against a plain two-file run on the same packets, by clients and workers, in turn, in one run.

What it prints is Markdown. Captures are made, and lie in the page cache; each run of the fleet has an empty folder of
its own, so that none goes on where another stopped. The plain run gets one file with the packets of all clients, which
nobody has in practice: it is what the work costs without a scheduler, without shards, and without a report a client.
Times are those of whole processes, start-up included; CPU is user and system time, with that of the workers.
"""

from __future__ import annotations

import argparse
import json
import shutil
import statistics
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from bench import NFSLAT, Run, machine, measure, say, spread
from fleet_made.load import Load, make_load

_MOST_EACH = 10  # clients for which as many plain runs are worth the wait


@dataclass
class Way:
    """A way to do the work."""

    title: str
    workers: int | None  # None: the plain run
    is_each: bool = False  # a plain run for each client, one after the other
    runs: list[Run] = field(default_factory=list)
    worker_bytes: list[int] = field(default_factory=list)  # peak memory of the largest worker, a run each

    @property
    def wall_s(self) -> float:
        """Median."""
        return statistics.median(run.wall_s for run in self.runs)


def run_once(way: Way, made: Load, scratch: Path) -> None:
    """Measure, and look into the answer: figures of a run that leaves ops out are worth nothing."""
    answer, out = scratch / "answer.json", scratch / "out"
    if way.workers is None:
        server = ",".join(map(str, made.server))
        command = [NFSLAT, server, str(made.merged), "--engine", "native"]
    else:
        clients = [f"{paths[0].parent}/" for paths in made.clients]
        command = [NFSLAT, "fleet", *map(str, made.server), *clients, "--workers", str(way.workers), "--out", str(out)]
    if way.is_each:
        clients = [",".join(map(str, paths)) for paths in made.clients]
        each = [measure([NFSLAT, server, client, "-q", "--json", str(answer)]) for client in clients]
        wall_s, cpu_s = sum(one.wall_s for one in each), sum(one.cpu_s for one in each)
        way.runs.append(Run(wall_s, cpu_s, max(one.rss_bytes for one in each)))
        return
    way.runs.append(measure([*command, "-q", "--json", str(answer)]))
    told = json.loads(answer.read_text())
    if way.workers is None:
        matched = told["matched"]["total"]["count"]
    else:
        matched = told["captures"]["matched_ops"]
        way.worker_bytes.append(max((one["peak_rss_bytes"] or 0 for one in told["run"]["workers"]), default=0))
        shutil.rmtree(out, ignore_errors=True)
    answer.unlink()
    if matched != made.ops:
        raise SystemExit(f"fleet: {way.title}: {matched:,} ops of {made.ops:,} matched")


def heat(made: Load) -> None:
    """Into the page cache."""
    for path in (made.merged, *made.server, *(path for paths in made.clients for path in paths)):
        with path.open("rb", buffering=0) as file:
            while file.read(2**24):
                pass


def compare(made: Load, workers: list[int], runs: int, scratch: Path) -> Iterator[str]:
    """Run in turn; yield the lines of a table."""
    plain = Way("`nfslat server.pcap clients.pcap`", None)
    fleets = [Way(f"`nfslat fleet`, {count} worker{'s' * (count > 1)}", count) for count in workers]
    each = [Way(f"`nfslat server.pcap CLIENT.pcap`, {len(made.clients)} times", None, is_each=True)]
    ways = [plain, *(each if 1 < len(made.clients) <= _MOST_EACH else []), *fleets]
    for turn in range(runs):
        for way in ways:
            sys.stderr.write(f"fleet: {way.title}, run {turn + 1} of {runs}\n")
            run_once(way, made, scratch)
    columns = "wall, s | best, s | CPU, s | MB/s | ops/s | wall to plain | CPU to plain | scaling | peak RSS, MB"
    yield f"| | {columns} |"
    yield "|---|--:|--:|--:|--:|--:|--:|--:|--:|--:|"
    for way in ways:
        cpu_s = statistics.median(run.cpu_s for run in way.runs)
        plain_cpu_s = statistics.median(run.cpu_s for run in plain.runs)
        yield (
            f"| {way.title} | {spread([run.wall_s for run in way.runs])} | {min(run.wall_s for run in way.runs):.3g} "
            f"| {cpu_s:.3g} | {made.bytes / way.wall_s / 1e6:,.0f} | {made.ops / way.wall_s:,.0f} "
            f"| {way.wall_s / plain.wall_s:.2f} | {cpu_s / plain_cpu_s:.2f} "
            f"| {efficiency(way, fleets)} | {peak(way)} |"
        )


def efficiency(way: Way, fleets: list[Way]) -> str:
    """What of so many times the workers came out as so many times the speed."""
    first = min(fleets, key=lambda one: one.workers or 0, default=way)
    if way.workers is None or first.workers is None or way is first:
        return "–"
    return f"{first.wall_s * first.workers / (way.wall_s * way.workers):.0%}"


def peak(way: Way) -> str:
    """Of the plain run the process itself."""
    if way.workers is None:
        return f"{statistics.median(run.rss_bytes for run in way.runs) / 1e6:,.0f}"
    return f"{max(way.worker_bytes) / 1e6:,.0f}" if any(way.worker_bytes) else "–"


def main() -> None:
    """Parse the arguments, make, measure, print."""
    parser = argparse.ArgumentParser(prog="benchmarks/fleet.py", description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--clients", type=int, nargs="+", default=[1, 10, 100], metavar="N", help="(1 10 100)")
    parser.add_argument("--workers", type=int, nargs="+", default=[1, 2], metavar="N", help="processes (1 2)")
    parser.add_argument("--ops", type=int, default=1_000_000, metavar="M", help="of all clients together (1,000,000)")
    parser.add_argument("--files", type=int, default=1, metavar="K", help="rotated files of each capture (1)")
    parser.add_argument("--runs", type=int, default=3, metavar="N", help="of each (3)")
    parser.add_argument("--dir", type=Path, help="make the captures in a folder here, a large one (a temporary one)")
    given = parser.parse_args()

    say("# nfslat fleet against a plain run", "", f"{'; '.join(machine())}.", "")
    say(
        f"Medians (and ranges) of {given.runs} runs in turn. Scaling: T1 / (N TN). Peak RSS: of the largest worker.", ""
    )
    for clients in given.clients:
        with tempfile.TemporaryDirectory(prefix="nfslat-fleet-", dir=given.dir) as temporary:
            folder = Path(temporary)
            sys.stderr.write(f"fleet: making {clients} clients\n")
            made = make_load(folder / "made", clients, -(-given.ops // clients), files=given.files)
            heat(made)
            title = f"{clients:,} client{'s' * (clients > 1)}, {made.ops:,} ops, {made.bytes / 1e6:,.0f} MB"
            say(f"## {title}", "", *compare(made, given.workers, given.runs, folder), "")


if __name__ == "__main__":
    main()
