"""Two checkouts and folders of captures -> what differs, on standard output, and the exit status."""

from __future__ import annotations

import argparse
import fnmatch
import functools
import gzip
import hashlib
import json
import os
import queue
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from comparison import cases
from comparison.cases import Case, Inputs
from comparison.outputs import Count

_HERE = Path(__file__).resolve().parents[2]
_FLEET_CLIENT = "10.9.7.11"  # one behind the slow path of the made fleet
_EPILOG = """\
Each checkout runs the same calls on the same files, in its own .venv where it has one, else in the Python that runs
this. A report's text, JSON, CSV and pages are compared byte for byte, Parquet as a table; only nfslat's version and
names of scratch files and folders are masked.

examples:
  scripts/compare ../before
  scripts/compare ../before . captures/ --kept /tmp/kept --cases '*/report'

exit status: 0 all equal, 1 something differs, 2 usage, 3 it cannot run"""


class CannotRun(Exception):
    """With the reason."""


def main() -> int:
    """Compare; returns the exit status."""
    options = _parser().parse_args()
    if not (options.new / "nfslat").is_dir():  # then it is a folder of captures
        options.captures.insert(0, options.new)
        options.new = _HERE
    try:
        return compare(options)
    except CannotRun as problem:
        print(f"compare: {problem}", file=sys.stderr)
        return 3
    except KeyboardInterrupt:
        return 130


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="scripts/compare",
        description="Run two checkouts of nfslat on the same captures and compare all that they write.",
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("old", metavar="OLD_CHECKOUT", type=Path)
    parser.add_argument("new", metavar="NEW_CHECKOUT", type=Path, nargs="?", default=_HERE, help="default: this one")
    parser.add_argument(
        "captures",
        metavar="CAPTURE_DIR",
        type=Path,
        nargs="*",
        help="with pairs server.*, client.* in it, however deep; the samples are always compared",
    )
    parser.add_argument("--cases", metavar="GLOB", action="append", help="only these, such as 'fleet/*'; repeatable")
    parser.add_argument("--quick", action="store_true", help="each command and format once")
    parser.add_argument("--list", action="store_true", help="print the cases, run nothing")
    parser.add_argument("--kept", metavar="DIR", type=Path, help="keep what OLD writes, and read it the next time")
    parser.add_argument("--lines", metavar="N", type=int, default=12, help="of each difference (12)")
    parser.add_argument("--jobs", metavar="N", type=int, default=2, help="processes at a time (2)")
    return parser


def compare(options: argparse.Namespace) -> int:
    """Raises ``CannotRun``."""
    old, new = (path.resolve() for path in (options.old, options.new))
    for checkout in (old, new):
        if not (checkout / "nfslat").is_dir():
            raise CannotRun(f"{checkout} is no checkout of nfslat")
    with tempfile.TemporaryDirectory(prefix="compare-") as scratch:
        place = Path(scratch).resolve()
        inputs = Inputs()
        table = _table(new, options.captures, inputs, place)
        wanted = [case for case in table if _is_wanted(case, options)]
        if options.list:
            print(*(case.name for case in wanted), sep="\n")
            return 0
        if not wanted:
            raise CannotRun("no case has such a name")
        if any(case.name.startswith(cases.FLEET) for case in wanted):
            _make_fleet(new, inputs.links[cases.FLEET])
        return _compare(old, new, wanted, inputs, place, options)


def _is_wanted(case: Case, options: argparse.Namespace) -> bool:
    named = not options.cases or any(fnmatch.fnmatch(case.name, pattern) for pattern in options.cases)
    return named and (case.quick or not options.quick)


