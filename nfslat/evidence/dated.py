"""Evidence that says when and where it was measured, and the captures -> whether it is of their time and host."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import fields, replace

import numpy as np

from nfslat.evidence.host_samples import Asked, Meanwhile, latencies, meanwhile, whole
from nfslat.evidence.host_statistics import HostStatistics
from nfslat.evidence.known import Known
from nfslat.evidence.records import Database, DatabaseReport, Evidence, HostLoad, Interval, Latency, Snapshot
from nfslat.evidence.sockets import of_connections
from nfslat.evidence.when import Fit
from nfslat.model.protocol import NULL32
from nfslat.model.tables import UNSTABLE_WRITE
from nfslat.results import Analysis
from nfslat.select import op_labels

_NFS_PORT = 2049
_MOST_SOCKETS = 8  # lines
_UNSTABLE = 0.1  # of the WRITEs
_INSTANCES = "is of several instances, and no snapshot of the client says which of their hosts it is"
_CUT = 12  # characters of the narrowest column with names of hosts


def judge(
    dated: Sequence[Evidence], intervals: Sequence[tuple[str, Interval]], c: Analysis, known: Known
) -> tuple[Known, list[Sequence[Latency]], list[str], list[str]]:
    """What is known with what is of the captures' time and host, or may be; the latencies of each file; why others are
    left out, as measured at another time than the captures, or on another host than it ought to be; and notes."""
    kept: list[tuple[Evidence, Fit]] = []
    unused: list[str] = []
    notes: list[str] = []
    sources: list[Sequence[Latency]] = []
    loads: dict[str, HostLoad] = {}
    for host in (known.client_host, known.server_host):
        if host is not None and host.sockets:
            said = of_connections(host.sockets, c.client.ops.connections, _clients(c))
            notes += [f"{host.name}: {each}" for each in said[:_MOST_SOCKETS]]
    for side, between in intervals:
        notes += _of_interval(side, between, c, sources, loads)
    for one in dated:
        if one.kind == "ss":
            said = of_connections(one.record, c.client.ops.connections, _clients(c))
            notes += [f"{one.name}: {each}" for each in said[:_MOST_SOCKETS]]
            unused += [] if said else [f"{one.name}: none of its connections is in the captures"]
        elif isinstance(one.record, HostStatistics):
            if why := _of_host(one, one.record, c, known, (sources, loads, notes)):
                unused.append(f"{one.name}: {why}; it is left out")
        else:
            here = _of_instance(one, known.client_host)
            fit, why = _fits(here, _captured_ns(c, "client"), known.client_host) if here else (Fit.NOT, _INSTANCES)
            if here is None or fit is Fit.NOT:
                unused.append(f"{one.name}: {why}; it is left out")
            else:
                kept.append((here, fit))
    notes += [f"{one.name}: {note}" for one, _ in kept for note in one.notes]
    sources = [*(one.latencies for one, _ in kept if one.latencies), *sources]
    known = replace(known, database=_database(kept), loads={**known.loads, **loads})
    return known, sources, unused, notes


def is_dated(evidence: Evidence) -> bool:
    """Is it judged by when and where it was measured?"""
    report = evidence.record
    has_time = isinstance(report, DatabaseReport) and (report.time is not None or bool(report.instances))
    return evidence.span is not None or has_time or evidence.kind in ("host statistics", "ss")


def _captured_ns(c: Analysis, side: str) -> tuple[int, int] | None:
    """When, by the clock of that host; where it was inferred, by that of the other one."""
    if c.inferred is not None:
        side = "server" if c.inferred.side == "client" else "client"
    ops = c.server.ops if side == "server" else c.client.ops
    return (int(ops.t0.min()), int(ops.t3.max())) if len(ops) else None


def _of_host(
    one: Evidence,
    stats: HostStatistics,
    c: Analysis,
    known: Known,
    out: tuple[list[Sequence[Latency]], dict[str, HostLoad], list[str]],
) -> str:
    """Put into `out` what samples of a host say of the captures' time; the answer is why they say nothing."""
    by_side = {"server": known.server_host, "client": known.client_host}
    named = {side: host for side, host in by_side.items() if host is not None and host.hostname}
    side = one.side or next((name for name, host in named.items() if _same(host.hostname, one.host)), "")
    if one.side and one.host and one.side in named and not _same(named[one.side].hostname, one.host):
        return f"is of another host than the {one.side}'s snapshot"
    if not side:
        return (
            "whose it is is not known, as no snapshot has the name of its host: give it with --server-snapshot or "
            "--client-snapshot"
        )
    captured = _captured_ns(c, side)
    if captured is None:
        return "there are no operations to put it beside"
    host = by_side[side]
    source = f"{'/'.join(dict.fromkeys(each.tool for each in stats.samples))} {one.name}"
    zone, cpus = (None, None) if host is None else (host.zone_min, host.cpus)
    found = meanwhile(stats, captured, zone, cpus, source)
    sources, loads, notes = out
    if found.why:
        return found.why
    notes += [f"{one.name}: {note}" for note in one.notes]
    if found.load is not None:
        loads[side] = _merged(loads[side], found.load) if side in loads else found.load
    if side == "server" and found.disks:
        kept, said = latencies(found, _asked(c), source)
        sources += [kept] if kept else []
        notes += said
    return ""


