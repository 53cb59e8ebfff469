"""Arguments of `nfslat fleet` -> captures of a server and its clients -> the fleet's report."""

from __future__ import annotations

import argparse
import contextlib
import dataclasses
import os
import shlex
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, TextIO

from nfslat.cli.arguments import a_number
from nfslat.cli.messages import say
from nfslat.errors import InputError, PictureError, UsageError
from nfslat.export.output import Kind, is_standard, output
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


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """What it takes."""
    parser.add_argument(
        "captures",
        metavar="CAPTURE",
        nargs="*",
        help="captures of the server, of its clients, or both: files, folders, quoted globs, URLs (s3, sftp, http ...)",
    )
    parser.add_argument("--manifest", metavar="FILE", help="TOML that says which files are whose, and names of groups")
    parser.add_argument(
        "--out", metavar="DIR", help="folder or URL to keep each client's report in, and what it came to; goes on there"
    )
    parser.add_argument("--show", metavar="CLIENT", help="print the report of one client of the run in --out")
    parser.add_argument("--json", metavar="FILE", help="write the report as JSON to FILE; - is standard output")
    parser.add_argument("--html", metavar="FILE", help="write the report as one page for browser and mail")
    parser.add_argument("--markdown", action="store_true", help="print the report as Markdown, for tickets")
    parser.add_argument(
        "--fail-on",
        choices=("fault", "undecided"),
        action="append",
        default=[],
        help="exit status 1 where the verdict is that; repeatable",
    )
    parser.add_argument("--all-clients", action="store_true", help="a line for each client, however many there are")
    parser.add_argument("-q", "--quiet", action="store_true", help="no progress")
    cluster = parser.add_argument_group("where it runs")
    cluster.add_argument("--workers", type=a_number, metavar="N", help="processes on this machine (one a processor)")
    cluster.add_argument("--worker-memory", metavar="SIZE", help="bound of each, for example 4GB (its part of all)")
    cluster.add_argument("--scheduler", metavar="ADDRESS", help="a Dask scheduler, for example tls://head:8786")
    cluster.add_argument("--dashboard", action="store_true", help="say where that scheduler's dashboard is")
    cluster.add_argument("--tls-ca-file", metavar="PEM", help="who signs its certificate and ours (Dask's tls_ca_file)")
    cluster.add_argument("--tls-cert", metavar="PEM", help="our certificate (tls_client_cert)")
    cluster.add_argument("--tls-key", metavar="PEM", help="and its key, where that is another file (tls_client_key)")
    cluster.add_argument("--insecure", action="store_true", help="a scheduler without TLS: it may run code here")


def inputs(options: argparse.Namespace) -> Sequence[str]:
    """Files that it reads, which no output may replace."""
    return [*options.captures, *([options.manifest] if options.manifest else [])]


def run(options: argparse.Namespace, out: TextIO, json_out: TextIO | None, *, width: int, color: bool) -> int:
    """The report; exit status 4 where a part of it could not be done, 1 where --fail-on names its outcome."""
    _check(options)
    if options.show is not None:
        return _show(options, out, json_out, width=width, color=color)
    fleet = _fleet(options)
    if json_out is not None:
        fleet.write_json(json_out)
    failed = 0
    if options.html is not None:
        from nfslat.fleet import page

        folder = os.path.dirname(os.path.abspath(options.html))
        failed = _write_page(options, inputs(options), lambda: page.render(fleet, folder=folder))
    if not any(map(is_standard, (options.json, options.html))):
        from nfslat.fleet.sections.all import markdown, render

        text = render(fleet, width=width, color=color, all_clients=options.all_clients)
        out.write(markdown(fleet) if options.markdown else text)
        out.flush()  # whether somebody reads it shows here, or when it is too late to say so
    if failed:
        return failed
    if any(one.fatal for one in fleet.problems):
        return STATUS_IN_PART
    return 1 if fleet.verdict.outcome in options.fail_on else 0


def _write_page(options: argparse.Namespace, read: Sequence[str], make: Callable[[], str]) -> int:
    """The exit status: without what draws its pictures there is no page, and the rest of the report is there."""
    try:
        with output(options.html, Kind.HTML, read, overwrite=options.overwrite) as page_out:
            if page_out is not None:
                page_out.write(make())
    except PictureError as problem:
        say(str(problem.named(options.html)))
        return problem.exit_status
    return 0


def _check(options: argparse.Namespace) -> None:
    if is_standard(options.json) and is_standard(options.html):
        raise UsageError("--json and --html cannot both go to standard output; name a file for one of them")
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


def _fleet(options: argparse.Namespace) -> Fleet:
    from nfslat.fleet.run.finished import RunFolder
    from nfslat.fleet.run.inputs import expand, merged
    from nfslat.fleet.run.manifest import Manifest, read
    from nfslat.fleet.run.run import Run

    manifest = Manifest("") if options.manifest is None else read(options.manifest)
    given = merged(expand(options.captures), manifest.given)
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
        command = shlex.join(["nfslat", *sys.argv[1:]])
        step = stack.enter_context(_progress(len(points.clients), quiet=options.quiet))
        return Run(workers, folder, points, manifest, command, step).fleet()


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


def _points(options: argparse.Namespace, given: Given, manifest: Manifest, workers: Workers) -> Points:
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


def _show(options: argparse.Namespace, out: TextIO, json_out: TextIO | None, *, width: int, color: bool) -> int:
    """One client's two-sided report, as the run kept it."""
    from nfslat.fleet.run.finished import RunFolder
    from nfslat.report import markdown, text
    from nfslat.report.html import page

    report = RunFolder(_out(options.out)).report(options.show)
    if json_out is not None:
        report.write_json(json_out)
    failed = _write_page(options, (), lambda: page.render(report)) if options.html is not None else 0
    if not any(map(is_standard, (options.json, options.html))):
        out.write(markdown.render(report) if options.markdown else text.render(report, width=width, color=color))
    outcome = "undecided" if report.verdict is None else report.verdict.outcome
    return failed or (1 if outcome in options.fail_on else 0)
