"""Measures nfslat against the other programs that are found, all on the same captures, in turn, in one run.

What it prints is Markdown. Times are those of whole processes, start-up included, with the captures in the page cache;
CPU is user and system time. Programs run in turn (A, B, A, B ...), so that a machine that slows down slows all of them.
"""

import argparse
import os
import platform
import shlex
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

NFSLAT = str(Path(sys.executable).with_name("nfslat"))

# How much input a peer is given several times, and once. What is slow takes minutes for the largest captures here, what
# is very slow takes a quarter of an hour.
FAST = (2**60, 2**60)
SLOW = (200 * 2**20, 8 * 2**30)
VERY_SLOW = (20 * 2**20, 2 * 2**30)


@dataclass(frozen=True)
class Pair:
    """The captures of one set of operations, and how the tables call them."""

    title: str
    server: Path
    client: Path

    @property
    def size_bytes(self) -> int:
        """Of both."""
        return self.server.stat().st_size + self.client.stat().st_size

    def heat(self) -> None:
        """Into the page cache."""
        for capture in (self.server, self.client):
            with capture.open("rb", buffering=0) as file:
                while file.read(2**24):
                    pass


@dataclass(frozen=True)
class Run:
    """What one process, with the processes that it started and waited for, has used."""

    wall_s: float
    cpu_s: float
    # Of the largest process among them: this is what the kernel keeps.
    rss_bytes: int


@dataclass
class Peer:
    """A program, by the commands that do one job; several run one after the other, and count as one."""

    name: str
    commands: list[list[str]]
    limits: tuple[int, int] = FAST
    runs: list[Run] = field(default_factory=list)

    def run(self) -> None:
        """Run it once more."""
        parts = [measure(command) for command in self.commands]
        self.runs.append(
            Run(sum(p.wall_s for p in parts), sum(p.cpu_s for p in parts), max(p.rss_bytes for p in parts))
        )


def measure(command: list[str]) -> Run:
    """Run a command that has to succeed; its output goes nowhere."""
    before = time.monotonic()
    process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
    assert process.stderr is not None  # noqa: S101 - for mypy
    said = process.stderr.read()
    _, status, usage = os.wait4(process.pid, 0)
    wall_s = time.monotonic() - before
    process.returncode = os.waitstatus_to_exitcode(status)
    process.stderr.close()
    if process.returncode != 0:
        raise SystemExit(f"bench: {shlex.join(command)} failed:\n{said.decode(errors='replace')}")
    # Linux counts in KiB, macOS in bytes.
    unit = 1 if sys.platform == "darwin" else 1024
    return Run(wall_s, usage.ru_utime + usage.ru_stime, usage.ru_maxrss * unit)


def one_side(pair: Pair) -> list[Peer]:
    """Decode one capture and sum up its response times; `-T fields` only lists what others would have to sum up."""
    capture = str(pair.client)
    peers = [Peer("nfslat", [[NFSLAT, capture, "--engine", "native", "-q"]])]
    if shutil.which("tshark"):
        fields = ["frame.time_epoch", "tcp.stream", "rpc.xid", "rpc.msgtyp", "nfs.procedure_v3"]
        names = [word for name in fields for word in ("-e", name)]
        srt = ["tshark", "-n", "-q", "-r", capture, "-z", "rpc,srt,100003,3"]
        listed = ["tshark", "-n", "-r", capture, "-Y", "rpc", "-T", "fields", *names]
        peers += [
            Peer("tshark -q -z rpc,srt,100003,3", [srt], SLOW),
            Peer(f"tshark -T fields, {len(fields)} fields", [listed], VERY_SLOW),
        ]
    return peers


def both_sides(pair: Pair) -> list[Peer]:
    """Decode both captures, match their operations and report."""
    captures = [str(pair.server), str(pair.client)]
    report = ["--json", os.devnull, "-q"]
    peers = [Peer("nfslat", [[NFSLAT, *captures, "--engine", "native", *report]])]
    if floor := os.environ.get("NFSLAT_BENCH_FLOOR"):
        peers.append(Peer("C floor", [[floor, *captures]]))
    if shutil.which("tshark"):
        srt = [["tshark", "-n", "-q", "-r", capture, "-z", "rpc,srt,100003,3"] for capture in captures]
        peers += [
            Peer("tshark -q -z rpc,srt,100003,3, both sides, not matched", srt, SLOW),
            Peer("nfslat --engine tshark", [[NFSLAT, *captures, "--engine", "tshark", *report]], VERY_SLOW),
        ]
    return peers


def start_up() -> list[Peer]:
    """What a program takes before it does anything."""
    peers = [
        Peer("nfslat --version", [[NFSLAT, "--version"]]),
        Peer("python -c pass", [[sys.executable, "-c", "pass"]]),
    ]
    if shutil.which("tshark"):
        peers.append(Peer("tshark --version", [["tshark", "--version"]]))
    return peers


