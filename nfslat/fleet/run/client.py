"""One client's capture, and its part of the server's -> its two-sided report, and a summary to be merged: one task.

The report is that of ``nfslat SERVER CLIENT`` on the same packets, where the server's capture holds no other client. Of
one that holds others it is what those packets of this client say, with the server's threads as all clients used them.
Where one of the two captures is not there, it is that of ``nfslat CAPTURE``: what the other host did is inferred.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from msgspec.structs import asdict

from nfslat import api, pipeline
from nfslat.decode.capture import File, Source
from nfslat.decode.merge import merge
from nfslat.decode.segments import sampled
from nfslat.errors import InputError, NfslatError
from nfslat.evidence.known import Known
from nfslat.evidence.outside import Outside, with_bundled
from nfslat.fleet.compare.summary import ClientSummary, summarize, summarize_server_only
from nfslat.fleet.compare.windows import Windows
from nfslat.fleet.run.capture import CaptureFacts, decode_whole
from nfslat.fleet.run.inputs import Input
from nfslat.inflight.all_clients import ServerWide
from nfslat.match import overlap
from nfslat.model.decoded import Decoded
from nfslat.model.segments import Wanted
from nfslat.results import Analysis, Correlation, Side
from nfslat.select import Filters, select

_NAMED = 3  # files of a capture
_OTHERS = "the server works for other clients, too, and what it did for all of them could not be worked out"
_NO_SERVER = "the server works for other clients, too, and there is no capture of it that shows all of their calls"


@dataclass(frozen=True)
class Half:
    """What the server's capture shows of one client: some of its pairs of hosts, and what is known of it as a whole."""

    source: Source
    facts: Decoded
    parts: tuple[Decoded, ...]

    def side(self) -> Side:
        """The parts as one, with the TCP segments that were kept of them."""
        talks = sorted((talk for part in self.parts for talk in part.segments), key=lambda talk: int(talk.frame[0]))
        return _side_of(self.source, dataclasses.replace(merge(self.parts, self.facts), segments=talks))


def _side_of(source: Source, decoded: Decoded) -> Side:
    return pipeline.side_of(dataclasses.replace(source, name=_title(source.files)), decoded)


@dataclass(frozen=True)
class Request:
    """One client; without `own` where it has no capture, and with `server` None where the server has none."""

    name: str
    addresses: tuple[str, ...]
    own: tuple[Input, ...]  # files of its own capture
    server: Half | None
    windows: Windows
    wide: ServerWide | None = None  # what the server did for all clients; None: nobody else calls it, or not known
    is_shared: bool = False  # others call the server, too
    groups: Mapping[str, str] = field(default_factory=dict)
    application_ms: Mapping[str, float] = field(default_factory=dict)  # by operation; "" for all data ops
    sessions: int | None = None
    threads: int | None = None  # of the server, as its manifest says
    command: str = ""  # that the report says it was made by
    report_name: str | None = None  # under which its whole report is kept; None: none is made


@dataclass(frozen=True)
class ClientDone:
    """What came of a client: its summary, or why there is none."""

    summary: ClientSummary | None
    facts: CaptureFacts | None  # of its own capture
    report: bytes | None = None  # JSON, where it is kept
    report_hash: str = ""
    why: str = ""


class NotInferredError(InputError):
    """The packets of one capture do not tell what the other host did."""


def measure(own: Sequence[Input]) -> CaptureFacts:
    """What a client's capture is like, where windows of time are to be planned that no server's capture gives."""
    return decode_whole("", own)[2]


def compare_client(request: Request) -> ClientDone:
    """The task. Raises ``InputError`` where the client's own files cannot be read."""
    own, facts = None, None
    if request.own:
        # The server's half is inferred from all segments; of two captures a sample tells how late their stamps are.
        wanted = Wanted.ALL if request.server is None else Wanted.SOME
        source, decoded, facts = decode_whole(request.name, request.own, wanted)
        own = _side_of(source, decoded)
    try:
        summary, report = _compared(request, own)
    except NfslatError as problem:
        return ClientDone(None, facts, why=str(problem))
    return ClientDone(summary, facts, report, "" if report is None else hashlib.sha256(report).hexdigest())


