"""Snapshots -> hosts, and for each server that a client mounts: connections, slots, and what its counters measured."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

from nfslat.evidence import interval
from nfslat.evidence.records import Mount, Pool, Snapshot, Xprt
from nfslat.findings.tune.knobs import MOST_SLOTS, has_fixed_slots
from nfslat.model.record import Record

_ENOUGH_OPS = 100  # fewer are the mount itself and a look around
_ENOUGH_WAKEUPS = 100
_FEW_WOKEN = 0.5  # fact pool-stats: between 0.04 and 0.9
_FEW_WOKEN_EVER = 0.9  # of all since the start, idle hours included


class Host(Record):
    """One host. `mounts` and `pools` count since the mount and since the start, or between two snapshots."""

    name: str
    snapshot: Snapshot  # the later one
    mounts: tuple[Mount, ...]
    pools: tuple[Pool, ...]
    interval: bool

    @property
    def threads(self) -> int | None:
        """Threads of its NFS server, or the most it may make; None where none runs or it is not told."""
        return self.snapshot.threads

    def since(self, start: str) -> str:
        """The time that its counters are of, in words; `start` is when they begin where there is one snapshot."""
        return "between the two snapshots" if self.interval else f"since {start}"

    @property
    def roles(self) -> str:
        """ "client", "server", "client and server" or ""."""
        return " and ".join(
            word for word, true in (("client", self.snapshot.mounts), ("server", self.threads is not None)) if true
        )


def hosts_of(snapshots: Sequence[Snapshot]) -> tuple[tuple[Host, ...], list[str]]:
    """The hosts in the order in which they were given, and what has to be said of their counters.

    Two snapshots with one host name are before and after: `taken` tells which, else the order. Addresses that differ
    make them two hosts; so does the name localhost.
    """
    groups: list[list[Snapshot]] = []
    for snapshot in snapshots:
        same = next((group for group in groups if _is_same_host(group[-1], snapshot)), None)
        if same is None:
            groups.append([snapshot])
        else:
            same.append(snapshot)
    hosts = []
    notes: list[str] = []
    names: set[str] = set()
    for group in groups:
        first, last = (group[0], group[-1]) if group[0].taken <= group[-1].taken else (group[-1], group[0])
        name = last.hostname or last.name
        if name in names:
            name = f"{name} ({last.name})"
        names.add(name)
        mounts, waits = last.mounts, last.pools
        compared = len(group) > 1 and first.boot == last.boot
        if len(group) > 1 and not compared:
            notes.append(
                f"{name}: {first.name} and {last.name} are of different boots: counters are of {last.name} only"
            )
        if compared:
            mounts, said = interval.mounts_between(first.mounts, last.mounts)
            waits, also = interval.pools_between(first.pools, last.pools)
            notes += [f"{name}: {note}" for note in (*said, *also)]
        hosts.append(Host(name, last, mounts, waits, compared))
    return tuple(hosts), notes


def _is_same_host(one: Snapshot, other: Snapshot) -> bool:
    if one.hostname != other.hostname or one.hostname in ("", "localhost", "(none)"):
        return False
    return not one.addresses or not other.addresses or bool(set(one.addresses) & set(other.addresses))


class Use(Record):
    """What one client may send, and sent, to one server with one kind of slots. Limits are None where not known."""

    client: Host
    server: str  # as the mounts name it
    address: str  # of the server; "" where it is not told
    version: str
    mounts: tuple[Mount, ...]
    connections: int
    table: int | None  # slots of one connection
    session: int | None  # slots of the NFSv4.1 session: granted, or else what the client asks for
    limit: int | None  # requests in flight at once
    backlogs: tuple[float, ...]  # of each connection that sent: requests that wait for a slot of its table, mean
    queue_ms: float | None  # mean wait of an operation before it is sent; None: too few, or some were sent again
    rtt_ms: float | None  # mean from sent to answered, of the same operations
    resent: int  # transmissions beyond one for each operation

    @property
    def has_session(self) -> bool:
        """NFSv4.1 and later."""
        return self.version.startswith("4.") and self.version != "4.0"

    @property
    def backlog(self) -> float | None:
        """Requests that wait for a slot on all connections together, mean; None where nothing was sent."""
        return math.fsum(self.backlogs) if self.backlogs else None

    @property
    def lacks_slots(self) -> bool:
        """Whether half a request or more waits on each connection, on average (fact backlog)."""
        return bool(self.backlogs) and math.fsum(self.backlogs) >= 0.5 * len(self.backlogs)


def uses_of(client: Host) -> tuple[Use, ...]:
    """One for each server and kind of slots that the client mounts. Mounts of one server share its connections."""
    groups: dict[tuple[str, str], list[Mount]] = {}
    for mount in client.mounts or client.snapshot.mounts:
        groups.setdefault((mount.server, mount.version), []).append(mount)
    return tuple(_use(client, version, tuple(mounts)) for (_, version), mounts in groups.items())


def _use(client: Host, version: str, mounts: tuple[Mount, ...]) -> Use:
    xprts = distinct(mounts)
    asked = [int(text) for mount in mounts if (text := mount.options.get("nconnect", "")).isdecimal() and len(text) < 4]
    connections = max([len(xprts), *asked, 1])
    snapshot = client.snapshot
    udp = any(mount.options.get("proto", "").startswith("udp") for mount in mounts)
    ceiling = "tcp_slot_table_entries" if has_fixed_slots(snapshot) else "tcp_max_slot_table_entries"
    table = snapshot.setting(f"sunrpc.{'udp_slot_table_entries' if udp else ceiling}")
    granted = [mount.slots for mount in mounts if mount.slots]
    session = min(granted) if granted else snapshot.setting("nfs.max_session_slots")
    has_session = version.startswith("4.") and version != "4.0"
    limits = [table * connections] if table is not None else []
    if has_session:
        limits += [session] if session is not None else []
    ops = [stats for mount in mounts for stats in mount.ops.values()]
    count, sent = sum(each.ops for each in ops), sum(each.transmissions for each in ops)
    steady = count >= _ENOUGH_OPS and interval.queue_tells(count, sent)  # fact queue-time
    return Use(
        client=client,
        server=mounts[0].server_name,
        address=mounts[0].options.get("addr", ""),
        version=version,
        mounts=mounts,
        connections=connections,
        table=table,
        session=session if has_session else None,
        limit=min(limits, default=None),
        backlogs=tuple(xprt.backlog_u / xprt.sends for xprt in xprts if xprt.sends > 0),
        queue_ms=sum(each.queue_ms for each in ops) / count if steady else None,
        rtt_ms=sum(each.rtt_ms for each in ops) / count if steady else None,
        resent=max(sent - count, 0),
    )


def distinct(mounts: Iterable[Mount]) -> tuple[Xprt, ...]:
    """The connections of mounts of one server: each mount that shares them prints them again."""
    found: dict[tuple[str, int, int], Xprt] = {}
    for mount in mounts:
        for place, xprt in enumerate(mount.xprts):
            # A port of 0 or 1 stands for "not bound": then its place in the list has to do.
            key = (xprt.transport, xprt.source_port, 0 if xprt.source_port > 1 else place)
            found.setdefault(key, xprt)
    return tuple(found.values())


def is_served_by(use: Use, server: Host) -> bool:
    """Whether a client's mounts are of this server: by address, or by name where no address is told."""
    addresses = {use.address, use.server} & set(server.snapshot.addresses)
    name = server.snapshot.hostname.partition(".")[0].lower()
    return bool(addresses) or (bool(name) and use.server.partition(".")[0].lower() == name)


