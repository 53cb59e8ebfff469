"""One client's shards, of its own capture and of the server's -> its two-sided report, and a summary to be merged.

The report is that of ``nfslat SERVER CLIENT`` on the same packets, where the server's capture holds no other client. Of
one that holds others it is what those packets of this client say, with the server's threads as all clients used them.
Where one of the two captures is not there, it is that of ``nfslat CAPTURE``: what the other host did is inferred.
"""

from __future__ import annotations

import dataclasses
import io
import itertools
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
from nfslat.fleet.run.kept_segments import read_segments
from nfslat.fleet.run.server_threads import Shares
from nfslat.fleet.run.shards import read_facts, read_shard
from nfslat.fleet.run.store import Store
from nfslat.inflight.all_clients import ServerWide
from nfslat.match import overlap
from nfslat.results import Analysis, Correlation, Side
from nfslat.select import Filters, select

_NAMED = 3  # files of a capture
_OTHERS = "the server works for other clients, too, and what it did for all of them could not be worked out"
_NO_SERVER = "the server works for other clients, too, and there is no capture of it that shows all of their calls"


@dataclass(frozen=True)
class Parts:
    """Names in the store: what there is of one capture point for one client."""

    shards: tuple[str, ...]
    facts: str
    files: tuple[str, ...] = ()  # the captures, as they are called now; they may have been moved
    segments: tuple[str, ...] = ()  # of the shards, where something is to be inferred


@dataclass(frozen=True)
class Request:
    """One client; `client` None where it has no capture of its own, `server` where the server has none."""

    name: str
    addresses: tuple[str, ...]
    server: Parts | None
    client: Parts | None
    groups: Mapping[str, str] = field(default_factory=dict)
    application_ms: Mapping[str, float] = field(default_factory=dict)  # by operation; "" for all data ops
    sessions: int | None = None
    threads: int | None = None  # of the server, as its manifest says
    is_shared: bool = False  # others call the server, too
    command: str = ""  # that the report says it was made by
    kept: str | None = None  # name for the report (JSON) in the store


class NotInferredError(InputError):
    """The packets of one capture do not tell what the other host did."""


def correlate(store: Store, request: Request, wide: ServerWide | None) -> tuple[Analysis, api.Options]:
    """Both sides of a client, compared and analysed; raises ``InputError`` as `nfslat.pipeline.correlate` does, and
    ``NotInferredError``.

    `wide` is None where nobody else calls the server, or where it could not be worked out.
    """
    with store.scratch() as scratch:
        if request.server is not None and request.client is not None:
            found = _both(store, request, request.server, request.client, scratch)
        else:
            found = _inferred(store, request, scratch)
    others = _OTHERS if request.server is not None else _NO_SERVER
    analysis = pipeline.analyse(found, wide, cannot_tell=others if request.is_shared else "")
    outside = Outside(Known(app_ms=dict(request.application_ms), threads=request.threads), request.sessions)
    if found.server.source.bundle or found.client.source.bundle:
        outside = with_bundled(outside, found)
    return analysis, api.Options(
        known=outside.given, sessions=request.sessions, outside=outside, command=request.command
    )


def _both(store: Store, request: Request, server: Parts, client: Parts, scratch: Path) -> Correlation:
    one, two = (read_side(store, parts, scratch) for parts in (server, client))
    found = pipeline.compare(one, two, filters=Filters(), srt="nfslat", may_swap=False)
    if overlap.where_longer(found.server.ops, found.client.ops, found.matched) is overlap.Longer.AT_SERVER:
        raise InputError(
            "its ops take longer in the server's capture than in its own; one of the files is on the "
            "wrong side: say in a manifest which files are whose",
            about=request.name,
        )
    return found


def _inferred(store: Store, request: Request, scratch: Path) -> Correlation:
    """What there is one capture of, with what its packets tell of the other host."""
    side = _one_side(store, request, scratch)
    side.decoded.segments.extend(
        talk for parts in (request.server, request.client) if parts for name in parts.segments
        for talk in read_segments(store, name, scratch)
    )  # fmt: skip
    if not any(ends.transport == "tcp" for ends in side.ops.connections):
        raise NotInferredError(
            "it uses NFS over UDP, in whose packets there is no clock of the other host", request.name
        )
    if not side.decoded.segments:
        raise NotInferredError("its TCP connections have too many packets to be kept (67,108,864)", request.name)
    found = pipeline.infer_other(side, filters=Filters(), srt="nfslat")
    if isinstance(found, str):
        raise NotInferredError(found, request.name)
    return found


def _one_side(store: Store, request: Request, scratch: Path) -> Side:
    """The only one of which there is a capture, as far as it is of this client."""
    parts = request.client or request.server
    if parts is None:
        raise InputError("there is no capture of it", about=request.name)
    side = read_side(store, parts, scratch)
    # A shard may show what others call, too: where two hosts call each other, or where it is of very many hosts.
    own = Filters(clients=frozenset() if request.client else frozenset(request.addresses))
    return dataclasses.replace(side, reasons=select(side.ops, own, side.ops.t0, side.decoded.first_ns))


def read_side(store: Store, parts: Parts, scratch: Path) -> Side:
    """One side, from its shards."""
    source, facts = read_facts(store, parts.facts)
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


def compare_client(
    store: Store, request: Request, windows: Windows, shares: Shares | None = None, rows: Sequence[int] = ()
) -> ClientSummary:
    """The summary of one client; its whole report goes to the store, where that is asked for. `rows` are the numbers of
    its shards in `shares`, which is None where nobody else calls the server, or where they are not known.
    """
    wide = None if shares is None else shares.of_client(store, rows)
    try:
        found, options = correlate(store, request, wide)
    except NotInferredError as problem:
        if request.server is None:
            raise
        with store.scratch() as scratch:
            side = _one_side(store, request, scratch)
        return summarize_server_only(
            side, name=request.name, addresses=request.addresses, groups=request.groups, windows=windows, wide=wide,
            why=problem.why,
        )  # fmt: skip
    made = api.Report(found, options)
    report = made.judged if request.kept is None else made.summary
    if request.kept is not None:
        # Without its pictures, which take as long as all of the rest: --show makes them of the one that is looked at.
        text = io.StringIO()
        report.write_json(text)
        with store.writing(request.kept) as out:
            out.write(text.getvalue().encode())
    return summarize(
        found,
        report,
        name=request.name,
        addresses=request.addresses,
        groups=request.groups,
        windows=windows,
        application_ms=_application_ms(request.application_ms, found),
        report_name=request.kept,
    )
