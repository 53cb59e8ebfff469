"""Arguments of `nfslat series` -> its answer, also as pictures."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from typing import TYPE_CHECKING

from nfslat.cli.options import filters_of
from nfslat.cli.outputs import Result, Run
from nfslat.errors import UsageError

if TYPE_CHECKING:
    from nfslat.series.inputs import Listed

DESCRIPTION = """\
Runs of one load that is made larger step by step (1, 8, 16, 32, 64 users): say
from which load on the latency of the application grows away from that of the
storage, and which limit makes it; or that nothing shows it, or that these runs
cannot tell, and what to measure. Runs without loads (days, kernels) are each
compared with the one before.
A run is what nfslat diff takes: a report, a CSV file, a capture, or a folder."""

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


def inputs(options: argparse.Namespace) -> Sequence[str]:
    """Names of all files that are read."""
    listed = _listed(options)
    return [
        *options.runs,
        *([options.listed] if options.listed else []),
        *(f for one in listed.runs for f in one.files),
    ]


def make(options: argparse.Namespace, run: Run) -> Result:
    """Read the runs, and judge them as a series."""
    # Here, not above: --help and usage errors need none of it.
    from nfslat.series import build, page, sections  # noqa: PLC0415

    listed, filters = _listed(options), filters_of(options)
    runs = [build.read(one, filters, engine=options.engine, quiet=options.quiet) for one in listed.runs]
    found = build.series(listed, runs, run.command)
    return Result(
        lambda: sections.render(found, width=run.width, color=run.color),
        found.write_json,
        lambda: sections.markdown(found),
        lambda: page.render(found),
        lambda folder: page.write_png(found, folder),
    )


def _listed(options: argparse.Namespace) -> Listed:
    from nfslat.series import inputs as lists  # noqa: PLC0415

    if options.listed and options.runs:
        raise UsageError("--runs FILE lists all runs: name none beside it")
    if options.listed:
        return lists.of_file(options.listed, options.unit)
    if not options.runs:
        raise UsageError("name runs, as 1=one/ 8=eight/, or --runs FILE (see nfslat series --help)")
    if "-" in {name for word in options.runs for name in (word, word.partition("=")[2])}:
        raise UsageError("series reads files; '-' is not one")
    return lists.of_arguments(options.runs, options.unit or "load")
