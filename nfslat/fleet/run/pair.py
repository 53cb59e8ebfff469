"""One client's shards, of its own capture and of the server's -> its two-sided report, and a summary to be merged.

The report is that of ``nfslat SERVER CLIENT`` on the same packets, where the server's capture holds no other client. Of
one that holds others it is what those packets of this client say, with the server's threads as all clients used them.
"""

from __future__ import annotations

import dataclasses
import io
import itertools
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from nfslat import api, pipeline
from nfslat.decode.capture import File
from nfslat.decode.merge import merge
from nfslat.errors import InputError
from nfslat.evidence.known import Known
from nfslat.evidence.outside import Outside, with_bundled
from nfslat.fleet.compare.summary import ClientSummary, summarize, summarize_server_only
from nfslat.fleet.compare.windows import Windows
from nfslat.fleet.run.shards import read_shard
from nfslat.fleet.run.store import Store
from nfslat.inflight.all_clients import ServerWide
from nfslat.match import overlap
from nfslat.results import Analysis, Side
from nfslat.select import Filters, select

_NAMED = 3  # files of a capture
_OTHERS = "the server works for other clients, too, and what it did for all of them could not be worked out"


@dataclass(frozen=True)
class Parts:
    """Names in the store: what there is of one capture point for one client."""

    shards: tuple[str, ...]
    facts: str
    files: tuple[str, ...] = ()  # the captures, as they are called now; they may have been moved


@dataclass(frozen=True)
class Request:
    """One client; `client` None where it has no capture of its own."""

    name: str
    addresses: tuple[str, ...]
    server: Parts
    client: Parts | None
    groups: Mapping[str, str] = field(default_factory=dict)
    application_ms: Mapping[str, float] = field(default_factory=dict)  # by operation; "" for all data ops
    sessions: int | None = None
    threads: int | None = None  # of the server, as its manifest says
    is_shared: bool = False  # others call the server, too
    command: str = ""  # that the report says it was made by
    kept: str | None = None  # name for the report (JSON) in the store


def correlate(store: Store, request: Request, wide: ServerWide | None) -> tuple[Analysis, api.Options]:
    """Both sides of a client, compared and analysed; raises ``InputError`` as `nfslat.pipeline.correlate` does.

    `wide` is None where nobody else calls the server, or where it could not be worked out.
    """
    if request.client is None:
        raise InputError("there is no capture of this client", about=request.name)
    with tempfile.TemporaryDirectory(prefix="nfslat-") as scratch:
        one, two = (read_side(store, parts, Path(scratch)) for parts in (request.server, request.client))
    found = pipeline.compare(one, two, filters=Filters(), srt="nfslat", may_swap=False)
    if overlap.where_longer(found.server.ops, found.client.ops, found.matched) is overlap.Longer.AT_SERVER:
        raise InputError(
            "its ops take longer in the server's capture than in its own; one of the files is on the "
            "wrong side: say in a manifest which files are whose",
            about=request.name,
        )
    analysis = pipeline.analyse(found, wide, cannot_tell=_OTHERS if request.is_shared else "")
    outside = Outside(Known(app_ms=dict(request.application_ms), threads=request.threads), request.sessions)
    if found.server.source.bundle or found.client.source.bundle:
        outside = with_bundled(outside, found)
    return analysis, api.Options(
        known=outside.given, sessions=request.sessions, outside=outside, command=request.command
    )


def read_side(store: Store, parts: Parts, scratch: Path) -> Side:
    """One side, from its shards."""
    source, facts = read_shard(store, parts.facts, scratch)
    files = source.files
    if len(files) == len(parts.files):
        files = tuple(dataclasses.replace(file, name=name) for file, name in zip(files, parts.files, strict=True))
    source = dataclasses.replace(source, files=files, name=_title(files))  # the reader of a report knows no shards
    return pipeline.side_of(source, merge([read_shard(store, name, scratch)[1] for name in parts.shards], facts))


def _title(files: Sequence[File]) -> str:
    names = [file.name for file in files]
    return ",".join(names) if len(names) <= _NAMED else f"{names[0]} and {len(names) - 1:,} more files"


def kept_names(names: Sequence[str]) -> dict[str, str]:
    """Where the report of each client is kept: a name for each that all file systems take, and tell apart."""
    found: dict[str, str] = {}
    used: set[str] = set()
    for name in sorted(names):
        plain = "".join(one if one.isalnum() or one in ".-" else "_" for one in name)[:100]
        kept = next(
            one
            for one in itertools.chain([plain], (f"{plain}-{n}" for n in itertools.count(2)))
            if one.casefold() not in used
        )
        used.add(kept.casefold())
        found[name] = f"clients/{kept}.json"
    return found


def _application_ms(of_op: Mapping[str, float], found: Analysis) -> float | None:
    """The mean of what was given for operations, as often as they were done."""
    if "" in of_op:
        return of_op[""]
    ops = {name: found.ops_of.get(name, 0) for name in of_op}
    return sum(of_op[name] * ops[name] for name in of_op) / sum(ops.values()) if any(ops.values()) else None


def compare_client(store: Store, request: Request, windows: Windows, wide: ServerWide | None) -> ClientSummary:
    """The summary of one client; its whole report goes to the store, where that is asked for."""
    if request.client is None:
        with tempfile.TemporaryDirectory(prefix="nfslat-") as scratch:
            side = read_side(store, request.server, Path(scratch))
        # A shard may show what others call, too: where two hosts call each other, or where it is of very many hosts.
        own = Filters(clients=frozenset(request.addresses))
        side = dataclasses.replace(side, reasons=select(side.ops, own, side.ops.t0, side.decoded.first_ns))
        return summarize_server_only(
            side, name=request.name, addresses=request.addresses, groups=request.groups, windows=windows, wide=wide
        )
    found, options = correlate(store, request, wide)
    report = api.Report(found, options)
    if request.kept is not None:
        # Without its pictures, which take as long as all of the rest: --show makes them of the one that is looked at.
        text = io.StringIO()
        report.summary.write_json(text)
        with store.writing(request.kept) as out:
            out.write(text.getvalue().encode())
    return summarize(
        found,
        report.summary,
        name=request.name,
        addresses=request.addresses,
        groups=request.groups,
        windows=windows,
        application_ms=_application_ms(request.application_ms, found),
        report_name=request.kept,
    )
