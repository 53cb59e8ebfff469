"""Arguments of `nfslat fleet` -> captures of a server and its clients -> the fleet's report."""

from __future__ import annotations

import argparse
import contextlib
import dataclasses
import os
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from nfslat.cli.messages import say
from nfslat.cli.outputs import Result, Run
from nfslat.errors import InputError, UsageError
from nfslat.fleet.run.remote import is_url

if TYPE_CHECKING:
    from nfslat.fleet.model import Fleet
    from nfslat.fleet.run.executor import Workers
    from nfslat.fleet.run.inputs import Given
    from nfslat.fleet.run.manifest import Manifest
    from nfslat.fleet.run.points import Points

DESCRIPTION = """\
Compare the captures of one NFS server and of many of its clients: which clients
suffer, by how much, and whether it is the server, the path of a few, or one host.
Whose a file is is found from the addresses in it. Where the server, or a client,
was not captured, what it did is inferred from the other capture. Runs on all
processors of this machine, or on a Dask cluster."""

EXAMPLES = """\
examples:
  nfslat fleet server/*.pcap clients/*/
  nfslat fleet server/ clients/ --out run/ --html fleet.html
  nfslat fleet clients/                                # of a filer: no capture there
  nfslat fleet --out run/ --show 10.9.3.17             # one client's two-sided report
  nfslat fleet --manifest FLEET.toml --scheduler tls://head:8786 --out s3://bucket/run

A run that was interrupted goes on where it was, with the same --out.
Exit status: as nfslat's, and 4 where a part could not be done (nfslat --help)."""

STATUS_IN_PART = 4
_SAID = 3  # problems with files, beside what came of them
_MANY_HEADS = 512  # files; more are looked at by the workers


def inputs(options: argparse.Namespace) -> Sequence[str]:
    """Captures, and what says whose they are."""
    _check(options)
    return [*options.captures, *([options.manifest] if options.manifest else [])]


def make(options: argparse.Namespace, run: Run) -> Result:
    """The report; exit status 4 where a part of it could not be done, 1 where --fail-on names its outcome."""
    if options.show is not None:
        return _show(options, run)
    fleet = _fleet(options, run.command)

    def text() -> str:
        from nfslat.fleet.sections.all import render

        return render(fleet, width=run.width, color=run.color, all_clients=options.all_clients)

    def markdown() -> str:
        from nfslat.fleet.sections import all as sections

        return sections.markdown(fleet)

    def html() -> str:
        from nfslat.fleet import page

        return page.render(fleet, folder=os.path.dirname(os.path.abspath(options.html)))

    def status() -> int:
        if any(one.fatal for one in fleet.problems):
            return STATUS_IN_PART
        return int(fleet.verdict.outcome in options.fail_on)

    return Result(text, fleet.write_json, markdown, html, status=status)


def _check(options: argparse.Namespace) -> None:
    given = bool(options.captures or options.manifest)
    if options.show is not None:
        if given or options.out is None:
            raise UsageError("--show CLIENT goes with --out DIR of a run that was, and with no captures")
        return
    if not given:
        raise UsageError("name captures of the server and of its clients, or a --manifest (see nfslat fleet --help)")
    if options.scheduler is not None and (options.workers or options.worker_memory):
        raise UsageError("--workers and --worker-memory are of a cluster on this machine, not of --scheduler")
    of_schedulers = "dashboard", "tls_ca_file", "tls_cert", "tls_key", "insecure"
    if options.scheduler is None and any(getattr(options, name) for name in of_schedulers):
        raise UsageError("--dashboard, --tls-ca-file, --tls-cert, --tls-key and --insecure go with --scheduler")


