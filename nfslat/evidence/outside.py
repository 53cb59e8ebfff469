"""Options and files of evidence -> what is known from outside the captures (`nfslat.evidence.known.Known`)."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby
from typing import TYPE_CHECKING, NamedTuple

from msgspec import structs

from nfslat.decode.capture import Bundle
from nfslat.errors import InputError, UsageError
from nfslat.evidence.known import LEAST_IN_A_ROW, Known, data_bytes, data_ops, data_rows, rate_per_s
from nfslat.inflight.little import little_ms
from nfslat.model.protocol import DATA_OPS
from nfslat.model.record import Record
from nfslat.model.tables import hosts
from nfslat.model.units import to_ms
from nfslat.results import Analysis, Correlation

if TYPE_CHECKING:
    from nfslat.evidence.records import Evidence, Interval, Latency, Snapshot

    _Host = tuple[Snapshot | None, Interval | None]  # the last snapshot of it, and what was between two

# Which field of `Known` a layer of evidence fills; what the client's kernel says is the application's figure where no
# other is.
_FIELDS = (
    ("application", "app_ms"),
    ("client", "app_ms"),
    ("slot wait", "slot_wait_ms"),
    ("server thread", "thread_ms"),
    ("storage", "storage_ms"),
)
LEAST_BLOCK = 2048  # bytes of a block of a database
_LAYERS = {layer for layer, _ in _FIELDS}
NOT_USED = "not used: "  # what begins so is in every report
_APART = 2.0  # times; so far apart are not the same requests


class Outside(Record):
    """What was read before the captures were; `known` puts it beside them."""

    given: Known
    sessions: int | None = None
    sources: tuple[Sequence[Latency], ...] = ()  # of each file, and of each mount of a client
    dated: tuple[Evidence, ...] = ()  # files that say when and where they were measured
    intervals: tuple[tuple[str, Interval], ...] = ()  # of the server, of the client, between two snapshots
    joined: tuple[Evidence, ...] = ()  # files on single operations
    unused: tuple[str, ...] = ()  # what is of no use, a sentence each
    notes: tuple[str, ...] = ()

    def known(self, c: Analysis) -> tuple[Known, tuple[str, ...]]:
        """What is known of these captures, and what the reader has to know of it: first what is of no use.

        Traces are joined by XID; mounts of other servers are left out; sessions become the application's latency by
        Little's law, where it is not known.
        """
        known, unused, notes = self.given, list(self.unused), list(self.notes)
        if self.joined:
            from nfslat.evidence import by_operation  # noqa: PLC0415

            known, said, of_no_use = by_operation.join(known, self.joined, c)
            unused += of_no_use
            notes += said
        if known.client_host is not None:
            knob = "nfs.max_session_slots" if c.inflight.sessions else "sunrpc.tcp_max_slot_table_entries"
            known = known.with_limit("slots", known.client_host.setting(knob), known.client_host.name)
        sources: list[Sequence[Latency]] = [_of_ops(one, known, c, unused) for one in self.sources if one]
        sources = [one for one in sources if one]
        states = [host for host in (known.server_host, known.client_host) if host is not None and host.sockets]
        if self.dated or self.intervals or states:
            from nfslat.evidence import dated  # noqa: PLC0415

            known, of_time, of_no_use, remarks = dated.judge(self.dated, self.intervals, c, known)
            sources = [*of_time, *sources]
            unused += of_no_use
            notes += remarks
        foreign = [one for one in sources if _is_foreign(one, c)]
        known = _with_latencies(known, [one for one in sources if one not in foreign], c)
        unused += _not_used(sources, foreign, known, c)
        if self.sessions is not None and not known.app_ms:
            per_s = rate_per_s(c, data_ops(c))
            if per_s:
                source = f"{self.sessions} sessions / {per_s:.4g} per s"
                known = known.having("app_ms", {"": little_ms(self.sessions, per_s)}, source)
                notes.append(
                    f"the application's time is inferred from {self.sessions} sessions: it is too long if they are not "
                    "all waiting for an answer all the time"
                )
        if known.app_ms:
            from nfslat.evidence import in_a_row  # noqa: PLC0415

            known = in_a_row.with_sums(known, c, has_one_slot=_has_one_slot(known, c))
        return known, tuple(dict.fromkeys([*(f"{NOT_USED}{each}" for each in unused), *notes]))


class Files(NamedTuple):
    """Names of the files of evidence, as they were given."""

    evidence: Sequence[str] = ()
    server_snapshots: Sequence[str] = ()
    client_snapshots: Sequence[str] = ()


def gather(given: Known, sessions: int | None, files: Files) -> Outside:
    """Read all files; what the user gave as a figure counts before what a file says.

    Raises ``InputError`` for a file that cannot be read, ``UsageError`` for more than two snapshots of a host.
    """
    notes: list[str] = []
    sources: list[Sequence[Latency]] = []
    dated: list[Evidence] = []
    joined: list[Evidence] = []
    if not (files.evidence or files.server_snapshots or files.client_snapshots):
        return Outside(given, sessions)
    # Late, here and below: usual runs read no evidence.
    from nfslat.evidence import by_operation, read  # noqa: PLC0415
    from nfslat.evidence.dated import is_dated  # noqa: PLC0415

    for path in files.evidence:
        found = read.read(path)
        if is_dated(found):
            dated.append(found)
            continue
        notes += [f"{found.name}: {note}" for note in found.notes]
        joined += [found] if by_operation.is_joined(found) else []
        sources += _by_mount(found.latencies) if by_operation.has_means(found) else []
    taken: dict[str, list[str]] = {}
    for side, paths in (("server", files.server_snapshots), ("client", files.client_snapshots)):
        recorded = [path for path in paths if read.is_recording(path)]
        taken[side] = [path for path in paths if path not in recorded]
        dated += [structs.replace(read.read(path), side=side) for path in recorded]
    server, of_server = _host("--server-snapshot", taken["server"])
    client, of_client = _host("--client-snapshot", taken["client"])
    return _with_hosts(
        Outside(given, sessions, tuple(sources), tuple(dated), joined=tuple(joined), notes=tuple(notes)),
        (server, of_server),
        (client, of_client),
    )


def with_bundled(outside: Outside, c: Correlation) -> Outside:
    """`outside`, and the snapshots that came with the captures; what the user gave of a host counts before them.

    Nobody asked for them by name, so a note says where a snapshot is of no use, and that is all.
    """
    given, notes = outside.given, list(outside.notes)
    server = (None, None) if given.server_host is not None else _bundled(c.server.source.bundle, notes)
    client = (None, None) if given.client_host is not None else _bundled(c.client.source.bundle, notes)
    return _with_hosts(structs.replace(outside, notes=tuple(notes)), server, client)


def _with_hosts(outside: Outside, server_host: _Host, client_host: _Host) -> Outside:
    known, unused, notes = outside.given, list(outside.unused), list(outside.notes)
    sources = list(outside.sources)
    told = (("server", server_host[1]), ("client", client_host[1]))
    intervals = (*outside.intervals, *((side, each) for side, each in told if each is not None))
    (server, of_server), (client, of_client) = server_host, client_host
    if server is not None:
        known = structs.replace(known, server_host=server)
        known = known.with_limit("threads", server.threads, server.name)
        if server.threads is None and not server.pools:
            unused.append(f"{server.name}: nothing of an NFS server in it that is of use here")
    if of_server is not None:
        notes += of_server.notes
        from nfslat.evidence.interval import woken_share  # noqa: PLC0415

        known = structs.replace(known, woken_share=woken_share(of_server.pools))
    if client is not None:
        known = structs.replace(known, client_host=client)
        if not client.mounts and not client.settings:
            unused.append(f"{client.name}: nothing of an NFS client in it that is of use here")
    if of_client is not None:
        notes += of_client.notes
        sources += _by_mount(of_client.latencies)
    again = [each.resent_share for each in dict(intervals).values() if each.resent_share is not None]
    if len(again) == len(told):  # of one host: in one direction alone
        known = structs.replace(known, resent_share=max(again))
    return structs.replace(
        outside, given=known, sources=tuple(sources), intervals=intervals, unused=tuple(unused), notes=tuple(notes)
    )


def _host(option: str, paths: Sequence[str]) -> _Host:
    if len(paths) > 2:
        raise UsageError(f"{option}: give one snapshot, or two of one host: before and after")
    from nfslat.evidence import snapshot  # noqa: PLC0415

    return _between([snapshot.read(path) for path in paths])


def _bundled(bundle: Bundle | None, notes: list[str]) -> _Host:
    if bundle is None or not bundle.snapshots:
        return None, None
    from nfslat.evidence import snapshot  # noqa: PLC0415

    taken = []
    for name, text in bundle.snapshots.items():
        try:
            taken.append(snapshot.parse(name, text))
        except InputError as problem:
            notes.append(str(problem))
    try:
        return _between(taken)
    except InputError as problem:
        notes.append(str(problem))
        return taken[-1], None


def _between(taken: Sequence[Snapshot]) -> _Host:
    from nfslat.evidence import interval  # noqa: PLC0415

    return taken[-1] if taken else None, interval.difference(*taken) if len(taken) == 2 else None


def _with_latencies(known: Known, sources: Sequence[Sequence[Latency]], c: Analysis) -> Known:
    """The first figure that each source has for a layer and operation, and the mean over the sources.

    A field that has values already is left as it is.
    """
    kept = [_of_these(source, c) for source in sources]
    for layer, name in _FIELDS:
        by_op: dict[str, list[Latency]] = {}
        for source in kept:
            seen: set[str] = set()
            for one in source:
                if one.layer == layer and one.op not in seen:
                    seen.add(one.op)
                    by_op.setdefault(one.op, []).append(one)
        # Reads and writes by themselves say more than both together.
        named = {op: found for op, found in by_op.items() if op in DATA_OPS} or by_op
        if named:
            every = [one for found in named.values() for one in found]
            names = ", ".join(dict.fromkeys(map(_name, every)))
            if not getattr(known, name) and any(one.since_mount for one in every):
                known = structs.replace(known, since_mount=known.since_mount | {name})
            known = known.having(name, {op: _mean_ms(found, c) for op, found in named.items()}, names)
    return known


def _by_mount(latencies: Sequence[Latency]) -> list[Sequence[Latency]]:
    """The latencies of each mount by themselves, where a file is of a client's mounts."""
    if not any(latency.layer == "client wire" for latency in latencies):
        return [latencies]
    return [list(each) for _, each in groupby(latencies, key=lambda latency: latency.source)]