def _of_interval(
    side: str, between: Interval, c: Analysis, sources: list[Sequence[Latency]], loads: dict[str, HostLoad]
) -> list[str]:
    """Of the counters of its kernel between two snapshots, where these are about as long as the captures."""
    captured = _captured_ns(c, side)
    if between.span is None or between.load is None or captured is None:
        return []
    if not between.span.is_about(*captured):
        return [
            f"{between.load.source}: were not taken just before and after the captures, so that what the {side}'s "
            "processors and disks did meanwhile is not known"
        ]
    loads[side] = between.load
    if side != "server" or not between.disks:
        return []
    found = Meanwhile(None, tuple(whole(between.disks)), covered=1.0)
    kept, notes = latencies(found, _asked(c), f"diskstats of {between.load.source}")
    sources += [kept] if kept else []
    return notes


def _merged(one: HostLoad, other: HostLoad) -> HostLoad:
    """Of two tools: what the first does not tell the second may."""
    told = {each.name: getattr(one, each.name) for each in fields(one) if getattr(one, each.name) is not None}
    return replace(other, **told | {"source": f"{one.source}, {other.source}"})


def _asked(c: Analysis) -> dict[str, Asked]:
    """READs and WRITEs of the server's capture, but WRITEs that may stay in memory."""
    ops = c.server.ops if c.inferred is None else c.client.ops
    labels = op_labels(ops.kinds)
    found = {}
    for op in ("READ", "WRITE"):
        mine = (
            np.array([label == op for label in labels], dtype=np.bool_)[ops.kind] if labels else np.zeros(0, np.bool_)
        )
        rows = np.flatnonzero(mine)
        if not len(rows) or (
            op == "WRITE" and np.count_nonzero(ops.flags[rows] & UNSTABLE_WRITE) > _UNSTABLE * len(rows)
        ):
            continue
        sizes = ops.size[rows]
        found[op] = Asked(len(rows), float(sizes[sizes != NULL32].sum()) / 1024)
    return found


def _clients(c: Analysis) -> set[str]:
    """Addresses of those who call; the server's port is 2049, or else the lower one."""
    found = set()
    for ends in c.client.ops.connections:
        a_serves = ends.port_a == _NFS_PORT or (ends.port_b != _NFS_PORT and ends.port_a < ends.port_b)
        found.add(ends.addr_b if a_serves else ends.addr_a)
    return found


def _fits(found: Evidence, captured_ns: tuple[int, int] | None, host: Snapshot | None) -> tuple[Fit, str]:
    """Whether it may be judged beside the captures, on whose `host` it ought to be; why not."""
    named = "" if host is None else host.hostname
    is_of_host = bool(named and found.host)
    if is_of_host and not _same(named, found.host):
        return Fit.NOT, "is of another host than the client's snapshot"
    if found.span is None or captured_ns is None:
        return Fit.OPEN, ""
    fit = found.span.fits(*captured_ns, host.zone_min if host is not None and is_of_host else None)
    if fit is Fit.NOT:
        return fit, f"was measured from {found.span}, which is not when the captures ran"
    return (fit if is_of_host else Fit.OPEN), ""


def _of_instance(one: Evidence, host: Snapshot | None) -> Evidence | None:
    """A report of several instances as if it were that of the one on the client; None where it is not known which."""
    report = one.record
    if not isinstance(report, DatabaseReport) or not report.instances:
        return one
    here = [each for each in report.instances if host is not None and host.hostname and _same(each.host, host.hostname)]
    if len(here) != 1:
        return None
    return replace(one, record=replace(report, time=here[0]), span=here[0].span, host=here[0].host)


def _database(found: Sequence[tuple[Evidence, Fit]]) -> Database | None:
    """The database time of the first report that has one, with the samples of its interval."""
    for one, fit in found:
        report = one.record
        if not isinstance(report, DatabaseReport) or report.time is None:
            continue
        shares = (
            other.record.on_cpu_percent / 100
            for other, _ in found
            if isinstance(other.record, DatabaseReport)
            and other.record.on_cpu_percent is not None
            and _within(other, one)
        )
        return Database(report.time, f"{report.source} {one.name}", fit is Fit.SURE, next(shares, None))
    return None


def _within(ash: Evidence, awr: Evidence) -> bool:
    """Of one host, by one clock."""
    if ash.span is None or awr.span is None or not _same(ash.host, awr.host):
        return False
    return awr.span.begin <= ash.span.begin and ash.span.end <= awr.span.end


def _same(one: str, other: str) -> bool:
    """Two names of a host: with a domain or without, and as a column of 12 or 16 characters cuts it."""
    short, long = sorted((name.partition(".")[0].casefold() for name in (one, other)), key=len)
    return short == long or (len(short) >= _CUT and long.startswith(short))
