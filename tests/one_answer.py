"""The answer on a pair of captures, read in each way that nfslat has, held against that on the same pair read whole.

`python tests/one_answer.py MODE[,MODE...] [CAPTURE ...]`, in the environment of the tests, says where they differ: MODE
is `all` or a key of `MODES`, CAPTURE a name such as `samples/server-threads`, or a part of one. Each line has how many
leaves of each section of the report differ; `--leaves N` prints the first N of each.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import itertools
import json
import math
import os
import sys
import tempfile
import threading
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple
from unittest import mock

from captures import SHARED

from nfslat import api
from nfslat.cli import main as cli
from nfslat.decode.workspace import open_workspace
from nfslat.errors import NfslatError
from nfslat.live.watch import Watch
from nfslat.model.units import NS_PER_S

Json = dict[str, Any]

_SAMPLES = Path(__file__).parents[1] / "samples"
_EVER_S = 1e9
_RING_BYTES = 1 << 30
_REL = 1e-9  # floats differ by the order in which they are summed


class Pair(NamedTuple):
    """Two captures of the same traffic."""

    name: str
    server: str
    client: str


def _pairs_of_folders(root: Path, pattern: str) -> list[Pair]:
    return [
        Pair(f"{folder.parent.name}/{folder.name}", *(str(folder / f"{side}.pcap.gz") for side in ("server", "client")))
        for folder in sorted(path.parent for path in root.glob(f"{pattern}/*/server.pcap.gz"))
    ]


def _pairs_of_parts() -> list[Pair]:
    ends = ".server.pcap.gz"
    return [
        Pair(f"parts/{path.name.removesuffix(ends)}", str(path), str(path).removesuffix(ends) + ".client.pcap.gz")
        for path in sorted((SHARED / "broken" / "parts").glob(f"*{ends}"))
    ]


PAIRS = {
    pair.name: pair
    for pair in [
        *_pairs_of_folders(_SAMPLES.parent, "samples"),
        *(pair for lab in ("lab", "lab2", "lab3") for pair in _pairs_of_folders(SHARED, lab)),
        *_pairs_of_parts(),
    ]
}


class NotAskedError(Exception):
    """A pair cannot be read in this way, nor need be."""


# --- Ways to read a pair ---------------------------------------------------------------------------------


@lru_cache(maxsize=2)
def whole(pair: Pair) -> Json:
    """All figures, of all operations at once."""
    return _figures(api.correlate(pair.server, pair.client))


def _ops(pair: Pair) -> int:
    return max(side["ops"] for side in whole(pair)["captures"].values())


def _blocks(pair: Pair, count: int) -> Json:
    """Read in blocks, each of which has a `count`-th of the operations."""
    return _read_in_blocks(pair, -(-_ops(pair) // count))


def _read_in_blocks(pair: Pair, block_ops: int) -> Json:
    with mock.patch.dict(os.environ, NFSLAT_BLOCK_OPS=str(block_ops)):
        return _figures(api.correlate(pair.server, pair.client))


def _live(pair: Pair) -> Json:
    """By `nfslat live`, on all packets, which it holds."""
    with open_workspace([pair.server, pair.client], engine="native", quiet=True) as work:
        sources = dict(zip(("server", "client"), work.sources, strict=True))
        ever_ns = round(_EVER_S) * NS_PER_S
        watch = Watch(sources, work.engine.tools, 2 * NS_PER_S, keep_ns=ever_ns, ring_bytes=_RING_BYTES)
        try:
            for _ in watch:
                pass
            return _plain(watch.report().to_dict())
        finally:
            watch.close()


def _fleet(pair: Pair) -> Json:
    """The report on the client of a fleet that has no other."""
    with tempfile.TemporaryDirectory() as folder:
        out, kept = Path(folder) / "out", Path(folder) / "fleet.json"
        _run("fleet", pair.server, pair.client, "--workers", "1", "--out", out, "--json", kept)
        clients = json.loads(kept.read_text())["clients"]
        if len(clients) > 1:
            raise NotAskedError(f"its captures show {len(clients)} clients")
        _run("fleet", "--out", out, "--show", clients[0]["name"], "--json", kept)
        shown: Json = json.loads(kept.read_text())
        if answer_of(clients[0]) != answer_of(shown):
            raise AssertionError(f"the fleet says {answer_of(clients[0])}, and the client's report {answer_of(shown)}")
        return shown


def _stored(pair: Pair) -> Json:
    """From the operations of each capture, as `--ops-parquet` keeps them."""
    with tempfile.TemporaryDirectory() as folder:
        names = [str(Path(folder) / f"{side}.parquet") for side in ("server", "client")]
        for capture, name in zip((pair.server, pair.client), names, strict=True):
            with open(name, "wb") as out:
                api.inspect(capture).write_ops_parquet(out)
        return _figures(api.correlate(*names))


def _fifos(pair: Pair) -> Json:
    """From pipes, which cannot be read twice."""
    with tempfile.TemporaryDirectory() as folder:
        writers = []
        for side, capture in zip(("server", "client"), (pair.server, pair.client), strict=True):
            os.mkfifo(Path(folder) / side)
            writers.append(threading.Thread(target=_copy, args=(capture, Path(folder) / side), daemon=True))
            writers[-1].start()
        return _figures(api.correlate(Path(folder) / "server", Path(folder) / "client"))


def _copy(capture: str, fifo: Path) -> None:
    with contextlib.suppress(BrokenPipeError), fifo.open("wb") as out:
        out.write(Path(capture).read_bytes())


def _run(*arguments: str | Path) -> None:
    with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()) as err:
        status = cli.main([str(argument) for argument in arguments])
    if status:
        raise AssertionError(f"exit status {status}: {err.getvalue()}")


def _figures(report: api.Report) -> Json:
    return _plain(report.figures.to_dict())


def _plain(report: Json) -> Json:
    made: Json = json.loads(json.dumps(report))
    return made


@dataclass(frozen=True)
class Mode:
    """A way to read a pair."""

    read: Callable[[Pair], Json]
    apart: tuple[str, ...] = ()  # where leaves begin that say where operations came from; "*" stands for any name
    only_answer: bool = False


# Live writes packets as pcapng, the server's with times of the client's clock.
_AS_WRITTEN = (
    *("captures.*.path", "captures.*.files.*.path", "captures.*.format", "pictures.slowest.*.timeline.*.file"),
    *("captures.server.first", "captures.server.last", "pictures.over_time.reply.mb_per_s", "pictures.envelope"),
    *("clock.theta_ms", "clock.bound_ms", "pairs.*.theta_ms", "pairs.*.theta_bound_ms"),
)

MODES = {
    "block": Mode(lambda pair: _blocks(pair, 1)),
    "halves": Mode(lambda pair: _blocks(pair, 2)),
    "sevenths": Mode(lambda pair: _blocks(pair, 7)),
    "live": Mode(_live, apart=_AS_WRITTEN),
    "fleet": Mode(_fleet),
    "stored": Mode(_stored, apart=("nfslat.engine", "captures.*.path")),
    "fifos": Mode(_fifos, only_answer=True),
}
_ALWAYS_APART = ("nfslat.command",)


# --- Figures, side by side -------------------------------------------------------------------------------


class Answer(NamedTuple):
    """What must be the same to the letter however a pair is read."""

    outcome: str | None
    layer: str | None
    cause: str | None
    confidence: str | None

    def __str__(self) -> str:
        """In one word."""
        return "/".join(str(word) for word in self)


def answer_of(report: Json) -> Answer:
    """The answer of a report, or of a client in that of a fleet."""
    verdict = report["verdict"] or {}
    return Answer(*(verdict.get(name) for name in Answer._fields))


_ABSENT = "(absent)"


def leaves(value: Any, path: str = "") -> Iterator[tuple[str, Any]]:
    """Each value that has none within, an empty list too, by its path: `matched.by_op.0.count`."""
    if isinstance(value, dict | list) and value:
        for name, part in value.items() if isinstance(value, dict) else enumerate(value):
            yield from leaves(part, f"{path}.{name}" if path else str(name))
    else:
        yield path, value


def differing(of_whole: Json, report: Json, mode: Mode) -> dict[str, tuple[Any, Any]]:
    """The leaves that differ by their paths, the whole's first."""
    a, b = dict(leaves(of_whole)), dict(leaves(report))
    pairs = {path: (a.get(path, _ABSENT), b.get(path, _ABSENT)) for path in a | b if not _is_apart(path, mode)}
    return {path: values for path, values in pairs.items() if not _are_equal(*values)}


