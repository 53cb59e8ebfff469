"""Hosts, and what clients may send to servers -> remarks: what to know that needs no command, or not yet."""

from __future__ import annotations

from collections.abc import Sequence

from nfslat.answer.tune import Change, Remark
from nfslat.findings.tune.hosts import Host, Use, in_flight, lacks_threads, wait_for_slots, woken_share
from nfslat.findings.tune.knobs import MOST_SLOTS, PER_CONNECTION, count_of, kernel, sources
from nfslat.findings.tune.rows import configured, same_value

_NAMED = 4  # clients that a sentence names
_NEAR = 0.8  # of the connections that a server keeps
_AVERAGE = " Quiet hours count as well: two snapshots around the load say more."


def of_configuration(host: Host) -> list[Remark]:
    """Files that say something else than what is in effect."""
    found = []
    for name, wanted in configured(host.snapshot).items():
        own = host.snapshot.settings.get(name)
        if own is None or same_value(own.value, wanted.value):
            continue
        text = f"{name} is {own.value}, but {wanted.source} has {wanted.value}: "
        ids: tuple[str, ...] = ()
        if name == "nfsd.threads":
            text += "the next start of the NFS server will take that."
            ids = ("threads-older" if "sysconfig" in wanted.source else "threads-set",)
        elif name.startswith("sunrpc.") and "sysctl" in wanted.source:
            text += "never applied, or changed since; sysctl.d is read before sunrpc is loaded, so use modprobe.d."
            ids = ("slots-boot",)
        else:
            text += "changed since, or it waits for the next boot or load of the module."
        found.append(Remark(host.name, text, sources(*ids)))
    return found


def of_capacity(server: Host, uses: Sequence[Use], raised: Sequence[Change]) -> list[Remark]:
    """Slots x connections x clients against threads."""
    threads = server.threads or 0
    have = count_of(threads, "thread")
    found = []
    terms = ", ".join(f"{use.client.name} {_several(use.limit)} (NFSv{use.version})" for use in uses[:_NAMED])
    terms += f" and {len(uses) - _NAMED} more" if len(uses) > _NAMED else ""
    most = in_flight(uses)
    ids = ("session-shared",) if any(use.has_session for use in uses) else ("nconnect-slots",)
    if most is not None and most <= threads and lacks_threads(server):
        text = (
            f"{have}, and too few by its counters, although these clients can have at most {most} calls in flight "
            f"({terms}): other clients use it, or the snapshots are of different times."
        )
        found.append(Remark(server.name, text, sources("pool-stats", *ids)))
    elif most is not None and most <= threads:
        text = f"{have} for at most {count_of(most, 'call')} in flight: {terms}. More threads alone change nothing"
        clients = {use.client.name for use in uses}
        text += "; once more slots are set, look again." if any(one.host in clients for one in raised) else "."
        found.append(Remark(server.name, text, sources(*ids)))
    elif most is not None and most < MOST_SLOTS:
        text = f"{have} for up to {most} calls in flight: {terms}. What exceeds {threads} waits on the server."
        found.append(Remark(server.name, text, sources(*ids)))
    elif most is not None:
        text = (
            f"{have}; the clients' slots are effectively unlimited ({terms}). Calls in flight beyond {threads} wait "
            "on the server: captures show how many there are."
        )
        found.append(Remark(server.name, text, sources("slots-ceiling", *ids)))
    known = {address for use in uses for address in use.client.snapshot.addresses}
    others = [address for address in server.snapshot.clients if address not in known]
    if others and known:
        text = f"{len(others)} more clients are connected, without a snapshot: they use the same threads."
        found.append(Remark(server.name, text, ()))
    return found


def of_free_threads(server: Host) -> list[Remark]:
    """That threads are free, where the server's counters show it."""
    share = woken_share(server)
    version = kernel(server.snapshot)
    # Older kernels count as queued only what found no thread: there a share says nothing of free ones.
    if share is None or version is None or version < (6, 1) or lacks_threads(server):
        return []
    text = (
        f"{server.since('nfsd was started')}, {share:.2f} threads were woken for each queued socket: one was nearly "
        f"always idle.{_AVERAGE if not server.interval else ''}"
    )
    return [Remark(server.name, text, sources("pool-stats"))]


