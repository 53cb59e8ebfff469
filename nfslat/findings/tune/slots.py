"""A client, its limit and the need -> which slot setting to raise: the table's, the session's, an old kernel's."""

from __future__ import annotations

from typing import TYPE_CHECKING

from nfslat.answer.advice import Advice
from nfslat.findings.tune.form import MORE_LOAD, PER_CONNECTION, REMOUNT, linux_slots, sources, told, with_headroom
from nfslat.findings.tune.knobs import MOST_SLOTS, has_fixed_slots, kernel

if TYPE_CHECKING:
    from nfslat.evidence.records import Snapshot

_DEFAULT_SESSION_SLOTS, _MOST_SESSION_SLOTS = 64, 1024  # fact session-slots
_FIXED_LIMIT = 128  # fact slots-fixed

_CHECK_SLOTS = "cat /proc/sys/sunrpc/tcp_max_slot_table_entries; `rpc bklog` of nfsiostat goes to 0 and avg queue falls"


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
    system = "" if snapshot is None else snapshot.system
    if system == "SunOS":
        return _solaris_slots(in_effect, needed)
    if system not in ("", "Linux"):
        return Advice(
            knob="requests in flight of the NFS client",
            value=told(in_effect),
            suggested=told(None if needed is None else max(with_headroom(needed), in_effect or 0)),
            how=(f"# nfslat knows no such setting for {system}: see its manual",),
            takes_effect="not known",
            verify="take the captures again",
            risk=MORE_LOAD,
            sources=sources("little"),
        )
    if _has_session(version) and not _table_is_the_limit(snapshot, in_effect):
        return _session_slots(snapshot, in_effect, needed, granted)
    if snapshot is not None and has_fixed_slots(snapshot):
        return _fixed_slots(in_effect, needed)
    wanted = with_headroom(needed) if needed is not None else 2 * (in_effect or 0)
    suggested = min(max(PER_CONNECTION, wanted, in_effect or 0), MOST_SLOTS)
    knob = "sunrpc.tcp_max_slot_table_entries"
    unknown = snapshot is None or (kernel(snapshot) is None and knob not in snapshot.settings)
    older = (
        f"# a kernel without that file has a fixed table: sunrpc.tcp_slot_table_entries={min(suggested, _FIXED_LIMIT)}",
    )
    over = f"; above {PER_CONNECTION} ONTAP and Azure NetApp Files push back: then nconnect rather than more slots"
    return Advice(
        knob=knob,
        value=told(in_effect),
        suggested=str(suggested),
        how=linux_slots(knob, suggested) + (older if unknown else ()),
        takes_effect=REMOUNT,
        verify=_CHECK_SLOTS,
        risk=MORE_LOAD + (over if suggested > PER_CONNECTION else ""),
        sources=sources("slots-ceiling", "slots-when", "slots-boot", "backlog", "connection-cap")
        + (sources("slots-fixed") if unknown else ())
        + (sources("v40-slots") if version.startswith("4.0") or version == "4" else ()),
    )


def _has_session(version: str) -> bool:
    return version.startswith("4.") and not version.startswith("4.0")


def _table_is_the_limit(snapshot: Snapshot | None, in_effect: int | None) -> bool:
    """Whether a session's requests are held by the connection's slot table, which every request needs as well."""
    table = None if snapshot is None else snapshot.setting("sunrpc.tcp_max_slot_table_entries")
    session = None if snapshot is None else snapshot.setting("nfs.max_session_slots")
    return (
        table is not None and table < (session or _DEFAULT_SESSION_SLOTS) and (in_effect is None or in_effect >= table)
    )


def _fixed_slots(in_effect: int | None, needed: int | None) -> Advice:
    short = needed is not None and needed > _FIXED_LIMIT
    knob = "sunrpc.tcp_slot_table_entries"
    return Advice(
        knob=knob,
        value=told(in_effect),
        suggested=str(_FIXED_LIMIT),
        how=linux_slots(knob, _FIXED_LIMIT),
        takes_effect=REMOUNT,
        verify="cat /proc/sys/sunrpc/tcp_slot_table_entries; `rpc bklog` of nfsiostat goes to 0 and avg queue falls",
        risk=MORE_LOAD + (f"; {needed} are needed, and this kernel has no more than {_FIXED_LIMIT}" if short else ""),
        sources=sources("slots-fixed", "slots-when", "slots-boot", "backlog"),
    )


def _session_slots(snapshot: Snapshot | None, in_effect: int | None, needed: int | None, granted: int | None) -> Advice:
    asked = None if snapshot is None else snapshot.setting("nfs.max_session_slots")
    if asked is not None and in_effect is not None and in_effect < asked:
        return Advice(
            knob="session slots granted by the server",
            value=str(in_effect),
            suggested=f"{asked}, which the client asks for",
            how=(
                "# no setting of a Linux server: it grants by the memory of its duplicate reply cache;",
                "# give it more memory, or a kernel from 6.14 on, which grants on demand",
                "# until then NFSv3 does not have this limit: mount -o vers=3",
            ),
            takes_effect="with a new session: unmount every mount of that server first, then mount again",
            verify="the CREATE_SESSION reply in a capture of the mount: ca_maxrequests of the fore channel",
            risk="NFSv3 has no sessions, and other locking",
            sources=sources("session-granted", "session-slots"),
        )
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
    return Advice(
        knob="nfs.max_session_slots",
        value=told(in_effect),
        suggested=str(suggested),
        how=(
            *first,
            f"echo {suggested} >/sys/module/nfs/parameters/max_session_slots",
            f"echo options nfs max_session_slots={suggested} >>/etc/modprobe.d/nfs.conf",
        ),
        takes_effect="with a new session: unmount every mount of that server first, then mount again; or reboot",
        verify="cat /sys/module/nfs/parameters/max_session_slots; avg queue of nfsiostat falls (rpc bklog is 0 anyway)",
        risk=f"{MORE_LOAD}; the server may grant fewer (Linux 6.12: 160 at most; ONTAP, Azure NetApp Files: 180)",
        sources=sources("session-slots", "session-set", "session-granted", "session-wait", "connection-cap"),
    )


def _solaris_slots(in_effect: int | None, needed: int | None) -> Advice:
    suggested = max(with_headroom(needed or 0), 64, in_effect or 0)
    return Advice(
        knob="nfs:nfs3_max_threads",
        value=told(in_effect),
        suggested=str(suggested),
        how=(f"echo 'set nfs:nfs3_max_threads={suggested}' >>/etc/system", "init 6"),
        takes_effect="/etc/system is read at boot, the setting at each mount",
        verify="echo nfs3_max_threads/D | mdb -k",
        risk=f"{MORE_LOAD}; it limits asynchronous requests only: read-ahead, writes of pages, commit",
        sources=sources("solaris-client"),
    )
