"""Arguments of `nfslat diff` -> its answer on a stream, as JSON on another, and the exit status."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING, Any, TextIO

from nfslat.cli.arguments import add_filters, parse_filters
from nfslat.errors import InputError, UsageError

if TYPE_CHECKING:
    from nfslat.diff.runs import Run
    from nfslat.diff.tcp.read import Run as TransportRun
    from nfslat.select import Filters

DESCRIPTION = """\
Compare two runs of a load, before and after a change: say whether B is slower
or faster than A, or that nothing shows it, how certain that is, which part of
the way and which cause moved, and whether it is the load that changed.
A run is a report (nfslat ... --json), a capture of one host, or a folder with
server.* and client.*, or one of them; or a pair of captures with --before and
--after. Reports hold no single operations: the comparison is coarser. What one
capture infers has its error in all intervals.
With --transport, or a report of nfslat transport, any TCP is compared: turns, round
trips, delayed ACKs, loss, windows, rates, sizes."""

EXAMPLES = """\
examples:
  nfslat diff before.json after.json
  nfslat diff monday/ tuesday/ --json diff.json
  nfslat diff --before s1.pcap c1.pcap --after s2.pcap c2.pcap --op READ
  nfslat diff before.json --after s2.pcap c2.pcap
  nfslat diff monday-client.pcap tuesday-client.pcap
  nfslat diff --before server.pcap client.pcap --split 60s
  nfslat diff --transport good.pcap bad.pcap --port 1521
  nfslat diff a.json b.json --check mean=10% --check READ.p99=5ms

exit status: 0 done, 1 a --check is crossed or cannot be decided, 2 usage,
3 a file cannot be read, or nothing to compare"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """What `nfslat diff` takes; the filters are for captures."""
    parser.add_argument("runs", metavar="RUN", nargs="*", help="A, then B: a report, a capture, or a folder")
    pair = ("SERVER", "CLIENT")
    parser.add_argument("--before", nargs=2, metavar=pair, help="captures of A")
    parser.add_argument("--after", nargs=2, metavar=pair, help="captures of B")
    parser.add_argument(
        "--split",
        metavar="TIME",
        help="compare one run with itself, before and after this moment (as --start takes it), or 'half'",
    )
    parser.add_argument(
        "--check",
        metavar="FIGURE=LIMIT",
        action="append",
        default=[],
        help="exit status 1 where B exceeds A by more: mean=10%%, READ.p99=5ms, server.mean=20%%; repeatable",
    )
    parser.add_argument("--json", metavar="FILE", help="write the answer as JSON to FILE; - is standard output")
    parser.add_argument(
        "--engine",
        choices=("native", "tshark"),
        help="what decodes captures: nfslat's own decoder or Wireshark's tshark",
    )
    parser.add_argument(
        "--transport",
        action="store_true",
        help="compare TCP conversations, NFS or not: the one with most packets of each run (with --port: of the port)",
    )
    parser.add_argument("-q", "--quiet", action="store_true", help="no progress bar")
    add_filters(parser)


def inputs(options: argparse.Namespace) -> list[str]:
    """Names of all files that are read."""
    return [*options.runs, *(options.before or []), *(options.after or [])]


def run(options: argparse.Namespace, out: TextIO, json_out: TextIO | None, *, width: int, color: bool) -> int:
    """Write the answer: text to `out` unless the JSON goes there. Returns the exit status, 0 or 1.

    Raises ``UsageError`` and ``InputError``.
    """
    # Here, not above: --help and usage errors need none of it.
    from nfslat.diff import checks, sections  # noqa: PLC0415
    from nfslat.diff.answer import answer  # noqa: PLC0415

    if _is_of_transport(options):
        return _transport(options, out, json_out, width=width, color=color)
    thresholds = [checks.parse_check(one) for one in options.check]
    found = answer(*_runs(options, parse_filters(options)), thresholds)
    if json_out is not None:
        found.write_json(json_out)
    if options.json != "-":
        out.write(sections.render(found, width=width, color=color))
    out.flush()
    return int(any(one.result != "passed" for one in found.checks))


def _is_of_transport(options: argparse.Namespace) -> bool:
    """Asked for, or a report of `nfslat transport` is among the runs."""
    from nfslat.diff.tcp.read import is_report  # noqa: PLC0415

    return options.transport or any(map(is_report, options.runs))


def _transport(options: argparse.Namespace, out: TextIO, json_out: TextIO | None, *, width: int, color: bool) -> int:
    from nfslat.diff.tcp import compare, read, sections  # noqa: PLC0415
    from nfslat.select import parse_moment  # noqa: PLC0415

    filters = parse_filters(options)
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
        at = None if options.split == "half" else parse_moment(options.split)
        a, b = read.halves(names[0], at, **how)
    else:
        if len(names) + sum(map(bool, pairs)) != 2:
            raise UsageError(
                f"diff compares two runs, {len(names) + sum(map(bool, pairs))} given: captures, or reports"
            )
        a, b = (read.from_captures(pair, **how) if pair else _one_of_transport(names.pop(0), how) for pair in pairs)
    found = compare.compare(a, b)
    if json_out is not None:
        found.write_json(json_out)
    if options.json != "-":
        out.write(sections.render(found, width=width, color=color))
    out.flush()
    return 0


def _one_of_transport(name: str, how: dict[str, Any]) -> TransportRun:
    from nfslat.diff.tcp import read  # noqa: PLC0415

    if not read.is_report(name):
        from nfslat.diff.read import captures_of  # noqa: PLC0415

        return read.from_captures(captures_of(name), **how)
    if how["ports"]:
        raise UsageError(f"--port: {name}: a finished report; filters need captures")
    return read.from_report(name)


def _runs(options: argparse.Namespace, filters: Filters) -> tuple[Run, Run]:
    from nfslat.diff import read, split  # noqa: PLC0415
    from nfslat.select import parse_moment  # noqa: PLC0415

    how: dict[str, Any] = {"engine": options.engine, "quiet": options.quiet}
    names = list(options.runs)
    if "-" in inputs(options):
        raise UsageError("diff reads files; '-' is not one")
    if options.split is not None:
        pair = options.before
        if options.after or (pair and names) or not (pair or len(names) == 1):
            raise UsageError("--split takes captures of one run: --before SERVER CLIENT, a folder, or one capture")
        captures = pair or read.captures_of(names[0])
        at = None if options.split == "half" else parse_moment(options.split)
        return split.split(captures, filters, at, name=names[0] if names else " ".join(captures), **how)
    wanted = 2 - bool(options.before) - bool(options.after)
    if len(names) != wanted:
        raise UsageError(
            f"diff compares two runs, {len(names) + 2 - wanted} given: reports, captures, folders, or "
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