def of_connections(server: Host) -> list[Remark]:
    """That a server is near the number of connections that it keeps."""
    snapshot, threads = server.snapshot, server.threads
    version = kernel(snapshot)
    # Of newer ones it depends on the patch level whether all connections count.
    if snapshot.served is None or not threads or version is None or version >= (6, 12):
        return []
    told = snapshot.setting("nfsd.max_connections")
    limit = told or (threads + 3) * 20
    if told is None or snapshot.served < _NEAR * limit:
        return []  # who may not read the setting does not know the limit
    whose = "max_connections" if told else f"({threads} threads + 3) x 20, as max_connections is 0"
    text = (
        f"{count_of(snapshot.served, 'connection')} to port 2049, and nfsd keeps {limit} ({whose}): beyond that it "
        "closes the oldest, and its client reconnects. dmesg then says: too many open connections."
    )
    return [Remark(server.name, text, sources("connections-kept"))]


def _several(limit: int | None) -> str:
    return "?" if limit is None else str(limit)


def of_mounts(use: Use, server: Host | None) -> list[Remark]:
    found = []
    name = use.client.name
    granted, asked = use.session, use.client.snapshot.setting("nfs.max_session_slots")
    if use.has_session and granted is not None and asked is not None and granted < asked:
        text = f"{use.server} granted {granted} of the {asked} session slots that the client asks for."
        found.append(Remark(name, text, sources("session-granted")))
    each = (use.limit or 0) // use.connections
    if server is None and each > PER_CONNECTION:
        text = (
            f"{use.server} is not among the snapshots. If it is ONTAP or Azure NetApp Files: it takes {PER_CONNECTION}"
            f" calls of a connection, this client may send {each}; set sunrpc.tcp_max_slot_table_entries to"
            f" {PER_CONNECTION}."
        )
        found.append(Remark(name, text, sources("connection-cap")))
    own = None if server is None else server.snapshot.setting("sunrpc.svc_rpc_per_connection_limit")
    if own and each > own:
        text = f"{use.server} takes {own} calls of a connection (svc_rpc_per_connection_limit); {each} may be sent."
        found.append(Remark(name, text, sources("connection-limit")))
    block = None if server is None else server.snapshot.setting("nfsd.max_block_size")
    sizes = [
        int(text) for mount in use.mounts if (text := mount.options.get("rsize", "")).isdecimal() and len(text) < 12
    ]
    if block and sizes and min(sizes) < block:
        text = f"rsize is {min(sizes)}, and the server would take {block}: it matters for large reads only."
        found.append(Remark(name, text, sources("transfer-size", "payload")))
    window = use.client.snapshot.settings.get("net.ipv4.tcp_rmem")
    most = window.value.split()[-1] if window is not None and window.value.split() else ""
    if most.isdecimal() and len(most) < 12 and sizes and int(most) < max(sizes):
        text = f"net.ipv4.tcp_rmem ends at {most} bytes: less than one READ of {max(sizes)} (rsize) can be on its way."
        found.append(Remark(name, text, sources("tcp-buffers")))
    if wait_for_slots(use) is None and use.backlog is not None and use.queue_ms is not None:
        text = (
            f"to {use.server}, {use.client.since('the mount')}: {use.backlog:.1f} calls wait for a slot on average;"
            f" {use.queue_ms:.1f} ms before a call is sent, {use.rtt_ms or 0:.1f} ms for the answer: no lack of slots."
            f"{_AVERAGE if not use.client.interval else ''}"
        )
        found.append(Remark(name, text, sources("backlog", "queue-time")))
    if use.resent:
        text = (
            f"{use.resent} calls to {use.server} were retransmitted: mountstats' queue times then say nothing "
            "about slots."
        )
        found.append(Remark(name, text, sources("queue-time")))
    timeo = min(
        (int(mount.options["timeo"]) for mount in use.mounts if _is_short(mount.options.get("timeo", ""))), default=0
    )
    if timeo and use.mounts[0].options.get("proto", "tcp").startswith("tcp"):
        text = f"timeo={timeo}: a call to {use.server} is retransmitted after {timeo / 10:g} s; the default is 60 s."
        found.append(Remark(name, text, sources("timeo")))
    return found


def _is_short(timeo: str) -> bool:
    return timeo.isdecimal() and len(timeo) < 6 and int(timeo) < 600
