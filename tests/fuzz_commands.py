"""A seed -> whole commands on mutated captures, in this process: none may end in anything but an answer or a line.

    python tests/fuzz_commands.py RUNS [SEED [FOLDER]]   # what fails is kept in FOLDER

What a decoder makes of damaged packets is its own fuzz targets' to find; this is for what the stages behind it make of
ops that no host would send: a selection without ops, times that lie years apart, replies in front of calls.
"""

from __future__ import annotations

import contextlib
import gzip
import io
import os
import random
import resource
import shlex
import signal
import struct
import sys
import tempfile
import time
import warnings
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from unittest import mock

from nfslat.cli import main as cli
from nfslat.decode import tools

SAMPLES = Path(__file__).parents[1] / "samples"
SECONDS, MEMORY_KB = 10, 1 << 20
_PACKETS = 160  # as a rule: what takes long is the number of commands
_TIMES = (0, 1, 59, 86_400, 10**9, 2**31, 2**32 - 1)
_OPTIONS = (
    ["--start", "0.1"], ["--end", "1"], ["--start", "0.1", "--end", "0.2"], ["--op", "READ"], ["--op", "WRITE,COMMIT"],
    ["--what-if", "threads=64"], ["--what-if", "slots=2,threads=1"], ["--app-ms", "50"], ["--app-ms", "READ=0.001"],
    ["--storage-ms", "5"], ["--thread-ms", "1"], ["--threads", "4"], ["--sessions", "9"], ["--by", "size"],
    ["--by", "file"], ["--by", "slot"], ["--by", "second"], ["--interval", "0.5"], ["--interval", "1000"],
    ["--srt", "tshark"], ["--all-programs"], ["--no-swap"], ["--markdown"], ["--sections", "histograms"],
    ["--json", "-"], ["--csv", "{}/a.csv"], ["--missed", "{}/m.csv"], ["--files", "{}/f.csv"],
    ["--perfetto", "{}/p.json"], ["--parquet", "{}/p.parquet"], ["--slowest", "1"], ["--client-addr", "10.0.0.1"],
    ["--port", "2049"],
)  # fmt: skip


_ask_wireshark = tools._run


@cache
def _told(command: tuple[str, ...]) -> str:
    """What Wireshark's programs say of themselves, which takes longer than most commands, and does not change."""
    return _ask_wireshark(list(command), dict(os.environ))


class Finding(Exception):
    """What a command may not do."""


@cache
def _sample(path: Path) -> tuple[bytes, list[bytes]]:
    """Header and packets, each with its own header, of the beginning of a sample."""
    data = gzip.decompress(path.read_bytes())
    packets, at = [], 24
    while at + 16 <= len(data) and len(packets) < 4 * _PACKETS:
        end = at + 16 + struct.unpack_from("<I", data, at + 8)[0]
        packets.append(data[at:end])
        at = end
    return data[:24], packets


def _mutated(rng: random.Random, packets: list[bytes]) -> list[bytes]:
    """Some packets changed, lost, doubled, moved, or dated otherwise."""
    found = list(packets)
    for _ in range(rng.choice((0, 1, 2, 5, 20))):
        at = rng.randrange(len(found))
        one = bytearray(found[at])
        match rng.randrange(9):
            case 0 | 1 | 2 if len(one) > 16:  # one byte of an RPC header more often than of data
                one[rng.randrange(16, min(len(one), 16 + 220))] = rng.randrange(256)
            case 3:
                struct.pack_into("<I", one, 0, rng.choice(_TIMES))
            case 4:
                seconds = struct.unpack_from("<I", one, 0)[0] + rng.randrange(-3, 4)
                struct.pack_into("<II", one, 0, seconds % 2**32, rng.randrange(10**6))
            case 5:
                del found[at : at + rng.choice((1, 1, 10, 60))]
                if not found:
                    return [bytes(one)]
                continue
            case 6:
                found.insert(rng.randrange(len(found) + 1), bytes(one))
            case 7:
                found.append(found.pop(at))
            case _:
                cut = rng.randrange(16, len(one) + 1)
                one = one[:cut]
                struct.pack_into("<I", one, 8, cut - 16)
        if at < len(found):
            found[at] = bytes(one)
    if rng.random() < 0.1:
        shift = rng.choice(_TIMES)
        found = [struct.pack("<I", (struct.unpack_from("<I", one)[0] + shift) % 2**32) + one[4:] for one in found]
    return found


