"""Folders of captures -> the table of cases: what nfslat is called with, in folders of equal names for any checkout."""

from __future__ import annotations

import gzip
import itertools
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

# All exports of all pairs would say the same again and again: one pair in so many (and each sample) gets those that
# cost most.
ONE_IN = 8
COMMANDS = ("capture", "show", "extract", "diff", "fleet", "transport", "packets", "stack", "tune")
FLEET = "fleet"  # the folder of a made fleet
_NOT_CAPTURES = {".txt", ".json", ".toml", ".md", ".trace"}
_BY = tuple(word for kind in ("size", "client", "server", "connection", "file", "uid", "second", "slot")
            for word in ("--by", kind))  # fmt: skip


@dataclass(frozen=True)
class Case:
    """Calls of nfslat, one after the other. What they write to `out` is compared, what they write to `scratch` not."""

    name: str
    steps: tuple[tuple[str, ...], ...]
    quick: bool = False


@dataclass
class Inputs:
    """What cases read: name in the working folder -> the file or folder that it stands for."""

    links: dict[str, Path] = field(default_factory=dict)

    def add(self, name: str, target: Path) -> str:
        """Returns the name."""
        self.links[name] = target.resolve()
        return name

    def of(self, case: Case) -> dict[str, Path]:
        """Those that a case names, be it as a part of a path."""
        words = [word for step in case.steps for word in step]
        return {
            name: target
            for name, target in sorted(self.links.items())
            if any(word == name or word.startswith(f"{name}/") or name.startswith(f"{word}/") for word in words)
        }


@dataclass(frozen=True)
class Pair:
    """Captures of both sides, by their names in the working folder."""

    name: str
    server: str
    client: str


def pairs(folder: Path, inputs: Inputs) -> list[Pair]:
    """The pairs server.* and client.* in a folder and the folders below, added to the inputs."""
    label = folder.resolve().name
    taken = {name.split("/")[0] for name in inputs.links}
    number = 1
    while (unique := label if number == 1 else f"{label}-{number}") in taken:
        number += 1
    found = []
    for server in sorted(folder.resolve().rglob("server.*")):
        clients = sorted(server.parent.glob("client.*"))
        sides = [next((p for p in [*ps] if not _NOT_CAPTURES & set(p.suffixes)), None) for ps in ([server], clients)]
        if sides[0] is None or sides[1] is None:
            continue
        place = Path(unique, server.parent.relative_to(folder.resolve())).as_posix()
        names = [inputs.add(f"{place}/{side.name}", side) for side in sides if side is not None]
        found.append(Pair(place, names[0], names[1]))
    return found


def of_pairs(found: list[Pair], *, every: bool) -> Iterator[Case]:
    """The cases of the pairs of one folder; `every` gives each the costly ones."""
    for number, pair in enumerate(found):
        yield from _of_pair(pair, quick=every and number == 0)
        if every or number % ONE_IN == 0:
            yield from _costly(pair, quick=every and number == 0)


def _of_pair(pair: Pair, *, quick: bool) -> Iterator[Case]:
    both = (pair.server, pair.client, "-q")

    def case(name: str, *words: str) -> Case:
        return Case(f"{pair.name}/{name}", (words,), quick)

    yield case(
        "report", *both, "--json", "out/report.json", "--csv", "out/ops.csv",
        "--missed", "out/missed.csv", "--files", "out/files.csv",
    )  # fmt: skip
    yield case(
        "tables", *both, "--full", *_BY, "--interval", "1", "--slowest", "5",
        "--what-if", "threads=64", "--what-if", "threads=2,slots=128", "--json", "out/report.json",
    )  # fmt: skip
    yield case(
        "known", *both, "--app-ms", "58", "--storage-ms", "READ=1", "--thread-ms", "3", "--threads", "8",
        "--sessions", "32", "--json", "out/report.json",
    )  # fmt: skip
    yield case("page", *both, "--markdown", "--html", "out/page.html")
    yield case(
        "anonymous", *both, "--anonymize", "--json", "out/report.json", "--csv", "out/ops.csv",
        "--files", "out/files.csv",
    )  # fmt: skip
    for side, capture in (("server", pair.server), ("client", pair.client)):
        yield case(side, capture, "-q", "--json", "out/report.json", "--files", "out/files.csv")
    yield case("transport", "transport", *both, "--top", "3", "--json", "out/transport.json")
    yield case("transport-server", "transport", pair.server, "-q", "--json", "out/transport.json")