def woken_share(server: Host) -> float | None:
    """Woken threads for each queued socket (fact ``pool-stats``); None where too few were queued to tell."""
    enough = sum(pool.sockets_enqueued for pool in server.pools) >= _ENOUGH_WAKEUPS
    return interval.woken_share(server.pools) if enough else None


def lacks_threads(server: Host) -> bool:
    """Whether the server's own counters show that sockets waited for a thread."""
    share = woken_share(server)
    return share is not None and share < (_FEW_WOKEN if server.interval else _FEW_WOKEN_EVER)


def needed_in_flight(use: Use) -> int | None:
    """Requests in flight that leave nobody waiting: those under way and those that waited; None where not measured."""
    if use.limit is None:
        return None
    if use.lacks_slots:
        return use.limit + math.ceil(use.backlog or 0)
    if use.queue_ms is not None and use.rtt_ms:
        return min(math.ceil(use.limit * (1 + use.queue_ms / use.rtt_ms)), MOST_SLOTS)
    return None


def wait_for_slots(use: Use) -> str | None:
    """What the counters say of a wait for slots; None where they show none (facts backlog, session-wait)."""
    queue = ""
    if use.queue_ms is not None and use.rtt_ms is not None:
        queue = f"a call waits {use.queue_ms:.1f} ms before it is sent, then {use.rtt_ms:.1f} ms for the answer"
    if use.lacks_slots:
        backlog = f"{use.backlog:.1f} calls wait for a slot on average"
        if len(use.backlogs) > 1:
            each = (use.backlog or 0) / len(use.backlogs)
            backlog += f" ({each:.1f} on each of {len(use.backlogs)} connections)"
        return f"{queue}; {backlog} (mountstats)." if queue else f"{backlog} (mountstats)."
    if use.has_session and use.queue_ms is not None and use.queue_ms >= max(1.0, 0.5 * (use.rtt_ms or 0)):
        return f"{queue} (mountstats)."
    return None


def in_flight(uses: Sequence[Use]) -> int | None:
    """What these clients may send at once; None where one of them does not tell."""
    limits = [use.limit for use in uses]
    known = [limit for limit in limits if limit is not None]
    return sum(known) if known and len(known) == len(limits) else None
