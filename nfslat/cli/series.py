"""Arguments of `nfslat series` -> its answer on a stream, as JSON, as a page, as pictures; and the exit status."""

from __future__ import annotations

import argparse
import shlex
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, TextIO

from nfslat.cli.arguments import add_filters, parse_filters
from nfslat.cli.messages import say
from nfslat.errors import PictureError, UsageError
from nfslat.export.output import Kind, is_standard, output, output_directory

if TYPE_CHECKING:
    from nfslat.series.inputs import Listed

DESCRIPTION = """\
Runs of one load that is made larger step by step (1, 8, 16, 32, 64 users): say
from which load on the latency of the application grows away from that of the
storage, and which limit makes it; or that nothing shows it, or that these runs
cannot tell, and what to measure. Runs without loads (days, kernels) are each
compared with the one before.
A run is what nfslat diff takes: a report, a capture, or a folder."""

EXAMPLES = """\
examples:
  nfslat series 1=one/ 8=eight/ 16=sixteen/ 32=thirtytwo/ --unit users
  nfslat series --runs users.csv --html series.html
  nfslat series monday.json tuesday.json wednesday.json

users.csv:
  users,run,app_ms,storage_ms
  1,one/,12.4,11.9
  8,eight/,13.0,12.0

exit status: 0 done, 2 usage, 3 a file cannot be read"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """What `nfslat series` takes; the filters are for captures."""
    parser.add_argument(
        "runs", metavar="RUN", nargs="*", help="LOAD=RUN (8=eight/), or RUN alone; each as nfslat diff takes it"
    )
    parser.add_argument(
        "--runs",
        dest="listed",
        metavar="FILE",
        help="TOML or CSV that lists the runs: load, run (or server and client), app_ms, storage_ms, name",
    )
    parser.add_argument("--unit", metavar="WORD", help="what the loads count: users, threads, jobs")
    parser.add_argument("--json", metavar="FILE", help="write the answer as JSON to FILE; - is standard output")
    parser.add_argument("--html", metavar="FILE", help="write it as one page with pictures, for browser and mail")
    parser.add_argument("--png", metavar="DIR", help="write the pictures to files in DIR, for tickets")
    parser.add_argument("--markdown", action="store_true", help="print it as Markdown, for tickets")
    parser.add_argument(
        "--engine",
        choices=("native", "tshark"),
        help="what decodes captures: nfslat's own decoder or Wireshark's tshark",
    )
    parser.add_argument("-q", "--quiet", action="store_true", help="no progress bar")
    add_filters(parser)


def inputs(options: argparse.Namespace) -> Sequence[str]:
    """Names of all files that are read, as far as they are on the command line."""
    names = [name for word in options.runs for name in (word, word.partition("=")[2]) if name]
    return [*names, *([options.listed] if options.listed else [])]


def run(options: argparse.Namespace, out: TextIO, json_out: TextIO | None, *, width: int, color: bool) -> int:
    """Write the answer: text to `out` unless something else goes there. Raises ``UsageError`` and ``InputError``."""
    # Here, not above: --help and usage errors need none of it.
    from nfslat.series import build, page, sections  # noqa: PLC0415

    if is_standard(options.json) and is_standard(options.html):
        raise UsageError("--json and --html cannot both go to standard output; name a file for one of them")
    listed, filters = _listed(options), parse_filters(options)
    runs = [build.read(one, filters, engine=options.engine, quiet=options.quiet) for one in listed.runs]
    found = build.series(listed, runs, shlex.join(["nfslat", *sys.argv[1:]]))
    if json_out is not None:
        found.write_json(json_out)
    if not any(map(is_standard, (options.json, options.html))):
        out.write(sections.markdown(found) if options.markdown else sections.render(found, width=width, color=color))
        out.flush()
    read = [*inputs(options), *(file for one in listed.runs for file in one.files)]
    try:
        with output(options.html, Kind.HTML, read, overwrite=options.overwrite) as page_out:
            if page_out is not None:
                page_out.write(page.render(found))
        if options.png is not None:
            with output_directory(options.png, Kind.PICTURE, read, overwrite=options.overwrite) as folder:
                page.write_png(found, folder)
    except PictureError as problem:
        say(str(problem.named(options.html or options.png)))
        return problem.exit_status
    return 0


def _listed(options: argparse.Namespace) -> Listed:
    from nfslat.series import inputs as lists  # noqa: PLC0415

    if options.listed and options.runs:
        raise UsageError("--runs FILE lists all runs: name none beside it")
    if options.listed:
        return lists.of_file(options.listed, options.unit)
    if not options.runs:
        raise UsageError("name runs, as 1=one/ 8=eight/, or --runs FILE (see nfslat series --help)")
    if "-" in inputs(options):
        raise UsageError("series reads files; '-' is not one")
    return lists.of_arguments(options.runs, options.unit or "load")