def _are_equal(a: Any, b: Any) -> bool:
    if type(a) is float and type(b) is float:
        return math.isclose(a, b, rel_tol=_REL)
    return type(a) is type(b) and bool(a == b)


def _is_apart(path: str, mode: Mode) -> bool:
    names = path.split(".")
    begins = (begin.split(".") for begin in (*_ALWAYS_APART, *mode.apart))
    return any(
        len(begin) <= len(names) and all(a in ("*", b) for a, b in zip(begin, names, strict=False)) for begin in begins
    )


@dataclass(frozen=True)
class Compared:
    """A pair that was read in some way, beside the whole."""

    whole: Answer
    answer: Answer | str  # a str: why there is none
    leaves: dict[str, tuple[Any, Any]]  # that differ

    @property
    def sections(self) -> Counter[str]:
        """How many leaves of each section of the report differ."""
        return Counter(path.partition(".")[0] for path in self.leaves)

    def examples(self, section: str, count: int) -> list[str]:
        """The first leaves of a section that differ, a line each."""
        some = [item for item in self.leaves.items() if item[0].partition(".")[0] == section][:count]
        return [f"{path}: {a!r} -> {b!r}"[:_LINE] for path, (a, b) in some]


_LINE = 300  # letters


def compare(name: str, pair: Pair) -> Compared:
    """A pair in the mode with that name. Raises ``NotAskedError``."""
    of_whole, mode = whole(pair), MODES[name]
    try:
        report = mode.read(pair)
    except (NfslatError, AssertionError) as problem:
        return Compared(answer_of(of_whole), str(problem), {})
    differ = {} if mode.only_answer else differing(of_whole, report, mode)
    return Compared(answer_of(of_whole), answer_of(report), differ)


