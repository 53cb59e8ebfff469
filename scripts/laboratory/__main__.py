"""``scripts/lab run|judge|compare|one-sided|list``: the lab's commands; README.md beside this file says more."""

from __future__ import annotations

import argparse
import dataclasses
import signal
import sys
import time
from pathlib import Path

from laboratory import compare, host, judge, kerberos, live, one_sided, scenario
from laboratory.guest import Kernel, LabError
from laboratory.run import run
from laboratory.visit import visit

_KERNEL = "debian (its package, default), traced (with tracepoints; compiled the first time: some minutes), or a file"


def main() -> int:
    """0 done; 1 something that was judged is wrong; 2 usage; 3 what is needed is not there, or a run failed."""
    # A shell's job in the background has it ignored, and so would all that is started here and ended by it.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    # These read what runs left, and have options of their own.
    readers = {"judge": judge.main, "compare": compare.main, "one-sided": one_sided.main}
    if sys.argv[1:2] and sys.argv[1] in readers:
        return readers[sys.argv[1]](sys.argv[2:])
    parser = argparse.ArgumentParser(
        prog="scripts/lab", description="Real NFS servers and clients, and what ails them."
    )
    commands = parser.add_subparsers(dest="command", required=True)
    one = commands.add_parser("run", help="boot guests, inject the cause, load, capture")
    one.add_argument("scenarios", nargs="*", metavar="SCENARIO", help="a file, or a name of `scripts/lab list`")
    one.add_argument("--all", action="store_true", help="all scenarios")
    one.add_argument("--short", action="store_true", help="those that scripts/test --long runs")
    one.add_argument("--results", type=Path, default=Path("lab-results"), metavar="DIR", help="default: lab-results")
    other = commands.add_parser("with", help="run a command beside a scenario's guests and load: $LAB_SSH server ...")
    other.add_argument("scenario", metavar="SCENARIO")
    other.add_argument("shell", metavar="COMMAND", nargs="?", default="bash", help="of sh; default: bash")
    watched = commands.add_parser("live", help="causes that begin and end while `nfslat live` watches")
    watched.add_argument(
        "scenario", nargs="?", default=str(live.FOLDER / "mixed.toml"), metavar="SCENARIO", help="a file"
    )
    watched.add_argument(
        "--results", type=Path, default=Path("lab-results/live"), metavar="DIR", help="default: lab-results/live"
    )
    watched.add_argument("--interval", type=float, default=10.0, metavar="S", help="of a stretch (10)")
    watched.add_argument("--healthy", type=float, metavar="MIN", help="inject nothing, and watch for so many minutes")
    watched.add_argument("--again", action="store_true", help="no guests: the captures that a run left in DIR")
    for one_of in (one, other, watched):
        one_of.add_argument("--kernel", default="debian", metavar="KERNEL", help=_KERNEL)
    commands.add_parser("list", help="the scenarios")
    needs = commands.add_parser("packages", help="Debian's packages that a command needs and this machine lacks")
    needs.add_argument("words", metavar="COMMAND", nargs=argparse.REMAINDER, help="run SCENARIO ...")
    commands.add_parser("judge", help="nfslat on the results of runs: truth, verdict, right or wrong")
    commands.add_parser("compare", help="nfslat's times against the kernel's tracepoints, by XID")
    commands.add_parser("one-sided", help="nfslat with each capture of a pair alone, against both")
    options = parser.parse_args()
    try:
        if options.command == "list":
            for each in scenario.every():
                _say(f"{each.name:24} {each.cause.where:15} {each.description}")
        elif options.command == "packages":
            _say(" ".join(_packages(options.words)))
        elif options.command == "with":
            wanted_one = scenario.read(scenario.path(options.scenario))
            return visit(wanted_one, *_machine(options.kernel), options.shell)
        elif options.command == "live":
            return _live(options)
        else:
            wanted = [scenario.read(scenario.path(name)) for name in options.scenarios]
            wanted += [each for each in scenario.every() if options.all or (options.short and each.short)]
            if not wanted:
                parser.error("name scenarios, or --all")
            return _run(wanted, options)
    except (LabError, scenario.ScenarioError) as error:
        sys.stderr.write(f"lab: {error}\n")
        return 3
    except KeyboardInterrupt:
        return 130
    return 0


def _run(wanted: list[scenario.Scenario], options: argparse.Namespace) -> int:
    """Each scenario in turn; one that fails does not keep the others from running."""
    kernel, image = _machine(options.kernel)
    failed = 0
    for number, each in enumerate(wanted, 1):
        begun = time.monotonic()
        try:
            run(each, kernel, image, options.results)
            said = f"{time.monotonic() - begun:.0f} s"
        except LabError as error:
            failed += 1
            said = f"FAILED: {error}"
        sys.stderr.write(f"{number}/{len(wanted)} {each.name}: {said}\n")
    return 3 if failed else 0


def _live(options: argparse.Namespace) -> int:
    if options.again:
        _say("\n".join(live.again(options.results, options.interval)))
        return 0
    machine = _machine(options.kernel)
    wanted = scenario.read(Path(options.scenario))
    times = live.Times()
    if options.healthy is not None:
        wanted, times = dataclasses.replace(wanted, inject=()), live.Times(warm=options.healthy * 60)
    live.record(wanted, *machine, options.results, options.interval, times)
    _say("\n".join(live.judged(options.results, options.results, options.interval)))
    return 0


def _machine(name: str) -> tuple[Kernel, Path]:
    """Makes this process's machine ready for guests: their kernel, and the image of the server's disk."""
    lacks = host.missing()
    if lacks:
        raise LabError(f"guests need {', '.join(lacks)}")
    # The kernel is made where there is still a network.
    made = host.kernel(name), host.image()
    host.isolate()
    host.network(3)
    return made


def _packages(words: list[str]) -> list[str]:
    """Those of a command: what only Kerberos needs is only for scenarios that have it."""
    named = [scenario.read(path) for path in map(scenario.path, words) if path.is_file()]
    wanted = scenario.every() if "--all" in words else named
    extra = kerberos.PROGRAMS if any(each.mount.sec for each in wanted) else {}
    return host.packages(host.PROGRAMS | extra)


def _say(line: str) -> None:
    sys.stdout.write(f"{line}\n")


if __name__ == "__main__":
    sys.exit(main())
