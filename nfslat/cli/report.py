"""Arguments of `nfslat SERVER CLIENT` -> the report on them."""

from __future__ import annotations

import argparse
import os

from msgspec import structs

from nfslat.cli.outputs import OUTPUTS, Result, Run, name_files, need_ops
from nfslat.errors import UsageError


def inputs(options: argparse.Namespace) -> list[str]:
    """Captures, evidence and snapshots."""
    refuse(options)
    return [*captures(options), *options.evidence, *options.server_snapshot, *options.client_snapshot]


def captures(options: argparse.Namespace) -> list[str]:
    """Two, or one; or a folder with them."""
    return [options.server] if options.client is None else [options.server, options.client]


def make(options: argparse.Namespace, run: Run) -> Result:
    """Read the captures, and judge them."""
    # Here, not above: --help and usage errors do not wait for numpy.
    from nfslat import api  # noqa: PLC0415
    from nfslat.kernels.memory import share_arena  # noqa: PLC0415
    from nfslat.names.text import in_charset  # noqa: PLC0415

    share_arena()
    wanted = structs.replace(
        api.options(**{name: getattr(options, name) for name in api.Request.__annotations__}),
        in_stretches=not need_ops(options),
        paths=name_files(options),
        command=run.command,
    )
    # Windows that were not asked for are of no single operations.
    report = api.run(captures(options), wanted, quiet=options.quiet, sinks=lambda: run.sinks(wanted.command))

    def text() -> str:
        shown = report.text(full=options.full, sections=options.sections or (), width=run.width, color=run.color)
        return in_charset(shown, run.charset)

    def status() -> int:
        verdict = report.verdict if options.fail_on else None
        # Where no op is in both, it is not known either.
        return int(("undecided" if verdict is None else verdict.outcome) in options.fail_on)

    return Result.of_report(report, text, status)


def refuse(options: argparse.Namespace) -> None:
    """Raise ``UsageError`` for what makes no sense, before captures are read or taken."""
    needs_both = [row.name for row in OUTPUTS if row.both and row.asked(options)]
    if options.client is None and needs_both and not os.path.isdir(options.server):
        raise UsageError(f"{', '.join(needs_both)}: this needs both captures, the server's and the client's")
    if options.full and options.sections:
        raise UsageError("--full prints all sections, --sections some: give one of them")
    if options.markdown and (options.full or options.sections):
        raise UsageError("--full and --sections are of the text, and --markdown replaces it")
    if options.client is not None and options.ops_parquet is not None:
        raise UsageError("--ops-parquet: give one capture, and run it for the other one as well")
    if options.anonymize and options.ops_parquet is not None:
        raise UsageError("--ops-parquet stands for the capture, names included; anonymize what is made of it")
