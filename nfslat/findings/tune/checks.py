"""Hosts, clients and servers together -> what to change, the most urgent first, and what to know about them."""

from __future__ import annotations

from collections.abc import Sequence

from nfslat.answer.tune import Change, HostLine, Remark, Row, Tuning
from nfslat.evidence.records import Snapshot
from nfslat.findings.tune import advice, remarks
from nfslat.findings.tune.hosts import (
    Host,
    Use,
    hosts_of,
    in_flight,
    is_served_by,
    lacks_threads,
    needed_in_flight,
    uses_of,
    wait_for_slots,
    woken_share,
)
from nfslat.findings.tune.knobs import MOST_SLOTS, count_of, has_fixed_slots
from nfslat.findings.tune.rows import misspelt, rows_of

_FEW_SLOTS = 16  # the old fixed table; a database has more requests at once
_FEW_THREADS = {"SunOS": 64, "AIX": 64}  # Solaris 10 starts 16, newer ones 1024 (facts solaris-threads, solaris-case)
_FEW_LINUX_THREADS = 8  # fewer than any default (fact threads-default)


def check(snapshots: Sequence[Snapshot]) -> Tuning:
    """All that the snapshots tell. They may be of clients, servers and both, and two may be of one host."""
    hosts, notes = hosts_of(snapshots)
    uses = [use for host in hosts for use in uses_of(host)]
    changes: list[Change] = []
    known: list[Remark] = []
    rows: list[Row] = []
    for host in hosts:
        own = [use for use in uses if use.client is host]
        rows += rows_of(host, own)
        changes += [*_thread_changes(host, _of_server(uses, host, hosts)), *_tcp_changes(host), *_misspelt(host)]
        known += remarks.of_configuration(host)
    raised = _slot_changes(uses)
    changes += raised
    for host in hosts:
        if host.threads is not None:
            served = _of_server(uses, host, hosts)
            known += [*remarks.of_capacity(host, served, raised), *remarks.of_free_threads(host)]
            known += remarks.of_connections(host)
    for use in uses:
        known += remarks.of_mounts(use, next((host for host in hosts if use in _of_server(uses, host, hosts)), None))
    return Tuning(
        hosts=tuple(_line(host) for host in hosts),
        changes=tuple(sorted(changes, key=lambda change: -change.weight)),
        remarks=tuple(known),
        rows=tuple(rows),
        warnings=(*notes, *(f"{host.name}: {text}" for host in hosts for text in host.snapshot.warnings)),
    )


def _line(host: Host) -> HostLine:
    snapshot = host.snapshot
    system = " ".join(filter(None, (snapshot.system, snapshot.release)))
    system = ", ".join(filter(None, (system, snapshot.distribution)))
    return HostLine(host.name, host.roles, system, snapshot.taken, host.interval)


def _of_server(uses: Sequence[Use], server: Host, hosts: Sequence[Host]) -> list[Use]:
    """The uses of this server. The only server among the hosts is taken for theirs where it does not tell addresses."""
    if server.threads is None:
        return []
    alone = sum(host.threads is not None for host in hosts) == 1 and not server.snapshot.addresses
    return [use for use in uses if is_served_by(use, server) or (alone and use.client is not server)]


def _thread_changes(server: Host, uses: Sequence[Use]) -> list[Change]:
    if server.threads is None:
        return []
    threads, system = server.threads, server.snapshot.system
    share = woken_share(server)
    why = [f"The server works on {count_of(threads, 'call')} at once; the others wait in its queue."]
    measured = lacks_threads(server)
    if share is not None and measured:
        why.append(
            f"Measured {server.since('nfsd was started')}: {share:.2f} threads woken for each socket that was"
            " queued (pool_stats); with threads to spare it is about 1."
        )
    few = _FEW_LINUX_THREADS if system in ("", "Linux") else _FEW_THREADS.get(system, 0)
    if system == "FreeBSD":
        few = 8 * (server.snapshot.cpus or 1)
    if not measured and threads >= few:
        return []
    most = in_flight(uses)
    if most is not None and most <= threads and not measured:
        return []
    if most is not None and threads < most < MOST_SLOTS:
        why.append(f"The clients given may send {most} at once.")
    return [
        Change(
            host=server.name,
            measured=measured,
            why=tuple(why),
            advice=advice.threads(server.snapshot, threads, None),
            weight=2 - (share or 0) if measured else 0.8,
        )
    ]


def _slot_changes(uses: Sequence[Use]) -> list[Change]:
    """One for each client and knob: the use that waits longest speaks for the others."""
    found: dict[tuple[str, str], Change] = {}
    for use in uses:
        change = _slot_change(use)
        if change is None:
            continue
        key = change.host, change.advice.knob
        if key not in found or found[key].weight < change.weight:
            found[key] = change
    return list(found.values())


def _slot_change(use: Use) -> Change | None:
    waits = wait_for_slots(use)
    by_table = use.session is None or (use.table is not None and use.table * use.connections < use.session)
    each = use.connections if by_table else 1
    in_effect = None if use.limit is None else use.limit // each
    if waits is None:
        old_table = has_fixed_slots(use.client.snapshot) and by_table
        if in_effect is None or in_effect > _FEW_SLOTS or (in_effect == _FEW_SLOTS and not old_table):
            return None
    where = f"to {use.server}, NFSv{use.version}"
    if use.limit is None or in_effect is None:
        why = [f"How many calls can be in flight {where}, is not in the snapshot."]
    else:
        unit = f"{use.connections} connections x {in_effect}" if each > 1 else count_of(in_effect, "slot")
        why = [f"No more than {count_of(use.limit, 'call')} can be in flight {where} ({unit})."]
    share = 0.0
    if waits is not None:
        why.append(f"Measured {use.client.since('the mount')}: {waits}")
        share = (use.queue_ms or 0) / ((use.queue_ms or 0) + (use.rtt_ms or 0) or 1)
    needed = needed_in_flight(use) if waits is not None else None
    return Change(
        host=use.client.name,
        measured=waits is not None,
        why=tuple(why),
        advice=advice.slots(
            use.client.snapshot, in_effect, None if needed is None else -(-needed // each), use.version
        ),
        weight=1 + share if waits is not None else 0.7,
    )


def _tcp_changes(host: Host) -> list[Change]:
    found = []
    for name, why in (
        ("net.ipv4.tcp_window_scaling", "Off: no more than 65535 bytes are in flight on a connection."),
        ("net.ipv4.tcp_sack", "Off: with several segments lost, one is repaired in each round trip."),
    ):
        if host.snapshot.setting(name) == 0:
            found.append(Change(host.name, False, (why,), advice.tcp_switch(name, "0"), 0.6))
    return found


def _misspelt(host: Host) -> list[Change]:
    why = "There is no setting of this name: the line has no effect."
    return [Change(host.name, False, (why,), each, 0.5) for each in misspelt(host.snapshot)]