def _of_ops(source: Sequence[Latency], known: Known, c: Analysis, unused: list[str]) -> Sequence[Latency]:
    """Waits that are several ops in a row, as what each of these takes with its part of the time between them.

    Where the client has one slot, they may be what it holds back, and stay as they are. Waits that are larger than an
    op, and joined with none, are left out: how many of their ops were under way at once is not known.
    """
    has_one_slot = _has_one_slot(known, c)
    waits = {f"{call.source}, {call.call}": call for call in known.calls}
    kept = []
    for latency in source:
        joined = waits.get(latency.source) if latency.layer == "application" else None
        if joined is None and latency.blocks and latency.op in c.ops_of and not known.calls:
            size = data_bytes(c, c.rows_of([latency.op]))
            if size and latency.blocks * LEAST_BLOCK >= LEAST_IN_A_ROW * size:
                unused.append(
                    f"{latency.source}: a wait of {latency.blocks:.1f} blocks is several {latency.op}s of "
                    f"{size / 1024:.3g} KB, and how many of them were in flight at once is not known: no wait is "
                    "joined with operations"
                )
                continue
        if joined is None or joined.pieces is None or not joined.pieces.is_in_a_row or has_one_slot:
            kept.append(latency)
            continue
        ops = joined.pieces.ops
        count = None if latency.count is None else round(latency.count * ops)
        wire_ms = (joined.network_ms + joined.server_ms) / ops
        kept.append(structs.replace(latency, mean_ms=joined.total_ms / ops, wire_ms=wire_ms, count=count, ops=ops))
    return kept