def _costly(pair: Pair, *, quick: bool) -> Iterator[Case]:
    both = (pair.server, pair.client, "-q")

    def case(name: str, *words: str) -> Case:
        return Case(f"{pair.name}/{name}", (words,), quick)

    yield case(
        "exports",
        *both,
        "--perfetto",
        "out/spans.json",
        "--parquet",
        "out/ops.parquet",
        "--all-programs",
    )
    yield case("show", "show", *both, "--slowest", "2")
    yield case(
        "extract", "extract", *both, "--slowest", "2", "--context", "--out", "out/ops.pcapng", "--json", "out/ops.json"
    )
    if quick:
        yield Case(f"{pair.name}/pictures", ((*both, "--png", "out"),))
    yield Case(
        f"{pair.name}/decoded",
        (
            (pair.server, "-q", "--ops-parquet", "out/server.parquet"),
            (pair.client, "-q", "--ops-parquet", "out/client.parquet"),
            ("out/server.parquet", "out/client.parquet", "-q", "--json", "-"),
        ),
    )
    for name, words in {
        "filters": ("--op", "READ,WRITE", "--start", "1", "--end", "4", "--json", "-"),
        "srt-tshark": ("--srt", "tshark", "--csv", "-"),
        "no-swap": ("--no-swap",),
    }.items():
        yield Case(f"{pair.name}/{name}", ((*both, *words),))
    yield Case(f"{pair.name}/swapped", ((pair.client, pair.server, "-q"),))
    yield Case(f"{pair.name}/page-server", ((pair.server, "-q", "--markdown", "--html", "out/page.html"),))
    yield Case(
        f"{pair.name}/extract-anonymous",
        (("extract", *both, "--slowest", "1", "--anonymize", "--out", "out/ops.pcapng"),),
    )
    yield Case(
        f"{pair.name}/diff-split",
        (("diff", "-q", "--before", pair.server, pair.client, "--split", "half", "--json", "out/diff.json"),),
    )


def of_engines(pair: Pair) -> Iterator[Case]:
    """What Wireshark's tshark decodes."""
    both = (pair.server, pair.client, "-q", "--engine", "tshark")
    yield Case(f"{pair.name}/tshark", ((*both, "--json", "out/report.json", "--csv", "out/ops.csv"),))


def of_diffs(found: list[Pair]) -> Iterator[Case]:
    """Each pair against the next: from captures; the first also from what was saved of them."""
    for number, (a, b) in enumerate(itertools.pairwise(found)):
        name = f"diff/{a.name}-{Path(b.name).name}"
        folders = (str(Path(a.server).parent), str(Path(b.server).parent))
        yield Case(name, (("diff", *folders, "-q", "--json", "out/diff.json"),), quick=not number)
        if number:
            continue
        saved = tuple(
            (pair.server, pair.client, "-q", "--json", f"scratch/{side}.json", "--csv", f"scratch/{side}.csv")
            for side, pair in (("a", a), ("b", b))
        )
        for kind in ("json", "csv"):
            diff = ("diff", f"scratch/a.{kind}", f"scratch/b.{kind}", "-q", "--json", "out/diff.json")
            yield Case(f"{name}/{kind}", (*saved, diff), quick=kind == "json")
        captures = ("--before", a.server, a.client, "--after", b.server, b.client)
        yield Case(f"{name}/check", (("diff", *captures, "-q", "--op", "READ", "--check", "mean=1%"),))


def of_evidence(pair: Pair, files: dict[str, str]) -> Iterator[Case]:
    """Snapshots and what else is known from outside the captures; `files` by their own names."""
    both = (pair.server, pair.client, "-q")
    snapshots = [files[f"{side}-{when}.txt"] for side in ("server", "client") for when in ("before", "after")]
    yield Case("tune/both", (("tune", *snapshots, "--json", "out/tune.json"),), quick=True)
    yield Case("tune/client", (("tune", snapshots[2]),))
    yield Case("tune/server", (("tune", *snapshots[:2]),))
    yield Case(
        "evidence/snapshots",
        ((*both, "--server-snapshot", *snapshots[:2], "--client-snapshot", *snapshots[2:], "--json", "out/r.json"),),
    )
    for name in EVIDENCE:
        yield Case(f"evidence/{name}", ((*both, "--evidence", files[name], "--json", "out/report.json"),))
    measured = ("--app-ms", "58", "--client-ms", "1.5", "--server-ms", "1")
    yield Case(
        "stack/snapshots",
        (("stack", *measured, "--server-snapshot", snapshots[1], "--client-snapshot", snapshots[3]),),
    )


EVIDENCE = ("app_fio.json", "app_10046.trc", "app_awr_19c.txt", "app_stacks.folded", "nfsiostat-new.txt")
FIXTURES = (*(f"{side}-{when}.txt" for side in ("server", "client") for when in ("before", "after")), *EVIDENCE)


