"""Options of `nfslat live` on what is kept of the last minutes, and when it is written -> what keeps and writes."""

from __future__ import annotations

import argparse
import signal
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from nfslat.errors import UsageError
from nfslat.model.record import Record

if TYPE_CHECKING:
    from nfslat.decode.capture import Source
    from nfslat.decode.tools import Tools
    from nfslat.live.baseline import Baseline
    from nfslat.live.conditions import Condition
    from nfslat.live.moments import Moments
    from nfslat.live.watch import Watched


class Asked(Record):
    """What the options say."""

    options: argparse.Namespace
    conditions: list[Condition]
    baseline: Baseline | None


class Kept(Record):
    """What is read, and what writes what is kept of it."""

    watch: Watched
    moments: Moments
    end: Callable[[], None]  # writes what is written at the end
    ask: Callable[[], str]  # for a report on what is kept, which comes soon; says where


def asked(options: argparse.Namespace) -> Asked:
    """Raises ``UsageError`` for what makes no sense, and ``InputError`` for a baseline that cannot be read."""
    from nfslat.live.baseline import Baseline
    from nfslat.live.conditions import parse_condition

    folder = None if options.out is None else Path(options.out)
    if folder is not None and folder.exists() and not folder.is_dir():
        raise UsageError(f"--out {folder}: is a file; name a folder, which is made if it is not there")
    if options.exec is not None and not options.when:
        raise UsageError("--exec runs a command when a condition is met: name it with --when")
    conditions = [parse_condition(one) for one in options.when]
    baseline = None if options.baseline is None else Baseline(options.baseline)
    return Asked(options, conditions, baseline)


def opened(
    asked: Asked,
    sources: Sequence[Source],
    tools: Callable[[], Tools],
    tell: Callable[[str], None],
    client: str | None = None,
    wait: Callable[[], None] | None = None,
) -> Kept:
    """Reading begins. `tell` has a line for the user. `client`: which one it is, where there are several; `wait` is
    called while nothing comes."""
    from nfslat.live.commands import Command
    from nfslat.live.moments import Moments
    from nfslat.live.one import WatchOne
    from nfslat.live.watch import Watch
    from nfslat.model.units import NS_PER_S

    options = asked.options
    width_ns, keep_ns = (round(one * NS_PER_S) for one in (options.interval, options.keep))
    is_asked = [False]
    moments: list[Moments] = []

    def idle() -> None:
        if wait is not None:
            wait()
        if is_asked[0]:
            is_asked[0] = False
            moments[0].now()

    sides = ("capture",) if len(sources) == 1 else ("server", "client")
    made = WatchOne if len(sources) == 1 else Watch
    by_side = dict(zip(sides, sources, strict=True))
    watch = made(by_side, tools, width_ns, keep_ns=keep_ns, ring_bytes=options.ring, idle=idle)
    command = None if options.exec is None else Command(options.exec)
    folder = None if options.out is None else Path(options.out)
    moments.append(
        Moments(
            watch,
            asked.conditions,
            folder,
            at_most=options.at_most,
            command=command,
            baseline=asked.baseline,
            tell=tell,
            client=client,
        )
    )

    def end() -> None:
        moments[0].end()
        _write(options, watch, asked.baseline)

    def ask() -> str:
        if folder is None:
            return "--out DIR says where a report is written"
        is_asked[0] = True
        return f"a report on what is kept is written to {folder}"

    return Kept(watch, moments[0], end, ask)


def on_signal(options: argparse.Namespace, kept: Sequence[Kept]) -> None:
    """SIGUSR1 writes what is kept, of each of them."""

    def ask(*_: object) -> None:
        for one in kept:
            one.ask()

    if options.out is not None:
        signal.signal(signal.SIGUSR1, ask)


def _write(options: argparse.Namespace, watch: Watched, baseline: Baseline | None) -> None:
    """What is asked for at the end."""
    from nfslat.export.output import Kind, output

    if options.html is None and options.json_report is None:
        return
    report = watch.report()
    report = report if baseline is None else baseline.noted(report)
    with output(options.json_report, Kind.JSON, options.captures, overwrite=options.overwrite) as out:
        if out is not None:
            report.write_json(out)
    with output(options.html, Kind.HTML, options.captures, overwrite=options.overwrite) as out:
        if out is not None:
            from nfslat.report.html import page

            out.write(page.render(report))