def _has_one_slot(known: Known, c: Analysis) -> bool:
    return known.slots == 1 or any(session.limit == 1 for session in c.inflight.sessions if not session.callbacks)


def _of_these(source: Sequence[Latency], c: Analysis) -> list[Latency]:
    """What is of operations of the captures, and of a mount of their server.

    Reads and writes together count where those that the source names are in the captures, too.
    """
    servers = hosts(c.client.ops.connections)
    here = c.ops_of.keys() & ({latency.op for latency in source}.intersection(DATA_OPS) or DATA_OPS)
    return [
        latency
        for latency in source
        if (latency.op in c.ops_of or (not latency.op and (bool(here) or latency.layer == "storage")))
        and (not latency.server or latency.server in servers)
    ]


def _not_used(
    sources: Sequence[Sequence[Latency]], foreign: Sequence[Sequence[Latency]], known: Known, c: Analysis
) -> list[str]:
    """Why figures are of no use, for each source; mounts of other servers are many, and no news beside one of these."""
    servers = hosts(c.client.ops.connections)
    used = ", ".join(known.sources.values())
    unused, elsewhere = [], []
    for source in sources:
        name = source[0].source
        if any(latency.source in used for latency in source) or not {each.layer for each in source} & _LAYERS:
            continue
        if source in foreign:
            why = "takes other times on the wire than the captures show, so it is of another time or host"
            unused.append(f"{name}: {why}; it is left out")
        elif source[0].server and source[0].server not in servers:
            elsewhere.append(f"{name} of {source[0].server}")
        elif not _of_these(source, c):
            ops = " and ".join(dict.fromkeys(latency.op for latency in source if latency.op)) or "reads and writes"
            unused.append(f"{name}: what it says is of {ops}, and these captures have no such operations")
        else:
            unused.append(f"{name}: what it says is given already")
    if elsewhere and not any(source[0].server in servers for source in sources if source[0].server):
        unused.append(f"{', '.join(elsewhere)}: no mount of a server that is in the captures")
    return unused