def _table(new: Path, folders: Sequence[Path], inputs: Inputs, scratch: Path) -> list[Case]:
    """All cases. Their files are those of the new checkout, for both."""
    found = cases.pairs(new / "samples", inputs)
    if len(found) < 2:
        raise CannotRun(f"{new}/samples has no two pairs")
    table = [*cases.of_pairs(found, every=True), *cases.of_diffs(found), *cases.of_engines(found[0])]
    for folder in folders:
        given = cases.pairs(folder, inputs)
        if not given:
            raise CannotRun(f"{folder} has no server.* beside a client.*")
        table += cases.of_pairs(given, every=False)
    fixtures = {name: inputs.add(f"fixtures/{name}", _fixture(new, name)) for name in cases.FIXTURES}
    table += cases.of_evidence(found[0], fixtures)
    table += cases.without_captures()
    broken = cases.make_broken(inputs.links[found[0].server], scratch)
    table += cases.of_mistakes(found[0], {name: inputs.add(f"{name}.pcap", path) for name, path in broken.items()})
    (scratch / cases.FLEET).mkdir()
    inputs.add(cases.FLEET, scratch / cases.FLEET)
    return [*table, *cases.of_fleet(cases.FLEET, _FLEET_CLIENT)]


def _fixture(checkout: Path, name: str) -> Path:
    """Wherever it lies among the tests."""
    found = sorted((checkout / "tests").rglob(name))
    if not found:
        raise CannotRun(f"{checkout}/tests has no {name}")
    return found[0]


def _make_fleet(checkout: Path, folder: Path) -> None:
    made = subprocess.run(
        [_python(checkout), "-m", "fleet_made", "small", str(folder)],
        env=_environment(checkout, checkout / "benchmarks"),
        capture_output=True,
        text=True,
        check=False,
    )
    if made.returncode:
        raise CannotRun(f"no fleet could be made:\n{made.stderr}")


def _python(checkout: Path) -> str:
    own = checkout / ".venv" / "bin" / "python"
    return str(own) if own.exists() else sys.executable


def _environment(*path: Path) -> dict[str, str]:
    """What output may depend on, alike for both: language, time zone, terminal, order of sets."""
    kept = {name: os.environ[name] for name in ("PATH", "HOME") if name in os.environ}
    alike = {"LC_ALL": "C.UTF-8", "TZ": "UTC", "TERM": "dumb", "COLUMNS": "80", "PYTHONHASHSEED": "0"}
    return kept | alike | {"PYTHONPATH": os.pathsep.join(map(str, path))}


def _compare(
    old: Path, new: Path, wanted: list[Case], inputs: Inputs, scratch: Path, options: argparse.Namespace
) -> int:
    commit = _commit(old)
    if options.kept and commit is None:
        print(f"compare: {old} is changed, or not under git: nothing of it is kept", file=sys.stderr)
    keys = {case.name: _key(case, inputs, old, commit) for case in wanted}
    folders = [options.kept / commit if options.kept and commit else scratch / "old", scratch / "new"]
    for checkout, folder in zip((old, new), folders, strict=True):
        missing = [case for case in wanted if _read(folder, case, keys[case.name]) is None]
        begin = time.monotonic()
        cpu = _run(checkout, missing, keys, inputs, scratch, folder.resolve(), options.jobs)
        ran = f"{len(missing)} cases in {time.monotonic() - begin:.0f} s, {cpu:.0f} s of CPU"
        kept = f", {len(wanted) - len(missing)} kept" if len(missing) < len(wanted) else ""
        print(f"compare: {checkout}: {ran}{kept}", file=sys.stderr)
    count = Count()
    for case in wanted:
        outputs = [_read(folder, case, keys[case.name]) for folder in folders]
        if outputs[0] is None or outputs[1] is None:
            raise CannotRun(f"{case.name}: what was written of it is gone")
        said = count.add(outputs[0], outputs[1], options.lines)
        print(f"{case.name}: {'differs' if said else 'same'}", *said, sep="\n")
    print(count)
    return 1 if count.differ else 0