def command(seed: int, folder: Path) -> list[str]:
    """Arguments of nfslat; the captures that they name are written to `folder`."""
    rng = random.Random(seed)
    sample = rng.choice(sorted(one for one in SAMPLES.iterdir() if (one / "server.pcap.gz").exists()))
    first, count = rng.choice((0, 0, 40, 300)), rng.choice((1, 5, 40, _PACKETS, _PACKETS))
    names = []
    for side in ("server", "client"):
        head, packets = _sample(sample / f"{side}.pcap.gz")
        part = packets[first : first + count] or packets[-count:]
        name = folder / f"{seed}.{side[0]}.pcap"
        name.write_bytes(head + b"".join(_mutated(rng, part)))
        names.append(str(name))
    if rng.random() < 0.1:
        names.reverse()
    kind = rng.random()
    if kind < 0.15:
        return ["transport", *names[: rng.choice((1, 2))], "-q", *rng.choice(([], ["--json", "-"]))]
    options = [
        word.replace("{}", str(folder)) for some in rng.sample(_OPTIONS, rng.choice((0, 1, 1, 2, 3))) for word in some
    ]
    alone = kind < 0.3
    # Drawn last, so that a seed is the command that it was before there were these.
    if rng.random() < 0.1:
        options += ["--html", f"{folder}/r.html"]
    if rng.random() < 0.05:
        options.append("--anonymize")
    if rng.random() < 0.1:
        interval = rng.choice(("0.001", "0.05", "2", "60"))
        return ["live", *names, "--interval", interval, *rng.choice(([], ["--json", "-"]))]
    return [*(names[:1] if alone else names), "-q", *options]


@contextlib.contextmanager
def _within(seconds: int) -> Iterator[None]:
    def late(*_: object) -> None:
        raise Finding(f"takes more than {seconds} s")

    # Of the processor's time, for the machine may be busy; of others' time ten times as much.
    before = [signal.signal(one, late) for one in (signal.SIGPROF, signal.SIGALRM)]
    signal.setitimer(signal.ITIMER_PROF, seconds)
    signal.alarm(10 * seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.alarm(0)
        for one, handler in zip((signal.SIGPROF, signal.SIGALRM), before, strict=True):
            signal.signal(one, handler)


def run(arguments: list[str]) -> int:
    """The exit status. Raises whatever is not foreseen, `Finding` where it takes too long or says too much."""

    def crashed(problem: Exception, _: object) -> int:
        raise Finding(f"{type(problem).__name__}: {problem}") from problem

    with (
        contextlib.redirect_stdout(io.StringIO()),
        contextlib.redirect_stderr(io.StringIO()) as errors,
        mock.patch("nfslat.cli.main.report_crash", crashed),
        mock.patch("nfslat.decode.tools._run", lambda command, _: _told(tuple(command))),
        warnings.catch_warnings(),
        _within(SECONDS),
    ):
        warnings.simplefilter("error")
        try:
            status = cli.main(arguments)
        except SystemExit as problem:
            status = int(problem.code or 0)
    said = errors.getvalue()
    if status not in (0, 2, 3) or (status and said.count("\n") != 1) or not said.replace("\n", "").isprintable():
        raise Finding(f"status {status}, {said!r}")
    return status


def main(runs: int, seed: int, kept: Path) -> int:
    """Prints what was found; returns how many."""
    kept.mkdir(parents=True, exist_ok=True)
    found, statuses, begun = 0, dict.fromkeys((0, 2, 3), 0), time.monotonic()
    for number in range(seed, seed + runs):
        with tempfile.TemporaryDirectory() as name:
            arguments = command(number, Path(name))
            try:
                statuses[run(arguments)] += 1
                if (used := resource.getrusage(resource.RUSAGE_SELF).ru_maxrss) > MEMORY_KB:
                    raise Finding(f"{used >> 10} MB")
            except Exception as problem:
                found += 1
                captures = command(number, kept)
                cause = problem.__cause__ or problem
                last = cause.__traceback__
                while last is not None and last.tb_next is not None:
                    last = last.tb_next
                where = f"{last.tb_frame.f_code.co_filename}:{last.tb_lineno}" if last is not None else ""
                print(
                    f"{number}: {type(problem).__name__}: {problem} {where}\n  nfslat {shlex.join(captures)}",
                    flush=True,
                )
    print(
        f"{runs} commands from seed {seed}: {found} failed; by exit status {statuses}; {time.monotonic() - begun:.0f} s"
    )
    return found


if __name__ == "__main__":
    given = sys.argv[1:]
    sys.exit(main(int(given[0]), int(given[1]) if given[1:] else 0, Path(given[2] if given[2:] else "failed")) > 0)