def _name(latency: Latency) -> str:
    """``10046 trace ora.trc, db file scattered read / 16.0``."""
    return latency.source if latency.ops is None else f"{latency.source} / {latency.ops:.1f}"


def _mean_ms(found: Sequence[Latency], c: Analysis) -> float:
    """Over all requests; where a source does not tell how many there were, of the first alone."""
    means = [one.mean_ms if one.wire_ms is None else one.mean_ms - one.wire_ms + _srt_ms(one.op, c) for one in found]
    counts = [one.count for one in found if one.count]
    if len(counts) < len(found):
        return means[0]
    return sum(mean * count for mean, count in zip(means, counts, strict=True)) / sum(counts)


def _srt_ms(op: str, c: Analysis) -> float:
    """Mean of an operation on the client's wire; "": of reads and writes."""
    rows = c.rows_of([op]) if op else data_rows(c)
    return float(to_ms(c.client_srt_ns[rows].mean()))


def _is_foreign(source: Sequence[Latency], c: Analysis) -> bool:
    """Does a client's kernel say times from sending to answer that are not those on its wire?

    Those of reads and writes tell; of other operations only where there are neither.
    """
    here = [one for one in source if one.layer == "client wire" and one.op in c.ops_of]
    for one in [one for one in here if one.op in DATA_OPS] or here:
        srt_ms = _srt_ms(one.op, c)
        if not srt_ms / _APART <= one.mean_ms <= srt_ms * _APART + 1:
            return True
    return False
