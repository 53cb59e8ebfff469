"""A host, a value in effect and the number needed -> what to set, the commands, when it acts, how to check, the risk.

What findings print as advice, and `nfslat tune` too. Without a snapshot the Linux commands are given and other systems
named.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from nfslat.answer.advice import Advice
from nfslat.findings.tune.knobs import BY_NAME, MOST_SLOTS, PER_CONNECTION, REMEDIES, has_fixed_slots, kernel

if TYPE_CHECKING:
    from nfslat.evidence.records import Snapshot

_MOST_CONNECTIONS = 16  # fact nconnect
_AIX_THREADS = 3891  # fact aix-threads
_DEFAULT_SESSION_SLOTS, _MOST_SESSION_SLOTS = 64, 1024  # fact session-slots
_FIXED_LIMIT = 128  # fact slots-fixed


def with_headroom(needed: int) -> int:
    """Half as much again as `needed`, rounded up to a power of two (fact ``little``)."""
    return 1 << max((needed * 3 + 1) // 2 - 1, 0).bit_length()


def threads(snapshot: Snapshot | None, in_effect: int | None, needed: int | None) -> Advice:
    """More NFS server threads; `snapshot` is the server's.

    `needed` is the most calls that were in flight at the server: with that many threads none of them would have waited.
    """
    system = "" if snapshot is None else snapshot.system
    if (
        snapshot is not None
        and system in ("", "Linux")
        and re.match(r"(?:rhel|centos|ol) [4-7]\b", snapshot.distribution)
    ):
        system = "older Linux"
    remedy = REMEDIES.get(f"threads {system}", REMEDIES["threads"])
    if system == "AIX":
        return remedy.advice(in_effect, _AIX_THREADS)
    here = in_effect or 0
    if needed is not None:
        suggested = max(with_headroom(needed), here)
    elif system == "SunOS" and here < 512:
        suggested = 512  # fact solaris-case
    else:
        suggested = 64 if here < 64 else 2 * here
    return remedy.advice(in_effect, suggested)


def connection_cap(snapshot: Snapshot | None, in_effect: int | None, needed: int | None) -> Advice:
    """A server that takes no more than `in_effect` requests of one connection; `needed` is for all connections.

    `snapshot` is the server's: the limit of a Linux server is a setting of its own
    (``svc_rpc_per_connection_limit``). For others the advice is for the clients, which need no snapshot.
    """
    own = None if snapshot is None else snapshot.setting("sunrpc.svc_rpc_per_connection_limit")
    if own:
        return REMEDIES["connection own"].advice(own, 0)
    cap = in_effect or PER_CONNECTION
    connections = min(max(-(-with_headroom(needed) // cap) if needed else 2, 2), _MOST_CONNECTIONS)
    value = None if in_effect is None else f"{in_effect} requests in flight on a connection"
    suggested = f"nconnect={connections}, and no more than {cap} slots a connection"
    return REMEDIES["connection"].advice(value, suggested, slots=cap, connections=connections)


def tcp_switch(name: str, value: str) -> Advice:
    """A TCP feature of Linux that is switched off and should be on: `name` as sysctl has it."""
    return REMEDIES["switch"].advice(value, 1, facts=BY_NAME[name].facts, name=name)


def slots(
    snapshot: Snapshot | None, in_effect: int | None, needed: int | None, version: str, granted: int | None = None
) -> Advice:
    """More requests in flight from a client, on one connection ("3", "4.0") or in a session ("4.1" and later).

    `in_effect` is the limit that was seen, `needed` the requests in flight that leave nobody waiting. Both, and the
    number suggested, are those of one connection: with nconnect the caller divides what is seen and needed among the
    connections. Where the session is the limit they are those of the whole session, whose slots all its connections
    share. For NFSv4.1 it is the session's setting, the slots that the server granted, or the connection's table,
    whichever is the smallest. `granted` is what the server's reply to CREATE_SESSION gave, where it is known.
    """
    system, here = "" if snapshot is None else snapshot.system, in_effect or 0
    if system == "SunOS":
        return REMEDIES["slots SunOS"].advice(in_effect, max(with_headroom(needed or 0), 64, here))
    if system not in ("", "Linux"):
        suggested = "not known" if needed is None else max(with_headroom(needed), here)
        return REMEDIES["slots elsewhere"].advice(in_effect, suggested, system=system)
    has_session = version.startswith("4.") and not version.startswith("4.0")
    if has_session and not _table_is_the_limit(snapshot, in_effect):
        return _session_slots(snapshot, in_effect, needed, granted)
    if snapshot is not None and has_fixed_slots(snapshot):
        short = f"; {needed} are needed, and this kernel has no more than {_FIXED_LIMIT}"
        is_short = needed is not None and needed > _FIXED_LIMIT
        return REMEDIES["slots fixed"].advice(in_effect, _FIXED_LIMIT, risk=short if is_short else "")
    wanted = min(max(PER_CONNECTION, with_headroom(needed) if needed is not None else 2 * here, here), MOST_SLOTS)
    table = REMEDIES["slots table"]
    over = f"; above {PER_CONNECTION} ONTAP and Azure NetApp Files push back: then nconnect rather than more slots"
    facts = ["v40-slots"] if version.startswith("4.0") or version == "4" else []
    if snapshot is None or (kernel(snapshot) is None and table.knob not in snapshot.settings):
        older = f"sunrpc.tcp_slot_table_entries={min(wanted, _FIXED_LIMIT)}"
        table = table._replace(how=(*table.how, f"# a kernel without that file has a fixed table: {older}"))
        facts = ["slots-fixed", *facts]
    return table.advice(in_effect, wanted, risk=over if wanted > PER_CONNECTION else "", facts=facts)


def _table_is_the_limit(snapshot: Snapshot | None, in_effect: int | None) -> bool:
    """Whether a session's requests are held by the connection's slot table, which every request needs as well."""
    table = None if snapshot is None else snapshot.setting("sunrpc.tcp_max_slot_table_entries")
    session = None if snapshot is None else snapshot.setting("nfs.max_session_slots")
    return (
        table is not None and table < (session or _DEFAULT_SESSION_SLOTS) and (in_effect is None or in_effect >= table)
    )


def _session_slots(snapshot: Snapshot | None, in_effect: int | None, needed: int | None, granted: int | None) -> Advice:
    asked = None if snapshot is None else snapshot.setting("nfs.max_session_slots")
    if asked is not None and in_effect is not None and in_effect < asked:
        return REMEDIES["slots granted"].advice(in_effect, f"{asked}, which the client asks for")
    here = in_effect or _DEFAULT_SESSION_SLOTS
    wanted = with_headroom(needed) if needed is not None else 2 * here if here >= _DEFAULT_SESSION_SLOTS else 0
    suggested = min(max(wanted, in_effect or 0, _DEFAULT_SESSION_SLOTS), _MOST_SESSION_SLOTS)
    first: tuple[str, ...] = ()
    if granted is not None and in_effect is not None and in_effect < granted:
        suggested = min(suggested, granted)  # the client keeps to fewer by itself; the server gives no more than that
    elif granted is not None and asked is None:
        first = (
            "cat /sys/module/nfs/parameters/max_session_slots",
            f"# above {granted}: that is all that the server grants, and no setting of the client gives more; else:",
        )
    return REMEDIES["slots session"].advice(in_effect, suggested, first=first)
