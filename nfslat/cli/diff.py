"""Arguments of `nfslat diff` -> its answer, and the exit status."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING, Any

from nfslat.cli.options import filters_of
from nfslat.cli.outputs import Result, Run
from nfslat.errors import InputError, UsageError

if TYPE_CHECKING:
    from nfslat.diff.runs import Run as RunOfLoad
    from nfslat.diff.tcp.read import Run as TransportRun
    from nfslat.select import Filters, Moment

DESCRIPTION = """\
Compare two runs of a load, before and after a change: say whether B is slower
or faster than A, or that nothing shows it, how certain that is, which part of
the way and which cause moved, and whether it is the load that changed.
A run is a report (nfslat ... --json), a CSV file (nfslat ... --csv), a capture
of one host, or a folder with server.* and client.*, or one of them; or a pair of
captures with --before and --after. Reports hold no single operations: the
comparison is coarser. What one capture infers has its error in all intervals.
With --transport, or a report of nfslat transport, any TCP is compared: turns, round
trips, delayed ACKs, loss, windows, rates, sizes."""

EXAMPLES = """\
examples:
  nfslat diff before.json after.json
  nfslat diff monday/ tuesday/ --json diff.json
  nfslat diff --before s1.pcap c1.pcap --after s2.pcap c2.pcap --op READ
  nfslat diff before.csv --after s2.pcap c2.pcap
  nfslat diff monday-client.pcap tuesday-client.pcap
  nfslat diff --before server.pcap client.pcap --split 60s
  nfslat diff --transport good.pcap bad.pcap --port 1521
  nfslat diff a.json b.json --check mean=10% --check READ.p99=5ms

exit status: 0 done, 1 a --check is crossed or cannot be decided, 2 usage,
3 a file cannot be read, or nothing to compare"""


def inputs(options: argparse.Namespace) -> list[str]:
    """Names of all files that are read."""
    return [*options.runs, *(options.before or []), *(options.after or [])]


def make(options: argparse.Namespace, run: Run) -> Result:
    """Compare. The status is 1 where a check did not pass."""
    # Here, not above: --help and usage errors need none of it.
    from nfslat.diff import checks, sections  # noqa: PLC0415
    from nfslat.diff.answer import answer  # noqa: PLC0415
    from nfslat.diff.tcp.read import is_report  # noqa: PLC0415

    if options.transport or any(map(is_report, options.runs)):
        return _transport(options, run)
    thresholds = [checks.parse_check(one) for one in options.check]
    found = answer(*_runs(options, filters_of(options)), thresholds)
    return Result(
        lambda: sections.render(found, width=run.width, color=run.color),
        found.write_json,
        status=lambda: int(any(one.result != "passed" for one in found.checks)),
    )


def _transport(options: argparse.Namespace, run: Run) -> Result:
    from nfslat.diff.tcp import compare, read, sections  # noqa: PLC0415

    filters = filters_of(options)
    if options.engine == "tshark":
        raise UsageError("--engine tshark: TCP conversations are read by nfslat's own decoder alone")
    others = [text for text in filters.text if not text.startswith("--port")]
    if others or options.check:
        given = ", ".join([*others, *(["--check"] * bool(options.check))])
        raise UsageError(f"{given}: of NFS operations; a comparison of TCP conversations takes --port")
    how: dict[str, Any] = {"ports": frozenset(options.port), "quiet": options.quiet}
    names, pairs = list(options.runs), (options.before, options.after)
    if options.split is not None:
        if any(pairs) or len(names) != 1 or read.is_report(names[0]):
            raise UsageError("--split with --transport takes one capture")
        a, b = read.halves(names[0], _moment(options.split), **how)
    else:
        if len(names) + sum(map(bool, pairs)) != 2:
            raise UsageError(
                f"diff compares two runs, {len(names) + sum(map(bool, pairs))} given: captures, or reports"
            )
        a, b = (read.from_captures(pair, **how) if pair else _one_of_transport(names.pop(0), how) for pair in pairs)
    found = compare.compare(a, b)
    return Result(lambda: sections.render(found, width=run.width, color=run.color), found.write_json)


def _moment(split: str) -> Moment | None:
    from nfslat.select import parse_moment  # noqa: PLC0415

    return None if split == "half" else parse_moment(split)


def _one_of_transport(name: str, how: dict[str, Any]) -> TransportRun:
    from nfslat.diff.tcp import read  # noqa: PLC0415

    if not read.is_report(name):
        from nfslat.decode.capture import captures_of  # noqa: PLC0415

        return read.from_captures(captures_of([name]), **how)
    if how["ports"]:
        raise UsageError(f"--port: {name}: a finished report; filters need captures")
    return read.from_report(name)


def _runs(options: argparse.Namespace, filters: Filters) -> tuple[RunOfLoad, RunOfLoad]:
    from nfslat.decode.capture import captures_of  # noqa: PLC0415
    from nfslat.diff import read, split  # noqa: PLC0415

    how: dict[str, Any] = {"engine": options.engine, "quiet": options.quiet}
    names = list(options.runs)
    if "-" in inputs(options):
        raise UsageError("diff reads files; '-' is not one")
    if options.split is not None:
        pair = options.before
        if options.after or (pair and names) or not (pair or len(names) == 1):
            raise UsageError("--split takes captures of one run: --before SERVER CLIENT, a folder, or one capture")
        captures = pair or captures_of(names)
        return split.split(
            captures, filters, _moment(options.split), name=names[0] if names else " ".join(captures), **how
        )
    wanted = 2 - bool(options.before) - bool(options.after)
    if len(names) != wanted:
        raise UsageError(
            f"diff compares two runs, {len(names) + 2 - wanted} given: reports, CSV files, captures, folders, or "
            "--before SERVER CLIENT and --after SERVER CLIENT"
        )
    runs = [
        read.from_captures(pair, filters, **how) if pair else read.from_file(names.pop(0), filters, **how)
        for pair in (options.before, options.after)
    ]
    hosts = {host for run in runs if (host := run.inferred[0])}
    if len(hosts) > 1:
        raise InputError(
            f"{runs[0].name} and {runs[1].name}: one was taken on the server and one on the client; of one run they "
            "are a pair: --before SERVER CLIENT"
        )
    return runs[0], runs[1]