def _fleet(options: argparse.Namespace, command: str) -> Fleet:
    from nfslat.fleet.run.finished import RunFolder
    from nfslat.fleet.run.inputs import expand, merged
    from nfslat.fleet.run.manifest import read
    from nfslat.fleet.run.run import Asked
    from nfslat.fleet.run.run import Run as RunOfFleet

    manifest = None if options.manifest is None else read(options.manifest)
    given = merged(expand(options.captures), *([manifest.given] if manifest is not None else []))
    if not given.files:
        raise InputError("; ".join(f"{one.name}: {one.why}" for one in given.problems) or "no captures are named")
    folder = None if options.out is None else RunFolder(_out(options.out))
    with contextlib.ExitStack() as stack:
        workers = stack.enter_context(_workers(options, given))
        try:
            points = _points(options, given, manifest, workers)
        except InputError as problem:
            more = "".join(f"; {one.name}: {one.why}" for one in given.problems[:_SAID])
            raise InputError(f"{problem}{more}") from problem
        if folder is not None:
            folder.check()
        points = dataclasses.replace(points, unused=(*given.problems, *points.unused))
        asked = Asked(command=command, **_of_manifest(manifest, points))
        step = stack.enter_context(_progress(len(points.clients), quiet=options.quiet))
        return RunOfFleet(workers, folder, points, asked, step).fleet()


@contextlib.contextmanager
def _workers(options: argparse.Namespace, given: Given) -> Iterator[Workers]:
    """Processes here, or the workers of a Dask scheduler."""
    if options.scheduler is None:
        from nfslat.fleet.run.executor import processes

        with (
            tempfile.TemporaryDirectory(prefix="nfslat-") as scratch,
            processes(options.workers, options.worker_memory, Path(scratch) / "workers") as here,
        ):
            yield here
        return
    from nfslat.fleet.run.cluster import connect, security_of

    security = security_of(options.tls_ca_file, options.tls_cert, options.tls_key, insecure=options.insecure)
    with connect(options.scheduler, security, dashboard=options.dashboard) as cluster:
        if options.dashboard:
            say(f"Dask dashboard: {cluster.dashboard or 'the scheduler has none'}")
        cluster.refuse_others([one.url for one in given.files if not one.is_remote])
        yield cluster


def _points(options: argparse.Namespace, given: Given, manifest: Manifest | None, workers: Workers) -> Points:
    """Whose the files are. Many are looked at by the workers; what a worker was lost over is not looked at."""
    from nfslat.fleet.run.heads import Head, look
    from nfslat.fleet.run.points import assign, find_points

    files = given.files
    if options.scheduler is None and len(files) < _MANY_HEADS:
        return find_points(files, manifest)
    heads = [Head(one) for one in files]
    for number, done in workers.each(look, files):
        heads[number] = done.value or Head(files[number], problem=done.why_not)
    return assign(heads, manifest)


def _of_manifest(manifest: Manifest | None, points: Points) -> dict[str, Any]:
    """Fields of ``Asked``."""
    if manifest is None:
        return {}
    named = [(point, manifest.client(point.name)) for point in points.clients]
    return {
        "application_ms": {point.name: one.application_ms for point, one in named if one and one.application_ms},
        "sessions": {point.name: one.sessions for point, one in named if one and one.sessions},
        "groups": {point.name: manifest.labels(point.name, point.addresses) for point, _ in named},
        "threads": manifest.server.threads,
    }


def _out(name: str) -> str:
    """The folder as an absolute path, or the URL."""
    if name.startswith("memory:"):
        raise UsageError(f"--out {name}: no other process sees that; name a folder, or a URL of a place that all share")
    name = name.removeprefix("file://")
    return name if is_url(name) else os.path.abspath(name)


@contextlib.contextmanager
def _progress(clients: int, *, quiet: bool) -> Iterator[Callable[[str], None]]:
    """Steps: the server's capture is decoded, and each client compared."""
    if quiet or not sys.stderr.isatty():
        yield lambda _: None
        return
    from tqdm import tqdm

    tqdm.monitor_interval = 0  # processes are forked: no threads
    with tqdm(total=clients + 1, unit=" steps", leave=False, file=sys.stderr) as bar:

        def step(what: str) -> None:
            bar.set_description_str(what, refresh=False)
            bar.update()

        yield step


def _show(options: argparse.Namespace, run: Run) -> Result:
    """One client's two-sided report, as the run kept it."""
    from nfslat.fleet.run.finished import RunFolder
    from nfslat.report import markdown, text

    report = RunFolder(_out(options.out)).report(options.show)

    def html() -> str:
        from nfslat.report.html import page

        return page.render(report)

    outcome = "undecided" if report.verdict is None else report.verdict.outcome
    return Result(
        lambda: text.render(report, width=run.width, color=run.color),
        report.write_json,
        lambda: markdown.render(report),
        html,
        status=lambda: int(outcome in options.fail_on),
    )