def compare(peers: list[Peer], runs: int, size_bytes: int = 0) -> Iterator[str]:
    """Run the peers in turn; yield the lines of a table, and of what was left out."""
    left_out = [peer for peer in peers if size_bytes > peer.limits[1]]
    peers = [peer for peer in peers if peer not in left_out]
    for turn in range(runs):
        for peer in peers:
            if turn == 0 or size_bytes <= peer.limits[0]:
                sys.stderr.write(f"bench: {peer.name}, run {turn + 1} of {runs}\n")
                peer.run()
    yield "| | wall, s | CPU, s | peak RSS, MB | wall, ratio | CPU, ratio | runs |"
    yield "|---|--:|--:|--:|--:|--:|--:|"
    base_wall_s = statistics.median(run.wall_s for run in peers[0].runs)
    base_cpu_s = statistics.median(run.cpu_s for run in peers[0].runs)
    for peer in peers:
        wall = [run.wall_s for run in peer.runs]
        cpu = [run.cpu_s for run in peer.runs]
        rss_bytes = statistics.median(run.rss_bytes for run in peer.runs)
        yield (
            f"| {peer.name} | {spread(wall)} | {spread(cpu)} | {rss_bytes / 1e6:.0f} "
            f"| {statistics.median(wall) / base_wall_s:.3g} | {statistics.median(cpu) / base_cpu_s:.3g} "
            f"| {len(peer.runs)} |"
        )
    if left_out:
        yield ""
        yield f"Not run on captures this large: {', '.join(peer.name for peer in left_out)}."


def spread(values: list[float]) -> str:
    """Median and range."""
    median = f"{statistics.median(values):.3g}"
    return median if len(values) == 1 else f"{median} ({min(values):.3g}–{max(values):.3g})"


def make(make_pair: str, folder: Path, name: str, title: str, options: list[str]) -> Pair:
    """Generate a pair, unless a run before has left it."""
    prefix = folder / name
    made = Pair(title, folder / f"{name}.server.pcap", folder / f"{name}.client.pcap")
    note = folder / f"{name}.options"
    if not note.exists() or note.read_text() != shlex.join(options):
        sys.stderr.write(f"bench: making {title}\n")
        subprocess.run([make_pair, str(prefix), "--truth", "0", *options], check=True, stderr=subprocess.DEVNULL)
        note.write_text(shlex.join(options))
    return made


def inputs(arguments: argparse.Namespace, folder: Path) -> Iterator[Pair]:
    """The pairs that are measured, one after the other."""
    if arguments.pair:
        server, client = arguments.pair
        yield Pair(f"{server.name} and {client.name}", server, client)
        return
    wanted = [
        ("small", "7 MB: 1,350 ops on 4 connections", ["--ops", "1350"]),
        ("medium", "106 MB: 20,000 ops on 8 connections, MSS", ["--ops", "20000", "--connections", "8"]),
    ]
    if not arguments.quick:
        busy = ["--connections", "8", "--slots", "32"]
        wanted += [
            ("large", "1.06 GB: 200,000 ops on 8 connections, MSS", ["--ops", "200000", *busy]),
            ("huge", "2.84 GB: 2 million ops, segments offloaded", ["--ops", "2000000", *busy, "--segment", "32768"]),
        ]
    for name, title, options in wanted:
        yield make(arguments.make_pair, folder, name, title, options)


def machine() -> Iterator[str]:
    """What the figures were taken with."""
    yield f"{platform.system()} {platform.machine()}, {os.cpu_count()} CPUs, Python {platform.python_version()}"
    for command in (NFSLAT, "tshark"):
        if shutil.which(command):
            said = subprocess.run([command, "--version"], check=True, capture_output=True, text=True).stdout
            yield said.splitlines()[0].rstrip(".")


def main() -> None:
    """Parse the arguments, measure, print."""
    parser = argparse.ArgumentParser(prog="scripts/bench", description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="small and medium captures only")
    parser.add_argument("--runs", type=int, default=5, metavar="N", help="of each program (5)")
    parser.add_argument("--pair", nargs=2, type=Path, metavar=("SERVER", "CLIENT"), help="measure on these captures")
    parser.add_argument("--dir", type=Path, help="make the captures here, and leave them for the next time (4 GB)")
    parser.add_argument("--make-pair", help=argparse.SUPPRESS)
    arguments = parser.parse_args()

    say("# nfslat against its peers", "", f"{'; '.join(machine())}.", "")
    say(
        f"Medians (and ranges) of {arguments.runs} runs in turn; what takes minutes, once. Ratios: to the first line.",
        "",
    )
    say("## Start-up", "", *compare(start_up(), arguments.runs), "")
    with tempfile.TemporaryDirectory(prefix="nfslat-bench-") as temporary:
        if arguments.dir:
            arguments.dir.mkdir(parents=True, exist_ok=True)
        for pair in inputs(arguments, arguments.dir or Path(temporary)):
            pair.heat()
            say(f"## {pair.title}", "", f"One side ({pair.client.stat().st_size / 1e6:,.0f} MB):", "")
            say(*compare(one_side(pair), arguments.runs, pair.size_bytes), "")
            say("Both sides, matched:", "", *compare(both_sides(pair), arguments.runs, pair.size_bytes), "")
            if not arguments.dir and not arguments.pair:
                pair.server.unlink()
                pair.client.unlink()


def say(*lines: str) -> None:
    """Print at once: a table is there when it is measured."""
    print(*lines, sep="\n", flush=True)


if __name__ == "__main__":
    main()