def correlate(request: Request, own: Side | None) -> tuple[Analysis, api.Options]:
    """Both sides of a client, compared and analysed; raises ``InputError`` as `nfslat.pipeline.correlate` does, and
    ``NotInferredError``."""
    if request.server is not None and own is not None:
        compared = _both(request.name, request.server, own)
    else:
        compared = _inferred(request, own)
    others = _OTHERS if request.server is not None else _NO_SERVER
    analysis = pipeline.analyse(compared, request.wide, cannot_tell=others if request.is_shared else "")
    outside = Outside(Known(app_ms=dict(request.application_ms), threads=request.threads), request.sessions)
    if compared.server.source.bundle or compared.client.source.bundle:
        outside = with_bundled(outside, compared)
    return analysis, api.Options(
        known=outside.given, sessions=request.sessions, outside=outside, command=request.command
    )


def _compared(request: Request, own: Side | None) -> tuple[ClientSummary, bytes | None]:
    about = request.windows, request.addresses, request.groups
    try:
        analysis, options = correlate(request, own)
    except NotInferredError as problem:
        if request.server is None:
            raise
        side = _only_side(request, own)
        why = problem.why
        return summarize_server_only(side, *about, request.wide, name=request.name, why_not_inferred=why), None
    made = api.Report(analysis, options)
    report = made.judged if request.report_name is None else made.summary
    text = None
    if request.report_name is not None:
        # Without its pictures, which take as long as all of the rest, and not indented, which takes half of that.
        text = json.dumps(report, default=asdict, allow_nan=False, separators=(",", ":")).encode()
    known: dict[str, Any] = {"name": request.name, "report": request.report_name}
    known["application_ms"] = _application_ms(request.application_ms, analysis)
    return summarize(analysis, report, *about, **known), text


def _both(name: str, half: Half, own: Side) -> Correlation:
    server = half.side()
    server.decoded.segments[:] = sampled(server.decoded.segments)
    compared = pipeline.compare(server, own, filters=Filters(), srt="nfslat", may_swap=False)
    if overlap.where_longer(compared.server.ops, compared.client.ops, compared.matched) is overlap.Longer.AT_SERVER:
        raise InputError(
            "its ops take longer in the server's capture than in its own; one of the files is on the "
            "wrong side: say in a manifest which files are whose",
            about=name,
        )
    return compared


def _inferred(request: Request, own: Side | None) -> Correlation:
    """What there is one capture of, with what its packets tell of the other host."""
    side = _only_side(request, own)
    if not any(ends.transport == "tcp" for ends in side.ops.connections):
        raise NotInferredError(
            "it uses NFS over UDP, in whose packets there is no clock of the other host", request.name
        )
    if not side.decoded.segments:
        raise NotInferredError("its TCP connections have too many packets to be kept (67,108,864)", request.name)
    compared = pipeline.infer_other(side, filters=Filters(), srt="nfslat")
    if isinstance(compared, str):
        raise NotInferredError(compared, request.name)
    return compared


def _only_side(request: Request, own: Side | None) -> Side:
    """The only one of which there is a capture, as far as it is of this client."""
    if own is not None:
        return own
    if request.server is None:
        raise InputError("there is no capture of it", about=request.name)
    side = request.server.side()
    # A part may show what others call, too: where two hosts call each other, or where it is of very many hosts.
    mine = Filters(clients=frozenset(request.addresses))
    return dataclasses.replace(side, reasons=select(side.ops, mine, side.ops.t0, side.decoded.first_ns))


def _title(files: Sequence[File]) -> str:
    names = [file.name for file in files]
    return ",".join(names) if len(names) <= _NAMED else f"{names[0]} and {len(names) - 1:,} more files"


def _application_ms(of_op: Mapping[str, float], analysis: Analysis) -> float | None:
    """The mean of what was given for operations, as often as they were done."""
    if "" in of_op:
        return of_op[""]
    ops = {name: analysis.ops_of.get(name, 0) for name in of_op}
    return sum(of_op[name] * ops[name] for name in of_op) / sum(ops.values()) if any(ops.values()) else None