def _commit(checkout: Path) -> str | None:
    """None where the checkout is not what a commit says."""
    git = ["git", "-C", str(checkout)]
    status = subprocess.run([*git, "status", "--porcelain", "--", "nfslat", "native"], capture_output=True, check=False)
    head = subprocess.run([*git, "rev-parse", "HEAD"], capture_output=True, text=True, check=False)
    return head.stdout.strip() if status.returncode == head.returncode == 0 and not status.stdout else None


def _key(case: Case, inputs: Inputs, checkout: Path, commit: str | None) -> str:
    """Of all that the outputs of a case depend on."""
    targets = inputs.of(case)
    parts = [commit or "", json.dumps(case.steps), _python(checkout)]
    # A fleet is made anew each time, the same if its maker is.
    parts += [f"{name} {_digest(target)}" for name, target in targets.items() if target.is_file()]
    if cases.FLEET in targets:
        parts += [_digest(file) for file in sorted((_HERE / "benchmarks" / "fleet_made").glob("*.py"))]
    ours = [Path(__file__).with_name(name) for name in ("outputs.py", "worker.py")]
    parts += [_digest(file) for file in [*ours, *sorted((checkout / "nfslat").glob("**/_native*.so"))]]
    return hashlib.sha256("\n".join(parts).encode()).hexdigest()


@functools.cache
def _digest(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def _file(folder: Path, case: Case) -> Path:
    return folder / f"{case.name}.json.gz"


def _read(folder: Path, case: Case, key: str) -> dict[str, str] | None:
    try:
        content: dict[str, Any] = json.loads(gzip.decompress(_file(folder, case).read_bytes()))
    except FileNotFoundError:
        return None
    return content["outputs"] if content["key"] == key else None


def _run(
    checkout: Path, wanted: list[Case], keys: dict[str, str], inputs: Inputs, scratch: Path, folder: Path, jobs: int
) -> float:
    """Run cases in so many processes; returns the CPU that they took, in seconds. Raises ``CannotRun``."""
    waiting: queue.SimpleQueue[Case] = queue.SimpleQueue()
    for case in sorted(wanted, key=lambda case: not case.name.startswith(cases.FLEET)):  # the longest first
        waiting.put(case)
    cpu: list[float] = []
    problems: list[str] = []

    def work(number: int) -> None:
        place = scratch / f"{checkout.name}-{number}"
        try:
            cpu.append(_work(checkout, waiting, keys, _working_folder(place, inputs), folder))
        except CannotRun as problem:
            problems.append(str(problem))

    threads = [threading.Thread(target=work, args=(n,), daemon=True) for n in range(min(jobs, len(wanted)))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if problems:
        raise CannotRun(problems[0])
    return sum(cpu)


def _working_folder(place: Path, inputs: Inputs) -> Path:
    for name, target in inputs.links.items():
        link = place / name
        link.parent.mkdir(parents=True, exist_ok=True)
        if not link.is_symlink():
            link.symlink_to(target)
    (place / "tmp").mkdir(exist_ok=True)
    return place


def _work(checkout: Path, waiting: queue.SimpleQueue[Case], keys: dict[str, str], place: Path, folder: Path) -> float:
    environment = _environment(checkout, _HERE / "scripts") | {"TMPDIR": str(place / "tmp")}
    command = [_python(checkout), "-m", "comparison.worker", str(checkout)]
    cpu = 0.0
    with subprocess.Popen(
        command, cwd=place, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as worker:
        if worker.stdin is None or worker.stdout is None:
            raise CannotRun("no pipes")
        if not worker.stdout.readline():
            raise CannotRun(f"{checkout} does not run in {command[0]}")
        while True:
            try:
                case = waiting.get_nowait()
            except queue.Empty:
                break
            task = {"steps": case.steps, "key": keys[case.name], "to": str(_file(folder, case))}
            print(json.dumps(task), file=worker.stdin, flush=True)
            answer = worker.stdout.readline()
            if not answer:
                raise CannotRun(f"{checkout}: the process died of {case.name}")
            cpu = json.loads(answer)["cpu"]
        worker.stdin.close()
    return cpu