# --- By hand ---------------------------------------------------------------------------------------------


def _main(arguments: Sequence[str]) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("modes", metavar="MODE", help=f"all, or some of {','.join(MODES)}")
    parser.add_argument("captures", metavar="CAPTURE", nargs="*")
    parser.add_argument("--leaves", metavar="N", type=int, default=0)
    options = parser.parse_args(arguments)
    modes = list(MODES) if options.modes == "all" else options.modes.split(",")
    parts = options.captures or [""]
    pairs = [pair for pair in PAIRS.values() if any(part in pair.name for part in parts)]
    answers: dict[str, list[str]] = {mode: [] for mode in modes}
    sections: dict[str, Counter[str]] = {mode: Counter() for mode in modes}
    for pair, mode in itertools.product(pairs, modes):
        try:
            compared = compare(mode, pair)
        except NotAskedError as problem:
            print(f"{pair.name:32} {mode:8} not asked: {problem}")
            continue
        is_same = compared.answer == compared.whole
        answers[mode] += [] if is_same else [pair.name]
        sections[mode].update(compared.sections.keys())
        words = "same answer" if is_same else f"{compared.whole} -> {compared.answer}"
        counts = " ".join(f"{name}:{count}" for name, count in compared.sections.most_common())
        print(f"{pair.name:32} {mode:8} {words}; {counts}".rstrip("; "), flush=True)
        for name in compared.sections:
            print("".join(f"    {line}\n" for line in compared.examples(name, options.leaves)), end="")
    for mode in modes:
        print(f"\n{mode}: another answer in {len(answers[mode])} of {len(pairs)}: {' '.join(answers[mode])}")
        print("    sections: " + ", ".join(f"{name} in {count}" for name, count in sections[mode].most_common()))


if __name__ == "__main__":
    _main(sys.argv[1:])