def without_captures() -> Iterator[Case]:
    """What only calculates, or only says how it is used."""
    yield Case("help/nfslat", (("--help",), ("--help-all",), ("--version",), ()), quick=True)
    yield Case("help/completion", (("--completion", "bash"), ("--completion", "zsh")))
    for command in COMMANDS:
        yield Case(f"help/{command}", ((command, "--help"), (command,)))
    layers = ("stack", "--app-ms", "58", "--client-ms", "1.5", "--server-ms", "1", "--storage-ms", "0.1")
    yield Case("stack/slots", ((*layers, "--slots", "16", "--json", "out/stack.json"),), quick=True)
    yield Case(
        "stack/threads",
        (
            ("stack", "--app-ms", "56", "--client-ms", "49", "--server-ms", "48", "--thread-ms", "1", "--threads", "16",
             "--server-system", "solaris"),
            ("stack", "--client-ms", "49", "--server-ms", "9", "--nfs", "4.1", "--client-system", "freebsd"),
        ),
    )  # fmt: skip
    yield Case(
        "packets/rows",
        (
            ("packets", "--sdu", "2048", "--array-size", "3", "--row", "1511,410,730,300,200,500"),
            (
                "packets",
                "--sdu",
                "8192",
                "--row",
                "120",
                "--rows",
                "1000000",
                "--rtt-ms",
                "0.4",
                "--json",
                "out/p.json",
            ),
        ),
        quick=True,
    )
    yield Case(
        "packets/file",
        (
            ("packets", "--rsize", "32768", "--mss", "1460", "--bytes", "1048576"),
            ("packets", "--wsize", "1048576", "--bytes", "1000000000", "--json", "-"),
        ),
    )


def of_fleet(server_and_clients: str, client: str) -> Iterator[Case]:
    """A made fleet, compared, and one client of it."""
    run = ("--out", "scratch/run", "-q", "--workers", "1")
    yield Case(
        "fleet/small",
        (
            ("fleet", server_and_clients, *run, "--json", "out/fleet.json", "--html", "out/fleet.html"),
            ("fleet", *run, "--show", client),
            ("fleet", server_and_clients, *run, "--all-clients"),
        ),
        quick=True,
    )


def of_mistakes(pair: Pair, broken: dict[str, str]) -> Iterator[Case]:
    """What users get wrong; `broken` files by what is wrong with them."""
    server, client = pair.server, pair.client
    both = (server, client, "-q")
    for name, steps in {
        "files": (
            ("missing.pcap",),
            (server, "missing.pcap", "-q"),
            (broken["empty"], client, "-q"),
            (broken["text"], "-q"),
            (server, broken["text"], "-q"),
            (broken["truncated"], client, "-q"),
            (broken["truncated"],),
            ("out", "-q"),
            (server, server, "-q"),
            ("transport", "missing.pcap"),
            ("transport", broken["text"], "-q"),
        ),
        "nothing": (
            (*both, "--port", "9"),
            (*both, "--op", "MKNOD"),
            (*both, "--start", "900"),
            (*both, "--client-addr", "192.0.2.77"),
            ("transport", server, "-q", "--port", "9"),
            ("transport", server, "-q", "--stream", "99"),
            ("show", *both, "--xid", "0x1"),
            ("extract", *both, "--xid", "1", "--out", "out/none.pcapng"),
        ),
        "options": (
            (*both, "--jsn", "x"),
            ("tranport", server),
            (*both, "--by", "colour"),
            (*both, "--op", "REED"),
            (*both, "--start", "soon"),
            (*both, "--engine", "magic"),
            (*both, "--interval", "0"),
            (*both, "--what-if", "threads=no"),
            (*both, "--what-if", "disks=4"),
            (*both, "--app-ms", "READ=fast"),
            (*both, "--threads", "-1"),
            (*both, "--full", "--markdown"),
            (*both, "--json", "out/x", "--csv", "out/x"),
            (*both, "--json", "missing/x.json"),
            (*both, "--name-encoding", "klingon"),
            (*both, "--evidence", broken["text"]),
            (*both, "--server-snapshot", "missing.txt"),
            (server, "-q", "--csv", "out/ops.csv"),
            ("show", *both),
            ("extract", *both, "--slowest", "1"),
            ("stack", "--client-ms", "1"),
            ("stack", "--client-ms", "1", "--server-ms", "2"),
            ("packets", "--row", "0"),
            ("packets", "--rsize", "1", "--row", "5"),
            ("tune", broken["text"]),
            ("tune", "missing.txt"),
            ("diff", "missing.json", "other.json"),
            ("diff", broken["text"], broken["text"]),
            ("diff", server),
            ("diff", "--before", server, client, "--split", "never", "-q"),
            ("fleet",),
            ("fleet", "missing", "-q"),
            ("capture", "--server", "nfs1"),
        ),
    }.items():
        yield Case(f"mistakes/{name}", steps, quick=name == "files")


def make_broken(pair_server: Path, folder: Path) -> dict[str, Path]:
    """Writes the files that mistakes are made with."""
    whole = gzip.decompress(pair_server.read_bytes())
    contents = {"empty": b"", "text": b"this is no capture\n" * 20, "truncated": whole[: len(whole) // 3 + 7]}
    made = {}
    for name, content in contents.items():
        made[name] = folder / f"{name}.pcap"
        made[name].write_bytes(content)
    return made
